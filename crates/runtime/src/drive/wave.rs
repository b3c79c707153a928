//! Carrying out a wave: its branches together, then what came of them.

mod trees;

use std::path::Path;
use std::time::Duration;

use autoloop_core::config::Isolation;
use autoloop_core::prompt::wave::{join_page, joined_payload, result_page, spec_page};
use autoloop_core::record::{
    Body, Heading, Record, WaveBranchFinish, WaveInvalid, WaveJoinFinish, WaveStart,
};
use autoloop_core::run::StopReason;
use autoloop_core::topic::Topic;
use autoloop_core::wave::{BranchOrder, Join, MergeOrder, NO_WORKTREE, WaveStep};
use autoloop_core::wire_enum::Word;

use super::branch::Branch;
use super::parallel::together;
use super::worktrees::Trees;
use super::{Drive, DriveError, Progress, Site};
use crate::git::GitError;
use crate::harness::create_dirs;
use crate::journal::NewRecord;
use crate::launch::Opening;
use crate::layout::WaveDir;
use crate::project::{Loaded, Project};
use crate::turn::millis;
use crate::world::World;

/// How many characters of a branch's output go on record with its end; its own records have all.
const OUTPUT_TOLD: usize = 64 * 1024;

/// How a branch came to its end.
struct Ended {
    order: BranchOrder,
    /// `None` when it was interrupted, so that it is not over.
    stop_reason: Option<Word<StopReason>>,
    /// Why its agent failed, where it did.
    detail: Option<String>,
    elapsed: Duration,
    /// The tree object that it left, where it had a working tree of its own.
    tree: Option<String>,
    output: String,
}

impl Drive<'_> {
    /// Does what a wave needs.
    pub(super) fn wave(&mut self, step: WaveStep) -> Result<(), DriveError> {
        match step {
            WaveStep::Refuse(invalid) => self.put_all(|heading| vec![invalid.record(heading)]),
            WaveStep::Open(start) => self.open_wave(start),
            WaveStep::Branches(orders) => self.branches(orders),
            WaveStep::Merge(order) => self.merge(&order),
            WaveStep::Join(join) => self.join(&join),
        }
    }

    fn open_wave(&mut self, mut start: WaveStart) -> Result<(), DriveError> {
        if isolation(&self.loaded) == Isolation::Worktree {
            match self.trees().and_then(|trees| trees.base()) {
                Ok(base) => start.base = Some(base),
                Err(error) => return self.refuse_wave(&start, &error),
            }
        }
        let dir = self.wave_dir(&start.wave_id)?;
        self.write_page(&dir, "spec.md", &spec_page(&start))?;
        self.put_all(|heading| vec![start.record(heading)])
    }

    /// The repository in which branches have their trees.
    fn trees(&self) -> Result<Trees, GitError> {
        let found = Trees::find(&self.project.dir, &self.loaded.files.state_dir, self.site.world)?;
        let first = self.trees.get_or_init(|| found.clone());
        Ok(found.with_settings_of(first))
    }

    /// A wave for which there can be no trees is backpressure, as any other that cannot be.
    fn refuse_wave(&mut self, start: &WaveStart, error: &GitError) -> Result<(), DriveError> {
        let invalid = WaveInvalid {
            trigger_topic: start.trigger_topic.clone(),
            reason: format!("{NO_WORKTREE}: {error}"),
            active_wave_id: String::new(),
            opening_recent_event: start.opening_recent_event.clone(),
        };
        self.put_all(|heading| vec![invalid.record(heading)])
    }

    /// Brings back the work of one branch. What came of it is on record before anything is taken away.
    fn merge(&mut self, order: &MergeOrder) -> Result<(), DriveError> {
        let wave_dir = self.wave_dir(&order.wave_id)?;
        let dir = wave_dir.branch(&order.branch_id);
        let merge = trees::bring_back(&self.trees()?, order, &dir)?;
        self.site.report(Progress::Merge { id: &order.branch_id, outcome: merge.outcome });
        let merge = merge.record_of(&order.wave_id, &order.branch_id);
        self.put_all(|heading| vec![merge.record(heading)])
    }

    /// Puts records about a wave or a chain on record, under the iteration in which it was asked for.
    pub(super) fn put_all(
        &mut self,
        records: impl FnOnce(&Heading) -> Vec<Record>,
    ) -> Result<(), DriveError> {
        let heading = self.harness.heading(self.harness.run().done, self.site.world.clock.now());
        let records = records(&heading);
        self.harness.append(self.durability(), |_| {
            records.iter().cloned().map(NewRecord::from).collect()
        })?;
        Ok(())
    }

    fn branches(&mut self, orders: Vec<BranchOrder>) -> Result<(), DriveError> {
        let Some(first) = orders.first() else { return Ok(()) };
        let wave = first.start.wave_id.clone();
        self.site.report(Progress::Wave { id: &wave, branches: orders.len() });
        let fresh = || orders.iter().filter(|order| !order.is_begun);
        if fresh().next().is_some() {
            self.put_all(|heading| fresh().map(|order| order.start.record(heading)).collect())?;
        }
        let dir = self.wave_dir(&wave)?;
        let timeout = self.loaded.plan.parallel.map(|parallel| parallel.branch_timeout);
        let stage = BranchStage {
            parent: self.harness.run().id.clone(),
            dir,
            timeout: timeout.unwrap_or(Duration::MAX),
            site: Site { progress: &|_| {}, ..self.site.clone() },
            project: self.project,
            loaded: self.loaded.clone(),
            trees: match orders.iter().any(|order| order.base.is_some()) {
                true => Some(self.trees()?),
                false => None,
            },
        };
        if let Some(trees) = &stage.trees {
            for order in &orders {
                trees::register(trees, order, &stage.dir.branch(&order.start.branch_id))?;
            }
        }
        if !self.site.world.spawner.is_simulated() {
            return self.all_at_once(&stage, orders);
        }
        for order in orders {
            let ended = stage.carry_out(order)?;
            self.branch_ended(ended)?;
        }
        Ok(())
    }

    /// Carries out branches together. Each end is put on record when it comes; a branch that could not
    /// be carried on stays unfinished, and so does the wave.
    fn all_at_once(
        &mut self,
        stage: &BranchStage<'_>,
        orders: Vec<BranchOrder>,
    ) -> Result<(), DriveError> {
        let mut failed = None;
        together(
            orders,
            |order| stage.carry_out(order),
            |ended| {
                let done = ended.and_then(|ended| self.branch_ended(ended));
                failed = failed.take().or(done.err());
            },
        );
        failed.map_or(Ok(()), Err)
    }

    fn branch_ended(&mut self, ended: Ended) -> Result<(), DriveError> {
        let Ended { order, stop_reason, detail, elapsed, tree, output } = ended;
        let Some(stop_reason) = stop_reason else { return Ok(()) };
        let finish = WaveBranchFinish {
            wave_id: order.start.wave_id.clone(),
            branch_id: order.start.branch_id.clone(),
            stop_reason: stop_reason.clone(),
            elapsed_ms: Some(millis(elapsed)),
            tree,
            output: output.into(),
            detail,
        };
        let dir = self.wave_dir(&order.start.wave_id)?.branch(&order.start.branch_id);
        self.write_page(&dir, "result.md", &result_page(&order.start, &finish))?;
        self.put_all(|heading| vec![finish.record(heading)])?;
        let how = finish.detail.as_deref().unwrap_or(stop_reason.as_str());
        self.site.report(Progress::Branch { id: &order.start.branch_id, how });
        Ok(())
    }

    fn join(&mut self, join: &Join) -> Result<(), DriveError> {
        let Some(wave) = &self.harness.run().waves.open else { return Ok(()) };
        let began = self.site.world.clock.elapsed();
        let page = join_page(wave);
        let payload = joined_payload(wave);
        let dir = self.wave_dir(&wave.id)?;
        if !wave.base.is_empty() {
            let left = trees::clear(&self.trees()?, wave, |id| dir.branch(id));
            for error in left {
                self.site.note(&format!("a working tree stays: {error}"));
            }
        }
        self.write_page(&dir, "join.md", &page)?;
        let elapsed_ms = millis(self.site.world.clock.elapsed().saturating_sub(began));
        self.put_all(|heading| {
            [join.start.as_ref().map(|start| start.record(heading))]
                .into_iter()
                .chain([join.timeout.as_ref().map(|timeout| timeout.record(heading))])
                .chain([join.failed.as_ref().map(|failed| failed.record(heading))])
                .chain([join
                    .finish
                    .as_ref()
                    .map(|finish| WaveJoinFinish { elapsed_ms, ..finish.clone() }.record(heading))])
                .chain([Some(joined(heading, join, &payload))])
                .flatten()
                .collect()
        })?;
        // As after a turn of its own: branches may have changed the files of the loop.
        self.reload();
        Ok(())
    }

    fn wave_dir(&self, wave: &str) -> Result<WaveDir, DriveError> {
        Ok(self.loaded.files.state_dir.wave(&wave.parse()?))
    }

    fn write_page(&self, dir: &Path, name: &str, text: &str) -> Result<(), DriveError> {
        create_dirs(dir, self.site.world)?;
        let path = dir.join(name);
        self.site
            .world
            .disk
            .replace(&path, text.as_bytes())
            .map_err(|source| DriveError::Write { path, source })
    }
}

/// The event by which the run goes on. It looks like an agent's, and only the harness writes it.
fn joined(heading: &Heading, join: &Join, payload: &str) -> Record {
    let mut record = heading.agent(Topic::new(join.joined_topic.clone()), payload);
    if let Body::Agent { source, .. } = &mut record.body {
        "harness".clone_into(source);
    }
    record
}

fn isolation(loaded: &Loaded) -> Isolation {
    loaded.plan.parallel.map_or(Isolation::Shared, |parallel| parallel.isolation)
}

/// Makes sure, before a run begins, that branches can have trees of their own where they are to.
pub(super) fn check_isolation(
    project: &Project,
    loaded: &Loaded,
    world: &World,
) -> Result<Option<Trees>, DriveError> {
    if isolation(loaded) != Isolation::Worktree {
        return Ok(None);
    }
    let trees = Trees::find(&project.dir, &loaded.files.state_dir, world);
    let trees = trees.and_then(|trees| trees.base().map(|_| trees));
    trees.map(Some).map_err(DriveError::NoTrees)
}

/// Where branches are carried out.
struct BranchStage<'a> {
    site: Site<'a>,
    project: &'a Project,
    /// The files of the loop.
    loaded: Loaded,
    parent: String,
    dir: WaveDir,
    timeout: Duration,
    /// Where branches have worktrees of their own.
    trees: Option<Trees>,
}

impl BranchStage<'_> {
    /// Carries out one branch to its end, or from where it was cut off.
    fn carry_out(&self, order: BranchOrder) -> Result<Ended, DriveError> {
        let dir = self.dir.branch(&order.start.branch_id);
        let own_tree = match (&self.trees, &order.base) {
            (Some(trees), Some(base)) => Some(trees::prepare(trees, (&order, base), &dir)?),
            _ => None,
        };
        let branch = Branch {
            parent: self.parent.clone(),
            dir: dir.clone(),
            opening_event: order.start.routing_event.clone(),
            timeout: self.timeout,
            own_tree,
        };
        let objective = Some(order.start.objective.clone());
        let began = self.site.world.clock.elapsed();
        let run = order.run.parse()?;
        let opening = if order.is_begun { Opening::Resume } else { Opening::Begin };
        let mut drive = Drive::new(
            self.site.clone(),
            self.project,
            self.loaded.clone(),
            &run,
            Some(branch),
            opening,
            objective,
        )?;
        if drive.harness.run().stop_reason().is_none() {
            drive.carry_out()?;
        }
        let stop_reason = drive.harness.run().stop_reason().cloned();
        let failure = drive.harness.run().failure().filter(|_| stop_reason.is_some());
        let tree = match (&self.trees, &order.base) {
            // Where it cannot be told, the merge says why.
            (Some(trees), Some(base)) => trees::left(trees, (&order, base), &dir).ok(),
            _ => None,
        };
        Ok(Ended {
            order,
            detail: failure.map(ToString::to_string),
            stop_reason,
            tree,
            elapsed: self.site.world.clock.elapsed().saturating_sub(began),
            output: drive
                .harness
                .scratchpad()
                .last_output()
                .map(|output| output.shortened(OUTPUT_TOLD).to_string())
                .unwrap_or_default(),
        })
    }
}
