//! The answers of reviewers as rows: what is stored, and what is refused.

use insta::assert_snapshot;

use crate::scene::*;

const REVIEWS: &str = "select loop_id, task_id, passed, interpreted_intent, intent_satisfied from loop_reviews order by reviewed_at";
const ISSUES: &str = "select loop_id, loop_review_id is not null, file, line, type, description, suggestion from review_issues order by id";

#[test]
fn an_answer_is_stored_as_it_was_given() {
    let review = r#"case $N in
        1) answer false '"taskId":"a","interpretedIntent":"a file","intentSatisfied":false,"issues":[
            {"file":"a.txt","line":7,"type":"dead-code","description":"unused","suggestion":"remove it"},
            {"description":"no test"}]';;
        2) answer true '"intentSatisfied":false';;
        *) answer true '"intentSatisfied":true';;
        esac"#;
    let sandbox = project(Agents { review, ..GOOD }, &[&["a"]], "");
    completes(&sandbox, "");
    assert_snapshot!(sql(&sandbox, REVIEWS), @r"
    loop_id	task_id	passed	interpreted_intent	intent_satisfied
    [RUN]-1	a	0	a file	0
    [RUN]-1	a	1		0
    [RUN]-1	a	1		1
    ");
    assert_snapshot!(sql(&sandbox, ISSUES), @r"
    loop_id	loop_review_id is not null	file	line	type	description	suggestion
    [RUN]-1	1	a.txt	7	dead-code	unused	remove it
    [RUN]-1	1				no test
    ");
    // A pass whose intent is not satisfied is none.
    assert_eq!(
        rows(&sandbox, "squad.review", &["subject", "verdict"]),
        ["task drift", "task drift", "task pass", "build pass"]
    );
    assert_snapshot!(sql(&sandbox, "select loop_id is null, file from review_issues where loop_id is null"), @"loop_id is null	file");
}

#[test]
fn a_call_that_is_not_valid_stores_nothing_and_names_what_is() {
    let review = r#"
        bad() { call "$@" 2>> "$HOME/said" && echo accepted >> "$HOME/said"; echo "exit $?" >> "$HOME/said"; }
        bad set_loop_review_result '{"loopId":"nobody-1","passed":true}'
        bad set_loop_review_result "{\"loopId\":\"$L\",\"taskId\":\"x\",\"passed\":true}"
        bad set_loop_review_result "{\"loopId\":\"$L\",\"passed\":\"yes\"}"
        bad set_loop_review_result "{\"loopId\":\"$L\"}"
        bad set_loop_review_result "{\"loopId\":\"$L\",\"passed\":false,\"issues\":[{\"description\":\"1\"},{\"description\":\"2\"},{\"line\":\"x\"}]}"
        bad set_loop_review_result 'passed'
        bad set_review_result '{"passed":true}'
        bad complete_task '{}'
        bad write_task '{"taskId":"x","title":"x","description":"x"}'
        cat "$HOME/said"
        answer true"#;
    // A sandboxed reviewer can write nothing but temporary files.
    let review = &review.replace("$HOME/said", "${TMPDIR:-/tmp}/said");
    let sandbox = project(Agents { review, ..GOOD }, &[&["a", "b"]], "");
    completes(&sandbox, "--effort low --max-loops 1");
    assert_eq!(sql(&sandbox, "select count(*) from loop_reviews"), "count(*)\n2");
    assert_eq!(sql(&sandbox, "select count(*) from review_issues"), "count(*)\n0");
    let outputs = rows(&sandbox, "squad.turn.finish", &["loop_id", "output"]);
    let output = outputs.iter().filter(|row| row.starts_with("[RUN]-1 ")).nth(1).unwrap();
    assert_snapshot!(output, @r#"
    [RUN]-1 autoloop: invalid loopId 'nobody-1': this review is of loop [RUN]-1
    exit 3
    autoloop: invalid taskId 'x': this agent works on task a
    exit 3
    autoloop: invalid arguments of set_loop_review_result: passed must be a boolean, not the string "yes"; expected {loopId: string, taskId?: string, passed: boolean, interpretedIntent?: string, intentSatisfied?: boolean, issues?: [{file?: string, line?: number, type?: string, description?: string, suggestion?: string}]}
    exit 3
    autoloop: invalid arguments of set_loop_review_result: passed is missing; expected {loopId: string, taskId?: string, passed: boolean, interpretedIntent?: string, intentSatisfied?: boolean, issues?: [{file?: string, line?: number, type?: string, description?: string, suggestion?: string}]}
    exit 3
    autoloop: invalid arguments of set_loop_review_result: issues[2].line must be a number, not the string "x"; expected {loopId: string, taskId?: string, passed: boolean, interpretedIntent?: string, intentSatisfied?: boolean, issues?: [{file?: string, line?: number, type?: string, description?: string, suggestion?: string}]}
    exit 3
    autoloop: invalid arguments of set_loop_review_result: not valid JSON: expected value at line 1 column 1; expected {loopId: string, taskId?: string, passed: boolean, interpretedIntent?: string, intentSatisfied?: boolean, issues?: [{file?: string, line?: number, type?: string, description?: string, suggestion?: string}]}
    exit 3
    autoloop: unknown tool 'set_review_result': the tools of this agent are set_loop_review_result, cite_command, get_task, write_context, read_context, record_cost, emit, memory_add
    exit 3
    autoloop: unknown tool 'complete_task': the tools of this agent are set_loop_review_result, cite_command, get_task, write_context, read_context, record_cost, emit, memory_add
    exit 3
    autoloop: unknown tool 'write_task': the tools of this agent are set_loop_review_result, cite_command, get_task, write_context, read_context, record_cost, emit, memory_add
    exit 3
    stored a pass; the last result before you end counts
    "#);
}

#[test]
fn the_later_of_two_answers_decides() {
    let review =
        "if [ $N = 1 ]; then answer true; answer false; else answer false; answer true; fi";
    let sandbox = project(Agents { review, ..GOOD }, &[&["a"]], "");
    completes(&sandbox, "");
    assert_eq!(
        rows(&sandbox, "squad.review", &["subject", "verdict"]),
        ["task drift", "task pass", "build pass"]
    );
    assert_eq!(
        sql(&sandbox, "select passed from loop_reviews order by reviewed_at"),
        "passed\n1\n0\n0\n1"
    );
}

#[test]
fn a_builder_cannot_judge_and_a_ticket_ends_with_its_turn() {
    // The builder keeps its ticket for the reviewer's time, and calls from a process that it leaves behind.
    let build = "work; complete
        call set_loop_review_result \"{\\\"loopId\\\":\\\"$L\\\",\\\"passed\\\":true}\" 2>&1 || true
        env AUTOLOOP_TICKET= \"$AUTOLOOP_BIN\" mcp call complete_task '{}' 2>&1 || true
        env AUTOLOOP_TICKET=0123456789abcdef0123456789abcdef \"$AUTOLOOP_BIN\" mcp call complete_task '{}' 2>&1 || true
        echo \"$AUTOLOOP_DOOR $AUTOLOOP_TICKET\" > stolen.txt";
    let review = "read door ticket < stolen.txt
        env AUTOLOOP_DOOR=\"$door\" AUTOLOOP_TICKET=\"$ticket\" \"$AUTOLOOP_BIN\" mcp call set_loop_review_result \"{\\\"loopId\\\":\\\"$L\\\",\\\"passed\\\":true}\" 2>&1 || true
        answer false";
    let sandbox = project(Agents { build, review, ..GOOD }, &[&["a"]], "");
    let said = squad(&sandbox, "--effort low");
    assert!(said.starts_with("exit 1\n"), "{said}");
    assert_eq!(sandbox.fields("squad.answer", "passed"), ["false"; 3]);
    let outputs = rows(&sandbox, "squad.turn.finish", &["output"]);
    assert_snapshot!(outputs[..2].join("\n"), @r"
    task a is reported as complete; it is reviewed when you end
    autoloop: unknown tool 'set_loop_review_result': the tools of this agent are complete_task, fail_task, get_task, write_context, read_context, record_cost, emit, memory_add
    autoloop: not stored: the harness requires a ticket, but AUTOLOOP_TICKET is not set
      hint: do not change AUTOLOOP_DOOR and AUTOLOOP_TICKET
    autoloop: not stored: AUTOLOOP_TICKET is not the ticket of this harness
      hint: do not change AUTOLOOP_DOOR and AUTOLOOP_TICKET

    autoloop: not stored: the harness has ended: no process listens at [DIR]/.autoloop/squads/[RUN]/turn-1/agent.door (No such file or directory (os error 2))
      hint: AUTOLOOP_DOOR must be the socket of a harness; it exists while the agent runs
    stored a fail; the last result before you end counts
    ");
}
