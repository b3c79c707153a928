//! How a queue of items is worked off: `slots.*`, resolved.

use std::path::PathBuf;

use super::{BackendPlan, count};
use crate::config::{
    AgentKeys, Isolation, ItemSource, Key, Origin, Sandbox, Settings, shell_words,
};
use crate::slot::{Commit, NewItems, Review, SlotRules};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotsPlan {
    /// What decisions depend on. Whether there is a reviewer prompt is not known here.
    pub rules: SlotRules,
    pub developer_prompt: PromptPath,
    pub reviewer_prompt: PromptPath,
    pub source: ItemSource,
    /// The command of beads and its first arguments.
    pub beads: Vec<String>,
    /// `None` means the default.
    pub isolation: Option<Isolation>,
    /// The text after which no further iteration starts.
    pub stop_marker: Option<String>,
    pub reviewer: BackendPlan,
    pub sandbox: Sandbox,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptPath {
    /// In the default locations.
    Usual,
    /// Relative to the project.
    Named(PathBuf),
    /// Explicitly none.
    Nothing,
}

impl SlotsPlan {
    pub(super) fn resolve(settings: &Settings) -> SlotsPlan {
        let rules = SlotRules {
            iterations: Some(count(settings, Key::SlotsIterations)).filter(|most| *most > 0),
            parallel_agents: count(settings, Key::SlotsParallelAgents),
            review: match settings.flag(Key::SlotsReviewEnabled) {
                true => Review::On,
                false => Review::Off,
            },
            max_fix_attempts: count(settings, Key::SlotsMaxFixAttempts),
            contract_repair: count(settings, Key::SlotsContractRepair),
            new_items: match settings.flag(Key::SlotsIncludeNew) {
                true => NewItems::Included,
                false => NewItems::Excluded,
            },
            max_items: max_items(settings),
            commit: match settings.flag(Key::SlotsCommit) {
                true => Commit::On,
                false => Commit::Off,
            },
        };
        SlotsPlan {
            rules,
            developer_prompt: prompt(settings, Key::SlotsDeveloperPrompt),
            reviewer_prompt: prompt(settings, Key::SlotsReviewerPrompt),
            source: settings.word(Key::SlotsSource),
            beads: command(settings.text(Key::SlotsBeadsCommand).unwrap_or_default()),
            isolation: settings.choice(Key::SlotsIsolation),
            stop_marker: settings.text(Key::SlotsStopMarker).map(str::to_owned),
            reviewer: BackendPlan::new(settings, &AgentKeys::SLOT_REVIEWER),
            sandbox: settings.word(Key::ReviewSandbox),
        }
    }

    /// The default isolation: several slots work in worktrees.
    pub fn usual_isolation(&self) -> Isolation {
        match self.rules.parallel_agents {
            0 | 1 => Isolation::Shared,
            _ => Isolation::Worktree,
        }
    }
}

/// The maximum number of items of a run that takes new ones, if no limit is set: agents may add a task in
/// every turn.
const MAX_WITH_NEW: u64 = 100;

fn max_items(settings: &Settings) -> Option<u64> {
    match (count(settings, Key::SlotsMaxItems), settings.flag(Key::SlotsIncludeNew)) {
        (0, true) => Some(MAX_WITH_NEW),
        (0, false) => None,
        (most, _) => Some(most),
    }
}

/// Splits a command line; an invalid one is the name of a program.
fn command(text: &str) -> Vec<String> {
    match shell_words::split(text) {
        Ok(words) if !words.is_empty() => words,
        _ => vec![text.to_owned()],
    }
}

fn prompt(settings: &Settings, key: Key) -> PromptPath {
    match (settings.text(key), settings.origin(key)) {
        (Some(path), _) => PromptPath::Named(path.into()),
        (None, Origin::Default) => PromptPath::Usual,
        (None, _) => PromptPath::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BackendKind, Layer, PromptMode};
    use crate::plan::Plan;
    use crate::topology::Topology;
    use std::time::Duration;

    fn plan(text: &str) -> Plan {
        let reading = Settings::resolve(&[Layer::file(Origin::Project, "autoloops.toml", text)]);
        assert_eq!(reading.problems, []);
        Plan::resolve(&reading.settings, &Topology::default()).unwrap()
    }

    #[test]
    fn nothing_is_reviewed_and_one_slot_works_by_default() {
        let usual = plan("").slots;
        let rules = SlotRules {
            iterations: None,
            parallel_agents: 1,
            review: Review::Off,
            max_fix_attempts: 5,
            contract_repair: 0,
            new_items: NewItems::Excluded,
            max_items: None,
            commit: Commit::On,
        };
        assert_eq!(usual.rules, rules);
        let new = plan("slots.include_new = true").slots.rules;
        assert_eq!((new.new_items, new.max_items), (NewItems::Included, Some(100)));
        let most = |text: &str| plan(text).slots.rules.max_items;
        assert_eq!(most("slots = { include_new = true, max_items = 7 }"), Some(7));
        assert_eq!(most("slots.max_items = 7"), Some(7));
        assert_eq!(usual.developer_prompt, PromptPath::Usual);
        assert_eq!((usual.isolation, usual.usual_isolation()), (None, Isolation::Shared));
        assert_eq!(usual.stop_marker.as_deref(), Some("no_beads_available"));

        let own = plan(
            "[slots]\nreviewEnabled = true\nreviewMaxFixAttempts = 3\ndeveloperPromptPath = 'd.md'\n\
             reviewerPromptPath = ''\nparallelAgents = 4\niterations = 7\nsource = 'beads'\nbeads.command = 'br --fast'\nstopMarker = ''\n",
        )
        .slots;
        let rules = SlotRules {
            iterations: Some(7),
            parallel_agents: 4,
            review: Review::On,
            max_fix_attempts: 3,
            ..rules
        };
        assert_eq!((own.rules, own.source), (rules, ItemSource::Beads));
        assert_eq!(
            (&own.beads, &usual.beads),
            (&vec!["br".into(), "--fast".into()], &vec!["bd".into()])
        );
        assert_eq!(own.developer_prompt, PromptPath::Named("d.md".into()));
        assert_eq!(own.reviewer_prompt, PromptPath::Nothing);
        assert_eq!((own.usual_isolation(), own.stop_marker), (Isolation::Worktree, None));
        let shared = plan("slots = { parallelAgents = 4, isolation = 'shared' }").slots;
        assert_eq!(shared.isolation, Some(Isolation::Shared));
    }

    #[test]
    fn a_reviewer_is_like_the_loop_but_for_what_it_says() {
        let all =
            "backend = { command = 'x', args = ['-a'], timeout_ms = 7, prompt_mode = 'stdin' }\n";
        assert_eq!(plan(all).slots.reviewer, plan(all).backend);
        let own = plan(&format!(
            "{all}[slots.reviewer]\ncommand = 'pi'\nargs = []\nprompt_mode = 'file'\ntimeout_ms = '9s'\n"
        ));
        let own = own.slots.reviewer;
        assert_eq!((own.kind, &own.command[..], own.args.len()), (BackendKind::Pi, "pi", 0));
        assert_eq!((own.prompt_mode, own.timeout), (PromptMode::File, Duration::from_secs(9)));
    }
}
