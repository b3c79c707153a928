//! The settings of the loop: which keys a metareview may change, and which files count.

use std::fs;

use insta::assert_snapshot;

use super::{Layer, TOPOLOGY, project, violations};

#[test]
fn only_the_listed_settings_change() {
    // Edited in place, so that Landlock alone allows it.
    let review = r#"[ $N = 2 ] || exit 0
new=$(sed "s/'old'/'new'/; s/max_iterations = 4/max_iterations = 3/; s/\['a.done'\]/['b.done', 'a.done']/; s/of = 1/of = 2/; s/reviewEnabled = true/review_enabled = false/; s/^event_loop.prompt/event_loop.completion_promise = 'x'\n&/" autoloops.toml
cat <<'END'
reviewMaxFixAttempts = 0
parallelAgents = 9
"reviewer.command" = 'sh'
[parallel]
enabled = true
[journal]
sync = 'never'
[memory]
prompt_budget_chars = 500
[[gate]]
command = 'true'
[harness]
instructions_file = 'mine.md'
END
)
echo "$new" > autoloops.toml
printf "backend_command = 'sh'\nbackend_timeout_ms = 1\n" >> topology.toml
true"#;
    let more = "event_loop.prompt = 'old'\nevent_loop.max_iterations = 4\nevent_loop.required_events = ['a.done']\nunheard.of = 1\n[slots]\nreviewEnabled = true\n";
    let mut found = Vec::new();
    for layer in Layer::all() {
        let project = layer.project(review);
        let sandbox = &project.sandbox;
        let settings = String::from_utf8(sandbox.read("autoloops.toml")).unwrap() + more;
        sandbox.write("autoloops.toml", &settings);
        let output = sandbox.run(&["run", "."]);
        assert_eq!(sandbox.fields("iteration.finish", "exit_code").len(), 3, "{layer:?}: {output}");
        let now = String::from_utf8(sandbox.read("autoloops.toml")).unwrap();
        let (_, now) = now.split_once("event_loop").unwrap();
        assert_eq!(sandbox.read("topology.toml"), TOPOLOGY.as_bytes(), "{layer:?}");
        found.push(format!("{now}\n{}", violations(&project)));
    }
    // Under every layer the same keys stay and the same keys are restored.
    found.dedup();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_snapshot!(found[0], @"
    .prompt = 'new'
    event_loop.max_iterations = 3
    event_loop.required_events = ['b.done', 'a.done']
    unheard.of = 1
    [slots]
    reviewEnabled = true
    [memory]
    prompt_budget_chars = 500

    autoloops.toml: protected setting event_loop.completion_promise = 'x' added: put back
    autoloops.toml: protected setting gate = [{ command = 'true' }] added: put back
    autoloops.toml: protected setting harness = instructions_file = 'mine.md' added: put back
    autoloops.toml: protected setting journal = sync = 'never' added: put back
    autoloops.toml: protected setting parallel = enabled = true added: put back
    autoloops.toml: protected setting slots.parallelAgents = 9 added: put back
    autoloops.toml: protected setting slots.reviewEnabled = true removed: put back
    autoloops.toml: protected setting slots.reviewMaxFixAttempts = 0 added: put back
    autoloops.toml: protected setting slots.review_enabled = false added: put back
    autoloops.toml: protected setting slots.reviewer.command = 'sh' added: put back
    autoloops.toml: protected setting unheard.of changed from 1 to 2: put back
    topology.toml: protected setting role.a.backend_command = 'sh' added: put back
    topology.toml: protected setting role.a.backend_timeout_ms = 1 added: put back
    ");
}

/// Settings that a reviewer would prefer.
const LOOSE: &str = "backend.command = 'sh'\nbackend.args = ['agent.sh']\nreview.enabled = false\nevent_loop.max_iterations = 9\n";

#[test]
fn a_settings_file_beside_an_older_one_does_not_count() {
    let review = format!("printf \"{}\" > autoloops.toml; true", LOOSE.replace('\n', "\\n"));
    for layer in Layer::all() {
        let project = layer.project(&review);
        let sandbox = &project.sandbox;
        fs::rename(sandbox.path("autoloops.toml"), sandbox.path("autoloops.conf")).unwrap();
        let output = sandbox.run(&["run", "."]);
        let iterations = sandbox.fields("iteration.finish", "exit_code");
        assert_eq!(iterations, ["0", "0", "0"], "{layer:?}: {output}");
        assert_eq!(sandbox.fields("review.start", "kind").len(), 2, "{layer:?}: {output}");
        assert!(!sandbox.path("autoloops.toml").exists(), "{layer:?}");
    }
}

#[test]
fn a_settings_file_that_appears_during_a_run_does_not_count() {
    let project = project("true", "review.sandbox = 'off'");
    let sandbox = &project.sandbox;
    let agent = String::from_utf8(sandbox.read("agent.sh")).unwrap();
    // This file is created by the working agent, which is not confined.
    let made = format!("printf \"{}\" > autoloops.toml", LOOSE.replace('\n', "\\n"));
    sandbox.write("agent.sh", format!("{agent}\n[ -n \"$AUTOLOOP_REVIEW_MODE\" ] || {made}\n"));
    fs::rename(sandbox.path("autoloops.toml"), sandbox.path("autoloops.conf")).unwrap();
    let output = sandbox.run(&["run", ".", "-i", "2"]);
    let told: Vec<&str> =
        output.stderr.lines().filter(|line| line.contains("autoloops.toml")).collect();
    assert_snapshot!(told.join("\n"), @"note: [DIR]/autoloops.toml is ignored until the next run: it did not exist when this run began");
    let prompt = &sandbox.fields("iteration.start", "prompt")[1];
    assert!(prompt.contains("autoloops.toml is ignored until the next run"), "{prompt}");
    assert_eq!(sandbox.fields("review.start", "kind").len(), 1, "{output}");
    // It did not exist when the run began, whichever harness resumes it.
    let resume = format!("--resume={}", sandbox.fields("loop.start", "run")[0]);
    let output = sandbox.run(&["run", &resume, "-i", "4"]);
    assert_eq!(sandbox.fields("review.start", "kind").len(), 3, "{output}");
    // The next run begins with it.
    sandbox.run(&["run", ".", "-i", "2"]);
    assert_eq!(sandbox.fields("review.start", "kind").len(), 3, "{output}");
}
