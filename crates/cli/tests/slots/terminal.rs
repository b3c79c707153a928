//! `autoloop slots` in a pseudo-terminal.

use autoloop_testkit::sandbox::until;
use autoloop_testkit::{Sandbox, Terminal};
use rustix::process::{Pid, Signal, kill_process};

use crate::scene::{Agents, DRIFT_THEN_PASS, GOOD, repository};

/// Agents that wait until the test continues them, one phase after another.
fn waiting() -> Sandbox {
    let wait = |script: &str| {
        format!(
            "echo \"I am at it\"; while ! test -e \"$AUTOLOOP_PROJECT_DIR/go-$AUTOLOOP_SLOT_PHASE\"; do sleep 0.02; done; {script}"
        )
    };
    let (implement, review, fix) = (wait(GOOD.implement), wait(DRIFT_THEN_PASS), wait(GOOD.fix));
    let agents = Agents { implement: &implement, review: &review, fix: &fix };
    repository(agents, 2, "")
}

fn open(sandbox: &Sandbox, args: &[&str]) -> Terminal {
    let mut command = sandbox.command();
    command.arg("slots").args(args);
    Terminal::start(command, (100, 24))
}

#[test]
fn one_row_a_slot_from_the_first_phase_to_the_last() {
    let sandbox = waiting();
    let mut terminal = open(&sandbox, &["--review", "--parallel-agents", "2"]);
    let screen = terminal.see("I am at it");
    assert!(terminal.is_taken());
    assert!(screen.contains("slot 1") && screen.contains("slot 2"), "{screen}");
    // The output file is shown relative to the current directory.
    assert!(screen.contains("t-1  .autoloop/slots/"), "{screen}");
    sandbox.write("go-implement", "");
    let screen = terminal.see("REVIEW");
    assert!(screen.contains("t-1"), "{screen}");
    sandbox.write("go-review", "");
    terminal.see("FIX 1/5");
    sandbox.write("go-fix", "");
    until("the end of the program", || terminal.process.0.try_wait().unwrap());
    terminal.assert_given_back();
    let screen = terminal.see("2 of 2 items passed");
    assert!(screen.contains("completed (no_items)"), "{screen}");
}

#[test]
fn leaving_the_view_is_not_the_end_of_the_work_and_ctrl_c_is() {
    let sandbox = waiting();
    let mut terminal = open(&sandbox, &["--review"]);
    terminal.see("I am at it");
    terminal.press("q");
    terminal.see("the run continues; Ctrl-C stops it");
    terminal.press("q");
    until("the view to close", || (!terminal.is_taken()).then_some(()));
    terminal.see("the run continues; `autoloop watch` shows it, Ctrl-C stops it");
    sandbox.write("go-implement", "");
    // Progress is now printed as lines.
    terminal.see("slot 1  t-1  review");
    kill_process(Pid::from_child(&terminal.process.0), Signal::INT).unwrap();
    let status = until("the end of the program", || terminal.process.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    assert_eq!(sandbox.survivors(), "");
    terminal.see("resume it with `autoloop slots --resume=");
}
