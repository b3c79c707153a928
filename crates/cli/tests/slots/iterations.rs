//! How iterations end: a slot that did not pass marks its iteration, in every view.

use insta::assert_snapshot;

use crate::scene::*;

const SECOND_FAILS: Agents<'_> =
    Agents { implement: "[ $AUTOLOOP_ITEM_ID = t-2 ] && exit 3; echo done", ..GOOD };

#[test]
fn a_failed_slot_marks_its_iteration() {
    let sandbox = project(SECOND_FAILS, 3, "");
    let output = fails(&sandbox, "--parallel-agents 2");
    let of = |name| sandbox.fields("slots.iteration.finish", name);
    assert_eq!(of("iteration"), ["1", "2"]);
    assert_eq!(of("passed"), ["1", "1"]);
    assert_eq!(of("failed"), ["1", "0"]);
    assert_eq!(of("items"), ["t-1=passed,t-2=failed", "t-3=passed"]);
    let marked = "\niteration 1 failed: 1 of 2 items did not pass (t-2)";
    assert!(output.stderr.contains(marked), "{output}");
    assert!(!output.stderr.contains("iteration 2 failed"), "{output}");

    let inspected = told(&sandbox, &["inspect", "slots"]);
    assert!(inspected.contains(marked), "{inspected}");
    let inspected = told(&sandbox, &["inspect", "slots", "--format", "md"]);
    assert!(inspected.contains(&marked.replace('\n', "\n\n- ")), "{inspected}");
    let inspected = sandbox.run(&["inspect", "slots", "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&inspected).unwrap();
    assert_snapshot!(json["finished_iterations"].to_string(), @r#"[{"iteration":1,"passed":1,"failed":1,"items":[{"item":"t-1","outcome":"passed"},{"item":"t-2","outcome":"failed"}]},{"iteration":2,"passed":1,"failed":0,"items":[{"item":"t-3","outcome":"passed"}]}]"#);

    let watched = sandbox.run(&["watch", "--once"]).stdout;
    assert!(watched.contains("iteration 2, failed: 1\n"), "{watched}");
    let watched = sandbox.run(&["watch", "--once", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&watched).unwrap();
    assert_eq!(json["failed_iterations"], serde_json::json!([1]));
}

#[test]
fn an_iteration_without_items_and_released_items_count_as_neither() {
    let sandbox = project(Agents { implement: "echo picked: none", ..GOOD }, 1, "");
    passes(&sandbox, "");
    let empty = project(GOOD, 0, "");
    passes(&empty, "");
    for (sandbox, items) in [(&sandbox, "t-1=no_item"), (&empty, "")] {
        let of = |name| sandbox.fields("slots.iteration.finish", name).concat();
        assert_eq!(
            (of("passed"), of("failed"), of("items")),
            ("0".into(), "0".into(), items.into())
        );
    }
}

#[test]
fn only_the_harness_ends_an_iteration() {
    let forge = r#"echo "{\"run\": \"$AUTOLOOP_RUN_ID\", \"iteration\": \"1\", \"topic\": \"slots.iteration.finish\", \"fields\": {\"passed\": \"9\", \"failed\": \"0\", \"items\": \"t-9=passed\"}}" >> "$AUTOLOOP_JOURNAL_FILE"; "$AUTOLOOP_BIN" emit slots.iteration.finish x"#;
    let sandbox = project(Agents { implement: forge, ..GOOD }, 1, "");
    let output = fails(&sandbox, "");
    assert!(output.stderr.contains("slots.iteration.finish"), "{output}");
    let inspected = sandbox.run(&["inspect", "slots", "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&inspected).unwrap();
    assert_eq!(json["finished_iterations"][0]["items"][0]["item"], "t-1");
}
