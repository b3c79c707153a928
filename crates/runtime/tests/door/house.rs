//! A harness with an open door, for the tests.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use autoloop_core::layout::StateDir;
use autoloop_core::memory::Places;
use autoloop_core::routing::METAREVIEW_DISABLED;
use autoloop_core::topic::Topic;
use autoloop_core::topology::Route;
use autoloop_runtime::complaint::Complaint;
use autoloop_runtime::door::{Door, Keeper, Patience, Payload, Ticket, Visitor};
use autoloop_runtime::emit::{Emitter, Speaker};
use autoloop_runtime::journal::{Durability, FileJournal, FileSettings};
use autoloop_runtime::memory::Tiers;
use autoloop_runtime::world::World;
use tempfile::TempDir;

/// A state directory with a door in it, as a metareview before iteration 3 of run `r` finds it.
pub(crate) struct House {
    _temp: TempDir,
    pub(crate) state: PathBuf,
    pub(crate) door: Option<Door>,
    pub(crate) ticket: Ticket,
}

impl House {
    pub(crate) fn new(patience: Patience) -> House {
        House::beneath("", patience)
    }

    /// With a longer way to it.
    pub(crate) fn beneath(way: &str, patience: Patience) -> House {
        let temp = tempfile::tempdir().expect("tests need a temporary directory");
        let state = temp.path().join(way).join(".autoloop");
        fs::create_dir_all(state.join("runs/r")).expect("it is ours");
        let ticket = Ticket::draw(&*World::real().entropy);
        let mut house = House { _temp: temp, state, door: None, ticket };
        house.open(patience);
        house
    }

    pub(crate) fn open(&mut self, patience: Patience) {
        let world = World::real();
        let settings = FileSettings::default();
        let emitter = Emitter {
            speaker: Speaker {
                run: Some("r".into()),
                iteration: "3".into(),
                recent_event: "tasks.ready".into(),
                route: Route {
                    roles: vec!["review".into()],
                    events: vec![METAREVIEW_DISABLED.into()],
                },
                parallel: autoloop_core::wave::Parallel::Off,
            },
            journal: FileJournal::new(self.journal_path(), &world, settings),
            durability: Durability::Cached,
            clock: Arc::clone(&world.clock),
        };
        let memory = Tiers::at(Places::of_run(&StateDir::new(&self.state), "r"), &world, settings)
            .for_author(Some("r"), Some("3"));
        let keeper = Keeper { emitter, memory };
        let door = Door::open_with(self.door_path(), self.ticket.clone(), keeper, patience);
        self.door = Some(door.expect("a door can be opened there"));
    }

    pub(crate) fn door_path(&self) -> PathBuf {
        self.state.join("runs/r/metareview-3.door")
    }

    pub(crate) fn journal_path(&self) -> PathBuf {
        self.state.join("journal.jsonl")
    }

    /// The topics on record, one a line, with what was refused.
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

    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::new(&self.door_path(), self.ticket.as_str())
    }

    pub(crate) fn emit(&self, topic: &str, payload: &str) -> Result<String, Complaint> {
        self.visitor().emit(&Topic::new(topic), Payload::Text(payload))
    }

    /// Somebody who connects and does not know how to behave.
    pub(crate) fn stranger(&self) -> UnixStream {
        UnixStream::connect(self.door_path()).expect("the door is open")
    }

    pub(crate) fn is_well(&self) {
        assert_eq!(
            self.emit("issue.discovered", "still here"),
            Ok("emitted issue.discovered".into())
        );
    }
}
