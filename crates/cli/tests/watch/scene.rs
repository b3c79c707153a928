//! Fixtures of these tests: journals of runs, and processes at work.

use std::process::Stdio;

use autoloop_testkit::sandbox::{Reaped, until};
use autoloop_testkit::slots::{self, Agents};
use autoloop_testkit::{Sandbox, shorthand};

/// A project with this agent.
pub(crate) fn with_agent(agent: &str) -> Sandbox {
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, "")
}

/// A project with this journal.
pub(crate) fn with(story: &str) -> Sandbox {
    let sandbox = with_agent("");
    sandbox.write_journal(shorthand::lines(story).join("\n") + "\n");
    sandbox
}

/// A run without a harness.
pub(crate) fn cut_off() -> Sandbox {
    with("otter loop.start max_iterations=3; objective=x")
}

/// A queue of so many tasks.
pub(crate) fn with_queue(agents: Agents<'_>, tasks: usize) -> Sandbox {
    slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, ""))
}

/// Starts a command, and waits for a record of this topic.
pub(crate) fn begin(sandbox: &Sandbox, args: &[&str], topic: &str) -> Reaped {
    let mut command = sandbox.command();
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    let work = Reaped::start(command);
    until(topic, || sandbox.journal().contains(topic).then_some(()));
    work
}

/// Starts a loop, and waits for its agent.
pub(crate) fn run(sandbox: &Sandbox) -> Reaped {
    begin(sandbox, &["run", ".", "mend the parser"], "backend.start")
}
