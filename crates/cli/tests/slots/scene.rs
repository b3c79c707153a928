//! Fixtures of these tests: a project with a queue, agents that are scripts, and a run of slots.

use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Output, Reaped, until};
use autoloop_testkit::slots;

pub(crate) use autoloop_testkit::slots::{
    Agents, DRIFT, DRIFT_THEN_PASS, GOOD, PASS, git, outcomes, story, told,
};

/// A project outside of git, with so many tasks.
pub(crate) fn project(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, settings))
}

/// The same in a git repository with one commit.
pub(crate) fn repository(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::repository(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, settings))
}

/// Runs `autoloop slots` with these flags; every item that it takes must pass.
#[track_caller]
pub(crate) fn passes(sandbox: &Sandbox, flags: &str) -> Output {
    ends(sandbox, flags, 0)
}

/// The same, and at least one item must fail.
#[track_caller]
pub(crate) fn fails(sandbox: &Sandbox, flags: &str) -> Output {
    ends(sandbox, flags, 1)
}

/// The output with these flags, without the run's id.
pub(crate) fn says(sandbox: &Sandbox, flags: &str) -> String {
    told(sandbox, &words(flags))
}

#[track_caller]
fn ends(sandbox: &Sandbox, flags: &str, code: i32) -> Output {
    let output = sandbox.run(&words(flags));
    assert_eq!(output.code, Some(code), "slots {flags}: {output}");
    output
}

fn words(flags: &str) -> Vec<&str> {
    ["slots"].into_iter().chain(flags.split_whitespace()).collect()
}

/// Starts `autoloop slots` in the background.
pub(crate) fn start(sandbox: &Sandbox, flags: &str) -> Reaped {
    let mut command = sandbox.command();
    command.args(words(flags)).stdout(Stdio::null()).stderr(Stdio::null());
    Reaped::start(command)
}

/// Starts it, waits until an agent has created a file, and kills it.
pub(crate) fn kill_at(sandbox: &Sandbox, file: &str, flags: &str) {
    let mut harness = start(sandbox, flags);
    wait_for(sandbox, file);
    kill(sandbox, &mut harness);
}

/// Kills a harness; its agents end with it.
pub(crate) fn kill(sandbox: &Sandbox, harness: &mut Reaped) {
    harness.kill();
    until("the end of the agents", || sandbox.survivors().is_empty().then_some(()));
}

pub(crate) fn wait_for(sandbox: &Sandbox, file: &str) {
    until(file, || sandbox.path(file).exists().then_some(()));
}

/// The recorded verdicts, in order.
pub(crate) fn verdicts(sandbox: &Sandbox) -> Vec<String> {
    sandbox.fields("slot.review", "verdict")
}

/// A file of the latest run, as in `1-1/review-0.prompt.md`.
pub(crate) fn file(sandbox: &Sandbox, name: &str) -> String {
    let run = sandbox.fields("slot.run.start", "run").pop().unwrap_or_default();
    let bytes = sandbox.read(format!(".autoloop/slots/{run}/{name}"));
    String::from_utf8_lossy(&bytes).into_owned()
}
