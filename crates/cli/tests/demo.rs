//! `autoloop demo`: a whole run, printed from its journal.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::skip;
use insta::assert_snapshot;

/// A directory for the demo, without any user settings.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let here = sandbox.path("");
    sandbox.write(
        "home/autoloop/config.toml",
        "backend.command = 'costs-money'\nreview.enabled = false",
    );
    sandbox.env("TMPDIR", here)
}

/// The output, with the name of the demo's directory and this program's path filtered.
fn shown(sandbox: &Sandbox, text: &str) -> String {
    let name = demo_dir(sandbox).file_name().unwrap().to_string_lossy().into_owned();
    unquoted(text).replace(&name, "[DEMO]")
}

/// The text with a short name for this program's path, which is quoted where necessary.
fn unquoted(text: &str) -> String {
    let path = env!("CARGO_BIN_EXE_autoloop");
    text.replace(&format!("'{path}'"), "autoloop").replace(path, "autoloop")
}

fn demo_dir(sandbox: &Sandbox) -> std::path::PathBuf {
    let entries = fs::read_dir(sandbox.path("")).unwrap().map(|entry| entry.unwrap().path());
    let mut found = entries.filter(|path| path.to_string_lossy().contains("autoloop-demo-"));
    found.next().unwrap()
}

fn has_git() -> bool {
    Command::new("git").arg("--version").output().is_ok()
}

#[test]
fn it_tells_what_happened_and_what_shows_it() {
    if !has_git() {
        return skip("it_tells_what_happened_and_what_shows_it", "git is not installed");
    }
    let sandbox = sandbox().env("GIT_DIR", "/nowhere");
    let output = sandbox.run(&["demo"]);
    assert_snapshot!(shown(&sandbox, &output.to_string()), @r"
    exit 0
    --- stdout
    Temporary git project:
      [DIR]/[DEMO]
    Three scripted agents work in it, without network.

    Objective: write slug.sh, which makes file names out of titles

      1  planner      tasks.ready       two tasks: slug.sh, then its tests
      2  builder      task.complete     refused: allowed is review.ready
      3  builder      (told why)        its prompt says what was refused, and what
                                        is allowed
                      review.ready      slug.sh is written
         metareview                     harness.md now says that only the critic
                                        completes the run
      4  critic       review.rejected   sh slug.sh '!!!' prints an empty name;
                                        there is no test
      5  builder      review.ready      an empty name is an error now; slug_test.sh
                                        has 3 tests
      6  critic       review.passed     sh slug_test.sh: 3 tests passed, and they
                                        can fail
                      task.complete     titles become file names, tested

    The run is complete (completion_event).

    Next commands
      Show the output of every agent:
        autoloop inspect scratchpad [DIR]/[DEMO]
      List all records:
        autoloop inspect journal [DIR]/[DEMO]
      Show the prompt after the refusal:
        autoloop inspect prompt 3 [DIR]/[DEMO]
      Show the changes of the metareview:
        git -C [DIR]/[DEMO] diff harness.md
      Show the memory of the critic:
        autoloop inspect memory [DIR]/[DEMO]
      Show the result of each iteration:
        autoloop inspect metrics [DIR]/[DEMO]
      Test the program:
        sh [DIR]/[DEMO]/slug_test.sh
      Run the loop again:
        autoloop run [DIR]/[DEMO]
      Delete the project:
        rm -r [DIR]/[DEMO]
    ");
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let story = output.stdout.split_once("Objective:").unwrap().1.split_once("\nNext").unwrap().0;
    assert!(
        fs::read_to_string(readme).unwrap().contains(story),
        "the README shows what is printed"
    );
    for line in shown(&sandbox, &output.stdout)
        .replace("[DIR]/[DEMO]", "/tmp/autoloop-demo-01234567")
        .replace("    autoloop ", "    target/release/autoloop ")
        .lines()
    {
        assert!(line.chars().count() < 80, "{line}");
    }
}

#[test]
fn a_squad_revises_resolves_a_conflict_and_merges() {
    if !has_git() {
        return skip("a_squad_revises_resolves_a_conflict_and_merges", "git is not installed");
    }
    let sandbox = sandbox().env("GIT_DIR", "/nowhere");
    let output = sandbox.run(&["demo", "squad"]);
    assert_snapshot!(shown(&sandbox, &output.to_string()), @r"
    exit 0
    --- stdout
    Temporary git project:
      [DIR]/[DEMO]
    Scripted builders and reviewers work in it, without network.

    Objective: make the greeting of hello.sh personal and loud

      1  name         build             hello.sh greets its argument.
                      review            drift: without an argument it prints
                                        'Hello, '
                      revise            Without an argument it greets the world.
                      review            pass
                      merged
      2  loud         build             hello.sh is loud.
                      review            pass
                      conflict          hello.sh greets by name, in capitals.
                      merged            with both contributions
         squad        review            pass

    The run is completed: 2 of 2 tasks merged.

    Next commands
      Show the loops:
        autoloop inspect squad [DIR]/[DEMO]
      Show the reviews with their issues:
        autoloop inspect reviews [DIR]/[DEMO]
      Query them:
        autoloop store sql 'select task_id, passed, interpreted_intent from loop_reviews' [DIR]/[DEMO]
      Show the run in the live view:
        autoloop watch latest [DIR]/[DEMO]
      List all records:
        autoloop inspect journal [DIR]/[DEMO]
      Show the merges:
        git -C [DIR]/[DEMO] log --graph --oneline
      Run the program:
        sh [DIR]/[DEMO]/hello.sh Ann
      Remove the worktrees:
        autoloop squad clean [DIR]/[DEMO]
      Delete the project:
        rm -r [DIR]/[DEMO]
    ");
    for line in shown(&sandbox, &output.stdout)
        .replace("[DIR]/[DEMO]", "/tmp/autoloop-demo-01234567")
        .replace("    autoloop ", "    target/release/autoloop ")
        .lines()
        .filter(|line| !line.contains(" store sql "))
    {
        assert!(line.chars().count() < 80, "{line}");
    }
}

#[test]
fn every_command_of_a_squad_shows_what_it_says() {
    if !has_git() {
        return skip("every_command_of_a_squad_shows_what_it_says", "git is not installed");
    }
    let sandbox = sandbox();
    let output = sandbox.run(&["demo", "squad"]);
    assert_eq!(output.code, Some(0), "{output}");
    for command in commands(&sandbox, &output.stdout) {
        let mut shell = sandbox.at_home("sh");
        shell.args(["-c", &command]);
        let shown = sandbox.finish(shell);
        assert_eq!(shown.code, Some(0), "{command}: {shown}");
        let part = match unquoted(&command).split_whitespace().collect::<Vec<_>>()[..] {
            [_, "inspect", "squad", ..] => "merged  review passed  2 iterations  greet by name",
            [_, "inspect", "reviews", ..] => "without an argument it prints 'Hello, '",
            [_, "store", "sql", ..] => "name\t0\tgreet whoever is named",
            [_, "watch", ..] => "completed (completed)  2/2 tasks merged",
            [_, "inspect", "journal", ..] => "squad.merge",
            ["git", ..] => "loud: greet in capitals",
            ["sh", ..] => "HELLO, ANN",
            [_, "squad", "clean", ..] | ["rm", ..] => "",
            _ => panic!("unknown command {command}"),
        };
        assert!(shown.stdout.contains(part), "{command}: {shown}");
    }
    let left = fs::read_dir(sandbox.path("")).unwrap().count();
    assert_eq!(left, 1, "only the home is left");
}

/// The commands at the end, as they were printed.
fn commands(sandbox: &Sandbox, output: &str) -> Vec<String> {
    let here = sandbox.path("").display().to_string();
    let (_, commands) = output.split_once("Next commands\n").unwrap();
    let commands = commands.lines().filter_map(|line| line.strip_prefix("    "));
    commands.map(|command| command.replace("[DIR]", &here)).collect()
}

#[test]
fn every_command_that_it_names_shows_what_it_says() {
    let sandbox = sandbox();
    let output = sandbox.run(&["demo"]);
    assert_eq!(output.code, Some(0), "{output}");
    for command in commands(&sandbox, &output.stdout) {
        let mut shell = sandbox.at_home("sh");
        shell.args(["-c", &command]);
        let shown = sandbox.finish(shell);
        assert_eq!(shown.code, Some(0), "{command}: {shown}");
        let part = match unquoted(&command).split_whitespace().collect::<Vec<_>>()[..] {
            [_, "inspect", "scratchpad", ..] => "slug.sh is written. I am done!",
            [_, "inspect", "journal", ..] => "event.invalid  emitted=task.complete",
            [_, "inspect", "prompt", ..] => "invalid event 'task.complete'",
            ["git", ..] => "+- Only the critic completes the run",
            [_, "inspect", "memory", ..] => "titles without a letter are where slug.sh breaks",
            [_, "inspect", "metrics", ..] => "review.rejected",
            ["sh", ..] => "3 tests passed",
            [_, "run", ..] => "completed (completion_event) after 6 iterations",
            ["rm", ..] => "",
            _ => panic!("unknown command {command}"),
        };
        assert!(shown.stdout.contains(part), "{command}: {shown}");
    }
    let left = fs::read_dir(sandbox.path("")).unwrap().count();
    assert_eq!(left, 1, "only the home is left");
}

#[test]
fn without_git_it_says_so_and_continues() {
    let sandbox = sandbox();
    fs::create_dir(sandbox.path("bin")).unwrap();
    let sandbox = sandbox.env("PATH", "bin");
    let output = sandbox.run(&["demo"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.starts_with("Temporary project (git is not installed):\n"), "{output}");
    assert!(!output.stdout.contains("git -C"), "{output}");
    let output = sandbox.run(&["demo", "squad"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_snapshot!(output.stderr, @r"
    autoloop: the demo of a squad needs a git project: git is not installed
      hint: run the demo of a loop with `autoloop demo`
    ");
}

#[test]
fn an_unwritable_directory_is_an_error_with_a_hint() {
    let sandbox = sandbox().env("TMPDIR", "/proc");
    let output = sandbox.run(&["demo"]).to_string();
    let (before, after) = output.split_once("autoloop-demo-").unwrap();
    assert_snapshot!(format!("{before}[DEMO]{}", &after[8..]), @r"
    exit 1
    --- stderr
    autoloop: cannot create /proc/[DEMO]: No such file or directory (os error 2)
      hint: set TMPDIR to a writable directory
    ");
}
