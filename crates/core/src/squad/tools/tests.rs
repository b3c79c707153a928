use insta::assert_snapshot;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::coordinator::Fold;
use crate::record::{Glance, SquadLoop, SquadResume, SquadTurnFinish, print};
use crate::timestamp::Timestamp;

const ENUMERATE: u64 = 1;
const REVIEW_OF_TASKS: u64 = 2;
const PLAN: u64 = 3;
const BUILD: u64 = 4;
const REVISE: u64 = 5;
const REVIEW: u64 = 6;
const CHECKPOINT: u64 = 7;
const REVIEW_OF_BUILD: u64 = 8;
const CONFLICT: u64 = 9;
/// One that has ended, and one whose harness was killed, are not counted.
const OPEN: u64 = CONFLICT;

fn apply(squad: &mut Squad, record: &Record) {
    let mut line = Vec::new();
    print(record, &mut line);
    squad.apply(&Glance::read(line.trim_ascii_end()).unwrap());
}

fn heading() -> Heading {
    Heading { run: "crow".into(), iteration: String::new(), now: Timestamp::from_millis(1) }
}

/// A squad whose turns are all open: tasks `t1` to `t3`, of which the first two have loops and groups.
fn squad() -> Squad {
    let mut squad = Squad::new("crow");
    let mut turn = 0;
    let mut begin = |phase: SquadPhase, subject: Option<SquadSubject>, of: Option<u64>| {
        turn += 1;
        let task_id = of.filter(|_| phase != SquadPhase::Checkpoint).map(|of| format!("t{of}"));
        SquadTurn {
            turn,
            phase: phase.into(),
            subject: subject.map(Into::into),
            loop_id: of.map(|of| format!("crow-{of}")),
            task_id,
            ..SquadTurn::default()
        }
        .record(&heading())
    };
    let task = |id: &str| {
        let (task_id, title) = (id.to_owned(), format!("do {id}"));
        let acceptance = (id == "t2").then(|| "it works".to_owned());
        let task = SquadTask { turn: Some(1), task_id, title, acceptance, ..SquadTask::default() };
        task.record(&heading())
    };
    let start = |id: u64| {
        let (loop_id, task_id) = (format!("crow-{id}"), format!("t{id}"));
        SquadLoop { loop_id, task_id, group: 1, ..SquadLoop::default() }.record(&heading())
    };
    let group = SquadGroup { turn: Some(3), tasks: "t1,t2".into() };
    for record in [
        begin(SquadPhase::Enumerate, None, None),
        task("t1"),
        task("t2"),
        task("t3"),
        begin(SquadPhase::Review, Some(SquadSubject::Enumerate), None),
        begin(SquadPhase::Plan, None, None),
        group.record(&heading()),
        start(1),
        start(2),
        begin(SquadPhase::Build, None, Some(1)),
        begin(SquadPhase::Revise, None, Some(2)),
        begin(SquadPhase::Review, Some(SquadSubject::Task), Some(2)),
        begin(SquadPhase::Checkpoint, Some(SquadSubject::Progress), Some(1)),
        begin(SquadPhase::Review, Some(SquadSubject::Build), None),
        begin(SquadPhase::Conflict, None, Some(2)),
        SquadContext { turn: 1, key: "style".into(), text: "short\n".into() }.record(&heading()),
    ] {
        apply(&mut squad, &record);
    }
    squad
}

fn accepted(turn: u64, tool: &str, arguments: Value) -> Accepted {
    call(&squad(), turn, tool, &arguments.to_string()).unwrap()
}

/// The record of a call, and the answer to its agent.
fn record_of(turn: u64, tool: &str, arguments: Value) -> String {
    let Accepted { event, answer } = accepted(turn, tool, arguments);
    let mut line = Vec::new();
    print(&event.unwrap().record(&heading()), &mut line);
    let line = String::from_utf8(line).unwrap();
    let (_, fields) = line.split_once("\"topic\": ").unwrap();
    let (fields, _) = fields.split_once(", \"ts\"").unwrap();
    format!("{fields}\n-> {answer}\n")
}

fn refused(turn: u64, tool: &str, arguments: Value) -> String {
    let refusal = call(&squad(), turn, tool, &arguments.to_string()).unwrap_err().to_string();
    refusal.split("; expected {").next().unwrap_or_default().to_owned()
}

#[test]
fn the_tools_of_a_turn_are_those_of_its_phase() {
    let squad = squad();
    let listed: Vec<_> = (1..=OPEN)
        .map(|turn| {
            let start = &squad.turn(turn).unwrap().start;
            let names: Vec<_> = tools(start).into_iter().map(|tool| tool.name).collect();
            let about = start.subject.as_ref().map_or("-", |subject| subject.as_str());
            format!("{} {about}: {}", start.phase, names.join(" "))
        })
        .collect();
    assert_snapshot!(listed.join("\n"), @r"
    enumerate -: write_task write_context read_context record_cost
    review enumerate: set_review_result cite_command get_task write_context read_context record_cost
    plan -: add_plan_group get_task write_context read_context record_cost
    build -: complete_task fail_task get_task write_context read_context record_cost
    revise -: complete_task fail_task get_task write_context read_context record_cost
    review task: set_loop_review_result cite_command get_task write_context read_context record_cost
    checkpoint progress: set_loop_review_result cite_command get_task write_context read_context record_cost
    review build: set_review_result cite_command get_task write_context read_context record_cost
    conflict -: get_task write_context read_context record_cost
    ");
    // Of a later version.
    let unknown = SquadTurn { phase: "celebrate".into(), ..SquadTurn::default() };
    assert_eq!(tools(&unknown).len(), 3);
}

/// The specification of reviews has this schema.
#[test]
fn the_verdict_tool_has_exactly_the_specified_schema() {
    let squad = squad();
    for turn in [REVIEW, CHECKPOINT] {
        let spec = tools(&squad.turn(turn).unwrap().start).remove(0);
        assert_eq!(
            json!(spec).to_string(),
            json!({
                "name": "set_loop_review_result",
                "description": "Report review results for a specific loop",
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "loopId": { "type": "string", "description": "The loop being reviewed" },
                        "taskId": { "type": "string", "description": "The task that was reviewed (optional for checkpoint reviews)" },
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
                }
            })
            .to_string()
        );
    }
}

#[test]
fn a_verdict_is_stored_as_it_was_given() {
    let issue = |line: Value| json!({ "file": "a.rs", "line": line, "type": "dead-code", "description": "x", "suggestion": "y" });
    let records: String = [
        (REVIEW, json!({ "loopId": "crow-2", "taskId": "t2", "passed": true, "interpretedIntent": "", "intentSatisfied": true })),
        (REVIEW, json!({ "loopId": "crow-2", "passed": true, "intentSatisfied": false })),
        (REVIEW, json!({ "loopId": "crow-2", "passed": false, "issues": [issue(json!(3)), { "description": "it\nfails" }] })),
        (REVIEW, json!({ "loopId": "crow-2", "passed": false, "issues": [issue(json!(1.5)), { "description": "x", "file": null, "severity": 1, "taskId": "t1" }] })),
        (CHECKPOINT, json!({ "loopId": "crow-1", "taskId": "t1", "passed": false })),
        (CHECKPOINT, json!({ "loopId": "crow-1", "taskId": "", "passed": true, "issues": [] })),
    ]
    .into_iter()
    .map(|(turn, arguments)| record_of(turn, "set_loop_review_result", arguments))
    .chain([record_of(
        REVIEW_OF_BUILD,
        "set_review_result",
        json!({ "passed": false, "issues": [{ "taskId": "t3", "description": "missing" }] }),
    )])
    .collect();
    assert_snapshot!(records, @r#"
    "squad.answer", "fields": {"turn": "6", "loop_id": "crow-2", "task_id": "t2", "passed": true, "interpreted_intent": "", "intent_satisfied": true, "issues": "[]"}
    -> stored a pass; the last result before you end counts
    "squad.answer", "fields": {"turn": "6", "loop_id": "crow-2", "task_id": "t2", "passed": true, "intent_satisfied": false, "issues": "[]"}
    -> stored a fail (the intent is not satisfied); the last result before you end counts
    "squad.answer", "fields": {"turn": "6", "loop_id": "crow-2", "task_id": "t2", "passed": false, "issues": "[{\u0022file\u0022:\u0022a.rs\u0022,\u0022line\u0022:3,\u0022type\u0022:\u0022dead-code\u0022,\u0022description\u0022:\u0022x\u0022,\u0022suggestion\u0022:\u0022y\u0022},{\u0022description\u0022:\u0022it\u005cnfails\u0022}]"}
    -> stored a fail with 2 issues; the last result before you end counts
    "squad.answer", "fields": {"turn": "6", "loop_id": "crow-2", "task_id": "t2", "passed": false, "issues": "[{\u0022file\u0022:\u0022a.rs\u0022,\u0022line\u0022:1.5,\u0022type\u0022:\u0022dead-code\u0022,\u0022description\u0022:\u0022x\u0022,\u0022suggestion\u0022:\u0022y\u0022},{\u0022description\u0022:\u0022x\u0022}]"}
    -> stored a fail with 2 issues; the last result before you end counts
    "squad.answer", "fields": {"turn": "7", "loop_id": "crow-1", "passed": false, "issues": "[]"}
    -> stored a fail; the last result before you end counts
    "squad.answer", "fields": {"turn": "7", "loop_id": "crow-1", "passed": true, "issues": "[]"}
    -> stored a pass; the last result before you end counts
    "squad.answer", "fields": {"turn": "8", "passed": false, "issues": "[{\u0022taskId\u0022:\u0022t3\u0022,\u0022description\u0022:\u0022missing\u0022}]"}
    -> stored a fail with 1 issue; the last result before you end counts
    "#);
}

/// What is read back from the journal is what was said.
#[test]
fn an_answer_is_folded_with_its_issues() {
    let mut squad = squad();
    let issues = json!([{ "line": 3, "description": "it \"fails\"\n", "type": "dead-code" }]);
    let arguments = json!({ "loopId": "crow-2", "passed": false, "issues": issues });
    let Accepted { event, .. } =
        call(&squad, REVIEW, "set_loop_review_result", &arguments.to_string()).unwrap();
    apply(&mut squad, &event.unwrap().record(&heading()));
    let answer = squad.turn(REVIEW).unwrap().answer().unwrap();
    assert_eq!((answer.passed, answer.intent_satisfied), (false, None));
    assert_eq!(json!(answer.issues), issues);
}

#[test]
fn every_other_call_is_one_record_too() {
    let records: String = [
        (ENUMERATE, "write_task", json!({ "taskId": "t4", "title": "parse", "description": "all of it" })),
        (ENUMERATE, "write_task", json!({ "taskId": "t4", "title": "parse", "description": "", "acceptance": "it parses" })),
        (PLAN, "add_plan_group", json!({ "taskIds": ["t3"] })),
        (BUILD, "complete_task", json!({})),
        (REVISE, "complete_task", json!({ "taskId": "t2" })),
        (BUILD, "fail_task", json!({ "taskId": "t1", "reason": "no network" })),
        (BUILD, "fail_task", json!({})),
        (REVIEW, "cite_command", json!({ "command": " cargo test\n" })),
        (CONFLICT, "write_context", json!({ "key": "base url", "text": "a\nb" })),
        (BUILD, "record_cost", json!({ "costUsd": 0.25, "what": "search" })),
    ]
    .into_iter()
    .map(|(turn, tool, arguments)| record_of(turn, tool, arguments))
    .collect();
    assert_snapshot!(records, @r#"
    "squad.task", "fields": {"turn": "1", "task_id": "t4", "title": "parse", "description": "all of it"}
    -> added task t4
    "squad.task", "fields": {"turn": "1", "task_id": "t4", "title": "parse", "description": "", "acceptance": "it parses"}
    -> added task t4
    "squad.group", "fields": {"turn": "3", "tasks": "t3"}
    -> added group 2; there are no tasks without a group
    "squad.report", "fields": {"turn": "4", "task_id": "t1", "claim": "complete", "reason": ""}
    -> task t1 is reported as complete; it is reviewed when you end
    "squad.report", "fields": {"turn": "5", "task_id": "t2", "claim": "complete", "reason": ""}
    -> task t2 is reported as complete; it is reviewed when you end
    "squad.report", "fields": {"turn": "4", "task_id": "t1", "claim": "fail", "reason": "no network"}
    -> task t1 is given up when you end
    "squad.report", "fields": {"turn": "4", "task_id": "t1", "claim": "fail", "reason": ""}
    -> task t1 is given up when you end
    "squad.cited", "fields": {"turn": "6", "command": "cargo test"}
    -> stored; it is run again when you end
    "squad.context", "fields": {"turn": "9", "key": "base url", "text": "a\u000ab"}
    -> stored base url
    "squad.cost", "fields": {"turn": "4", "cost_usd": 0.25, "what": "search"}
    -> recorded $0.25
    "#);
}

#[test]
fn a_question_stores_nothing() {
    let answers: Vec<_> = [
        (BUILD, "get_task", json!({})),
        (CHECKPOINT, "get_task", json!({ "taskId": "" })),
        (BUILD, "get_task", json!({ "taskId": "t2" })),
        (BUILD, "read_context", json!({})),
        (BUILD, "read_context", json!({ "key": "style" })),
    ]
    .into_iter()
    .map(|(turn, tool, arguments)| {
        let Accepted { event, answer } = accepted(turn, tool, arguments);
        assert_eq!(event, None);
        answer
    })
    .collect();
    assert_snapshot!(answers.join("\n"), @r#"
    {
      "taskId": "t1",
      "title": "do t1",
      "description": ""
    }
    {
      "taskId": "t1",
      "title": "do t1",
      "description": ""
    }
    {
      "taskId": "t2",
      "title": "do t2",
      "description": "",
      "acceptance": "it works"
    }
    keys: style
    short
    "#);
}

#[test]
fn a_command_is_cited_once_and_not_many_are() {
    let mut squad = squad();
    let cite = |squad: &Squad, command: &str| {
        call(squad, REVIEW, "cite_command", &json!({ "command": command }).to_string())
    };
    for number in 0..MAX_CITED {
        let event = cite(&squad, &format!("make t{number}")).unwrap().event.unwrap();
        apply(&mut squad, &event.record(&heading()));
    }
    let again = cite(&squad, "make t3 ").unwrap();
    assert_eq!((again.event, again.answer), (None, "it is cited already".into()));
    assert_snapshot!(cite(&squad, "make more").unwrap_err(), @"10 commands are cited already, and more are not run");
}

#[test]
fn a_tool_of_another_turn_is_unknown() {
    assert_snapshot!(refused(BUILD, "set_loop_review_result", json!({ "loopId": "crow-1", "passed": true })), @"unknown tool 'set_loop_review_result': the tools of this agent are complete_task, fail_task, get_task, write_context, read_context, record_cost");
    assert_snapshot!(refused(REVIEW, "complete_task", json!({})), @"unknown tool 'complete_task': the tools of this agent are set_loop_review_result, cite_command, get_task, write_context, read_context, record_cost");
    assert_snapshot!(refused(REVIEW, "set_review_result", json!({ "passed": true })), @"unknown tool 'set_review_result': the tools of this agent are set_loop_review_result, cite_command, get_task, write_context, read_context, record_cost");
    assert_snapshot!(refused(REVIEW_OF_TASKS, "set_loop_review_result", json!({ "loopId": "crow-1", "passed": true })), @"unknown tool 'set_loop_review_result': the tools of this agent are set_review_result, cite_command, get_task, write_context, read_context, record_cost");
    assert_snapshot!(refused(CONFLICT, "give\nup", json!({})), @r"unknown tool 'give\nup': the tools of this agent are get_task, write_context, read_context, record_cost");
}

#[test]
fn a_verdict_on_anything_else_is_refused() {
    let verdict = |loop_id: &str, more: Value| {
        let mut arguments = json!({ "loopId": loop_id, "passed": true });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused(REVIEW, "set_loop_review_result", arguments)
    };
    let good = json!({ "description": "x" });
    let refused = [
        // The loop of another agent, one of another run, and none.
        verdict("crow-1", json!({})),
        verdict("heron-2", json!({})),
        verdict("", json!({})),
        verdict("crow-2", json!({ "taskId": "t1" })),
        verdict("crow-2", json!({ "taskId": "t9" })),
        verdict("crow-2", json!({ "passed": "true" })),
        verdict("crow-2", json!({ "passed": null })),
        verdict("crow-2", json!({ "intentSatisfied": "no" })),
        verdict("crow-2", json!({ "interpretedIntent": ["x"] })),
        verdict("crow-2", json!({ "issues": "none" })),
        verdict("crow-2", json!({ "issues": { "description": "x" } })),
        verdict("crow-2", json!({ "issues": [good, good, "x"] })),
        verdict("crow-2", json!({ "issues": [good, good, { "description": "x", "line": "12" }] })),
        verdict("crow-2", json!({ "issues": [good, good, { "file": "a.rs" }] })),
        verdict("crow-2", json!({ "issues": [good, good, { "description": " \n" }] })),
        verdict("crow-2", json!({ "issues": [good, good, { "descrption": "x" }] })),
        verdict("crow-2", json!({ "isues": [] })),
        refused(REVIEW, "set_loop_review_result", json!({ "loopId": "crow-2" })),
        refused(REVIEW, "set_loop_review_result", json!({ "passed": true })),
        refused(REVIEW, "set_loop_review_result", json!([])),
        refused(
            CHECKPOINT,
            "set_loop_review_result",
            json!({ "loopId": "crow-1", "taskId": "t2", "passed": true }),
        ),
        refused(
            REVIEW_OF_BUILD,
            "set_review_result",
            json!({ "passed": false, "issues": [good, { "taskId": "t9", "description": "x" }] }),
        ),
    ];
    assert_snapshot!(refused.join("\n"), @r#"
    invalid loopId 'crow-1': this review is of loop crow-2
    invalid loopId 'heron-2': this review is of loop crow-2
    invalid loopId '': this review is of loop crow-2
    invalid taskId 't1': this agent works on task t2
    invalid taskId 't9': this agent works on task t2
    invalid arguments of set_loop_review_result: passed must be a boolean, not the string "true"
    invalid arguments of set_loop_review_result: passed must be a boolean, not null
    invalid arguments of set_loop_review_result: intentSatisfied must be a boolean, not the string "no"
    invalid arguments of set_loop_review_result: interpretedIntent must be a string, not an array
    invalid arguments of set_loop_review_result: issues must be an array, not the string "none"
    invalid arguments of set_loop_review_result: issues must be an array, not an object
    invalid arguments of set_loop_review_result: issues[2] must be an object, not the string "x"
    invalid arguments of set_loop_review_result: issues[2].line must be a number, not the string "12"
    issues[2] has no description: expected what is wrong
    issues[2] has no description: expected what is wrong
    invalid arguments of set_loop_review_result: unknown field issues[2].descrption: did you mean description?
    invalid arguments of set_loop_review_result: unknown field isues: did you mean issues?
    invalid arguments of set_loop_review_result: passed is missing
    invalid arguments of set_loop_review_result: loopId is missing
    invalid arguments of set_loop_review_result: it must be an object, not an array
    invalid taskId 't2': this agent works on task t1
    issues[1].taskId: unknown task 't9'; tasks: t1, t2, t3
    "#);
}

#[test]
fn other_invalid_calls_are_refused() {
    let task = |id: &str, title: &str| json!({ "taskId": id, "title": title, "description": "x" });
    let refused = [
        refused(ENUMERATE, "write_task", task("t1", "again")),
        refused(ENUMERATE, "write_task", task("two words", "x")),
        refused(ENUMERATE, "write_task", task("a,b", "x")),
        refused(ENUMERATE, "write_task", task("-t", "x")),
        refused(ENUMERATE, "write_task", task("", "x")),
        refused(ENUMERATE, "write_task", task("t4", " ")),
        refused(ENUMERATE, "write_task", task("t4", &"x".repeat(queue::LONGEST_TITLE + 1))),
        refused(ENUMERATE, "write_task", json!({ "taskId": "t4", "title": "x" })),
        refused(PLAN, "add_plan_group", json!({ "taskIds": ["t3", "t9"] })),
        refused(PLAN, "add_plan_group", json!({ "taskIds": ["t3", "t1"] })),
        refused(PLAN, "add_plan_group", json!({ "taskIds": ["t3", "t3"] })),
        refused(PLAN, "add_plan_group", json!({ "taskIds": [] })),
        refused(PLAN, "add_plan_group", json!({ "taskIds": "t3" })),
        refused(PLAN, "add_plan_group", json!({ "taskIds": ["t3", 4] })),
        refused(BUILD, "complete_task", json!({ "taskId": "t2" })),
        refused(BUILD, "fail_task", json!({ "taskId": "t2" })),
        refused(REVIEW, "cite_command", json!({ "command": " \n" })),
        refused(REVIEW, "cite_command", json!({ "command": "x".repeat(LONGEST_COMMAND + 1) })),
        refused(REVIEW_OF_TASKS, "get_task", json!({})),
        refused(BUILD, "get_task", json!({ "taskId": "t9" })),
        refused(BUILD, "write_context", json!({ "key": "a\nb", "text": "" })),
        refused(BUILD, "write_context", json!({ "key": "x".repeat(LONGEST_KEY + 1), "text": "" })),
        refused(BUILD, "read_context", json!({ "key": "stile" })),
        refused(BUILD, "record_cost", json!({ "costUsd": -0.01 })),
        refused(BUILD, "record_cost", json!({ "costUsd": "0.01" })),
    ];
    assert_snapshot!(refused.join("\n"), @r#"
    duplicate task id 't1'
    invalid task id 'two words': expected one word of at most 200 bytes
    invalid task id 'a,b': expected one word of at most 200 bytes
    invalid task id '-t': expected one word of at most 200 bytes
    invalid task id '': expected one word of at most 200 bytes
    the title is empty: expected one line that says what to do
    the title has 1025 bytes: the limit is 1024
    invalid arguments of write_task: description is missing
    taskIds[1]: unknown task 't9'; tasks: t1, t2, t3
    task t1 is in group 1 already
    task t3 occurs twice in the group
    the group is empty; tasks without a group: t3
    invalid arguments of add_plan_group: taskIds must be an array, not the string "t3"
    invalid arguments of add_plan_group: taskIds[1] must be a string, not the number 4
    invalid taskId 't2': this agent works on task t1
    invalid taskId 't2': this agent works on task t1
    the command is empty: expected a line of a shell
    the command has 2001 characters: the limit is 2000
    taskId: unknown task ''; tasks: t1, t2, t3
    taskId: unknown task 't9'; tasks: t1, t2, t3
    invalid key 'a\nb': expected one line of 1 to 100 characters
    invalid key 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…': expected one line of 1 to 100 characters
    unknown key 'stile'; keys: style
    invalid costUsd -0.01: expected an amount that is not negative
    invalid arguments of record_cost: costUsd must be a number, not the string "0.01"
    "#);
}

#[test]
fn after_its_turn_an_agent_has_no_tools() {
    let called = |squad: &Squad, turn| call(squad, turn, "complete_task", "{}").map(|_| ());
    let mut squad = squad();
    assert_eq!(called(&squad, BUILD), Ok(()));
    assert_eq!(called(&squad, 0), Err(Refusal::Ended));
    assert_eq!(called(&squad, OPEN + 1), Err(Refusal::Ended));
    let finish = SquadTurnFinish { turn: BUILD, ..SquadTurnFinish::default() };
    apply(&mut squad, &finish.record(&heading()));
    assert_snapshot!(called(&squad, BUILD).unwrap_err(), @"the turn of this agent has ended: its tools cannot be called any more");
    assert_eq!(called(&squad, REVISE), Ok(()));
    // The harness that started them was killed.
    apply(&mut squad, &SquadResume::default().record(&heading()));
    assert_eq!(called(&squad, REVISE), Err(Refusal::Ended));
}

#[test]
fn a_long_list_of_tasks_is_shortened() {
    let ids: Vec<_> = (0..LISTED + 5).map(|number| format!("t{number}")).collect();
    assert!(existing("tasks", &ids).ends_with("t29 and 5 more"));
    assert_eq!(existing("tasks", &[]), "there are no tasks");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((any::<String>(), inner), 0..4).prop_map(Value::from_iter),
        ]
    })
}

/// What a schema describes, for the most part.
fn any_of(schema: &Value) -> BoxedStrategy<Value> {
    const WORDS: [&str; 8] = ["crow-1", "crow-2", "t1", "t2", "t3", "t4", "style", " "];
    let valid = match schema["type"].as_str().unwrap() {
        "string" => prop::sample::select(WORDS.to_vec()).prop_map(Value::from).boxed(),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "number" => any::<i8>().prop_map(Value::from).boxed(),
        "array" => vec(any_of(&schema["items"]), 0..3).prop_map(Value::from).boxed(),
        _ => {
            let field = |(name, schema): (&String, &Value)| {
                let name = prop_oneof![20 => Just(name.clone()), 1 => Just(format!("{name}s"))];
                prop::option::weighted(0.8, (name, any_of(schema)))
            };
            let fields: Vec<_> =
                schema["properties"].as_object().unwrap().iter().map(field).collect();
            fields.prop_map(|fields| Value::from_iter(fields.into_iter().flatten())).boxed()
        }
    };
    prop_oneof![12 => valid, 1 => any_json()].boxed()
}

fn any_call() -> impl Strategy<Value = (u64, String, Value)> {
    let of_turn = |turn| prop::sample::select(tools(&squad().turn(turn).unwrap().start));
    (1..=OPEN).prop_flat_map(move |turn| {
        let called = of_turn(turn).prop_flat_map(|spec| (Just(spec.name), any_of(&spec.schema)));
        called.prop_map(move |(tool, arguments)| (turn, tool, arguments))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Whatever an agent sends, there is an event only if it is about the work of its turn.
    #[test]
    fn only_valid_arguments_become_an_event((turn, tool, arguments) in any_call()) {
        let squad = squad();
        let Ok(Accepted { event: Some(event), .. }) = call(&squad, turn, &tool, &arguments.to_string())
        else {
            return Ok(());
        };
        let start = &squad.turn(turn).unwrap().start;
        let spec = tools(start).into_iter().find(|spec| spec.name == tool);
        let required = spec.expect("the turn has the tool").schema["required"].take();
        for name in required.as_array().into_iter().flatten() {
            prop_assert!(!arguments[name.as_str().unwrap()].is_null());
        }
        match event {
            ToolEvent::Answer(answer) => {
                prop_assert_eq!(&json!(answer.passed), &arguments["passed"]);
                prop_assert_eq!(&answer.loop_id, &start.loop_id);
                prop_assert_eq!(&answer.task_id, &start.task_id);
                prop_assert_eq!(json!(answer.intent_satisfied), arguments["intentSatisfied"].clone());
                let issues: Vec<Value> = serde_json::from_str(&answer.issues.read()).unwrap();
                let given = arguments["issues"].as_array().map_or(0, Vec::len);
                prop_assert_eq!(issues.len(), given);
                prop_assert!(issues.iter().all(|issue| issue["description"].is_string()));
            }
            ToolEvent::Task(task) => prop_assert!(squad.task(&task.task_id).is_none()),
            ToolEvent::Group(group) => prop_assert_eq!(group.tasks, "t3"),
            ToolEvent::Report(report) => {
                prop_assert_eq!(Some(report.task_id), start.task_id.clone());
            }
            ToolEvent::Cited(cited) => prop_assert!(!cited.command.trim().is_empty()),
            ToolEvent::Context(context) => prop_assert!(!context.key.is_empty()),
            ToolEvent::Cost(cost) => prop_assert!(arguments["costUsd"].as_f64() >= Some(0.0), "{:?}", cost),
        }
    }

    /// A tool of another turn is none, whatever it is sent.
    #[test]
    fn no_other_tool_becomes_an_event(turn in 0..=OPEN + 1, (of, tool, arguments) in any_call()) {
        let squad = squad();
        let names = |turn| {
            let turn: Option<&Turn> = squad.turn(turn);
            turn.map(|turn| tools(&turn.start)).unwrap_or_default().into_iter().map(|tool| tool.name)
        };
        if !names(turn).any(|name| name == tool) {
            prop_assert!(names(of).any(|name| name == tool));
            prop_assert!(call(&squad, turn, &tool, &arguments.to_string()).is_err());
        }
    }

    #[test]
    fn any_text_is_answered(turn in 0..=OPEN, tool in any::<String>(), arguments in any::<String>()) {
        prop_assert!(call(&squad(), turn, &tool, &arguments).is_err());
    }
}
