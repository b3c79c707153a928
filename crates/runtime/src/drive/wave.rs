//! Carries out a wave: its branches in parallel, then the merge of their work and the join.

use std::cell::OnceCell;
use std::path::Path;
use std::time::Duration;

use autoloop_core::config::Isolation;
use autoloop_core::limits::{Amounts, Scope, TimeLeft};
use autoloop_core::merge::{Merge, MergeOutcome};
use autoloop_core::prompt::wave::{OwnTree, join_page, joined_payload, result_page, spec_page};
use autoloop_core::record::{
    Amount, Body, Heading, Record, WaveBranchFinish, WaveInvalid, WaveJoinFinish, WaveStart,
};
use autoloop_core::run::{LoopFold, StopReason};
use autoloop_core::text::first_line;
use autoloop_core::topic::Topic;
use autoloop_core::wave::{BranchOrder, Join, MergeOrder, NO_WORKTREE, Wave, WaveStep};
use autoloop_core::wire_enum::Word;

use super::loop_driver::LoopDriver;
use super::loop_run::{Branch, LoopRun};
use super::parallel::together;
use super::worktrees::{Work, WorktreeSpec, Worktrees};
use super::{DriveError, write_file};
use crate::git::{GitError, branch_name};
use crate::launch::Opening;
use crate::layout::WaveDir;
use crate::project::{Loaded, Project};
use crate::site::{Progress, Site};
use crate::turn::millis;
use crate::world::World;

/// Maximum number of characters of a branch's output in the record of its end; its own records have all.
const LONGEST_OUTPUT: usize = 64 * 1024;
/// Maximum number of characters of an objective in the subject of a commit.
const LONGEST_SUBJECT: usize = 60;

pub(super) struct WaveDriver<'d, 'a> {
    pub(super) run: &'d mut LoopRun<'a>,
    pub(super) worktrees: &'d OnceCell<Worktrees>,
}

struct Ended {
    order: BranchOrder,
    /// `None` when it was interrupted, so that it has not ended.
    stop_reason: Option<Word<StopReason>>,
    detail: Option<String>,
    elapsed: Duration,
    /// The tree object that it left, where it had its own worktree.
    tree: Option<String>,
    output: String,
    /// What its turns took; `None` where its client reports nothing.
    taken: Option<Amounts>,
}

impl WaveDriver<'_, '_> {
    pub(super) fn step(&mut self, step: WaveStep) -> Result<(), DriveError> {
        match step {
            WaveStep::Refuse(invalid) => self.append(|heading| vec![invalid.record(heading)]),
            WaveStep::Open(start) => self.open(start),
            WaveStep::Branches(orders) => self.branches(orders),
            WaveStep::Merge(order) => self.merge(&order),
            WaveStep::Join(join) => self.join(&join),
        }
    }

    fn open(&mut self, mut start: WaveStart) -> Result<(), DriveError> {
        if isolation(&self.run.loaded) == Isolation::Worktree {
            match self.worktrees().and_then(|trees| trees.base()) {
                Ok(base) => start.base = Some(base),
                Err(error) => return self.refuse(&start, &error),
            }
        }
        self.write_page(&self.dir(&start.wave_id)?, "spec.md", &spec_page(&start))?;
        self.append(|heading| vec![start.record(heading)])
    }

    /// A wave that cannot have worktrees is backpressure, as any other that cannot begin.
    fn refuse(&mut self, start: &WaveStart, error: &GitError) -> Result<(), DriveError> {
        let invalid = WaveInvalid {
            trigger_topic: start.trigger_topic.clone(),
            reason: format!("{NO_WORKTREE}: {error}"),
            active_wave_id: String::new(),
            opening_recent_event: start.opening_recent_event.clone(),
        };
        self.append(|heading| vec![invalid.record(heading)])
    }

    fn branches(&mut self, orders: Vec<BranchOrder>) -> Result<(), DriveError> {
        let Some(first) = orders.first() else { return Ok(()) };
        let wave = first.start.wave_id.clone();
        self.run.site.report(Progress::Wave { id: &wave, branches: orders.len() });
        let new = || orders.iter().filter(|order| !order.is_begun);
        if new().next().is_some() {
            self.append(|heading| new().map(|order| order.start.record(heading)).collect())?;
        }
        let timeout = self.run.loaded.plan.parallel.map(|parallel| parallel.branch_timeout);
        let site = BranchSite {
            site: Site { progress: &|_| {}, ..self.run.site.clone() },
            project: self.run.project,
            loaded: self.run.loaded.clone(),
            parent: self.run.state().id.clone(),
            dir: self.dir(&wave)?,
            timeout: timeout.unwrap_or(Duration::MAX),
            left: self.run.time_left(Scope::Iteration),
            worktrees: match orders.iter().any(|order| order.base.is_some()) {
                true => Some(self.worktrees()?),
                false => None,
            },
        };
        for order in &orders {
            if let (Some(trees), Some(base)) = (&site.worktrees, &order.base) {
                let dir = site.dir.branch(&order.start.branch_id);
                let branch = git_branch(&order.start.wave_id, &order.start.branch_id);
                trees.register(&WorktreeSpec { dir: &dir, branch: &branch, base })?;
            }
        }
        if self.run.site.world.spawner.is_simulated() {
            return orders.into_iter().try_for_each(|order| {
                let ended = site.carry_out(order)?;
                self.branch_ended(ended)
            });
        }
        // Each end is recorded when it comes. A branch that could not be carried out stays unfinished, and so does
        // the wave.
        let mut failed = None;
        together(
            orders,
            |order| site.carry_out(order),
            |ended| {
                let done = ended.and_then(|ended| self.branch_ended(ended));
                failed = failed.take().or(done.err());
            },
        );
        failed.map_or(Ok(()), Err)
    }

    fn branch_ended(&mut self, ended: Ended) -> Result<(), DriveError> {
        let Ended { order, stop_reason, detail, elapsed, tree, output, taken } = ended;
        let Some(stop_reason) = stop_reason else { return Ok(()) };
        let finish = WaveBranchFinish {
            wave_id: order.start.wave_id.clone(),
            branch_id: order.start.branch_id.clone(),
            stop_reason: stop_reason.clone(),
            elapsed_ms: Some(millis(elapsed)),
            tree,
            output: output.into(),
            detail,
            cost_usd: taken.map(|taken| taken.cost),
            tokens: taken.map(|taken| Amount(taken.tokens)),
        };
        let dir = self.dir(&order.start.wave_id)?.branch(&order.start.branch_id);
        self.write_page(&dir, "result.md", &result_page(&order.start, &finish))?;
        self.append(|heading| vec![finish.record(heading)])?;
        let how = finish.detail.as_deref().unwrap_or(stop_reason.as_str());
        self.run.site.report(Progress::Branch { id: &order.start.branch_id, how });
        Ok(())
    }

    /// Commits what a branch left and merges it back, if the branch ended well. The outcome is recorded before
    /// anything is removed.
    fn merge(&mut self, order: &MergeOrder) -> Result<(), DriveError> {
        let MergeOrder { wave_id, branch_id, objective, base, tree, failure } = order;
        let dir = self.dir(wave_id)?.branch(branch_id);
        let branch = git_branch(wave_id, branch_id);
        let merge = self.worktrees()?.merge_back(&Work {
            worktree: WorktreeSpec { dir: &dir, branch: &branch, base },
            left: &format!("{branch_id} of {wave_id}: {}", first_line(objective, LONGEST_SUBJECT)),
            merge: &format!("Merge {branch_id} of {wave_id}\n\n{objective}\n"),
            tree: Some(&**tree).filter(|tree| !tree.is_empty()),
            failure: failure.as_ref().map(Word::as_str),
        })?;
        self.run.site.report(Progress::Merge { id: branch_id, outcome: merge.outcome });
        let merge = merge.record_of(wave_id, branch_id);
        self.append(|heading| vec![merge.record(heading)])
    }

    fn join(&mut self, join: &Join) -> Result<(), DriveError> {
        let Some(wave) = &self.run.state().waves.open else { return Ok(()) };
        let began = self.run.site.world.clock.elapsed();
        let (page, payload) = (join_page(wave), joined_payload(wave));
        let dir = self.dir(&wave.id)?;
        if !wave.base.is_empty() {
            for error in clear(&self.worktrees()?, wave, &dir) {
                self.run.site.note(&format!("a worktree was not removed: {error}"));
            }
        }
        self.write_page(&dir, "join.md", &page)?;
        let elapsed_ms = millis(self.run.site.world.clock.elapsed().saturating_sub(began));
        let finish = join.finish.as_ref().map(|it| WaveJoinFinish { elapsed_ms, ..it.clone() });
        self.append(|heading| {
            let records = [
                join.start.as_ref().map(|start| start.record(heading)),
                join.timeout.as_ref().map(|timeout| timeout.record(heading)),
                join.failed.as_ref().map(|failed| failed.record(heading)),
                finish.as_ref().map(|finish| finish.record(heading)),
                Some(joined(heading, join, &payload)),
            ];
            records.into_iter().flatten().collect()
        })
    }

    fn worktrees(&self) -> Result<Worktrees, GitError> {
        let found =
            Worktrees::find(&self.run.project.dir, self.run.site.state_dir, self.run.site.world)?;
        let first = self.worktrees.get_or_init(|| found.clone());
        Ok(found.with_settings_of(first))
    }

    fn dir(&self, wave: &str) -> Result<WaveDir, DriveError> {
        Ok(self.run.site.state_dir.wave(&wave.parse()?))
    }

    fn write_page(&self, dir: &Path, name: &str, text: &str) -> Result<(), DriveError> {
        write_file(&dir.join(name), text, self.run.site.world)
    }

    /// Appends records under the iteration in which the wave was requested.
    fn append(&mut self, records: impl FnOnce(&Heading) -> Vec<Record>) -> Result<(), DriveError> {
        let iteration = self.run.state().done;
        self.run.harness.record(iteration, records)
    }
}

/// The event by which the run continues. It looks like an agent's, and only the harness writes it.
fn joined(heading: &Heading, join: &Join, payload: &str) -> Record {
    let mut record = heading.agent(Topic::new(join.joined_topic.clone()), payload);
    if let Body::Agent { source, .. } = &mut record.body {
        "harness".clone_into(source);
    }
    record
}

/// Removes what a wave no longer needs: the worktrees, unless a file in one is not committed, and the branches whose
/// commits are elsewhere. Returns why some stay: that does not stop the run.
fn clear(worktrees: &Worktrees, wave: &Wave, dir: &WaveDir) -> Vec<GitError> {
    let branches = wave.branches.iter().enumerate();
    let merges = branches.filter_map(|(place, branch)| Some((place, branch.merge.as_ref()?)));
    let gathered = merges.filter(|(_, merge)| merge.outcome != MergeOutcome::Failed);
    let clear = |place: usize, merge: &Merge| {
        let dir = dir.branch(&format!("branch-{}", place + 1));
        worktrees.clear(&WorktreeSpec { dir: &dir, branch: &merge.branch, base: &wave.base })?;
        if !merge.outcome.is_settled() {
            return Ok(());
        }
        let tree = Some(&*merge.tree).filter(|tree| !tree.is_empty());
        worktrees.drop_branch(&merge.branch, &[&merge.commit], tree)
    };
    gathered.filter_map(|(place, merge)| clear(place, merge).err()).collect()
}

fn git_branch(wave: &str, branch: &str) -> String {
    branch_name(&[wave, branch])
}

fn isolation(loaded: &Loaded) -> Isolation {
    loaded.plan.parallel.map_or(Isolation::Shared, |parallel| parallel.isolation)
}

/// Makes sure, before a run begins, that branches can have their own worktrees where the settings want it.
pub(super) fn check_isolation(
    project: &Project,
    loaded: &Loaded,
    world: &World,
) -> Result<Option<Worktrees>, DriveError> {
    if isolation(loaded) != Isolation::Worktree {
        return Ok(None);
    }
    let trees = Worktrees::find(&project.dir, &loaded.files.state_dir, world);
    let trees = trees.and_then(|trees| trees.base().map(|_| trees));
    trees.map(Some).map_err(DriveError::NoTrees)
}

struct BranchSite<'a> {
    site: Site<'a>,
    project: &'a Project,
    loaded: Loaded,
    parent: String,
    dir: WaveDir,
    timeout: Duration,
    left: Option<TimeLeft>,
    worktrees: Option<Worktrees>,
}

impl BranchSite<'_> {
    fn carry_out(&self, order: BranchOrder) -> Result<Ended, DriveError> {
        let dir = self.dir.branch(&order.start.branch_id);
        let name = git_branch(&order.start.wave_id, &order.start.branch_id);
        let worktree = self.worktrees.as_ref().zip(order.base.as_deref());
        let worktree =
            worktree.map(|(trees, base)| (trees, WorktreeSpec { dir: &dir, branch: &name, base }));
        let own_tree = match &worktree {
            Some((trees, worktree)) => {
                let dir = trees.prepare(worktree)?.display().to_string();
                Some(OwnTree { dir, branch: name.clone() })
            }
            None => None,
        };
        let branch = Branch {
            parent: self.parent.clone(),
            dir: dir.clone(),
            opening_event: order.start.routing_event.clone(),
            timeout: self.timeout,
            left: self.left,
            own_tree,
        };
        let objective = Some(order.start.objective.clone());
        let began = self.site.world.clock.elapsed();
        let (site, loaded, run) = (self.site.clone(), self.loaded.clone(), order.run.parse()?);
        let opening = if order.is_begun { Opening::Resume } else { Opening::Begin };
        let mut driver =
            LoopDriver::new(site, self.project, loaded, &run, Some(branch), opening, objective)?;
        if driver.run.state().stop_reason().is_none() {
            driver.carry_out()?;
        }
        let run = driver.run.state();
        let stop_reason = run.stop_reason().cloned();
        let failure = run.failure().filter(|_| stop_reason.is_some());
        let LoopFold { scratchpad, ledger, .. } = driver.run.harness.fold();
        let output = scratchpad.last_output();
        // Where there is no tree object, the merge reports why.
        let tree = worktree.and_then(|(trees, worktree)| {
            trees.capture(&trees.tree(&worktree).ok()?, worktree.base).ok()
        });
        Ok(Ended {
            detail: failure.map(ToString::to_string),
            stop_reason,
            tree,
            taken: ledger.is_reported().then_some(ledger.taken),
            elapsed: self.site.world.clock.elapsed().saturating_sub(began),
            output: output
                .map(|output| output.shortened(LONGEST_OUTPUT).to_string())
                .unwrap_or_default(),
            order,
        })
    }
}
