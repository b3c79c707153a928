use super::*;
use crate::agents::Dollars;
use crate::config::ItemSource;
use crate::format::Format;
use crate::record::{
    Amount, BackendUsage, Heading, Record, SlotFix, SlotImplement, SlotReview,
    SlotsIterationFinish, print,
};
use crate::view::View;
use crate::views::usage::Usages;

const RULES: SlotRules = SlotRules {
    iterations: Some(1),
    parallel_agents: 1,
    review: Review::On,
    max_fix_attempts: 2,
    contract_repair: 0,
    new_items: NewItems::Excluded,
    max_items: None,
    commit: Commit::Off,
};

fn at(iteration: u64) -> Heading {
    let now = "2026-01-02T03:04:05.006Z".parse().unwrap();
    Heading { run: "r".to_owned(), iteration: iteration.to_string(), now }
}

fn folded(records: &[Record]) -> Slots {
    let mut slots = Slots::new("r");
    for record in records {
        let mut line = Vec::new();
        print(record, &mut line);
        slots.apply(&Glance::read(line.trim_ascii_end()).unwrap());
    }
    slots
}

/// The records of one slot, one after another.
#[derive(Clone)]
struct Story(Vec<Record>);

impl Story {
    fn of(item: &str, branch: &str) -> Story {
        let run = SlotRunStart { parallel_agents: 1, ..SlotRunStart::default() };
        let start = SlotStart {
            slot: 1,
            item_id: item.into(),
            branch: branch.into(),
            title: "a slug".into(),
            ..SlotStart::default()
        };
        Story(vec![run.record(&at(0)), start.record(&at(1))])
    }

    fn implemented(mut self, exit_code: i32) -> Story {
        let implement =
            SlotImplement { slot: 1, exit_code: exit_code.into(), ..SlotImplement::default() };
        self.0.push(implement.record(&at(1)));
        self
    }

    fn said(mut self, picked: &str) -> Story {
        let implement = SlotImplement {
            slot: 1,
            picked: Picked::from_word(picked),
            ..SlotImplement::default()
        };
        self.0.push(implement.record(&at(1)));
        self
    }

    fn reviewed(mut self, attempt: u64, verdict: &str) -> Story {
        let review = SlotReview {
            slot: 1,
            attempt,
            verdict: verdict.into(),
            follow_up_prompt: "a test is missing".into(),
            reason: "no JSON".into(),
            ..SlotReview::default()
        };
        self.0.push(review.record(&at(1)));
        self
    }

    fn fixed(mut self, attempt: u64, exit_code: i32) -> Story {
        let fix = SlotFix { slot: 1, attempt, exit_code: exit_code.into(), ..SlotFix::default() };
        self.0.push(fix.record(&at(1)));
        self
    }

    fn merged(mut self, outcome: &str, files: &str) -> Story {
        let merge = SlotMerge {
            slot: 1,
            outcome: outcome.into(),
            files: files.into(),
            ..SlotMerge::default()
        };
        self.0.push(merge.record(&at(1)));
        self
    }

    /// What the slot does next, in short.
    fn next(&self, rules: &SlotRules) -> String {
        match slot_step(&folded(&self.0).slots[0], rules) {
            SlotStep::Implement => "implement".to_owned(),
            SlotStep::Review { attempt } => format!("review {attempt}"),
            SlotStep::Fix { attempt, follow_up } => format!("fix {attempt}: {follow_up}"),
            SlotStep::Merge => "merge".to_owned(),
            SlotStep::Finish(finish) => format!("{}: {}", finish.outcome, finish.reason),
            SlotStep::Over => "over".to_owned(),
        }
    }
}

#[test]
fn work_is_implemented_reviewed_and_passed() {
    let story = Story::of("t-1", "");
    assert_eq!(story.next(&RULES), "implement");
    let story = story.implemented(0);
    assert_eq!(story.next(&RULES), "review 0");
    assert_eq!(story.reviewed(0, "pass").next(&RULES), "passed: a test is missing");
}

#[test]
fn review_is_skipped_on_each_of_the_conditions() {
    let done = Story::of("t-1", "").implemented(0);
    let off = SlotRules { review: Review::Off, ..RULES };
    assert_eq!(done.next(&off), "passed: not reviewed: reviews are off");
    let silent = SlotRules { review: Review::NoPrompt, ..RULES };
    assert_eq!(done.next(&silent), "passed: not reviewed: there is no reviewer prompt");
    assert_eq!(Story::of("", "").next(&RULES), "no_item: no item is available");
    let story = Story::of("t-1", "").said("none");
    assert_eq!(story.next(&RULES), "no_item: the agent did not take the item");
    let story = Story::of("t-1", "").implemented(7);
    assert_eq!(story.next(&RULES), "failed: the implementer failed (exit code 7)");
    // What the agent says to have picked does not decide.
    assert_eq!(Story::of("t-1", "").said("t-2").next(&RULES), "review 0");
}

#[test]
fn so_many_fixes_and_one_review_more() {
    let mut story = Story::of("t-1", "").implemented(0);
    for attempt in 0..2 {
        assert_eq!(story.next(&RULES), format!("review {attempt}"));
        story = story.reviewed(attempt, "drift");
        assert_eq!(story.next(&RULES), format!("fix {}: a test is missing", attempt + 1));
        story = story.fixed(attempt + 1, 0);
    }
    assert_eq!(story.next(&RULES), "review 2");
    let passed = story.clone().reviewed(2, "pass");
    assert_eq!(passed.next(&RULES), "passed: a test is missing");
    let story = story.reviewed(2, "drift");
    insta::assert_snapshot!(story.next(&RULES), @"drift: after 2 fixes the review still found: a test is missing");
    let none = SlotRules { max_fix_attempts: 0, ..RULES };
    let story = Story::of("t-1", "").implemented(0).reviewed(0, "drift");
    insta::assert_snapshot!(story.next(&none), @"drift: there are no fixes, and the review found: a test is missing");
}

#[test]
fn a_failure_ends_the_slot_at_once() {
    let done = Story::of("t-1", "").implemented(0);
    assert_eq!(done.clone().reviewed(0, "failed").next(&RULES), "failed: no JSON");
    assert_eq!(
        done.clone().reviewed(0, "violation").next(&RULES),
        "violation: no JSON; `slots.reviewContractRepair = 1` asks the reviewer once more"
    );
    insta::assert_snapshot!(done.clone().reviewed(0, "approve").next(&RULES), @"failed: unknown verdict 'approve'");
    let fixed = done.reviewed(0, "drift").fixed(1, 3);
    assert_eq!(fixed.next(&RULES), "failed: the fixer failed (exit code 3)");
}

#[test]
fn a_broken_contract_can_be_mended_once() {
    let rules = SlotRules { contract_repair: 1, ..RULES };
    let story = Story::of("t-1", "").implemented(0).reviewed(0, "violation");
    assert_eq!(story.next(&rules), "review 0");
    let again = story.clone().reviewed(0, "violation");
    assert_eq!(again.next(&rules), "violation: no JSON");
    // Each question has its own.
    let later = story.reviewed(0, "drift").fixed(1, 0).reviewed(1, "violation");
    assert_eq!(later.next(&rules), "review 1");
}

#[test]
fn what_passed_on_a_branch_is_brought_back() {
    let story = Story::of("t-1", "slots/t-1").implemented(0).reviewed(0, "pass");
    assert_eq!(story.next(&RULES), "merge");
    assert_eq!(story.clone().merged("merged", "").next(&RULES), "passed: a test is missing");
    assert_eq!(story.clone().merged("nothing", "").next(&RULES), "passed: a test is missing");
    insta::assert_snapshot!(story.clone().merged("conflict", "a.rs,b.rs").next(&RULES), @"failed: the work could not be merged back (conflict: a.rs,b.rs)");
    // What a later version says is kept, and is no success.
    insta::assert_snapshot!(story.clone().merged("rebased", "").next(&RULES), @"failed: the work could not be merged back (rebased)");
    insta::assert_snapshot!(story.merged("failed", "").next(&RULES), @"failed: the work could not be merged back (failed)");
}

fn item(iteration: u64, slot: u64, item: &str) -> Record {
    let start = SlotStart { slot, item_id: item.into(), ..SlotStart::default() };
    start.record(&at(iteration))
}

fn ended(iteration: u64, slot: u64, outcome: &str) -> Record {
    let finish = SlotFinish { slot, outcome: outcome.into(), ..SlotFinish::default() };
    finish.record(&at(iteration))
}

fn marked(iteration: u64) -> Record {
    let stop_marker = Some(true);
    SlotImplement { slot: 1, stop_marker, ..SlotImplement::default() }.record(&at(iteration))
}

fn over(iteration: u64) -> Record {
    SlotsIterationFinish::default().record(&at(iteration))
}

#[test]
fn iterations_follow_each_other_until_one_of_the_ends() {
    let start = SlotRunStart::default().record(&at(0));
    let two = SlotRules { iterations: Some(2), parallel_agents: 2, ..RULES };
    let step = |records: &[Record]| next_step(&folded(records), &two);
    assert_eq!(step(&[]), Step::Start);
    let open = |iteration| Step::Open { iteration, slots: vec![1, 2] };
    let mut records = vec![start];
    assert_eq!(step(&records), open(1));
    records.extend([item(1, 1, "a"), item(1, 2, "b")]);
    assert_eq!(step(&records), Step::CarryOut { iteration: 1, slots: vec![1, 2] });
    records.push(ended(1, 2, "passed"));
    assert_eq!(step(&records), Step::CarryOut { iteration: 1, slots: vec![1] });
    records.push(ended(1, 1, "drift"));
    let Step::FinishIteration(finished) = step(&records) else { panic!("{:?}", step(&records)) };
    let failure = finished.failure().unwrap();
    assert_eq!(failure, "iteration 1 failed: 1 of 2 items did not pass (a)");
    records.push(finished.finish().record(&at(1)));
    assert_eq!(step(&records), open(2));
    // The item that failed is taken again, and what it comes to then is what it came to.
    records.extend([item(2, 1, "a"), ended(2, 1, "passed"), over(2)]);
    let finish = |reason: &str, taken, passed| {
        Step::Finish(SlotRunFinish {
            reason: reason.into(),
            taken,
            passed,
            ..SlotRunFinish::default()
        })
    };
    assert_eq!(step(&records), finish("iterations", 2, 2));
    let endless = SlotRules { iterations: None, ..two };
    assert_eq!(next_step(&folded(&records), &endless), open(3));
    assert_eq!(folded(&records).spent(&endless), ["a", "b", "a"]);
    assert_eq!(folded(&records).spent(&two), [""; 0]);
    records.push(folded(&records).finished(End::Iterations).record(&at(0)));
    assert_eq!(step(&records), Step::Over);
}

#[test]
fn nothing_to_take_and_the_stop_marker_end_a_run() {
    let start = SlotRunStart::default().record(&at(0));
    let endless = SlotRules { iterations: None, ..RULES };
    let reason = |records: &[Record]| match next_step(&folded(records), &endless) {
        Step::Finish(finish) => finish.reason.to_string(),
        other => format!("{other:?}"),
    };
    let none = [start.clone(), item(1, 1, ""), ended(1, 1, "no_item"), over(1)];
    assert_eq!(reason(&none), "no_items");
    assert!(begins(1, false) && begins(2, true) && !begins(2, false));
    let mut stopped = vec![start, item(1, 1, "a"), marked(1)];
    assert_eq!(
        next_step(&folded(&stopped), &endless),
        Step::CarryOut { iteration: 1, slots: vec![1] },
        "what is under way goes on"
    );
    stopped.extend([ended(1, 1, "passed"), over(1)]);
    assert_eq!(reason(&stopped), "stop_marker");
}

#[test]
fn what_ended_stays_ended() {
    let mut records = vec![
        SlotRunStart { stop_marker: "x".into(), ..SlotRunStart::default() }.record(&at(0)),
        SlotRunStart::default().record(&at(0)),
        item(1, 1, "a"),
        item(1, 1, "b"),
    ];
    records.push(ended(1, 1, "drift"));
    records.push(ended(1, 1, "passed"));
    records.push(marked(1));
    records.push(marked(7));
    let slots = folded(&records);
    assert_eq!(slots.start.as_ref().unwrap().stop_marker, "x");
    assert_eq!(slots.slots.len(), 1);
    assert_eq!(slots.slots[0].start.item_id, "a");
    assert_eq!(slots.slots[0].outcome(), Some(Outcome::Drift));
    assert!(!slots.is_stopping);
}

#[test]
fn a_run_is_written_out() {
    let story = Story::of("t-1", "").implemented(0).reviewed(0, "drift").fixed(1, 0);
    let phase = SlotPhase { slot: 1, phase: "fix".into(), attempt: 1, ..SlotPhase::default() };
    let mut records = story.0;
    records.push(phase.record(&at(1)));
    insta::assert_snapshot!(folded(&records).render(Status::Crashed, &Usages::default(), Format::Terminal), @r"
    slots r: crashed, 0 of 1 item passed
      1.1  t-1  fix 1  1 review, 1 fix  a slug
    ");
    // Words of a later version are shown as they stand, and count as nothing good.
    let phase = SlotPhase { slot: 1, phase: "polish".into(), ..SlotPhase::default() };
    let later = [records.clone(), vec![phase.record(&at(1))]].concat();
    assert_eq!(folded(&later).slots[0].state(), "polish");
    let later = [later, vec![ended(1, 1, "perfect")]].concat();
    assert_eq!(folded(&later).slots[0].state(), "perfect");
    assert_eq!(Tally::of(&folded(&later)), Tally { taken: 1, passed: 0 });
    let finish = SlotFinish {
        slot: 1,
        outcome: "failed".into(),
        reason: "the fixer exited with 1".into(),
        ..SlotFinish::default()
    };
    records.push(finish.record(&at(1)));
    records.push(folded(&records).finished(End::Iterations).record(&at(0)));
    let run = folded(&records);
    let usage = BackendUsage {
        total_tokens: Amount(41_234),
        cost_usd: Dollars::new(0.38),
        slot: Some(1),
        ..BackendUsage::default()
    };
    let mut line = Vec::new();
    print(&usage.record(&at(1)), &mut line);
    let mut usages = Usages::default();
    usages.apply(&Glance::read(line.trim_ascii_end()).unwrap());
    insta::assert_snapshot!(run.render(run.status(), &usages, Format::Markdown), @r"
    # Slots r

    failed (iterations), 0 of 1 item passed: 41.2k tokens, $0.38

    | slot | item | state | reviews | fixes | usage | about |
    |---|---|---|---|---|---|---|
    | 1.1 | t-1 | failed | 1 | 1 | 41.2k tokens, $0.38 | the fixer exited with 1 |
    ");
    assert!(run.render(run.status(), &usages, Format::Terminal).contains(", 41.2k tokens, $0.38"));
    let json = run.render(run.status(), &usages, Format::Json);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["slots"][0]["reviews"][0]["verdict"], "drift");
    assert_eq!(json["slots"][0]["usage"]["cost_usd"], 0.38);
    assert_eq!(json["usage"]["total_tokens"], 41_234);
}

#[test]
fn what_a_run_began_with_is_known_or_kept_as_it_stands() {
    let start = SlotRunStart {
        source: ItemSource::Beads.into(),
        isolation: Word::from("container"),
        ..SlotRunStart::default()
    };
    let slots = folded(&[start.record(&at(0))]);
    assert_eq!(slots.start.as_ref(), Some(&start));
    assert_eq!(start.source, ItemSource::Beads);
    assert_eq!(
        (start.isolation.known(), start.isolation.to_string().as_str()),
        (None, "container")
    );
}
