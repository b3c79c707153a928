//! A scripted agent: what it does in which turn, written in a small TOML file.
//!
//! It lets a topology be tried without spending a token, plays the agents of the demo, and stands in
//! for agents in tests. Nothing about it is special to the harness: a scripted agent is a process with
//! the environment of any other.
//!
//! ```toml
//! [[turn]]
//! role = "planner"
//! do = [
//!   { print = "three tasks" },
//!   { emit = "tasks.ready", payload = "parser, printer, tests" },
//! ]
//! ```

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny};

use crate::duration;
use crate::toml_file::{Invalid, TomlFile};

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    #[serde(default, rename = "turn")]
    turns: Vec<Turn>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table: [[turn]]")]
struct Turn {
    iteration: Option<u64>,
    role: Option<String>,
    review: bool,
    /// In a squad.
    phase: Option<String>,
    task: Option<String>,
    #[serde(rename = "do", deserialize_with = "actions")]
    actions: Vec<Action>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "ActionTable")]
pub enum Action {
    Print(String),
    /// Whether the event is accepted makes no difference to the script.
    Emit {
        topic: String,
        payload: String,
    },
    /// A call of a tool of the agent. In the arguments, `$AUTOLOOP_LOOP_ID` and
    /// `$AUTOLOOP_TASK_ID` are replaced. Whether the call is accepted makes no difference to the script.
    Call {
        tool: String,
        arguments: String,
    },
    /// A command for the shell.
    Run(String),
    /// Relative to the directory of the agent.
    Write {
        path: String,
        text: String,
    },
    /// Relative to the directory of the agent.
    Delete {
        path: String,
    },
    Remember(String),
    Sleep(Duration),
    /// Sleeps until it is killed.
    Hang,
    /// The exit code; the default is 0.
    Exit(i32),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cue<'a> {
    pub iteration: u64,
    pub roles: &'a [String],
    pub is_review: bool,
    /// In a squad; empty elsewhere.
    pub phase: &'a str,
    pub task: &'a str,
}

impl Script {
    pub fn parse(text: &str) -> Result<Script, Invalid> {
        TomlFile::parse(text)?.read(&[]).map(|(script, _)| script)
    }

    pub fn actions(&self, cue: Cue<'_>) -> &[Action] {
        let fits = |turn: &&Turn| {
            turn.iteration.is_none_or(|iteration| iteration == cue.iteration)
                && turn.role.as_ref().is_none_or(|role| cue.roles.contains(role))
                && turn.review == cue.is_review
                && turn.phase.as_ref().is_none_or(|phase| phase == cue.phase)
                && turn.task.as_ref().is_none_or(|task| task == cue.task)
        };
        self.turns.iter().find(fits).map_or(&[], |turn| &turn.actions)
    }
}

/// An action as it is written: one of these keys, some with a second one.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an action like { print = \"done\" }")]
struct ActionTable {
    print: Option<String>,
    emit: Option<String>,
    #[serde(default)]
    payload: String,
    call: Option<String>,
    #[serde(default = "no_arguments")]
    arguments: String,
    run: Option<String>,
    write: Option<String>,
    #[serde(default)]
    text: String,
    delete: Option<String>,
    remember: Option<String>,
    #[serde(default, deserialize_with = "pause")]
    sleep: Option<Duration>,
    hang: Option<IgnoredAny>,
    exit: Option<u8>,
}

impl TryFrom<ActionTable> for Action {
    type Error = &'static str;

    fn try_from(table: ActionTable) -> Result<Action, Self::Error> {
        let ActionTable { payload, text, arguments, .. } = table;
        let actions = [
            table.call.map(|tool| Action::Call { tool, arguments }),
            table.delete.map(|path| Action::Delete { path }),
            table.emit.map(|topic| Action::Emit { topic, payload }),
            table.exit.map(|status| Action::Exit(status.into())),
            table.hang.map(|_| Action::Hang),
            table.print.map(Action::Print),
            table.remember.map(Action::Remember),
            table.run.map(Action::Run),
            table.sleep.map(Action::Sleep),
            table.write.map(|path| Action::Write { path, text }),
        ];
        let mut actions = actions.into_iter().flatten();
        actions.next().ok_or("expected an action like { print = \"done\" }")
    }
}

fn no_arguments() -> String {
    "{}".to_owned()
}

fn actions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Action>, D::Error> {
    /// A type of its own, so that the position of a mistake is that of one action and not of the whole list.
    #[derive(serde::Deserialize)]
    struct Element(Action);

    let actions = Vec::<Element>::deserialize(deserializer)?;
    Ok(actions.into_iter().map(|action| action.0).collect())
}

fn pause<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    duration::parse(&text).map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = r#"
        [[turn]]
        review = true
        do = [{ remember = "keep it short" }]
        [[turn]]
        role = "planner"
        iteration = 1
        do = [
            { print = "planning" },
            { emit = "tasks.ready", payload = "two" },
            { write = "notes.md", text = "hello" },
            { sleep = "20ms" },
        ]
        [[turn]]
        role = "builder"
        do = [{ emit = "task.complete" }, { delete = "notes.md" }, { exit = 3 }]
        [[turn]]
        do = [{ hang = true }]
    "#;

    fn actions(iteration: u64, role: &str, is_review: bool) -> Vec<Action> {
        let roles = [role.to_owned()];
        let cue = Cue { iteration, roles: &roles, is_review, ..Cue::default() };
        Script::parse(SCRIPT).unwrap().actions(cue).to_vec()
    }

    #[test]
    fn the_first_turn_that_fits_is_played() {
        assert_eq!(
            actions(1, "planner", false),
            [
                Action::Print("planning".into()),
                Action::Emit { topic: "tasks.ready".into(), payload: "two".into() },
                Action::Write { path: "notes.md".into(), text: "hello".into() },
                Action::Sleep(Duration::from_millis(20)),
            ]
        );
        assert_eq!(
            actions(7, "builder", false),
            [
                Action::Emit { topic: "task.complete".into(), payload: String::new() },
                Action::Delete { path: "notes.md".into() },
                Action::Exit(3),
            ]
        );
        assert_eq!(actions(2, "planner", false), [Action::Hang]);
        assert_eq!(actions(2, "planner", true), [Action::Remember("keep it short".into())]);
        let nothing = Script::default();
        assert_eq!(nothing.actions(Cue { iteration: 1, ..Cue::default() }), []);
    }

    #[test]
    fn a_turn_of_a_squad_is_chosen_by_its_phase_and_task() {
        let script = Script::parse(
            r#"
            [[turn]]
            phase = "review"
            task = "t2"
            iteration = 1
            do = [{ call = "set_loop_review_result", arguments = '{"passed": false}' }]
            [[turn]]
            phase = "review"
            do = [{ call = "set_review_result" }]
            [[turn]]
            do = [{ run = "git add a.txt" }]
            "#,
        )
        .unwrap();
        let actions = |phase: &str, task: &str, iteration: u64| {
            script.actions(Cue { phase, task, iteration, ..Cue::default() }).to_vec()
        };
        let call = |tool: &str, arguments: &str| Action::Call {
            tool: tool.to_owned(),
            arguments: arguments.to_owned(),
        };
        let failed = call("set_loop_review_result", r#"{"passed": false}"#);
        assert_eq!(actions("review", "t2", 1), [failed]);
        assert_eq!(actions("review", "t2", 2), [call("set_review_result", "{}")]);
        assert_eq!(actions("review", "", 1), [call("set_review_result", "{}")]);
        assert_eq!(actions("build", "t2", 1), [Action::Run("git add a.txt".into())]);
        assert_eq!(actions("", "", 1), [Action::Run("git add a.txt".into())]);
    }

    #[test]
    fn every_mistake_is_named_and_found() {
        let mistake = |text: &str| {
            let bad = Script::parse(text).unwrap_err();
            format!("{bad} <- {}", &text[bad.span.clone()])
        };
        insta::assert_snapshot!(mistake("role = 1"), @"unknown field `role`, expected `turn` <- role");
        insta::assert_snapshot!(mistake("turn = 1"), @"invalid type: integer `1`, expected a sequence, in `turn` <- 1");
        insta::assert_snapshot!(mistake("[[turn]]\nrole = 1"), @"invalid type: integer `1`, expected a string, in `turn.role` <- 1");
        insta::assert_snapshot!(mistake("\"\\u001b\" = 1"), @r#"unknown field `\u{1b}`, expected `turn` <- "\u001b""#);
        insta::assert_snapshot!(mistake("[[turn]]\nwhen = 1"), @"unknown field `when`, expected one of `iteration`, `role`, `review`, `phase`, `task`, `do`, in `turn` <- when");
        insta::assert_snapshot!(mistake("[[turn]]\ndo = [{ shout = \"x\" }]"), @"unknown field `shout`, expected one of `print`, `emit`, `payload`, `call`, `arguments`, `run`, `write`, `text`, `delete`, `remember`, `sleep`, `hang`, `exit`, in `turn.do` <- shout");
        insta::assert_snapshot!(mistake("[[turn]]\ndo = [{ payload = \"x\" }]"), @r#"expected an action like { print = "done" }, in `turn.do` <- { payload = "x" }"#);
        insta::assert_snapshot!(mistake("[[turn]]\ndo = [{ sleep = \"soon\" }]"), @r#"'soon' is not a duration; write one like 30s, 1m30s, 500ms or 1.5h, in `turn.do.sleep` <- "soon""#);
        insta::assert_snapshot!(mistake("[[turn]]\ndo = [{ exit = 3000000000 }]"), @"invalid value: integer `3000000000`, expected u8, in `turn.do.exit` <- 3000000000");
    }
}
