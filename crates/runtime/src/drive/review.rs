//! A metareview: the loop looks at itself before it goes on.

use std::io;
use std::path::Path;
use std::sync::Arc;

use autoloop_core::failure::TurnFailure;
use autoloop_core::permissions::AllowList;
use autoloop_core::prompt::review::{ReviewOrder, render};
use autoloop_core::record::{ReviewFinish, ReviewStart};
use autoloop_core::review::Contract;
use autoloop_core::routing::METAREVIEW_DISABLED;
use autoloop_core::topology::Route;
use autoloop_core::wave::Parallel;

use super::iteration::{LoopTurn, invalid_events};
use super::{Drive, DriveError, Progress};
use crate::emit::{Emitter, Speaker};
use crate::ipc::Handler;
use crate::journal::sidecar::sidecar_dir;
use crate::journal::{FileSettings, NewRecord};
use crate::memory::Tiers;
use crate::review::{Neighbours, ReviewSite, Subject, Violations, not_started, seen_from};
use crate::sandbox::{Extent, repository_paths};
use crate::turn::{failure, millis, notes, said, usage};
use crate::world::Ending;

const CONTRACT: Contract = Contract::Metareview;

impl Drive<'_> {
    /// Has a metareview done before an iteration. However it ends, the loop goes on.
    pub(super) fn review(&mut self, before: u64) -> Result<(), DriveError> {
        let Some(plan) = self.loaded.plan.review.clone() else { return Ok(()) };
        self.site.report(Progress::Review { before });
        let recent_event = self.harness.run().recent_event.clone();
        let prompt = render(&self.review_order(before, &recent_event)?);
        let route = Route {
            roles: vec!["review".to_owned()],
            events: vec![METAREVIEW_DISABLED.to_owned()],
        };
        let turn = LoopTurn {
            iteration: before,
            recent_event: &recent_event,
            route: &route,
            review: CONTRACT.name(),
            prompt: &prompt,
        };
        let mut launch = self.launch(&plan.backend, &turn)?;
        let site = ReviewSite {
            world: self.site.world,
            program: &self.site.program,
            home: self.project.env.home.as_deref(),
        };
        let confined = self.reviewer.confine(|| self.subject(&turn), &mut launch.job, site);
        let start = ReviewStart {
            kind: CONTRACT.name().to_owned(),
            backend_kind: plan.backend.kind.into(),
            command: plan.backend.command.clone(),
            prompt_mode: launch.prompt_mode(),
            prompt: prompt.as_str().into(),
            timeout_ms: millis(plan.backend.timeout),
            enforcement: match &confined {
                Ok(Some(confined)) => Some(confined.enforcement()),
                Ok(None) | Err(_) => None,
            },
        };
        let heading = self.harness.heading(before, self.site.world.clock.now());
        self.harness.append(self.durability(), |_| vec![start.record(&heading).into()])?;

        let held = confined.and_then(|confined| {
            let hold = |confined| self.reviewer.hold(confined, &launch.job, self.site.world);
            confined.map(hold).transpose()
        });
        let (ended, changes) = match held {
            Ok(held) => {
                let ended = launch.run(self.site.world, &self.site.interrupts);
                let release = |held| self.reviewer.release(held, self.site.world, |_| {}).0;
                (ended, held.map(release).unwrap_or_default())
            }
            Err(error) => (not_started(&error), Violations::default()),
        };
        let (output, finished) = (ended.long_output(self.site.world), ended.finished);
        let failure = failure(&finished, &plan.backend);
        let finish = ReviewFinish {
            kind: CONTRACT.name().to_owned(),
            exit_code: finished.exit_code().into(),
            timed_out: finished.timed_out(),
            output: if output.is_some() { "".into() } else { said(&finished).into() },
            diff: changes.diff.as_deref().map(Into::into),
            interrupted: failure.as_ref().filter(|it| it.is_interrupt()).map(|_| true),
            detail: failure.as_ref().and_then(TurnFailure::cause),
        };
        let violations = changes.all_violations();
        for violation in &violations {
            let note = format!("the reviewer went too far: {}: {}", violation.path, violation.what);
            self.site.note(&note);
        }
        let heading = self.harness.heading(before, self.site.world.clock.now());
        self.harness.append(self.durability(), |foreign| {
            let invalid = invalid_events(&recent_event, (&route, &Parallel::Off), foreign);
            let mut records: Vec<NewRecord> =
                invalid.iter().map(|invalid| invalid.record(&heading).into()).collect();
            records.extend(violations.iter().map(|violation| violation.record(&heading).into()));
            records.extend(usage(&finished).map(|usage| usage.record(&heading).into()));
            records.push(NewRecord { record: finish.record(&heading), spooled: output.clone() });
            records
        })?;
        let about = match finished.ending {
            Ending::NeverStarted(_) => "no metareview took place: ",
            Ending::Exited(_) | Ending::Lost(_) => "",
        };
        // One that never began is told of below, and an interrupt where the run ends.
        let is_told = matches!(finished.ending, Ending::NeverStarted(_));
        if let Some(failure) = failure.filter(|it| !it.is_interrupt() && !is_told) {
            self.site.note(&failure.of(CONTRACT.name()));
        }
        for note in notes(&finished) {
            self.site.note(&format!("{about}{note}"));
        }
        self.reload();
        self.notices.extend(changes.notices);
        Ok(())
    }

    fn review_order(&self, before: u64, recent_event: &str) -> Result<ReviewOrder, DriveError> {
        let route = self.loaded.topology.route(recent_event);
        Ok(ReviewOrder {
            context: self.context(before, self.routing(recent_event, route))?,
            instructions: self.loaded.review_prompt.clone().unwrap_or_default(),
        })
    }

    /// What a metareview is about: the project, with the files of the loop that it may change.
    fn subject(&self, turn: &LoopTurn<'_>) -> io::Result<(Subject, Handler)> {
        let files = &self.loaded.files;
        let disk = &*self.site.world.disk;
        let tree = self.project.dir.canonicalize()?;
        let state_dir = files.state_dir.canonicalize()?;
        let loop_dir = self.project.loop_dir.canonicalize()?;
        let run_memory = self.memory_places().run;
        let growing: Vec<_> =
            [files.journal.clone(), files.memory.clone()].into_iter().chain(run_memory).collect();
        let seen = |path: &Path| seen_from(&tree, path);
        let list = AllowList::metareview(&seen(&loop_dir), &seen(&state_dir));
        // Settings that the run began without do not count, and none are made.
        let list = match self.project.has_settings(disk) {
            true => list,
            false => list.without(&seen(&loop_dir).join("autoloops.toml")),
        };
        let allow = growing.iter().fold(list, |list, file| list.growing(&seen(file)));
        let mut protected = vec![tree.clone(), loop_dir, state_dir.clone()];
        protected.extend(growing.iter().filter_map(|path| path.canonicalize().ok()));
        protected.extend(repository_paths(&tree));
        let subject = Subject {
            contract: CONTRACT,
            run: self.harness.run().id.clone(),
            dir: self.dir.clone(),
            allow,
            growing,
            sealed: Vec::new(),
            protected,
            ours: vec![
                self.dir.lock(),
                self.dir.scratch(),
                self.dir.placeholders(),
                files.state_dir.shims(),
                sidecar_dir(&files.journal),
            ],
            beneath: self.project.settings_beneath(disk).unwrap_or_default(),
            extent: Extent::Project,
            neighbours: Neighbours::Runs,
            tree,
            state_dir,
        };
        Ok((subject, self.handler(turn)))
    }

    /// Stores for a reviewer what it cannot write itself.
    fn handler(&self, turn: &LoopTurn<'_>) -> Handler {
        let run = &self.harness.run().id;
        let iteration = turn.iteration.to_string();
        let settings = FileSettings { lock_timeout: self.loaded.plan.journal.lock_timeout };
        let memory = Tiers::at(self.memory_places(), self.site.world, settings);
        Handler {
            memory: memory.for_author(Some(run), Some(&iteration)),
            emitter: Emitter {
                speaker: Speaker {
                    run: Some(run.clone()),
                    iteration,
                    recent_event: turn.recent_event.to_owned(),
                    route: turn.route.clone(),
                    parallel: Parallel::Off,
                },
                journal: self.harness.journal().handle(),
                durability: self.durability(),
                clock: Arc::clone(&self.site.world.clock),
            },
        }
    }
}
