//! Carries out a review by message: delivers what is recorded, runs the checks, the reviewer and the author's agent,
//! and records the results.
//!
//! Nothing is decided here: what is next is [`next_step`]. A message is recorded with its whole file before it is
//! delivered, so an exchange that crashed anywhere is continued by asking again.

mod change;
mod post;

use std::cell::{Ref, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoloop_core::agents::Adapter;
use autoloop_core::config::{Key, Origin};
use autoloop_core::coordinator::Kind;
use autoloop_core::env::Env;
use autoloop_core::exchange::{
    Acting, AnswerRules, Exchange, ExchangeRules, Mail, Outcome, Side, Stamp, Step, addressed,
    next_step, read_answer, request, response, verdict_of, within_limits,
};
use autoloop_core::memory::Places;
use autoloop_core::message::{Addressed, Packet};
use autoloop_core::permissions::AllowList;
use autoloop_core::plan::BackendPlan;
use autoloop_core::prompt::exchange as prompt;
use autoloop_core::record::{
    ExchangeAuthor, ExchangeAuto, ExchangeFinish, ExchangeMessage, ExchangePhase, ExchangeResume,
    ExchangeReview, ExchangeSent, ExchangeStart, ExchangeWait, Heading, Record,
};
use autoloop_core::review::{Answer, Evidence};
use autoloop_core::text::{Shortened, first_line};

use super::review_turn::{ReviewTurn, Reviewed, note_violations};
use super::{DriveError, durability, environment, reviewer_handler};
use crate::emit::Caller;
use crate::error::LaunchError;
use crate::evidence::{CheckRunner, Checkout};
use crate::git::Repository;
use crate::harness::{Harness, RunLock, RunPlace};
use crate::ipc::Handler;
use crate::launch::{Launch, look_up};
use crate::layout::RunDir;
use crate::mailbox::Workspace;
use crate::review::{OtherWriters, ReviewSandbox, Subject, sweep};
use crate::sandbox::Extent;
use crate::site::{Progress, Site};
use crate::turn::{
    self, Ended, Place, Turn, Waiting, client_failure, millis, notes, recorded, said, usage,
};
use crate::world::{Cause, Finished};

pub use change::{Change, describe};
pub use post::OpenRequest;

/// The maximum length of a summary of the author's agent, in characters.
const SUMMARY: usize = 4_000;

pub struct ExchangeDriver<'a> {
    site: Site<'a>,
    launch: &'a Launch,
    mail: Workspace,
    /// `None` in a simulated world.
    repository: Option<Repository>,
    sandbox: ReviewSandbox,
    harness: RefCell<Harness<'a, Exchange>>,
    dir: RunDir,
    rules: ExchangeRules,
}

/// What a command adds to an exchange before its next step.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Nothing: what is recorded is carried on.
    Continue,
    /// A request of the author; the first one begins the exchange.
    Request {
        start: ExchangeStart,
        commit: String,
        diff_summary: String,
    },
    /// A request that another program delivered, which begins the exchange.
    Received {
        start: ExchangeStart,
        message: ExchangeMessage<'static>,
    },
    Address(Addressed),
    /// The harness runs the author's agent, too, until the end.
    Auto,
}

impl<'a> ExchangeDriver<'a> {
    pub fn open(
        site: Site<'a>,
        launch: &'a Launch,
        mail: Workspace,
        acting: Acting,
    ) -> Result<Self, DriveError> {
        launch.report(&site);
        let Launch { project, id, opening, loaded, .. } = launch;
        let world = site.world;
        let is_real = !world.spawner.is_simulated();
        let found = is_real.then(|| change::repository(&project.dir, world)).transpose()?;
        let sandbox = ReviewSandbox::choose(Some(loaded.plan.slots.sandbox), world)?;
        let place = RunPlace::of(&site, Kind::Exchange, id.as_str())?;
        let lock = RunLock::take(&place)?;
        let durability = durability(&loaded.plan);
        let harness = Harness::open(*opening, &site, &place, lock, durability)?;
        if is_real {
            sweep(site.state_dir, world);
        }
        launch.keep_request(world)?;
        let rules = ExchangeRules { acting, checks: loaded.plan.checks.clone() };
        let (dir, harness) = (place.dir, RefCell::new(harness));
        Ok(ExchangeDriver { site, launch, mail, repository: found, sandbox, harness, dir, rules })
    }

    /// Carries the exchange on until it ends, waits for another command, or is interrupted.
    pub fn run(self, order: Order) -> Result<Exchange, DriveError> {
        self.record_resumption()?;
        // What an earlier command recorded comes first.
        while let Step::Deliver(mail) = self.step() {
            self.deliver(&mail)?;
        }
        self.take(order)?;
        while !self.is_interrupted()? {
            match self.step() {
                Step::Deliver(mail) => self.deliver(&mail)?,
                Step::Check(check) => {
                    let number = self.exchange().round().map_or(0, |round| round.checks.len());
                    let round = self.round();
                    self.report(&format!("check: {}", check.command));
                    let name = format!("{round}-{number}");
                    let runner = self.checks();
                    if let Some(result) = runner.run(&check, &self.commit(), &name)? {
                        self.report(&format!("check: {}: {}", check.command, result.result()));
                        self.record(|heading| vec![result.record(heading)])?;
                    }
                }
                Step::Review { attempt } => self.review(attempt)?,
                Step::Respond => {
                    let message = response(&self.exchange(), self.stamp());
                    self.record_message(message)?;
                }
                Step::Author => self.author()?,
                Step::Address => {
                    let done = self.authored()?;
                    let message = addressed(&self.exchange(), &done, self.stamp());
                    self.record_message(message)?;
                }
                Step::Request { round } => self.request_next(round)?,
                Step::Wait(side) => {
                    self.wait(side)?;
                    break;
                }
                Step::Finish(finish) => {
                    self.report(&format!("ended: {}", finish.outcome));
                    self.record(|heading| vec![finish.record(heading)])?;
                }
                Step::Over => break,
            }
        }
        Ok(self.harness.into_inner().into_fold())
    }

    fn exchange(&self) -> Ref<'_, Exchange> {
        Ref::map(self.harness.borrow(), Harness::fold)
    }

    fn step(&self) -> Step {
        let (exchange, limits) = (self.exchange(), &self.launch.loaded.plan.limits);
        let now = self.site.world.clock.now();
        within_limits(next_step(&exchange, &self.rules), &exchange, limits, now)
    }

    fn round(&self) -> u64 {
        self.exchange().round().map_or(0, |round| round.number)
    }

    /// The commit that the last round is about.
    fn commit(&self) -> String {
        self.exchange().round().map(|round| round.request.commit.clone()).unwrap_or_default()
    }

    fn stamp(&self) -> Stamp {
        let world = self.site.world;
        Stamp { now: world.clock.now(), random: world.entropy.number() }
    }

    fn record_resumption(&self) -> Result<(), DriveError> {
        let previous = self.exchange().finish.as_ref().map(|finish| finish.outcome.clone());
        match previous {
            Some(previous_outcome) => {
                let resume = ExchangeResume { previous_outcome };
                self.record(|heading| vec![resume.record(heading)])
            }
            None => Ok(()),
        }
    }

    /// Records what a command asks for. What is recorded already is not recorded again.
    fn take(&self, order: Order) -> Result<(), DriveError> {
        match order {
            Order::Continue => Ok(()),
            Order::Request { start, commit, diff_summary } => {
                let begun = self.exchange().start.clone();
                let round = self.round() + 1;
                let (start, is_new) = (begun.clone().unwrap_or(start), begun.is_none());
                let message =
                    request(&self.exchange(), &start, round, &commit, &diff_summary, self.stamp());
                let message = message.ok_or(DriveError::NoMessage)?;
                self.record_in(round, |heading| {
                    let start = is_new.then(|| start.record(heading));
                    start.into_iter().chain([message.record(heading)]).collect()
                })
            }
            Order::Received { start, message } => {
                let sent = ExchangeSent {
                    message_id: message.message_id.clone(),
                    file: message.file.clone(),
                };
                let begun = self.exchange().start.is_some();
                self.record_in(message.round, |heading| {
                    let start = (!begun).then(|| start.record(heading));
                    start
                        .into_iter()
                        .chain([message.record(heading), sent.record(heading)])
                        .collect()
                })
            }
            Order::Address(done) => {
                let message = addressed(&self.exchange(), &done, self.stamp());
                self.record_message(message)
            }
            Order::Auto => {
                let auto = ExchangeAuto { round: self.round() };
                self.record(|heading| vec![auto.record(heading)])
            }
        }
    }

    /// Ends the exchange if it was asked to stop; it can be resumed.
    fn is_interrupted(&self) -> Result<bool, DriveError> {
        if self.site.interrupts.first().is_none() {
            return Ok(false);
        }
        let is_open = self.exchange().start.is_some() && self.exchange().finish.is_none();
        if is_open {
            let finish =
                ExchangeFinish { outcome: Outcome::Interrupted.into(), ..Default::default() };
            self.record(|heading| vec![finish.record(heading)])?;
        }
        Ok(true)
    }

    /// Delivers a recorded message under its recorded name, and files away what it answers.
    fn deliver(&self, mail: &Mail) -> Result<(), DriveError> {
        let exchange = self.exchange().clone();
        let start = exchange.start.clone().unwrap_or_default();
        post::deliver(&self.mail, mail, self.site.world)?;
        for answered in exchange.mails().filter(|other| mail.answers(other)) {
            post::archive(&self.mail, answered.recipient(&start), &answered.id)?;
        }
        self.report(&format!("sent {} to {}", mail.kind, mail.recipient(&start)));
        let sent = ExchangeSent { message_id: mail.id.clone(), file: mail.file.clone() };
        self.record(|heading| vec![sent.record(heading)])
    }

    fn wait(&self, side: Side) -> Result<(), DriveError> {
        if self.exchange().waits_for == Some(side) {
            return Ok(());
        }
        let wait = ExchangeWait { side: side.into() };
        self.record(|heading| vec![wait.record(heading)])
    }

    fn checks(&self) -> CheckRunner<'_, 'a> {
        CheckRunner {
            site: &self.site,
            repository: self.repository.as_ref(),
            project: &self.launch.project.dir,
            home: self.launch.project.env.home.as_deref(),
            sandbox: self.launch.loaded.plan.slots.sandbox,
            dir: &self.dir,
        }
    }

    /// Runs the reviewer once, and records its answer.
    fn review(&self, attempt: u64) -> Result<(), DriveError> {
        let (round, commit) = (self.round(), self.commit());
        let backend = self.reviewer()?;
        self.phase(Side::Reviewer, attempt)?;
        let reviewed = self.run_reviewer(&backend, attempt)?;
        let Reviewed { ended: Ended { finished, .. }, changes, held_by } = reviewed;
        if !self.has_ended(&finished, &backend, Key::SlotsReviewerCommand)? {
            return Ok(());
        }
        let turns = finished.answer.as_ref().map_or(0, |answer| answer.session.turns);
        let (answer, packet) = self.read(&finished, &backend, turns);
        let record = ExchangeReview {
            round,
            attempt,
            commit,
            verdict: answer.verdict.into(),
            reason: answer.reason,
            elapsed_ms: millis(finished.elapsed),
            exit_code: Some(finished.exit_code().into()),
            turns: (turns > 0).then_some(turns),
            enforcement: held_by.map(Into::into),
            packet: packet.map(|packet| packet.print().into()),
            output: Some(recorded(&finished).into()),
        };
        self.report(
            format!("review: {} {}", record.verdict, first_line(&record.reason, 120)).trim_end(),
        );
        let violations = changes.all_violations();
        self.record(|heading| {
            let usage = usage(&finished, &backend, Side::Reviewer.name());
            let usage = usage.map(|usage| usage.record(heading));
            let violations = violations.iter().map(|violation| violation.record(heading));
            usage.into_iter().chain(violations).chain([record.record(heading)]).collect()
        })?;
        note_violations(&violations, "", &self.site);
        Ok(())
    }

    /// Runs the reviewer in a private checkout of the commit.
    fn run_reviewer(&self, backend: &BackendPlan, attempt: u64) -> Result<Reviewed, DriveError> {
        let (round, project) = (self.round(), &self.launch.project.dir);
        let (commit, note) = (self.commit(), self.dir.checkout());
        let checkout = |repository| Checkout::new(repository, &commit, &note, self.site.world);
        let checkout = self.repository.as_ref().map(checkout).transpose()?;
        let tree = checkout.as_ref().map_or_else(|| project.clone(), Checkout::tree);
        let prompt = prompt::review(&self.exchange(), attempt);
        let turn = Turn {
            backend,
            prompt: &prompt,
            dir: &self.dir,
            name: format!("review-{round}-{attempt}"),
            stdout: None,
            place: Place::Worktree { dir: &tree, project },
            env: self.environment(round),
            has_tools: false,
            look_for: None,
        };
        let mut review = ReviewTurn {
            site: self.site.clone(),
            sandbox: &self.sandbox,
            launch: turn.prepare(&self.site)?,
            ends: self.site.interrupts.clone(),
        };
        review.launch.job.env.push(("GIT_NO_REPLACE_OBJECTS".into(), "1".into()));
        let confined = review.confine(|| self.subject(&tree));
        review.run(confined, None, || false, |waiting| self.parked(waiting))
    }

    /// Reads what the reviewer answered, and its packet.
    fn read(
        &self,
        finished: &Finished,
        backend: &BackendPlan,
        turns: u64,
    ) -> (Answer, Option<Packet>) {
        let exchange = self.exchange();
        let (round, output) = (self.round(), said(finished));
        let earlier = exchange.earlier_packet(round);
        let has_checks = !self.rules.checks.is_empty();
        let rules = AnswerRules { round, earlier: earlier.as_ref(), has_checks };
        let read = (!output.trim().is_empty()).then(|| read_answer(&output, rules));
        let evidence = Evidence {
            failure: turn::failure(finished, backend).map(|failure| failure.of("reviewer")),
            exhausted: self.exhausted(finished, turns),
            answer: read.as_ref().map(|read| read.as_ref().map(verdict_of).map_err(Clone::clone)),
        };
        (exchange.contract().read(evidence), read.and_then(Result::ok))
    }

    /// The agent of the reviewer, with what is left of its budgets.
    fn reviewer(&self) -> Result<BackendPlan, DriveError> {
        let plan = &self.launch.loaded.plan.slots.reviewer;
        self.check_agent(plan, Key::SlotsReviewerCommand)?;
        let exchange = self.exchange();
        let start = exchange.start.clone().unwrap_or_default();
        let used = exchange.round().map(|round| Duration::from_millis(round.elapsed_ms()));
        let budget = Duration::from_secs(start.max_runtime_s);
        let mut backend = BackendPlan {
            timeout: budget.saturating_sub(used.unwrap_or_default()).max(Duration::from_millis(1)),
            timeout_key: "max_runtime_s_reviewer".to_owned(),
            ..plan.clone()
        };
        let flag = backend.client().and_then(|client: &Adapter| client.turn_limit);
        backend.args.extend(
            flag.into_iter().flat_map(|flag| [flag.to_owned(), start.max_turns.to_string()]),
        );
        self.sandbox.around(&backend, exchange.contract(), &self.dir, &self.site)
    }

    /// The budget that the reviewer used up in this round.
    fn exhausted(&self, finished: &Finished, turns: u64) -> Option<String> {
        let exchange = self.exchange();
        let start = exchange.start.as_ref()?;
        let turns = turns + exchange.round().map_or(0, |round| round.turns());
        let is_at_limit = turns >= start.max_turns && finished.exit_code() != 0;
        if finished.timed_out() {
            let limit = start.max_runtime_s;
            return Some(format!("max_runtime_s_reviewer: it ran for {limit} s without an answer"));
        }
        (turns > start.max_turns || is_at_limit)
            .then(|| format!("max_turns_reviewer: it took {turns} turns of {}", start.max_turns))
    }

    /// Runs the agent of the author in the project, and commits what it leaves.
    fn author(&self) -> Result<(), DriveError> {
        let (round, reviewed) = (self.round(), self.commit());
        let Launch { project, loaded, .. } = self.launch;
        let backend = &loaded.plan.backend;
        self.check_agent(backend, Key::BackendCommand)?;
        let branch = self.exchange().start.clone().unwrap_or_default().branch;
        if let Some(repository) = &self.repository
            && repository.branch()?.as_ref() != Some(&branch)
        {
            return Err(DriveError::OtherBranch(branch));
        }
        self.phase(Side::Author, round)?;
        let prompt = prompt::author(&self.exchange());
        let turn = Turn {
            backend,
            prompt: &prompt,
            dir: &self.dir,
            name: format!("author-{round}"),
            stdout: None,
            place: Place::Project(&project.dir),
            env: self.environment(round),
            has_tools: false,
            look_for: None,
        };
        let launch = turn.prepare(&self.site)?;
        let ended =
            launch.run(&self.site, &self.site.interrupts, |waiting| self.parked(waiting))?;
        let finished = ended.finished;
        if !self.has_ended(&finished, backend, Key::BackendCommand)? {
            return Ok(());
        }
        let failure = turn::failure(&finished, backend).map(|failure| failure.of("author"));
        let committed = match (&self.repository, failure) {
            (_, Some(failure)) => Err(failure),
            (None, None) => Ok(format!("{:040x}", round + 1)),
            (Some(repository), None) => {
                let message = format!("Address the findings of review round {round}");
                change::commit(repository, &branch, &reviewed, &message)?
            }
        };
        let (commit, reason) = match committed {
            Ok(commit) => (commit, None),
            Err(reason) => (reviewed, Some(reason)),
        };
        self.report(&format!("author: {}", reason.as_deref().unwrap_or(&commit)));
        let record = ExchangeAuthor {
            round,
            exit_code: finished.exit_code().into(),
            timed_out: finished.timed_out(),
            elapsed_ms: millis(finished.elapsed),
            commit,
            reason,
            output: Some(recorded(&finished).into()),
        };
        self.record(|heading| {
            let usage = usage(&finished, backend, Side::Author.name());
            let usage = usage.map(|usage| usage.record(heading));
            usage.into_iter().chain([record.record(heading)]).collect()
        })
    }

    /// What the author's agent did about the findings of the last round.
    fn authored(&self) -> Result<Addressed, DriveError> {
        let exchange = self.exchange();
        let round = exchange.round();
        let turn = round.and_then(|round| round.authored.as_ref());
        let commit = turn.map(|turn| turn.commit.clone()).unwrap_or_default();
        let said = turn.map(|turn| Shortened::new(turn.output.trim(), SUMMARY).to_string());
        let packet = round.and_then(|round| round.response.as_ref()?.findings());
        let ids = packet.iter().flat_map(|packet| packet.unresolved_blockers());
        let files = match &self.repository {
            Some(repository) => repository.changes(&self.commit(), &commit)?.files,
            None => Vec::new(),
        };
        Ok(Addressed {
            commit_sha: commit,
            changes_summary: said
                .filter(|said| !said.is_empty())
                .unwrap_or("see the commit".to_owned()),
            round: self.round(),
            touched_files: files,
            addressed_finding_ids: ids.map(|finding| finding.id.clone()).collect(),
            rest: Vec::new(),
        })
    }

    /// Requests the round after one that the author's agent addressed.
    fn request_next(&self, round: u64) -> Result<(), DriveError> {
        let addressed = self.exchange().round().and_then(|round| round.addressed.clone());
        let commit = addressed.map(|mail| mail.commit).unwrap_or_default();
        let start = self.exchange().start.clone().unwrap_or_default();
        let summary = match &self.repository {
            Some(repository) => describe(&repository.changes(&start.base, &commit)?),
            None => "simulated".to_owned(),
        };
        let message = request(&self.exchange(), &start, round, &commit, &summary, self.stamp());
        let message = message.ok_or(DriveError::NoMessage)?;
        self.record_in(round, |heading| vec![message.record(heading)])
    }

    fn environment(&self, round: u64) -> Env {
        Env {
            project_dir: std::path::absolute(&self.launch.project.dir).ok(),
            ..environment(&self.launch.loaded, self.launch.id.as_str(), round)
        }
    }

    /// The program of an agent is looked up before it is needed.
    fn check_agent(&self, backend: &BackendPlan, key: Key) -> Result<(), DriveError> {
        let Launch { project, .. } = self.launch;
        look_up(backend, &project.dir, self.site.world).map_err(|why| self.agent_missing(why, key))
    }

    fn agent_missing(&self, why: String, key: Key) -> DriveError {
        let loaded = &self.launch.loaded;
        let has_own = loaded.settings.origin(key) != Origin::Default;
        let key = if has_own { key } else { Key::BackendCommand };
        LaunchError::NoAgent { why, setting: loaded.named(key) }.into()
    }

    /// Whether an agent was not interrupted. Fails where no turn of it can succeed.
    fn has_ended(
        &self,
        finished: &Finished,
        backend: &BackendPlan,
        key: Key,
    ) -> Result<bool, DriveError> {
        if let Some(error) = client_failure(finished, backend, |why| self.agent_missing(why, key)) {
            return Err(error);
        }
        notes(finished).iter().for_each(|note| self.site.note(note));
        Ok(finished.cause != Cause::Interrupt)
    }

    /// The subject of a review: a checkout of its own, in which nothing may change.
    fn subject(&self, tree: &Path) -> io::Result<(Subject, Handler)> {
        let loaded = &self.launch.loaded;
        let files = &loaded.files;
        let (tree, state_dir) = (tree.canonicalize()?, files.state_dir.canonicalize()?);
        let run = self.launch.id.to_string();
        let project = self.launch.project.dir.canonicalize()?;
        let git = self.repository.iter().filter_map(|found| found.common().canonicalize().ok());
        let protected: Vec<PathBuf> =
            [tree.clone(), state_dir.clone(), project].into_iter().chain(git).collect();
        let subject = Subject {
            contract: self.exchange().contract(),
            run: run.clone(),
            dir: self.dir.clone(),
            allow: AllowList::read_only(),
            sealed: Vec::new(),
            growing: Vec::new(),
            protected,
            ours: vec![state_dir.clone()],
            beneath: Vec::new(),
            extent: Extent::Worktree,
            neighbours: OtherWriters::None,
            tree,
            state_dir,
        };
        let memory = Places {
            project: files.memory.clone(),
            run: Places::of_run(&files.state_dir, &run).run,
        };
        let caller =
            Caller { run: Some(run), iteration: self.round().to_string(), ..Caller::default() };
        Ok((subject, reviewer_handler(&self.site, loaded, memory, caller)))
    }

    fn phase(&self, side: Side, attempt: u64) -> Result<(), DriveError> {
        self.report(&format!("round {}: {side}", self.round()));
        let phase = ExchangePhase { side: side.into(), attempt };
        let round = self.round();
        self.harness.borrow_mut().record_quietly(round, |heading| phase.record(heading))
    }

    fn parked(&self, waiting: &Waiting) -> Result<(), DriveError> {
        let round = self.round();
        self.harness.borrow_mut().record_quietly(round, |heading| waiting.record(None, heading))
    }

    fn report(&self, line: &str) {
        self.site.report(Progress::Exchange { id: self.launch.id.as_str(), line });
    }

    fn record_message(&self, message: Option<ExchangeMessage<'_>>) -> Result<(), DriveError> {
        let message = message.ok_or(DriveError::NoMessage)?;
        self.record(|heading| vec![message.record(heading)])
    }

    fn record(&self, records: impl FnOnce(&Heading) -> Vec<Record>) -> Result<(), DriveError> {
        self.record_in(self.round(), records)
    }

    fn record_in(
        &self,
        round: u64,
        records: impl FnOnce(&Heading) -> Vec<Record>,
    ) -> Result<(), DriveError> {
        let note = self.harness.borrow_mut().record_refusing(round, records)?;
        note.iter().for_each(|note| self.site.note(note));
        Ok(())
    }
}
