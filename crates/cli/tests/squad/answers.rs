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
    assert_snapshot!(sql(&sandbox, REVIEWS), @"");
    assert_snapshot!(sql(&sandbox, ISSUES), @"");
    // A pass whose intent is not satisfied is none.
    assert_eq!(
        rows(&sandbox, "squad.review", &["subject", "verdict"]),
        ["task drift", "task drift", "task pass", "build pass"]
    );
    assert_snapshot!(sql(&sandbox, "select loop_id is null, file from review_issues where loop_id is null"), @"");
}

#[test]
fn a_call_that_is_not_valid_stores_nothing_and_names_what_is() {
    let review = r#"
        bad() { call "$@" 2>> "$HOME/said" && echo accepted >> "$HOME/said"; echo "exit $?" >> "$HOME/said"; }
        bad set_loop_review_result '{"loopId":"nobody-1","passed":true}'
        bad set_loop_review_result "{\"loopId\":\"$L\",\"taskId\":\"b\",\"passed\":true}"
        bad set_loop_review_result "{\"loopId\":\"$L\",\"passed\":\"yes\"}"
        bad set_loop_review_result "{\"loopId\":\"$L\"}"
        bad set_loop_review_result "{\"loopId\":\"$L\",\"passed\":false,\"issues\":[{\"description\":\"1\"},{\"description\":\"2\"},{\"line\":\"x\"}]}"
        bad set_loop_review_result 'passed'
        bad set_review_result '{"passed":true}'
        bad complete_task '{}'
        bad write_task '{"id":"x","title":"x","description":"x"}'
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
    assert_snapshot!(output, @"");
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
    assert_snapshot!(outputs[..2].join("\n"), @"");
}
