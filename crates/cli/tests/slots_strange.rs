//! Runs over a queue whose settings, prompts and items are not what anybody would write.
#![cfg(target_os = "linux")]

use autoloop_testkit::Sandbox;
use autoloop_testkit::slots::{self, Agents, GOOD, outcomes};
use insta::assert_snapshot;

fn project(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, settings))
}

#[test]
fn an_agent_that_breaks_the_settings_does_not_end_the_run() {
    let breaks = "[ $AUTOLOOP_ITEM_ID = t-1 ] && echo '[[[' >> autoloops.toml; true";
    let sandbox = project(Agents { implement: breaks, ..GOOD }, 3, "");
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(outcomes(&sandbox), ["t-1 passed: good", "t-2 passed: good", "t-3 passed: good"]);
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["pass"; 3]);
    let note = "note: the run goes on with the settings that it had, as these cannot be used: [DIR]/autoloops.toml: line 6, column 3: this is not TOML: ";
    assert!(output.stderr.contains(note), "{output}");
    // Whoever begins another run is told.
    assert_eq!(sandbox.run(&["slots"]).code, Some(2));
}

#[test]
fn settings_that_contradict_each_other_are_told_of() {
    let sandbox = project(GOOD, 1, "reviewEnabled = true\n[slots]\nreviewEnabled = false");
    let output = sandbox.run(&["slots"]);
    assert_eq!(output.code, Some(0), "{output}");
    let warning = output.stderr.split("slots ").next().unwrap_or_default();
    assert_snapshot!(sandbox.filter(warning), @r"
    warning: slots.reviewEnabled is set twice, to different values
     --> [DIR]/autoloops.toml:7:17
      |
    7 | reviewEnabled = false
      |                 ^^^^^ line 5 says otherwise; this one holds
      |
      = help: keep one of the two
    ");
    assert_eq!(outcomes(&sandbox), ["t-1 passed: not reviewed: reviews are off"]);
}
