//! Slots with unusual settings, prompts and items.
#![cfg(target_os = "linux")]

use autoloop_testkit::Sandbox;
use autoloop_testkit::slots::{self, Agents, GOOD, outcomes};
use insta::assert_snapshot;

fn project(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, settings))
}

fn breaking(how: &str) -> Sandbox {
    let implement = format!("[ $AUTOLOOP_ITEM_ID = t-1 ] && {how}; true");
    let agents = Agents { implement: &implement, ..GOOD };
    let sandbox = project(agents, 3, "slots.reviewerPromptPath = 'review.md'");
    sandbox.write("review.md", "look closely");
    sandbox
}

#[test]
fn an_agent_that_breaks_the_settings_does_not_end_the_run() {
    let sandbox = breaking("echo '[[[' >> autoloops.toml");
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["pass"; 3]);
    let note = "note: invalid settings ignored until they are corrected: ";
    let notes: Vec<&str> =
        output.stderr.lines().filter_map(|line| line.strip_prefix(note)).collect();
    assert_eq!(notes.len(), 3, "{output}");
    let why = "line 6, column 3: invalid TOML: ";
    assert!(notes.iter().all(|note| note.contains(why)), "{notes:?}");
    // A later start reports it.
    assert_eq!(sandbox.run(&["slots"]).code, Some(2));
}

#[test]
fn a_named_prompt_that_goes_away_is_reported_and_the_run_keeps_the_one_it_began_with() {
    for how in ["rm review.md", "rm -f review.md; mkdir -p review.md"] {
        let sandbox = breaking(how);
        let output = sandbox.run(&["slots", "--review"]);
        assert_eq!(output.code, Some(0), "{how}: {output}");
        let note = "this run continues with the original one";
        let notes = output.stderr.lines().filter(|line| line.contains(note));
        assert_eq!(notes.count(), 1, "{how}: {output}");
        assert!(output.stderr.contains("review.md"), "{how}: {output}");
        assert_eq!(sandbox.fields("slot.review", "verdict"), ["pass"; 3], "{how}");
    }
}

#[test]
fn contradicting_settings_are_reported() {
    let sandbox = project(GOOD, 1, "reviewEnabled = true\n[slots]\nreviewEnabled = false");
    let output = sandbox.run(&["slots"]);
    assert_eq!(output.code, Some(0), "{output}");
    let warning = output.stderr.split("slots ").next().unwrap_or_default();
    assert_snapshot!(sandbox.filter(warning), @r"
    warning: slots.reviewEnabled is set twice, to different values
     --> [DIR]/autoloops.toml:7:17
      |
    7 | reviewEnabled = false
      |                 ^^^^^ line 5 sets another value; this one is used
      |
      = help: keep one of the two
    ");
    assert_eq!(outcomes(&sandbox), ["t-1 passed: not reviewed: reviews are off"]);
}
