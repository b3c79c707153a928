//! What these tests are made of: journals that tell a story, and work under way.

use std::process::Stdio;

use autoloop_testkit::sandbox::{Reaped, until};
use autoloop_testkit::slots::{self, Agents};
use autoloop_testkit::{Sandbox, told};

/// A project with this agent.
pub(crate) fn with_agent(agent: &str) -> Sandbox {
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, "")
}

/// A project whose journal tells this.
pub(crate) fn with(story: &str) -> Sandbox {
    let sandbox = with_agent("");
    sandbox.write_journal(told::lines(story).join("\n") + "\n");
    sandbox
}

/// A run that nobody drives any more.
pub(crate) fn cut_off() -> Sandbox {
    with("otter loop.start max_iterations=3; objective=x")
}

/// A queue of so many tasks.
pub(crate) fn with_queue(agents: Agents<'_>, tasks: usize) -> Sandbox {
    slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, ""))
}

/// Begins some work, and waits for a record of this topic.
pub(crate) fn begin(sandbox: &Sandbox, args: &[&str], topic: &str) -> Reaped {
    let mut command = sandbox.command();
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    let work = Reaped::start(command);
    until(topic, || sandbox.journal().contains(topic).then_some(()));
    work
}

/// Begins a loop, and waits for its agent.
pub(crate) fn run(sandbox: &Sandbox) -> Reaped {
    begin(sandbox, &["run", ".", "mend the parser"], "backend.start")
}
