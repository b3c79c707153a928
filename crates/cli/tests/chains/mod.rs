//! Helpers for the tests of chains.

use autoloop_testkit::Sandbox;

/// A project with the loops `one` and `two`, whose agent is a shell script. In the script `$L` is
/// the name of the loop.
pub(crate) fn project(agent: &str, chains: &str) -> Sandbox {
    let agent = format!("case \"$1\" in *'I am one'*) L=one;; *'I am two'*) L=two;; esac\n{agent}");
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), &agent, "");
    for name in ["one", "two"] {
        let settings = "event_loop.max_iterations = 2\nreview.enabled = false\n";
        sandbox.write(format!("{name}/autoloops.toml"), settings);
        sandbox.write(format!("{name}/harness.md"), format!("I am {name}.\n"));
    }
    sandbox.write("chains.toml", chains);
    sandbox
}

/// A chain of both.
pub(crate) const BOTH: &str = "[[chain]]\nname = 'both'\nsteps = ['one', 'two']\n";

/// The id of the first chain.
pub(crate) fn chain_id(sandbox: &Sandbox) -> String {
    sandbox.fields("chain.start", "run").remove(0)
}

/// The prompts of the iterations, unescaped.
pub(crate) fn prompts(sandbox: &Sandbox) -> Vec<String> {
    let unescape = |text: String| text.replace("\\u000a", "\n").replace("\\u0022", "\"");
    sandbox.fields("iteration.start", "prompt").into_iter().map(unescape).collect()
}

/// How many records of a topic there are.
pub(crate) fn count(sandbox: &Sandbox, topic: &str) -> usize {
    sandbox.fields(topic, "topic").len()
}

/// The journal without run ids and durations.
pub(crate) fn story(sandbox: &Sandbox) -> String {
    let ids = sandbox.fields("chain.step.start", "run_id");
    let mut story = sandbox.story();
    for id in ids {
        story = story.replace(&id, "[RUN]");
    }
    without(&story, " elapsed_ms=")
}

/// The text without the word that follows each occurrence of `before`.
fn without(text: &str, before: &str) -> String {
    let mut parts = text.split(before);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        format!("{out}{before}…{rest}")
    })
}

/// An agent that runs `first` in the first turn of a run and completes in the next; steps of chains
/// run `step`.
pub(crate) fn asking(first: &str, step: &str) -> String {
    format!(
        "if [ -n \"$L\" ]; then {step}; exit; fi; case $N in 1) {first};; *) $T emit task.complete;; esac"
    )
}

/// Runs the loop of the project until it completes, with the same ids in every test: run-1 requests
/// the chain, its steps are run-2 and so on.
pub(crate) fn complete(sandbox: &Sandbox) {
    let numbered = "core.run_id_format=counter";
    let output = sandbox.run(&["run", ".", "ship", "it", "--set", numbered]);
    assert_eq!(output.code, Some(0), "{output}\n{}", sandbox.story());
}
