use super::*;

const RECORDS: &[&str] = &[
    r#"{"run": "r", "iteration": "2", "topic": "review.start", "fields": {"kind": "metareview", "command": "sh", "enforcement": "snapshot"}, "ts": "t1"}"#,
    r#"{"run": "r", "iteration": "2", "topic": "review.violation", "fields": {"path": "lost", "what": "when it was cut off", "outcome": "put back"}}"#,
    r#"{"run": "r", "iteration": "2", "topic": "review.start", "fields": {"kind": "metareview", "command": "sh", "enforcement": "landlock abi 4"}, "ts": "t2"}"#,
    r#"{"run": "other", "iteration": "2", "topic": "review.finish", "fields": {"exit_code": "9"}}"#,
    r#"{"run": "r", "iteration": "2", "topic": "review.finish", "payload": "exit_code=8", "source": "agent"}"#,
    r#"{"run": "r", "iteration": "2", "topic": "review.violation", "fields": {"path": "src", "what": "added", "outcome": "put back", "beneath": "3"}}"#,
    r#"{"run": "r", "iteration": "2", "topic": "review.finish", "fields": {"exit_code": "1", "timed_out": true, "output": "o", "diff": "d"}, "ts": "t3"}"#,
    r#"{"run": "r", "iteration": "4", "topic": "review.start", "fields": {"kind": "metareview", "command": "sh"}}"#,
    r#"{"run": "r", "iteration": "", "topic": "loop.reverted", "fields": {"review": "2", "files": "harness.md"}, "ts": "t4"}"#,
];

fn search(before: Option<u64>) -> ReviewSearch<usize> {
    let mut search = ReviewSearch::new("r", before);
    for (place, line) in RECORDS.iter().enumerate() {
        search.apply(&Glance::read(line.as_bytes()).unwrap(), || place);
    }
    search
}

fn told(review: &Review<usize>) -> String {
    let facts = review.facts().into_iter().map(|(name, fact)| format!("{name}: {fact}"));
    facts.chain(review.violation_lines()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_review_is_what_it_was_the_last_time() {
    let review = search(Some(2)).found.unwrap();
    assert_eq!(review.end.as_ref().map(|end| (end.place, end.has_diff)), Some((6, true)));
    insta::assert_snapshot!(told(&review), @"
    run: r
    before: iteration 2
    began: t2
    command: sh
    sandbox: landlock abi 4
    ended: exit code 1, timed out, t3
    reverted: t4
    src: added, with 3 more inside (put back)
    ");
}

#[test]
fn without_a_number_it_is_the_latest() {
    insta::assert_snapshot!(told(&search(None).found.unwrap()), @"
    run: r
    before: iteration 4
    command: sh
    sandbox: not recorded
    ended: not yet, or interrupted
    ");
    let missing = search(Some(3));
    assert_eq!((missing.found, missing.others), (None, Some((2, 4))));
}

#[test]
fn no_journal_makes_it_hold_more_than_a_little() {
    let mut search = ReviewSearch::new("r", None);
    let mut apply = |line: &str| search.apply(&Glance::read(line.as_bytes()).unwrap(), || ());
    apply(RECORDS[0]);
    let long = "x".repeat(5000);
    let violation = format!(
        r#"{{"run": "r", "iteration": "2", "topic": "review.violation", "fields": {{"path": "{long}"}}}}"#
    );
    for _ in 0..MOST_KEPT + 7 {
        apply(&violation);
    }
    let review = search.found.unwrap();
    assert_eq!((review.violations.len(), review.more_violations), (MOST_KEPT, 7));
    assert_eq!(review.violations[0].path.len(), LONGEST);
    assert_eq!(review.violation_lines().last().unwrap(), "7 more");
}
