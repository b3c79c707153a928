//! Agents whose item was claimed by another worker while they were running.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use autoloop_core::coordinator::Kind;
use autoloop_core::slot::Slots;
use autoloop_runtime::drive::SlotsDriver;
use autoloop_runtime::journal::{Durability, FileJournal, FileSettings};
use autoloop_runtime::launch::{Launch, Opening};
use autoloop_runtime::project::{Overrides, Project};
use autoloop_runtime::queue::Builtin;
use autoloop_runtime::shim::OsSpawner;
use autoloop_runtime::site::Site;
use autoloop_runtime::world::World;
use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::until;

use crate::scene::*;

/// The agent of the first item ignores requests to end; that of the second waits for a file.
const WAITS: &str = r#"echo work > "work-$AUTOLOOP_ITEM_ID"
touch "$AUTOLOOP_PROJECT_DIR/at-$AUTOLOOP_ITEM_ID"
[ "$AUTOLOOP_ITEM_ID" = t-1 ] && trap 'touch "$AUTOLOOP_PROJECT_DIR/told"' TERM
until [ -e "$AUTOLOOP_PROJECT_DIR/go-$AUTOLOOP_ITEM_ID" ]; do sleep 0.05; done
"#;

/// Runs two slots whose claims last only for a moment, so that a loss is noticed soon.
fn drive(sandbox: &Sandbox, settings: &str) -> Slots {
    let binary = env!("CARGO_BIN_EXE_autoloop");
    let world = World { spawner: Arc::new(OsSpawner::through(binary)), ..World::real() };
    let settings = settings.split_whitespace().map(str::to_owned).collect();
    let dir = sandbox.path("");
    let project = Project {
        loop_dir: dir.clone(),
        overrides: Overrides { set: settings, ..Overrides::default() },
        dir,
        ..Project::default()
    };
    let lock_timeout = Duration::from_secs(9);
    let journal = FileJournal::new(sandbox.journal_path(), &world, FileSettings { lock_timeout });
    let lasting = Duration::from_secs(2);
    let queue = Builtin::new(&journal, &world, Durability::Cached, lasting);
    let loaded = project.load(&*world.disk).unwrap();
    let state_dir = loaded.files.state_dir.clone();
    let site = Site { program: binary.as_ref(), ..Site::new(&world, &journal, &state_dir) };
    let run = "calm-crow".parse().unwrap();
    let launch = Launch::new(Kind::Slots, run, Opening::Begin, project, loaded);
    SlotsDriver::open(site, &launch, &queue, &[]).unwrap().run().unwrap()
}

/// Has another worker take the first item while its agent runs.
fn taken_away(agents: Agents<'_>, settings: &str) -> Sandbox {
    let sandbox = repository(agents, 2, "");
    thread::scope(|scope| {
        scope.spawn(|| drive(&sandbox, settings));
        wait_for(&sandbox, "at-t-1");
        wait_for(&sandbox, "at-t-2");
        assert_eq!(sandbox.run(&["tasks", "release", "t-1", "--force"]).code, Some(0));
        assert_eq!(sandbox.run(&["tasks", "claim", "t-1", "--as", "ann"]).code, Some(0));
        until("the end of the first", || (!outcomes(&sandbox).is_empty()).then_some(()));
        sandbox.write("go-t-2", "");
    });
    assert!(sandbox.path("told").exists());
    assert_eq!(sandbox.survivors(), "");
    let [first, second] = &outcomes(&sandbox)[..] else { panic!("{:?}", outcomes(&sandbox)) };
    assert!(
        first.starts_with("t-1 failed: the claim was lost: claim 1 of t-1 is no longer valid"),
        "{first}"
    );
    assert!(first.ends_with("; its work is on branch autoloop/slots/calm-crow/1-1"), "{first}");
    assert!(second.starts_with("t-2 passed"), "{second}");
    assert_eq!(git(&sandbox, &["show", "autoloop/slots/calm-crow/1-1:work-t-1"]), "work");
    assert!(sandbox.path("work-t-2").exists() && !sandbox.path("work-t-1").exists());
    assert!(sandbox.run(&["tasks", "show", "t-1"]).stdout.contains("ann"));
    sandbox
}

const TWO: &str = "slots.parallelAgents=2 slots.iterations=1 backend.timeout_ms=3m";

#[test]
fn an_implementer_is_ended_when_its_item_is_lost_and_others_go_on() {
    let sandbox = taken_away(Agents { implement: WAITS, ..GOOD }, TWO);
    assert_eq!(sandbox.fields("slot.implement", "item_id"), ["t-2"]);
}

#[test]
fn a_reviewer_is_ended_when_the_item_is_lost() {
    let implement = "echo work > \"work-$AUTOLOOP_ITEM_ID\"; echo done";
    let review = format!("{WAITS}{PASS}");
    // This reviewer reports through files of the project, which a sandbox would not let it write.
    let settings = format!("{TWO} slots.reviewEnabled=true review.sandbox=off");
    let sandbox = taken_away(Agents { implement, review: &review, ..GOOD }, &settings);
    assert_eq!(sandbox.fields("slot.implement", "item_id").len(), 2);
    assert_eq!(sandbox.fields("slot.review", "item_id"), ["t-2"]);
}
