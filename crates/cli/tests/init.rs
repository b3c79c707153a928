//! `autoloop init`: a new loop, with comments.
#![cfg(target_os = "linux")]

use std::fs;

use autoloop_testkit::Sandbox;
use insta::assert_snapshot;

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop"))
}

#[test]
fn a_loop_is_written_and_can_be_run() {
    let sandbox = sandbox();
    assert_snapshot!(sandbox.run(&["init"]), @r#"
    exit 0
    --- stdout
    wrote autoloops.toml
    wrote topology.toml
    wrote harness.md
    wrote roles/planner.md
    wrote roles/builder.md
    wrote roles/critic.md

    Run it with: autoloop run . "what to do"
    "#);
    sandbox.write(
        "agents.toml",
        "[[turn]]\nrole = 'planner'\ndo = [{ emit = 'tasks.ready' }]\n\
         [[turn]]\nrole = 'builder'\ndo = [{ emit = 'review.ready' }]\n\
         [[turn]]\nrole = 'critic'\niteration = 3\ndo = [{ emit = 'review.rejected' }]\n\
         [[turn]]\nrole = 'critic'\ndo = [{ emit = 'review.passed' }, { emit = 'task.complete' }]\n",
    );
    let agents = ["--set=backend.kind=script", "--set=backend.command=agents.toml"];
    let output = sandbox.run(&[&["run", ".", "make it"], &agents[..]].concat());
    assert_eq!(output.code, Some(0), "{output}");
    assert!(!output.stderr.contains("warning"), "{output}");
    let acted = sandbox.fields("iteration.start", "suggested_roles");
    assert_eq!(acted, ["planner", "builder", "critic", "builder", "critic"]);
}

#[test]
fn the_comments_tell_the_truth() {
    let sandbox = sandbox();
    sandbox.run(&["init", "told"]);
    sandbox.run(&["init", "set"]);
    let text = String::from_utf8(sandbox.read("set/autoloops.toml")).unwrap();
    let is_setting = |line: &str| {
        line.strip_prefix("# ").is_some_and(|rest| {
            rest.split_once(" = ").is_some_and(|(key, _)| key.contains('.') && !key.contains(' '))
        })
    };
    let shown: Vec<&str> = text.lines().filter(|line| is_setting(line)).collect();
    assert!(shown.len() >= 13, "{shown:#?}");
    let set = text.lines().map(|line| if is_setting(line) { &line[2..] } else { line });
    sandbox.write("set/autoloops.toml", set.collect::<Vec<_>>().join("\n"));
    let show = |dir: &str| sandbox.run(&["config", "show", dir]);
    // Setting a key to the default that its comment shows changes nothing.
    assert_eq!(show("set").to_string(), show("told").to_string());
    assert_eq!(show("set").stderr, "");
}

#[test]
fn a_loop_can_start_from_a_preset() {
    let sandbox = sandbox();
    sandbox.write("README.md", "of the project");
    assert_snapshot!(sandbox.run(&["init", "-p", "autoreview"]), @r#"
    exit 0
    --- stdout
    wrote autoloops.toml
    wrote topology.toml
    wrote harness.md
    wrote roles/reader.md
    wrote roles/checker.md
    wrote roles/reporter.md

    Run it with: autoloop run . "what to do"
    "#);
    assert_eq!(sandbox.read("README.md"), b"of the project");
    assert_snapshot!(sandbox.run(&["init", "else", "--preset", "autoreviw"]), @r"
    exit 2
    --- stderr
    autoloop: 'autoreviw' is neither a directory nor a preset
      hint: did you mean 'autoreview'?
      hint: list the presets with `autoloop presets`, or name the directory of a loop
    ");
    assert!(!sandbox.path("else").exists());
}

#[test]
fn nothing_is_overwritten() {
    let sandbox = sandbox();
    sandbox.write("mine/roles/critic.md", "my own");
    assert_snapshot!(sandbox.run(&["init", "mine"]), @r"
    exit 2
    --- stderr
    autoloop: mine/roles/critic.md exists; nothing was written
      hint: name another directory, or move the existing files
    ");
    let left: Vec<_> = fs::read_dir(sandbox.path("mine")).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing was written");
    assert_eq!(sandbox.read("mine/roles/critic.md"), b"my own");
    sandbox.run(&["init"]);
    assert_snapshot!(sandbox.run(&["init"]), @r"
    exit 2
    --- stderr
    autoloop: autoloops.toml and 5 other files exist; nothing was written
      hint: name another directory, or move the existing files
    ");
    // A broken link is in the way too.
    std::os::unix::fs::symlink("nowhere", sandbox.path("home-less")).unwrap();
    fs::create_dir(sandbox.path("linked")).unwrap();
    std::os::unix::fs::symlink("nowhere", sandbox.path("linked/harness.md")).unwrap();
    assert_eq!(sandbox.run(&["init", "linked"]).code, Some(2));
}

#[test]
fn a_loop_that_cannot_be_written_whole_is_not_written() {
    let sandbox = sandbox();
    // The last files go into a directory that cannot be created.
    sandbox.write("blocked/roles", "a file");
    assert_snapshot!(sandbox.run(&["init", "blocked"]), @r"
    exit 1
    --- stderr
    autoloop: cannot write blocked/roles/planner.md: File exists (os error 17)
      hint: name a writable directory
    ");
    let left: Vec<_> = fs::read_dir(sandbox.path("blocked")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_new_preset_ends_with_the_command_that_uses_it() {
    let sandbox = sandbox();
    fs::create_dir_all(sandbox.path("home/autoloop/presets")).unwrap();
    let dir = sandbox.path("home/autoloop/presets/my fix");
    let output = sandbox.run(&["init", "--preset", "autofix", &dir.display().to_string()]);
    assert_eq!(output.code, Some(0), "{output}");
    let told = "\nRun it with: autoloop run 'my fix' \"what to do\"\n";
    assert!(output.stdout.contains(told), "{output}");
    let listed = sandbox.run(&["presets"]);
    assert!(listed.stdout.contains("my fix"), "{listed}");
}
