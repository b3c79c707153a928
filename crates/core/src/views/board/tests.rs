use autoloop_testkit::shorthand;
use proptest::prelude::*;

use super::*;
use crate::timestamp::Timestamp;
use crate::view::View;

fn boards(story: &str) -> Boards {
    let mut boards = Boards::default();
    for line in shorthand::lines(story) {
        boards.apply(&Glance::read(line.as_bytes()).unwrap());
    }
    boards
}

fn in_outcome(outcome: &Option<Outcome>) -> String {
    match outcome {
        Some(Outcome { word, end: End::Done }) => format!(" +{word}"),
        Some(Outcome { word, .. }) => format!(" -{word}"),
        None => String::new(),
    }
}

/// A board as text, half a minute after the last record.
fn shown(board: &Board) -> String {
    let now = board.times.1.parse::<Timestamp>().unwrap();
    let now = Timestamp::from_millis(now.millis() + 30_000);
    let text = format!(
        "{} {}: {} | {}{}\n",
        board.word(),
        board.id,
        board.title,
        board.progress_in_words(None),
        in_outcome(&board.outcome)
    );
    text + &rows(board.rows.iter(), now)
}

/// The finished rows of the latest board.
fn finished(story: &str) -> String {
    let boards = boards(story);
    let board = boards.iter().last().unwrap();
    rows(board.finished.iter().rev(), board.times.1.parse().unwrap())
}

fn rows<'r>(rows: impl Iterator<Item = &'r Row>, now: Timestamp) -> String {
    let mut text = String::new();
    for row in rows {
        let indent = "  ".repeat(usize::try_from(row.level).unwrap() + 1);
        text += &format!(
            "{indent}{} | {} | {} | {} | {} | {}{}\n",
            row.name,
            row.badge(),
            format!("{} {}", row.item, row.title).trim(),
            row.elapsed(now).map_or("-".to_owned(), |time| format!("{}s", time.as_secs())),
            row.note,
            row.output.as_deref().unwrap_or("-"),
            in_outcome(&row.outcome)
        );
    }
    text
}

fn shown_all(story: &str) -> String {
    boards(story).iter().map(shown).collect()
}

const LOOP: &str = "
    otter loop.start max_iterations=9; objective=write a parser
    otter#1 iteration.start suggested_roles=planner
    otter#1 tasks.ready said two tasks
    otter#1 iteration.finish exit_code=0
    otter#2 review.start kind=metareview; backend_kind=command
";

#[test]
fn a_loop_is_one_row() {
    insta::assert_snapshot!(shown_all(LOOP), @r"
    loop otter: write a parser | iteration 2/9
      loop | REVIEW | planner | 30s | tasks.ready two tasks | runs/otter/metareview-2.out
    ");
    let on = "
        otter#2 review.finish exit_code=0
        otter#2 iteration.start suggested_roles=builder
    ";
    insta::assert_snapshot!(shown_all(&format!("{LOOP}{on}")), @r"
    loop otter: write a parser | iteration 2/9
      loop | RUN 2/9 | builder | 30s |  | runs/otter/iteration-2.out
    ");
}

#[test]
fn finished_iterations_and_items_are_kept() {
    let on = "
        otter#2 review.finish exit_code=0
        otter#2 iteration.start suggested_roles=builder
        otter#2 iteration.finish exit_code=0
        otter#3 iteration.start suggested_roles=builder
        otter#3 iteration.finish exit_code=7
    ";
    insta::assert_snapshot!(finished(&format!("{LOOP}{on}")), @r"
      iteration 3 | FAILED | builder | 1s | the agent failed (exit code 7) | runs/otter/iteration-3.out -failed
      iteration 2 | DONE | builder | 1s | no event | runs/otter/iteration-2.out +done
      metareview 2 | DONE |  | 1s |  | runs/otter/metareview-2.out +done
      iteration 1 | DONE | planner | 2s | tasks.ready two tasks | runs/otter/iteration-1.out +done
    ");
    let slots = "
        crow slot.run.start parallel_agents=2; max_fix_attempts=5; source=builtin
        crow#1 slot.start slot=1; item_id=t-1; title=one
        crow#1 slot.start slot=2; item_id=
        crow#1 slot.finish slot=2; item_id=; outcome=no_item
        crow#1 slot.phase slot=1; item_id=t-1; phase=implement; attempt=0
        crow#1 slot.finish slot=1; item_id=t-1; outcome=failed; reason=why
        crow#2 slot.start slot=1; item_id=t-2; title=two
        crow#2 slot.start slot=2; item_id=t-3; title=three
    ";
    insta::assert_snapshot!(finished(slots), @"  slot 1 | FAILED | t-1 one | 4s | why | slots/crow/1-1/implement.out -failed");
    let mut many = String::from("otter loop.start max_iterations=9");
    for number in 1..=FINISHED + 5 {
        many += &format!("\notter#{number} iteration.start x=\notter#{number} iteration.finish x=");
    }
    let boards = boards(&many);
    let board = boards.iter().next().unwrap();
    assert_eq!((board.finished.len(), board.finished_count), (FINISHED, FINISHED as u64 + 5));
    assert_eq!(board.shown().nth(1).unwrap().name, format!("iteration {}", FINISHED + 5));
}

#[test]
fn a_row_says_what_its_agent_waits_for() {
    let parked = "
        otter#2 review.finish exit_code=0
        otter#2 iteration.start suggested_roles=builder
        otter#2 backend.parked client=claude; class=rate_limit; detail=slow down; wait_ms=90000; until=2026-01-02T03:02:00.000Z
    ";
    let story = format!("{LOOP}{parked}");
    let all = boards(&story);
    let row = &all.iter().next().unwrap().rows[0];
    let parked = row.parked.as_ref().unwrap();
    assert_eq!(row.badge(), "PARKED");
    assert_eq!(parked.to_string(), "claude is unavailable (rate_limit): slow down");
    let at = |second| format!("2026-01-02T03:01:{second}.000Z").parse().unwrap();
    assert_eq!(parked.left_in_words(at("29")), "parked, 31s left");
    assert_eq!(parked.left_in_words(at("59")), "parked, 1s left");
    assert_eq!(all.iter().next().unwrap().parked(), Some(parked));
    for end in ["backend.resumed client=claude", "iteration.finish exit_code=1", "loop.stop x="] {
        let all = boards(&format!("{story}otter#2 {end}"));
        assert_eq!(all.iter().next().unwrap().parked(), None, "{end}");
    }
}

#[test]
fn slots_wait_only_while_no_agent_works() {
    let story = "
        crow slot.run.start parallel_agents=2; source=builtin
        crow#1 slot.start slot=1; item_id=t-1
        crow#1 slot.start slot=2; item_id=t-2
        crow#1 slot.phase slot=1; phase=implement; attempt=0
        crow#1 slot.phase slot=2; phase=implement; attempt=0
        crow#1 backend.parked client=claude; class=overload; until=2026-01-02T03:02:00.000Z; slot=2
    ";
    let badges = |story: &str| {
        let boards = boards(story);
        let board = boards.iter().next().unwrap();
        let badges = board.rows.iter().map(Row::badge).collect::<Vec<_>>().join(" ");
        (badges, board.parked().is_some())
    };
    assert_eq!(badges(story), ("WORK PARKED".to_owned(), false));
    let both = format!("{story}crow#1 backend.parked client=claude; slot=1");
    assert_eq!(badges(&both), ("PARKED PARKED".to_owned(), true));
    let resumed = format!("{both}\ncrow#1 backend.resumed client=claude; slot=2");
    assert_eq!(badges(&resumed), ("PARKED WORK".to_owned(), false));
}

/// A slot whose agent has ended waits for room, or for the end of the run.
#[test]
fn a_slot_without_an_agent_is_not_at_work() {
    let story = "
        crow slot.run.start parallel_agents=2; source=builtin
        crow#1 slot.start slot=1; item_id=t-1
        crow#1 slot.start slot=2; item_id=t-2
        crow#1 slot.phase slot=1; phase=implement; attempt=0
        crow#1 slot.phase slot=2; phase=implement; attempt=0
        crow#1 slot.implement slot=1; exit_code=0
        crow#1 backend.failed client=claude; detail=Invalid API key; slot=2
    ";
    let badges = |more: &str| {
        let boards = boards(&format!("{story}{more}"));
        let rows = &boards.iter().next().unwrap().rows;
        rows.iter().map(|row| format!("{} {}", row.badge(), row.note)).collect::<Vec<_>>().join("|")
    };
    assert_eq!(badges(""), "NEXT |STOPPED Invalid API key");
    assert_eq!(badges("crow#1 slot.phase slot=1; phase=review"), "REVIEW |STOPPED Invalid API key");
    let drift = "crow#1 slot.phase slot=1; phase=review\ncrow#1 slot.review slot=1; verdict=drift";
    assert_eq!(badges(drift), "NEXT drift:|STOPPED Invalid API key");
    let fixed = "crow#1 slot.phase slot=1; phase=fix; attempt=1\ncrow#1 slot.fix slot=1; attempt=1";
    assert_eq!(badges(fixed), "NEXT |STOPPED Invalid API key");
    // The run is resumed.
    let resumed = "crow#1 slot.phase slot=2; phase=implement; attempt=0";
    assert_eq!(badges(resumed), "NEXT |WORK ");
}

#[test]
fn an_output_may_be_the_stream_of_a_client() {
    let outputs = |story: &str| boards(story).iter().next().unwrap().rows[0].outputs().join(" ");
    assert_eq!(
        outputs(LOOP),
        "runs/otter/metareview-2.out runs/otter/claude-review.2.jsonl \
         runs/otter/codex-review.2.jsonl runs/otter/gemini-review.2.jsonl \
         runs/otter/opencode-review.2.jsonl runs/otter/pi-review.2.jsonl runs/otter/acp-review.2.jsonl"
    );
    let iteration = "otter loop.start\notter#3 iteration.start x=";
    assert!(outputs(iteration).contains("iteration-3.out runs/otter/claude-stream.3.jsonl "));
    assert_eq!(outputs("otter loop.start"), "");
}

#[test]
fn a_loop_that_is_over_says_how_and_goes_on_when_it_is_resumed() {
    let over = "
        otter loop.start max_iterations=1; objective=x
        otter#1 iteration.start suggested_roles=
        otter#1 iteration.finish exit_code=7
        otter loop.stop reason=backend_failed
    ";
    insta::assert_snapshot!(shown_all(over), @r"
    loop otter: x | iteration 1/1 -backend_failed
      loop | FAILED |  | 3s | the agent failed (exit code 7) | runs/otter/iteration-1.out -backend_failed
    ");
    insta::assert_snapshot!(shown_all(&format!("{over}\notter loop.resume")), @r"
    loop otter: x | iteration 1/1
      loop | NEXT |  | 30s | the agent failed (exit code 7) | runs/otter/iteration-1.out
    ");
    let badge = |end: &str| {
        let story = format!("otter loop.start max_iterations=1\notter {end}");
        boards(&story).iter().next().unwrap().rows[0].badge()
    };
    assert_eq!(badge("loop.complete reason=completion_event"), "DONE");
    assert_eq!(badge("loop.stop reason=max_iterations"), "STOPPED");
    assert_eq!(badge("loop.stop reason=interrupted"), "STOPPED");
}

#[test]
fn branches_stand_under_their_loop_until_the_next_wave() {
    let wave = r"
        otter loop.start max_iterations=9; objective=x
        otter#1 wave.start wave_id=otter-wave-1; objectives=- look here\n- look there
        otter#1 wave.branch.start wave_id=otter-wave-1; branch_id=branch-1
        otter-wave-1-1 loop.start max_iterations=1; objective=look here; parent=otter
        otter-wave-1-1#1 iteration.start suggested_roles=scout
        otter-wave-1-1#1 iteration.finish exit_code=0
        otter-wave-1-1 loop.stop reason=max_iterations
        otter#1 wave.branch.finish wave_id=otter-wave-1; branch_id=branch-1; stop_reason=max_iterations
    ";
    insta::assert_snapshot!(shown_all(wave), @r"
    loop otter: x | iteration 0/9
      loop | WAVE |  | 36s |  | -
        branch-1 | DONE | look here | 4s |  | waves/otter-wave-1/branches/branch-1/iteration-1.out +max_iterations
        branch-2 | WAIT | look there | - |  | -
    ");
    let next = "
        otter#1 wave.join.finish wave_id=otter-wave-1
        otter#2 iteration.start suggested_roles=builder
        otter#2 wave.start wave_id=otter-wave-2; objectives=- once more
    ";
    insta::assert_snapshot!(shown_all(&format!("{wave}{next}")), @r"
    loop otter: x | iteration 2/9
      loop | WAVE | builder | 30s |  | runs/otter/iteration-2.out
        branch-1 | WAIT | once more | - |  | -
    ");
}

#[test]
fn the_steps_of_a_chain_are_filled_by_their_runs() {
    let chain = "
        relay chain.start name=ship; steps=autospec,autocode; objective=a tool
        relay chain.step.start step=1; preset=autospec; run_id=otter
        otter loop.start max_iterations=5; objective=a tool
        otter loop.complete reason=completion_event
        relay chain.step.finish step=1; preset=autospec; stop_reason=completion_event
        relay chain.step.start step=2; preset=autocode; run_id=heron
        heron loop.start max_iterations=5; objective=a tool
        heron#1 iteration.start suggested_roles=builder
    ";
    insta::assert_snapshot!(shown_all(chain), @r"
    chain relay: ship a tool | 1/2 steps done
      step 1 | DONE | autospec a tool | 2s |  | - +completion_event
      step 2 | RUN 1/5 | autocode a tool | 30s |  | runs/heron/iteration-1.out
    ");
    let end = "
        heron loop.stop reason=backend_failed
        relay chain.step.finish step=2; preset=autocode; stop_reason=backend_failed
        relay chain.complete outcome=step_failed
    ";
    insta::assert_snapshot!(shown_all(&format!("{chain}{end}")).lines().next().unwrap(), @"chain relay: ship a tool | 2/2 steps done -step_failed");
}

const SLOTS: &str = "
    crow slot.run.start iterations=4; parallel_agents=3; review=true; max_fix_attempts=5; source=builtin
    crow#1 slot.start slot=1; item_id=t-7; title=mend the parser
    crow#1 slot.start slot=2; item_id=t-8; title=write tests
    crow#1 slot.start slot=3; item_id=; title=
    crow#1 slot.finish slot=3; item_id=; outcome=no_item; reason=the queue is empty
    crow#1 slot.phase slot=1; item_id=t-7; phase=implement; attempt=0
    crow#1 slot.phase slot=2; item_id=t-8; phase=implement; attempt=0
    crow#1 slot.implement slot=1; item_id=t-7; exit_code=0
    crow#1 slot.phase slot=1; item_id=t-7; phase=review; attempt=0
    crow#1 slot.review slot=1; item_id=t-7; attempt=0; verdict=drift; follow_up_prompt=no tests
    crow#1 slot.phase slot=1; item_id=t-7; phase=fix; attempt=1
    crow#1 slot.phase slot=2; item_id=t-8; phase=review; attempt=0
";

#[test]
fn slots_have_a_row_each_with_a_badge() {
    insta::assert_snapshot!(shown_all(SLOTS), @r"
    slots crow: items from builtin | 2 taken, 0 passed, 0 failed  iteration 1/4
      slot 1 | FIX 1/5 | t-7 mend the parser | 31s | drift: no tests | slots/crow/1-1/fix-1.out
      slot 2 | REVIEW | t-8 write tests | 30s |  | slots/crow/1-2/review-0.out
      slot 3 | IDLE |  | 1s | the queue is empty | - -no_item
    ");
    let end = "
        crow#1 slot.phase slot=2; item_id=t-8; phase=merge; attempt=0
        crow#1 slot.finish slot=2; item_id=t-8; outcome=passed; reason=
        crow#1 slot.finish slot=1; item_id=t-7; outcome=drift; reason=not mended after 5 fixes
        crow slot.run.finish reason=no_items; taken=2; passed=1
    ";
    insta::assert_snapshot!(shown_all(&format!("{SLOTS}{end}")), @r"
    slots crow: items from builtin | 2 taken, 1 passed, 1 failed  iteration 1/4 -no_items
      slot 1 | FAILED | t-7 mend the parser | 13s | not mended after 5 fixes | slots/crow/1-1/fix-1.out -drift
      slot 2 | DONE | t-8 write tests | 11s |  | slots/crow/1-2/review-0.out +passed
      slot 3 | IDLE |  | 1s | the queue is empty | - -no_item
    ");
}

#[test]
fn an_item_that_was_taken_twice_counts_once_by_its_last_slot() {
    let story = [
        "crow slot.run.start parallel_agents=1; source=builtin",
        "crow#1 slot.start slot=1; item_id=t-1",
        "crow#1 slot.finish slot=1; item_id=t-1; outcome=drift",
        "crow#2 slot.start slot=1; item_id=t-1",
        "crow#2 slot.finish slot=1; item_id=t-1; outcome=no_item",
        "crow#3 slot.start slot=1; item_id=t-1",
        "crow#3 slot.finish slot=1; item_id=t-1; outcome=passed",
        "crow#4 slot.start slot=1; item_id=t-2",
        "crow#4 slot.finish slot=1; item_id=t-2; outcome=no_item",
    ];
    let counts: Vec<String> = (1..=story.len())
        .map(|end| {
            let boards = boards(&story[..end].join("\n"));
            let Progress { taken, passed, failed, .. } = boards.iter().next().unwrap().progress;
            format!("{taken} {passed} {failed}")
        })
        .collect();
    let expected =
        ["0 0 0", "1 0 0", "1 0 1", "1 0 0", "1 0 1", "1 0 0", "1 1 0", "2 1 0", "1 1 0"];
    assert_eq!(counts, expected);
}

#[test]
fn a_journal_that_claims_anything_makes_no_giant_board_and_leads_nowhere() {
    let wild = r"
        ../../etc loop.start max_iterations=x; objective=a\u000a  b
        ../../etc#1 iteration.start suggested_roles=
        crow slot.run.start parallel_agents=18446744073709551615; iterations=-1
        crow slot.start slot=99999999; item_id=a
        crow slot.phase slot=0; phase=dance
    ";
    insta::assert_snapshot!(shown_all(wild), @r"
    loop ../../etc: a b | iteration 1
      loop | RUN 1 |  | 30s |  | -
    slots crow: items from | 1 taken, 0 passed, 0 failed  iteration 0
    ");
}

proptest! {
    #[test]
    fn what_was_kept_after_any_record_comes_back(cut in 0_usize..40) {
        let story: Vec<&str> = LOOP.lines().chain(SLOTS.lines()).collect();
        let cut = cut.min(story.len());
        let kept = boards(&story[..cut].join("\n"));
        let bytes = kept.encode(Vec::new()).unwrap();
        prop_assert_eq!(Boards::decode(&bytes), Some(kept));
    }

    #[test]
    fn bytes_of_another_make_are_refused_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = Boards::decode(&bytes);
    }
}

const SQUAD: &str = "
    crow squad.start spec=# A parser; effort=medium; max_loops=4
    crow squad.turn turn=1; phase=enumerate
    crow squad.task turn=1; task_id=t1; title=parse the header
    crow squad.task turn=1; task_id=t2; title=print it
    crow squad.task turn=1; task_id=t3; title=write the manual
    crow backend.usage role=enumerate; total_tokens=100; cost_usd=0.5
    crow squad.turn.finish turn=1; exit_code=0
    crow squad.turn turn=2; phase=plan
    crow squad.group turn=2; tasks=t1,t2
    crow squad.group turn=2; tasks=t3
    crow squad.turn.finish turn=2; exit_code=0
    crow squad.turn turn=3; phase=review; subject=plan
    crow squad.answer turn=3; passed=true; issues=[]
    crow squad.turn.finish turn=3; exit_code=0
    crow squad.review review_id=crow-3-1; subject=plan; turn=3; verdict=pass; reason=; support=unverified
    crow squad.loop loop_id=crow-1; task_id=t1; group=1; branch=b; tree=w; base=c
    crow squad.loop loop_id=crow-2; task_id=t2; group=1; branch=b; tree=w; base=c
    crow squad.turn turn=4; phase=build; loop_id=crow-1; task_id=t1; attempt=0
    crow squad.turn turn=5; phase=build; loop_id=crow-2; task_id=t2; attempt=0
";

/// Continues the squad: both loops are complete, the first one passes, and the second one does not.
const REVIEWED: &str = "
    crow squad.report turn=4; task_id=t1; claim=complete
    crow backend.usage role=build; total_tokens=100; cost_usd=0.25
    crow squad.turn.finish turn=4; loop_id=crow-1; exit_code=0; commit=d; tree=e
    crow squad.turn turn=6; phase=review; subject=task; loop_id=crow-1; task_id=t1
    crow squad.turn.finish turn=5; loop_id=crow-2; exit_code=0; commit=d; tree=e
    crow squad.turn turn=7; phase=build; loop_id=crow-2; task_id=t2; attempt=0
    crow squad.answer turn=6; loop_id=crow-1; passed=true; issues=[]
    crow squad.turn.finish turn=6; loop_id=crow-1; exit_code=0
    crow squad.review review_id=crow-6-1; subject=task; loop_id=crow-1; turn=6; verdict=pass
    crow squad.report turn=7; task_id=t2; claim=complete
    crow squad.turn.finish turn=7; loop_id=crow-2; exit_code=0; commit=d; tree=e
    crow squad.turn turn=8; phase=review; subject=task; loop_id=crow-2; task_id=t2
    crow squad.answer turn=8; loop_id=crow-2; passed=false; issues=[{\\\"description\\\": \\\"no test\\\"}]
    crow squad.turn.finish turn=8; loop_id=crow-2; exit_code=0
    crow squad.review review_id=crow-8-1; subject=task; loop_id=crow-2; turn=8; verdict=drift
";

/// The board of a squad as text, with the review and the cost of each row.
fn shown_squad(story: &str) -> String {
    let boards = boards(story);
    let board = boards.iter().last().unwrap();
    let more = board.rows.iter().map(|row| {
        let usage = board.usage_of(row, &Usages::default());
        let usage = usage.map(|usage| usage.cost_text()).unwrap_or_default();
        format!("{} | {usage}", row.review_in_words())
    });
    let text = shown(board);
    let (head, rows) = text.split_once('\n').unwrap();
    let lines = rows.lines().zip(more).map(|(row, more)| format!("{row} | {more}"));
    let lines: String = lines.map(|line| format!("{}\n", line.trim_end())).collect();
    format!("{head}\n{lines}")
}

#[test]
fn a_squad_has_a_row_per_group_with_its_loops_below() {
    insta::assert_snapshot!(shown_squad(SQUAD), @r"
    squad crow: # A parser | 0/3 tasks merged
      squad | BUILD | group 1 of 2 | 33s |  | - |  | $0.50
      group 1 | BUILD | 0/2 merged | 33s |  | - |  |
        crow-1 | BUILD 1 | t1 parse the header | 31s |  | squads/crow/turn-4/agent.out |  |
        crow-2 | BUILD 1 | t2 print it | 30s |  | squads/crow/turn-5/agent.out |  |
      group 2 | WAIT | 0/1 merged | - |  | - |  |
        t3 | WAIT | t3 write the manual | - |  | - |  |
    ");
    insta::assert_snapshot!(shown_squad(&format!("{SQUAD}{REVIEWED}")), @r"
    squad crow: # A parser | 0/3 tasks merged
      squad | BUILD | group 1 of 2 | 48s |  | - |  | $0.50
      group 1 | BUILD | 0/2 merged | 48s |  | - |  |
        crow-1 | PASSED | t1 parse the header | 36s | review: pass | squads/crow/turn-6/agent.out | passed | $0.25
        crow-2 | NEXT | t2 print it | 30s | review: drift: no test | squads/crow/turn-8/agent.out | failed, revision 1/3 |
      group 2 | WAIT | 0/1 merged | - |  | - |  |
        t3 | WAIT | t3 write the manual | - |  | - |  |
    ");
    insta::assert_snapshot!(finished(&format!("{SQUAD}{REVIEWED}")), @r"
    crow-2 | FAILED | t2 review | 2s | review: drift: no test | squads/crow/turn-8/agent.out -failed
    crow-2 | DONE | t2 build | 5s | complete | squads/crow/turn-7/agent.out +done
    crow-1 | DONE | t1 review | 4s | review: pass | squads/crow/turn-6/agent.out +passed
    crow-2 | DONE | t2 build | 5s |  | squads/crow/turn-5/agent.out +done
    crow-1 | DONE | t1 build | 4s | complete | squads/crow/turn-4/agent.out +done
    squad | DONE | review of the plan | 2s | review of the plan: pass | squads/crow/turn-3/agent.out +passed
    squad | DONE | plan | 3s |  | squads/crow/turn-2/agent.out +done
    squad | DONE | enumerate | 5s |  | squads/crow/turn-1/agent.out +done
    ");
}

#[test]
fn a_loop_that_is_stuck_says_why_until_the_user_resolves_it() {
    let stuck = "
        crow squad.turn turn=9; phase=revise; loop_id=crow-2; task_id=t2; attempt=1
        crow squad.turn.finish turn=9; loop_id=crow-2; exit_code=1; reason=the builder failed (exit code 1)
        crow squad.loop.finish loop_id=crow-2; outcome=stuck; reason=no review passed it after 3 revisions
        crow squad.finish outcome=blocked; reason=crow-2 is stuck
    ";
    let story = format!("{SQUAD}{REVIEWED}{stuck}");
    insta::assert_snapshot!(shown_squad(&story), @r"
    squad crow: # A parser | 0/3 tasks merged, 1 blocked -blocked
      squad | STOPPED | group 1 of 2 | 37s | crow-2 is stuck | - -blocked |  | $0.50
      group 1 | NEXT | 0/2 merged, 1 blocked | 30s |  | - |  |
        crow-1 | PASSED | t1 parse the header | 40s | review: pass | squads/crow/turn-6/agent.out | passed | $0.25
        crow-2 | STUCK | t2 print it | 20s | no review passed it after 3 revisions | squads/crow/turn-9/agent.out -stuck | failed, revision 1/3 |
      group 2 | WAIT | 0/1 merged | - |  | - |  |
        t3 | WAIT | t3 write the manual | - |  | - |  |
    ");
    let resolved = "
        crow squad.resume previous_end=blocked
        crow squad.resolve loop_id=crow-2; resolution=retry; reason=try the other parser
    ";
    insta::assert_snapshot!(shown_squad(&format!("{story}{resolved}")), @r"
    squad crow: # A parser | 0/3 tasks merged
      squad | BUILD | group 1 of 2 | 31s |  | - |  | $0.50
      group 1 | BUILD | 0/2 merged | 31s |  | - |  |
        crow-1 | PASSED | t1 parse the header | 42s | review: pass | squads/crow/turn-6/agent.out | passed | $0.25
        crow-2 | NEXT | t2 print it | 30s | retry: try the other parser | squads/crow/turn-9/agent.out | failed |
      group 2 | WAIT | 0/1 merged | - |  | - |  |
        t3 | WAIT | t3 write the manual | - |  | - |  |
    ");
}

#[test]
fn loops_are_merged_one_after_another() {
    let merged = "
        crow squad.resolve loop_id=crow-2; resolution=accept; reason=good enough
        crow squad.merge loop_id=crow-1; outcome=merged; commit=m; files=
        crow squad.turn turn=9; phase=conflict; loop_id=crow-2; task_id=t2; commit=m
    ";
    let story = format!("{SQUAD}{REVIEWED}{merged}");
    insta::assert_snapshot!(shown_squad(&story), @r"
    squad crow: # A parser | 1/3 tasks merged
      squad | BUILD | group 1 of 2 | 51s |  | - |  | $0.50
      group 1 | BUILD | 1/2 merged | 51s |  | - |  |
        crow-1 | MERGED | t1 parse the header | 20s | merged | squads/crow/turn-6/agent.out +merged | passed | $0.25
        crow-2 | CONFLICT | t2 print it | 30s |  | squads/crow/turn-9/agent.out | failed, revision 1/3 |
      group 2 | WAIT | 0/1 merged | - |  | - |  |
        t3 | WAIT | t3 write the manual | - |  | - |  |
    ");
    let again = "
        crow squad.turn.finish turn=9; loop_id=crow-2; exit_code=0; reason=conflict markers left (a.txt)
        crow squad.merge loop_id=crow-2; outcome=conflict; commit=d; files=a.txt; detail=the conflict was not resolved
        crow squad.loop loop_id=crow-2; task_id=t2; group=1; branch=b; tree=w; base=m
        crow squad.turn turn=10; phase=revise; loop_id=crow-2; task_id=t2; attempt=1
    ";
    let story = format!("{story}{again}");
    insta::assert_snapshot!(shown_squad(&story), @r"
    squad crow: # A parser | 1/3 tasks merged
      squad | BUILD | group 1 of 2 | 55s |  | - |  | $0.50
      group 1 | BUILD | 1/2 merged | 55s |  | - |  |
        crow-1 | MERGED | t1 parse the header | 20s | merged | squads/crow/turn-6/agent.out +merged | passed | $0.25
        crow-2 | REVISE 3 | t2 print it | 30s |  | squads/crow/turn-10/agent.out | failed, revision 1/3 |
      group 2 | WAIT | 0/1 merged | - |  | - |  |
        t3 | WAIT | t3 write the manual | - |  | - |  |
    ");
    let done = "
        crow squad.report turn=10; task_id=t2; claim=complete
        crow squad.turn.finish turn=10; loop_id=crow-2; exit_code=0; commit=d; tree=e
        crow squad.review review_id=crow-10; subject=task; loop_id=crow-2; turn=10; verdict=pass
        crow squad.merge loop_id=crow-2; outcome=merged; commit=m; files=; resolved_by=9
        crow squad.loop loop_id=crow-3; task_id=t3; group=2; branch=b; tree=w; base=m
        crow squad.turn turn=11; phase=build; loop_id=crow-3; task_id=t3; attempt=0
    ";
    let story = format!("{story}{done}");
    insta::assert_snapshot!(shown_squad(&story), @r"
    squad crow: # A parser | 2/3 tasks merged
      squad | BUILD | group 2 of 2 | 31s |  | - |  | $0.50
      group 1 | DONE | 2/2 merged | 29s |  | - +merged |  |
        crow-1 | MERGED | t1 parse the header | 20s | merged | squads/crow/turn-6/agent.out +merged | passed | $0.25
        crow-2 | MERGED | t2 print it | 28s | merged (conflict resolved) | squads/crow/turn-10/agent.out +merged | passed |
      group 2 | BUILD | 0/1 merged | 31s |  | - |  |
        crow-3 | BUILD 1 | t3 write the manual | 30s |  | squads/crow/turn-11/agent.out |  |
    ");
    insta::assert_snapshot!(finished(&story), @r"
    crow-2 | DONE | t2 merge | 0s | merged (conflict resolved) | - +done
    crow-2 | DONE | t2 revise | 2s | review: pass | squads/crow/turn-10/agent.out +passed
    crow-2 | FAILED | t2 merge | 0s | conflict a.txt the conflict was not resolved | - -failed
    crow-2 | FAILED | t2 conflict | 1s | conflict markers left (a.txt) | squads/crow/turn-9/agent.out -failed
    crow-1 | DONE | t1 merge | 0s | merged | - +done
    crow-2 | FAILED | t2 review | 2s | review: drift: no test | squads/crow/turn-8/agent.out -failed
    crow-2 | DONE | t2 build | 5s | complete | squads/crow/turn-7/agent.out +done
    crow-1 | DONE | t1 review | 4s | review: pass | squads/crow/turn-6/agent.out +passed
    crow-2 | DONE | t2 build | 5s |  | squads/crow/turn-5/agent.out +done
    crow-1 | DONE | t1 build | 4s | complete | squads/crow/turn-4/agent.out +done
    squad | DONE | review of the plan | 2s | review of the plan: pass | squads/crow/turn-3/agent.out +passed
    squad | DONE | plan | 3s |  | squads/crow/turn-2/agent.out +done
    squad | DONE | enumerate | 5s |  | squads/crow/turn-1/agent.out +done
    ");
}

#[test]
fn a_checkpoint_leaves_the_row_to_the_builder() {
    let checkpoint = "
        crow squad.turn turn=6; phase=checkpoint; subject=progress; loop_id=crow-1
        crow backend.parked turn=5; client=codex; class=rate_limit; detail=429; until=2026-01-02T03:20:00.000Z
        crow backend.usage role=checkpoint; total_tokens=100; cost_usd=0.1
        crow squad.turn.finish turn=6; loop_id=crow-1; exit_code=0
        crow squad.review review_id=crow-6-1; subject=progress; loop_id=crow-1; turn=6; verdict=drift
    ";
    insta::assert_snapshot!(shown_squad(&format!("{SQUAD}{checkpoint}")), @r"
    squad crow: # A parser | 0/3 tasks merged
      squad | BUILD | group 1 of 2 | 38s |  | - |  | $0.50
      group 1 | BUILD | 0/2 merged | 38s |  | - |  |
        crow-1 | BUILD 1 | t1 parse the header | 36s |  | squads/crow/turn-4/agent.out |  | $0.10
        crow-2 | PARKED | t2 print it | 35s |  | squads/crow/turn-5/agent.out |  |
      group 2 | WAIT | 0/1 merged | - |  | - |  |
        t3 | WAIT | t3 write the manual | - |  | - |  |
    ");
}

#[test]
fn an_interrupted_squad_has_no_agents() {
    let interrupted = "crow squad.finish outcome=interrupted; reason=";
    insta::assert_snapshot!(shown_squad(&format!("{SQUAD}{interrupted}")), @r"
    squad crow: # A parser | 0/3 tasks merged -interrupted
      squad | STOPPED | group 1 of 2 | 19s |  | - -interrupted |  | $0.50
      group 1 | NEXT | 0/2 merged | 30s |  | - |  |
        crow-1 | NEXT | t1 parse the header | 30s |  | squads/crow/turn-4/agent.out |  |
        crow-2 | NEXT | t2 print it | 30s |  | squads/crow/turn-5/agent.out |  |
      group 2 | WAIT | 0/1 merged | - |  | - |  |
        t3 | WAIT | t3 write the manual | - |  | - |  |
    ");
    let resumed = "
        crow squad.finish outcome=interrupted; reason=
        crow squad.resume previous_end=interrupted
        crow squad.turn turn=6; phase=build; loop_id=crow-1; task_id=t1; attempt=0
    ";
    insta::assert_snapshot!(shown_squad(&format!("{SQUAD}{resumed}")), @r"
    squad crow: # A parser | 0/3 tasks merged
      squad | BUILD | group 1 of 2 | 31s |  | - |  | $0.50
      group 1 | BUILD | 0/2 merged | 31s |  | - |  |
        crow-1 | BUILD 1 | t1 parse the header | 30s |  | squads/crow/turn-6/agent.out |  |
        crow-2 | NEXT | t2 print it | 32s |  | squads/crow/turn-5/agent.out |  |
      group 2 | WAIT | 0/1 merged | - |  | - |  |
        t3 | WAIT | t3 write the manual | - |  | - |  |
    ");
}
