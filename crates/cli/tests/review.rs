//! Showing and reverting a metareview, through the binary.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a scene that cannot be set fails its test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until};
use insta::assert_snapshot;

const HARNESS: &str = "Be careful.\n\nRead the plan first.\nSay what you did.\nKeep it short.\n\nTest it.\nCommit it.\n";
const EDITED: &str = "Be careful.\n\nRead the plan first.\nSay what you did.\nKeep it very short.\n\nTest it.\nCommit it.\n";

/// The script of the reviewer in most tests.
const REVIEW: &str = "sed -i 's/Keep it short/Keep it very short/' harness.md; echo 'You are x.' > roles/x.md; rm -f metareview.md; echo tidied up";

/// A loop after one review before iteration 2, which ran this script.
fn reviewed(review: &str) -> Sandbox {
    reviewed_within("off", review, &[])
}

/// The same with a sandbox or without, and with more files.
fn reviewed_within(sandbox: &str, review: &str, files: &[(&str, &str)]) -> Sandbox {
    let agent = format!("[ -z \"$AUTOLOOP_REVIEW_MODE\" ] || {{ {review}\n}}");
    let settings = format!("review.enabled = true\nreview.sandbox = '{sandbox}'");
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), &agent, &settings);
    sandbox
        .write("harness.md", HARNESS)
        .write("metareview.md", "Keep the loop tidy.")
        .write("roles/a.md", "You are a.\n");
    for (name, text) in files {
        sandbox.write(name, text);
    }
    assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1), "{}", sandbox.story());
    sandbox
}

fn text(sandbox: &Sandbox, name: &str) -> String {
    String::from_utf8(sandbox.read(name)).unwrap()
}

/// The output, without what differs from machine to machine.
fn shown(sandbox: &Sandbox, args: &[&str]) -> String {
    let run = sandbox.fields("loop.start", "run").remove(0);
    sandbox.run(args).to_string().replace(&run, "[RUN]")
}

fn revert(sandbox: &Sandbox) -> String {
    sandbox.run(&["review", "revert", "2"]).to_string()
}

/// Replaces text in the journal, as a user with an editor could.
fn tamper(sandbox: &Sandbox, from: &str, to: &str) {
    let path = sandbox.journal_path();
    let journal = fs::read_to_string(&path).unwrap();
    assert!(journal.contains(from), "{journal}");
    fs::write(path, journal.replace(from, to)).unwrap();
}

#[test]
fn a_review_is_shown() {
    let sandbox =
        reviewed(&format!("{REVIEW}; mkdir -p src; echo no > src/main.rs; chmod 600 agent.sh"));
    assert_snapshot!(shown(&sandbox, &["inspect", "review"]), @r"
    exit 0
    --- stdout
    run      [RUN]
    before   iteration 2
    began    [TS]
    command  sh
    sandbox  snapshot
    ended    exit code 0, [TS]

    violations:
    agent.sh: mode changed from 0644 to 0600 (put back)
    src: directory added, with 1 more inside (put back)

    output:
    tidied up

    changes:
    --- a/harness.md
    +++ b/harness.md
    @@ -2,7 +2,7 @@
     
     Read the plan first.
     Say what you did.
    -Keep it short.
    +Keep it very short.
     
     Test it.
     Commit it.
    --- a/metareview.md
    +++ /dev/null
    @@ -1 +0,0 @@
    -Keep the loop tidy.
    \ No newline at end of file
    --- /dev/null
    +++ b/roles/x.md
    @@ -0,0 +1 @@
    +You are x.
    ");
    assert_snapshot!(shown(&sandbox, &["inspect", "review", "2", "--format", "md"]), @r"
    exit 0
    --- stdout
    ## Review before iteration 2

    - run: [RUN]
    - began: [TS]
    - command: sh
    - sandbox: snapshot
    - ended: exit code 0, [TS]

    ### Violations

    - agent.sh: mode changed from 0644 to 0600 (put back)
    - src: directory added, with 1 more inside (put back)

    ### Output

    ```text
    tidied up
    ```

    ### Changes

    ```text
    --- a/harness.md
    +++ b/harness.md
    @@ -2,7 +2,7 @@
     
     Read the plan first.
     Say what you did.
    -Keep it short.
    +Keep it very short.
     
     Test it.
     Commit it.
    --- a/metareview.md
    +++ /dev/null
    @@ -1 +0,0 @@
    -Keep the loop tidy.
    \ No newline at end of file
    --- /dev/null
    +++ b/roles/x.md
    @@ -0,0 +1 @@
    +You are x.
    ```
    ");
    assert_snapshot!(shown(&sandbox, &["inspect", "review", "--format", "json"]), @r#"
    exit 0
    --- stdout
    {
      "run": "[RUN]",
      "iteration": 2,
      "kind": "metareview",
      "command": "sh",
      "enforcement": "snapshot",
      "began": "[TS]",
      "ended": "[TS]",
      "exit_code": 0,
      "timed_out": false,
      "reverted": null,
      "violations": [
        {
          "path": "agent.sh",
          "what": "mode changed from 0644 to 0600",
          "outcome": "put back",
          "beneath": 0
        },
        {
          "path": "src",
          "what": "directory added",
          "outcome": "put back",
          "beneath": 1
        }
      ],
      "more_violations": 0,
      "output_tail": "tidied up\n",
      "diff": "--- a/harness.md\n+++ b/harness.md\n@@ -2,7 +2,7 @@\n \n Read the plan first.\n Say what you did.\n-Keep it short.\n+Keep it very short.\n \n Test it.\n Commit it.\n--- a/metareview.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-Keep the loop tidy.\n\\ No newline at end of file\n--- /dev/null\n+++ b/roles/x.md\n@@ -0,0 +1 @@\n+You are x.\n"
    }
    "#);
    let [text, terminal] = ["text", "terminal"]
        .map(|format| shown(&sandbox, &["inspect", "review", "2", "--format", format]));
    assert_eq!(text, terminal);
}

#[test]
fn a_review_that_there_was_not_is_not_shown() {
    let sandbox = reviewed("true");
    assert_snapshot!(shown(&sandbox, &["inspect", "review", "7"]), @"
    exit 1
    --- stderr
    autoloop: missing review projection for iteration 7 of run '[RUN]'
      hint: show it with `autoloop inspect review 2`
    ");
    assert_snapshot!(shown(&sandbox, &["review", "revert", "7"]), @"
    exit 1
    --- stderr
    autoloop: missing review projection for iteration 7 of run '[RUN]'
      hint: show it with `autoloop inspect review 2`
    ");
    assert_snapshot!(shown(&sandbox, &["review", "revert"]), @"
    exit 0
    --- stdout
    the review before iteration 2 changed nothing
    ");
    let empty = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    assert_snapshot!(empty.run(&["inspect", "review"]).to_string(), @"
    exit 1
    --- stderr
    autoloop: missing review projection
      hint: no run has started here yet
    ");
    assert_snapshot!(empty.run(&["review", "revert"]).to_string(), @"
    exit 1
    --- stderr
    autoloop: missing review projection
      hint: no run has started here yet
    ");
}

#[test]
fn a_review_is_undone_exactly() {
    let sandbox = reviewed(REVIEW);
    assert_eq!(text(&sandbox, "harness.md"), EDITED);
    fs::set_permissions(sandbox.path("harness.md"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_snapshot!(revert(&sandbox), @"
    exit 0
    --- stdout
    harness.md: changes reverted
    metareview.md: restored
    roles/x.md: deleted
    reverted the review before iteration 2
    ");
    assert_eq!(text(&sandbox, "harness.md"), HARNESS);
    assert_eq!(text(&sandbox, "metareview.md"), "Keep the loop tidy.");
    assert!(!sandbox.path("roles/x.md").exists());
    assert_eq!(fs::metadata(sandbox.path("harness.md")).unwrap().permissions().mode(), 0o100_640);
    let left: Vec<_> =
        fs::read_dir(sandbox.path("")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".putting")), "{left:?}");
    assert_eq!(sandbox.fields("loop.reverted", "review"), ["2"]);
    assert_eq!(sandbox.fields("loop.reverted", "files"), ["harness.md,metareview.md,roles/x.md"]);

    // A second revert does nothing.
    assert_snapshot!(revert(&sandbox), @"
    exit 0
    --- stdout
    the review before iteration 2 is already reverted
    ");
    assert_eq!(text(&sandbox, "harness.md"), HARNESS);
    assert_eq!(sandbox.fields("loop.reverted", "review").len(), 1);
    assert!(shown(&sandbox, &["inspect", "review"]).contains("\nreverted [TS]\n"));

    // The run continues as if the review had not happened.
    assert_eq!(sandbox.run(&["run", "--resume", ".", "-i", "2"]).code, Some(1));
    assert_eq!(sandbox.fields("event.invalid", "emitted"), [""; 0]);
}

#[test]
fn changes_of_a_sandboxed_review_are_reverted_too() {
    let review = "echo More. >> harness.md; echo first > .autoloop/plan.md; : > roles/empty.md; mkdir -p .autoloop/logs/deep; echo log > .autoloop/logs/deep/a; rm roles/a.md";
    let sandbox = reviewed_within("auto", review, &[("roles/none.md", "")]);
    assert_eq!(text(&sandbox, ".autoloop/plan.md"), "first\n", "{}", sandbox.story());
    assert_snapshot!(revert(&sandbox), @"
    exit 0
    --- stdout
    .autoloop/logs/deep/a: deleted
    .autoloop/plan.md: deleted
    harness.md: changes reverted
    roles/a.md: restored
    roles/empty.md: deleted
    reverted the review before iteration 2
    ");
    assert_eq!(text(&sandbox, "harness.md"), HARNESS);
    assert_eq!(text(&sandbox, "roles/a.md"), "You are a.\n");
    for gone in [".autoloop/plan.md", "roles/empty.md", ".autoloop/logs/deep/a"] {
        assert!(!sandbox.path(gone).exists(), "{gone}");
    }
    assert!(sandbox.path("roles/none.md").exists());
}

#[test]
fn an_unwritable_file_leaves_the_others_unchanged() {
    let big = "You are big.\n".repeat(1000);
    let sandbox =
        reviewed_within("off", &format!("{REVIEW}; rm roles/big.md"), &[("roles/big.md", &big)]);
    let mut command = sandbox.at_home("sh");
    // The file size limit is enough for one of the two files, not for the other.
    let limited = "trap '' XFSZ; ulimit -f 4; exec \"$0\" review revert";
    command.args(["-c", limited]).arg(sandbox.binary());
    assert_snapshot!(sandbox.finish(command).to_string(), @"
    exit 1
    --- stderr
    autoloop: the review before iteration 2 is not reverted: roles/big.md: File too large (os error 27)
      hint: make sure that it can be read and written
    ");
    assert_eq!(text(&sandbox, "harness.md"), EDITED);
    assert!(!sandbox.path("metareview.md").exists() && !sandbox.path("roles/big.md").exists());
    assert!(revert(&sandbox).starts_with("exit 0"));
    assert_eq!(text(&sandbox, "roles/big.md"), big);
}

#[test]
fn user_changes_elsewhere_stay() {
    let sandbox = reviewed(REVIEW);
    let mine = |text: &str| {
        text.replace("Commit it", "Commit it often")
            .replace("Be careful.\n", "Be careful.\nTake your time.\n")
    };
    sandbox.write("harness.md", mine(EDITED));
    assert!(revert(&sandbox).starts_with("exit 0"), "{}", revert(&sandbox));
    assert_eq!(text(&sandbox, "harness.md"), mine(HARNESS));
}

#[test]
fn user_changes_in_the_same_place_are_a_conflict() {
    let sandbox = reviewed(REVIEW);
    let mine = EDITED.replace("very short", "shorter than that");
    sandbox.write("harness.md", &mine);
    assert_snapshot!(revert(&sandbox), @"
    exit 1
    --- stderr
    autoloop: the review before iteration 2 is not reverted: harness.md: change 1 (@@ -2,7 +2,7 @@) no longer applies: its lines were changed since
      hint: nothing was changed; `autoloop inspect review 2` shows what to revert by hand
    ");
    assert_eq!(text(&sandbox, "harness.md"), mine);
    assert!(sandbox.path("roles/x.md").exists() && !sandbox.path("metareview.md").exists());
    assert_eq!(sandbox.fields("loop.reverted", "review"), [""; 0]);
    // Also where the conflict is in the last of several files.
    sandbox.write("harness.md", EDITED).write("roles/x.md", "You are another role.\n");
    assert_snapshot!(revert(&sandbox), @"
    exit 1
    --- stderr
    autoloop: the review before iteration 2 is not reverted: roles/x.md: it was added by the review and has been changed since
      hint: nothing was changed; `autoloop inspect review 2` shows what to revert by hand
    ");
    assert_eq!(text(&sandbox, "harness.md"), EDITED);
}

#[test]
fn a_change_that_is_only_named_cannot_be_undone() {
    let sandbox = reviewed("printf '\\377' > harness.md");
    assert_snapshot!(revert(&sandbox), @"
    exit 1
    --- stderr
    autoloop: the review before iteration 2 is not reverted: harness.md: the record only says that it was changed (not text: 88 bytes before, 1 after)
      hint: nothing was changed; `autoloop inspect review 2` shows what to revert by hand
    ");
}

#[test]
fn a_path_that_no_review_may_change_is_refused() {
    for path in
        ["../../etc/x", "/etc/x", "src/main.rs", ".autoloop/journal.jsonl", "roles/../agent.sh"]
    {
        let sandbox = reviewed("echo 'You are x.' > roles/x.md");
        tamper(&sandbox, "b/roles/x.md", &format!("b/{path}"));
        let told = revert(&sandbox);
        assert!(
            told.starts_with("exit 1") && told.contains("which no review may"),
            "{path}: {told}"
        );
        assert!(sandbox.path("roles/x.md").exists() && sandbox.path("agent.sh").exists());
    }
    let sandbox = reviewed("echo 'You are x.' > roles/x.md");
    tamper(&sandbox, "b/roles/x.md", "b/../x");
    assert_snapshot!(revert(&sandbox), @"
    exit 1
    --- stderr
    autoloop: the review before iteration 2 is not reverted: forged record: it says that the review changed ../x, which no review may
      hint: nothing was changed
    ");
    tamper(&sandbox, "@@ -0,0 +1 @@", "@@ -0,0 +1,3 @@");
    assert_snapshot!(revert(&sandbox), @"
    exit 1
    --- stderr
    autoloop: the changes of the review before iteration 2 cannot be read: at byte 25: hunk header does not match hunk
      hint: nothing was changed; `autoloop inspect review` shows the record
    ");
}

#[test]
fn a_link_is_not_followed() {
    let sandbox = reviewed(REVIEW);
    sandbox.write("elsewhere", EDITED);
    fs::remove_file(sandbox.path("harness.md")).unwrap();
    symlink("elsewhere", sandbox.path("harness.md")).unwrap();
    assert_snapshot!(revert(&sandbox), @"
    exit 1
    --- stderr
    autoloop: the review before iteration 2 is not reverted: harness.md is not an ordinary file, or is reached by a link
      hint: nothing was changed
    ");
    assert_eq!(text(&sandbox, "elsewhere"), EDITED);

    let sandbox = reviewed("echo 'You are x.' > roles/x.md");
    fs::rename(sandbox.path("roles"), sandbox.path("other")).unwrap();
    symlink("other", sandbox.path("roles")).unwrap();
    assert_snapshot!(revert(&sandbox), @"
    exit 1
    --- stderr
    autoloop: the review before iteration 2 is not reverted: roles/x.md is not an ordinary file, or is reached by a link
      hint: nothing was changed
    ");
    assert!(sandbox.path("other/x.md").exists());
}

#[test]
fn protected_settings_are_never_changed() {
    let sandbox = reviewed("printf 'memory.prompt_budget_chars = 8\\n' >> autoloops.toml");
    tamper(
        &sandbox,
        "+memory.prompt_budget_chars = 8",
        "-backend.model = 'evil'\\u000a+memory.prompt_budget_chars = 8",
    );
    let header = sandbox.fields("review.finish", "diff").remove(0);
    let header = header.split("@@").nth(1).unwrap().to_owned();
    let grown = header.replacen(",3 +", ",4 +", 1);
    assert_ne!(header, grown);
    tamper(&sandbox, &header, &grown);
    assert_snapshot!(revert(&sandbox), @"
    exit 1
    --- stderr
    autoloop: the review before iteration 2 is not reverted: autoloops.toml: protected setting backend.model = 'evil' added: no review can have changed it
      hint: nothing was changed
    ");
}

#[test]
fn the_copy_of_a_preset_is_undone_too() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    sandbox
        .write("home/autoloop/presets/mine/harness.md", "As it was.\n")
        .write("home/autoloop/presets/mine/autoloops.toml", "review.enabled = true\nreview.sandbox = 'off'\n")
        .write("autoloops.toml", "backend.command = 'sh'\nbackend.args = ['agent.sh']\n")
        .write(
            "agent.sh",
            "[ -z \"$AUTOLOOP_REVIEW_MODE\" ] || echo more >> .autoloop/runs/$AUTOLOOP_RUN_ID/loop/harness.md",
        );
    let run = sandbox.run(&["run", "mine", "do it", "-i", "2"]);
    assert_eq!(run.code, Some(1), "{run}");
    let id = sandbox.fields("loop.start", "run").remove(0);
    let file = format!(".autoloop/runs/{id}/loop/harness.md");
    assert_eq!(text(&sandbox, &file), "As it was.\nmore\n");
    assert!(revert(&sandbox).starts_with("exit 0"), "{}", revert(&sandbox));
    assert_eq!(text(&sandbox, &file), "As it was.\n");
}

#[test]
fn during_a_run_nothing_is_reverted() {
    let sandbox = reviewed(REVIEW);
    sandbox.write("agent.sh", "touch there; sleep 651");
    let mut command = sandbox.command();
    command.args(["run", ".", "-i", "1"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    until("the agent", || sandbox.path("there").exists().then_some(()));
    let run = sandbox.fields("loop.start", "run");
    let told = sandbox.run(&["review", "revert", "2", "--run", &run[0]]).to_string();
    let told = told.replace(&run[1], "[RUN]").replace(&harness.0.id().to_string(), "[PID]");
    assert_snapshot!(told, @"
    exit 4
    --- stderr
    autoloop: run '[RUN]' is running in another process ([PID])
      hint: it reads the files of the loop before every iteration; revert the review when it has ended
    ");
    assert_eq!(text(&sandbox, "harness.md"), EDITED);
    harness.kill();
    let told = sandbox.run(&["review", "revert", "2", "--run", &run[0]]);
    assert_eq!(told.code, Some(0), "{told}");
    // The next harness sweeps what a killed one left.
    sandbox.write("agent.sh", "true");
    sandbox.run(&["run", "--resume", ".", "-i", "1"]);
    assert_eq!(sandbox.survivors(), "");
}
