//! Applies records to a board.

use super::{Board, End, Kind, Outcome, Parked, Part, Phase, ROWS, Row, in_line};
use crate::coordinator::Status;
use crate::layout::{branch_path, run_path, slot_path};
use crate::record::{
    self, BackendFailed, BackendParked, BackendResumed, BackendUsage, ChainOutcome, ChainStart,
    Event, ExchangeOutcome, ExchangePhase, Glance, LoopStart, LoopStop, Side, SlotFinish,
    SlotOutcome, SlotRunFinish, SlotRunStart, WaveStart,
};
use crate::run_id::RunId;
use crate::views::usage::Sum;
use crate::wave::objectives;

impl Board {
    /// Applies a record if its run is on the board; returns whether it is.
    pub fn apply(&mut self, record: &Glance<'_>) -> bool {
        let run = record.run();
        if !self.has(&run) {
            return false;
        }
        if let Some(ts) = record.ts() {
            self.times.1 = ts.into_owned();
        }
        let is_own = self.id == run;
        match record.topic().split('.').next().unwrap_or_default() {
            _ if record.has_payload() => {
                let payload = record.payload().unwrap_or_default();
                let note = in_line(&format!("{}  {payload}", record.topic()));
                if let Some(row) = self.row_of(&run) {
                    row.note = note;
                }
            }
            "slot" | "slots" if is_own => self.apply_to_slots(record),
            "chain" if is_own => self.apply_to_chain(record),
            "exchange" if is_own => self.apply_to_exchange(record),
            "squad" if is_own => self.apply_to_squad(record),
            "wave" => self.apply_to_wave(&run, record),
            "backend" => self.apply_to_backend(&run, record),
            _ => self.apply_to_loop(&run, record),
        }
        true
    }

    pub(super) fn begin(&mut self, kind: Kind, title: &str, record: &Glance<'_>) {
        self.kind = Some(kind);
        self.title = in_line(title);
        self.times.0 = record.ts().unwrap_or_default().into_owned();
    }

    fn apply_to_backend(&mut self, run: &str, record: &Glance<'_>) {
        // `iteration.finish` tells how the agent ended, and other records of a backend are long.
        match &*record.topic() {
            BackendParked::TOPIC | BackendResumed::TOPIC | BackendFailed::TOPIC => {}
            BackendUsage::TOPIC if self.kind == Some(Kind::Squad) => {
                self.pending = BackendUsage::of(record).map_or(Sum::default(), |it| Sum::of(&it));
                return;
            }
            _ => return,
        }
        let (slot, turn, parked) = match record.event() {
            Event::BackendParked(parked) => (parked.slot, parked.turn, Some(Parked::new(&parked))),
            Event::BackendResumed(resumed) => (resumed.slot, resumed.turn, None),
            Event::BackendFailed(BackendFailed { detail, slot: Some(slot), .. }) => {
                return self.update_slot(slot, record, |row| {
                    row.note = in_line(&detail);
                    row.end(Outcome { word: "stopped".to_owned(), end: End::Stopped }, record);
                });
            }
            _ => return,
        };
        let row = match (slot, turn) {
            (Some(slot), _) => self.rows.iter_mut().find(|row| row.part == Some(Part::Slot(slot))),
            (None, Some(turn)) => self.row_of_turn(turn),
            (None, None) => self.row_of(run),
        };
        if let Some(row) = row {
            row.parked = parked;
        }
    }

    /// Applies a record of the board's own loop, or of a loop that is a part of it.
    fn apply_to_loop(&mut self, run: &str, record: &Glance<'_>) {
        let event = record.event();
        if let Event::LoopStart(start) = &event {
            return self.begin_loop(run, start, record);
        }
        let is_whole = self.kind == Some(Kind::Loop) && self.id == run;
        let Some(row) = self.row_of(run) else { return };
        let iteration: u64 = record.iteration().parse().unwrap_or_default();
        let mut finished = None;
        match event {
            Event::LoopResume(_) => row.enter(Phase::Between, record),
            Event::ReviewFinish(finish) => {
                let failure = finish.failure().filter(|_| !finish.exit_code.is_missing());
                // The event before it is not its own.
                row.note.clear();
                let name = format!("metareview {iteration}");
                let ended = row.finished(name, Part::Metareview, failure, record);
                finished = Some(Row { item: String::new(), ..ended }).filter(|row| row.level == 0);
                row.enter(Phase::Between, record);
            }
            Event::IterationStart(start) => {
                row.note.clear();
                row.enter(Phase::Agent { iteration }, record);
                row.prints_to(&format!("iteration-{iteration}.out"));
                if is_whole {
                    row.item = in_line(&start.suggested_roles);
                }
            }
            Event::IterationFinish(finish) => {
                // A record without an exit code does not tell how the agent ended.
                let failure = finish.failure().filter(|_| !finish.exit_code.is_missing());
                let name = match is_whole {
                    true => format!("iteration {iteration}"),
                    false => format!("{} #{iteration}", row.name),
                };
                let mut ended = row.finished(name, Part::Loop, failure.clone(), record);
                if ended.note.is_empty() {
                    ended.note = "no event".to_owned();
                }
                finished = Some(ended).filter(|row| row.level == 0);
                row.enter(Phase::Between, record);
                if let Some(failure) = failure {
                    row.note = in_line(&failure.to_string());
                }
            }
            Event::ReviewStart(start) => {
                row.enter(Phase::Metareview { before: iteration }, record);
                // The kind becomes a part of a file name.
                let is_safe = start.kind.parse::<RunId>().is_ok();
                let kind = if is_safe { &start.kind } else { "review" };
                row.prints_to(&format!("{kind}-{iteration}.out"));
            }
            Event::LoopComplete(complete) => {
                row.end(Outcome { word: complete.reason.to_string(), end: End::Done }, record);
            }
            Event::LoopStop(stop) if is_whole => row.end(Outcome::of_whole(&stop.reason), record),
            Event::LoopStop(stop) => row.end(Outcome::of_part(&stop.reason), record),
            _ => return,
        }
        if is_whole {
            self.outcome = row.outcome.clone();
            self.raise = LoopStop::of(record).and_then(|stop| stop.raise).unwrap_or_default();
            self.progress.done = self.progress.done.max(iteration);
        }
        if let Some(finished) = finished {
            self.push_finished(finished);
        }
    }

    fn begin_loop(&mut self, run: &str, start: &LoopStart, record: &Glance<'_>) {
        let is_whole = self.id == run;
        if is_whole {
            // A run starts once; a second start record is forged.
            if self.kind.is_some() {
                return;
            }
            self.begin(Kind::Loop, &start.objective, record);
            self.progress.of = start.max_iterations;
            let (run, name, dir) = (run.to_owned(), "loop".to_owned(), run_path(Kind::Loop, run));
            self.rows = vec![Row { run, name, dir, ..Row::default() }];
        }
        if let Some(row) = self.row_of(run) {
            row.limit = start.max_iterations;
            // The objective of the board is its title.
            if row.title.is_empty() && !is_whole {
                row.title = in_line(&start.objective);
            }
            row.enter(Phase::Between, record);
        }
    }

    fn apply_to_wave(&mut self, run: &str, record: &Glance<'_>) {
        let branch =
            |wave: &str, branch: &str| Some(format!("{wave}-{}", branch.strip_prefix("branch-")?));
        let (row, outcome) = match record.event() {
            Event::WaveStart(start) => return self.open_wave(run, &start, record),
            Event::WaveBranchStart(start) => (branch(&start.wave_id, &start.branch_id), None),
            Event::WaveBranchFinish(finish) => {
                let outcome = Outcome::of_part(&finish.stop_reason);
                (branch(&finish.wave_id, &finish.branch_id), Some(outcome))
            }
            Event::WaveJoinFinish(_) => (Some(run.to_owned()), None),
            _ => return,
        };
        let Some(row) = row.and_then(|run| self.row_of(&run)) else { return };
        match outcome {
            Some(outcome) => row.end(outcome, record),
            None => row.enter(Phase::Between, record),
        }
    }

    /// The rows of a new wave replace those of the last one.
    fn open_wave(&mut self, run: &str, start: &WaveStart, record: &Glance<'_>) {
        let wave = start.wave_id.as_str();
        let Some(parent) = self.rows.iter().position(|row| row.run == run) else { return };
        let level = self.rows[parent].level;
        self.rows[parent].enter(Phase::Wave, record);
        let below = self.rows[parent + 1..].iter().take_while(|row| row.level > level).count();
        let objectives = objectives(&start.objectives, ROWS as u64).unwrap_or_default();
        let branches = objectives.iter().zip(1..).map(|(objective, number)| Row {
            run: format!("{wave}-{number}"),
            number,
            level: level + 1,
            name: format!("branch-{number}"),
            title: in_line(objective),
            dir: branch_path(wave, number),
            ..Row::default()
        });
        self.rows.splice(parent + 1..=parent + below, branches);
    }

    fn apply_to_chain(&mut self, record: &Glance<'_>) {
        match record.event() {
            Event::ChainStart(start) if self.kind.is_none() => self.begin_chain(&start, record),
            Event::ChainStepStart(start) => {
                if let Some(row) = self.step(start.step) {
                    row.item = in_line(&start.preset);
                    row.run = start.run_id.unwrap_or_default();
                    row.dir = run_path(Kind::Loop, &row.run);
                    row.enter(Phase::Between, record);
                }
            }
            Event::ChainStepFinish(finish) => {
                if let Some(row) = self.step(finish.step) {
                    row.end(Outcome::of_part(&finish.stop_reason), record);
                }
            }
            Event::ChainComplete(complete) => {
                let is_good = complete.outcome == ChainOutcome::AllStepsComplete;
                let end = if is_good { End::Done } else { End::Failed };
                self.outcome = Some(Outcome { word: complete.outcome.to_string(), end });
            }
            Event::ChainResume(_) => self.outcome = None,
            _ => {}
        }
        if self.kind == Some(Kind::Chain) {
            let ended = self.rows.iter().filter(|row| row.level == 0 && row.phase == Phase::Ended);
            self.progress.done = ended.count() as u64;
        }
    }

    fn begin_chain(&mut self, start: &ChainStart, record: &Glance<'_>) {
        let objective = start.objective.as_deref().unwrap_or_default();
        self.begin(Kind::Chain, &format!("{}  {objective}", start.name), record);
        let steps = start.steps.split(',').filter(|name| !name.is_empty());
        for (preset, step) in steps.zip(1..).take(ROWS) {
            if let Some(row) = self.numbered("step", step) {
                row.item = in_line(preset);
            }
        }
        self.progress.of = self.rows.len() as u64;
    }

    fn step(&mut self, step: u64) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.level == 0 && row.number == step)
    }

    fn apply_to_exchange(&mut self, record: &Glance<'_>) {
        let round: u64 = record.iteration().parse().unwrap_or_default();
        self.progress.done = self.progress.done.max(round);
        let event = record.event();
        if self.outcome.as_ref().is_some_and(|outcome| outcome.word == Status::Waiting.name()) {
            self.outcome = None;
        }
        match event {
            Event::ExchangeStart(start) if self.kind.is_none() => {
                self.begin(Kind::Exchange, &format!("review of {}", start.branch), record);
                self.progress.of = start.rounds;
                for (name, agent) in [("reviewer", &start.reviewer), ("author", &start.author)] {
                    let dir = run_path(Kind::Exchange, &self.id);
                    let (run, item) = (self.id.clone(), in_line(agent));
                    self.rows.push(Row { run, name: name.to_owned(), item, dir, ..Row::default() });
                }
            }
            Event::ExchangePhase(ExchangePhase { side, attempt }) => {
                let (phase, output) = match side.known() {
                    Some(Side::Reviewer) => {
                        (Phase::Review { attempt }, format!("review-{round}-{attempt}.out"))
                    }
                    _ => (Phase::Fix { attempt: round }, format!("author-{round}.out")),
                };
                self.update_side(side.known(), |row| {
                    row.enter(phase, record);
                    row.prints_to(&output);
                });
            }
            Event::ExchangeReview(review) => {
                let note = format!("{}: {}", review.verdict, review.reason);
                self.update_side(Some(Side::Reviewer), |row| {
                    row.note = in_line(&note);
                    row.enter(Phase::Between, record);
                });
            }
            Event::ExchangeAuthor(turn) => {
                let note = turn.reason.unwrap_or_else(|| turn.commit.clone());
                self.update_side(Some(Side::Author), |row| {
                    row.note = in_line(&note);
                    row.enter(Phase::Between, record);
                });
            }
            Event::ExchangeResume(_) => self.outcome = None,
            Event::ExchangeWait(_) => {
                let word = Status::Waiting.name().to_owned();
                self.outcome = Some(Outcome { word, end: End::Idle });
            }
            Event::ExchangeFinish(finish) => {
                let end = match finish.outcome.known() {
                    Some(ExchangeOutcome::Approved) => End::Done,
                    Some(ExchangeOutcome::Undelivered | ExchangeOutcome::AuthorFailed) => {
                        End::Failed
                    }
                    _ => End::Stopped,
                };
                self.outcome = Some(Outcome { word: finish.outcome.to_string(), end });
            }
            _ => {}
        }
    }

    fn update_side(&mut self, side: Option<Side>, update: impl FnOnce(&mut Row)) {
        let place = usize::from(side != Some(Side::Reviewer));
        if let Some(row) = self.rows.get_mut(place) {
            update(row);
        }
    }

    fn apply_to_slots(&mut self, record: &Glance<'_>) {
        let iteration: u64 = record.iteration().parse().unwrap_or_default();
        self.progress.done = self.progress.done.max(iteration);
        match record.event() {
            Event::SlotRunStart(start) if self.kind.is_none() => self.begin_slots(&start, record),
            Event::SlotRunResume(_) => self.outcome = None,
            Event::SlotStart(start) => {
                if !start.item_id.is_empty() {
                    self.take_item(in_line(&start.item_id));
                }
                let before = self.rows.iter().find(|row| row.part == Some(Part::Slot(start.slot)));
                let is_done = |row: &&Row| {
                    row.outcome.as_ref().is_some_and(|outcome| outcome.end != End::Idle)
                };
                if let Some(done) = before.filter(is_done).cloned() {
                    self.push_finished(done);
                }
                self.update_slot(start.slot, record, |row| {
                    row.item = in_line(&start.item_id);
                    row.title = in_line(&start.title);
                    row.note.clear();
                    row.began.clear();
                    row.output = None;
                    row.enter(Phase::Between, record);
                });
            }
            Event::SlotPhase(entered) => {
                let attempt = entered.attempt;
                let (phase, turn) = match entered.phase.known() {
                    Some(record::Phase::Implement) => (Phase::Implement, "implement".to_owned()),
                    Some(record::Phase::Review) => {
                        (Phase::Review { attempt }, format!("review-{attempt}"))
                    }
                    Some(record::Phase::Fix) => (Phase::Fix { attempt }, format!("fix-{attempt}")),
                    Some(record::Phase::Merge) => (Phase::Merge, String::new()),
                    None => (Phase::Between, String::new()),
                };
                self.update_slot(entered.slot, record, |row| {
                    row.enter(phase, record);
                    // The note of a review is shown during its fix only.
                    if !matches!(phase, Phase::Fix { .. }) {
                        row.note.clear();
                    }
                    if !turn.is_empty() {
                        row.prints_to(&format!("{turn}.out"));
                    }
                });
            }
            // There may be no room for the next agent yet.
            Event::SlotImplement(end) => {
                self.update_slot(end.slot, record, |row| row.enter(Phase::Between, record));
            }
            Event::SlotFix(end) => {
                self.update_slot(end.slot, record, |row| row.enter(Phase::Between, record));
            }
            Event::SlotReview(review) => {
                let (said, reason) = (review.follow_up_prompt, review.reason);
                let note = format!("{}: {said} {reason}", review.verdict);
                self.update_slot(review.slot, record, |row| {
                    row.note = in_line(&note);
                    row.enter(Phase::Between, record);
                });
            }
            Event::SlotMerge(merge) => {
                let note = format!("merge: {} {}", merge.outcome, merge.files);
                self.update_slot(merge.slot, record, |row| row.note = in_line(&note));
            }
            Event::SlotFinish(finish) => self.finish_slot(&finish, record),
            Event::SlotsIterationFinish(finish) => {
                let is_new = self.failed_iterations.last().is_none_or(|last| *last < iteration);
                if finish.failed > 0 && is_new {
                    self.failed_iterations.push(iteration);
                }
            }
            Event::SlotRunFinish(SlotRunFinish { reason, taken, passed, raise, .. }) => {
                let end = match Status::of_slots(&reason, taken == passed) {
                    Status::Interrupted | Status::Stopped => End::Stopped,
                    Status::Completed => End::Done,
                    _ => End::Failed,
                };
                self.raise = raise.unwrap_or_default();
                self.outcome = Some(Outcome { word: reason.to_string(), end });
            }
            _ => {}
        }
    }

    fn begin_slots(&mut self, start: &SlotRunStart, record: &Glance<'_>) {
        self.source = in_line(start.source.as_str());
        let title = format!("items from {}", self.source);
        self.begin(Kind::Slots, &title, record);
        self.progress.of = start.iterations;
        self.most_fixes = start.max_fix_attempts;
        self.numbered("slot", start.parallel_agents);
    }

    fn finish_slot(&mut self, finish: &SlotFinish, record: &Glance<'_>) {
        let outcome = finish.outcome.known();
        self.settle_item(&in_line(&finish.item_id), outcome);
        let end = match outcome {
            Some(SlotOutcome::Passed) => End::Done,
            Some(SlotOutcome::NoItem) => End::Idle,
            _ => End::Failed,
        };
        self.update_slot(finish.slot, record, |row| {
            if !finish.reason.is_empty() {
                row.note = in_line(&finish.reason);
            }
            row.end(Outcome { word: finish.outcome.to_string(), end }, record);
        });
    }

    fn update_slot(&mut self, slot: u64, record: &Glance<'_>, update: impl FnOnce(&mut Row)) {
        let most_fixes = self.most_fixes;
        let dir = slot_path(&self.id, &record.iteration(), slot);
        if let Some(row) = self.numbered("slot", slot) {
            row.limit = most_fixes;
            row.dir = dir;
            row.iteration = record.iteration().parse().unwrap_or_default();
            row.part = Some(Part::Slot(slot));
            update(row);
        }
    }
}
