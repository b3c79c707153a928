//! Slots: projects whose agents are shell scripts, and their records as text.

use std::path::Path;
use std::process::Command;

use crate::Sandbox;

/// The scripts of a project's agents, by the phase that they are started for.
#[derive(Clone, Copy, Debug)]
pub struct Agents<'a> {
    /// For the implementer.
    pub implement: &'a str,
    /// For the reviewer.
    pub review: &'a str,
    /// For the fixer.
    pub fix: &'a str,
}

/// Agents that succeed.
pub const GOOD: Agents<'_> = Agents {
    implement: "echo \"$AUTOLOOP_ITEM_ID\" > \"made-$AUTOLOOP_ITEM_ID\"; echo done",
    review: PASS,
    fix: "echo fixed >> \"made-$AUTOLOOP_ITEM_ID\"; echo mended",
};

/// A reviewer that passes everything.
pub const PASS: &str = "echo '{\"verdict\": \"pass\", \"followUpPrompt\": \"good\"}'";
/// A reviewer that never passes.
pub const DRIFT: &str = "echo '{\"verdict\": \"drift\", \"followUpPrompt\": \"add a test\"}'";
/// A reviewer that passes after the first fix.
pub const DRIFT_THEN_PASS: &str = "v=pass; [ $AUTOLOOP_FIX_ATTEMPT = 0 ] && v=drift; echo \"I looked: {\\\"verdict\\\": \\\"$v\\\", \\\"followUpPrompt\\\": \\\"add a test\\\"}\"";

/// A project without a repository, with so many tasks.
///
/// # Panics
///
/// When that does not work.
pub fn project(
    binary: impl AsRef<Path>,
    agents: Agents<'_>,
    (tasks, settings): (usize, &str),
) -> Sandbox {
    let Agents { implement, review, fix } = agents;
    let agent = format!(
        "case \"$AUTOLOOP_SLOT_PHASE\" in\nimplement)\n{implement}\n;;\nreview)\n{review}\n;;\nfix)\n{fix}\n;;\nesac\n"
    );
    let sandbox = Sandbox::with_agent(binary.as_ref(), &agent, settings);
    let script = sandbox.path("agent.sh").display().to_string();
    let text = String::from_utf8_lossy(&sandbox.read("autoloops.toml")).into_owned();
    // The agent is found from any worktree.
    sandbox.write("autoloops.toml", text.replace("'agent.sh'", &format!("'{script}'")));
    for number in 1..=tasks {
        let added =
            sandbox.run(&["tasks", "add", &format!("task {number}"), "--acceptance", "it works"]);
        assert_eq!(added.code, Some(0), "{added}");
    }
    sandbox
}

/// The same in a git repository with one commit.
///
/// # Panics
///
/// When that does not work.
pub fn repository(
    binary: impl AsRef<Path>,
    agents: Agents<'_>,
    (tasks, settings): (usize, &str),
) -> Sandbox {
    let sandbox = project(binary, agents, (tasks, settings));
    sandbox.write(".gitignore", ".autoloop/\nhome/\n").write("README.md", "one\ntwo\nthree\n");
    for args in
        [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]]
    {
        git(&sandbox, args);
    }
    sandbox
}

/// Runs git in the project, and returns what it prints.
///
/// # Panics
///
/// When that does not work.
pub fn git(sandbox: &Sandbox, args: &[&str]) -> String {
    let mut command: Command = sandbox.at_home("git");
    command.args(["-c", "user.name=A", "-c", "user.email=a@b"]).args(args);
    let done = sandbox.finish(command);
    assert_eq!(done.code, Some(0), "git {args:?}: {done}");
    done.stdout.trim_end().to_owned()
}

/// The records of slots, without names of files and commits and without what differs from run to
/// run.
pub fn story(sandbox: &Sandbox) -> String {
    let story = sandbox.story();
    let slots = story.lines().filter_map(|line| {
        // Prompts are long, and the end of an iteration follows from the ends of its slots.
        if ["slots.iteration.finish", "slot.run.prompts"].iter().any(|topic| line.contains(topic)) {
            return None;
        }
        let line = line.split_once("slot.").map(|(head, rest)| {
            let iteration = head.split(' ').rfind(|word| !word.is_empty()).unwrap_or("-");
            format!("{iteration} {rest}")
        })?;
        let hidden = [
            "elapsed_ms",
            "actor",
            "base",
            "commit",
            "tree",
            "branch",
            "source",
            "stop_marker",
            "enforcement",
            "changes",
            "queue_mark",
        ];
        let shown = |word: &&str| {
            !hidden.iter().any(|name| {
                word.strip_prefix(name).is_some_and(|rest| rest.starts_with('=') && rest != "=true")
            })
        };
        Some(line.split(' ').filter(shown).collect::<Vec<_>>().join(" "))
    });
    slots.collect::<Vec<_>>().join("\n")
}

/// Runs `autoloop …` and returns its output, without the run's id.
pub fn told(sandbox: &Sandbox, args: &[&str]) -> String {
    let told = sandbox.run(args).to_string();
    let runs = sandbox.fields("slot.run.start", "run");
    runs.iter().fold(told, |told, run| told.replace(run, "[RUN]"))
}

/// How each slot ended, in order of their ends: the item, the outcome and the reason.
pub fn outcomes(sandbox: &Sandbox) -> Vec<String> {
    let of = |name| sandbox.fields("slot.finish", name);
    let rows = of("item_id").into_iter().zip(of("outcome")).zip(of("reason"));
    rows.map(|((item, outcome), reason)| format!("{item} {outcome}: {reason}")).collect()
}
