//! Items that are added during a run.

use crate::scene::*;

/// An implementer that adds a task in every turn.
const BREEDS: Agents<'_> = Agents {
    implement: "AUTOLOOP_PROJECT_DIR= \"$AUTOLOOP_BIN\" tasks add \"after $AUTOLOOP_ITEM_ID\" --priority 0 >> added; echo done",
    ..GOOD
};

#[test]
fn tasks_added_during_a_run_belong_to_the_next_one() {
    // The limit ends a run that takes all items.
    let sandbox = project(BREEDS, 2, "slots.max_items = 5");
    let output = passes(&sandbox, "");
    assert_eq!(sandbox.fields("slot.start", "item_id"), ["t-1", "t-2"]);
    let note = "note: added during this run and left for the next one: t-3, t-4; `slots.include_new = true` takes such items at once\n";
    assert!(output.stderr.contains(note), "{output}");
    passes(&sandbox, "");
    assert_eq!(sandbox.fields("slot.start", "item_id")[2..], ["t-3", "t-4"]);
}

#[test]
fn a_resumed_run_knows_items_added_during_the_run() {
    let implement = format!("{}; [ -e there ] || {{ touch there; sleep 611; }}", BREEDS.implement);
    let sandbox = project(Agents { implement: &implement, ..GOOD }, 2, "slots.max_items = 5");
    kill_at(&sandbox, "there", "");
    passes(&sandbox, "--resume");
    assert_eq!(sandbox.fields("slot.start", "item_id"), ["t-1", "t-2"]);
}

#[test]
fn new_items_can_be_included_and_a_limit_bounds_them() {
    let bounded = project(BREEDS, 1, "slots.include_new = true\nslots.max_items = 3");
    passes(&bounded, "");
    assert_eq!(bounded.fields("slot.start", "item_id"), ["t-1", "t-2", "t-3"]);
    assert_eq!(bounded.fields("slot.run.finish", "reason"), ["max_items"]);
    // With more slots than items left.
    let bounded = project(GOOD, 7, "slots.max_items = 3");
    passes(&bounded, "--parallel-agents 2");
    assert_eq!(bounded.fields("slot.finish", "item_id").len(), 3);
}

#[test]
fn an_agent_cannot_lift_the_limit() {
    let implement =
        format!("{}; echo 'slots.include_new = true' >> autoloops.toml", BREEDS.implement);
    let sandbox = project(Agents { implement: &implement, ..GOOD }, 1, "");
    passes(&sandbox, "");
    assert_eq!(sandbox.fields("slot.start", "item_id"), ["t-1"]);
}
