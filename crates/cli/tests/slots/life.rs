//! The life of a slot, rule by rule, through the binary: implement, review, fix, and every end.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use autoloop_testkit::Sandbox;
use autoloop_testkit::slots::{
    self, Agents, DRIFT, DRIFT_THEN_PASS, GOOD, PASS, outcomes, story, told,
};
use insta::assert_snapshot;

fn project(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, settings))
}

fn repository(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::repository(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, settings))
}

#[test]
fn work_that_passes_at_once() {
    let sandbox = project(GOOD, 1, "");
    assert_snapshot!(told(&sandbox, &["slots", "--review", "--iterations", "1"]), @r"
    exit 0
    --- stdout
    slots [RUN]: ended (iterations), 1 of 1 item passed
    --- stderr
    slots [RUN] begin: 1 slot, with review
    note: [DIR] is in no git repository, so reviewers see no diff
    iteration 1
      slot 1  t-1  implement: task 1
      slot 1  t-1  review
      slot 1  t-1  review says pass: good
      slot 1  t-1  passed: good
    ");
    assert_snapshot!(story(&sandbox), @r"
    - run.start iterations=1 parallel_agents=1 review=true max_fix_attempts=5 isolation=shared
    1 start slot=1 item_id=t-1 title=task 1
    1 phase slot=1 item_id=t-1 phase=implement attempt=0
    1 implement slot=1 item_id=t-1 exit_code=0 timed_out=false picked='' output=done\u000a
    1 phase slot=1 item_id=t-1 phase=review attempt=0
    1 review slot=1 item_id=t-1 attempt=0 verdict=pass follow_up_prompt=good reason='' exit_code=0 output={\u0022verdict\u0022: \u0022pass\u0022, \u0022followUpPrompt\u0022: \u0022good\u0022}\u000a
    1 finish slot=1 item_id=t-1 outcome=passed reason=good
    - run.finish reason=iterations taken=1 passed=1
    ");
    assert_eq!(sandbox.read("made-t-1"), b"t-1\n");
    assert_snapshot!(sandbox.run(&["tasks", "list", "--all"]).to_string(), @r"
    exit 0
    --- stdout
    t-1  P2  closed  task 1
    ");
}

#[test]
fn drift_then_pass() {
    let sandbox = project(Agents { review: DRIFT_THEN_PASS, ..GOOD }, 1, "");
    assert_eq!(sandbox.run(&["slots", "--review", "--iterations", "1"]).code, Some(0));
    assert_snapshot!(story(&sandbox), @r"
    - run.start iterations=1 parallel_agents=1 review=true max_fix_attempts=5 isolation=shared
    1 start slot=1 item_id=t-1 title=task 1
    1 phase slot=1 item_id=t-1 phase=implement attempt=0
    1 implement slot=1 item_id=t-1 exit_code=0 timed_out=false picked='' output=done\u000a
    1 phase slot=1 item_id=t-1 phase=review attempt=0
    1 review slot=1 item_id=t-1 attempt=0 verdict=drift follow_up_prompt=add a test reason='' exit_code=0 output=I looked: {\u0022verdict\u0022: \u0022drift\u0022, \u0022followUpPrompt\u0022: \u0022add a test\u0022}\u000a
    1 phase slot=1 item_id=t-1 phase=fix attempt=1
    1 fix slot=1 item_id=t-1 attempt=1 exit_code=0 timed_out=false output=mended\u000a
    1 phase slot=1 item_id=t-1 phase=review attempt=1
    1 review slot=1 item_id=t-1 attempt=1 verdict=pass follow_up_prompt=add a test reason='' exit_code=0 output=I looked: {\u0022verdict\u0022: \u0022pass\u0022, \u0022followUpPrompt\u0022: \u0022add a test\u0022}\u000a
    1 finish slot=1 item_id=t-1 outcome=passed reason=add a test
    - run.finish reason=iterations taken=1 passed=1
    ");
    assert_eq!(sandbox.read("made-t-1"), b"t-1\nfixed\n");
}

#[test]
fn drift_to_the_limit_is_so_many_fixes_and_one_review_more() {
    let sandbox = project(Agents { review: DRIFT, ..GOOD }, 1, "");
    let limit = ["slots", "--review", "--review-max-fix-attempts", "2", "--iterations", "1"];
    assert_snapshot!(told(&sandbox, &limit), @r"
    exit 1
    --- stdout
    slots [RUN]: ended (iterations), 0 of 1 item passed
    --- stderr
    slots [RUN] begin: 1 slot, with review
    note: [DIR] is in no git repository, so reviewers see no diff
    iteration 1
      slot 1  t-1  implement: task 1
      slot 1  t-1  review
      slot 1  t-1  review says drift: add a test
      slot 1  t-1  fix 1
      slot 1  t-1  review after fix 1
      slot 1  t-1  review says drift: add a test
      slot 1  t-1  fix 2
      slot 1  t-1  review after fix 2
      slot 1  t-1  review says drift: add a test
      slot 1  t-1  drift: after 2 fixes the review still found: add a test
    autoloop: 1 of 1 item did not pass
      hint: `autoloop inspect slots --run [RUN]` shows why; what did not pass is open again
    ");
    assert_eq!(sandbox.fields("slot.review", "attempt"), ["0", "1", "2"]);
    assert_eq!(sandbox.fields("slot.fix", "attempt"), ["1", "2"]);
    assert_eq!(outcomes(&sandbox), ["t-1 drift: after 2 fixes the review still found: add a test"]);
    // The item is there for the next run, with the reason.
    assert_snapshot!(sandbox.run(&["tasks", "show", "t-1"]).to_string(), @r"
    exit 0
    --- stdout
    t-1  task 1

    status     ready
    priority   2
    last said  after 2 fixes the review still found: add a test

    Acceptance:
    it works
    ");
}

#[test]
fn no_fix_at_all_is_one_review() {
    let sandbox = project(Agents { review: DRIFT, ..GOOD }, 1, "slots.reviewMaxFixAttempts = 0");
    assert_eq!(sandbox.run(&["slots", "--review", "--iterations", "1"]).code, Some(1));
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["drift"]);
    assert_eq!(sandbox.fields("slot.fix", "attempt"), [""; 0]);
}

#[test]
fn each_violation_of_the_contract_fails_at_once() {
    let reviews = [
        "echo looks good",
        "true",
        "echo '{\"verdict\": \"approve\", \"followUpPrompt\": \"x\"}'",
        "echo '{\"verdict\": \"pass\"}'",
        "echo '{\"verdict\": \"drift\", \"followUpPrompt\": 7}'",
        "echo 'as {x} shows: {\"verdict\": \"pass\", \"followUpPrompt\": \"x\"}'",
        "echo '{\"verdict\": \"pass\", \"followUpPrompt\": \"x\"'",
    ];
    let told = reviews.map(|review| {
        let sandbox = project(Agents { review, ..GOOD }, 1, "");
        let code = sandbox.run(&["slots", "--review", "--iterations", "1"]).code;
        assert_eq!(code, Some(1), "{review}");
        assert_eq!(sandbox.fields("slot.review", "verdict"), ["violation"], "{review}");
        assert_eq!(sandbox.fields("slot.fix", "attempt"), [""; 0]);
        outcomes(&sandbox).concat()
    });
    assert_snapshot!(told.join("\n"), @r"
    t-1 violation: there is no '{' in the reviewer's final message, so there is no JSON object with a verdict
    t-1 violation: the reviewer's final message is empty; it has to hold a JSON object with the verdict
    t-1 violation: 'verdict' is 'approve'; it can only be 'pass' or 'drift'
    t-1 violation: the first JSON object has no 'followUpPrompt'; it begins with 'verdict'
    t-1 violation: 'followUpPrompt' is a number; it has to be a string
    t-1 violation: the first '{' (at line 1, column 4) does not begin a JSON object: at line 1, column 5, 'x' stands where a key in double quotes or '}' should
    t-1 violation: the JSON object that begins at line 1, column 1 is cut off: the message ends before its last '}'
    ");
}

#[test]
fn a_violation_can_be_mended_once_if_somebody_wants_that() {
    let counted = format!(
        "if grep -q 'topic.*slot.review' \"$AUTOLOOP_JOURNAL_FILE\"; then grep -o 'Your last answer could not be used' \"$AUTOLOOP_PROMPT_PATH\"; {PASS}; else echo no; fi"
    );
    let sandbox = project(Agents { review: &counted, ..GOOD }, 1, "slots.reviewContractRepair = 1");
    assert_eq!(sandbox.run(&["slots", "--review", "--iterations", "1"]).code, Some(0));
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["violation", "pass"]);
    assert_eq!(sandbox.fields("slot.review", "attempt"), ["0", "0"]);
    let last = sandbox.fields("slot.review", "output").remove(1);
    assert!(last.contains("Your last answer could not be used"), "{last}");
}

#[test]
fn a_reviewer_that_fails_is_not_listened_to() {
    let review = format!("{PASS}; exit 1");
    let sandbox = project(Agents { review: &review, ..GOOD }, 1, "");
    assert_eq!(sandbox.run(&["slots", "--review", "--iterations", "1"]).code, Some(1));
    assert_snapshot!(story(&sandbox), @r"
    - run.start iterations=1 parallel_agents=1 review=true max_fix_attempts=5 isolation=shared
    1 start slot=1 item_id=t-1 title=task 1
    1 phase slot=1 item_id=t-1 phase=implement attempt=0
    1 implement slot=1 item_id=t-1 exit_code=0 timed_out=false picked='' output=done\u000a
    1 phase slot=1 item_id=t-1 phase=review attempt=0
    1 review slot=1 item_id=t-1 attempt=0 verdict=failed follow_up_prompt='' reason=the reviewer exited with 1 exit_code=1 output={\u0022verdict\u0022: \u0022pass\u0022, \u0022followUpPrompt\u0022: \u0022good\u0022}\u000a
    1 finish slot=1 item_id=t-1 outcome=failed reason=the reviewer exited with 1
    - run.finish reason=iterations taken=1 passed=0
    ");
}

#[test]
fn a_fixer_that_fails_ends_the_slot() {
    let sandbox = project(Agents { review: DRIFT, fix: "exit 1", ..GOOD }, 1, "");
    assert_eq!(sandbox.run(&["slots", "--review", "--iterations", "1"]).code, Some(1));
    assert_eq!(sandbox.fields("slot.review", "attempt"), ["0"]);
    assert_eq!(outcomes(&sandbox), ["t-1 failed: the fixer exited with 1"]);
}

#[test]
fn an_implementer_that_fails_is_not_reviewed() {
    let sandbox = project(Agents { implement: "echo no; exit 1", ..GOOD }, 1, "");
    assert_eq!(sandbox.run(&["slots", "--review", "--iterations", "1"]).code, Some(1));
    assert_snapshot!(story(&sandbox), @r"
    - run.start iterations=1 parallel_agents=1 review=true max_fix_attempts=5 isolation=shared
    1 start slot=1 item_id=t-1 title=task 1
    1 phase slot=1 item_id=t-1 phase=implement attempt=0
    1 implement slot=1 item_id=t-1 exit_code=1 timed_out=false picked='' output=no\u000a
    1 finish slot=1 item_id=t-1 outcome=failed reason=the implementer exited with 1
    - run.finish reason=iterations taken=1 passed=0
    ");
}

#[test]
fn nothing_to_take() {
    let sandbox = project(GOOD, 0, "");
    assert_snapshot!(told(&sandbox, &["slots", "--review"]), @r"
    exit 0
    --- stdout
    slots [RUN]: ended (no_items), no item was taken
    --- stderr
    slots [RUN] begin: 1 slot, with review
    note: [DIR] is in no git repository, so reviewers see no diff
    iteration 1
      slot 1  -  no_item: there is nothing to take
    ");
    assert_snapshot!(story(&sandbox), @r"
    - run.start iterations=0 parallel_agents=1 review=true max_fix_attempts=5 isolation=shared
    1 start slot=1 item_id='' title=''
    1 finish slot=1 item_id='' outcome=no_item reason=there is nothing to take
    - run.finish reason=no_items taken=0 passed=0
    ");
    let several = project(GOOD, 1, "");
    assert_eq!(several.run(&["slots", "--parallel-agents", "3"]).code, Some(0));
    let mut outcomes = several.fields("slot.finish", "outcome");
    outcomes.sort();
    assert_eq!(outcomes, ["no_item", "no_item", "passed"]);
}

#[test]
fn an_agent_that_took_nothing_is_not_reviewed() {
    let sandbox = project(Agents { implement: "echo picked: none", ..GOOD }, 1, "");
    assert_eq!(sandbox.run(&["slots", "--review", "--iterations", "1"]).code, Some(0));
    assert_eq!(sandbox.fields("slot.review", "verdict"), [""; 0]);
    assert_eq!(outcomes(&sandbox), ["t-1 no_item: the agent did not take the item"]);
    assert!(sandbox.run(&["tasks", "ready"]).stdout.contains("t-1"));
}

#[test]
fn what_the_agent_says_to_have_picked_is_on_record_and_the_claim_decides() {
    let sandbox = project(Agents { implement: "echo Picked: t-2", ..GOOD }, 2, "");
    let output = sandbox.run(&["slots", "--review", "--iterations", "1"]);
    assert_eq!(output.code, Some(0));
    assert!(output.stderr.contains("note: slot 1 has t-1, and its agent says to have picked t-2"));
    assert_eq!(sandbox.fields("slot.implement", "picked"), ["t-2"]);
    assert_eq!(outcomes(&sandbox), ["t-1 passed: good"]);
    assert!(sandbox.run(&["tasks", "ready"]).stdout.contains("t-2"));
}

#[test]
fn without_a_reviewer_prompt_nothing_is_reviewed_and_a_line_says_so() {
    let sandbox = project(GOOD, 1, "");
    let output = sandbox.run(&["slots", "--review", "--reviewer-prompt", "", "--iterations", "1"]);
    assert_eq!(output.code, Some(0));
    assert!(output.stderr.contains("note: there is no reviewer prompt, so nothing is reviewed\n"));
    assert_eq!(sandbox.fields("slot.review", "verdict"), [""; 0]);
    assert_eq!(outcomes(&sandbox), ["t-1 passed: not reviewed: there is no reviewer prompt"]);
}

#[test]
fn without_review_work_passes_when_the_implementer_does() {
    let sandbox = project(GOOD, 1, "slots.reviewEnabled = true");
    assert_eq!(sandbox.run(&["slots", "--no-review"]).code, Some(0));
    assert_eq!(outcomes(&sandbox), ["t-1 passed: not reviewed: reviews are off"]);
    for spelled in ["slots.reviewEnabled", "reviewEnabled", "slots.review_enabled"] {
        let on = project(GOOD, 1, &format!("{spelled} = true"));
        assert_eq!(on.run(&["slots"]).code, Some(0));
        assert_eq!(on.fields("slot.review", "verdict"), ["pass"], "{spelled}");
    }
}

#[test]
fn a_stop_marker_of_an_implementer_or_a_fixer_ends_the_run_after_what_is_under_way() {
    for agents in [
        Agents { implement: "echo 'so: no_beads_available.'", ..GOOD },
        Agents { review: DRIFT_THEN_PASS, fix: "echo no_beads_available", ..GOOD },
    ] {
        let sandbox = project(agents, 3, "");
        assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(0));
        assert_eq!(outcomes(&sandbox).len(), 1);
        assert_eq!(sandbox.fields("slot.finish", "outcome"), ["passed"]);
        assert_eq!(sandbox.fields("slot.run.finish", "reason"), ["stop_marker"]);
    }
}

#[test]
fn a_reviewer_that_quotes_the_stop_marker_ends_nothing() {
    let review = format!("echo no_beads_available; {PASS}");
    let sandbox = project(Agents { review: &review, ..GOOD }, 3, "");
    assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(0));
    assert_eq!(sandbox.fields("slot.finish", "outcome"), ["passed"; 3]);
    assert_eq!(sandbox.fields("slot.run.finish", "reason"), ["no_items"]);
}

#[test]
fn the_stop_marker_can_be_another_one() {
    let agents = Agents {
        implement: "echo no_beads_available; [ $AUTOLOOP_ITEM_ID = t-2 ] && echo ENOUGH; true",
        ..GOOD
    };
    let sandbox = project(agents, 3, "");
    assert_eq!(sandbox.run(&["slots", "--stop-marker", "ENOUGH"]).code, Some(0));
    assert_eq!(sandbox.fields("slot.finish", "item_id"), ["t-1", "t-2"]);
}

#[test]
fn an_item_that_failed_is_taken_again_only_where_iterations_are_counted() {
    let agents = Agents {
        implement: "[ $AUTOLOOP_ITEM_ID = t-1 ] && [ $AUTOLOOP_ITERATION -lt 3 ] && exit 1; true",
        ..GOOD
    };
    let endless = project(agents, 2, "");
    assert_eq!(endless.run(&["slots"]).code, Some(1));
    assert_eq!(endless.fields("slot.finish", "item_id"), ["t-1", "t-2"]);
    assert_eq!(endless.fields("slot.run.finish", "reason"), ["no_items"]);
    let counted = project(agents, 2, "");
    assert_eq!(counted.run(&["slots", "--iterations", "4"]).code, Some(0));
    assert_eq!(counted.fields("slot.finish", "item_id"), ["t-1", "t-1", "t-1", "t-2"]);
    assert_eq!(counted.fields("slot.run.finish", "passed"), ["2"]);
}

#[test]
fn every_agent_has_a_deadline() {
    let hang = "sleep 60";
    for (agents, reason) in [
        (Agents { implement: hang, ..GOOD }, "t-1 failed: the implementer took too long"),
        (Agents { review: hang, ..GOOD }, "t-1 failed: the reviewer took too long"),
        (Agents { review: DRIFT, fix: hang, ..GOOD }, "t-1 failed: the fixer took too long"),
    ] {
        let sandbox = project(agents, 1, "backend.timeout_ms = 700");
        assert_eq!(sandbox.run(&["slots", "--review", "--iterations", "1"]).code, Some(1));
        assert_eq!(outcomes(&sandbox), [reason]);
        assert_eq!(sandbox.survivors(), "");
    }
    let sandbox = project(
        Agents { review: hang, ..GOOD },
        1,
        "slots.reviewer.timeout_ms = 300\nslots.reviewer.grace_ms = 100",
    );
    assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(1));
    assert_eq!(outcomes(&sandbox), ["t-1 failed: the reviewer took too long"]);
}

#[test]
fn agents_are_told_where_they_are() {
    let env = "env | grep -E '^AUTOLOOP_(SLOT|SLOT_PHASE|ITEM_ID|FIX_ATTEMPT|ITERATION)=' | sort | tr '\\n' ' '; pwd";
    let review = format!("{env}; {DRIFT_THEN_PASS}");
    let sandbox = project(Agents { implement: env, review: &review, fix: env }, 1, "");
    assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(0));
    let said: Vec<String> = ["slot.implement", "slot.review", "slot.fix"]
        .iter()
        .flat_map(|topic| sandbox.fields(topic, "output"))
        .map(|output| output.split("I looked").next().unwrap_or_default().replace("\\u000a", ""))
        .collect();
    assert_snapshot!(said.join("\n"), @r"
    AUTOLOOP_FIX_ATTEMPT=0 AUTOLOOP_ITEM_ID=t-1 AUTOLOOP_ITERATION=1 AUTOLOOP_SLOT=1 AUTOLOOP_SLOT_PHASE=implement [DIR]
    AUTOLOOP_FIX_ATTEMPT=0 AUTOLOOP_ITEM_ID=t-1 AUTOLOOP_ITERATION=1 AUTOLOOP_SLOT=1 AUTOLOOP_SLOT_PHASE=review [DIR]
    AUTOLOOP_FIX_ATTEMPT=1 AUTOLOOP_ITEM_ID=t-1 AUTOLOOP_ITERATION=1 AUTOLOOP_SLOT=1 AUTOLOOP_SLOT_PHASE=review [DIR]
    AUTOLOOP_FIX_ATTEMPT=1 AUTOLOOP_ITEM_ID=t-1 AUTOLOOP_ITERATION=1 AUTOLOOP_SLOT=1 AUTOLOOP_SLOT_PHASE=fix [DIR]
    ");
}

#[test]
fn a_reviewer_can_be_another_agent() {
    let sandbox = project(
        Agents { review: "echo nonsense", ..GOOD },
        1,
        "slots.reviewer.args = ['reviewer.sh']",
    );
    sandbox.write("reviewer.sh", PASS);
    assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(0));
    assert_eq!(outcomes(&sandbox), ["t-1 passed: good"]);
}

#[test]
fn the_verdict_is_taken_out_of_a_clients_stream() {
    let review = r#"printf '%s\n' '{"type":"system","subtype":"init"}' '{"type":"assistant","message":{"content":[{"type":"text","text":"{x}"}]}}' '{"type":"result","subtype":"success","is_error":false,"result":"{\"verdict\": \"pass\", \"followUpPrompt\": \"streamed\"}"}'"#;
    let sandbox = project(Agents { review, ..GOOD }, 1, "slots.reviewer.output = 'claude'");
    assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(0));
    assert_eq!(outcomes(&sandbox), ["t-1 passed: streamed"]);
    // A client that was asked for its stream need not be said to print one.
    let asked = "slots.reviewer = { command = './claude', args = ['-p', '--output-format', 'stream-json', '--verbose'] }";
    let sandbox = project(GOOD, 1, asked);
    sandbox.write("claude", format!("#!/bin/sh\n{review}\n"));
    fs::set_permissions(sandbox.path("claude"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(0));
    assert_eq!(outcomes(&sandbox), ["t-1 passed: streamed"]);
}

#[test]
fn a_reviewer_changes_nothing() {
    let review = format!("echo hacked > made-t-1; echo more > new; rm README.md; {PASS}");
    for sandbox_setting in ["auto", "off"] {
        let settings = format!("review.sandbox = '{sandbox_setting}'\nreview.enabled = false");
        let sandbox = repository(Agents { review: &review, ..GOOD }, 1, &settings);
        assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(0));
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

/// What a review touches besides the tree is nobody's business: caches, notes, the state of tools.
#[test]
fn a_reviewer_behind_a_view_may_write_wherever_nothing_of_the_project_is() {
    let elsewhere = tempfile::tempdir().unwrap();
    let notes = elsewhere.path().join("notes").display().to_string();
    let mischief = "cd \"$AUTOLOOP_PROJECT_DIR\"; for f in README.md .git/evil .autoloop/evil \"$AUTOLOOP_JOURNAL_FILE\"; do echo evil >> $f; done; rm -rf .git/objects; echo evil > new";
    let review = format!("echo \"$AUTOLOOP_ITEM_ID\" >> '{notes}'; {mischief}; {PASS}");
    for slots in ["1", "2"] {
        let sandbox = repository(Agents { review: &review, ..GOOD }, 2, "");
        let output = sandbox.run(&["slots", "--review", "--parallel-agents", slots]);
        assert_eq!(output.code, Some(0), "{output}");
        assert_eq!(sandbox.read("README.md"), b"one\ntwo\nthree\n");
        assert!(!sandbox.path(".git/evil").exists() && !sandbox.path(".autoloop/evil").exists());
        assert!(!sandbox.journal().contains("evil\n") && !sandbox.path("new").exists());
        slots::git(&sandbox, &["fsck", "--no-dangling"]);
    }
    let behind_a_view = project(Agents { review: "touch new; echo no", ..GOOD }, 1, "");
    behind_a_view.run(&["slots", "--review"]);
    if behind_a_view.fields("review.violation", "outcome") == ["kept out"] {
        let noted = fs::read_to_string(&notes).unwrap_or_default();
        assert_eq!(noted.lines().count(), 4, "{noted}");
    }
}

#[test]
fn long_outputs_are_whole_on_the_disk_and_short_for_the_reviewer() {
    let agents = Agents {
        implement: "echo first; head -c 300000 /dev/zero | tr '\\0' x; echo; echo last",
        ..GOOD
    };
    let sandbox = project(agents, 1, "");
    assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(0));
    let run = sandbox.fields("slot.start", "run").remove(0);
    let whole = sandbox.read(format!(".autoloop/slots/{run}/1-1/implement.out"));
    assert_eq!(whole.len(), 300_000 + "first\n\nlast\n".len());
    let prompt = sandbox.read(format!(".autoloop/slots/{run}/1-1/review-0.prompt.md"));
    let prompt = String::from_utf8_lossy(&prompt).into_owned();
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
    assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(0));
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["drift", "pass"]);
}

#[test]
fn a_run_is_shown_and_told_as_json() {
    let sandbox = project(Agents { review: DRIFT_THEN_PASS, ..GOOD }, 2, "");
    let output = sandbox.run(&["slots", "--review", "--json"]);
    assert_eq!(output.code, Some(0));
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap_or_default();
    assert_eq!(json["taken"], 2);
    assert_eq!(json["slots"][1]["reviews"][0]["verdict"], "drift");
    assert_snapshot!(told(&sandbox, &["inspect", "slots"]), @r"
    exit 0
    --- stdout
    slots [RUN]: ended (no_items), 2 of 2 items passed
      1.1  t-1  passed  2 reviews, 1 fix  task 1
      2.1  t-2  passed  2 reviews, 1 fix  task 2
    ");
    assert_snapshot!(told(&sandbox, &["inspect", "slots", "--run", "x"]), @r"
    exit 1
    --- stderr
    autoloop: there is no run of slots 'x' in .autoloop/journal.jsonl
      hint: the latest one is '[RUN]'
    ");
}
