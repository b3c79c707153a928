//! The run that somebody means.

use autoloop_core::run::{Run, Runs};
use autoloop_core::suggest::suggest;

use crate::failure::Failure;

/// The most candidates that are named.
const NAMED: usize = 10;

/// Why a name means no run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// There is none, but perhaps one that was meant.
    None(Option<String>),
    /// There are several that begin with it.
    Several(Vec<String>),
}

/// Finds a run by its id, by the beginning of it, or as the `latest`.
pub(super) fn find<'r>(runs: &'r Runs, name: &str) -> Result<&'r Run, Miss> {
    if let Some(run) = runs.get(name) {
        return Ok(run);
    }
    if name == "latest" {
        return latest(runs).ok_or(Miss::None(None));
    }
    let begins = |run: &&Run| !name.is_empty() && run.id.starts_with(name);
    let mut found: Vec<&Run> = runs.iter().rev().filter(begins).collect();
    // The branches of a run begin with its name.
    if found.iter().any(|run| run.stands_alone()) {
        found.retain(|run| run.stands_alone());
    }
    match found.as_slice() {
        [run] => Ok(run),
        [] => {
            let ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
            Err(Miss::None(suggest(name, ids).map(str::to_owned)))
        }
        several => Err(Miss::Several(several.iter().map(|run| run.id.clone()).collect())),
    }
}

/// The run that began last.
pub(super) fn latest(runs: &Runs) -> Option<&Run> {
    runs.iter().rev().find(|run| run.stands_alone())
}

impl Miss {
    pub(super) fn told(&self, name: &str, journal: &str) -> Failure {
        match self {
            Miss::None(meant) => {
                let failure = Failure::failed(format!("there is no run '{name}' in {journal}"));
                match meant {
                    Some(id) => failure.hint(format!("did you mean '{id}'?")),
                    None => failure.hint("`autoloop loops --all` lists every run"),
                }
            }
            Miss::Several(ids) => {
                let more = match ids.len().saturating_sub(NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let shown = &ids[..ids.len().min(NAMED)];
                Failure::usage(format!("{} runs begin with '{name}'", ids.len()))
                    .hint(format!("name one of them: {}{more}", shown.join(", ")))
            }
        }
    }
}
