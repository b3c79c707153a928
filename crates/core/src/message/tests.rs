use proptest::prelude::*;

use super::*;
use crate::review::{FindingStatus, Severity};
use crate::timestamp::Timestamp;

/// Texts that some writer or reader of YAML changes.
const STRANGE: [&str; 42] = [
    "yes",
    "No",
    "on",
    "y",
    "null",
    "~",
    "Null",
    "true",
    "1e3",
    "0x1F",
    "0o17",
    "017",
    "12:30",
    "1_000",
    ".inf",
    ".nan",
    "-",
    "- a",
    "? a",
    "a: b",
    "a #b",
    "# a",
    "[a]",
    "{a: b}",
    "&a",
    "*a",
    "!a",
    "|",
    ">",
    "%a",
    "@a",
    "`a",
    "'a'",
    "\"a\"",
    "a\\b",
    "---",
    "...",
    "2026-02-13",
    "=",
    "<<",
    " a",
    "a ",
];

fn text() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec![
        '\r', '\n', '\t', '\u{85}', '\u{2028}', '\u{2029}', '\u{1b}', '\0', '\u{7f}', '\u{9b}',
        '\u{feff}', '\u{fffe}', '\u{202e}', ' ', ' ', '\n', ':', '#', '-', '"', '\\', '🦀', 'é',
        'a',
    ]);
    prop_oneof![
        prop::sample::select(&STRANGE[..]).prop_map(str::to_owned),
        prop::collection::vec(special, 0..30).prop_map(String::from_iter),
        any::<String>(),
        "[a-z]{1,10}( [a-z]{1,10}){0,3}\n?([ ]{0,2}[a-z]{0,5}\n){0,4}[a-z]{0,3}",
    ]
}

/// Texts that are not blank, for fields that must not be empty.
fn filled() -> impl Strategy<Value = String> {
    text().prop_filter("not blank", |text| !text.trim().is_empty())
}

fn finding() -> impl Strategy<Value = Finding> {
    let texts = prop::collection::vec(text(), 5);
    (0..4usize, 0..5usize, any::<bool>(), texts, prop::option::of(1..9_999u64)).prop_map(
        |(severity, status, judged, texts, line)| {
            let severity = Severity::from_word(Severity::WORDS[severity]).unwrap();
            let status = FindingStatus::from_word(FindingStatus::WORDS[status]).unwrap();
            let mut finding = Finding {
                id: "F-001".to_owned(),
                severity,
                blocking: judged,
                status,
                area: "code".to_owned(),
                file: "src/a.rs".to_owned(),
                line,
                description: texts[0].clone(),
                repro: texts[1].clone(),
                expected: texts[2].clone(),
                evidence: texts[3].clone(),
                recommendation: texts[4].clone(),
                rest: Vec::new(),
            };
            finding.blocking = finding.blocks();
            finding
        },
    )
}

fn packet(mut findings: Vec<Finding>, commands: Vec<String>) -> Packet {
    for (number, finding) in (1..).zip(&mut findings) {
        finding.id = format!("F-{number:03}");
    }
    let validation = |command| Validation {
        command,
        result: Outcome::Pass,
        notes: String::new(),
        exit_code: Some(0),
        duration_ms: Some(12),
        output_digest: None,
        rest: Vec::new(),
    };
    Packet {
        id: "20260213_topic_codex_r1".to_owned(),
        source_review_packet: None,
        reviewer: "codex".parse().unwrap(),
        round: 1,
        created_at: Timestamp::from_millis(1_771_000_000_000),
        verdict: String::new(),
        findings,
        validations: commands.into_iter().map(validation).collect(),
        rest: Vec::new(),
        qa_rest: Vec::new(),
    }
}

/// A message with a body that its sender wrote as text.
fn envelope(kind: Type, body: String) -> Envelope {
    Envelope {
        id: "msg-1".to_owned(),
        from: "claude".parse().unwrap(),
        to: vec!["codex".parse().unwrap()],
        kind,
        priority: Severity::P1,
        created_at: Timestamp::from_millis(1_771_000_000_000),
        expires_at: None,
        channel: Some("on".to_owned()),
        auto_proceed: false,
        related_packet: None,
        related_pr: Some(86),
        conversation_id: None,
        parent_message_id: None,
        context_keys: None,
        subject: "yes".to_owned(),
        body,
        telemetry: Telemetry::default(),
    }
}

fn read_back(envelope: &Envelope) -> Envelope {
    let written = envelope.print();
    let checked = Message::read(written.as_bytes());
    let problems = checked.problems;
    checked.value.unwrap_or_else(|| panic!("{written}\n{problems:#?}")).envelope
}

proptest! {
    #[test]
    fn what_is_written_reads_back_identically(body in filled(), context in filled()) {
        let mut envelope = envelope(Type::Notification, body);
        envelope.context_keys = Some(context);
        prop_assert_eq!(&read_back(&envelope), &envelope);
    }

    #[test]
    fn bodies_read_back_identically(summary in filled(), files in prop::collection::vec("[a-z]{1,5}/[a-z #:.]{1,5}x", 0..3)) {
        let addressed = Addressed {
            commit_sha: "0123456".to_owned(),
            changes_summary: summary,
            round: 1,
            touched_files: files,
            addressed_finding_ids: vec!["F-001".to_owned()],
            rest: Vec::new(),
        };
        let body = Body::Addressed(addressed);
        let written = envelope(Type::ReviewAddressed, body.print()).print();
        let checked = Message::read(written.as_bytes());
        prop_assert_eq!(checked.value.map(|message| message.body), Some(body), "{:?}\n{}", checked.problems, written);
    }

    #[test]
    fn packets_read_back_identically(
        findings in prop::collection::vec(finding(), 0..3),
        commands in prop::collection::vec(filled(), 0..2),
    ) {
        let packet = packet(findings, commands);
        let written = packet.print();
        let mut checked = Packet::read(written.as_bytes());
        // Blank texts are the same as none.
        if let Some(read) = &mut checked.value {
            for (read, wrote) in read.findings.iter_mut().zip(&packet.findings) {
                for (read, wrote) in [
                    (&mut read.description, &wrote.description),
                    (&mut read.repro, &wrote.repro),
                    (&mut read.expected, &wrote.expected),
                    (&mut read.evidence, &wrote.evidence),
                    (&mut read.recommendation, &wrote.recommendation),
                ] {
                    if wrote.trim().is_empty() {
                        read.clone_from(wrote);
                    }
                }
            }
        }
        prop_assert_eq!(checked.value, Some(packet), "{:?}\n{}", checked.problems, written);
    }

    #[test]
    fn no_bytes_are_too_strange_to_read(bytes in prop::collection::vec(any::<u8>(), 0..300), text in text()) {
        for bytes in [&bytes[..], text.as_bytes()] {
            prop_assert_eq!(Message::read(bytes).value, None);
            prop_assert_eq!(Packet::read(bytes).value, None);
        }
    }
}

#[test]
fn unknown_keys_of_a_body_are_kept() {
    let body = "pr: 86\nbranch: b\ndiff_summary: d\nmax_turns_reviewer: 8\nmax_runtime_s_reviewer: 600\nx_list:\n  - 1\n  - \"1\"\n  - [a, {b: }]\nx_map:\n  k: 0x1F\n  l: \"no\"\n  m: {}\n";
    let written = envelope(Type::ReviewRequest, body.to_owned()).print();
    let message = Message::read(written.as_bytes()).value.unwrap();
    insta::assert_snapshot!(message.body.print(), @r#"
    pr: 86
    branch: b
    diff_summary: d
    max_turns_reviewer: 8
    max_runtime_s_reviewer: 600
    x_list:
      - 1
      - "1"
      -
        - a
        - b:
    x_map:
      k: 0x1F
      l: "no"
      m: {}
    "#);
    let again = envelope(Type::ReviewRequest, message.body.print()).print();
    let again = Message::read(again.as_bytes()).value.unwrap();
    assert_eq!(again.body.print(), message.body.print());
}

#[test]
fn a_text_that_all_readers_read_alike_is_not_quoted() {
    let mut message = envelope(Type::Notification, "first\n  second\n\nthird\n".to_owned());
    message.context_keys = Some("a\r\nb".to_owned());
    message.subject = "plain words".to_owned();
    insta::assert_snapshot!(message.print(), @r#"
    id: msg-1
    from: claude
    to: codex
    type: notification
    priority: P1
    created_at_utc: "2026-02-13T16:26:40Z"
    channel: "on"
    related_pr: "86"
    context_keys: "a\r\nb"
    subject: plain words
    body: |
      first
        second

      third
    "#);
}

#[test]
fn problems_in_bodies_have_their_place_in_the_file() {
    let place = |body: &str| {
        let head = "id: a\nfrom: claude\nto: codex\ntype: review_feedback\npriority: P1\ncreated_at_utc: 2026-02-13T10:00:00Z\nsubject: s\n";
        let problems = Message::read(format!("{head}{body}").as_bytes()).problems;
        let found: Vec<String> = problems
            .errors
            .iter()
            .map(|found| format!("{}:{} {}", found.line, found.column, found.message))
            .collect();
        found.join("; ")
    };
    let tail = "findings_packet: packets/findings/a.yaml\n  blocking_count: 1\n  round: 9\n";
    let expected = "field 'round': expected a whole number from 1 to 3, found '9'";
    assert_eq!(place(&format!("body: |\n  {tail}")), format!("11:10 {expected}"));
    assert_eq!(place(&format!("body: |\n\n\n  {tail}")), format!("13:10 {expected}"));
    assert_eq!(place(&format!("body: |2-\n  {tail}")), format!("11:10 {expected}"));
    assert_eq!(
        place("body: \"round: 9\\nblocking_count: 1\\nfindings_packet: a.yaml\""),
        format!("8:7 line 1 of the body: {expected}")
    );
}

#[test]
fn the_gate_names_each_reason() {
    let mut findings = Vec::new();
    for (severity, blocking, status) in [
        (Severity::P0, true, FindingStatus::WontFix),
        (Severity::P1, true, FindingStatus::NeedsClarification),
        (Severity::P1, true, FindingStatus::WontFix),
        (Severity::P2, true, FindingStatus::Open),
        (Severity::P2, false, FindingStatus::Open),
        (Severity::P2, false, FindingStatus::Open),
        (Severity::P3, false, FindingStatus::NotFixed),
    ] {
        let rest = Vec::new();
        let text = String::new;
        findings.push(Finding {
            id: text(),
            severity,
            blocking,
            status,
            area: text(),
            file: text(),
            line: None,
            description: text(),
            repro: text(),
            expected: text(),
            evidence: text(),
            recommendation: text(),
            rest,
        });
    }
    let packet = packet(findings, Vec::new());
    let nit = |tier, source: Option<&str>| Nit {
        id: "NIT-001".to_owned(),
        tier,
        summary: "s".to_owned(),
        owner: "claude".to_owned(),
        next_action: "n".to_owned(),
        source: source.map(str::to_owned),
        tracking_ref: None,
        expires_at: None,
        rest: Vec::new(),
    };
    let lgtm = Lgtm {
        quality_gate_result: GateResult::Fail,
        merge_ready: false,
        nits: vec![nit(Severity::P2, Some("r1: F-005")), nit(Severity::P3, None)],
        validated_head: None,
        findings_packet: None,
        rest: Vec::new(),
    };
    let told =
        |lgtm| gate(&packet, lgtm).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(told(Some(&lgtm)), @"
    F-001 is P0, which wont_fix does not resolve
    F-002 is a blocking P1 finding with the status needs_clarification
    F-004 is a blocking P2 finding with the status open
    no validation command is recorded in qa_validation
    the approval has quality_gate_result: fail
    F-006 is a deferred P2 finding that is not among the nits
    ");
}
