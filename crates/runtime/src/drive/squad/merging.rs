//! Checks commits, and merges the work of loops: one at a time, and only what passes the checks after the merge.

use autoloop_core::config::Check;
use autoloop_core::evidence::in_code;
use autoloop_core::merge::{MergeOutcome, named_files};
use autoloop_core::record::{CheckFinish, SquadMerge};
use autoloop_core::squad::{Conflict, Squad};

use super::Shared;
use super::worktrees::LoopSpec;
use crate::drive::DriveError;
use crate::evidence::CheckRunner;
use crate::git::{Advanced, GitError, Prepared};
use crate::harness::create_dirs;

/// How far a merge came.
pub(super) enum Merging {
    Done {
        merge: SquadMerge,
        /// Of the merged commit.
        checks: Vec<CheckFinish>,
    },
    /// An agent is to resolve it.
    Conflict {
        loop_id: String,
        head: String,
        files: String,
    },
    Interrupted,
}

impl Shared<'_> {
    /// Runs a check on a clean checkout of a commit; `None` when it was interrupted.
    pub(super) fn check(
        &self,
        check: &Check,
        commit: &str,
        number: u64,
    ) -> Result<Option<CheckFinish>, DriveError> {
        let project = &self.launch.project;
        let dir = self.dir.squad_check(number);
        create_dirs(&dir, self.site.world)?;
        let runner = CheckRunner {
            site: &self.site,
            repository: Some(self.trees.repository()),
            project: &project.dir,
            home: project.env.home.as_deref(),
            sandbox: self.launch.loaded.plan.squad.sandbox,
            dir: &dir,
        };
        let name = if check.name.is_empty() { "cited" } else { &check.name };
        runner.run(check, commit, name)
    }

    /// Merges the work of a loop into what is checked out in the project. The checks are numbered from `first`.
    pub(super) fn merge(
        &self,
        squad: &Squad,
        loop_id: &str,
        checks: &[Check],
        first: u64,
    ) -> Result<Merging, DriveError> {
        let Some(it) = squad.find(loop_id) else { return Ok(Merging::Interrupted) };
        let mut done: Vec<CheckFinish> = Vec::new();
        let reviewed = it.work.as_ref().map_or("", |work| &work.commit);
        let resolved = match &it.conflict {
            Some(Conflict { resolution: Ok(commit), turn, .. }) => Some((commit, *turn)),
            _ => None,
        };
        let commit = resolved.map_or(reviewed, |(commit, _)| commit);
        let (name, subject) = (it.number.to_string(), squad.subject_of(&it.task_id));
        let spec = LoopSpec { id: &name, base: &it.base, subject: &subject };
        let merge = |outcome: MergeOutcome, commit: &str| SquadMerge {
            loop_id: loop_id.to_owned(),
            outcome: outcome.into(),
            commit: commit.to_owned(),
            resolved_by: resolved.map(|(_, turn)| turn),
            ..SquadMerge::default()
        };
        loop {
            let prepared = match self.trees.merge(&spec, commit, squad.head()) {
                // The user checked another branch out.
                Err(error @ GitError::Rewritten { .. }) => {
                    let busy = merge(MergeOutcome::Busy, commit);
                    let merge = SquadMerge { detail: Some(error.to_string()), ..busy };
                    return Ok(Merging::Done { merge, checks: done });
                }
                prepared => prepared?,
            };
            let merge = match prepared {
                Prepared::NoChange => merge(MergeOutcome::Nothing, squad.head()),
                Prepared::Already(commit) => merge(MergeOutcome::Merged, &commit),
                Prepared::InProgress(what) => SquadMerge {
                    detail: Some(format!("{what} is in progress in the project")),
                    ..merge(MergeOutcome::Busy, commit)
                },
                Prepared::Conflict { head, files } => {
                    let files = named_files(&files);
                    match &it.conflict {
                        Some(Conflict { head: tried, resolution, .. }) if *tried == head => {
                            let why = resolution.as_ref().err().cloned().unwrap_or_default();
                            SquadMerge {
                                files,
                                detail: Some(format!("the conflict was not resolved: {why}")),
                                ..merge(MergeOutcome::Conflict, reviewed)
                            }
                        }
                        _ => {
                            let loop_id = loop_id.to_owned();
                            return Ok(Merging::Conflict { loop_id, head, files });
                        }
                    }
                }
                Prepared::Merge { head, commit: merged } => {
                    let known = squad.checks_of(&merged);
                    for (number, check) in (first..).zip(checks) {
                        let is_it = |result: &&CheckFinish| {
                            result.command == check.command && result.commit == merged
                        };
                        let result = match known.iter().chain(&done).find(is_it).cloned() {
                            Some(result) => result,
                            None => match self.check(check, &merged, number)? {
                                Some(result) => {
                                    done.push(result.clone());
                                    result
                                }
                                None => return Ok(Merging::Interrupted),
                            },
                        };
                        if !result.passed() {
                            let detail = format!(
                                "after the merge the check {} failed: {}\n{}",
                                in_code(&check.command),
                                result.result(),
                                result.output
                            );
                            let failed = SquadMerge {
                                detail: Some(detail.trim_end().to_owned()),
                                ..merge(MergeOutcome::Failed, reviewed)
                            };
                            return Ok(Merging::Done { merge: failed, checks: done });
                        }
                    }
                    match self.trees.advance(&head, &merged)? {
                        Advanced::Done => merge(MergeOutcome::Merged, &merged),
                        Advanced::Moved => continue,
                        Advanced::Uncommitted(files) => SquadMerge {
                            files: named_files(&files),
                            ..merge(MergeOutcome::Uncommitted, commit)
                        },
                        Advanced::InProgress(what) => SquadMerge {
                            detail: Some(format!("{what} is in progress in the project")),
                            ..merge(MergeOutcome::Busy, commit)
                        },
                    }
                }
            };
            return Ok(Merging::Done { merge, checks: done });
        }
    }
}
