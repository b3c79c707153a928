//! `emit` and `memory` of an agent that may not write: this process is the harness that serves
//! them.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use autoloop_core::layout::StateDir;
use autoloop_core::memory::Places;
use autoloop_core::routing::METAREVIEW_DISABLED;
use autoloop_core::topology::Route;
use autoloop_runtime::emit::{Caller, Emitter};
use autoloop_runtime::ipc::{Handler, Server, Ticket};
use autoloop_runtime::journal::{Durability, FileJournal, FileSettings};
use autoloop_runtime::memory::Tiers;
use autoloop_runtime::world::World;
use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{skip, write_program};
use insta::assert_snapshot;

const SOCKET: &str = ".autoloop/runs/swift-otter/metareview-3.door";

/// The project of an agent that is given a socket; the harness may or may not be listening.
fn agent() -> Sandbox {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    fs::create_dir_all(sandbox.path(".autoloop/runs/swift-otter")).unwrap();
    let (socket, state) = (sandbox.path(SOCKET), sandbox.path(".autoloop"));
    sandbox
        .env("AUTOLOOP_DOOR", socket)
        .env("AUTOLOOP_STATE_DIR", state)
        .env("AUTOLOOP_RUN_ID", "swift-otter")
        .env("AUTOLOOP_ITERATION", "3")
}

/// Listens as for a metareview, and gives the agent its ticket.
fn open(sandbox: Sandbox) -> (Sandbox, Server) {
    let world = World::real();
    let settings = FileSettings::default();
    let emitter = Emitter {
        caller: Caller {
            run: Some("swift-otter".into()),
            iteration: "3".into(),
            recent_event: "tasks.ready".into(),
            route: Route { roles: vec!["review".into()], events: vec![METAREVIEW_DISABLED.into()] },
            parallel: autoloop_core::wave::Parallel::Off,
        },
        journal: Arc::new(FileJournal::new(sandbox.journal_path(), &world, settings)),
        durability: Durability::Synced,
        clock: Arc::clone(&world.clock),
    };
    let places = Places::of_run(&StateDir::new(sandbox.path(".autoloop")), "swift-otter");
    let memory = Tiers::at(places, &world, settings).for_author(Some("swift-otter"), Some("3"));
    let ticket = Ticket::draw(&*world.entropy);
    let sandbox = sandbox.env("AUTOLOOP_TICKET", ticket.as_str());
    let handler = Handler { ticket, emitter, memory, tools: None };
    let server = Server::open(sandbox.path(SOCKET), handler).unwrap();
    (sandbox, server)
}

#[test]
fn the_harness_stores_what_it_admits_and_records_what_it_refuses() {
    let (sandbox, _server) = open(agent());
    assert_snapshot!(sandbox.emit(&["issue.discovered", "id=1;", "summary=x;"]), @r"
    exit 0
    --- stdout
    emitted issue.discovered
    ");
    assert_snapshot!(sandbox.emit(&["task.complete"]), @r"
    exit 3
    --- stderr
    autoloop: invalid event 'task.complete'; recent event: 'tasks.ready'; suggested roles: review; allowed next events: __metareview_disabled__
    ");
    assert_snapshot!(sandbox.emit(&["loop.complete"]), @r"
    exit 3
    --- stderr
    autoloop: invalid event 'loop.complete'; only the harness may write such topics; allowed next events: __metareview_disabled__
    ");
    assert_eq!(sandbox.emit(&["two words"]).code, Some(2));
    assert_snapshot!(sandbox.journal(), @r#"
    {"run": "swift-otter", "iteration": "3", "topic": "issue.discovered", "payload": "id=1; summary=x;", "source": "agent", "ts": "[TS]", "v": 1}
    {"run": "swift-otter", "iteration": "3", "topic": "event.invalid", "fields": {"recent_event": "tasks.ready", "emitted": "task.complete", "suggested_roles": "review", "allowed_events": "__metareview_disabled__"}, "ts": "[TS]", "v": 1}
    {"run": "swift-otter", "iteration": "3", "topic": "event.invalid", "fields": {"recent_event": "tasks.ready", "emitted": "loop.complete", "suggested_roles": "review", "allowed_events": "__metareview_disabled__", "reason": "reserved"}, "ts": "[TS]", "v": 1}
    "#);
}

/// Changes that an agent makes to its own environment have no effect.
#[test]
fn an_agent_cannot_talk_itself_into_anything() {
    let (sandbox, _server) = open(agent());
    let sandbox = sandbox
        .env("AUTOLOOP_ALLOWED_EVENTS", "task.complete")
        .env("AUTOLOOP_RUN_ID", "another")
        .env("AUTOLOOP_ITERATION", "99")
        .env("AUTOLOOP_JOURNAL_FILE", "elsewhere.jsonl")
        .env("AUTOLOOP_MEMORY_FILE", "elsewhere.jsonl");
    assert_eq!(sandbox.emit(&["task.complete"]).code, Some(3));
    assert_eq!(sandbox.run(&["memory", "add", "learning", "x"]).code, Some(0));
    assert!(!sandbox.path("elsewhere.jsonl").exists());
    assert!(sandbox.journal().starts_with(r#"{"run": "swift-otter", "iteration": "3""#));
    let memory = sandbox.read(".autoloop/runs/swift-otter/memory.jsonl");
    assert!(String::from_utf8(memory).unwrap().contains("swift-otter#3"));
}

#[test]
fn a_payload_comes_from_a_file_too() {
    let (sandbox, _server) = open(agent());
    sandbox.write("payload", [&b"caf\xe9 "[..], &[b'x'; 200_000]].concat());
    assert_eq!(sandbox.emit(&["context.archived", "--file", "payload"]).code, Some(0));
    let expected = format!(r#""payload": "caf{} {}", "source""#, '\u{fffd}', "x".repeat(200_000));
    assert!(sandbox.journal().contains(&expected));
}

#[test]
fn memory_is_changed_by_the_harness_and_read_by_all() {
    let (sandbox, _server) = open(agent());
    let memory = |words: &[&str]| sandbox.run(&[&["memory"], words].concat());
    assert_snapshot!(memory(&["add", "learning", "run", "the tests"]), @r"
    exit 0
    --- stdout
    added mem-1 to run memory
    ");
    memory(&["add", "meta", "branch", "main", "--project"]);
    memory(&["add", "preference", "style", "short"]);
    assert_snapshot!(memory(&["promote", "mem-1", "--run", "swift-otter"]), @r"
    exit 0
    --- stdout
    promoted mem-1 to project memory as mem-4
    ");
    assert_snapshot!(memory(&["remove", "mem-3", "not", "so"]), @r"
    exit 0
    --- stdout
    removed mem-3 from project memory
    ");
    assert_snapshot!(memory(&["remove", "mem-9"]), @r"
    exit 1
    --- stderr
    autoloop: no entry 'mem-9' in memory
      hint: list all entries with `autoloop memory list`
    ");
    assert_snapshot!(memory(&["remove", "mem-4", "--run", "another"]), @"
    exit 3
    --- stderr
    autoloop: the memory of run 'another' cannot be changed from here
      hint: omit --run: the harness changes the memory of this run
    ");
    assert_snapshot!(memory(&["add", "meta", "a\nb", "x"]), @r"
    exit 2
    --- stderr
    autoloop: 'a\nb' cannot be a key
      hint: a key is one line of 1 to 100 characters
    ");
    assert_snapshot!(memory(&["list"]), @r"
    exit 0
    --- stdout
    mem-4   project  learning  run the tests (created: [TS])
    meta-2  project  meta      branch: main (created: [TS])
    ");
}

#[test]
fn no_request_without_the_ticket_is_accepted() {
    let (sandbox, _server) = open(agent());
    let sandbox = sandbox.env("AUTOLOOP_TICKET", "0123456789abcdef0123456789abcdef");
    assert_snapshot!(sandbox.emit(&["issue.discovered"]), @r"
    exit 3
    --- stderr
    autoloop: not stored: AUTOLOOP_TICKET is not the ticket of this harness
      hint: do not change AUTOLOOP_DOOR and AUTOLOOP_TICKET
    ");
    assert_eq!(sandbox.run(&["memory", "add", "learning", "x"]).code, Some(3));
    let sandbox = sandbox.env("AUTOLOOP_TICKET", "");
    assert_eq!(sandbox.emit(&["issue.discovered"]).code, Some(3));
    assert_eq!(sandbox.journal(), "");
}

#[test]
fn nothing_is_written_when_the_harness_is_gone() {
    let (sandbox, server) = open(agent());
    drop(server);
    assert_snapshot!(sandbox.emit(&["issue.discovered"]), @r"
    exit 1
    --- stderr
    autoloop: not stored: the harness has ended: no process listens at [DIR]/.autoloop/runs/swift-otter/metareview-3.door (No such file or directory (os error 2))
      hint: AUTOLOOP_DOOR must be the socket of a harness; it exists while the agent runs
    ");
    assert_eq!(sandbox.run(&["memory", "add", "learning", "x"]).code, Some(1));
    assert_eq!(sandbox.run(&["memory", "remove", "mem-1"]).code, Some(1));
    let names = fs::read_dir(sandbox.path(".autoloop/runs/swift-otter")).unwrap().count();
    assert_eq!((names, sandbox.journal().as_str()), (0, ""));
    assert!(!sandbox.path(".autoloop/memory.jsonl").exists());
}

/// The harness received the whole request; whether it was carried out is unknown.
#[test]
fn a_harness_that_dies_before_its_answer_leaves_a_doubt() {
    let sandbox = agent();
    let listener = UnixListener::bind(sandbox.path(SOCKET)).unwrap();
    let dying = std::thread::spawn(move || {
        use std::io::Read;
        let (mut stream, _) = listener.accept().unwrap();
        // The length of an empty ticket, then the request.
        let mut bytes = [0; 5 + 4 + 2 + "issue.discovered".len() + 1];
        stream.read_exact(&mut bytes).unwrap();
    });
    assert_snapshot!(sandbox.emit(&["issue.discovered"]), @r"
    exit 1
    --- stderr
    autoloop: the harness closed the connection without an answer
      hint: `autoloop inspect journal` and `autoloop memory list` show what was stored
    ");
    dying.join().unwrap();
}

/// The mode of the socket keeps other users out; a connection of another user is refused too.
#[test]
fn another_user_is_not_heard() {
    const NAME: &str = "another_user_is_not_heard";
    if !rustix::process::geteuid().is_root() {
        return skip(NAME, "only root can become another user");
    }
    let (sandbox, _server) = open(agent());
    // Temporary directories are closed to others, and the directory of the binary may be closed
    // too.
    let binary = sandbox.path("autoloop");
    write_program(&binary, fs::read(sandbox.binary()).unwrap());
    for dir in ["", ".autoloop", ".autoloop/runs", ".autoloop/runs/swift-otter"] {
        set_mode(sandbox.path(dir), 0o755);
    }
    let as_nobody = || {
        let mut command = sandbox.at_home("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
        command.args(["emit", "issue.discovered"]);
        command
    };
    if as_nobody().output().is_err() {
        return skip(NAME, "there is no setpriv");
    }
    assert_snapshot!(sandbox.finish(as_nobody()), @r"
    exit 1
    --- stderr
    autoloop: not stored: the harness cannot be reached at [DIR]/.autoloop/runs/swift-otter/metareview-3.door: Permission denied (os error 13)
      hint: AUTOLOOP_DOOR must be the socket of a harness; it exists while the agent runs
    ");
    set_mode(sandbox.path(SOCKET), 0o666);
    assert_snapshot!(sandbox.finish(as_nobody()), @r"
    exit 3
    --- stderr
    autoloop: not stored: user 65534 sent the request, but the harness accepts only user 0
    ");
    assert_eq!(sandbox.journal(), "");
}

fn set_mode(path: PathBuf, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
