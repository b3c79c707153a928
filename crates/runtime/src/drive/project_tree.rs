//! What an iteration left in the project if it brought no new event: a stalled run changes nothing.

use std::cell::OnceCell;
use std::path::PathBuf;

use autoloop_core::routing::{Admission, admit};
use autoloop_core::topology::Route;
use autoloop_core::wave::Parallel;

use super::Foreign;
use super::worktrees::Worktrees;
use crate::git::GitError;
use crate::layout::StateDir;
use crate::world::World;

pub(super) struct ProjectTree<'w> {
    pub(super) project: PathBuf,
    pub(super) state_dir: StateDir,
    pub(super) world: &'w World,
    /// An event that counts as new only once, when it completes the run.
    pub(super) completion_event: String,
    pub(super) found: OnceCell<Option<String>>,
}

impl ProjectTree<'_> {
    /// The git tree object of the project; `None` where the agent emitted a new event, and outside of a repository.
    pub(super) fn find(
        &self,
        foreign: &Foreign,
        parallel: &Parallel,
        route: &Route,
    ) -> Option<String> {
        let is_new = |topic| admit(topic, &route.events, parallel) == Admission::Accepted;
        let mut new = foreign.events.iter().filter(|topic| is_new(topic));
        match new.any(|topic| topic.as_str() != self.completion_event) {
            true => None,
            // Where git fails nothing is known about the project, and nothing is concluded.
            false => self.found.get_or_init(|| self.capture().ok()).clone(),
        }
    }

    fn capture(&self) -> Result<String, GitError> {
        let trees = Worktrees::find(&self.project, &self.state_dir, self.world)?;
        trees.capture(&trees.project()?, &trees.base()?)
    }
}
