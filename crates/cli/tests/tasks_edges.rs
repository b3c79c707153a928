//! Edge cases of `autoloop tasks`: claimed twice, by many at once, with a damaged journal, from
//! another directory, by other programs.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::process::Command;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Output, skip};
use insta::assert_snapshot;
use serde_json::Value;

/// A project whose user is ann.
fn project() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop")).env("USER", "ann")
}

/// With three tasks, of which the second depends on the first.
fn three() -> Sandbox {
    let sandbox = project();
    for args in [
        &["add", "write the parser"][..],
        &["add", "write its tests", "--after", "t-1"],
        &["add", "mend the build", "--priority", "0"],
    ] {
        assert!(tasks(&sandbox, args).starts_with("exit 0\n"));
    }
    sandbox
}

fn tasks(sandbox: &Sandbox, args: &[&str]) -> String {
    sandbox.run(&[&["tasks"], args].concat()).to_string()
}

/// Claiming a task again extends the claim under a new number.
#[test]
fn a_repeated_claim_extends_the_first() {
    let sandbox = three();
    for (lasting, fence) in [("30m", "1"), ("2h", "2")] {
        let claimed = tasks(&sandbox, &["claim", "t-1", "--for", lasting, "--json"]);
        assert!(claimed.contains(&format!("\"fence\": {fence}")), "{claimed}");
    }
    assert!(tasks(&sandbox, &["list"]).contains("t-1  P2  claimed  write the parser  ann until"));
    assert!(tasks(&sandbox, &["close", "t-1"]).starts_with("exit 0\n"));
}

#[test]
fn a_queue_is_that_of_one_project() {
    let sandbox = three();
    sandbox.write("other/autoloops.toml", "").write("src/main.rs", "");
    let there = |dir: &str, env: &[(&str, &str)], args: &[&str]| {
        let mut command: Command = sandbox.command();
        command.arg("tasks").args(args).current_dir(sandbox.path(dir)).envs(env.iter().copied());
        sandbox.finish(command)
    };
    // Ids belong to one project and mean nothing in another.
    assert_eq!(there("other", &[], &["add", "theirs"]).to_string(), "exit 0\n--- stdout\nt-1");
    assert!(there("", &[], &["show", "t-1"]).stdout.starts_with("t-1  write the parser\n"));
    assert_eq!(there("other", &[], &["add", "more", "--after", "t-3"]).code, Some(1));
    let named = |dir: &'static str| [("AUTOLOOP_PROJECT_DIR", dir)];
    assert!(there("src", &named("../other"), &["list"]).stdout.contains("theirs"));
    assert!(there("other", &named(".."), &["list"]).stdout.contains("write the parser"));
    assert_snapshot!(there("src", &[], &["add", "a fourth"]), @"
    exit 0
    --- stdout
    t-4
    --- stderr
    autoloop: using the project in [DIR]
    ");
    assert!(!sandbox.path("src/.autoloop").exists(), "there is one queue");
    sandbox.write("src/.git/HEAD", "");
    assert_eq!(there("src", &[], &["list"]).to_string(), "exit 0\n--- stdout\nno tasks");
    assert_snapshot!(there("", &named("gone"), &["add", "lost"]), @"
    exit 2
    --- stderr
    autoloop: AUTOLOOP_PROJECT_DIR is not a directory: gone
      hint: set it to the directory of a project, or unset it
    ");
    assert!(!sandbox.path("gone").exists());
}

/// A repository with a project at its top and the file `src/deep/main.rs`.
fn repository() -> Sandbox {
    let sandbox = Sandbox::with_agent(
        env!("CARGO_BIN_EXE_autoloop"),
        "$T emit task.complete",
        "event_loop.prompt = 'make it'",
    );
    sandbox.write("src/deep/main.rs", "").write(".git/HEAD", "ref: refs/heads/main\n");
    assert_eq!(sandbox.run(&["run", "."]).code, Some(0));
    sandbox
}

/// Runs a command in a directory of the project.
fn within(sandbox: &Sandbox, dir: &str, args: &[&str]) -> Output {
    let mut command = sandbox.command();
    command.args(args).current_dir(sandbox.path(dir));
    sandbox.finish(command)
}

#[test]
fn every_command_finds_the_project_from_a_directory_in_it() {
    let sandbox = repository();
    let run = sandbox.fields("loop.start", "run").remove(0);
    for args in [
        &["loops", "--all"][..],
        &["loops", "show", &run],
        &["loops", "artifacts", &run],
        &["inspect", "journal"],
        &["inspect", "metrics"],
        &["inspect", "output", "1"],
        &["inspect", "topology"],
        &["journal", "verify"],
        &["config", "show"],
        &["config", "path"],
        &["memory", "add", "learning", "there is one memory"],
        &["memory", "list"],
        &["tasks", "add", "one more"],
        &["tasks", "list"],
        &["chain", "list"],
        &["slots", "prompts"],
        &["watch", "--once"],
        &["emit", "note", "from below"],
        &["doctor"],
        &["slots", "--source", "builtin", "--no-review"],
        &["run", "autofix", "mend it", "-i", "1"],
        &["run", "--resume", "-i", "2"],
        &["run", "--chain", ".", "mend it", "-i", "1"],
    ] {
        let output = within(&sandbox, "src/deep", args);
        let note = "autoloop: using the project in [DIR]\n";
        assert_eq!(output.stderr.matches(note).count(), 1, "{args:?}: {output}");
        assert!(!matches!(output.code, Some(2) | None), "{args:?}: {output}");
        assert!(!sandbox.path("src/deep/.autoloop").exists(), "{args:?}");
    }
    assert!(sandbox.journal().contains("from below"));
    // A named project is used without a notice.
    let named = within(&sandbox, "src/deep", &["loops", "../.."]);
    assert!(named.stdout.contains(&run) && named.stderr.is_empty(), "{named}");
    assert_eq!(within(&sandbox, "", &["loops"]).stderr, "");
    let below = within(&sandbox, "src", &["run", ".", "make it"]);
    assert!(below.stderr.contains("`autoloop run [DIR] \"make it\"`"), "{below}");
    let own = within(&sandbox, "src", &["loops", "."]);
    assert!(own.stdout.contains("no run in"), "{own}");
}

#[test]
fn a_project_is_looked_for_up_to_the_top_of_the_repository() {
    let sandbox = repository();
    let elsewhere = |dir: &str| {
        let output = within(&sandbox, dir, &["loops"]);
        assert!(output.stdout.contains("no run in"), "{dir}: {output}");
        assert_eq!(output.stderr, "", "{dir}");
    };
    // Another repository, such as a submodule or a worktree.
    sandbox.write("vendor/.git", "gitdir: ../elsewhere\n").write("vendor/lib/main.rs", "");
    elsewhere("vendor/lib");
    // A directory with its own loop is another project.
    sandbox.write("tools/autoloops.toml", "");
    elsewhere("tools");
    // A worktree inside the state directory belongs to the project.
    sandbox
        .write(".autoloop/trees/slot-1/.git", "gitdir: x\n")
        .write(".autoloop/trees/slot-1/a/b", "");
    for dir in [".autoloop", ".autoloop/trees/slot-1/a"] {
        let output = within(&sandbox, dir, &["tasks", "list"]);
        assert!(output.stderr.contains("using the project in [DIR]\n"), "{dir}: {output}");
    }
    // The variables of the harness take precedence.
    let mut command = sandbox.command();
    command.arg("loops").current_dir(sandbox.path("src")).env("AUTOLOOP_STATE_DIR", "state");
    let output = sandbox.finish(command);
    assert!(output.stdout.contains("no run in state/journal.jsonl"), "{output}");
    assert_eq!(output.stderr, "");
}

#[test]
fn without_a_repository_the_search_ends_below_the_home_directory() {
    let sandbox = project();
    for dir in [
        "home/.autoloop",
        "home/work/.autoloop",
        "home/work/src",
        "home/notes",
        "open/.autoloop",
        "open/sub",
    ] {
        fs::create_dir_all(sandbox.path(dir)).unwrap();
    }
    let said = |dir: &str| within(&sandbox, dir, &["tasks", "list"]).stderr;
    assert_eq!(said("home/work/src"), "autoloop: using the project in [DIR]/home/work\n");
    assert_eq!(said("home/notes"), "");
    assert_eq!(said("open/sub"), "autoloop: using the project in [DIR]/open\n");
    // The project of another user is not used: its settings name programs.
    let state = sandbox.path("open/.autoloop");
    let another = if fs::metadata(&state).unwrap().uid() == 65_534 { 1 } else { 65_534 };
    if chown(&state, Some(another), None).is_ok() {
        assert_eq!(said("open/sub"), "");
    } else {
        skip("the project of another user", "only root can give files away");
    }
}

/// The JSON output of every command, for programs.
#[test]
fn every_command_answers_in_json() {
    let sandbox = three();
    let answers = [
        &["add", "a fourth"][..],
        &["claim", "t-1"],
        &["release", "t-1"],
        &["close", "t-1"],
        &["reopen", "t-1"],
        &["dep", "add", "t-4", "t-3"],
        &["dep", "list", "t-4"],
        &["dep", "rm", "t-4", "t-3"],
        &["list"],
        &["ready"],
        &["show", "t-2"],
    ]
    .map(|args| {
        let words = [&["tasks"], args, &["--json"]].concat();
        let output = sandbox.run(&words);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output}");
        let value: Value = serde_json::from_str(&output.stdout).unwrap();
        let names = |value: &Value| {
            let object = value.as_object().unwrap();
            let names = object.iter().map(|(name, value)| match value {
                Value::Null => format!("{name}?"),
                Value::Number(_) => format!("{name}#"),
                Value::Array(_) => format!("{name}[]"),
                _ => name.clone(),
            });
            names.collect::<Vec<_>>().join(" ")
        };
        match value.as_array() {
            Some(list) => format!("{}: [{}] {}", args[0], list.len(), names(&list[0])),
            None => format!("{}: {}", args[0], names(&value)),
        }
    });
    assert_snapshot!(answers.join("\n"), @r"
    add: id
    claim: id owner until fence#
    release: id
    close: id
    reopen: id
    dep: id after
    dep: [1] id title description acceptance priority# status after[] waits_for[] owner? until? fence? by? reason
    dep: id after
    list: [4] id title description acceptance priority# status after[] waits_for[] owner? until? fence? by? reason
    ready: [3] id title description acceptance priority# status after[] waits_for[] owner? until? fence? by? reason
    show: id title description acceptance priority# status after[] waits_for[] owner? until? fence? by? reason
    ");
}

#[test]
fn tasks_outlive_runs_and_damage_beside_them() {
    let sandbox = three();
    let mut journal = String::from_utf8(sandbox.read(".autoloop/journal.jsonl")).unwrap();
    journal.insert_str(0, "no record at all\n");
    journal.push_str(r#"{"run": "", "iteration": "", "topic": "queue.task.clo"#);
    sandbox.write_journal(&journal);
    assert!(tasks(&sandbox, &["close", "t-1"]).starts_with("exit 0\n"));
    assert_snapshot!(tasks(&sandbox, &["list"]), @"
    exit 0
    --- stdout
    t-2  P2  ready  write its tests
    t-3  P0  ready  mend the build
    (1 closed task; list them with --all)
    ");
}

/// Processes that add at once never choose the same id, and of several that claim one task exactly
/// one gets it.
#[test]
fn processes_that_race_agree() {
    let sandbox = project();
    let racers = |args: &[&str]| -> Vec<(Option<i32>, String)> {
        let started: Vec<_> = (0..12)
            .map(|number| {
                let mut command = sandbox.command();
                command.arg("tasks").args(args).env("USER", format!("w{number}"));
                command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
                command.spawn().unwrap()
            })
            .collect();
        let ended = started.into_iter().map(|child| child.wait_with_output().unwrap());
        ended
            .map(|out| (out.status.code(), String::from_utf8_lossy(&out.stdout).trim().to_owned()))
            .collect()
    };
    let mut ids: Vec<String> = racers(&["add", "work"]).into_iter().map(|(_, id)| id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 12, "{ids:?}");
    let won = racers(&["claim", "t-1"]).iter().filter(|(code, _)| *code == Some(0)).count();
    assert_eq!(won, 1);
    let mut taken: Vec<String> = racers(&["claim"]).into_iter().map(|(_, said)| said).collect();
    taken.retain(|said| !said.is_empty());
    taken.iter_mut().for_each(|said| said.truncate(said.find(" is").unwrap()));
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 11, "each of the others was given once: {taken:?}");
}

#[test]
fn a_text_may_begin_as_a_list_does() {
    let sandbox = project();
    let listed = "- it builds\n- a test shows it";
    let added =
        sandbox.run(&["tasks", "add", "one", "--acceptance", listed, "--description", "---"]);
    assert_eq!((added.code, &*added.stdout), (Some(0), "t-1\n"), "{added}");
    let shown = sandbox.run(&["tasks", "show", "t-1"]);
    assert!(shown.stdout.contains("- a test shows it"), "{shown}");
    let closed = sandbox.run(&["tasks", "close", "t-1", "--reason", "- done"]);
    assert_eq!(closed.code, Some(0), "{closed}");
    let forgotten = sandbox.run(&["tasks", "add", "two", "--description", "--json"]);
    assert_eq!(forgotten.code, Some(2), "{forgotten}");
    assert_snapshot!(forgotten.stderr, @"
    error: invalid value '--json' for '--description <TEXT>': expected a text, found a flag; put a space before a text that begins with '-'

    For more information, try '--help'.
    ");
}
