//! The socket of the harness and its clients: well-behaved, dead and malicious ones, over real
//! sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "ipc/harness.rs"]
mod harness;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use autoloop_core::memory::Said;
use autoloop_core::topic::Topic;
use autoloop_runtime::failure::{Failure, FailureKind};
use autoloop_runtime::ipc::{Client, Payload, Ticket, Timeouts, ToolBox, ToolSpec};
use autoloop_runtime::journal::Spooled;
use autoloop_runtime::memory::{Change, Reach};
use autoloop_runtime::sandbox::{Support, probe};
use autoloop_runtime::world::{Access, Confinement, World};
use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{assert_success, part, skip, until};
use harness::Harness;

/// Enough for well-behaved clients also on a busy machine.
const A_MOMENT: Timeouts = Timeouts { idle: Duration::from_secs(3), total: Duration::from_secs(9) };
const FOR_EVER: Timeouts =
    Timeouts { idle: Duration::from_secs(3600), total: Duration::from_secs(3600) };

fn framed(encoded: &[u8]) -> Vec<u8> {
    let length = u32::try_from(encoded.len()).unwrap().to_le_bytes();
    [&length, encoded].concat()
}

fn message(value: &impl serde::Serialize) -> Vec<u8> {
    framed(&postcard::to_stdvec(value).unwrap())
}

fn learning(text: &str) -> Change {
    Change::Add { said: Said::Learning { text: text.into() }, reach: Reach::Usual }
}

fn told(complaint: &Failure) -> String {
    let hints = complaint.hints.iter().map(|hint| format!("\nhint: {hint}")).collect::<String>();
    format!("{:?}: {}{hints}", complaint.kind, complaint.message)
}

#[test]
fn the_harness_decides_by_its_own_route() {
    let harness = Harness::new(Timeouts::default());
    assert_eq!(harness.emit("issue.discovered", "id=1;"), Ok("emitted issue.discovered".into()));
    insta::assert_snapshot!(
        told(&harness.emit("task.complete", "").unwrap_err()),
        @"Refused: invalid event 'task.complete'; recent event: 'tasks.ready'; suggested roles: review; allowed next events: __metareview_disabled__"
    );
    insta::assert_snapshot!(
        told(&harness.emit("loop.complete", "").unwrap_err()),
        @"Refused: invalid event 'loop.complete'; only the harness may write such topics; allowed next events: __metareview_disabled__"
    );
    // Our own client would not send it; the harness checks it too.
    assert_eq!(harness.emit("two words", "").unwrap_err().kind, FailureKind::Usage);
    assert_eq!(
        harness.records(),
        ["issue.discovered", "event.invalid task.complete", "event.invalid loop.complete"]
    );
}

#[test]
fn memory_is_changed_as_the_author_that_the_harness_knows() {
    let harness = Harness::new(Timeouts::default());
    let client = harness.client();
    assert_eq!(client.change(&learning("a")), Ok("added mem-1 to run memory".into()));
    let said = Said::Preference { category: "style".into(), text: "short".into() };
    let preference = Change::Add { said, reach: Reach::Usual };
    assert_eq!(client.change(&preference), Ok("added mem-2 to project memory".into()));
    let promote = Change::Promote { id: "mem-1".into() };
    assert_eq!(client.change(&promote), Ok("promoted mem-1 to project memory as mem-3".into()));
    let remove = Change::Remove { id: "mem-2".into(), tier: None, reason: "no".into() };
    assert_eq!(client.change(&remove), Ok("removed mem-2 from project memory".into()));
    insta::assert_snapshot!(told(&client.change(&remove).unwrap_err()), @r"
    Failed: 'mem-2' was removed from project memory already
    hint: list all entries with `autoloop memory list`
    ");
    insta::assert_snapshot!(
        told(&client.change(&learning(" ")).unwrap_err()),
        @"Usage: the text is empty"
    );
    let run = fs::read_to_string(harness.state.join("runs/r/memory.jsonl")).unwrap();
    assert!(run.contains("\"r#3\""), "{run}");
}

#[test]
fn no_request_without_the_ticket_is_accepted() {
    let harness = Harness::new(Timeouts::default());
    let with = |ticket: &str| {
        let client = Client::new(&harness.socket_path(), ticket);
        let emitted = client.emit(&Topic::new("issue.discovered"), Payload::Text("x"));
        let changed = client.change(&learning("x"));
        assert_eq!(emitted, changed);
        told(&emitted.unwrap_err())
    };
    insta::assert_snapshot!(with(&"0".repeat(32)), @r"
    Refused: not stored: AUTOLOOP_TICKET is not the ticket of this harness
    hint: do not change AUTOLOOP_DOOR and AUTOLOOP_TICKET
    ");
    insta::assert_snapshot!(with(""), @r"
    Refused: not stored: the harness requires a ticket, but AUTOLOOP_TICKET is not set
    hint: do not change AUTOLOOP_DOOR and AUTOLOOP_TICKET
    ");
    let other = Ticket::draw(&*World::real().entropy);
    assert!(with(other.as_str()).contains("is not the ticket"));
    // The answer arrives although the client had much more to say.
    let much = "x".repeat(4 << 20);
    let client = Client::new(&harness.socket_path(), "wrong");
    let refused = client.emit(&Topic::new("issue.discovered"), Payload::Text(&much)).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Refused);
    assert_eq!(harness.records(), [""; 0]);
    assert!(!harness.state.join("memory.jsonl").exists());
}

/// Tools that answer with their arguments, and refuse those of task `t-2`.
struct Echo {
    tools: &'static [&'static str],
}

impl ToolBox for Echo {
    fn tools(&self) -> Vec<ToolSpec> {
        let tool = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: format!("Call {name}"),
            schema: serde_json::json!({"type": "object"}),
        };
        self.tools.iter().map(tool).collect()
    }

    fn call(&self, tool: &str, arguments: &str) -> Result<String, Failure> {
        match arguments.contains("t-2") {
            true => Err(Failure::refused("unknown task 't-2'; the task of this loop: t-1")),
            false => Ok(format!("{tool} {arguments}")),
        }
    }
}

fn with_tools(tools: &'static [&'static str]) -> Harness {
    let mut harness = Harness::new(Timeouts::default());
    harness.tools = Some(Arc::new(Echo { tools }));
    harness.server = None;
    harness.open(Timeouts::default());
    harness
}

#[test]
fn an_agent_has_the_tools_of_its_own_server() {
    let (builder, reviewer) = (with_tools(&["complete_task"]), with_tools(&["cite_command"]));
    let tools = builder.client().tools().unwrap();
    assert_eq!(tools[..1], Echo { tools: &["complete_task"] }.tools());
    let names = |harness: &Harness| {
        let tools = harness.client().tools().unwrap();
        tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&builder), "complete_task emit memory_add");
    assert_eq!(names(&reviewer), "cite_command emit memory_add");
    let called = builder.client().call("complete_task", r#"{"taskId": "t-1"}"#);
    assert_eq!(called, Ok(r#"complete_task {"taskId": "t-1"}"#.into()));
    insta::assert_snapshot!(
        told(&builder.client().call("complete_task", r#"{"taskId": "t-2"}"#).unwrap_err()),
        @"Refused: unknown task 't-2'; the task of this loop: t-1"
    );
    insta::assert_snapshot!(
        told(&builder.client().call("cite_command", r#"{"command": "make"}"#).unwrap_err()),
        @"Refused: unknown tool 'cite_command': the tools of this agent are complete_task, emit, memory_add"
    );
    // The ticket of another agent.
    let stranger = Client::new(&builder.socket_path(), reviewer.ticket.as_str());
    assert_eq!(stranger.tools().unwrap_err().kind, FailureKind::Refused);
    assert_eq!(stranger.call("complete_task", "{}").unwrap_err().kind, FailureKind::Refused);
    // An agent without tools.
    let harness = Harness::new(Timeouts::default());
    assert_eq!(harness.client().tools(), Ok(Vec::new()));
    insta::assert_snapshot!(
        told(&harness.client().call("complete_task", "{}").unwrap_err()),
        @"Refused: unknown tool 'complete_task': this agent has no tools"
    );
}

#[test]
fn arguments_may_have_a_megabyte() {
    let harness = with_tools(&["set_review_result"]);
    let call = |length| harness.client().call("set_review_result", &"x".repeat(length));
    let answer = call(1000 * 1000).unwrap();
    assert_eq!(answer.len(), "set_review_result ".len() + 1000 * 1000);
    insta::assert_snapshot!(
        told(&call(1024 * 1024 + 1).unwrap_err()),
        @"Usage: the arguments have 1048577 bytes: the limit is 1048576"
    );
    harness.assert_works();
}

/// These are carried out by the server itself, as the agent that it belongs to.
#[test]
fn events_and_memory_are_tools_too() {
    let harness = with_tools(&["complete_task"]);
    let call =
        |tool, arguments: serde_json::Value| harness.client().call(tool, &arguments.to_string());
    let emitted =
        call("emit", serde_json::json!({"topic": "issue.discovered", "payload": "id=1;"}));
    assert_eq!(emitted, Ok("emitted issue.discovered".into()));
    assert_eq!(call("emit", serde_json::json!({"topic": "issue.discovered"})), emitted);
    let refused = [
        call("emit", serde_json::json!({"topic": "task.done"})),
        call("emit", serde_json::json!({"topic": "two words"})),
        call("emit", serde_json::json!({"topic": "x", "payload": 1})),
        call("emit", serde_json::json!({"payload": "x"})),
        call("memory_add", serde_json::json!({"text": " "})),
        call("memory_add", serde_json::json!({"type": "note", "text": "x"})),
        call("memory_add", serde_json::json!({"type": "meta", "text": "x"})),
    ];
    insta::assert_snapshot!(refused.map(|refused| told(&refused.unwrap_err())).join("\n"), @r#"
    Refused: invalid event 'task.done'; recent event: 'tasks.ready'; suggested roles: review; allowed next events: __metareview_disabled__
    Usage: topic 'two words' contains whitespace (' '); a topic is a word like review.ready
    Usage: invalid arguments of emit: payload must be a string, not the number 1; expected {topic: string, payload?: string}
    Usage: invalid arguments of emit: topic is missing; expected {topic: string, payload?: string}
    Usage: the text is empty
    Usage: invalid arguments of memory_add: type must be "learning" or "preference" or "meta", not the string "note"; expected {type?: "learning" | "preference" | "meta", text: string, key?: string, project?: boolean}
    Usage: '' cannot be a key
    hint: a key is one line of 1 to 100 characters
    "#);
    assert_eq!(
        harness.records(),
        ["issue.discovered", "issue.discovered", "event.invalid task.done"]
    );

    let added = [
        call("memory_add", serde_json::json!({"text": "a"})),
        call("memory_add", serde_json::json!({"type": "learning", "text": "b", "project": true})),
        call(
            "memory_add",
            serde_json::json!({"type": "preference", "text": "short", "key": "style"}),
        ),
        call("memory_add", serde_json::json!({"type": "meta", "text": "main", "key": "branch"})),
    ];
    insta::assert_snapshot!(added.map(Result::unwrap).join("\n"), @r"
    added mem-1 to run memory
    added mem-2 to project memory
    added mem-3 to project memory
    added meta-4 to run memory
    ");
}

#[test]
fn secrets_in_arguments_are_masked() {
    let harness = with_tools(&["write_context"]);
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let arguments =
        serde_json::json!({"key": "login", "text": format!("use {token}!")}).to_string();
    let stored = harness.client().call("write_context", &arguments);
    assert_eq!(stored, Ok(r#"write_context {"key":"login","text":"use ghp_[masked]!"}"#.into()));
}

/// `emit task.complete` is the same as the tool, for an agent that has it.
#[test]
fn the_event_of_a_complete_task_calls_the_tool() {
    struct Completed(Mutex<Vec<String>>, bool);

    impl ToolBox for Completed {
        fn tools(&self) -> Vec<ToolSpec> {
            Echo { tools: &["complete_task"] }.tools()
        }

        fn call(&self, tool: &str, arguments: &str) -> Result<String, Failure> {
            self.0.lock().unwrap().push(format!("{tool} {arguments}"));
            let refused = Failure::refused("the task is complete already");
            self.1.then(String::new).ok_or(refused)
        }
    }

    for is_accepted in [true, false] {
        let mut harness = Harness::new(Timeouts::default());
        let tools = Arc::new(Completed(Mutex::default(), is_accepted));
        harness.tools = Some(tools.clone());
        harness.events = vec!["task.complete".into(), "issue.discovered".into()];
        harness.server = None;
        harness.open(Timeouts::default());
        harness.assert_works();
        let emitted = harness.emit("task.complete", "done");
        assert_eq!(*tools.0.lock().unwrap(), ["complete_task {}"]);
        let mut expected = vec!["issue.discovered"];
        match is_accepted {
            true => {
                assert_eq!(emitted, Ok("emitted task.complete".into()));
                expected.push("task.complete");
            }
            false => assert_eq!(emitted.unwrap_err().message, "the task is complete already"),
        }
        assert_eq!(harness.records(), expected);
    }
}

#[test]
fn only_the_owner_can_reach_the_socket_and_it_goes_with_the_server() {
    let mut harness = Harness::new(Timeouts::default());
    let mode = fs::metadata(harness.socket_path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    harness.server = None;
    assert!(!harness.socket_path().exists());
    let gone = told(&harness.emit("issue.discovered", "").unwrap_err());
    let socket = harness.socket_path().display().to_string();
    insta::assert_snapshot!(gone.replace(&socket, "[SOCKET]"), @r"
    Failed: not stored: the harness has ended: no process listens at [SOCKET] (No such file or directory (os error 2))
    hint: AUTOLOOP_DOOR must be the socket of a harness; it exists while the agent runs
    ");
    assert_eq!(harness.records(), [""; 0]);
}

#[test]
fn a_stale_socket_is_replaced_and_any_other_file_is_not() {
    let mut harness = Harness::new(Timeouts::default());
    harness.server = None;
    drop(std::os::unix::net::UnixListener::bind(harness.socket_path()).unwrap());
    let refused = told(&harness.emit("issue.discovered", "").unwrap_err());
    assert!(refused.contains("Connection refused"), "{refused}");
    harness.open(Timeouts::default());
    harness.assert_works();

    harness.server = None;
    fs::write(harness.socket_path(), "mine").unwrap();
    let reopened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        harness.open(Timeouts::default());
    }));
    assert!(reopened.is_err());
    assert_eq!(fs::read_to_string(harness.socket_path()).unwrap(), "mine");
}

#[test]
fn a_path_may_be_longer_than_an_address() {
    let way = vec!["deep".repeat(12); 7].join("/");
    assert!(way.len() > 300);
    let mut harness = Harness::beneath(&way, Timeouts::default());
    harness.assert_works();
    assert_eq!(fs::metadata(harness.socket_path()).unwrap().permissions().mode() & 0o777, 0o600);
    harness.server = None;
    assert!(!harness.socket_path().exists());
    assert_eq!(harness.emit("issue.discovered", "").unwrap_err().kind, FailureKind::Failed);
}

/// More silent clients than there are threads: the next client waits, but not for long.
#[test]
fn the_silent_are_sent_away() {
    let harness = Harness::new(A_MOMENT);
    let silent: Vec<_> = (0..40).map(|_| harness.stranger()).collect();
    harness.assert_works();
    for mut stream in silent {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.contains("the limits are 3s without data and 9s in total"), "{answer:?}");
    }
    assert_eq!(harness.records(), ["issue.discovered"]);
}

/// An occasional byte does not keep a session open forever.
#[test]
fn the_slow_are_sent_away() {
    let mut harness = Harness::new(Timeouts { total: Duration::from_millis(500), ..FOR_EVER });
    let mut slow = harness.stranger();
    slow.write_all(&message(&harness.ticket.as_str())).unwrap();
    // The beginning of a message that would take longer than the timeout.
    slow.write_all(&framed(&[b'x'; 100_000])[..5]).unwrap();
    until("the slow one to be sent away", || slow.write_all(b"x").is_err().then_some(()));
    let mut answer = Vec::new();
    let _ = slow.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("500ms in total"), "{answer:?}");
    harness.server = None;
    harness.open(Timeouts::default());
    harness.assert_works();
}

#[test]
fn the_garbled_and_the_gone_do_no_harm() {
    let mut harness = Harness::new(A_MOMENT);
    let ticket = message(&harness.ticket.as_str());
    let emit = |bytes: u64| {
        // The first kind of request, with its fields.
        [ticket.clone(), message(&(0_u8, "issue.discovered", bytes))].concat()
    };
    let call = message(&(3_u8, "complete_task", 1000_u64));
    let nasty: [Vec<u8>; 10] = [
        [ticket.clone(), call, b"{".to_vec()].concat(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 5000],
        framed(&[b'x'; 10_000]),
        [ticket.clone(), framed(b"")].concat(),
        [ticket.clone(), framed(&[9; 40])].concat(),
        [ticket.clone(), message(&(0_u8, u64::MAX))].concat(),
        [&ticket[..], b"\xff\xff\xff\xff"].concat(),
        ticket[..20].to_vec(),
        [emit(1000), b"only a part".to_vec()].concat(),
    ];
    for request in &nasty {
        // One waits for the result, one disconnects at once.
        let mut waiting = harness.stranger();
        let _ = waiting.write_all(request);
        let _ = waiting.read_to_end(&mut Vec::new());
        let _ = harness.stranger().write_all(request);
    }
    // Once closed, it has handled everything.
    harness.server = None;
    assert_eq!(harness.records(), [""; 0]);
    harness.open(A_MOMENT);

    let mut large = harness.stranger();
    large.write_all(&emit(100 * 1024 * 1024 + 1)).unwrap();
    let mut answer = Vec::new();
    large.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("the limit is 104857600"), "{answer}");

    // A complete event counts, whether or not its sender waits for the answer.
    harness.stranger().write_all(&emit(0)).unwrap();
    harness.assert_works();
    harness.server = None;
    assert_eq!(harness.records(), ["issue.discovered"; 2]);
}

#[test]
fn a_hundred_at_once_are_all_heard() {
    let harness = Harness::new(Timeouts::default());
    thread::scope(|scope| {
        for number in 0..100 {
            let harness = &harness;
            scope.spawn(move || match number % 2 {
                0 => harness.assert_works(),
                _ => {
                    harness.client().change(&learning("x")).unwrap();
                }
            });
        }
    });
    assert_eq!(harness.records().len(), 50);
    let run = fs::read_to_string(harness.state.join("runs/r/memory.jsonl")).unwrap();
    assert_eq!(run.lines().count(), 50);
}

#[test]
fn a_server_closes_although_clients_stay() {
    let mut harness = Harness::new(FOR_EVER);
    let mut silent: Vec<_> = (0..31).map(|_| harness.stranger()).collect();
    let ticket = message(&harness.ticket.as_str());
    silent[0].write_all(&ticket).unwrap();
    // Requests are served in order: all of these sessions are open now, and later ones have to
    // wait.
    harness.assert_works();
    silent.extend((0..20).map(|_| harness.stranger()));
    let hurried = harness.client();
    thread::scope(|scope| {
        // It waits in the queue, behind silent clients.
        let waiting =
            scope.spawn(|| hurried.emit(&Topic::new("issue.discovered"), Payload::Text("x")));
        harness.server = None;
        let gone = waiting.join().unwrap().unwrap_err();
        assert_eq!(gone.kind, FailureKind::Failed, "{gone:?}");
    });
    for mut stream in silent {
        // The end of the stream, or a connection reset.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert!(!harness.socket_path().exists());
    assert_eq!(harness.records(), ["issue.discovered"]);
}

/// Memory used by the other tests must not be counted.
#[test]
fn a_large_payload_passes_through_little_memory() {
    let sandbox = Sandbox::new("");
    assert_success(&sandbox.play("large").output().unwrap());
}

#[test]
fn part_of_a_child() {
    match part().as_deref() {
        Some("large") => emit_a_large_payload(),
        Some(other) => panic!("unknown part {other}"),
        None => {}
    }
}

fn emit_a_large_payload() {
    const BYTES: u64 = 100 * 1024 * 1024;
    let harness = Harness::new(Timeouts::default());
    harness.assert_works();
    let path = harness.state.join("large.txt");
    let mut file = fs::File::create(&path).unwrap();
    for _ in 0..100 {
        file.write_all(&[b'x'; 1024 * 1024]).unwrap();
    }
    let text = Arc::from(World::real().disk.open(&path, Access::Read).unwrap());
    let spooled = Spooled { path: path.clone(), text, secrets: None };

    let before = peak();
    let payload = Payload::File(&spooled, BYTES);
    let emitted = harness.client().emit(&Topic::new("context.archived"), payload);
    assert_eq!(emitted, Ok("emitted context.archived".into()));
    let grown = peak() - before;
    assert!(grown < 8 * 1024, "{grown} KiB more");
    let journal = fs::metadata(harness.journal_path()).unwrap().len();
    assert!(journal > BYTES, "{journal}");
    assert_eq!(names_in(&harness.state.join("runs/r")), ["metareview-3.door"]);

    fs::File::options().write(true).open(&path).unwrap().set_len(70_000).unwrap();
    let shorter = harness.client().emit(&Topic::new("context.archived"), payload).unwrap_err();
    let message = told(&shorter).replace(&path.display().to_string(), "[FILE]");
    insta::assert_snapshot!(message, @"Failed: not stored: cannot read [FILE]: it was truncated while it was read");
    assert_eq!(fs::metadata(harness.journal_path()).unwrap().len(), journal);
    harness.assert_works();
}

/// The purpose of the socket: a process that may not write the journal can emit.
#[test]
fn a_process_in_the_sandbox_is_heard() {
    if let Support::None(why) = probe() {
        return skip("a_process_in_the_sandbox_is_heard", why);
    }
    for way in ["", "a", &vec!["deep".repeat(12); 7].join("/")] {
        let harness = Harness::beneath(way, Timeouts::default());
        harness.assert_works();
        thread::scope(|scope| {
            let sandboxed = || {
                Confinement::default().bind_self().unwrap();
                let written = fs::File::options().append(true).open(harness.journal_path());
                assert_eq!(written.unwrap_err().kind(), ErrorKind::PermissionDenied);
                harness.assert_works();
                let changed = harness.client().change(&learning("x"));
                assert_eq!(changed, Ok("added mem-1 to run memory".into()));
            };
            scope.spawn(sandboxed);
        });
        assert_eq!(harness.records(), ["issue.discovered"; 2]);
    }
}

/// Payloads of every length around the limit of what is held in memory.
#[test]
fn a_payload_arrives_whole() {
    let harness = Harness::new(Timeouts::default());
    let lengths = [0, 1, 65_535, 65_536, 65_537, 300_000];
    for length in lengths {
        harness.emit("issue.discovered", &"ä".repeat(length)[..length & !1]).unwrap();
    }
    let text = fs::read_to_string(harness.journal_path()).unwrap();
    let payloads: Vec<usize> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|record| record["payload"].as_str().unwrap().len())
        .collect();
    assert_eq!(payloads, lengths.map(|length| length & !1));
}

#[test]
fn what_is_larger_than_any_request_is_not_sent() {
    let harness = Harness::new(Timeouts::default());
    let remove = Change::Remove { id: "x".repeat(200_000), tier: None, reason: String::new() };
    insta::assert_snapshot!(told(&harness.client().change(&remove).unwrap_err()), @r"
    Usage: not stored: it has more than 131072 bytes
    hint: write it to a file of the project, and add the path of the file
    ");
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The most memory that this process has had so far, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
