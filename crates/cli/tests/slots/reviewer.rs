//! The reviewer of a slot: which agent it is, what it is shown, what it may change, and how its
//! output is read.

use std::path::Path;
use std::process::Stdio;

use autoloop_testkit::sandbox::write_program;

use crate::scene::*;

#[test]
fn a_verdict_violation_can_be_repaired_once_if_enabled() {
    let counted = format!(
        "if grep -q 'topic.*slot.review' \"$AUTOLOOP_JOURNAL_FILE\"; then grep -o 'Your last answer was invalid' \"$AUTOLOOP_PROMPT_PATH\"; {PASS}; else echo no; fi"
    );
    let sandbox = project(Agents { review: &counted, ..GOOD }, 1, "slots.reviewContractRepair = 1");
    passes(&sandbox, "--review --iterations 1");
    assert_eq!(verdicts(&sandbox), ["violation", "pass"]);
    assert_eq!(sandbox.fields("slot.review", "attempt"), ["0", "0"]);
    let last = sandbox.fields("slot.review", "output").remove(1);
    assert!(last.contains("Your last answer was invalid"), "{last}");
}

#[test]
fn a_brace_before_the_verdict_is_quoted_with_the_setting_that_allows_a_repair() {
    let review =
        "echo '`fn main() { }` looks fine. {\"verdict\": \"pass\", \"followUpPrompt\": \"good\"}'";
    let sandbox = project(Agents { review, ..GOOD }, 1, "");
    let output = fails(&sandbox, "--review");
    let reason = sandbox.fields("slot.finish", "reason").concat();
    for part in ["`fn main() { }` looks fine.", "slots.reviewContractRepair = 1"] {
        assert!(reason.contains(part), "{reason}");
        assert!(output.stderr.contains(part), "{output}");
    }
    let prompt = file(&sandbox, "1-1/review-0.prompt.md");
    assert!(prompt.contains("`fn main() { }` looks fine"), "{prompt}");
    let shown = sandbox.run(&["slots", "prompts"]).stdout;
    assert!(shown.contains("`fn main() { }` looks fine"), "{shown}");
    let mended = project(Agents { review, ..GOOD }, 1, "slots.reviewContractRepair = 1");
    fails(&mended, "--review");
    let reason = mended.fields("slot.finish", "reason").concat();
    assert!(!reason.contains("slots.reviewContractRepair = 1"), "{reason}");
    let prompt = file(&mended, "1-1/review-0.prompt.md");
    assert!(prompt.contains("Your last answer was invalid: "), "{prompt}");
}

#[test]
fn a_reviewer_can_be_another_agent() {
    let sandbox = project(
        Agents { review: "echo nonsense", ..GOOD },
        1,
        "slots.reviewer.args = ['reviewer.sh']",
    );
    sandbox.write("reviewer.sh", PASS);
    passes(&sandbox, "--review");
    assert_eq!(outcomes(&sandbox), ["t-1 passed: good"]);
}

#[test]
fn the_verdict_is_taken_out_of_a_clients_stream() {
    let review = r#"printf '%s\n' '{"type":"system","subtype":"init"}' '{"type":"assistant","message":{"content":[{"type":"text","text":"{x}"}]}}' '{"type":"result","subtype":"success","is_error":false,"result":"{\"verdict\": \"pass\", \"followUpPrompt\": \"streamed\"}"}'"#;
    let sandbox = project(Agents { review, ..GOOD }, 1, "slots.reviewer.output = 'claude'");
    passes(&sandbox, "--review");
    assert_eq!(outcomes(&sandbox), ["t-1 passed: streamed"]);
    // For a client that was asked for its stream, the output format need not be set.
    let asked = "slots.reviewer = { command = './claude', args = ['-p', '--output-format', 'stream-json', '--verbose'] }";
    let sandbox = project(GOOD, 1, asked);
    write_program(sandbox.path("claude"), format!("#!/bin/sh\n{review}\n"));
    passes(&sandbox, "--review");
    assert_eq!(outcomes(&sandbox), ["t-1 passed: streamed"]);
}

#[test]
fn a_reviewer_changes_nothing() {
    let review = format!("echo hacked > made-t-1; echo more > new; rm README.md; {PASS}");
    for sandbox_setting in ["auto", "off"] {
        let settings = format!("review.sandbox = '{sandbox_setting}'\nreview.enabled = false");
        let sandbox = repository(Agents { review: &review, ..GOOD }, 1, &settings);
        passes(&sandbox, "--review");
        assert_eq!(sandbox.read("made-t-1"), b"t-1\n", "{sandbox_setting}");
        assert!(!sandbox.path("new").exists() && sandbox.path("README.md").exists());
        if sandbox_setting == "off" {
            let mut paths = sandbox.fields("review.violation", "path");
            paths.sort();
            assert_eq!(paths, ["README.md", "made-t-1", "new"]);
            assert_eq!(sandbox.fields("review.violation", "kind"), ["slot"; 3]);
        }
    }
}

/// In a sandbox a reviewer writes its temporary files and its client's state, and nothing else
/// outside of its view.
#[test]
fn a_reviewer_behind_a_view_writes_nothing_outside_but_its_own_files() {
    let elsewhere = tempfile::tempdir().unwrap();
    let notes = elsewhere.path().join("notes").display().to_string();
    let mischief = "cd \"$AUTOLOOP_PROJECT_DIR\"; for f in README.md .git/evil .autoloop/evil \"$AUTOLOOP_JOURNAL_FILE\"; do echo evil >> $f; done; rm -rf .git/objects; echo evil > new";
    let own = "echo x > \"$TMPDIR/x\" || exit 1";
    let review = format!("{own}; echo \"$AUTOLOOP_ITEM_ID\" >> '{notes}'; {mischief}; {PASS}");
    for slots in ["1", "2"] {
        let sandbox = repository(Agents { review: &review, ..GOOD }, 2, "");
        passes(&sandbox, &format!("--review --parallel-agents {slots}"));
        assert_eq!(sandbox.read("README.md"), b"one\ntwo\nthree\n");
        assert!(!sandbox.path(".git/evil").exists() && !sandbox.path(".autoloop/evil").exists());
        assert!(!sandbox.journal().contains("evil\n") && !sandbox.path("new").exists());
        git(&sandbox, &["fsck", "--no-dangling"]);
    }
    let behind_a_view = project(Agents { review: "touch new; echo no", ..GOOD }, 1, "");
    fails(&behind_a_view, "--review");
    if behind_a_view.fields("review.violation", "outcome") == ["kept out"] {
        assert!(!Path::new(&notes).exists());
    }
}

#[test]
fn a_reviewer_cannot_replace_its_tree() {
    let sandbox = project(GOOD, 1, "");
    passes(&sandbox, "--review");
    if !["overlay", "landlock"].contains(&&*sandbox.fields("slot.review", "enforcement").concat()) {
        return;
    }
    let root = sandbox.path("").display().to_string();
    let settings = String::from_utf8(sandbox.read("autoloops.toml")).unwrap();
    let review = format!(
        "cd /; mv {root}/outer/deep {root}/outer/stolen; mv {root}/outer {root}/stolen; mkdir -p {root}/outer/deep/project; {PASS}"
    );
    sandbox.write("outer/deep/project/autoloops.toml", settings.replace("agent.sh", "thief.sh"));
    sandbox.write("thief.sh", format!("[ $AUTOLOOP_SLOT_PHASE = review ] || exit 0\n{review}\n"));
    let inner = sandbox.path("outer/deep/project");
    let mut add = sandbox.command();
    add.args(["tasks", "add", "keep the tree"]).env("AUTOLOOP_PROJECT_DIR", inner);
    assert!(add.stdout(Stdio::null()).status().unwrap().success());
    passes(&sandbox, "outer/deep/project --review");
    assert!(!sandbox.path("stolen").exists() && !sandbox.path("outer/stolen").exists());
    assert!(sandbox.path("outer/deep/project/.autoloop/journal.jsonl").exists());
}

#[test]
fn long_outputs_are_whole_on_the_disk_and_short_for_the_reviewer() {
    let agents = Agents {
        implement: "echo first; head -c 300000 /dev/zero | tr '\\0' x; echo; echo last",
        ..GOOD
    };
    let sandbox = project(agents, 1, "");
    passes(&sandbox, "--review");
    let whole = file(&sandbox, "1-1/implement.out");
    assert_eq!(whole.len(), 300_000 + "first\n\nlast\n".len());
    let prompt = file(&sandbox, "1-1/review-0.prompt.md");
    assert!(prompt.contains("first\nxxx") && prompt.contains("xxx\nlast\n"));
    assert!(prompt.contains("[250072 characters left out]"), "once, and all of it");
    assert!(prompt.len() < 60_000, "{}", prompt.len());
}

#[test]
fn a_verdict_behind_megabytes_of_words_is_found() {
    let review = format!(
        "head -c 5000000 /dev/zero | tr '\\0' x; echo; {DRIFT_THEN_PASS}; head -c 3000000 /dev/zero | tr '\\0' y"
    );
    let sandbox = project(Agents { review: &review, ..GOOD }, 1, "");
    passes(&sandbox, "--review");
    assert_eq!(verdicts(&sandbox), ["drift", "pass"]);
}

#[test]
fn a_verdict_may_span_several_lines() {
    let review = r#"printf '{\n  "type": "result",\n  "is_error": false,\n  "result": "{\\"verdict\\": \\"pass\\", \\"followUpPrompt\\": \\"good\\"}"\n}\n'"#;
    let sandbox = project(Agents { review, ..GOOD }, 1, "slots.reviewer.output = 'claude'");
    passes(&sandbox, "--review");
    assert_eq!(outcomes(&sandbox), ["t-1 passed: good"]);
}
