//! What the tests of chains have in common.

use autoloop_testkit::Sandbox;

/// A project with the loops `one` and `two`, whose agent is a shell script. In it `$L`
/// says which of the loops is run.
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

/// What was asked of the agent in the iterations, unescaped.
pub(crate) fn prompts(sandbox: &Sandbox) -> Vec<String> {
    let unescape = |text: String| text.replace("\\u000a", "\n").replace("\\u0022", "\"");
    sandbox.fields("iteration.start", "prompt").into_iter().map(unescape).collect()
}

/// How many records of a topic there are.
pub(crate) fn count(sandbox: &Sandbox, topic: &str) -> usize {
    sandbox.fields(topic, "topic").len()
}

/// The journal without what tells runs and durations apart.
pub(crate) fn story(sandbox: &Sandbox) -> String {
    let ids = sandbox.fields("chain.step.start", "run_id");
    let mut story = sandbox.story();
    for id in ids {
        story = story.replace(&id, "[RUN]");
    }
    without(&story, " elapsed_ms=")
}

/// A text without the word behind each of these.
fn without(text: &str, before: &str) -> String {
    let mut parts = text.split(before);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        format!("{out}{before}…{rest}")
    })
}

/// An agent of a run that does this in its first turn and is done in the next; the steps of chains do
/// that.
pub(crate) fn asking(first: &str, step: &str) -> String {
    format!(
        "if [ -n \"$L\" ]; then {step}; exit; fi; case $N in 1) {first};; *) $T emit task.complete;; esac"
    )
}

/// Runs the loop of the project to its goal, with ids that are the same in every test: run-1 asks, its
/// steps are run-2 and so on.
pub(crate) fn complete(sandbox: &Sandbox) {
    let numbered = "core.run_id_format=counter";
    let output = sandbox.run(&["run", ".", "ship", "it", "--set", numbered]);
    assert_eq!(output.code, Some(0), "{output}\n{}", sandbox.story());
}
