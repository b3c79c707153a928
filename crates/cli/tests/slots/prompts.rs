//! What the person tells the agents of slots, where items come from, and what cannot be meant.
#![cfg(target_os = "linux")]

use autoloop_testkit::Sandbox;
use autoloop_testkit::slots::{self, Agents, DRIFT, GOOD, git, outcomes, told};
use insta::assert_snapshot;

fn project(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, settings))
}

fn repository(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::repository(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, settings))
}

/// The prompt of an agent, found by its file.
fn prompt(sandbox: &Sandbox, file: &str) -> String {
    let run = sandbox.fields("slot.run.start", "run").pop().unwrap_or_default();
    let text = sandbox.read(format!(".autoloop/slots/{run}/{file}.prompt.md"));
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn prompts_are_taken_from_the_first_place_that_has_one() {
    let sandbox = repository(GOOD, 4, "");
    let took = |args: &[&str]| {
        let output = sandbox.run(&[&["slots", "--review", "--iterations", "1"], args].concat());
        assert_eq!(output.code, Some(0), "{output}");
        let first = |file| prompt(&sandbox, file).lines().next().unwrap_or_default().to_owned();
        format!("{} / {}", first("1-1/implement"), first("1-1/review-0"))
    };
    assert!(took(&[]).starts_with("You are a developer. You have one item"));
    sandbox.write("home/autoloop/prompts/developer.md", "mine everywhere\n");
    sandbox.write("home/autoloop/prompts/reviewer.md", "mine everywhere\n");
    assert_eq!(took(&[]), "mine everywhere / mine everywhere");
    sandbox.write(".ai_agents/prompt.md", "of the project\n");
    sandbox.write(".ai_agents/prompts/reviewer.md", "reviews of the project\n");
    assert_eq!(took(&[]), "of the project / reviews of the project");
    sandbox.write("d.md", "by flag\n");
    assert_eq!(took(&["--developer-prompt", "d.md"]), "by flag / reviews of the project");
}

#[test]
fn a_path_that_is_named_has_to_be_there() {
    let sandbox = project(GOOD, 1, "");
    assert_snapshot!(told(&sandbox, &["slots", "--review", "--reviewer-prompt", "no.md"]), @r"
    exit 2
    --- stderr
    autoloop: --reviewer-prompt names no.md, and there is no such file
      hint: `autoloop slots prompts --write` puts prompts into the project to begin with
    ");
    assert_snapshot!(told(&sandbox, &["slots", "--developer-prompt", "no.md"]), @r"
    exit 2
    --- stderr
    autoloop: --developer-prompt names no.md, and there is no such file
      hint: `autoloop slots prompts --write` puts prompts into the project to begin with
    ");
    let named = project(GOOD, 1, "slots.reviewerPromptPath = 'no.md'");
    assert_snapshot!(told(&named, &["slots", "--review"]), @r"
    exit 2
    --- stderr
    error: slots.reviewerPromptPath names [DIR]/no.md, and there is no such file
     --> [DIR]/autoloops.toml:5:28
      |
    5 | slots.reviewerPromptPath = 'no.md'
      |                            ^^^^^^^

    autoloop: the settings cannot be used because of this error
    ");
    for sandbox in [&sandbox, &named] {
        assert_eq!(sandbox.fields("slot.run.start", "run"), [""; 0]);
        assert!(
            !sandbox.path(".autoloop/slots").read_dir().is_ok_and(|mut dir| dir.next().is_some())
        );
    }
}

#[test]
fn prompts_are_read_again_at_every_iteration() {
    let agents = Agents { implement: "echo \"after $AUTOLOOP_ITEM_ID\" > d.md", ..GOOD };
    let sandbox = project(agents, 3, "");
    sandbox.write("d.md", "at first\n");
    assert_eq!(sandbox.run(&["slots", "--developer-prompt", "d.md"]).code, Some(0));
    let first = |file| prompt(&sandbox, file).lines().next().unwrap_or_default().to_owned();
    let prompts = ["1-1/implement", "2-1/implement", "3-1/implement"].map(first);
    assert_eq!(prompts, ["at first", "after t-1", "after t-2"]);
    // One that goes away is no silent change either: the run says so, and can go on.
    let sandbox =
        project(Agents { implement: "[ $AUTOLOOP_ITEM_ID = t-2 ] || rm d.md", ..GOOD }, 2, "");
    sandbox.write("d.md", "at first\n");
    let output = sandbox.run(&["slots", "--developer-prompt", "d.md"]);
    assert_eq!(output.code, Some(2), "{output}");
    sandbox.write("d.md", "again\n");
    assert_eq!(sandbox.run(&["slots", "--resume"]).code, Some(0));
    assert_eq!(sandbox.fields("slot.finish", "outcome"), ["passed"; 2]);
}

#[test]
fn the_built_in_prompts_can_be_put_into_the_project() {
    let sandbox = project(GOOD, 1, "");
    sandbox.write(".ai_agents/prompts/reviewer.md", "mine\n");
    assert_snapshot!(told(&sandbox, &["slots", "prompts", "--write"]), @r"
    exit 0
    --- stdout
    wrote .ai_agents/prompts/developer.md
    kept .ai_agents/prompts/reviewer.md
    ");
    let shown = sandbox.run(&["slots", "prompts"]).stdout;
    assert!(
        shown.starts_with(
            "# developer ([DIR]/.ai_agents/prompts/developer.md)\n\nYou are a developer."
        ),
        "{shown}"
    );
    assert!(
        shown.ends_with("# reviewer ([DIR]/.ai_agents/prompts/reviewer.md)\n\nmine\n"),
        "{shown}"
    );
    let none = project(GOOD, 1, "slots.reviewerPromptPath = ''");
    assert!(
        none.run(&["slots", "prompts"])
            .stdout
            .ends_with("# reviewer (none: nothing is reviewed)\n")
    );
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let sandbox = project(GOOD, 1, "");
    for args in [
        &["--parallel-agents", "0"][..],
        &["--parallel-agents", "many"],
        &["--iterations", "-1"],
        &["--review-max-fix-attempts", "x"],
        &["--source", "jira"],
        &["--isolation", "container"],
        &["--set", "slots.parallelAgents=0"],
        &["--provider", ""],
        &["nowhere"],
        &["--odd"],
    ] {
        let output = sandbox.run(&[&["slots"], args].concat());
        assert_eq!(output.code, Some(2), "{args:?}: {output}");
    }
    assert_eq!(sandbox.fields("slot.run.start", "run"), [""; 0]);
    let odd = project(GOOD, 1, "slots.reviewEnabled = 'sometimes'");
    assert_snapshot!(told(&odd, &["slots"]), @r#"
    exit 2
    --- stderr
    error: slots.reviewEnabled is "sometimes"
     --> [DIR]/autoloops.toml:5:23
      |
    5 | slots.reviewEnabled = 'sometimes'
      |                       ^^^^^^^^^^^ accepted is true or false

    autoloop: the settings cannot be used because of this error
    "#);
    let unknown = project(GOOD, 1, "slots.reviewEnable = true\nslots.reviewer.comand = 'x'");
    let output = unknown.run(&["slots"]);
    assert_eq!(output.code, Some(0));
    assert!(output.stderr.contains("did you mean slots.reviewEnabled?"), "{output}");
    assert!(output.stderr.contains("did you mean slots.reviewer.command?"), "{output}");
}

#[test]
fn an_agent_that_is_not_there_fails_its_slot() {
    let sandbox = project(GOOD, 1, "");
    let output = sandbox.run(&["slots", "--provider", "no-such-agent"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(outcomes(&sandbox), ["t-1 failed: the implementer exited with 127"]);
    assert!(output.stderr.contains("no-such-agent"), "{output}");
}

#[test]
fn items_can_come_from_beads() {
    let sandbox =
        repository(GOOD, 0, "slots.source = 'beads'\nslots.beads.command = 'python3 bd.py'");
    sandbox.write("bd.py", include_str!("beads/stand_in.py"));
    let issues = serde_json::json!([
        {"id": "bd-a1", "title": "parse", "status": "open", "priority": 1, "issue_type": "task",
         "description": "Parse it.", "acceptance_criteria": "It parses."},
        {"id": "bd-b2", "title": "test", "status": "open", "priority": 0, "issue_type": "task",
         "dependencies": [{"issue_id": "bd-b2", "depends_on_id": "bd-a1", "type": "blocks"}]},
        {"id": "bd-c3", "title": "docs", "status": "open", "priority": 3, "issue_type": "chore"},
    ]);
    sandbox.write("beads.json", issues.to_string());
    sandbox.write(".gitignore", ".autoloop/\nhome/\nbeads.json*\nbd.py\ncalls\n");
    git(&sandbox, &["add", "-A"]);
    git(&sandbox, &["commit", "-q", "-m", "beads"]);
    let mut command = sandbox.command();
    command.args(["slots", "--review", "--parallel-agents", "2"]);
    // What agents of others set, and the tracker is not to know.
    for name in ["BD_AGENT_MODE", "CLAUDE_CODE", "BR_OUTPUT_FORMAT", "TOON_DEFAULT_FORMAT"] {
        command.env(name, "1");
    }
    let output = sandbox.finish(command);
    assert_eq!(output.code, Some(0), "{output}");
    let mut passed = outcomes(&sandbox);
    passed.sort();
    assert_eq!(passed, ["bd-a1 passed: good", "bd-b2 passed: good", "bd-c3 passed: good"]);
    assert!(prompt(&sandbox, "1-1/implement").contains("### Description\n\nParse it.\n"));
    let after: serde_json::Value =
        serde_json::from_slice(&sandbox.read("beads.json")).unwrap_or_default();
    let statuses: Vec<_> =
        after.as_array().into_iter().flatten().map(|issue| &issue["status"]).collect();
    assert_eq!(statuses, ["closed"; 3]);
}

#[test]
fn what_an_agent_closed_itself_is_open_again_when_it_did_not_pass() {
    let implement = "cd \"$AUTOLOOP_PROJECT_DIR\"; BD_JSON_ENVELOPE=1 RUST_LOG=error python3 bd.py close $AUTOLOOP_ITEM_ID --json --reason mine";
    let agents = Agents { implement, review: DRIFT, ..GOOD };
    let settings = "slots.source = 'beads'\nslots.beads.command = 'python3 bd.py'";
    let sandbox = project(agents, 0, settings);
    sandbox.write("bd.py", include_str!("beads/stand_in.py"));
    let issues = serde_json::json!([
        {"id": "bd-a1", "title": "parse", "status": "open", "priority": 1},
        {"id": "bd-b2", "title": "test", "status": "open", "priority": 2},
    ]);
    sandbox.write("beads.json", issues.to_string());
    let output = sandbox.run(&["slots", "--review", "--review-max-fix-attempts", "0"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["drift"; 2]);
    let after: Vec<serde_json::Value> =
        serde_json::from_slice(&sandbox.read("beads.json")).unwrap_or_default();
    assert_eq!(after.len(), 2);
    for issue in after {
        assert_eq!(issue["status"], "open", "{issue}");
        // Said once, however often a run without a limit passes it over.
        let comments: Vec<_> = issue["comments"].as_array().into_iter().flatten().collect();
        assert_eq!(comments.len(), 1, "{issue}");
        let why = "given back: there are no fixes, and the review found: add a test";
        assert_eq!(comments[0]["text"], why);
    }
}

#[test]
fn a_tracker_that_is_not_there_is_told() {
    let missing = project(GOOD, 0, "");
    assert_snapshot!(told(&missing, &["slots", "--source", "beads", "--set", "slots.beads.command=no-bd"]), @r"
    exit 1
    --- stderr
    slots [RUN] begin: 1 slot, without review
    autoloop: cannot ask the issue tracker: cannot start 'no-bd': not found in PATH
      hint: install it, or name its command in slots.beads.command
      hint: `autoloop slots --resume` goes on with the run
    ");
}
