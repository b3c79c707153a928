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

use toml::de::DeValue;

use crate::duration::{self, BadDuration};
use crate::tables::{self, Misplaced, Misread, Value, at, list, number, table, text, wrong};

/// What an agent does, turn by turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    turns: Vec<Turn>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Turn {
    iteration: Option<u64>,
    role: Option<String>,
    review: Option<bool>,
    actions: Vec<Action>,
}

/// One thing that a scripted agent does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Print a line.
    Print(String),
    /// Emit an event; whether it is accepted makes no difference to the script.
    Emit {
        /// The event.
        topic: String,
        /// What is said with it.
        payload: String,
    },
    /// Write a file, relative to the project.
    Write {
        /// Which one.
        path: String,
        /// What is in it then.
        text: String,
    },
    /// Delete a file, relative to the project.
    Delete {
        /// Which one.
        path: String,
    },
    /// Store a learning.
    Remember(String),
    /// Do nothing for a while.
    Sleep(Duration),
    /// Do nothing for ever.
    Hang,
    /// End with this status. Without it, a turn ends with 0.
    Exit(i32),
}

/// What a turn is about: which of the script's turns is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cue<'a> {
    /// The iteration.
    pub iteration: u64,
    /// The roles that are suggested.
    pub roles: &'a [String],
    /// Whether it is a review.
    pub is_review: bool,
}

/// A script that cannot be played, and where in its text that is.
pub type BadScript = Misplaced<ScriptFault>;

/// What can be wrong with a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptFault {
    /// What can be wrong with any file.
    #[error("{0}")]
    Misread(#[from] Misread),
    /// A key that means nothing.
    #[error("'{}' means nothing here; known are {known}", .key.escape_debug())]
    UnknownKey {
        /// The key.
        key: String,
        /// The keys that mean something.
        known: &'static str,
    },
    /// A pause that cannot be understood.
    #[error("{0}")]
    Duration(#[from] BadDuration),
}

impl Script {
    /// Reads the text of a script.
    ///
    /// # Errors
    ///
    /// With the first mistake in it.
    pub fn parse(text: &str) -> Result<Script, BadScript> {
        let root = tables::parse(text)?;
        let mut script = Script::default();
        for (key, value) in root.get_ref() {
            if key.get_ref() != "turn" {
                let key = key.get_ref().clone().into_owned();
                return Err(at(ScriptFault::UnknownKey { key, known: "turn" }, value.span()));
            }
            for turn in list(value, "turn", "a list of tables: [[turn]]")? {
                script.turns.push(read_turn(turn)?);
            }
        }
        Ok(script)
    }

    /// What is to be done in a turn: the actions of the first turn of the script whose conditions all
    /// hold. Nothing, when there is none.
    pub fn actions(&self, cue: Cue<'_>) -> &[Action] {
        let fits = |turn: &&Turn| {
            turn.iteration.is_none_or(|iteration| iteration == cue.iteration)
                && turn.role.as_ref().is_none_or(|role| cue.roles.contains(role))
                && turn.review.unwrap_or(false) == cue.is_review
        };
        self.turns.iter().find(fits).map_or(&[], |turn| &turn.actions)
    }
}

fn read_turn(value: &Value<'_>) -> Result<Turn, BadScript> {
    let mut turn = Turn::default();
    for (key, value) in table(value, "turn", "a list of tables: [[turn]]")? {
        match key.get_ref().as_ref() {
            "iteration" => turn.iteration = Some(number(value, "iteration")?),
            "role" => turn.role = Some(text(value, "role")?),
            "review" => match value.get_ref() {
                DeValue::Boolean(flag) => turn.review = Some(*flag),
                _ => return Err(wrong(value, "review", "true or false")),
            },
            "do" => {
                for action in list(value, "do", "a list of actions")? {
                    turn.actions.push(read_action(action)?);
                }
            }
            other => {
                let known = "iteration, role, review and do";
                let key = other.to_owned();
                return Err(at(ScriptFault::UnknownKey { key, known }, value.span()));
            }
        }
    }
    Ok(turn)
}

fn read_action(value: &Value<'_>) -> Result<Action, BadScript> {
    const KNOWN: &str = "print, emit (with payload), write (with text), delete, remember, sleep, \
                         hang and exit";
    let table = table(value, "do", "a list of actions like { print = \"done\" }")?;
    let beside = |key: &'static str| match table.get(key) {
        Some(value) => text(value, key),
        None => Ok(String::new()),
    };
    for (key, value) in table {
        return Ok(match key.get_ref().as_ref() {
            "payload" | "text" => continue,
            "print" => Action::Print(text(value, "print")?),
            "emit" => Action::Emit { topic: text(value, "emit")?, payload: beside("payload")? },
            "write" => Action::Write { path: text(value, "write")?, text: beside("text")? },
            "delete" => Action::Delete { path: text(value, "delete")? },
            "remember" => Action::Remember(text(value, "remember")?),
            "sleep" => Action::Sleep(
                duration::parse(&text(value, "sleep")?).map_err(|error| at(error, value.span()))?,
            ),
            "hang" => Action::Hang,
            "exit" => Action::Exit(
                i32::try_from(number(value, "exit")?)
                    .map_err(|_| wrong(value, "exit", "a status from 0 to 255"))?,
            ),
            other => {
                let key = other.to_owned();
                return Err(at(ScriptFault::UnknownKey { key, known: KNOWN }, value.span()));
            }
        });
    }
    Err(wrong(value, "do", "a list of actions like { print = \"done\" }"))
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
        Script::parse(SCRIPT).unwrap().actions(Cue { iteration, roles: &roles, is_review }).to_vec()
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
        assert_eq!(nothing.actions(Cue { iteration: 1, roles: &[], is_review: false }), []);
    }

    #[test]
    fn every_mistake_is_named_and_found() {
        let mistake = |text: &str| {
            let bad = Script::parse(text).unwrap_err();
            format!("{bad} <- {}", &text[bad.span.clone()])
        };
        insta::assert_snapshot!(mistake("role = 1"), @"'role' means nothing here; known are turn <- 1");
        insta::assert_snapshot!(mistake("turn = 1"), @"'turn' has to be a list of tables: [[turn]] <- 1");
        insta::assert_snapshot!(mistake("[[turn]]\nrole = 1"), @"'role' has to be a text in quotes <- 1");
        insta::assert_snapshot!(mistake("[[turn]]\nwhen = 1"), @"'when' means nothing here; known are iteration, role, review and do <- 1");
        insta::assert_snapshot!(mistake("[[turn]]\ndo = [{ shout = \"x\" }]"), @r#"'shout' means nothing here; known are print, emit (with payload), write (with text), delete, remember, sleep, hang and exit <- "x""#);
        insta::assert_snapshot!(mistake("[[turn]]\ndo = [{ payload = \"x\" }]"), @r#"'do' has to be a list of actions like { print = "done" } <- { payload = "x" }"#);
        insta::assert_snapshot!(mistake("[[turn]]\ndo = [{ sleep = \"soon\" }]"), @r#"'soon' is not a duration; write one like 30s, 1m30s, 500ms or 1.5h <- "soon""#);
        insta::assert_snapshot!(mistake("[[turn]]\ndo = [{ exit = 3000000000 }]"), @"'exit' has to be a status from 0 to 255 <- 3000000000");
    }
}
