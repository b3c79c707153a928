//! `autoloop store` and the views of squads, of journals that are sealed as the harness seals them.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::sync::Arc;

use autoloop_core::record::{SquadEnd, SquadPhase, SquadSubject};
use autoloop_runtime::world::{Secret, World};
use autoloop_testkit::Sandbox;
use autoloop_testkit::squads::{SquadWriter, sample};
use insta::assert_snapshot;

/// A project of a user with a key of its own.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let state = sandbox.path("state");
    fs::create_dir_all(sandbox.path(".autoloop")).unwrap();
    sandbox.env("XDG_STATE_HOME", state)
}

fn writer(sandbox: &Sandbox, run: &str) -> SquadWriter {
    let key = sandbox.path("state/autoloop/key");
    fs::create_dir_all(key.parent().unwrap()).unwrap();
    let world = World { secret: Arc::new(Secret::in_file(Some(key))), ..World::real() };
    SquadWriter::new(&world, &sandbox.path(".autoloop/journal.jsonl"), run)
}

fn blocked(sandbox: &Sandbox, run: &str) -> SquadWriter {
    let mut squad = writer(sandbox, run);
    sample(&mut squad);
    squad
}

#[test]
fn a_query_prints_lines_or_objects() {
    let sandbox = sandbox();
    blocked(&sandbox, "swift-otter");
    // The example of the documentation, which is a promise.
    let query = "select loop_id, task_id, passed, interpreted_intent, intent_satisfied, reviewed_at from loop_reviews order by reviewed_at";
    assert_snapshot!(sandbox.run(&["store", "sql", query]).to_string(), @"
    exit 0
    --- stdout
    loop_id	task_id	passed	interpreted_intent	intent_satisfied	reviewed_at
    swift-otter-1	parser	1	a title is never empty	1	[TS]
    swift-otter-2	printer	0	a title is never empty		[TS]
    swift-otter-2	printer	0	a title is never empty		[TS]
    swift-otter-2	printer	0			[TS]
    ");
    let json =
        ["store", "sql", "select id, intent_satisfied, cost_usd from loop_reviews", "--json"];
    assert_snapshot!(sandbox.run(&json).to_string(), @r#"
    exit 0
    --- stdout
    [
      {
        "id": "swift-otter-2-1",
        "intent_satisfied": 1,
        "cost_usd": 0.125
      },
      {
        "id": "swift-otter-4-1",
        "intent_satisfied": null,
        "cost_usd": 0.125
      },
      {
        "id": "swift-otter-6-1",
        "intent_satisfied": null,
        "cost_usd": 0.125
      },
      {
        "id": "swift-otter-9",
        "intent_satisfied": null,
        "cost_usd": 0.0625
      }
    ]
    "#);
    let none = "select id from loops where id = ''";
    assert_snapshot!(sandbox.run(&["store", "sql", none]).to_string(), @"
    exit 0
    --- stdout
    id
    ");
    assert_snapshot!(sandbox.run(&["store", "sql", none, "--json"]).to_string(), @"
    exit 0
    --- stdout
    []
    ");
    let elsewhere = ["store", "sql", "select count(*) from loops", "."];
    assert_snapshot!(sandbox.run(&elsewhere).to_string(), @"
    exit 0
    --- stdout
    count(*)
    2
    ");
}

#[test]
fn a_bad_query_is_refused_with_a_hint() {
    let sandbox = sandbox();
    blocked(&sandbox, "swift-otter");
    let refused = ["selec 1", "select 1; select 2", "delete from runs"]
        .map(|query| sandbox.run(&["store", "sql", query]).to_string());
    assert_snapshot!(refused.join("\n"), @r#"
    exit 2
    --- stderr
    autoloop: near "selec": syntax error
      hint: give one statement that only reads; `autoloop store sql "select name, sql from sqlite_schema"` lists the tables
    exit 2
    --- stderr
    autoloop: more than one statement
      hint: give one statement that only reads; `autoloop store sql "select name, sql from sqlite_schema"` lists the tables
    exit 2
    --- stderr
    autoloop: attempt to write a readonly database
      hint: give one statement that only reads; `autoloop store sql "select name, sql from sqlite_schema"` lists the tables
    "#);
}

#[test]
fn a_database_that_cannot_be_used_is_reported_and_rebuilt() {
    let sandbox = sandbox();
    blocked(&sandbox, "swift-otter");
    let query = ["store", "sql", "select id, status from loops"];
    let rows = sandbox.run(&query);
    sandbox.write(".autoloop/autoloop.db", "no database ".repeat(100));
    assert_snapshot!(sandbox.run(&query).to_string(), @"
    exit 1
    --- stderr
    autoloop: .autoloop/autoloop.db is damaged: file is not a database
      hint: build it again from the journal with `autoloop store rebuild`
    ");
    assert_snapshot!(sandbox.run(&["store", "rebuild"]).to_string(), @"exit 0");
    assert_eq!(sandbox.run(&query), rows);
}

#[test]
fn a_project_without_runs_has_no_tables() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    assert_snapshot!(sandbox.run(&["store", "sql", "select 1"]).to_string(), @"
    exit 1
    --- stderr
    autoloop: no runs in .autoloop yet
      hint: start one with `autoloop squad`
    ");
    assert!(!sandbox.path(".autoloop").exists());
}

#[test]
fn a_squad_is_shown_with_what_blocks_it() {
    let sandbox = sandbox();
    let mut squad = blocked(&sandbox, "swift-otter");
    assert_snapshot!(sandbox.run(&["inspect", "squad"]).to_string(), @r#"
    exit 0
    --- stdout
    squad swift-otter: crashed, 0 of 3 tasks merged: $1.75, 10.8k tokens
      1  swift-otter-1  parser   passed   review passed                1 iteration, $0.62, 2.4k tokens   write the parser
      1  swift-otter-2  printer  stuck    review failed, revision 2/2  3 iterations, $1.12, 8.4k tokens  2 revisions did not pass: the review was not delivered
      2  -              manual   waiting                                                                 write the manual
    resolve swift-otter-2 with `autoloop squad resolve swift-otter-2 --retry|--skip|--accept "reason"`
    "#);
    squad.finish(SquadEnd::Blocked, "swift-otter-2 (printer) is stuck");
    assert_snapshot!(sandbox.run(&["inspect", "squad", "--run", "swift"]).to_string(), @r#"
    exit 0
    --- stdout
    squad swift-otter: stopped (blocked), 0 of 3 tasks merged: $1.75, 10.8k tokens
      1  swift-otter-1  parser   passed   review passed                1 iteration, $0.62, 2.4k tokens   write the parser
      1  swift-otter-2  printer  stuck    review failed, revision 2/2  3 iterations, $1.12, 8.4k tokens  2 revisions did not pass: the review was not delivered
      2  -              manual   waiting                                                                 write the manual
    resolve swift-otter-2 with `autoloop squad resolve swift-otter-2 --retry|--skip|--accept "reason"`
    "#);
    assert_snapshot!(sandbox.run(&["inspect", "squad", "--format", "md"]).to_string(), @r#"
    exit 0
    --- stdout
    # Squad swift-otter

    stopped (blocked), 0 of 3 tasks merged: $1.75, 10.8k tokens

    | group | loop | task | state | review | iteration | usage | about |
    |---|---|---|---|---|---|---|---|
    | 1 | swift-otter-1 | parser | passed | review passed | 1 | $0.62, 2.4k tokens | write the parser |
    | 1 | swift-otter-2 | printer | stuck | review failed, revision 2/2 | 3 | $1.12, 8.4k tokens | 2 revisions did not pass: the review was not delivered |
    | 2 | - | manual | waiting |  |  |  | write the manual |

    - resolve swift-otter-2 with `autoloop squad resolve swift-otter-2 --retry|--skip|--accept "reason"`
    "#);
    assert_snapshot!(sandbox.run(&["inspect", "squad", "--format", "json"]).to_string(), @r#"
    exit 0
    --- stdout
    {
      "run": "swift-otter",
      "status": "stopped",
      "outcome": "blocked",
      "reason": "swift-otter-2 (printer) is stuck",
      "effort": "low",
      "tasks": 3,
      "merged": 0,
      "head": "base",
      "cost_usd": 1.75,
      "tokens": 10800,
      "groups": [
        {
          "group": 1,
          "loops": [
            {
              "task": "parser",
              "title": "write the parser",
              "id": "swift-otter-1",
              "status": "passed",
              "reason": null,
              "review_status": "passed",
              "last_review": "swift-otter-2-1",
              "revision": 0,
              "max_revisions": 2,
              "iteration": 1,
              "branch": "autoloop/swift-otter-1",
              "worktree": "/trees/swift-otter-1",
              "base": "base",
              "commit": "commit-1",
              "cost_usd": 0.625,
              "tokens": 2400,
              "resolve": null
            },
            {
              "task": "printer",
              "title": "write the printer",
              "id": "swift-otter-2",
              "status": "stuck",
              "reason": "2 revisions did not pass: the review was not delivered",
              "review_status": "failed",
              "last_review": "swift-otter-9",
              "revision": 2,
              "max_revisions": 2,
              "iteration": 3,
              "branch": "autoloop/swift-otter-2",
              "worktree": "/trees/swift-otter-2",
              "base": "base",
              "commit": "commit-7",
              "cost_usd": 1.125,
              "tokens": 8400,
              "resolve": "autoloop squad resolve swift-otter-2 --retry|--skip|--accept \"reason\""
            }
          ]
        },
        {
          "group": 2,
          "loops": [
            {
              "task": "manual",
              "title": "write the manual",
              "id": null,
              "status": "waiting",
              "reason": null,
              "review_status": null,
              "last_review": null,
              "revision": 0,
              "max_revisions": 2,
              "iteration": 0,
              "branch": null,
              "worktree": null,
              "base": null,
              "commit": null,
              "cost_usd": 0.0,
              "tokens": 0,
              "resolve": null
            }
          ]
        }
      ]
    }
    "#);
}

#[test]
fn reviews_are_shown_with_their_issues() {
    let sandbox = sandbox();
    let mut squad = blocked(&sandbox, "swift-otter");
    squad.turn(SquadPhase::Checkpoint, Some(SquadSubject::Progress), Some((2, "printer")));
    assert_snapshot!(sandbox.run(&["inspect", "reviews"]).to_string(), @"
    exit 0
    --- stdout
    squad swift-otter: 1 of 5 reviews passed
      2   review      swift-otter-1  parser   pass         unverified
      4   review      swift-otter-2  printer  drift
          - `src/print.rs:12` (dead-code) unused import
            Suggestion: remove it
          - no test
      6   review      swift-otter-2  printer  drift
          - no test
      9   review      swift-otter-2  printer  violation
          the review was not delivered: the reviewer ended without an answer
      10  checkpoint  swift-otter-2  -        in progress
    ");
    assert_snapshot!(sandbox.run(&["inspect", "reviews", "--format", "md"]).to_string(), @"
    exit 0
    --- stdout
    # Reviews of squad swift-otter

    1 of 5 reviews passed

    ## Turn 2: review (swift-otter-1, parser): pass, unverified

    ## Turn 4: review (swift-otter-2, printer): drift

    - `src/print.rs:12` (dead-code) unused import
      Suggestion: remove it
    - no test

    ## Turn 6: review (swift-otter-2, printer): drift

    - no test

    ## Turn 9: review (swift-otter-2, printer): violation

    the review was not delivered: the reviewer ended without an answer

    ## Turn 10: checkpoint (swift-otter-2): in progress
    ");
    assert_snapshot!(sandbox.run(&["inspect", "reviews", "--format", "json"]).to_string(), @r#"
    exit 0
    --- stdout
    {
      "run": "swift-otter",
      "reviews": [
        {
          "id": "swift-otter-2-1",
          "turn": 2,
          "subject": "task",
          "loop_id": "swift-otter-1",
          "task_id": "parser",
          "commit": null,
          "verdict": "pass",
          "verified": false,
          "reason": null,
          "passed": true,
          "interpreted_intent": "a title is never empty",
          "intent_satisfied": true,
          "issues": []
        },
        {
          "id": "swift-otter-4-1",
          "turn": 4,
          "subject": "task",
          "loop_id": "swift-otter-2",
          "task_id": "printer",
          "commit": null,
          "verdict": "drift",
          "verified": false,
          "reason": null,
          "passed": false,
          "interpreted_intent": "a title is never empty",
          "intent_satisfied": null,
          "issues": [
            {
              "file": "src/print.rs",
              "line": 12,
              "type": "dead-code",
              "description": "unused import",
              "suggestion": "remove it"
            },
            {
              "description": "no test"
            }
          ]
        },
        {
          "id": "swift-otter-6-1",
          "turn": 6,
          "subject": "task",
          "loop_id": "swift-otter-2",
          "task_id": "printer",
          "commit": null,
          "verdict": "drift",
          "verified": false,
          "reason": null,
          "passed": false,
          "interpreted_intent": "a title is never empty",
          "intent_satisfied": null,
          "issues": [
            {
              "description": "no test"
            }
          ]
        },
        {
          "id": "swift-otter-9",
          "turn": 9,
          "subject": "task",
          "loop_id": "swift-otter-2",
          "task_id": "printer",
          "commit": null,
          "verdict": "violation",
          "verified": false,
          "reason": "the review was not delivered: the reviewer ended without an answer",
          "passed": null,
          "interpreted_intent": null,
          "intent_satisfied": null,
          "issues": []
        },
        {
          "id": null,
          "turn": 10,
          "subject": "progress",
          "loop_id": "swift-otter-2",
          "task_id": null,
          "commit": null,
          "verdict": null,
          "verified": null,
          "reason": null,
          "passed": null,
          "interpreted_intent": null,
          "intent_satisfied": null,
          "issues": []
        }
      ]
    }
    "#);
}

#[test]
fn only_a_squad_is_shown_as_one() {
    let sandbox = sandbox();
    assert_snapshot!(sandbox.run(&["inspect", "squad"]).to_string(), @"
    exit 1
    --- stderr
    autoloop: no squad in .autoloop/journal.jsonl yet
      hint: start one with `autoloop squad`
    ");
    sandbox.write_journal(concat!(
        r#"{"run": "calm-heron", "iteration": "", "topic": "squad.start", "fields": {"effort": "low"}}"#,
        "\n"
    ));
    assert_snapshot!(sandbox.run(&["inspect", "reviews", "--run", "calm-heron"]).to_string(), @"
    exit 1
    --- stderr
    autoloop: 'calm-heron' is not a squad
      hint: show it with `autoloop loops show calm-heron`
    ");
}
