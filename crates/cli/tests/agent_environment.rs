//! What agents inherit of the environment that `autoloop` was started with.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::write_program;
use autoloop_testkit::slots::{self, Agents, PASS};
use insta::assert_snapshot;

const BINARY: &str = env!("CARGO_BIN_EXE_autoloop");

/// Writes the names of its variables, and of those of the process that started it.
const NOTES_NAMES: &str = "tr '\\0' '\\n' < /proc/$$/environ | sed 's/=.*//' >> names; \
                           tr '\\0' '\\n' < /proc/$PPID/environ | sed 's/=.*//' >> names-of-shim";

const VARIABLES: [&str; 5] =
    ["ANTHROPIC_API_KEY", "CARGO_HOME", "GITHUB_TOKEN", "MY_TOKEN", "OPENAI_API_KEY"];

fn with_secrets(sandbox: Sandbox) -> Sandbox {
    VARIABLES.into_iter().fold(sandbox, |sandbox, name| sandbox.env(name, "/of/the/user"))
}

/// Which of these variables are in a file of names.
fn noted(sandbox: &Sandbox, file: &str) -> String {
    let text = String::from_utf8(sandbox.read(file)).unwrap();
    let is_noted = |name: &&str| text.lines().any(|line| line == *name);
    VARIABLES.into_iter().filter(is_noted).collect::<Vec<_>>().join(" ")
}

#[test]
fn agents_reviewers_and_their_supervisors_have_no_secrets_of_the_user() {
    let agent = format!("{NOTES_NAMES}; echo done");
    let settings =
        "review.every_iterations = 1\nevent_loop.max_iterations = 2\nreview.sandbox = 'off'";
    let sandbox = with_secrets(Sandbox::with_agent(BINARY, &agent, settings));
    assert_eq!(sandbox.run(&["run", ".", "make it"]).code, Some(1));
    assert_eq!(sandbox.fields("review.finish", "exit_code"), ["0"]);
    assert_eq!(noted(&sandbox, "names"), "CARGO_HOME");
    assert_eq!(noted(&sandbox, "names-of-shim"), "CARGO_HOME");
}

#[test]
fn settings_pass_and_set_variables() {
    let agent = "env | grep -E '^(MY_|A=|ANTHROPIC)' | sort > set; echo LOOP_COMPLETE";
    let settings = "backend.env = ['MY_*', 'A=b=c, d']";
    let sandbox = with_secrets(Sandbox::with_agent(BINARY, agent, settings));
    assert_eq!(sandbox.run(&["run", ".", "make it"]).code, Some(0));
    assert_eq!(sandbox.read("set"), b"A=b=c, d\nMY_TOKEN=/of/the/user\n");
    let all = sandbox.run(&["run", ".", "make it", "--set", "backend.env=*"]);
    assert_eq!(all.code, Some(0), "{all}");
    let set = String::from_utf8(sandbox.read("set")).unwrap();
    assert_eq!(set, "ANTHROPIC_API_KEY=/of/the/user\nMY_TOKEN=/of/the/user\n");
}

#[test]
fn a_client_has_its_own_credentials_and_those_of_no_other() {
    let codex = format!("#!/bin/sh\n{NOTES_NAMES}; cat > /dev/null\n");
    let sandbox = with_secrets(Sandbox::new(BINARY));
    write_program(sandbox.path("home/bin/codex"), &codex);
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", sandbox.path("home/bin").display());
    let sandbox = sandbox.env("PATH", path);
    sandbox.write("autoloops.toml", "event_loop.max_iterations = 1");
    let output = sandbox.run(&["run", ".", "make it", "-b", "codex:gpt-5.5"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(noted(&sandbox, "names"), "CARGO_HOME OPENAI_API_KEY");
    assert_eq!(noted(&sandbox, "names-of-shim"), "CARGO_HOME");
}

#[test]
fn secrets_in_what_agents_print_and_emit_are_masked() {
    let key = "sk-ant-api03-abcdefghij0123456789";
    let agent = format!(
        "echo \"token $MY_TOKEN.\"; printf sk-ant-api; echo '03-abcdefghij0123456789'; echo {key} >&2
        autoloop=$AUTOLOOP_PROJECT_DIR/.autoloop/autoloops
        \"$autoloop\" emit some.event \"found $MY_TOKEN and {key}\"; echo '{key}' > file
        {{ head -c 300000 /dev/zero | tr '\\0' .; echo \"$MY_TOKEN {key}\"; }} > long
        \"$autoloop\" emit --file file other.event; \"$autoloop\" emit --file long long.event; rm long"
    );
    let settings = "backend.env = 'MY_TOKEN'\nevent_loop.max_iterations = 1";
    let sandbox = Sandbox::with_agent(BINARY, &agent, settings).env("MY_TOKEN", "hunter2-hunter2");
    let output = sandbox.run(&["run", ".", "make it"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(sandbox.fields("some.event", "payload"), ["found [masked] and sk-ant-[masked]"]);
    assert_eq!(sandbox.fields("other.event", "payload"), [r"sk-ant-[masked]\u000a"]);
    let long = sandbox.fields("long.event", "payload").remove(0);
    assert_eq!(long.trim_start_matches('.'), r"[masked] sk-ant-[masked]\u000a");
    let printed = r"token [masked].\u000ask-ant-[masked]\u000a";
    assert!(sandbox.fields("backend.finish", "output")[0].starts_with(printed));
    assert_eq!(sandbox.read("file"), format!("{key}\n").into_bytes(), "the agent's own file");
    // No file of ours has them.
    let mut found = std::process::Command::new("grep");
    found.args(["-rlE", "hunter2-hunter2|abcdefghij0123456789"]).arg(sandbox.path(".autoloop"));
    assert_eq!(String::from_utf8(found.output().unwrap().stdout).unwrap(), "");
}

#[test]
fn a_reviewer_of_slots_can_have_other_variables() {
    let implement = "env | grep -E '^(MY|GITHUB)_TOKEN' > implementer; echo x > made";
    let review = format!("[ -z \"$MY_TOKEN\" ] && [ \"$GITHUB_TOKEN\" ] && {PASS}");
    let agents = Agents { implement, review: &review, ..slots::GOOD };
    let settings = "backend.env = 'MY_TOKEN'\nslots.reviewer.env = 'GITHUB_TOKEN'";
    let sandbox = with_secrets(slots::repository(BINARY, agents, (1, settings)));
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(sandbox.read("implementer"), b"MY_TOKEN=/of/the/user\n");
}

#[test]
fn an_invalid_variable_is_shown_where_it_stands() {
    let sandbox = Sandbox::with_agent(BINARY, "echo LOOP_COMPLETE", "");
    let told = |env: &str| {
        let setting = format!("backend.env={env}");
        let output = sandbox.run(&["run", ".", "make it", "--set", &setting]);
        assert_eq!(output.code, Some(2), "{output}");
        let shown = output.stderr.lines().find(|line| line.contains('^')).unwrap().trim_start();
        format!("{env} {shown}")
    };
    let all = ["$MY_TOKEN", "=x", "A*B", "MY TOKEN", "['A*=b']"].map(told);
    assert_snapshot!(all.join("\n"), @r"
    $MY_TOKEN |             ^^^^^^^^^ the name of a variable is written without '$'
    =x |             ^^ the name of the variable is missing
    A*B |             ^^^ only a name without a value may begin or end with '*'
    MY TOKEN |             ^^^^^^^^ this is no name of a variable
    ['A*=b'] |             ^^^^^^^^ only a name without a value may begin or end with '*'
    ");
    sandbox.write("autoloops.toml", "[backend.env]\nMY_TOKEN = 'x'\n");
    assert_snapshot!(sandbox.run(&["config", "show"]).stderr, @r#"
    error: backend.env is a table
     --> autoloops.toml:1:1
      |
    1 | [backend.env]
      | ^^^^^^^^^^^^^ expected a list of variables: ["MY_TOKEN", "MYAPP_*", "NAME=value"]

    autoloop: the settings cannot be used because of this error
    "#);
}
