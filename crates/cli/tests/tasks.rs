//! `autoloop tasks`, through the binary.

use autoloop_testkit::Sandbox;
use insta::assert_snapshot;

/// A project whose user is ann.
fn project() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop")).env("USER", "ann")
}

fn tasks(sandbox: &Sandbox, args: &[&str]) -> String {
    let words: Vec<&str> = std::iter::once("tasks").chain(args.iter().copied()).collect();
    sandbox.run(&words).to_string()
}

/// Three tasks, of which the second depends on the first.
fn three() -> Sandbox {
    let sandbox = project();
    for args in [
        &["add", "write the parser", "--acceptance", "it parses"][..],
        &["add", "write its tests", "--after", "t-1"],
        &[
            "add",
            "mend",
            "the",
            "build",
            "--priority",
            "0",
            "--description",
            "It is red.\nSince noon.",
        ],
    ] {
        assert!(tasks(&sandbox, args).starts_with("exit 0\n"));
    }
    sandbox
}

#[test]
fn a_new_task_prints_its_id_alone() {
    let sandbox = project();
    assert_snapshot!(tasks(&sandbox, &["add", "write the parser"]), @"
    exit 0
    --- stdout
    t-1
    ");
    assert_snapshot!(tasks(&sandbox, &["add", "--json", "again"]), @r#"
    exit 0
    --- stdout
    {
      "id": "t-2"
    }
    "#);
    assert_snapshot!(sandbox.journal(), @r#"
    {"run": "", "iteration": "", "topic": "queue.task.added", "fields": {"task": "t-1", "title": "write the parser", "priority": "2"}, "ts": "[TS]", "v": 1}
    {"run": "", "iteration": "", "topic": "queue.task.added", "fields": {"task": "t-2", "title": "again", "priority": "2"}, "ts": "[TS]", "v": 1}
    "#);
}

#[test]
fn tasks_are_listed_taken_and_closed() {
    let sandbox = three();
    assert_snapshot!(tasks(&sandbox, &["list"]), @"
    exit 0
    --- stdout
    t-1  P2  ready    write the parser
    t-2  P2  blocked  write its tests   waits for t-1
    t-3  P0  ready    mend the build
    ");
    assert_snapshot!(tasks(&sandbox, &["ready"]), @"
    exit 0
    --- stdout
    t-3  P0  ready  mend the build
    t-1  P2  ready  write the parser
    ");
    assert_snapshot!(tasks(&sandbox, &["claim", "--as", "bob", "--for", "30m"]), @"
    exit 0
    --- stdout
    t-3 is claimed until [TS]
    ");
    assert_snapshot!(tasks(&sandbox, &["claim", "t-1", "--json"]), @r#"
    exit 0
    --- stdout
    {
      "id": "t-1",
      "owner": "ann",
      "until": "[TS]",
      "fence": 2
    }
    "#);
    assert_snapshot!(tasks(&sandbox, &["claim"]), @"
    exit 1
    --- stderr
    autoloop: no task is ready: 2 claimed, 1 blocked
    ");
    assert_snapshot!(tasks(&sandbox, &["close", "t-1", "--reason", "parsed"]), @"
    exit 0
    --- stdout
    t-1 is closed
    ");
    assert_snapshot!(tasks(&sandbox, &["list"]), @"
    exit 0
    --- stdout
    t-2  P2  ready    write its tests
    t-3  P0  claimed  mend the build   bob until [TS]
    (1 closed task; list them with --all)
    ");
    for args in [&["close", "t-3", "--as", "bob"][..], &["close", "t-2"]] {
        assert!(tasks(&sandbox, args).starts_with("exit 0\n"));
    }
    assert_snapshot!(tasks(&sandbox, &["ready"]), @"
    exit 0
    --- stdout
    no open tasks, 3 closed tasks
    ");
    assert_snapshot!(tasks(&sandbox, &["claim"]), @"
    exit 1
    --- stderr
    autoloop: no task is left
    ");
    assert_snapshot!(tasks(&sandbox, &["reopen", "t-1", "--reason", "it does not"]), @"
    exit 0
    --- stdout
    t-1 is open again
    ");
    assert_snapshot!(tasks(&sandbox, &["show", "t-1"]), @"
    exit 0
    --- stdout
    t-1  write the parser

    status     ready
    priority   2
    reason     it does not

    Acceptance:
    it parses
    ");
}

#[test]
fn a_task_tells_all_about_itself() {
    let sandbox = three();
    tasks(&sandbox, &["claim", "t-3"]);
    assert_snapshot!(tasks(&sandbox, &["show", "t-3"]), @"
    exit 0
    --- stdout
    t-3  mend the build

    status     claimed by ann until [TS]
    priority   0

    Description:
    It is red.
    Since noon.
    ");
    assert_snapshot!(tasks(&sandbox, &["show", "t-2", "--json"]), @r#"
    exit 0
    --- stdout
    {
      "id": "t-2",
      "title": "write its tests",
      "description": "",
      "acceptance": "",
      "priority": 2,
      "status": "blocked",
      "after": [
        "t-1"
      ],
      "waits_for": [
        "t-1"
      ],
      "owner": null,
      "until": null,
      "fence": null,
      "by": null,
      "reason": ""
    }
    "#);
    assert_snapshot!(tasks(&project(), &["list"]), @"
    exit 0
    --- stdout
    no tasks
    ");
    assert_snapshot!(tasks(&project(), &["ready", "--json"]), @"
    exit 0
    --- stdout
    []
    ");
}

#[test]
fn a_claimed_task_is_refused_with_its_owner_and_expiry() {
    let sandbox = three();
    tasks(&sandbox, &["claim", "t-1", "--as", "bob"]);
    assert_snapshot!(tasks(&sandbox, &["claim", "t-1"]), @"
    exit 3
    --- stderr
    autoloop: t-1 is claimed by bob until [TS]
      hint: wait for it, or release it with `autoloop tasks release t-1 --force`
    ");
    assert_snapshot!(tasks(&sandbox, &["close", "t-1"]), @"
    exit 3
    --- stderr
    autoloop: t-1 is claimed by bob until [TS]
      hint: wait for it, or release it with `autoloop tasks release t-1 --force`
    ");
    assert_snapshot!(tasks(&sandbox, &["release", "t-1"]), @"
    exit 3
    --- stderr
    autoloop: t-1 is claimed by bob until [TS]
      hint: wait for it, or release it with `autoloop tasks release t-1 --force`
    ");
    assert_snapshot!(tasks(&sandbox, &["release", "t-1", "--force", "--reason", "bob is away"]), @"
    exit 0
    --- stdout
    t-1 is released
    ");
    let journal = sandbox.journal();
    assert_snapshot!(journal.lines().last().unwrap(), @r#"{"run": "", "iteration": "", "topic": "queue.task.released", "fields": {"task": "t-1", "reason": "bob is away", "by": "ann", "fence": "1"}, "ts": "[TS]", "v": 1}"#);
    assert_snapshot!(tasks(&sandbox, &["release", "t-1"]), @"
    exit 3
    --- stderr
    autoloop: t-1 is not claimed
      hint: show it with `autoloop tasks show t-1`
    ");
    tasks(&sandbox, &["close", "t-1"]);
    assert_snapshot!(tasks(&sandbox, &["close", "t-1"]), @"
    exit 3
    --- stderr
    autoloop: t-1 is closed
      hint: reopen it with `autoloop tasks reopen t-1`
    ");
    assert_snapshot!(tasks(&sandbox, &["claim", "t-1"]), @"
    exit 3
    --- stderr
    autoloop: t-1 is closed
      hint: reopen it with `autoloop tasks reopen t-1`
    ");
}

#[test]
fn tasks_wait_for_others_but_never_in_a_circle() {
    let sandbox = three();
    assert_snapshot!(tasks(&sandbox, &["dep", "add", "t-3", "t-2"]), @"
    exit 0
    --- stdout
    t-3 waits for t-2
    ");
    assert_snapshot!(tasks(&sandbox, &["dep", "list", "t-3"]), @"
    exit 0
    --- stdout
    t-2  P2  blocked  write its tests  waits for t-1
    ");
    assert_snapshot!(tasks(&sandbox, &["dep", "add", "t-1", "t-3"]), @"
    exit 3
    --- stderr
    autoloop: t-1 cannot wait for t-3: t-3 waits for t-2, which waits for t-1
      hint: remove a dependency with `autoloop tasks dep rm t-3 t-2`
    ");
    assert_snapshot!(tasks(&sandbox, &["dep", "add", "t-1", "t-1"]), @"
    exit 2
    --- stderr
    autoloop: t-1 cannot wait for itself
      hint: name a task that it depends on
    ");
    assert_snapshot!(tasks(&sandbox, &["dep", "add", "t-2", "t-1"]), @"
    exit 3
    --- stderr
    autoloop: t-2 already waits for t-1
      hint: list its dependencies with `autoloop tasks dep list t-2`
    ");
    let unknown = [["dep", "add", "t-9", "t-1"], ["dep", "add", "t-1", "t-9"]];
    let told = unknown.map(|args| tasks(&sandbox, &args));
    assert_eq!(told[0], told[1]);
    assert_snapshot!(told[0], @"
    exit 1
    --- stderr
    autoloop: unknown task 't-9'
      hint: list all tasks with `autoloop tasks list --all`
    ");
    assert_snapshot!(tasks(&sandbox, &["claim", "t-3"]), @"
    exit 3
    --- stderr
    autoloop: t-3 waits for t-2
      hint: list its dependencies with `autoloop tasks dep list t-3`
    ");
    assert_snapshot!(tasks(&sandbox, &["dep", "rm", "t-3", "t-2", "--json"]), @r#"
    exit 0
    --- stdout
    {
      "id": "t-3",
      "after": "t-2"
    }
    "#);
    assert_snapshot!(tasks(&sandbox, &["dep", "t-3", "t-2"]), @"
    exit 0
    --- stdout
    t-3 waits for t-2
    ");
    assert_snapshot!(tasks(&sandbox, &["dep", "t-3"]), @r"
    exit 2
    --- stderr
    error: the following required arguments were not provided:
      <AFTER>

    Usage: autoloop tasks dep <ID> <AFTER>

    For more information, try '--help'.
    ");
    assert_eq!(sandbox.run(&["tasks", "dep"]).code, Some(2));
    assert_eq!(sandbox.run(&["tasks", "dep", "rm", "t-3", "t-2"]).code, Some(0));
    assert_snapshot!(tasks(&sandbox, &["dep", "rm", "t-3", "t-2"]), @"
    exit 3
    --- stderr
    autoloop: t-3 does not wait for 't-2'
      hint: list its dependencies with `autoloop tasks dep list t-3`
    ");
    assert_snapshot!(tasks(&sandbox, &["dep", "list", "t-3"]), @"
    exit 0
    --- stdout
    t-3 waits for nothing
    ");
    // A closed task blocks nothing.
    for args in [&["close", "t-1"][..], &["dep", "t-3", "t-1"]] {
        assert!(tasks(&sandbox, args).starts_with("exit 0\n"));
    }
    assert_snapshot!(tasks(&sandbox, &["dep", "list", "t-3"]), @"
    exit 0
    --- stdout
    t-1  P2  closed  write the parser
    ");
    assert_snapshot!(tasks(&sandbox, &["ready"]), @"
    exit 0
    --- stdout
    t-3  P0  ready  mend the build
    t-2  P2  ready  write its tests
    ");
    assert_snapshot!(tasks(&sandbox, &["reopen", "t-2"]), @"
    exit 3
    --- stderr
    autoloop: t-2 is not closed
      hint: show it with `autoloop tasks show t-2`
    ");
}

#[test]
fn invalid_requests_are_refused() {
    let sandbox = three();
    let before = sandbox.journal();
    assert_snapshot!(tasks(&sandbox, &["add", " "]), @"
    exit 2
    --- stderr
    autoloop: the title is empty: expected one line that says what to do
    ");
    assert_snapshot!(tasks(&sandbox, &["add", "a", "--priority", "7"]), @"
    exit 2
    --- stderr
    error: invalid value '7' for '--priority <0-4>': expected 0 (most urgent) to 4

    For more information, try '--help'.
    ");
    assert_snapshot!(tasks(&sandbox, &["add", "a", "--after", "t-9"]), @"
    exit 1
    --- stderr
    autoloop: unknown task 't-9'
      hint: list all tasks with `autoloop tasks list --all`
    ");
    assert_snapshot!(tasks(&sandbox, &["show", "\u{1b}[2Jt"]), @"
    exit 1
    --- stderr
    autoloop: unknown task '[2Jt'
      hint: list all tasks with `autoloop tasks list --all`
    ");
    assert_snapshot!(tasks(&sandbox, &["claim", "t-1", "--as", "two words"]), @"
    exit 2
    --- stderr
    autoloop: invalid owner 'two words': expected one word of at most 200 bytes
      hint: name an owner with --as
    ");
    assert_snapshot!(tasks(&sandbox, &["claim", "t-1", "--for", "0s"]), @"
    exit 2
    --- stderr
    error: invalid value '0s' for '--for <DURATION>': expected more than 0

    For more information, try '--help'.
    ");
    assert_snapshot!(tasks(&sandbox, &["claim", "t-1", "--for", "31d"]), @"
    exit 2
    --- stderr
    error: invalid value '31d' for '--for <DURATION>': expected at most 30d

    For more information, try '--help'.
    ");
    assert_snapshot!(tasks(&sandbox, &["add", &"x".repeat(100_000)]), @"
    exit 2
    --- stderr
    autoloop: the title has 100000 bytes: the limit is 1024
      hint: write it to a file of the project, and name the file
    ");
    sandbox.write("long", "x".repeat(10 * 1024 * 1024));
    assert_snapshot!(tasks(&sandbox, &["add", "a", "--description-file", "long"]), @"
    exit 2
    --- stderr
    autoloop: cannot read long: it has 10485760 bytes; the limit is 262144
    ");
    assert_snapshot!(tasks(&sandbox, &["add", "a", "--acceptance-file", "none"]), @"
    exit 2
    --- stderr
    autoloop: cannot read none: no such file
    ");
    assert_eq!(sandbox.journal(), before, "nothing was stored");
}

#[test]
fn control_characters_do_no_harm() {
    let sandbox = project();
    tasks(&sandbox, &["add", "red\u{1b}[31m\nalert"]);
    assert_snapshot!(tasks(&sandbox, &["list"]), @"
    exit 0
    --- stdout
    t-1  P2  ready  red [31m alert
    ");
    let text = "x".repeat(262_144);
    sandbox.write("long", &text);
    tasks(&sandbox, &["add", "long", "--description-file", "long"]);
    assert!(tasks(&sandbox, &["show", "t-2"]).contains(&text));
}

#[test]
fn an_agent_adds_what_it_finds_and_changes_nothing_else() {
    let sandbox = three();
    let agent = |args: &[&str]| {
        let mut command = sandbox.command();
        command.arg("tasks").args(args);
        command.env("AUTOLOOP_RUN_ID", "swift-otter").env("AUTOLOOP_ITERATION", "3");
        sandbox.finish(command).to_string()
    };
    assert_snapshot!(agent(&["add", "a leak"]), @"
    exit 0
    --- stdout
    t-4
    ");
    assert!(tasks(&sandbox, &["show", "t-4"]).contains("added by   swift-otter#3"));
    assert_snapshot!(agent(&["close", "t-1"]), @"
    exit 3
    --- stderr
    autoloop: an agent of run 'swift-otter' cannot claim, change or close tasks
      hint: add a new task with `autoloop tasks add`; the harness claims and closes
    ");
    for args in [
        &["claim", "t-1"][..],
        &["release", "t-1", "--force"],
        &["reopen", "t-1"],
        &["dep", "add", "t-1", "t-3"],
        &["dep", "t-1", "t-3"],
        &["dep", "rm", "t-2", "t-1"],
    ] {
        assert!(agent(args).starts_with("exit 3\n"), "{args:?}");
    }
    for args in [&["list"][..], &["ready"], &["show", "t-1"], &["dep", "list", "t-2"]] {
        assert!(agent(args).starts_with("exit 0\n"), "{args:?}");
    }
    let mut command = sandbox.command();
    command.args(["tasks", "add", "a"]).env("AUTOLOOP_DOOR", "/nowhere");
    assert_snapshot!(sandbox.finish(command), @"
    exit 3
    --- stderr
    autoloop: a reviewer cannot change the queue
      hint: report the task in your verdict
    ");
    let emitted = sandbox.emit(&["queue.task.closed", "task=t-1;"]);
    assert_eq!(emitted.code, Some(3), "{emitted}");
    assert!(tasks(&sandbox, &["list"]).contains("t-1  P2  ready"));
}
