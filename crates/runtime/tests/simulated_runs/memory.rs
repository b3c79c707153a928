//! Every coordinator on a journal in memory, through its production driver.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::sync::Arc;

use autoloop_core::chain::{Budget, Definitions, StepDefinition};
use autoloop_core::coordinator::Kind;
use autoloop_core::layout::StateDir;
use autoloop_core::provenance::{Provenance, Seal, Unsealed};
use autoloop_core::queue::New;
use autoloop_core::record::{ChainStart, Heading};
use autoloop_core::run::Run;
use autoloop_core::topic::Topic;
use autoloop_runtime::drive::{ChainDriver, DriveError, LoopDriver, SlotsDriver};
use autoloop_runtime::journal::{Append, Durability, Journal, MemoryJournal, Position};
use autoloop_runtime::launch::{ChainLaunch, ChainStep, Launch, Opening, StepLauncher};
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::project::{LoadError, Project};
use autoloop_runtime::queue::Builtin;
use autoloop_runtime::site::Site;
use autoloop_runtime::world::{Clock, World};
use autoloop_testkit::{Script, Seed, SimWorld};

use crate::setup::{CONFIG, STATE};

/// A project with these settings, whose agents do as `act` says.
struct Stage {
    journal: MemoryJournal,
    world: World,
    project: Project,
    state_dir: StateDir,
    interrupts: Interrupts,
}

impl Stage {
    fn new(settings: &str, act: impl Fn(&Agent) + Send + Sync + 'static) -> Stage {
        let (journal, interrupts) = (MemoryJournal::default(), Interrupts::default());
        let sim = SimWorld::new(Seed(1));
        let settings = format!("backend.command = \"agent\"\nreview.enabled = false\n{settings}");
        sim.disk.set_contents(CONFIG, settings.as_bytes());
        let (shared, stopping) = (journal.clone(), interrupts.clone());
        let clock = sim.clock.clone();
        let sim = sim.with_script(move |job| {
            let var = |name: &str| {
                let found = job.env.iter().find(|(key, _)| key == OsStr::new(name));
                found.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default()
            };
            act(&Agent {
                run: var("AUTOLOOP_RUN_ID"),
                iteration: var("AUTOLOOP_ITERATION"),
                item: var("AUTOLOOP_ITEM_ID"),
                journal: shared.handle(),
                clock: Arc::new(clock.clone()),
                interrupts: stopping.clone(),
            });
            Script::exits(0).stdout("done\n")
        });
        let project = Project { dir: "/p".into(), loop_dir: "/p".into(), ..Project::default() };
        let state_dir = StateDir::new(STATE);
        Stage { journal, world: sim.world(), project, state_dir, interrupts }
    }

    fn site(&self) -> Site<'_> {
        Site {
            interrupts: self.interrupts.clone(),
            program: "/bin/autoloop".as_ref(),
            ..Site::new(&self.world, &self.journal, &self.state_dir)
        }
    }

    fn run(&self, run: &str, opening: Opening) -> Result<Run, DriveError> {
        let launch = self.launch(Kind::Loop, run, opening, Some("build it"));
        LoopDriver::open(self.site(), &launch, None)?.run()
    }

    fn launch(&self, kind: Kind, id: &str, opening: Opening, objective: Option<&str>) -> Launch {
        let loaded = self.project.load(&*self.world.disk).unwrap();
        let id = id.parse().unwrap();
        let launch = Launch::new(kind, id, opening, self.project.clone(), loaded);
        Launch { objective: objective.map(str::to_owned), ..launch }
    }

    /// How often each topic is there; checks that every harness record is sealed and in order.
    fn topics(&self) -> HashMap<String, usize> {
        let (mut topics, mut runs) = (HashMap::new(), HashMap::new());
        let key = self.world.key().expect("a simulated world has a key");
        let read = self.journal.read(Position::START, &mut |line| {
            line.records(|record| {
                let (run, topic) = (record.run().into_owned(), record.topic().into_owned());
                if record.source().as_deref() != Some("agent") && !topic.starts_with("queue.") {
                    let provenance = runs.entry(run.clone()).or_insert_with(|| {
                        Provenance::new(Some(key.of_run(&run)), Unsealed::Claimed)
                    });
                    assert_eq!(provenance.check(record), Seal::New { skipped: 0 }, "{topic}");
                }
                *topics.entry(topic).or_default() += 1;
            });
            ControlFlow::Continue(())
        });
        read.expect("memory can be read");
        topics
    }
}

/// An agent at work.
struct Agent {
    run: String,
    iteration: String,
    item: String,
    journal: Arc<dyn Journal>,
    clock: Arc<dyn Clock>,
    interrupts: Interrupts,
}

impl Agent {
    fn emit(&self, topic: &str, payload: &str) {
        let (run, iteration) = (self.run.clone(), self.iteration.clone());
        let heading = Heading { run, iteration, now: self.clock.now() };
        let record = heading.agent(Topic::new(topic), payload).into();
        self.journal.append(&[record], Append::default()).expect("memory can be written");
    }
}

fn stop_reason(run: &Run) -> String {
    run.stop_reason().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn a_loop_is_stopped_and_resumed() {
    let stage =
        Stage::new("event_loop.max_iterations = 5", |agent| match agent.iteration.as_str() {
            "2" => agent.interrupts.raise(2),
            "3" => agent.emit("task.complete", ""),
            _ => agent.emit("step.done", ""),
        });
    let run = stage.run("run-1", Opening::Begin).unwrap();
    assert_eq!((run.done, stop_reason(&run).as_str()), (2, ""));
    let stage = Stage { interrupts: Interrupts::default(), ..stage };
    let run = stage.run("run-1", Opening::Resume).unwrap();
    assert_eq!((run.done, stop_reason(&run).as_str()), (3, "completion_event"));
    assert_eq!(stage.topics()["loop.resume"], 1);
}

#[test]
fn a_wave_is_joined() {
    let settings = "event_loop.max_iterations = 3\nparallel.enabled = true";
    let stage = Stage::new(settings, |agent| {
        match (agent.run.contains("wave"), agent.iteration.as_str()) {
            (false, "1") => agent.emit("explore.parallel", "- a\n- b\n"),
            _ => agent.emit("task.complete", ""),
        }
    });
    let run = stage.run("run-1", Opening::Begin).unwrap();
    assert_eq!(stop_reason(&run), "completion_event");
    let topics = stage.topics();
    assert_eq!((topics["wave.branch.finish"], topics["explore.parallel.joined"]), (2, 1));
}

/// The steps of chains: runs of the same loop.
impl StepLauncher for Stage {
    fn definitions(&self, _: &Project) -> Result<Definitions, LoadError> {
        Ok(Definitions::default())
    }

    fn check(&self, _: &Project, _: &[StepDefinition]) -> Result<(), DriveError> {
        Ok(())
    }

    fn begin(&self, step: ChainStep<'_>) -> Result<Launch, DriveError> {
        Ok(self.launch(Kind::Loop, &format!("run-{}", step.number), Opening::Begin, None))
    }

    fn resume(&self, _: ChainStep<'_>, run: &str) -> Result<Launch, DriveError> {
        Ok(self.launch(Kind::Loop, run, Opening::Resume, None))
    }
}

#[test]
fn a_chain_is_completed() {
    let stage = Stage::new("", |agent| agent.emit("task.complete", ""));
    let start = ChainStart {
        name: "both".into(),
        steps: "one,two".into(),
        step_count: 2,
        ..ChainStart::default()
    };
    let launch = stage.launch(Kind::Chain, "chain-1", Opening::Begin, None);
    let chain = ChainLaunch { launch, start, steps: vec![StepDefinition::default(); 2] };
    let drive = ChainDriver::open(stage.site(), &chain, &stage, Budget::default());
    let chain = drive.unwrap().run().unwrap();
    assert_eq!(
        chain.outcome.map(|outcome| outcome.to_string()).as_deref(),
        Some("all_steps_complete")
    );
    let topics = stage.topics();
    assert_eq!((topics["chain.step.finish"], topics["loop.complete"]), (2, 2));
}

#[test]
fn slots_process_a_queue() {
    let stage = Stage::new("[slots]\nreviewEnabled = false\nparallelAgents = 2", |agent| {
        agent.emit("note.made", &agent.item);
    });
    let queue = Builtin::new(&stage.journal, &stage.world, Durability::Cached, Builtin::USUAL);
    for title in ["one", "two", "three"] {
        queue.add(&New { title: title.into(), ..New::default() }).unwrap();
    }
    let launch = stage.launch(Kind::Slots, "slots-1", Opening::Begin, None);
    let drive = SlotsDriver::open(stage.site(), &launch, &queue, &[]);
    let slots = drive.unwrap().run().unwrap();
    assert!(slots.finish.is_some());
    let topics = stage.topics();
    assert_eq!(
        (topics["slot.implement"], topics["queue.task.closed"], topics["note.made"]),
        (3, 3, 3)
    );
}
