//! Carries out a run of slots: claims items, has agents implement, review and fix them, and appends the results.
//!
//! Nothing is decided here: what the run does next is [`next_step`], and what a slot does next is
//! [`slot_step`](autoloop_core::slot::slot_step). So a run that crashed anywhere is resumed by asking again.

mod claims;
mod disk_full;
mod prompts;
mod slot;
mod worktrees;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use autoloop_core::config::{Isolation, Key, Origin};
use autoloop_core::coordinator::Kind;
use autoloop_core::plan::{BackendPlan, SlotsPlan};
use autoloop_core::queue::{Status, Wanted};
use autoloop_core::record::{
    Heading, Record, SlotRunFinish, SlotRunResume, SlotRunStart, SlotStart,
};
use autoloop_core::slot::{
    Commit, End, FinishedIteration, NewItems, Phase, Review, Slot, SlotRules, Slots, Step, begins,
    next_step, within_limits,
};
use autoloop_core::timestamp::Timestamp;

use super::parallel::together;
use super::{DriveError, durability};
use crate::error::LaunchError;
use crate::harness::{Harness, RunLock, RunPlace};
use crate::launch::{Launch, Opening, look_up};
use crate::layout::RunDir;
use crate::project::{Loaded, Project};
use crate::queue::Queue;
use crate::review::{ReviewSandbox, sweep};
use crate::runs::unfinished_slots;
use crate::site::{Progress, Site, SlotProgress};
use crate::world::World;

use claims::{Claims, actor};
use prompts::RunPrompts;
use slot::SlotDriver;
use worktrees::SlotWorktrees;

/// At most so many items are named that were added during a run.
const NAMED: usize = 10;

pub struct SlotsDriver<'a> {
    site: Site<'a>,
    project: &'a Project,
    queue: &'a dyn Queue,
    loaded: Loaded,
    prompts: RunPrompts,
    dir: RunDir,
    harness: Mutex<Harness<'a, Slots>>,
    claims: Claims<'a>,
    worktrees: SlotWorktrees,
    reviewer: ReviewSandbox,
    /// The criteria by the settings as they were last read, whether or not they are in force.
    last_read: Option<Criteria>,
    opening: Opening,
}

/// The settings that decide how work is judged: those of a plan without the limits that may change.
///
/// They are fixed when a user begins or resumes a run: an agent that works in the project can write its settings, and
/// must not be able to choose its own reviewer, or none.
#[derive(Clone, PartialEq)]
struct Criteria {
    rules: SlotRules,
    reviewer: BackendPlan,
}

impl Criteria {
    fn of(plan: &SlotsPlan) -> Self {
        let free =
            SlotRules { iterations: None, parallel_agents: 0, commit: Commit::On, ..plan.rules };
        Criteria { rules: free, reviewer: plan.reviewer.clone() }
    }

    fn enforce(&self, plan: &mut SlotsPlan) {
        let SlotRules { iterations, parallel_agents, commit, .. } = plan.rules;
        plan.rules = SlotRules { iterations, parallel_agents, commit, ..self.rules };
        plan.reviewer.clone_from(&self.reviewer);
    }
}

impl<'a> SlotsDriver<'a> {
    /// Prepares to carry out a run. A resumed one uses its own prompts, except for those that the user names now.
    pub fn open(
        site: Site<'a>,
        launch: &'a Launch,
        queue: &'a dyn Queue,
        named_now: &[Key],
    ) -> Result<Self, DriveError> {
        launch.report(&site);
        let Launch { project, id: run, opening, .. } = launch;
        let (opening, loaded, world) = (*opening, launch.loaded.clone(), site.world);
        let read = project.slot_prompts(&loaded, &*world.disk);
        let read = match opening {
            // A run that cannot begin leaves nothing behind.
            Opening::Begin => Ok(read?),
            Opening::Resume => read,
        };
        if opening == Opening::Begin {
            let has_prompt = read.as_ref().is_ok_and(|read| read.reviewer.is_some());
            check_agents(project, &loaded, rules(&loaded, has_prompt).review, world)?;
        }
        let reviewer = ReviewSandbox::choose(Some(loaded.plan.slots.sandbox), world)?;
        let worktrees = SlotWorktrees::find(project, &loaded, world)?;
        let place = RunPlace::of(&site, Kind::Slots, run.as_str())?;
        let lock = RunLock::take(&place)?;
        let durability = durability(&loaded.plan);
        let harness: Harness<'_, Slots> = Harness::open(opening, &site, &place, lock, durability)?;
        check_source(harness.fold(), &loaded.plan.slots)?;
        let prompts = RunPrompts::of(harness.fold().prompts.as_ref(), read, named_now)?;
        let has_prompt = prompts.in_force.reviewer_prompt.is_some();
        check_agents(project, &loaded, rules(&loaded, has_prompt).review, world)?;
        if !world.spawner.is_simulated() {
            sweep(site.state_dir, world);
        }
        launch.keep_request(world)?;
        Ok(SlotsDriver {
            claims: Claims::new(queue, world),
            harness: Mutex::new(harness),
            site,
            project,
            queue,
            loaded,
            prompts,
            dir: place.dir,
            worktrees,
            reviewer,
            last_read: None,
            opening,
        })
    }

    /// Carries the run out to its end, or until it is interrupted. After an error it can be resumed.
    pub fn run(mut self) -> Result<Slots, DriveError> {
        self.record_resumption()?;
        // The settings were read when the run was launched.
        let mut has_worked = false;
        loop {
            if self.is_interrupted()? {
                break;
            }
            match self.step() {
                Step::Start => self.start()?,
                Step::Open { .. } => {
                    if has_worked {
                        self.reload()?;
                    }
                    // By the settings as they are now the run may have ended.
                    if let Step::Open { iteration, slots } = self.step() {
                        self.open_iteration(iteration, &slots)?;
                    }
                }
                Step::CarryOut { iteration, slots } => {
                    self.carry_out(iteration, slots)?;
                    has_worked = true;
                }
                Step::FinishIteration(finished) => self.finish_iteration(&finished)?,
                Step::Finish(finish) if finish.reason.known().is_some_and(End::is_limit) => {
                    self.stop_at_limit(finish)?;
                }
                Step::Finish(finish) => self.finish_run(&finish)?,
                Step::Over => break,
            }
        }
        Ok(self.harness.into_inner().unwrap_or_else(PoisonError::into_inner).into_fold())
    }

    /// Ends the run if it was asked to stop. Its open slots keep their items until it is resumed.
    fn is_interrupted(&self) -> Result<bool, DriveError> {
        if self.site.interrupts.first().is_none() {
            return Ok(false);
        }
        let is_open = self.look(|slots| slots.start.is_some() && slots.finish.is_none());
        if is_open {
            let finish = self.look(|slots| slots.finished(End::Interrupted));
            self.append(0, |heading| vec![finish.record(heading)])?;
        }
        Ok(true)
    }

    fn step(&self) -> Step {
        let (rules, limits) = (self.rules(), &self.loaded.plan.limits);
        let now = self.now();
        self.look(|slots| within_limits(next_step(slots, &rules), slots, &rules, limits, now))
    }

    /// Ends the run at a limit: its open slots release their items until it is resumed. A run whose queue has no item
    /// for it ends for that reason.
    fn stop_at_limit(&self, finish: SlotRunFinish) -> Result<(), DriveError> {
        let open: Vec<u64> = self.look(|slots| slots.open().map(|slot| slot.start.slot).collect());
        let why = finish.detail.clone().unwrap_or_default();
        for number in &open {
            self.claims.release(*number, &why)?;
        }
        if open.is_empty() {
            self.claims.take(&self.id(), &[1], &self.wanted())?;
            if self.claims.item(1).is_none() {
                let finish = self.look(|slots| slots.finished(End::NoItems));
                return self.finish_run(&finish);
            }
            self.claims.release(1, &why)?;
        }
        self.finish_run(&finish)
    }

    fn start(&self) -> Result<(), DriveError> {
        let plan = &self.loaded.plan.slots;
        let rules = self.rules();
        let start = SlotRunStart {
            iterations: rules.iterations.unwrap_or(0),
            parallel_agents: rules.parallel_agents,
            review: rules.review == Review::On,
            max_fix_attempts: rules.max_fix_attempts,
            source: plan.source.into(),
            isolation: self.worktrees.isolation.into(),
            stop_marker: plan.stop_marker.clone().unwrap_or_default(),
            queue_mark: Some(self.queue.mark()?),
        };
        self.append(0, |heading| vec![start.record(heading)])?;
        self.record_prompts()?;
        self.report_beginning();
        Ok(())
    }

    /// Records that a run is resumed, and releases what its last harness claimed and did not record. A run of
    /// which nothing is proven begins again instead.
    fn record_resumption(&mut self) -> Result<(), DriveError> {
        let is_over = self.look(|slots| slots.start.is_some() && !slots.status().can_resume());
        if self.opening == Opening::Begin || is_over {
            return Ok(());
        }
        let open: Vec<String> =
            self.look(|slots| slots.open().map(|slot| slot.start.actor.clone()).collect());
        let run = self.id();
        let is_dead = |name: &str| claims::is_of(name, &run) && !open.iter().any(|at| at == name);
        self.queue.release_all(&is_dead, &format!("run {run} was interrupted"))?;
        if self.look(|slots| slots.start.is_none()) {
            return Ok(());
        }
        let resume = SlotRunResume { resumed_from_iteration: self.look(Slots::iteration) };
        self.append(0, |heading| vec![resume.record(heading)])?;
        self.record_prompts()?;
        self.report_beginning();
        self.compare_prompts();
        Ok(())
    }

    /// Records the prompts that the run uses, unless they are on record.
    fn record_prompts(&self) -> Result<(), DriveError> {
        let prompts = &self.prompts.in_force;
        if self.look(|slots| slots.prompts.as_ref() == Some(prompts)) {
            return Ok(());
        }
        self.append(0, |heading| vec![prompts.record(heading)])
    }

    /// Reports prompt files that differ from what the run uses.
    fn compare_prompts(&mut self) {
        let read = self.project.slot_prompts(&self.loaded, &*self.site.world.disk);
        self.prompts.changes(read).iter().for_each(|change| self.site.note(change));
    }

    fn report_beginning(&self) {
        let rules = self.rules();
        self.look(|slots| self.report(SlotProgress::Began(slots, &rules)));
        if rules.review == Review::NoPrompt {
            self.site.note("there is no reviewer prompt, so nothing is reviewed");
        }
        self.report_worktrees();
    }

    fn report_worktrees(&self) {
        let review = self.rules().review;
        self.worktrees.notes(review).iter().for_each(|note| self.site.note(note));
        let is_shared = self.worktrees.isolation == Isolation::Shared
            && self.loaded.plan.slots.rules.parallel_agents > 1;
        if review == Review::On && is_shared && !self.reviewer.is_of_kernel() {
            self.site.note(
                "slots share the project and no sandbox is available: reviewers can change its files",
            );
        }
    }

    /// Reads the settings again before an iteration. Where an agent left settings that cannot be used, the last
    /// good ones stay in force: the rest of the queue does not wait for the user.
    fn reload(&mut self) -> Result<(), DriveError> {
        let (project, world) = (self.project, self.site.world);
        let in_force = Criteria::of(&self.loaded.plan.slots);
        let placing = |plan: &SlotsPlan| (plan.isolation, plan.rules.parallel_agents);
        let placed = placing(&self.loaded.plan.slots);
        match project.load(&*world.disk) {
            Ok(mut loaded) => {
                self.harness().durability = durability(&loaded.plan);
                // An agent that can write settings cannot raise its own limits.
                loaded.plan.limits = self.loaded.plan.limits;
                self.loaded = loaded;
            }
            Err(error) => self
                .site
                .note(&format!("invalid settings ignored until they are corrected: {error}")),
        }
        self.compare_prompts();
        let read = Criteria::of(&self.loaded.plan.slots);
        in_force.enforce(&mut self.loaded.plan.slots);
        check_agents(project, &self.loaded, self.rules().review, world)?;
        if placed != placing(&self.loaded.plan.slots) {
            let found = SlotWorktrees::find(project, &self.loaded, world)?;
            self.worktrees = found.with_settings_of(&self.worktrees);
            self.report_worktrees();
        }
        if read != in_force && self.last_read.as_ref() != Some(&read) {
            self.site.note(
                "the settings of reviews or the limits of items changed; this run continues with the original ones",
            );
        }
        self.last_read = Some(read);
        Ok(())
    }

    /// What decisions depend on, by the settings and prompts as they were last read.
    fn rules(&self) -> SlotRules {
        let rules = rules(&self.loaded, self.prompts.in_force.reviewer_prompt.is_some());
        SlotRules { commit: self.worktrees.commits(rules.commit), ..rules }
    }

    /// The items that the run may take.
    fn wanted(&self) -> Wanted {
        let rules = self.rules();
        self.look(|slots| Wanted {
            but: slots.spent(&rules).into_iter().map(str::to_owned).collect(),
            held_at: match rules.new_items {
                NewItems::Excluded => {
                    slots.start.as_ref().and_then(|start| start.queue_mark.clone())
                }
                NewItems::Included => None,
            },
        })
    }

    /// Claims items and begins an iteration with them; ends the run where there are none.
    fn open_iteration(&self, iteration: u64, numbers: &[u64]) -> Result<(), DriveError> {
        let run = self.id();
        let base = self.worktrees.base(&run)?;
        self.claims.take(&run, numbers, &self.wanted())?;
        let mut starts = Vec::new();
        for number in numbers {
            let item = self.claims.item(*number);
            if !begins(iteration, item.is_some()) {
                continue;
            }
            let item = item.unwrap_or_default();
            let dir = self.dir.slot(iteration, *number);
            let (branch, tree) = self.worktrees.place(&dir, &run);
            starts.push(SlotStart {
                slot: *number,
                item_id: item.id,
                title: item.title,
                actor: actor(&run, *number),
                base: base.clone(),
                branch,
                tree: tree.display().to_string(),
            });
        }
        if starts.is_empty() {
            let finish = self.look(|slots| slots.finished(End::NoItems));
            return self.finish_run(&finish);
        }
        self.report(SlotProgress::Iteration(iteration));
        self.append(iteration, |heading| starts.iter().map(|start| start.record(heading)).collect())
    }

    /// Carries out slots in parallel. One that could not be carried out stays unfinished, and the others continue
    /// to their ends; the run ends with the first failure.
    fn carry_out(&self, iteration: u64, numbers: Vec<u64>) -> Result<(), DriveError> {
        let mut failed: Option<DriveError> = None;
        let slot = |number| SlotDriver::new(self, iteration, number).run();
        let ended = |end: Result<(), DriveError>| match (&failed, end) {
            (None, Err(error)) => failed = Some(error),
            // All slots have the same agents.
            (
                Some(DriveError::Launch(LaunchError::NoAgent { .. })),
                Err(DriveError::Launch(LaunchError::NoAgent { .. })),
            )
            | (Some(DriveError::Client { .. }), Err(DriveError::Client { .. })) => {}
            (Some(_), Err(error)) => self.site.note(&error.to_string()),
            (_, Ok(())) => {}
        };
        if self.site.world.spawner.is_simulated() {
            // No thread renews claims meanwhile, so they are renewed before each slot.
            let renewed = numbers.into_iter().inspect(|_| self.claims.renew_all());
            renewed.map(slot).for_each(ended);
        } else {
            for number in numbers.iter().filter(|_| numbers.len() > 1) {
                // Git reads the files of all worktrees to add one, and an agent can replace those of its own by
                // pipes. A failure is reported when the slot begins.
                let _ = SlotDriver::new(self, iteration, *number).register_worktree();
            }
            let (over, is_over) = mpsc::channel::<()>();
            thread::scope(|scope| {
                // Claims are renewed for as long as slots work, and no longer.
                scope.spawn(move || self.claims.keep(&is_over));
                together(numbers, slot, ended);
                drop(over);
            });
        }
        failed.map_or(Ok(()), Err)
    }

    fn finish_iteration(&self, finished: &FinishedIteration) -> Result<(), DriveError> {
        let finish = finished.finish();
        self.append(finished.iteration, |heading| vec![finish.record(heading)])?;
        self.report(SlotProgress::IterationFinished(finished));
        Ok(())
    }

    /// Records that the run ends. Where no item is left to claim, items that no run works on are reported.
    fn finish_run(&self, finish: &SlotRunFinish) -> Result<(), DriveError> {
        self.append(0, |heading| vec![finish.record(heading)])?;
        if let Err(error) = self.worktrees.forget(&self.id()) {
            self.site.note(&error.to_string());
        }
        if finish.reason == End::NoItems {
            self.report_new_items();
            // The run has ended, whatever fails here.
            match unfinished_slots(&self.site) {
                Ok(runs) => self.report_held_items(&runs),
                Err(error) => self.site.note(&error.to_string()),
            }
        }
        Ok(())
    }

    fn report_new_items(&self) {
        let mark = self.look(|slots| slots.start.as_ref()?.queue_mark.clone());
        let Some(mark) = mark.filter(|_| self.rules().new_items == NewItems::Excluded) else {
            return;
        };
        match self.queue.added_since(&mark) {
            Ok(added) if added.is_empty() => {}
            Ok(added) => {
                let mut named: Vec<&str> = added.iter().map(String::as_str).take(NAMED).collect();
                if added.len() > NAMED {
                    named.push("...");
                }
                self.site.note(&format!(
                    "added during this run and left for the next one: {}; `slots.include_new = true` takes such items at once",
                    named.join(", ")
                ));
            }
            Err(error) => self.site.note(&error.to_string()),
        }
    }

    /// Names items held by unfinished runs. The queue does not give them to another worker before the claim has
    /// expired, or at all.
    fn report_held_items(&self, runs: &[Slots]) {
        let source = self.loaded.plan.slots.source;
        let is_of_queue =
            |run: &&Slots| run.start.as_ref().is_some_and(|start| start.source == source);
        let is_held = |slot: &Slot| {
            self.queue.show(&slot.start.item_id).is_ok_and(|item| {
                item.status == Status::InWork && item.owner.as_ref() == Some(&slot.start.actor)
            })
        };
        let mut seen = BTreeSet::new();
        for run in runs.iter().filter(is_of_queue) {
            for slot in run.open().filter(|slot| slot.has_item()) {
                let (run, item) = (&run.id, &slot.start.item_id);
                if seen.insert(item) && is_held(slot) {
                    self.site.note(&format!(
                        "{item} is held by the unfinished run '{run}': resume it with `autoloop slots --resume={run}`"
                    ));
                }
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.site.world.clock.now()
    }

    fn id(&self) -> String {
        self.look(|slots| slots.id.clone())
    }

    fn report(&self, progress: SlotProgress<'_>) {
        self.site.report(Progress::Slots(progress));
    }

    fn look<T>(&self, look: impl FnOnce(&Slots) -> T) -> T {
        look(self.harness().fold())
    }

    fn harness(&self) -> MutexGuard<'_, Harness<'a, Slots>> {
        self.harness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends records; those of an iteration under its number. What agents wrote in the name of the harness
    /// meanwhile is refused first.
    fn append(
        &self,
        iteration: u64,
        records: impl FnOnce(&Heading) -> Vec<Record>,
    ) -> Result<(), DriveError> {
        let note = self.harness().record_refusing(numbered(iteration), records)?;
        note.iter().for_each(|note| self.site.note(note));
        Ok(())
    }
}

/// The number of an iteration in a record; empty in those of the run itself.
fn numbered(iteration: u64) -> String {
    if iteration == 0 { String::new() } else { iteration.to_string() }
}

fn rules(loaded: &Loaded, has_reviewer_prompt: bool) -> SlotRules {
    let rules = loaded.plan.slots.rules;
    match (rules.review, has_reviewer_prompt) {
        (Review::On, false) => SlotRules { review: Review::NoPrompt, ..rules },
        _ => rules,
    }
}

/// A run is resumed with the queue that it began with: the items that it holds are there.
fn check_source(slots: &Slots, plan: &SlotsPlan) -> Result<(), DriveError> {
    match &slots.start {
        Some(start) if start.source != plan.source => Err(DriveError::OtherSource {
            run: slots.id.clone(),
            began: start.source.clone(),
            now: plan.source,
        }),
        _ => Ok(()),
    }
}

/// Looks up the programs of the agents of slots, as seen from the project. A missing one is a mistake in the settings and
/// no failed work: it is reported before anything is recorded.
fn check_agents(
    project: &Project,
    loaded: &Loaded,
    review: Review,
    world: &World,
) -> Result<(), DriveError> {
    let check = |backend, phase| {
        look_up(backend, &project.dir, world).map_err(|why| agent_missing(loaded, phase, why))
    };
    check(&loaded.plan.backend, Phase::Implement)?;
    match review {
        Review::On => check(&loaded.plan.slots.reviewer, Phase::Review),
        Review::Off | Review::NoPrompt => Ok(()),
    }
}

/// The program of the agent of a phase is missing; names the setting.
fn agent_missing(loaded: &Loaded, phase: Phase, why: String) -> DriveError {
    let has_own = loaded.settings.origin(Key::SlotsReviewerCommand) != Origin::Default;
    let key = match phase {
        Phase::Review if has_own => Key::SlotsReviewerCommand,
        _ => Key::BackendCommand,
    };
    LaunchError::NoAgent { why, setting: loaded.named(key) }.into()
}
