//! Agents that end by a signal, and whether the signal was meant for the run.

use insta::assert_snapshot;

use crate::scene::*;

/// Does `what` at its first start, and works as usual when it is started again.
fn once(what: &str) -> String {
    format!("echo again >> starts\n[ \"$(wc -l < starts)\" -gt 1 ] && exit 0\n{what}\nsleep 60\n")
}

#[test]
fn an_agent_that_has_its_supervisor_end_it_has_failed_and_does_not_begin_again() {
    let implement = once("kill -TERM $PPID");
    let sandbox = project(Agents { implement: &implement, ..GOOD }, 1, "");
    fails(&sandbox, "--iterations 1");
    assert_eq!(sandbox.read("starts"), b"again\n");
    assert_snapshot!(outcomes(&sandbox).join("\n"), @"t-1 failed: the implementer failed (exit code 125): a signal ended its supervisor");
    assert_eq!(sandbox.survivors(), "");
}

#[test]
fn a_signal_to_all_processes_of_a_run_interrupts_it() {
    let implement = once("kill -TERM $(cut -d ' ' -f 4 /proc/$PPID/stat) $$");
    let sandbox = project(Agents { implement: &implement, ..GOOD }, 1, "");
    let stopped = sandbox.run(&["slots", "--iterations", "1"]);
    assert_eq!(stopped.code, Some(143), "{stopped}");
    assert_eq!(sandbox.fields("slot.implement", "item_id"), [""; 0]);
    passes(&sandbox, "--resume");
    assert_eq!(sandbox.read("starts"), b"again\nagain\n");
}
