//! How an agent of a slot is started: the job, its environment, and the files that it leaves.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use autoloop_core::env::Env;
use autoloop_core::plan::BackendPlan;
use autoloop_core::slot::{Phase, Slot};

use super::argument::found;
use super::{SlotDrive, SlotScene};
use crate::drive::DriveError;
use crate::drive::launch::{addressed, prompt_variable};
use crate::git::LOCATING_VARIABLES;
use crate::world::{Job, Spool};

/// An agent that is to be started for a slot.
pub(super) struct Order<'o> {
    pub(super) phase: Phase,
    pub(super) attempt: u64,
    pub(super) prompt: &'o str,
    pub(super) backend: &'o BackendPlan,
}

impl Order<'_> {
    /// The names of its files begin with this.
    fn name(&self) -> String {
        match self.phase {
            Phase::Implement | Phase::Merge => self.phase.to_string(),
            Phase::Review | Phase::Fix => format!("{}-{}", self.phase, self.attempt),
        }
    }
}

impl SlotDrive<'_> {
    /// The job of an agent, whose prompt is put into a file first.
    pub(super) fn job(&self, slot: &Slot, order: &Order<'_>) -> Result<Job, DriveError> {
        let world = self.scene.world;
        let dir = self.slot_dir(slot.iteration, slot.start.slot);
        let name = order.name();
        let prompt_path = dir.prompt(&name);
        world
            .disk
            .replace(&prompt_path, order.prompt.as_bytes())
            .map_err(|source| DriveError::Write { path: prompt_path.clone(), source })?;
        let SlotScene { program, project, .. } = &self.scene;
        let (home, env_removed) = match slot.start.branch.as_str() {
            "" => (None, Vec::new()),
            _ => (Some(&*project.dir), LOCATING_VARIABLES.map(OsString::from).into()),
        };
        let (mut job, _) = addressed(order.backend, (program, home), (order.prompt, &prompt_path));
        if let Some(home) = home {
            let tree = Path::new(&slot.start.tree);
            job.args.iter_mut().for_each(|arg| *arg = found(arg, (home, tree)));
        }
        let env = self.environment(slot, order, prompt_path);
        Ok(Job {
            env_removed,
            env: env.vars().into_iter().map(|(name, value)| (name.into(), value)).collect(),
            dir: Some(PathBuf::from(&slot.start.tree)),
            notes: Some(self.loaded.files.state_dir.shims()),
            spool: Some(Spool { stdout: dir.stdout(&name), stderr: dir.stderr(&name) }),
            ..job
        })
    }

    fn environment(&self, slot: &Slot, order: &Order<'_>, prompt_path: PathBuf) -> Env {
        let files = &self.loaded.files;
        Env {
            run_id: Some(self.look(|slots| slots.id.clone())),
            iteration: Some(slot.iteration.to_string()),
            project_dir: std::path::absolute(&self.scene.project.dir).ok(),
            state_dir: Some(files.state_dir.to_path_buf()),
            journal_file: Some(files.journal.clone()),
            bin: Some(files.state_dir.tool()),
            prompt_path: Some(prompt_path),
            prompt: prompt_variable(order.prompt, order.backend.kind),
            log_level: Some(self.loaded.plan.log_level.to_string()),
            slot_phase: Some(order.phase.to_string()),
            slot: Some(slot.start.slot.to_string()),
            item_id: Some(slot.start.item_id.clone()),
            fix_attempt: Some(order.attempt.to_string()),
            ..Env::default()
        }
    }
}
