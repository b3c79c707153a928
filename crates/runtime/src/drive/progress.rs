//! What is told while a run goes on.

use autoloop_core::merge::MergeOutcome;
use autoloop_core::run::Run;

/// Something worth telling while a run goes on.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The run begins.
    Began(&'a Run),
    /// The run is resumed.
    Resumed(&'a Run),
    /// An iteration begins.
    Iteration {
        /// Which one.
        number: u64,
        /// Of how many at most.
        of: u64,
        /// Who is to act.
        roles: &'a [String],
        /// The event that routes it.
        event: &'a str,
    },
    /// An iteration ended; the run as it is now.
    Iterated(&'a Run),
    /// A metareview begins.
    Review {
        /// The iteration that it comes before.
        before: u64,
    },
    /// Branches of a wave begin.
    Wave {
        /// Which wave.
        id: &'a str,
        /// How many branches.
        branches: usize,
    },
    /// A branch ended.
    Branch {
        /// Which one.
        id: &'a str,
        /// How: why its agent failed, or the reason it stopped for.
        how: &'a str,
    },
    /// The work of a branch was brought back, or was not.
    Merge {
        /// Of which one.
        id: &'a str,
        /// Whether it was.
        outcome: MergeOutcome,
    },
    /// A chain that the run asked for begins, or goes on.
    Chain {
        /// Which chain.
        id: &'a str,
        /// Its steps.
        steps: &'a str,
    },
    /// A chain that the run asked for ended.
    Chained {
        /// Which chain.
        id: &'a str,
        /// How.
        outcome: &'a str,
    },
    /// Something that a person should know.
    Note(&'a str),
}
