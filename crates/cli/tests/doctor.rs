//! `autoloop doctor` through the binary, in projects that lack one thing or another.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until, write_program};
use insta::assert_snapshot;

/// A project with its own directory of programs, beside the basic ones.
fn project(settings: &str) -> Sandbox {
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), "", settings);
    let path = format!("{}:/usr/bin:/bin", sandbox.path("bin").display());
    sandbox.env("PATH", path).env("GIT_CEILING_DIRECTORIES", "/")
}

/// The lines about one check, with the exit code.
fn about(sandbox: &Sandbox, check: &str) -> String {
    let output = sandbox.run(&["doctor"]);
    let mut lines = Vec::new();
    let mut is_about = false;
    for line in output.stdout.lines() {
        if !line.starts_with(' ') {
            let rest = line.split_once("  ").unwrap_or_default().1.trim_start();
            is_about = rest.split("  ").next() == Some(check);
        }
        if is_about {
            lines.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    format!("exit {}\n{}", output.code.unwrap(), lines.join("\n"))
}

fn everything(sandbox: &Sandbox) -> Vec<PathBuf> {
    let mut dirs = vec![sandbox.path("")];
    let mut found = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            found.push(entry.path());
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_project_that_is_well_passes_and_is_left_as_it_was() {
    let sandbox = project("");
    let before = everything(&sandbox);
    let output = sandbox.run(&["doctor"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(!output.stdout.contains("problem"), "{output}");
    assert_eq!(everything(&sandbox), before);
    assert_snapshot!(about(&sandbox, "settings"), @"
    exit 0
    ok settings the files of the loop in . are valid; the loop has no roles
    ");
    assert_snapshot!(about(&sandbox, "supervision"), @"
    exit 0
    ok supervision processes are started, watched, and ended with their orphans
    ");
    assert_snapshot!(about(&sandbox, "journal"), @r"
    exit 0
    ok journal .autoloop/journal.jsonl does not exist yet
    ");
    assert!(
        about(&sandbox, "state").contains(".autoloop (created by the first run) is writable")
            || about(&sandbox, "state").contains(".autoloop (created by the first run) is")
    );
}

#[test]
fn agents_are_looked_for_as_they_would_be_started() {
    let sandbox =
        project("review.enabled = true\nreview.command = './critic'").env("IS_SANDBOX", "1");
    sandbox.write("topology.toml", "[[role]]\nid = 'a'\nbackend_command = 'no-such-agent'\n[[role]]\nid = 'b'\nbackend_command = 'claude'\n[[role]]\nid = 'c'\n");
    write_program(sandbox.path("bin/claude"), "#!/bin/sh\n");
    sandbox.write("critic", "");
    // The path depends on the system.
    let told = about(&sandbox, "agent").replace("/usr/bin/sh", "/bin/sh");
    assert_snapshot!(told, @"
    exit 1
    problem agent role 'a': 'no-such-agent' is not on PATH
    -> install it, add its directory to PATH, or configure another agent
    ok agent role 'b': claude is [DIR]/bin/claude
    ok agent backend.command: sh is /bin/sh
    problem agent review.command: ./critic is not executable
    -> make it executable: chmod +x ./critic
    ");
    assert!(about(&sandbox, "agents").contains("claude ([DIR]/bin/claude)"));
    let output = sandbox.run(&["doctor"]);
    assert_eq!(output.stderr, "autoloop: found 2 problems\n");
}

#[test]
fn a_script_is_read_before_it_is_praised() {
    let sandbox = project("backend.kind = 'script'");
    let told = |text: &str| {
        sandbox.write("autoloops.toml", "backend.kind = 'script'\nbackend.command = 'play.toml'\n");
        sandbox.write("play.toml", text);
        about(&sandbox, "agent")
    };
    assert_snapshot!(told("[[turn]]\ndo = [{ print = 'x' }]"), @"
    exit 0
    ok agent backend.command: play.toml is used (script)
    ");
    assert_snapshot!(told("[[turn]]\nwhen = 1"), @"
    exit 1
    problem agent backend.command: play.toml is not a valid script: unknown field `when`, expected one of `iteration`, `role`, `review`, `phase`, `task`, `do`, in `turn`
    -> correct the script; docs/loop.md shows one
    ");
    fs::remove_file(sandbox.path("play.toml")).unwrap();
    assert_snapshot!(about(&sandbox, "agent"), @"
    exit 1
    problem agent backend.command: play.toml does not exist
    -> write it, or choose another backend.kind than script
    ");
}

#[test]
fn settings_that_cannot_be_used_are_a_problem() {
    let sandbox = project("");
    sandbox.write("autoloops.toml", "journal.sync = 'sometimes'\n");
    assert_snapshot!(about(&sandbox, "settings"), @r#"
    exit 1
    problem settings autoloops.toml: line 1, column 16: journal.sync is "sometimes"; expected "always", "iteration" or "never"
    -> correct it; list every error with `autoloop config show`
    "#);
    sandbox.write("autoloops.toml", "backend.command = 'sh'\nbackend.comand = 'x'\n");
    assert_snapshot!(about(&sandbox, "settings"), @"
    exit 0
    warning settings the files of the loop in . are valid, with a warning: autoloops.toml: line 2, column 9: unknown key backend.comand; did you mean backend.command?
    -> `autoloop config show` prints every warning with its place
    ");
}

#[test]
fn an_unusable_state_directory_is_named() {
    let sandbox = project("");
    sandbox.write(".autoloop", "");
    assert_snapshot!(about(&sandbox, "state"), @"
    exit 1
    problem state .autoloop is not a directory
    -> move it away, or set core.state_dir to another directory
    ");
    fs::remove_file(sandbox.path(".autoloop")).unwrap();
    fs::create_dir(sandbox.path("real")).unwrap();
    symlink("real", sandbox.path(".autoloop")).unwrap();
    assert_snapshot!(about(&sandbox, "state"), @"
    exit 1
    problem state .autoloop is a symbolic link; journals are not written through one
    -> set core.state_dir to the real directory
    ");
    fs::remove_file(sandbox.path(".autoloop")).unwrap();
    fs::create_dir_all(sandbox.path(".autoloop/journal.jsonl")).unwrap();
    assert_snapshot!(about(&sandbox, "journal"), @"
    exit 1
    problem journal .autoloop/journal.jsonl is a directory, not a journal
    -> move it away, or set core.journal_file to another file
    ");
}

#[test]
fn the_end_of_the_journal_is_read() {
    let sandbox = project("");
    sandbox.emit(&["note"]);
    assert_snapshot!(about(&sandbox, "journal"), @r"
    exit 0
    ok journal .autoloop/journal.jsonl has 0 KiB, and its last line is a record
    ");
    sandbox.write_journal("notes to self\n");
    assert_snapshot!(about(&sandbox, "journal"), @"
    exit 0
    warning journal not a record: 1 of the last 1 lines of .autoloop/journal.jsonl
    -> do nothing: they are skipped. `autoloop journal verify` lists each
    ");
}

#[test]
fn git_is_asked_about_the_project() {
    let sandbox = project("");
    let git = |args: &[&str]| {
        let mut command = sandbox.at_home("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@example.org"]).args(args);
        assert!(command.output().unwrap().status.success());
    };
    if sandbox.at_home("git").arg("--version").output().is_err() {
        return autoloop_testkit::sandbox::skip(
            "git_is_asked_about_the_project",
            "there is no git",
        );
    }
    let told = |check: &str| about(&sandbox, check);
    assert!(told("git").contains("not a git repository"), "{}", told("git"));
    assert!(told("git").contains("-> run `git init` there"), "{}", told("git"));
    git(&["init", "-q"]);
    assert!(told("git").contains("the repository is [DIR]"), "{}", told("git"));
    assert_snapshot!(told("worktrees"), @"
    exit 0
    warning worktrees the repository has no commit
    -> make a first commit: a worktree is created from one
    ");
    git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    assert_snapshot!(told("worktrees"), @"
    exit 0
    ok worktrees can be created; 1 in use
    ");
    git(&["worktree", "add", "-q", "other"]);
    fs::remove_dir_all(sandbox.path("other")).unwrap();
    assert_snapshot!(told("worktrees"), @"
    exit 0
    warning worktrees 2 in use; the directories of 1 are missing
    -> run `git worktree prune`
    ");
}

#[test]
fn trees_that_the_settings_want_are_asked_about() {
    let settings = "parallel.enabled = true\nparallel.isolation = 'worktree'\n";
    let sandbox = project(settings);
    if sandbox.at_home("git").arg("--version").output().is_err() {
        return autoloop_testkit::sandbox::skip(
            "trees_that_the_settings_want_are_asked_about",
            "there is no git",
        );
    }
    assert_snapshot!(about(&sandbox, "isolation"), @r#"
    exit 1
    problem isolation parallel.isolation = "worktree": . is not in a git repository; run `git init` there and commit the files
    -> or set parallel.isolation = "shared" to run branches in the project's own worktree
    "#);
    let old = "#!/bin/sh\ncase \"$*\" in *version*) echo git version 2.34.1 ;; *) PATH=${PATH#*:} exec git \"$@\" ;; esac\n";
    write_program(sandbox.path("bin/git"), old);
    assert_snapshot!(about(&sandbox, "isolation"), @r#"
    exit 1
    problem isolation parallel.isolation = "worktree": git 2.38 or later is required, found 2.34.1
    -> or set parallel.isolation = "shared" to run branches in the project's own worktree
    "#);
}

#[test]
fn orphans_of_a_killed_harness_are_named_and_not_ended() {
    let agent = "setsid sh -c 'echo $$ > pid; exec sleep 613' & touch there; sleep 614";
    let sandbox = project("");
    sandbox.write("agent.sh", agent);
    let mut command = sandbox.command();
    command.args(["run", ".", "x"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    until("the agent", || {
        fs::read_to_string(sandbox.path("pid")).ok().filter(|pid| !pid.is_empty())
    });
    assert!(about(&sandbox, "left over").contains("no orphans"), "its harness is there");

    // A supervisor ends its job when the harness dies. Where the supervisor died too, the note of
    // the dead harness remains, and so do its processes.
    let notes = sandbox.path(".autoloop/shims");
    let token = fs::read_dir(&notes).unwrap().next().unwrap().unwrap().file_name();
    let note = fs::read_to_string(notes.join(&token)).unwrap();
    let forged: Vec<&str> = note.split_whitespace().collect();
    fs::write(notes.join(&token), format!("{} {}9 {}\n", forged[0], forged[1], forged[2])).unwrap();
    // During exec a process cannot be inspected, so this may take a moment.
    let pid = fs::read_to_string(sandbox.path("pid")).unwrap();
    let told = until("it to be named", || {
        Some(about(&sandbox, "left over")).filter(|told| told.contains(pid.trim()))
    });
    assert!(told.contains("orphans of a killed harness"), "{told}");
    assert!(fs::metadata(format!("/proc/{}", pid.trim())).is_ok(), "it was only looked at");
    harness.kill();
}

/// A project whose agent is a client that is installed.
fn with_client(name: &str) -> Sandbox {
    let sandbox = project("");
    sandbox.write("autoloops.toml", format!("backend.command = '{name}'\n"));
    write_program(sandbox.path("bin").join(name), "#!/bin/sh\nexit 1\n");
    // The API keys of the user who runs the tests must not be used.
    let keys = std::env::vars_os().map(|(name, _)| name);
    let is_key = |name: &std::ffi::OsString| {
        let name = name.to_string_lossy();
        [
            "ANTHROPIC",
            "CLAUDE",
            "OPENAI",
            "CODEX",
            "GEMINI",
            "GOOGLE",
            "OPENCODE",
            "PI_",
            "AWS_",
            "XDG_DATA",
        ]
        .iter()
        .any(|known| name.starts_with(known))
            || name.ends_with("_API_KEY")
    };
    keys.filter(is_key).fold(sandbox.env("IS_SANDBOX", ""), |sandbox, name| sandbox.env(name, ""))
}

#[test]
fn a_client_that_is_not_logged_in_is_named() {
    for (name, variable, file, text) in [
        ("claude", "ANTHROPIC_API_KEY", ".claude/.credentials.json", "{\"claudeAiOauth\": 1}"),
        ("codex", "OPENAI_API_KEY", ".codex/auth.json", "{\"tokens\": 1}"),
        ("gemini", "GEMINI_API_KEY", ".gemini/oauth_creds.json", "{\"access_token\": 1}"),
        ("opencode", "GROQ_API_KEY", ".local/share/opencode/auth.json", "{\"groq\": 1}"),
        ("pi", "GROQ_API_KEY", ".pi/agent/auth.json", "{\"groq\": 1}"),
    ] {
        let sandbox = with_client(name);
        let told = about(&sandbox, "login");
        let expected =
            format!("warning login {name} has no credentials in its files or in the environment");
        assert!(told.contains(&expected), "{name}: {told}");
        assert!(
            about(&sandbox, "agents").contains(&format!("{name} ([DIR]/bin/{name}) not logged in"))
        );
        // Logging out leaves an empty object.
        sandbox.write(format!("home/{file}"), "{}\n");
        assert!(about(&sandbox, "login").contains("warning"), "{name}");
        sandbox.write(format!("home/{file}"), text);
        assert!(!about(&sandbox, "login").contains("login"), "{name}");
        fs::remove_file(sandbox.path("home").join(file)).unwrap();
        let sandbox = sandbox.env(variable, "key");
        assert!(!about(&sandbox, "login").contains("login"), "{name}");
        assert!(!about(&sandbox, "agents").contains("not logged in"), "{name}");
    }
    let sandbox = with_client("codex");
    sandbox.write("elsewhere/auth.json", "{\"tokens\": 1}");
    let moved = sandbox.path("elsewhere");
    assert!(!about(&sandbox.env("CODEX_HOME", moved), "login").contains("login"));
}

#[test]
fn claude_as_root_needs_to_know_that_it_is_in_a_sandbox() {
    let sandbox = with_client("claude").env("ANTHROPIC_API_KEY", "key");
    let told = about(&sandbox, "root");
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        assert_eq!(told, "exit 0\n");
        return autoloop_testkit::sandbox::skip(
            "claude_as_root_needs_to_know_that_it_is_in_a_sandbox",
            "this is not root",
        );
    }
    assert_snapshot!(told, @"
    exit 1
    problem root claude does not run unattended as root
    -> set IS_SANDBOX=1 if this is a container, or run autoloop as another user
    ");
    assert_eq!(about(&sandbox.env("IS_SANDBOX", "1"), "root"), "exit 0\n");
}

#[test]
fn a_state_directory_that_git_would_touch_is_named() {
    let sandbox = project("");
    let git =
        |args: &[&str]| assert!(sandbox.at_home("git").args(args).status().unwrap().success());
    git(&["init", "-q"]);
    assert_eq!(about(&sandbox, "ignored"), "exit 0\n", "there is none yet");
    sandbox.write(".autoloop/journal.jsonl", "");
    assert_snapshot!(about(&sandbox, "ignored"), @"
    exit 0
    warning ignored git does not ignore .autoloop: `git clean -fd` deletes it, `git add -A` commits it
    -> ignore it: echo '*' > .autoloop/.gitignore
    ");
    git(&["add", ".autoloop/journal.jsonl"]);
    assert_snapshot!(about(&sandbox, "ignored"), @"
    exit 0
    warning ignored git tracks 1 file of .autoloop
    -> remove them from the index: git rm -r -q --cached .autoloop
    ");
    git(&["rm", "-q", "--cached", ".autoloop/journal.jsonl"]);
    for ignored in [".autoloop/.gitignore", ".gitignore"] {
        sandbox.write(ignored, if ignored == ".gitignore" { ".autoloop/\n" } else { "*\n" });
        assert_eq!(about(&sandbox, "ignored"), "exit 0\nok ignored git ignores .autoloop");
        fs::remove_file(sandbox.path(ignored)).unwrap();
    }
}

#[test]
fn a_missing_git_is_reported_with_its_consequences() {
    let sandbox = project("");
    let empty = sandbox.path("bin");
    fs::create_dir_all(&empty).unwrap();
    let sandbox = sandbox.env("PATH", empty);
    assert!(about(&sandbox, "git").contains("warning git git is not on PATH\n-> install it"));
}

#[test]
fn other_programs_get_json() {
    let sandbox = project("backend.command = 'no-such-agent'");
    sandbox.write("autoloops.toml", "backend.command = 'no-such-agent'\n");
    let output = sandbox.run(&["doctor", "--json", "."]);
    assert_eq!(output.code, Some(1));
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["ok"], false);
    let checks = report["checks"].as_array().unwrap();
    let names: Vec<&str> = checks.iter().map(|check| check["check"].as_str().unwrap()).collect();
    assert_eq!(names[..5], ["settings", "agent", "agents", "supervision", "left over"]);
    assert_eq!(names[names.len() - 4..], ["state", "journal", "sandbox", "namespaces"]);
    assert_eq!(checks[1]["verdict"], "problem");
    assert_eq!(checks[1]["found"], "backend.command: 'no-such-agent' is not on PATH");
    assert_eq!(checks[0]["advice"], serde_json::Value::Null);
    assert_snapshot!(sandbox.run(&["doctor", "nowhere"]), @r"
    exit 2
    --- stderr
    autoloop: the project nowhere does not exist
      hint: name the directory that contains .autoloop
    ");
}
