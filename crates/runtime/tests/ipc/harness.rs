//! A harness that listens, for the tests.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use autoloop_core::layout::StateDir;
use autoloop_core::memory::Places;
use autoloop_core::routing::METAREVIEW_DISABLED;
use autoloop_core::topic::Topic;
use autoloop_core::topology::Route;
use autoloop_runtime::emit::{Caller, Emitter};
use autoloop_runtime::failure::Failure;
use autoloop_runtime::ipc::{Client, Handler, Payload, Server, Ticket, Timeouts, ToolBox};
use autoloop_runtime::journal::{Durability, FileJournal, FileSettings};
use autoloop_runtime::memory::Tiers;
use autoloop_runtime::world::World;
use tempfile::TempDir;

/// A state directory with a socket in it, as a metareview before iteration 3 of run `r` finds it.
pub(crate) struct Harness {
    _temp: TempDir,
    pub(crate) state: PathBuf,
    pub(crate) server: Option<Server>,
    pub(crate) ticket: Ticket,
    pub(crate) tools: Option<Arc<dyn ToolBox>>,
    /// What the agent may emit.
    pub(crate) events: Vec<String>,
}

impl Harness {
    pub(crate) fn new(timeouts: Timeouts) -> Harness {
        Harness::beneath("", timeouts)
    }

    /// With a longer path to it.
    pub(crate) fn beneath(way: &str, timeouts: Timeouts) -> Harness {
        let temp = tempfile::tempdir().expect("tests need a temporary directory");
        let state = temp.path().join(way).join(".autoloop");
        fs::create_dir_all(state.join("runs/r")).expect("it is ours");
        let ticket = Ticket::draw(&*World::real().entropy);
        let events = vec![METAREVIEW_DISABLED.into()];
        let mut harness = Harness { _temp: temp, state, server: None, ticket, tools: None, events };
        harness.open(timeouts);
        harness
    }

    pub(crate) fn open(&mut self, timeouts: Timeouts) {
        let world = World::real();
        let settings = FileSettings::default();
        let emitter = Emitter {
            caller: Caller {
                run: Some("r".into()),
                iteration: "3".into(),
                recent_event: "tasks.ready".into(),
                route: Route { roles: vec!["review".into()], events: self.events.clone() },
                parallel: autoloop_core::wave::Parallel::Off,
            },
            journal: Arc::new(FileJournal::new(self.journal_path(), &world, settings)),
            durability: Durability::Cached,
            clock: Arc::clone(&world.clock),
        };
        let memory = Tiers::at(Places::of_run(&StateDir::new(&self.state), "r"), &world, settings)
            .for_author(Some("r"), Some("3"));
        let (ticket, tools) = (self.ticket.clone(), self.tools.clone());
        let handler = Handler { ticket, emitter, memory, tools };
        let server = Server::open_with(self.socket_path(), handler, timeouts);
        self.server = Some(server.expect("the harness can listen there"));
    }

    pub(crate) fn socket_path(&self) -> PathBuf {
        self.state.join("runs/r/metareview-3.door")
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        self.state.join("journal.jsonl")
    }

    /// The recorded topics, one per line, with what was refused.
    pub(crate) fn records(&self) -> Vec<String> {
        let text = fs::read_to_string(self.journal_path()).unwrap_or_default();
        let record = |line: &str| -> serde_json::Value {
            serde_json::from_str(line).expect("a record is JSON")
        };
        let told = |record: serde_json::Value| {
            assert_eq!(
                (record["run"].as_str(), record["iteration"].as_str()),
                (Some("r"), Some("3"))
            );
            let emitted = record["fields"]["emitted"].as_str().unwrap_or_default();
            format!("{} {emitted}", record["topic"].as_str().unwrap_or_default())
                .trim_end()
                .to_owned()
        };
        text.lines().map(record).map(told).collect()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.socket_path(), self.ticket.as_str())
    }

    pub(crate) fn emit(&self, topic: &str, payload: &str) -> Result<String, Failure> {
        self.client().emit(&Topic::new(topic), Payload::Text(payload))
    }

    /// A raw connection that need not follow the protocol.
    pub(crate) fn stranger(&self) -> UnixStream {
        UnixStream::connect(self.socket_path()).expect("the harness listens")
    }

    pub(crate) fn assert_works(&self) {
        assert_eq!(
            self.emit("issue.discovered", "still here"),
            Ok("emitted issue.discovered".into())
        );
    }
}
