//! What the person tells the agents of slots, and what cannot be meant.

use autoloop_testkit::Sandbox;
use insta::assert_snapshot;

use crate::scene::*;

/// The first line of what an agent was told.
fn first_line(sandbox: &Sandbox, agent: &str) -> String {
    let prompt = file(sandbox, &format!("{agent}.prompt.md"));
    prompt.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn prompts_are_taken_from_the_first_place_that_has_one() {
    let sandbox = repository(GOOD, 4, "");
    let took = |flags: &str| {
        passes(&sandbox, &format!("--review --iterations 1 {flags}"));
        ["1-1/implement", "1-1/review-0"].map(|agent| first_line(&sandbox, agent)).join(" / ")
    };
    assert!(took("").starts_with("You are a developer. You have one item"));
    sandbox.write("home/autoloop/prompts/developer.md", "mine everywhere\n");
    sandbox.write("home/autoloop/prompts/reviewer.md", "mine everywhere\n");
    assert_eq!(took(""), "mine everywhere / mine everywhere");
    sandbox.write(".ai_agents/prompt.md", "of the project\n");
    sandbox.write(".ai_agents/prompts/reviewer.md", "reviews of the project\n");
    assert_eq!(took(""), "of the project / reviews of the project");
    sandbox.write("d.md", "by flag\n");
    assert_eq!(took("--developer-prompt d.md"), "by flag / reviews of the project");
}

#[test]
fn a_path_that_is_named_has_to_be_there() {
    let sandbox = project(GOOD, 1, "");
    assert_snapshot!(says(&sandbox, "--review --reviewer-prompt no.md"), @r"
    exit 2
    --- stderr
    autoloop: --reviewer-prompt names no.md, and there is no such file
      hint: `autoloop slots prompts --write` puts prompts into the project to begin with
    ");
    assert_snapshot!(says(&sandbox, "--developer-prompt no.md"), @r"
    exit 2
    --- stderr
    autoloop: --developer-prompt names no.md, and there is no such file
      hint: `autoloop slots prompts --write` puts prompts into the project to begin with
    ");
    let named = project(GOOD, 1, "slots.reviewerPromptPath = 'no.md'");
    assert_snapshot!(says(&named, "--review"), @r"
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
    passes(&sandbox, "--developer-prompt d.md");
    let prompts =
        ["1-1", "2-1", "3-1"].map(|slot| first_line(&sandbox, &format!("{slot}/implement")));
    assert_eq!(prompts, ["at first", "after t-1", "after t-2"]);
    // One that goes away is no silent change either: the run says so, and can go on.
    let sandbox =
        project(Agents { implement: "[ $AUTOLOOP_ITEM_ID = t-2 ] || rm d.md", ..GOOD }, 2, "");
    sandbox.write("d.md", "at first\n");
    let output = sandbox.run(&["slots", "--developer-prompt", "d.md"]);
    assert_eq!(output.code, Some(2), "{output}");
    sandbox.write("d.md", "again\n");
    passes(&sandbox, "--resume");
    assert_eq!(sandbox.fields("slot.finish", "outcome"), ["passed"; 2]);
}

#[test]
fn the_built_in_prompts_can_be_put_into_the_project() {
    let sandbox = project(GOOD, 1, "");
    sandbox.write(".ai_agents/prompts/reviewer.md", "mine\n");
    assert_snapshot!(says(&sandbox, "prompts --write"), @r"
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
    for flags in [
        "--parallel-agents 0",
        "--parallel-agents many",
        "--iterations -1",
        "--review-max-fix-attempts x",
        "--source jira",
        "--isolation container",
        "--set slots.parallelAgents=0",
        "--provider=",
        "nowhere",
        "--odd",
    ] {
        let said = says(&sandbox, flags);
        assert!(said.starts_with("exit 2\n"), "{flags}: {said}");
    }
    assert_eq!(sandbox.fields("slot.run.start", "run"), [""; 0]);
    let odd = project(GOOD, 1, "slots.reviewEnabled = 'sometimes'");
    assert_snapshot!(says(&odd, ""), @r#"
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
    let output = passes(&unknown, "");
    assert!(output.stderr.contains("did you mean slots.reviewEnabled?"), "{output}");
    assert!(output.stderr.contains("did you mean slots.reviewer.command?"), "{output}");
}
