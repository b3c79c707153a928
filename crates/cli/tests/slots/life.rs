//! The rules of a slot, one by one: implement, review, fix, and every outcome.

use std::time::Duration;

use autoloop_core::duration;
use autoloop_testkit::sandbox::meet_a_limit;
use insta::assert_snapshot;

use crate::scene::*;

#[test]
fn work_that_passes_at_once() {
    let sandbox = project(GOOD, 1, "");
    assert_snapshot!(says(&sandbox, "--review --iterations 1"), @r"
    exit 0
    --- stdout
    slots [RUN]: completed (iterations), 1 of 1 item passed
    --- stderr
    slots [RUN] begin: 1 slot, with review
    note: reviewers see no diff: [DIR] is not in a git repository
    iteration 1
      slot 1  t-1  implement: task 1
      slot 1  t-1  review
      slot 1  t-1  review: pass: good
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
    passes(&sandbox, "--review --iterations 1");
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
    let flags = "--review --review-max-fix-attempts 2 --iterations 1";
    assert_snapshot!(says(&sandbox, flags), @r"
    exit 1
    --- stdout
    slots [RUN]: failed (iterations), 0 of 1 item passed
    --- stderr
    slots [RUN] begin: 1 slot, with review
    note: reviewers see no diff: [DIR] is not in a git repository
    iteration 1
      slot 1  t-1  implement: task 1
      slot 1  t-1  review
      slot 1  t-1  review: drift: add a test
      slot 1  t-1  fix 1
      slot 1  t-1  review after fix 1
      slot 1  t-1  review: drift: add a test
      slot 1  t-1  fix 2
      slot 1  t-1  review after fix 2
      slot 1  t-1  review: drift: add a test
      slot 1  t-1  drift: after 2 fixes the review still found: add a test
    iteration 1 failed: 1 of 1 item did not pass (t-1)
    autoloop: 1 of 1 item did not pass
      hint: `autoloop inspect slots --run [RUN]` shows why; failed items were returned to the queue
      hint: retry failed items with `autoloop slots --resume=[RUN] -i 2`
    ");
    assert_eq!(sandbox.fields("slot.review", "attempt"), ["0", "1", "2"]);
    assert_eq!(sandbox.fields("slot.fix", "attempt"), ["1", "2"]);
    assert_eq!(outcomes(&sandbox), ["t-1 drift: after 2 fixes the review still found: add a test"]);
    // The item is available to the next run, with the reason.
    assert_snapshot!(sandbox.run(&["tasks", "show", "t-1"]).to_string(), @r"
    exit 0
    --- stdout
    t-1  task 1

    status     ready
    priority   2
    reason     after 2 fixes the review still found: add a test

    Acceptance:
    it works
    ");
}

#[test]
fn no_fix_at_all_is_one_review() {
    let sandbox = project(Agents { review: DRIFT, ..GOOD }, 1, "slots.reviewMaxFixAttempts = 0");
    fails(&sandbox, "--review --iterations 1");
    assert_eq!(verdicts(&sandbox), ["drift"]);
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
        fails(&sandbox, "--review --iterations 1");
        assert_eq!(verdicts(&sandbox), ["violation"], "{review}");
        assert_eq!(sandbox.fields("slot.fix", "attempt"), [""; 0]);
        outcomes(&sandbox).concat()
    });
    assert_snapshot!(told.join("\n"), @r"
    t-1 violation: the reviewer's final message contains no '{': expected a JSON object with the verdict; `slots.reviewContractRepair = 1` asks the reviewer once more
    t-1 violation: the reviewer's final message is empty: expected a JSON object with the verdict; `slots.reviewContractRepair = 1` asks the reviewer once more
    t-1 violation: invalid 'verdict' 'approve': expected 'pass' or 'drift'; `slots.reviewContractRepair = 1` asks the reviewer once more
    t-1 violation: the first JSON object has no 'followUpPrompt'; it begins with 'verdict'; `slots.reviewContractRepair = 1` asks the reviewer once more
    t-1 violation: invalid 'followUpPrompt': expected a string, found a number; `slots.reviewContractRepair = 1` asks the reviewer once more
    t-1 violation: the first '{' (at line 1, column 4) does not begin a JSON object: key must be a string at line 1, column 5; the text there: as {x} shows: {\u0022verdict\u0022: \u0022pass\u0022, \u0022followUpPrompt\u0022: \u0022x\u0022}; `slots.reviewContractRepair = 1` asks the reviewer once more
    t-1 violation: the JSON object at line 1, column 1 is incomplete: the message ends before its last '}'; `slots.reviewContractRepair = 1` asks the reviewer once more
    ");
}

#[test]
fn a_reviewer_that_fails_is_not_listened_to() {
    let review = format!("{PASS}; exit 1");
    let sandbox = project(Agents { review: &review, ..GOOD }, 1, "");
    fails(&sandbox, "--review --iterations 1");
    assert_snapshot!(story(&sandbox), @r"
    - run.start iterations=1 parallel_agents=1 review=true max_fix_attempts=5 isolation=shared
    1 start slot=1 item_id=t-1 title=task 1
    1 phase slot=1 item_id=t-1 phase=implement attempt=0
    1 implement slot=1 item_id=t-1 exit_code=0 timed_out=false picked='' output=done\u000a
    1 phase slot=1 item_id=t-1 phase=review attempt=0
    1 review slot=1 item_id=t-1 attempt=0 verdict=failed follow_up_prompt='' reason=the reviewer failed (exit code 1) exit_code=1 output={\u0022verdict\u0022: \u0022pass\u0022, \u0022followUpPrompt\u0022: \u0022good\u0022}\u000a
    1 finish slot=1 item_id=t-1 outcome=failed reason=the reviewer failed (exit code 1)
    - run.finish reason=iterations taken=1 passed=0
    ");
}

#[test]
fn a_fixer_that_fails_ends_the_slot() {
    let sandbox = project(Agents { review: DRIFT, fix: "exit 1", ..GOOD }, 1, "");
    fails(&sandbox, "--review --iterations 1");
    assert_eq!(sandbox.fields("slot.review", "attempt"), ["0"]);
    assert_eq!(outcomes(&sandbox), ["t-1 failed: the fixer failed (exit code 1)"]);
}

#[test]
fn an_implementer_that_fails_is_not_reviewed() {
    let sandbox = project(Agents { implement: "echo no; exit 1", ..GOOD }, 1, "");
    fails(&sandbox, "--review --iterations 1");
    assert_snapshot!(story(&sandbox), @r"
    - run.start iterations=1 parallel_agents=1 review=true max_fix_attempts=5 isolation=shared
    1 start slot=1 item_id=t-1 title=task 1
    1 phase slot=1 item_id=t-1 phase=implement attempt=0
    1 implement slot=1 item_id=t-1 exit_code=1 timed_out=false picked='' reason=no output=no\u000a
    1 finish slot=1 item_id=t-1 outcome=failed reason=the implementer failed (exit code 1): no
    - run.finish reason=iterations taken=1 passed=0
    ");
}

#[test]
fn nothing_to_take() {
    let sandbox = project(GOOD, 0, "");
    assert_snapshot!(says(&sandbox, "--review"), @r"
    exit 0
    --- stdout
    slots [RUN]: completed (no_items), no item was taken
    --- stderr
    slots [RUN] begin: 1 slot, with review
    note: reviewers see no diff: [DIR] is not in a git repository
    iteration 1
      slot 1  -  no_item: no item is available
    note: `autoloop tasks list` shows the queue, and `autoloop tasks add` adds to it
    ");
    assert_snapshot!(story(&sandbox), @r"
    - run.start iterations=0 parallel_agents=1 review=true max_fix_attempts=5 isolation=shared
    1 start slot=1 item_id='' title=''
    1 finish slot=1 item_id='' outcome=no_item reason=no item is available
    - run.finish reason=no_items taken=0 passed=0
    ");
    let several = project(GOOD, 1, "");
    passes(&several, "--parallel-agents 3");
    let mut outcomes = several.fields("slot.finish", "outcome");
    outcomes.sort();
    assert_eq!(outcomes, ["no_item", "no_item", "passed"]);
}

#[test]
fn an_agent_that_took_nothing_is_not_reviewed() {
    let sandbox = project(Agents { implement: "echo picked: none", ..GOOD }, 1, "");
    passes(&sandbox, "--review --iterations 1");
    assert_eq!(verdicts(&sandbox), [""; 0]);
    assert_eq!(outcomes(&sandbox), ["t-1 no_item: the agent did not take the item"]);
    assert!(sandbox.run(&["tasks", "ready"]).stdout.contains("t-1"));
}

#[test]
fn the_reported_item_is_recorded_and_the_claim_decides() {
    let sandbox = project(Agents { implement: "echo Picked: t-2", ..GOOD }, 2, "");
    let output = passes(&sandbox, "--review --iterations 1");
    assert!(
        output
            .stderr
            .contains("note: slot 1 was assigned t-1, but its agent reports working on t-2")
    );
    assert_eq!(sandbox.fields("slot.implement", "picked"), ["t-2"]);
    assert_eq!(outcomes(&sandbox), ["t-1 passed: good"]);
    assert!(sandbox.run(&["tasks", "ready"]).stdout.contains("t-2"));
}

#[test]
fn without_a_reviewer_prompt_nothing_is_reviewed_and_a_line_says_so() {
    let sandbox = project(GOOD, 1, "");
    let output = passes(&sandbox, "--review --reviewer-prompt= --iterations 1");
    assert!(output.stderr.contains("note: there is no reviewer prompt, so nothing is reviewed\n"));
    assert_eq!(verdicts(&sandbox), [""; 0]);
    assert_eq!(outcomes(&sandbox), ["t-1 passed: not reviewed: there is no reviewer prompt"]);
}

#[test]
fn without_review_work_passes_when_the_implementer_does() {
    let sandbox = project(GOOD, 1, "slots.reviewEnabled = true");
    passes(&sandbox, "--no-review");
    assert_eq!(outcomes(&sandbox), ["t-1 passed: not reviewed: reviews are off"]);
    for spelled in ["slots.reviewEnabled", "reviewEnabled", "slots.review_enabled"] {
        let on = project(GOOD, 1, &format!("{spelled} = true"));
        passes(&on, "");
        assert_eq!(verdicts(&on), ["pass"], "{spelled}");
    }
}

#[test]
fn a_stop_marker_of_an_implementer_or_a_fixer_ends_the_run_after_running_slots() {
    let implement = format!("{}; echo 'so: no_beads_available.'", GOOD.implement);
    for agents in [
        Agents { implement: &implement, ..GOOD },
        Agents { review: DRIFT_THEN_PASS, fix: "echo no_beads_available", ..GOOD },
    ] {
        let sandbox = repository(agents, 3, "");
        passes(&sandbox, "--review");
        assert_eq!(outcomes(&sandbox).len(), 1);
        assert_eq!(sandbox.fields("slot.finish", "outcome"), ["passed"]);
        assert_eq!(sandbox.fields("slot.run.finish", "reason"), ["stop_marker"]);
    }
}

#[test]
fn a_reviewer_that_quotes_the_stop_marker_ends_nothing() {
    let review = format!("echo no_beads_available; {PASS}");
    let sandbox = project(Agents { review: &review, ..GOOD }, 3, "");
    passes(&sandbox, "--review");
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
    passes(&sandbox, "--stop-marker ENOUGH");
    assert_eq!(sandbox.fields("slot.finish", "item_id"), ["t-1", "t-2"]);
}

#[test]
fn an_item_that_failed_is_taken_again_only_where_iterations_are_counted() {
    let agents = Agents {
        implement: "[ $AUTOLOOP_ITEM_ID = t-1 ] && [ $AUTOLOOP_ITERATION -lt 3 ] && exit 1; true",
        ..GOOD
    };
    let endless = project(agents, 2, "");
    fails(&endless, "");
    assert_eq!(endless.fields("slot.finish", "item_id"), ["t-1", "t-2"]);
    assert_eq!(endless.fields("slot.run.finish", "reason"), ["no_items"]);
    let counted = project(agents, 2, "");
    passes(&counted, "--iterations 4");
    assert_eq!(counted.fields("slot.finish", "item_id"), ["t-1", "t-1", "t-1", "t-2"]);
    assert_eq!(counted.fields("slot.run.finish", "passed"), ["2"]);
}

#[test]
fn a_hint_can_be_followed_from_where_the_run_was_begun() {
    let sandbox = project(Agents { implement: "exit 3", ..GOOD }, 1, "");
    let dir = sandbox.path("").display().to_string();
    let said = says(&sandbox, &dir);
    let hint = "hint: `autoloop inspect slots --run [RUN]` shows why";
    assert!(said.contains(hint), "{said}");
}

#[test]
fn every_agent_has_a_deadline() {
    let hang = "sleep 681";
    for (agents, who) in [
        (Agents { implement: hang, ..GOOD }, "the implementer"),
        (Agents { review: hang, ..GOOD }, "the reviewer"),
        (Agents { review: DRIFT, fix: hang, ..GOOD }, "the fixer"),
    ] {
        meet_a_limit(|limit| {
            let sandbox = project(agents, 1, &format!("backend.timeout_ms = {limit}"));
            fails(&sandbox, "--review --iterations 1");
            assert_eq!(sandbox.survivors(), "");
            let outcomes = outcomes(&sandbox);
            let time = duration::print(Duration::from_millis(limit));
            let late = format!(" timed out after {time} (backend.timeout_ms)");
            assert!(outcomes.concat().ends_with(&late), "{outcomes:?}");
            // The agents before it had enough time.
            (outcomes == [format!("t-1 failed: {who}{late}")]).then_some(())
        });
    }
    let sandbox = project(
        Agents { review: hang, ..GOOD },
        1,
        "slots.reviewer.timeout_ms = 300\nslots.reviewer.grace_ms = 100",
    );
    fails(&sandbox, "--review");
    let late = "t-1 failed: the reviewer timed out after 300ms (slots.reviewer.timeout_ms)";
    assert_eq!(outcomes(&sandbox), [late]);
}

#[test]
fn why_an_agent_of_a_slot_failed_is_in_every_record_and_view() {
    let fails_with = |why: &str| format!("echo 'working'; echo '{why}' >&2; echo >&2; exit 6");
    let [made, judged, mended] = ["no model", "no key", "no room"].map(fails_with);
    for (agents, topic, told) in [
        (
            Agents { implement: &made, ..GOOD },
            "slot.implement",
            "the implementer failed (exit code 6): no model",
        ),
        (
            Agents { review: &judged, ..GOOD },
            "slot.review",
            "the reviewer failed (exit code 6): no key",
        ),
        (
            Agents { review: DRIFT, fix: &mended, ..GOOD },
            "slot.fix",
            "the fixer failed (exit code 6): no room",
        ),
    ] {
        let sandbox = project(agents, 1, "");
        let output = fails(&sandbox, "--review --iterations 1");
        assert!(output.stderr.contains(told), "{output}");
        let reason = sandbox.fields(topic, "reason").remove(0);
        assert!(told.ends_with(&reason) && !reason.is_empty(), "{topic}: {reason}");
        assert_eq!(sandbox.fields("slot.finish", "reason"), [told]);
        for view in [
            &["inspect", "slots"][..],
            &["inspect", "slots", "--format", "json"],
            &["watch", "--once"],
            &["watch", "--once", "--json"],
        ] {
            let shown = sandbox.run(view);
            assert!(shown.stdout.contains(told), "{view:?}: {shown}");
        }
    }
}

#[test]
fn an_agent_that_is_no_part_of_the_repository_works_in_any_tree() {
    let sandbox = repository(GOOD, 2, "");
    git(&sandbox, &["rm", "-q", "--cached", "agent.sh"]);
    git(&sandbox, &["commit", "-q", "-m", "not the agent"]);
    sandbox.write("autoloops.toml", "backend = { command = 'sh', args = ['agent.sh'] }\n");
    passes(&sandbox, "--review --parallel-agents 2");
    assert_eq!(sandbox.fields("slot.merge", "outcome"), ["merged"; 2]);
}

#[test]
fn agents_get_their_slot_and_item_in_variables() {
    let env = "env -u AUTOLOOP_PROMPT env | grep -E '^AUTOLOOP_(SLOT|SLOT_PHASE|ITEM_ID|FIX_ATTEMPT|ITERATION)=' | sort | tr '\\n' ' '; pwd";
    let review = format!("{env}; {DRIFT_THEN_PASS}");
    let sandbox = project(Agents { implement: env, review: &review, fix: env }, 1, "");
    passes(&sandbox, "--review");
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
fn a_run_is_shown_as_text_and_as_json() {
    let sandbox = project(Agents { review: DRIFT_THEN_PASS, ..GOOD }, 2, "");
    let output = passes(&sandbox, "--review --json");
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap_or_default();
    assert_eq!(json["taken"], 2);
    assert_eq!(json["slots"][1]["reviews"][0]["verdict"], "drift");
    assert_snapshot!(told(&sandbox, &["inspect", "slots"]), @r"
    exit 0
    --- stdout
    slots [RUN]: completed (no_items), 2 of 2 items passed
      1.1  t-1  passed  2 reviews, 1 fix  task 1
      2.1  t-2  passed  2 reviews, 1 fix  task 2
    ");
    assert_snapshot!(told(&sandbox, &["inspect", "slots", "--run", "x"]), @r"
    exit 1
    --- stderr
    autoloop: no run 'x' in .autoloop/journal.jsonl
      hint: list all runs with `autoloop loops --all`
    ");
}
