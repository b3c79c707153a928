//! Requests for waves: what agents request, and the expected outcome.

use autoloop_testkit::Dice;

use crate::rules::{COORDINATION, is_reserved, one_of};

/// The suffix of a request.
pub(crate) const PARALLEL: &str = ".parallel";
/// Requests that are odd in some way.
const ODD: [&str; 6] = [
    "x.ready.parallel",
    "z.ready.parallel",
    "task.complete.parallel",
    "done.now.parallel",
    "issue.discovered.parallel",
    "loop.stop.parallel",
];

/// A request for a wave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaveRequest {
    pub(crate) topic: String,
    pub(crate) list: String,
}

impl WaveRequest {
    /// Any request of an agent that may emit `example`.
    pub(crate) fn any(dice: &mut Dice, example: &str, most: u64) -> WaveRequest {
        let topic = match dice.below(5) {
            0 => one_of(dice, &ODD).to_owned(),
            1 => format!("{example}{PARALLEL}"),
            _ => format!("explore{PARALLEL}"),
        };
        WaveRequest { topic, list: any_list(dice, most) }
    }

    /// The objectives of the branches, or why there are none.
    pub(crate) fn objectives(&self, most: u64) -> Result<Vec<&str>, &'static str> {
        if self.list.len() > 10_000 {
            return Err("branch_list_too_long");
        }
        let lines = self.list.lines().filter(|line| !line.is_empty());
        let items = lines.map(|line| match line.split_once(' ') {
            Some(("-" | "*" | "1.", objective)) => Ok(objective),
            _ => Err("invalid_branch_list"),
        });
        let items = items.collect::<Result<Vec<_>, _>>()?;
        let is_again = |(place, item): (usize, &&str)| items[..place].contains(item);
        match items.len() as u64 {
            0 => Err("empty_branch_list"),
            count if count > most => Err("too_many_branches"),
            _ if items.iter().enumerate().any(is_again) => Err("duplicate_branches"),
            _ => Ok(items),
        }
    }
}

/// The base event of a request.
pub(crate) fn base(topic: &str) -> Option<&str> {
    topic.strip_suffix(PARALLEL)
}

/// Whether a wave can be about an event, if it is allowed.
pub(crate) fn can_be_about(base: &str, completion: &str) -> bool {
    base != completion && !COORDINATION.contains(&base) && !is_reserved(base)
}

fn any_list(dice: &mut Dice, most: u64) -> String {
    let mark = one_of(dice, &["-", "*", "1."]);
    let item = |number: u64| format!("{mark} part {number}\n");
    match dice.below(20) {
        0 => String::new(),
        1 => "look around".to_owned(),
        2 => format!("{}and more", item(1)),
        3 => (0..=most).map(item).collect(),
        4 if most > 1 => item(1).repeat(2),
        5 => item(1).repeat(2_000),
        // Never a part of a path, nor of a prompt's own lines.
        6 => format!("{mark} ../../{}\n", "x/".repeat(9)),
        _ => (0..=dice.below(most)).map(item).collect(),
    }
}
