//! The meaning of records: every typed event is read back from the record that it writes, and the
//! examples of the journal's reference mean what the reference says.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use autoloop_core::agents::Dollars;
use autoloop_core::record::*;
use autoloop_core::slot::Picked;
use autoloop_core::timestamp::Timestamp;
use autoloop_core::wire_enum::{WireEnum, Word};
use autoloop_testkit::records::text;
use autoloop_testkit::{Dice, simulate};

trait Made {
    fn made(dice: &mut Dice) -> Self;
}

impl Made for String {
    fn made(dice: &mut Dice) -> Self {
        text(dice)
    }
}

impl Made for Text<'_> {
    fn made(dice: &mut Dice) -> Self {
        text(dice).into()
    }
}

impl Made for u64 {
    fn made(dice: &mut Dice) -> Self {
        *dice.pick(&[0, 1, 300_000, u64::MAX])
    }
}

impl Made for ExitCode {
    fn made(dice: &mut Dice) -> Self {
        ExitCode::from(*dice.pick(&[0, 1, -1, 137, i32::MIN, i32::MAX]))
    }
}

impl Made for bool {
    fn made(dice: &mut Dice) -> Self {
        dice.chance(1, 2)
    }
}

impl Made for Dollars {
    fn made(dice: &mut Dice) -> Self {
        // Binary fractions are exact on the wire.
        Dollars(dice.below(1_000_000) * 1_953_125)
    }
}

impl Made for Amount {
    fn made(dice: &mut Dice) -> Self {
        Amount(u64::made(dice))
    }
}

impl<T: WireEnum> Made for Word<T> {
    fn made(dice: &mut Dice) -> Self {
        let known = ["fix", "drift", "merged", "passed", "no_items"];
        match dice.chance(1, 2) {
            true => Word::from(*dice.pick(&known)),
            false => Word::from(text(dice).as_str()),
        }
    }
}

impl Made for Picked {
    fn made(dice: &mut Dice) -> Self {
        match dice.chance(1, 3) {
            true => Picked::Nothing,
            false => Picked::from_word(&text(dice)),
        }
    }
}

impl<T: Made> Made for Option<T> {
    fn made(dice: &mut Dice) -> Self {
        dice.chance(1, 2).then(|| T::made(dice))
    }
}

fn heading(dice: &mut Dice) -> Heading {
    Heading {
        run: text(dice),
        iteration: dice.below(100).to_string(),
        now: Timestamp::from_millis(1_794_777_126_031),
    }
}

/// Writes a record down and reads it again.
fn through_a_line(record: &Record) -> Record {
    let mut line = Vec::new();
    print(record, &mut line);
    parse(line.strip_suffix(b"\n").unwrap()).unwrap()
}

/// Writes a record and reads its meaning, with both readers.
fn assert_means(record: &Record, event: &Event<'_>) {
    let mut line = Vec::new();
    print(record, &mut line);
    let line = String::from_utf8(line).unwrap();
    let by_another_writer = line.replacen("{\"run\": ", "{ \"run\": ", 1);
    for line in [line, by_another_writer] {
        assert_eq!(Glance::read(line.trim_end().as_bytes()).unwrap().event(), *event, "{line}");
    }
}

/// The same record in the other wire form: numbers and flags as text, texts that are numbers or flags
/// as such.
fn in_the_other_form(mut record: Record) -> Record {
    let Body::System(fields) = &mut record.body else { return record };
    for (_, value) in fields {
        *value = match &*value {
            Value::Text(text) => match text.as_str() {
                "true" => Value::Flag(true),
                "false" => Value::Flag(false),
                text => match text.parse::<u64>() {
                    Ok(number) if number.to_string() == *text => Value::Number(number.to_string()),
                    _ => Value::Text(text.to_owned()),
                },
            },
            other => Value::Text(other.to_text().unwrap()),
        };
    }
    record
}

/// One test a system event: all of its fields, as the reference lists them.
macro_rules! system_events {
    ($( $test:ident: $name:ident { $($field:ident),* } )*) => { $(
        #[test]
        fn $test() {
            simulate(stringify!($name), 100, |_, dice| {
                let event = $name { $( $field: Made::made(dice), )* };
                let written = event.record(&heading(dice));
                let record = through_a_line(&written);
                assert_eq!(record, written);
                assert_eq!(record.topic.as_str(), $name::TOPIC);
                assert_means(&record, &Event::$name(event.clone()));
                assert_means(&in_the_other_form(record), &Event::$name(event));
            });
        }
    )* };
}

system_events! {
    loop_start: LoopStart { max_iterations, completion_promise, completion_event, review_every, objective, preset, preset_dir, parent, opening_event }
    loop_complete: LoopComplete { reason }
    loop_stop: LoopStop { reason, completed_iterations, stopped_before_iteration, max_iterations, iteration, output_tail, detail, raise }
    iteration_start: IterationStart { recent_event, suggested_roles, allowed_events, backpressure, prompt }
    iteration_finish: IterationFinish { exit_code, timed_out, elapsed_s, output, promised, interrupted, detail, tree }
    backend_start: BackendStart { backend_kind, command, prompt_mode, timeout_ms, prompt_detour }
    backend_finish: BackendFinish { exit_code, timed_out, output, interrupted, detail }
    review_start: ReviewStart { kind, backend_kind, command, prompt_mode, prompt, timeout_ms, enforcement }
    review_finish: ReviewFinish { kind, exit_code, timed_out, output, diff, interrupted, detail }
    review_violation: ReviewViolation { kind, path, what, outcome, beneath }
    queue_added: QueueAdded { task, title, description, acceptance, priority, after, by }
    queue_claimed: QueueClaimed { task, owner, until, fence }
    queue_renewed: QueueRenewed { task, until, fence }
    queue_released: QueueReleased { task, reason, by, fence }
    queue_closed: QueueClosed { task, reason, by, fence }
    queue_reopened: QueueReopened { task, reason, by }
    queue_linked: QueueLinked { task, after }
    queue_unlinked: QueueUnlinked { task, after }
    event_invalid: EventInvalid { recent_event, emitted, suggested_roles, allowed_events, reason }
    journal_repaired: JournalRepaired { offset, bytes }
    wave_start: WaveStart { wave_id, trigger_topic, branch_count, opening_recent_event, opening_roles, opening_events, objectives, base }
    wave_branch_start: WaveBranchStart { wave_id, branch_id, objective, routing_event, branch_roles, branch_events }
    wave_branch_finish: WaveBranchFinish { wave_id, branch_id, stop_reason, elapsed_ms, tree, output, detail, cost_usd, tokens }
    wave_branch_merge: WaveBranchMerge { wave_id, branch_id, outcome, branch, commit, tree, files, detail }
    wave_join_start: WaveJoinStart { wave_id, trigger_topic, branch_count, elapsed_ms, branch_outcomes }
    wave_join_finish: WaveJoinFinish { wave_id, trigger_topic, joined_topic, routing_basis, resume_recent_event, resume_roles, resume_events, elapsed_ms }
    wave_timeout: WaveTimeout { wave_id, timed_out_branches }
    wave_failed: WaveFailed { wave_id, failed_branches }
    wave_invalid: WaveInvalid { trigger_topic, reason, active_wave_id, opening_recent_event }
    chain_start: ChainStart { name, steps, step_count, objective, parent_id }
    chain_resume: ChainResume { resumed_from_step, previous_outcome, elapsed_ms }
    chain_step_start: ChainStepStart { step, preset, preset_dir, work_dir, run_id }
    chain_step_finish: ChainStepFinish { step, preset, stop_reason, elapsed_ms, detail, files }
    chain_complete: ChainComplete { name, steps_completed, outcome }
    chain_spawned: ChainSpawned { chain_id, parent_id, steps, justification }
    chain_spawn_finish: ChainSpawnFinish { chain_id, outcome, steps_completed, output }
    chain_invalid: ChainInvalid { trigger_topic, reason, limit, detail }
    slot_run_start: SlotRunStart { iterations, parallel_agents, review, max_fix_attempts, source, isolation, stop_marker, queue_mark }
    slot_run_prompts: SlotRunPrompts { developer_prompt, reviewer_prompt }
    slot_run_resume: SlotRunResume { resumed_from_iteration }
    slot_start: SlotStart { slot, item_id, title, actor, base, branch, tree }
    slot_phase: SlotPhase { slot, item_id, phase, attempt }
    slot_implement: SlotImplement { slot, item_id, exit_code, timed_out, elapsed_ms, picked, reason, stop_marker, changes, output }
    slot_review: SlotReview { slot, item_id, attempt, verdict, follow_up_prompt, reason, elapsed_ms, exit_code, enforcement, changes, tree, output }
    slot_fix: SlotFix { slot, item_id, attempt, exit_code, timed_out, elapsed_ms, reason, stop_marker, output }
    slot_merge: SlotMerge { slot, item_id, outcome, commit, tree, files, detail }
    slot_finish: SlotFinish { slot, item_id, outcome, reason }
    slots_iteration_finish: SlotsIterationFinish { passed, failed, items }
    slot_run_finish: SlotRunFinish { reason, taken, passed, detail, raise }
}

/// A coordination event of any texts, with its topic and payload.
macro_rules! said {
    ($dice:ident, $name:ident = $topic:literal { $($field:ident),* }) => {{
        $( let $field = text($dice); )*
        let pairs = [$( pair(stringify!($field), &$field) ),*];
        ($topic, pairs.join(" "), Coordination::$name { $($field),* })
    }};
}

fn pair(key: &str, value: &str) -> String {
    format!("{key}={};", value.replace('\\', r"\\").replace(';', r"\;"))
}

#[test]
fn coordination_events_are_read_from_their_payload() {
    simulate("coordination", 500, |_, dice| {
        let all = [
            said!(dice, IssueDiscovered = "issue.discovered" { id, summary, disposition, owner }),
            said!(dice, IssueResolved = "issue.resolved" { id, resolution }),
            said!(dice, SliceStarted = "slice.started" { id, description }),
            said!(dice, SliceVerified = "slice.verified" { id }),
            said!(dice, SliceCommitted = "slice.committed" { id, commit_hash }),
            said!(dice, ContextArchived = "context.archived" { source_file, dest_file, reason }),
            said!(dice, ChainSpawn = "chain.spawn" { chain_id, parent_id, steps, justification }),
        ];
        for (topic, payload, event) in all {
            let written = heading(dice).agent(autoloop_core::topic::Topic::new(topic), payload);
            assert_means(&written, &Event::Coordination(event));
        }
    });
}

#[test]
fn a_field_that_is_missing_or_cannot_be_read_has_its_default() {
    let read = |fields: &str| {
        format!(
            r#"{{"run": "r", "iteration": "1", "topic": "iteration.finish", "fields": {{{fields}}}}}"#
        )
    };
    for (fields, exit_code, elapsed_s, detail) in [
        (r#""exit_code": "0""#, Some(0), None, None),
        (
            r#""exit_code": null, "output": ["a"], "elapsed_s": -1, "detail": null"#,
            None,
            None,
            None,
        ),
        (
            r#""exit_code": "x", "timed_out": "yes", "elapsed_s": "7", "detail": 9"#,
            None,
            Some(7),
            Some("9"),
        ),
    ] {
        let line = read(fields);
        let record = Glance::read(line.as_bytes()).unwrap();
        let finish = IterationFinish::of(&record).unwrap();
        assert_eq!(finish.exit_code.known(), exit_code, "{line}");
        assert_eq!((finish.timed_out, finish.elapsed_s), (None, elapsed_s.map(Amount)), "{line}");
        assert_eq!(
            (finish.output.read().as_ref(), finish.detail.as_deref()),
            ("", detail),
            "{line}"
        );
        assert!(BackendFinish::of(&record).is_none(), "another topic");
    }
    let line = read(r#""exit_code": "x""#);
    let finish = IterationFinish::of(&Glance::read(line.as_bytes()).unwrap()).unwrap().exit_code;
    assert_eq!(finish.to_string(), "x", "kept as it is");
}

#[test]
fn an_unknown_topic_is_kept_and_means_nothing() {
    let line = r#"{"run": "r", "iteration": "1", "topic": "mood.changed", "fields": {}}"#;
    let record = parse(line.as_bytes()).unwrap();
    assert_means(&record, &Event::Other);
    assert_eq!(through_a_line(&record), record);
}

#[test]
fn an_agent_cannot_speak_for_the_harness() {
    let line = r#"{"run": "r", "iteration": "1", "topic": "loop.complete", "payload": "", "source": "agent"}"#;
    let record = Glance::read(line.as_bytes()).unwrap();
    assert!(LoopComplete::of(&record).is_none());
    assert!(matches!(record.event(), Event::Routing(_)));
}

#[test]
fn words_without_a_key_are_what_there_is_to_say() {
    let said = |topic: &str, payload: &str| {
        let topic = autoloop_core::topic::Topic::new(topic);
        let heading =
            Heading { run: "r".into(), iteration: "1".into(), now: Timestamp::from_millis(0) };
        heading.agent(topic, payload)
    };
    assert_means(
        &said("issue.resolved", " by hand "),
        &Event::Coordination(Coordination::IssueResolved {
            id: String::new(),
            resolution: "by hand".into(),
        }),
    );
    assert_means(
        &said("slice.verified", "s1"),
        &Event::Coordination(Coordination::SliceVerified { id: String::new() }),
    );
}

/// The examples of the reference, as the public autoloop has written them and as this one does.
#[test]
fn the_examples_of_the_reference_mean_what_it_says() {
    let routing = Event::Routing(autoloop_core::topic::Topic::new("review.ready"));
    let issue = Event::Coordination(Coordination::IssueDiscovered {
        id: "issue-1".into(),
        summary: "fix login bug".into(),
        disposition: "open".into(),
        owner: "builder".into(),
    });
    let start = Event::IterationStart(IterationStart {
        recent_event: "tasks.ready".into(),
        suggested_roles: "builder".into(),
        allowed_events: "review.ready,build.blocked".into(),
        backpressure: String::new(),
        prompt: "...".into(),
    });
    let examples = [
        (
            r#"{"run": "swift-agent", "iteration": "3", "topic": "iteration.start", "fields": {"recent_event": "tasks.ready", "suggested_roles": "builder", "allowed_events": "review.ready,build.blocked", "backpressure": "", "prompt": "..."}}"#,
            "3",
            start,
        ),
        (
            r#"{"run": "swift-agent", "iteration": "3", "topic": "review.ready", "payload": "initial implementation complete", "source": "agent"}"#,
            "3",
            routing,
        ),
        (
            r#"{"run": "swift-agent", "iteration": "2", "topic": "issue.discovered", "payload": "id=issue-1; summary=fix login bug; disposition=open; owner=builder;", "source": "agent"}"#,
            "2",
            issue,
        ),
    ];
    for (line, iteration, event) in examples {
        let record = parse(line.as_bytes()).unwrap();
        assert_eq!((record.run.as_str(), record.iteration.as_str()), ("swift-agent", iteration));
        assert_eq!((&record.ts, record.version), (&None, None));
        assert_means(&record, &event);

        let mut printed = Vec::new();
        print(&record, &mut printed);
        assert_eq!(printed, format!("{line}\n").as_bytes(), "it is written as the reference shows");

        let dated = line.strip_suffix('}').unwrap().to_owned()
            + r#", "ts": "2026-11-15T21:12:06.031Z", "v": 1}"#;
        let record = parse(dated.as_bytes()).unwrap();
        assert_means(&record, &event);
        assert_eq!(record.version, Some(1));
        let stamp = Timestamp::from_millis(1_794_777_126_031);
        assert_eq!(record.ts.as_deref().map(str::parse), Some(Ok(stamp)));
        assert_eq!(Glance::read(dated.as_bytes()).unwrap().ts().unwrap(), record.ts.unwrap());
    }
}

/// Numbers stand on the wire as the reference shows them.
#[test]
fn the_wire_form_is_that_of_the_reference() {
    let heading =
        Heading { run: "r".into(), iteration: "3".into(), now: Timestamp::from_millis(0) };
    let finish = IterationFinish {
        exit_code: (-1).into(),
        timed_out: Some(false),
        elapsed_s: Some(Amount(12)),
        output: "a\n".into(),
        ..IterationFinish::default()
    };
    let mut line = Vec::new();
    print(&finish.record(&heading), &mut line);
    assert_eq!(
        String::from_utf8(line).unwrap(),
        r#"{"run": "r", "iteration": "3", "topic": "iteration.finish", "fields": {"exit_code": "-1", "timed_out": false, "elapsed_s": 12, "output": "a\u000a"}, "ts": "1970-01-01T00:00:00.000Z", "v": 1}"#
            .to_owned()
            + "\n"
    );
}
