//! The tools of the agents of a squad: which ones a turn has, and what a call amounts to.
//!
//! A tool can only be called in a turn that has it, and only about the work of that turn. So a builder cannot judge, and
//! a reviewer judges its own loop only. A call is one event, which is stored whole or not at all.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Issue, Squad, Task, Turn, TurnState};
use crate::agents::Dollars;
use crate::exchange::MAX_CITED;
use crate::queue;
use crate::record::{
    Heading, Record, SquadAnswer, SquadCited, SquadClaim, SquadContext, SquadCost, SquadGroup,
    SquadPhase, SquadReport, SquadSubject, SquadTask, SquadTurn, Text,
};
use crate::text;
use crate::tool::{BadArguments, ToolSpec};
use crate::wire_enum::words;

/// In characters.
const LONGEST_KEY: usize = 100;
const LONGEST_COMMAND: usize = 2000;
/// How many ids a message lists.
const LISTED: usize = 30;

words! {
    Tool {
        WriteTask = "write_task",
        AddPlanGroup = "add_plan_group",
        CompleteTask = "complete_task",
        FailTask = "fail_task",
        SetLoopReviewResult = "set_loop_review_result",
        SetReviewResult = "set_review_result",
        CiteCommand = "cite_command",
        GetTask = "get_task",
        WriteContext = "write_context",
        ReadContext = "read_context",
        RecordCost = "record_cost",
    }
}

/// What an accepted call amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// To be appended before the agent is answered; `None` for a question.
    pub event: Option<ToolEvent>,
    pub answer: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEvent {
    Task(SquadTask),
    Group(SquadGroup),
    Report(SquadReport),
    Answer(SquadAnswer<'static>),
    Cited(SquadCited),
    Context(SquadContext<'static>),
    Cost(SquadCost),
}

/// Why a call is refused. Nothing is stored then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the turn of this agent has ended: its tools cannot be called any more")]
    Ended,
    #[error("unknown tool '{}': the tools of this agent are {}", shown(.tool), .valid.join(", "))]
    UnknownTool { tool: String, valid: Vec<&'static str> },
    #[error(transparent)]
    Arguments(#[from] BadArguments),
    #[error(transparent)]
    Task(#[from] queue::Refusal),
    #[error("invalid loopId '{}': this review is of loop {own}", shown(.given))]
    OtherLoop { given: String, own: String },
    #[error("invalid taskId '{}': this agent works on task {own}", shown(.given))]
    OtherTask { given: String, own: String },
    #[error("{place}: unknown task '{}'; {}", shown(.given), existing("tasks", .known))]
    UnknownTask { place: String, given: String, known: Vec<String> },
    #[error("task {task} is in group {group} already")]
    Grouped { task: String, group: usize },
    #[error("task {task} occurs twice in the group")]
    Twice { task: String },
    #[error("the group is empty; {}", existing("tasks without a group", .ungrouped))]
    EmptyGroup { ungrouped: Vec<String> },
    #[error("issues[{index}] has no description: expected what is wrong")]
    NoDescription { index: usize },
    #[error("the command is empty: expected a line of a shell")]
    NoCommand,
    #[error("the command has {length} characters: the limit is {LONGEST_COMMAND}")]
    LongCommand { length: usize },
    #[error("{MAX_CITED} commands are cited already, and more are not run")]
    ManyCommands,
    #[error("invalid key '{}': expected one line of 1 to {LONGEST_KEY} characters", shown(.key))]
    BadKey { key: String },
    #[error("unknown key '{}'; {}", shown(.key), existing("keys", .known))]
    UnknownKey { key: String, known: Vec<String> },
    #[error("invalid costUsd {given}: expected an amount that is not negative")]
    NoCost { given: String },
}

/// The tools of a turn.
pub fn tools(turn: &SquadTurn) -> Vec<ToolSpec> {
    Tool::of(turn).into_iter().map(Tool::spec).collect()
}

/// Checks a call. `arguments` is JSON, of an agent that may send anything.
pub fn call(squad: &Squad, turn: u64, tool: &str, arguments: &str) -> Result<Accepted, Refusal> {
    let is_open = |turn: &&Turn| turn.state == TurnState::Open;
    let turn = squad.turn(turn).filter(is_open).ok_or(Refusal::Ended)?;
    let valid = Tool::of(&turn.start);
    let Some(tool) = Tool::from_word(tool).filter(|tool| valid.contains(tool)) else {
        let valid = valid.into_iter().map(Tool::name).collect();
        return Err(Refusal::UnknownTool { tool: tool.to_owned(), valid });
    };
    let spec = tool.spec();
    let call = Call { squad, turn };
    match tool {
        Tool::WriteTask => call.write_task(spec.read(arguments)?),
        Tool::AddPlanGroup => call.add_plan_group(spec.read(arguments)?),
        Tool::CompleteTask => call.report(spec.read(arguments)?, SquadClaim::Complete),
        Tool::FailTask => call.report(spec.read(arguments)?, SquadClaim::Fail),
        Tool::SetLoopReviewResult => call.set_loop_review_result(spec.read(arguments)?),
        Tool::SetReviewResult => call.set_review_result(spec.read(arguments)?),
        Tool::CiteCommand => call.cite_command(spec.read(arguments)?),
        Tool::GetTask => call.get_task(spec.read(arguments)?),
        Tool::WriteContext => call.write_context(spec.read(arguments)?),
        Tool::ReadContext => call.read_context(spec.read(arguments)?),
        Tool::RecordCost => call.record_cost(spec.read(arguments)?),
    }
}

impl ToolEvent {
    pub fn record(&self, heading: &Heading) -> Record {
        match self {
            ToolEvent::Task(event) => event.record(heading),
            ToolEvent::Group(event) => event.record(heading),
            ToolEvent::Report(event) => event.record(heading),
            ToolEvent::Answer(event) => event.record(heading),
            ToolEvent::Cited(event) => event.record(heading),
            ToolEvent::Context(event) => event.record(heading),
            ToolEvent::Cost(event) => event.record(heading),
        }
    }
}

impl Tool {
    fn of(turn: &SquadTurn) -> Vec<Tool> {
        use SquadSubject as About;

        let about = turn.subject.as_ref().and_then(|subject| subject.known());
        let own: &[Tool] = match (turn.phase.known(), about) {
            (Some(SquadPhase::Enumerate), _) => &[Tool::WriteTask],
            (Some(SquadPhase::Plan), _) => &[Tool::AddPlanGroup, Tool::GetTask],
            (Some(SquadPhase::Build | SquadPhase::Revise), _) => {
                &[Tool::CompleteTask, Tool::FailTask, Tool::GetTask]
            }
            (Some(SquadPhase::Checkpoint), _) | (Some(SquadPhase::Review), Some(About::Task)) => {
                &[Tool::SetLoopReviewResult, Tool::CiteCommand, Tool::GetTask]
            }
            (Some(SquadPhase::Review), Some(About::Enumerate | About::Plan | About::Build)) => {
                &[Tool::SetReviewResult, Tool::CiteCommand, Tool::GetTask]
            }
            (Some(SquadPhase::Conflict), _) => &[Tool::GetTask],
            _ => &[],
        };
        [own, &[Tool::WriteContext, Tool::ReadContext, Tool::RecordCost]].concat()
    }

    fn spec(self) -> ToolSpec {
        let (description, schema) = match self {
            Tool::WriteTask => (
                "Add a task to the list of tasks",
                json!({
                    "type": "object",
                    "properties": {
                        "taskId": { "type": "string", "description": "A short word, such as t1, that no other task has" },
                        "title": { "type": "string", "description": "One line that says what to do" },
                        "description": { "type": "string", "description": "Everything that its builder has to know" },
                        "acceptance": { "type": "string", "description": "How to tell that it is done" }
                    },
                    "required": ["taskId", "title", "description"]
                }),
            ),
            Tool::AddPlanGroup => (
                "Add a group of tasks that are built in parallel. Groups are built in the order in which they are added",
                json!({
                    "type": "object",
                    "properties": {
                        "taskIds": {
                            "type": "array",
                            "description": "Ids of tasks that do not depend on each other",
                            "items": { "type": "string" }
                        }
                    },
                    "required": ["taskIds"]
                }),
            ),
            Tool::CompleteTask => (
                "Report that the task of this loop is complete. Its review follows when you end",
                json!({
                    "type": "object",
                    "properties": { "taskId": { "type": "string", "description": OWN_TASK } }
                }),
            ),
            Tool::FailTask => (
                "Give the task of this loop up",
                json!({
                    "type": "object",
                    "properties": {
                        "taskId": { "type": "string", "description": OWN_TASK },
                        "reason": { "type": "string", "description": "Why it cannot be done" }
                    }
                }),
            ),
            Tool::SetLoopReviewResult => (
                "Report review results for a specific loop",
                json!({
                    "type": "object",
                    "properties": {
                        "loopId": { "type": "string", "description": "The loop being reviewed" },
                        "taskId": {
                            "type": "string",
                            "description": "The task that was reviewed (optional for checkpoint reviews)"
                        },
                        "passed": { "type": "boolean" },
                        "interpretedIntent": { "type": "string" },
                        "intentSatisfied": { "type": "boolean" },
                        "issues": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "file": { "type": "string" },
                                    "line": { "type": "number" },
                                    "type": { "type": "string" },
                                    "description": { "type": "string" },
                                    "suggestion": { "type": "string" }
                                }
                            }
                        }
                    },
                    "required": ["loopId", "passed"]
                }),
            ),
            Tool::SetReviewResult => (
                "Report review results",
                json!({
                    "type": "object",
                    "properties": {
                        "passed": { "type": "boolean" },
                        "interpretedIntent": { "type": "string" },
                        "intentSatisfied": { "type": "boolean" },
                        "issues": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "taskId": { "type": "string", "description": "The task to work on again" },
                                    "file": { "type": "string" },
                                    "line": { "type": "number" },
                                    "type": { "type": "string" },
                                    "description": { "type": "string" },
                                    "suggestion": { "type": "string" }
                                }
                            }
                        }
                    },
                    "required": ["passed"]
                }),
            ),
            Tool::CiteCommand => (
                "Cite a command as evidence. It is run again on a clean checkout, and has to succeed for a pass",
                json!({
                    "type": "object",
                    "properties": { "command": { "type": "string", "description": "A line of a shell" } },
                    "required": ["command"]
                }),
            ),
            Tool::GetTask => (
                "Show a task",
                json!({
                    "type": "object",
                    "properties": { "taskId": { "type": "string", "description": "The task of this loop by default" } }
                }),
            ),
            Tool::WriteContext => (
                "Leave a text for the agents after you. It replaces the one under the same key",
                json!({
                    "type": "object",
                    "properties": { "key": { "type": "string" }, "text": { "type": "string" } },
                    "required": ["key", "text"]
                }),
            ),
            Tool::ReadContext => (
                "Show the text under a key, or list the keys",
                json!({
                    "type": "object",
                    "properties": { "key": { "type": "string" } }
                }),
            ),
            Tool::RecordCost => (
                "Record a cost that your client does not report itself",
                json!({
                    "type": "object",
                    "properties": {
                        "costUsd": { "type": "number" },
                        "what": { "type": "string", "description": "What was paid for" }
                    },
                    "required": ["costUsd"]
                }),
            ),
        };
        ToolSpec { name: self.name().to_owned(), description: description.to_owned(), schema }
    }
}

const OWN_TASK: &str = "The task of this loop";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskArguments {
    task_id: String,
    title: String,
    description: String,
    acceptance: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupArguments {
    task_ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportArguments {
    task_id: Option<String>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoopReviewArguments {
    loop_id: String,
    task_id: Option<String>,
    #[serde(flatten)]
    review: ReviewArguments,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewArguments {
    passed: bool,
    interpreted_intent: Option<String>,
    intent_satisfied: Option<bool>,
    issues: Option<Vec<Issue>>,
}

#[derive(Deserialize)]
struct CommandArguments {
    command: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskOfArguments {
    task_id: Option<String>,
}

#[derive(Deserialize)]
struct ContextArguments {
    key: String,
    text: String,
}

#[derive(Deserialize)]
struct KeyArguments {
    key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CostArguments {
    cost_usd: f64,
    what: Option<String>,
}

/// A call in an open turn that has the tool.
struct Call<'s> {
    squad: &'s Squad,
    turn: &'s Turn,
}

impl Call<'_> {
    fn write_task(&self, task: TaskArguments) -> Result<Accepted, Refusal> {
        let TaskArguments { task_id: id, title, description, acceptance } = task;
        queue::Refusal::of_task(&id, &title, Some(&description), acceptance.as_deref())?;
        if self.squad.task(&id).is_some() {
            return Err(queue::Refusal::Taken { id }.into());
        }
        let answer = format!("added task {id}");
        let turn = Some(self.turn.number());
        let task = SquadTask { turn, task_id: id, title, description, acceptance };
        Ok(stored(ToolEvent::Task(task), answer))
    }

    fn add_plan_group(&self, group: GroupArguments) -> Result<Accepted, Refusal> {
        let tasks = group.task_ids;
        let group_of = |task: &str| {
            self.squad.groups.iter().position(|group| group.iter().any(|other| other == task))
        };
        for (index, task) in tasks.iter().enumerate() {
            self.known(task, || format!("taskIds[{index}]"))?;
            let task = task.clone();
            if tasks[..index].contains(&task) {
                return Err(Refusal::Twice { task });
            }
            if let Some(group) = group_of(&task) {
                return Err(Refusal::Grouped { task, group: group + 1 });
            }
        }
        let is_left = |task: &&Task| group_of(&task.id).is_none() && !tasks.contains(&task.id);
        let left: Vec<_> =
            self.squad.tasks.iter().filter(is_left).map(|task| task.id.clone()).collect();
        if tasks.is_empty() {
            return Err(Refusal::EmptyGroup { ungrouped: left });
        }
        let number = self.squad.groups.len() + 1;
        let answer = format!("added group {number}; {}", existing("tasks without a group", &left));
        let group = SquadGroup { turn: Some(self.turn.number()), tasks: tasks.join(",") };
        Ok(stored(ToolEvent::Group(group), answer))
    }

    fn report(&self, report: ReportArguments, claim: SquadClaim) -> Result<Accepted, Refusal> {
        let task_id = self.own_task().unwrap_or_default().to_owned();
        check_task(report.task_id, &task_id)?;
        let answer = match claim {
            SquadClaim::Complete => {
                format!("task {task_id} is reported as complete; it is reviewed when you end")
            }
            SquadClaim::Fail => format!("task {task_id} is given up when you end"),
        };
        let reason = report.reason.unwrap_or_default();
        let (turn, claim) = (self.turn.number(), claim.into());
        Ok(stored(ToolEvent::Report(SquadReport { turn, task_id, claim, reason }), answer))
    }

    fn set_loop_review_result(&self, result: LoopReviewArguments) -> Result<Accepted, Refusal> {
        let own = self.turn.start.loop_id.as_deref().unwrap_or_default();
        if result.loop_id != own {
            return Err(Refusal::OtherLoop { given: result.loop_id, own: own.to_owned() });
        }
        check_task(result.task_id, self.own_task().unwrap_or_default())?;
        let mut review = result.review;
        for issue in review.issues.iter_mut().flatten() {
            issue.task_id = None;
        }
        self.answer(review)
    }

    fn set_review_result(&self, review: ReviewArguments) -> Result<Accepted, Refusal> {
        for (index, issue) in review.issues.iter().flatten().enumerate() {
            if let Some(task) = &issue.task_id {
                self.known(task, || format!("issues[{index}].taskId"))?;
            }
        }
        self.answer(review)
    }

    fn answer(&self, review: ReviewArguments) -> Result<Accepted, Refusal> {
        let issues = review.issues.unwrap_or_default();
        let is_blank = |issue: &Issue| {
            issue.description.as_ref().is_none_or(|description| description.trim().is_empty())
        };
        if let Some(index) = issues.iter().position(is_blank) {
            return Err(Refusal::NoDescription { index });
        }
        let result = match (review.passed, review.intent_satisfied) {
            (true, Some(false)) => "a fail (the intent is not satisfied)",
            (true, _) => "a pass",
            (false, _) => "a fail",
        };
        let count = match issues.len() {
            0 => String::new(),
            1 => " with 1 issue".to_owned(),
            count => format!(" with {count} issues"),
        };
        let answer = format!("stored {result}{count}; the last result before you end counts");
        let SquadTurn { turn, loop_id, task_id, .. } = self.turn.start.clone();
        Ok(stored(
            ToolEvent::Answer(SquadAnswer {
                turn,
                loop_id,
                task_id,
                passed: review.passed,
                interpreted_intent: review.interpreted_intent,
                intent_satisfied: review.intent_satisfied,
                issues: Text::from(json!(issues).to_string()),
            }),
            answer,
        ))
    }

    fn cite_command(&self, cited: CommandArguments) -> Result<Accepted, Refusal> {
        let command = cited.command.trim().to_owned();
        if command.is_empty() {
            return Err(Refusal::NoCommand);
        }
        let length = text::length(&command);
        if length > LONGEST_COMMAND {
            return Err(Refusal::LongCommand { length });
        }
        if self.turn.cited.contains(&command) {
            return Ok(Accepted { event: None, answer: "it is cited already".to_owned() });
        }
        if self.turn.cited.len() >= MAX_CITED {
            return Err(Refusal::ManyCommands);
        }
        let answer = "stored; it is run again when you end".to_owned();
        let turn = self.turn.number();
        Ok(stored(ToolEvent::Cited(SquadCited { turn, command }), answer))
    }

    fn get_task(&self, of: TaskOfArguments) -> Result<Accepted, Refusal> {
        let given = of.task_id.as_deref().filter(|id| !id.is_empty());
        let id = given.or(self.own_task()).unwrap_or_default();
        let task = self.known(id, || "taskId".to_owned())?;
        let Task { id, title, description, acceptance } = task;
        let mut shown = json!({ "taskId": id, "title": title, "description": description });
        if let Some(acceptance) = acceptance {
            shown["acceptance"] = Value::from(acceptance.as_str());
        }
        Ok(Accepted { event: None, answer: format!("{shown:#}") })
    }

    fn write_context(&self, context: ContextArguments) -> Result<Accepted, Refusal> {
        let ContextArguments { key, text } = context;
        let is_key = !key.trim().is_empty()
            && text::length(&key) <= LONGEST_KEY
            && !key.contains(char::is_control);
        if !is_key {
            return Err(Refusal::BadKey { key });
        }
        let answer = format!("stored {key}");
        let context = SquadContext { turn: self.turn.number(), key, text: Text::from(text) };
        Ok(stored(ToolEvent::Context(context), answer))
    }

    fn read_context(&self, of: KeyArguments) -> Result<Accepted, Refusal> {
        let known = || self.squad.context.keys().cloned().collect::<Vec<_>>();
        let answer = match of.key {
            None => existing("keys", &known()),
            Some(key) => match self.squad.context.get(&key) {
                Some(text) => text.clone(),
                None => return Err(Refusal::UnknownKey { key, known: known() }),
            },
        };
        Ok(Accepted { event: None, answer })
    }

    fn record_cost(&self, cost: CostArguments) -> Result<Accepted, Refusal> {
        let Some(cost_usd) = Dollars::new(cost.cost_usd) else {
            return Err(Refusal::NoCost { given: cost.cost_usd.to_string() });
        };
        let what = cost.what.unwrap_or_default();
        let cost = SquadCost { turn: self.turn.number(), cost_usd, what };
        Ok(stored(ToolEvent::Cost(cost), format!("recorded {cost_usd}")))
    }

    /// The task of its loop, also in a checkpoint, which is not about the task alone.
    fn own_task(&self) -> Option<&str> {
        let own = self.turn.start.loop_id.as_deref().and_then(|id| self.squad.find(id));
        own.map(|it| &*it.task_id)
    }

    fn known(&self, id: &str, place: impl FnOnce() -> String) -> Result<&Task, Refusal> {
        self.squad.task(id).ok_or_else(|| Refusal::UnknownTask {
            place: place(),
            given: id.to_owned(),
            known: self.squad.tasks.iter().map(|task| task.id.clone()).collect(),
        })
    }
}

fn stored(event: ToolEvent, answer: String) -> Accepted {
    Accepted { event: Some(event), answer }
}

/// A task that an agent names where there is only one. An empty one is none: a checkpoint has an empty
/// `AUTOLOOP_TASK_ID`.
fn check_task(given: Option<String>, own: &str) -> Result<(), Refusal> {
    match given.filter(|given| !given.is_empty() && given != own) {
        Some(given) => Err(Refusal::OtherTask { given, own: own.to_owned() }),
        None => Ok(()),
    }
}

fn shown(text: &str) -> String {
    text::shown(text, 60)
}

/// The valid ids, in words.
fn existing(what: &str, ids: &[String]) -> String {
    let more = ids.len().saturating_sub(LISTED);
    match (ids.is_empty(), more) {
        (true, _) => format!("there are no {what}"),
        (false, 0) => format!("{what}: {}", ids.join(", ")),
        (false, more) => format!("{what}: {} and {more} more", ids[..LISTED].join(", ")),
    }
}

#[cfg(test)]
mod tests;
