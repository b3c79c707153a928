//! Whole reviews by message with generated reviewers and authors, and a harness that crashes before or after any
//! record and is resumed. After every record it is judged what was delivered.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;

use autoloop_core::config::Check;
use autoloop_core::coordinator::{Fold, Status};
use autoloop_core::exchange::*;
use autoloop_core::message::{
    Addressed, Body, Finding, MAX_ROUNDS_EXCEEDED, Message, Outcome as Result_, Packet,
    REVIEWER_BUDGET_EXCEEDED, Type, Validation, deferred, gate,
};
use autoloop_core::record::*;
use autoloop_core::review::{Evidence, FindingStatus, Severity};
use autoloop_core::timestamp::Timestamp;
use autoloop_testkit::{Dice, simulate};

/// More steps than any exchange takes.
const ENDLESS: usize = 500;

struct Model {
    rules: ExchangeRules,
    start: ExchangeStart,
    records: Vec<Record>,
    /// The mailboxes: the files by their names.
    delivered: BTreeMap<String, String>,
    crashes: u64,
    now: i64,
}

impl Model {
    fn generated(dice: &mut Dice) -> Model {
        let checks = ["make test", "make lint"].iter().take(dice.index(3));
        let checks = checks.map(|command| Check { name: "c".into(), ..Check::cited(command) });
        Model {
            rules: ExchangeRules { acting: Acting::Reviewer, checks: checks.collect() },
            start: ExchangeStart {
                author: "alice".into(),
                reviewer: "bob".into(),
                pr: 7,
                branch: "topic".into(),
                base: String::new(),
                rounds: 1 + dice.below(3),
                max_turns: 8,
                max_runtime_s: 600,
                conversation: "conv-20260213-alice-1".into(),
            },
            records: Vec::new(),
            delivered: BTreeMap::new(),
            crashes: 0,
            now: 1_770_976_800_000,
        }
    }

    fn exchange(&self) -> Exchange {
        let mut exchange = Exchange::new("swift-otter");
        for record in &self.records {
            let mut line = Vec::new();
            print(record, &mut line);
            exchange.apply(&Glance::read(line.trim_ascii_end()).unwrap());
        }
        exchange
    }

    fn put(&mut self, record: impl FnOnce(&Heading) -> Record) {
        self.now += 1_000;
        let round = self.exchange().round().map_or(0, |round| round.number);
        let now = Timestamp::from_millis(self.now);
        let heading = Heading { run: "swift-otter".into(), iteration: round.to_string(), now };
        self.records.push(record(&heading));
        self.judge();
    }

    fn stamp(&mut self, dice: &mut Dice) -> Stamp {
        self.now += 1_000;
        Stamp { now: Timestamp::from_millis(self.now), random: dice.number() }
    }

    fn has_crashed(&mut self, dice: &mut Dice) -> bool {
        let crashes = self.crashes < 8 && dice.chance(1, 12);
        self.crashes += u64::from(crashes);
        crashes
    }

    /// Carries the exchange on until it ends or the harness crashes. Returns whether it ended.
    fn drive(&mut self, dice: &mut Dice) -> bool {
        for _ in 0..ENDLESS {
            if self.has_crashed(dice) {
                return false;
            }
            let exchange = self.exchange();
            match next_step(&exchange, &self.rules) {
                Step::Deliver(mail) => {
                    let before = self.delivered.insert(mail.file.clone(), mail.text.clone());
                    assert!(
                        before.is_none_or(|before| before == mail.text),
                        "another file of that name"
                    );
                    // Delivered, but not recorded.
                    if self.has_crashed(dice) {
                        return false;
                    }
                    let sent = ExchangeSent { message_id: mail.id, file: mail.file };
                    self.put(|heading| sent.record(heading));
                }
                Step::Check(check) => {
                    let exit_code = i32::from(dice.chance(1, 4)).into();
                    let commit = exchange.round().unwrap().request.commit.clone();
                    let digest = "d".to_owned();
                    let Check { name, command, .. } = check;
                    let result = CheckFinish {
                        name,
                        command,
                        commit,
                        exit_code,
                        digest,
                        ..Default::default()
                    };
                    self.put(|heading| result.record(heading));
                }
                Step::Review { attempt } => self.review(&exchange, attempt, dice),
                Step::Respond => {
                    let message = response(&exchange, self.stamp(dice)).unwrap();
                    self.put(|heading| message.record(heading));
                }
                Step::Author => {
                    let round = exchange.round().unwrap().number;
                    let commit = format!("{:040x}", round + 1);
                    let reason = dice.chance(1, 10).then(|| "exit 1".to_owned());
                    let turn = ExchangeAuthor { round, commit, reason, ..Default::default() };
                    self.put(|heading| turn.record(heading));
                }
                Step::Address => {
                    let round = exchange.round().unwrap();
                    let done = Addressed {
                        commit_sha: round.authored.as_ref().unwrap().commit.clone(),
                        changes_summary: "fixed\r\n it: all".into(),
                        round: round.number,
                        touched_files: vec!["src/a b.rs".into()],
                        addressed_finding_ids: vec!["F-001".into()],
                        rest: Vec::new(),
                    };
                    let message = addressed(&exchange, &done, self.stamp(dice)).unwrap();
                    self.put(|heading| message.record(heading));
                }
                Step::Request { round } => self.request(&exchange, round, dice),
                Step::Finish(finish) => self.put(|heading| finish.record(heading)),
                Step::Over => return true,
                Step::Wait(_) => panic!("an automatic exchange waits for no command"),
            }
        }
        panic!("the exchange does not end");
    }

    fn begin(&mut self, dice: &mut Dice) {
        let start = self.start.clone();
        self.put(|heading| start.record(heading));
        self.put(|heading| ExchangeAuto { round: 1 }.record(heading));
        self.request(&self.exchange(), 1, dice);
    }

    fn request(&mut self, exchange: &Exchange, round: u64, dice: &mut Dice) {
        let stamp = self.stamp(dice);
        let commit = format!("{round:040x}");
        let message = request(exchange, &self.start, round, &commit, "a change\n", stamp).unwrap();
        self.put(|heading| message.record(heading));
    }

    /// A reviewer that finds something, nothing, prints nonsense or nothing, or takes too long.
    fn review(&mut self, exchange: &Exchange, attempt: u64, dice: &mut Dice) {
        let round = exchange.round().unwrap();
        let earlier = exchange.earlier_packet(round.number);
        let rules = AnswerRules {
            round: round.number,
            earlier: earlier.as_ref(),
            has_checks: !self.rules.checks.is_empty(),
        };
        let said = match dice.below(8) {
            0 => String::new(),
            1 => "I like it.".to_owned(),
            _ => format!("Done.\n```yaml\n{}```\n", findings(earlier.as_ref(), round.number, dice)),
        };
        let read = (!said.is_empty()).then(|| read_answer(&said, rules));
        let evidence = Evidence {
            failure: dice.chance(1, 15).then(|| "the reviewer failed".to_owned()),
            exhausted: dice.chance(1, 12).then(|| "max_turns_reviewer".to_owned()),
            answer: read.as_ref().map(|read| read.as_ref().map(verdict_of).map_err(Clone::clone)),
        };
        let answer = exchange.contract().read(evidence);
        let review = ExchangeReview {
            round: round.number,
            attempt,
            verdict: answer.verdict.into(),
            reason: answer.reason,
            packet: read.and_then(Result::ok).map(|packet| packet.print().into()),
            ..Default::default()
        };
        self.put(|heading| review.record(heading));
    }

    /// What was delivered is valid, answers each request once, and approves only what the gate lets pass.
    fn judge(&self) {
        let exchange = self.exchange();
        let mut responses: BTreeMap<u64, u64> = BTreeMap::new();
        for mail in exchange.mails() {
            let checked = Message::read(mail.text.as_bytes());
            assert_eq!(checked.problems.errors, [], "{}", mail.text);
            let message = checked.value.unwrap();
            assert_eq!(message.envelope.id, mail.id);
            assert_eq!(message.envelope.contradicts_name(&mail.file), None);
            assert_eq!(mail.is_sent, self.delivered.contains_key(&mail.file) && mail.is_sent);
            let packet = mail.packet.as_ref().map(|packet| {
                let checked = Packet::read(packet.text.as_bytes());
                assert_eq!(checked.problems.errors, [], "{}", packet.text);
                checked.value.unwrap()
            });
            match (&message.body, packet) {
                (Body::Lgtm(lgtm), Some(packet)) => {
                    *responses.entry(packet.round).or_default() += 1;
                    assert_eq!(gate(&packet, Some(lgtm)), []);
                    assert_eq!(lgtm.nits.len(), deferred(&packet).count());
                    assert!(packet.validations.iter().all(|run| run.result == Result_::Pass));
                }
                (Body::Feedback(feedback), Some(packet)) => {
                    *responses.entry(packet.round).or_default() += 1;
                    let is_exhausted =
                        feedback.escalation.as_deref() == Some(REVIEWER_BUDGET_EXCEEDED);
                    assert!(is_exhausted || !gate(&packet, None).is_empty());
                    let is_last = packet.round == self.start.rounds;
                    let is_escalated = feedback.escalation.as_deref() == Some(MAX_ROUNDS_EXCEEDED);
                    assert_eq!(is_escalated, is_last && !is_exhausted);
                }
                (Body::Request(request), None) => {
                    assert!(request.round.unwrap() <= self.start.rounds);
                }
                (Body::Addressed(_), None) => {}
                (body, packet) => panic!("{body:?} {packet:?}"),
            }
        }
        assert!(responses.values().all(|count| *count == 1), "{responses:?}");
        // What was delivered is on record, and nothing else.
        let on_record: Vec<&str> = exchange.mails().map(|mail| &*mail.file).collect();
        assert!(self.delivered.keys().all(|file| on_record.contains(&&**file)));
    }
}

/// A packet that lists the earlier findings with some status, and perhaps new ones.
fn findings(earlier: Option<&Packet>, round: u64, dice: &mut Dice) -> String {
    let mut packet = Packet {
        id: format!("20260213_x_bob_r{round}"),
        source_review_packet: None,
        reviewer: "bob".parse().unwrap(),
        round,
        created_at: Timestamp::from_millis(1_770_976_800_000),
        verdict: "hm: #1".into(),
        findings: earlier.map(|packet| packet.findings.clone()).unwrap_or_default(),
        validations: Vec::new(),
        rest: Vec::new(),
        qa_rest: Vec::new(),
    };
    for finding in &mut packet.findings {
        finding.status =
            *dice.pick(&[FindingStatus::Fixed, FindingStatus::Fixed, FindingStatus::NotFixed]);
    }
    for _ in 0..dice.below(3) {
        let severity = *dice.pick(&[Severity::P0, Severity::P1, Severity::P2, Severity::P3]);
        let may_block = severity == Severity::P2 && dice.chance(1, 2);
        let id = packet.next_finding_id();
        packet.findings.push(Finding {
            id,
            severity,
            blocking: may_block || severity == Severity::P0 || severity == Severity::P1,
            status: FindingStatus::Open,
            area: "code".into(),
            file: "src/a b.rs".into(),
            line: Some(3),
            description: "yes: it's `wrong`\r\n # really".into(),
            repro: String::new(),
            expected: String::new(),
            evidence: "1e3".into(),
            recommendation: String::new(),
            rest: Vec::new(),
        });
    }
    let command = dice.pick(&["make test", "cargo test && true"]);
    packet.validations.push(Validation {
        command: (*command).into(),
        result: Result_::Pass,
        notes: String::new(),
        exit_code: None,
        duration_ms: None,
        output_digest: None,
        rest: Vec::new(),
    });
    packet.print()
}

#[test]
fn an_exchange_sends_one_response_to_each_request_whatever_crashes() {
    let mut endings: BTreeMap<String, u64> = BTreeMap::new();
    let mut crashes = 0;
    simulate("exchange", 150, |_, dice| {
        let mut model = Model::generated(dice);
        model.begin(dice);
        while !model.drive(dice) {}
        let exchange = model.exchange();
        assert!(exchange.mails().all(|mail| mail.is_sent));
        assert_eq!(exchange.status() == Status::Completed, exchange.approved().is_some());
        let last = exchange.round().unwrap();
        let is_undelivered = exchange.outcome() == Some(Outcome::Undelivered);
        assert_eq!(is_undelivered, last.response.is_none());
        assert!(last.response.as_ref().is_none_or(|mail| mail.kind != Type::ReviewRequest));
        *endings.entry(exchange.finish.unwrap().outcome.to_string()).or_default() += 1;
        crashes += model.crashes;
    });
    if autoloop_testkit::all_seeds_run() {
        assert_eq!(endings.len(), 5, "{endings:?}");
        assert!(crashes > 150, "{crashes}");
    }
}
