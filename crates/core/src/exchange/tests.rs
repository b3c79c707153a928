use super::*;
use crate::message::Problem;
use crate::record::{Heading, Record, print};
use crate::timestamp::Timestamp;

const PACKET: &str = "packet_id: 20260213_x_bob_r1\nreviewer: bob\nround: 1\ncreated_at_utc: \"2026-02-13T10:00:00Z\"\nsummary:\n  verdict: fine\n  blocking_count: 0\n  non_blocking_count: 0\nfindings: []\nqa_validation:\n  commands_run:\n    - command: make test\n      result: pass\n";

fn answer(message: &str, has_checks: bool) -> String {
    let rules = AnswerRules { round: 1, earlier: None, has_checks };
    match read_answer(message, rules) {
        Ok(packet) => packet.id,
        Err(problems) => problems,
    }
}

#[test]
fn the_last_block_of_an_answer_is_its_packet() {
    assert_eq!(answer(PACKET, false), "20260213_x_bob_r1");
    let said = format!("```sh\nmake\n```\nSo:\n\n```yaml\n{PACKET}```\nThanks.\n");
    assert_eq!(answer(&said, false), "20260213_x_bob_r1");
    let without = PACKET.split("qa_validation").next().unwrap();
    assert_eq!(answer(without, true), "20260213_x_bob_r1");
    insta::assert_snapshot!(answer(without, false), @"qa_validation.commands_run is empty: name at least one command that validates the change");
    insta::assert_snapshot!(answer(&PACKET.replace("round: 1", "round: 2"), false), @"round is 2, but this is round 1");
}

#[test]
fn every_problem_of_an_answer_is_listed() {
    let bad =
        PACKET.replace("reviewer: bob", "reviewer: b b").replace("result: pass", "result: ok");
    let problems = answer(&bad, false);
    assert_eq!(problems.lines().count(), 2, "{problems}");
    assert!(problems.starts_with("line 2, column 11:"), "{problems}");
}

#[test]
fn a_finding_of_the_last_round_cannot_be_dropped() {
    let finding = "findings:\n  - {id: F-001, severity: P3, blocking: false, status: open}\n";
    let text = PACKET
        .replace("findings: []\n", finding)
        .replace("  non_blocking_count: 0\n", "  non_blocking_count: 1\n");
    let checked = Packet::read(text.as_bytes());
    let errors: Vec<&Problem> = checked.problems.errors.iter().collect();
    let Some(earlier) = checked.value else { panic!("{errors:?}") };
    let rules = AnswerRules { round: 1, earlier: Some(&earlier), has_checks: true };
    insta::assert_snapshot!(read_answer(PACKET, rules).unwrap_err(), @"finding F-001 of the last round is missing: list it with its status");
}

fn fold(records: &[Record]) -> Exchange {
    let mut exchange = Exchange::new("r");
    for record in records {
        let mut line = Vec::new();
        print(record, &mut line);
        exchange.apply(&Glance::read(line.trim_ascii_end()).unwrap());
    }
    exchange
}

#[test]
fn a_wait_ends_with_the_next_record() {
    let heading =
        Heading { run: "r".into(), iteration: "1".into(), now: Timestamp::from_millis(1) };
    let start = ExchangeStart { rounds: 2, ..ExchangeStart::default() }.record(&heading);
    let wait = crate::record::ExchangeWait { side: Side::Reviewer.into() }.record(&heading);
    assert_eq!(fold(&[start.clone(), wait.clone()]).status(), Status::Waiting);
    assert_eq!(fold(&[start.clone(), wait, start]).status(), Status::Running);
}
