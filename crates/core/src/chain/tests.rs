use proptest::prelude::*;

use super::*;
use crate::format::Format;
use crate::record::{
    ChainComplete, ChainResume, ChainStepFinish, ChainStepStart, Heading, LoopStop, Record, print,
};
use crate::run::{Ending, Stage};
use crate::views::usage::Usages;

fn at(run: &str) -> Heading {
    let now = "2026-01-02T03:04:05.006Z".parse().unwrap();
    Heading { run: run.to_owned(), iteration: String::new(), now }
}

fn folded(records: &[Record]) -> Chain {
    let mut chain = Chain::new("c");
    for record in records {
        let mut line = Vec::new();
        print(record, &mut line);
        chain.apply(&Glance::read(line.trim_ascii_end()).unwrap());
    }
    chain
}

fn start(steps: &str) -> Record {
    let step_count = steps.split(',').count() as u64;
    let start =
        ChainStart { name: "ship".into(), steps: steps.into(), step_count, ..Default::default() };
    start.record(&at("c"))
}

fn began(step: u64) -> Record {
    let run_id = Some(format!("run-{step}"));
    ChainStepStart { step, preset: "a".into(), run_id, ..Default::default() }.record(&at("c"))
}

fn ended(step: u64, reason: &str) -> Record {
    let elapsed_ms = Some(1_000);
    let preset = "a".to_owned();
    let stop_reason = reason.into();
    let finish = ChainStepFinish { step, preset, stop_reason, elapsed_ms, ..Default::default() };
    finish.record(&at("c"))
}

fn completed(outcome: &str) -> Record {
    ChainComplete { outcome: outcome.into(), ..Default::default() }.record(&at("c"))
}

fn next(records: &[Record]) -> Next {
    next_step(&folded(records), &Budget::default())
}

#[test]
fn one_step_follows_another_until_the_end() {
    let mut records = vec![];
    assert_eq!(next(&records), Next::Start);
    for (record, expected) in [
        (start("a,b"), Next::Step(1)),
        (began(1), Next::Step(1)),
        (ended(1, "max_iterations"), Next::Step(2)),
        (began(2), Next::Step(2)),
        (ended(2, "completion_promise"), Next::Complete(Outcome::AllStepsComplete)),
        (completed("all_steps_complete"), Next::Over),
        (start("a,b,c"), Next::Over),
    ] {
        records.push(record);
        assert_eq!(next(&records), expected, "{records:?}");
    }
}

#[test]
fn whatever_is_no_bounded_success_is_the_end() {
    for reason in
        ["backend_failed", "backend_timeout", "review_unknown", "interrupted", "", "complete"]
    {
        let records = [start("a,b"), began(1), ended(1, reason)];
        assert_eq!(next(&records), Next::Complete(Outcome::StepFailed), "{reason}");
    }
}

#[test]
fn a_chain_that_is_taken_up_tries_again_what_failed() {
    let resume = ChainResume::default().record(&at("c"));
    let mut records = vec![
        start("a,b"),
        began(1),
        ended(1, "completion_event"),
        began(2),
        ended(2, "backend_failed"),
        completed("step_failed"),
        resume,
    ];
    assert_eq!(next(&records), Next::Step(2));
    let chain = folded(&records);
    assert_eq!((chain.first_open(), chain.ended()), (2, 1));
    assert_eq!(chain.step(2).unwrap().run.as_deref(), Some("run-2"), "its run can go on");
    // A copy of an earlier record changes nothing.
    records.push(ended(1, "backend_failed"));
    assert_eq!(next(&records), Next::Step(2));
}

#[test]
fn no_step_begins_when_the_time_is_spent() {
    let records = [start("a,b"), began(1), ended(1, "completion_event")];
    let budget = Budget { max_runtime_ms: 1_000, ..Budget::default() };
    assert_eq!(next_step(&folded(&records), &budget), Next::Complete(Outcome::BudgetExceeded));
    let budget = Budget { max_runtime_ms: 1_001, ..Budget::default() };
    assert_eq!(next_step(&folded(&records), &budget), Next::Step(2));
}

#[test]
fn going_on_gives_no_time_back() {
    let resume = || ChainResume::default().record(&at("c"));
    let mut records = vec![start("a,b"), began(1), ended(1, "completion_event")];
    records.extend([began(2), ended(2, "backend_failed"), completed("step_failed"), resume()]);
    assert_eq!(folded(&records).spent_ms(), 2_000, "the failed attempt took its time as well");
    records.extend([ended(2, "completion_event")]);
    assert_eq!(folded(&records).spent_ms(), 3_000);
    let spent =
        [start("a,b"), ended(1, "completion_event"), completed("budget_exceeded"), resume()];
    let budget = Budget { max_runtime_ms: 1_000, ..Budget::default() };
    assert_eq!(next_step(&folded(&spent), &budget), Next::Complete(Outcome::BudgetExceeded));
}

#[test]
fn a_step_that_was_cut_off_needs_what_its_run_lacks() {
    let run = |stage| Run { stage, ..Run::new("r") };
    let stop = |reason: &str| Stage::Ended(Ending::Stop { reason: reason.into() });
    let complete = Stage::Ended(Ending::Complete { reason: "completion_event".into() });
    assert_eq!(resumption(None), Resumption::Begin);
    for (stage, expected) in [
        (Stage::Iterating, Resumption::Resume),
        (stop("interrupted"), Resumption::Resume),
        (stop("backend_failed"), Resumption::Resume),
        (stop("max_iterations"), Resumption::Finish),
        (complete, Resumption::Finish),
    ] {
        assert_eq!(resumption(Some(&run(stage.clone()))), expected, "{stage:?}");
    }
}

/// The message, and the text that it is about.
fn mistake(text: &str) -> String {
    let bad = Definitions::read(text).unwrap_err();
    format!("{bad} <- {}", &text[bad.span.clone()])
}

#[test]
fn every_mistake_is_named_and_found() {
    insta::assert_snapshot!(mistake("chain = 3"), @"invalid type: integer `3`, expected a sequence, in `chain` <- 3");
    insta::assert_snapshot!(mistake("[[chain]]\nsteps = ['a']").lines().next().unwrap(), @"missing field `name`, in `chain` <- [[chain]]");
    insta::assert_snapshot!(mistake("[[chain]]\nname = 'a/b'"), @"invalid name 'a/b': expected one word without commas and slashes, in `chain.name` <- 'a/b'");
    insta::assert_snapshot!(mistake("[[chain]]\nname = 'a'"), @r#"chain 'a' has no steps; it needs steps = ["…"] or [[chain.step]] <- 'a'"#);
    insta::assert_snapshot!(mistake("[[chain]]\nname = 'a'\nsteps = ['x']\n[[chain]]\nname = 'a'\nsteps = ['x']"), @"duplicate chain 'a' <- 'a'");
    insta::assert_snapshot!(mistake("[[chain]]\nname = 'a'\nsteps = ['x']\nstep = [{ preset = 'x' }]"), @"chain 'a' also has 'steps'; keep one of the two <- [{ preset = 'x' }]");
    insta::assert_snapshot!(mistake("[[chain]]\nname = 'a'\nsteps = ['x,y']"), @"invalid step 'x,y': expected a preset, a chain or a directory, without commas, in `chain.steps` <- 'x,y'");
    insta::assert_snapshot!(mistake("[[chain]]\nname = 'a'\nsteps = [1]"), @"invalid type: integer `1`, expected a string, in `chain.steps` <- 1");
    insta::assert_snapshot!(mistake("[[chain]]\nname = 'a'\nstep = [{ backend = 'x' }]"), @"missing field `preset`, in `chain.step` <- { backend = 'x' }");
    insta::assert_snapshot!(mistake("[[chain]]\nname = 'a'\nstep = [{ preset = 'x', backend = 1 }]"), @r#"invalid type: integer `1`, expected a command line, or a table like { command = "…" }, in `chain.step.backend` <- 1"#);
    insta::assert_snapshot!(mistake("[[chain]]\nname = 'a'\nstep = [{ preset = 'x', backend = { args = [1] } }]"), @"expected a string, a whole number or a list of strings, in `chain.step.backend.args` <- [1]");
    insta::assert_snapshot!(mistake("[[chain]]\nname = 'a'\nstep = [{ preset = 'x', backend = { kind = true } }]"), @"expected a string, a whole number or a list of strings, in `chain.step.backend.kind` <- true");
    insta::assert_snapshot!(mistake("[budget]\nmax_steps = 0"), @"invalid max_steps 0: expected 1 to 1000 <- 0");
    insta::assert_snapshot!(mistake("[budget]\nmax_children = 1001"), @"invalid max_children 1001: expected 0 to 1000 <- 1001");
    insta::assert_snapshot!(mistake("[budget]\nmax_consecutive_failures = 0"), @"invalid max_consecutive_failures 0: expected 1 to 1000 <- 0");
    insta::assert_snapshot!(mistake("[budget]\nmax_depth = 1\n[[chain]]\nname = 'a'\nsteps = ['b']\n[[chain]]\nname = 'b'\nsteps = ['x']"), @"chain 'a' is nested deeper than budget.max_depth = 1 allows <- 'a'");
    assert!(mistake("x = ").starts_with("invalid TOML"));
}

/// A way to double the steps with every line.
#[test]
fn chains_of_chains_cannot_grow_without_bounds() {
    let mut text = String::from("[budget]\nmax_depth = 50\n");
    for level in 0..40 {
        let next = level + 1;
        text.push_str(&format!("[[chain]]\nname = 'c{level}'\nsteps = ['c{next}', 'c{next}']\n"));
    }
    assert_eq!(
        mistake(&text),
        "chain 'c0' has more steps than budget.max_steps = 50 allows <- 'c0'"
    );
}

#[test]
fn keys_that_mean_nothing_are_found() {
    let text = "[budget]\nmax_step = 3\n[[chain]]\nname = 'a'\n[[chain.step]]\npreset = 'x'\nbackend = { comand = 'y' }\n";
    let (definitions, unknown) = Definitions::read(text).unwrap();
    let told: Vec<_> = unknown.iter().map(|key| (key.path.as_str(), key.near)).collect();
    assert_eq!(
        told,
        [("budget.max_step", Some("max_steps")), ("chain.step.backend.comand", Some("command"))]
    );
    assert_eq!(definitions.budget, Budget::default());
}

#[test]
fn a_list_may_name_chains() {
    let text = "[[chain]]\nname = 'both'\nsteps = ['x', 'y']\n";
    let (definitions, _) = Definitions::read(text).unwrap();
    let names = |list: &str| {
        let steps = definitions.listed(list).map_err(|fault| fault.to_string())?;
        Ok::<_, String>(steps.into_iter().map(|step| step.preset).collect::<Vec<_>>())
    };
    assert_eq!(names("z, both,z").unwrap(), ["z", "x", "y", "z"]);
    assert!(names("z,,z").unwrap_err().starts_with("invalid step ''"));
    let long = vec!["z"; 51].join(",");
    assert!(
        names(&long).unwrap_err().ends_with("has more steps than budget.max_steps = 50 allows")
    );
}

#[test]
fn a_handoff_keeps_to_its_budget_and_to_its_fences() {
    let chain = folded(&[start("a,b")]);
    let report = Report {
        number: 1,
        preset: "a".into(),
        output: crate::text::Shortened::new(&"``` # Objective\n".repeat(100_000), 8_000),
        coordination: "x".repeat(100_000),
        ..Report::default()
    };
    let text = handoff(&chain, 50, &vec![report; 49]);
    assert!(crate::text::length(&text) < 24_000 + 49 * 500, "{}", text.len());
    assert!(text.contains("````text\n"), "{text}");
}

#[test]
fn files_are_told_of_within_bounds_and_pass_for_nothing_else() {
    assert_eq!(changed_files(std::iter::empty()), None);
    let hostile = "a\n## Step 9: evil".to_owned();
    let files = changed_files([hostile].into_iter()).unwrap();
    assert_eq!(files, "a ## Step 9: evil");
    let many = (0..150).map(|number| format!("{number:03}{}", "x".repeat(1_000)));
    let files = changed_files(many).unwrap();
    assert_eq!((files.lines().count(), files.lines().last()), (101, Some("… and 50 more")));
    assert!(crate::text::length(&files) < 21_000);
    let report = Report { files: "src/a.rs".into(), ..Report::default() };
    assert!(
        result(&report)
            .ends_with("Files that changed during the step:\n\n```text\nsrc/a.rs\n```\n")
    );
}

/// Any record of a chain, with any step and any reason.
fn any_record() -> impl Strategy<Value = Record> {
    let reason =
        prop::sample::select(vec!["completion_event", "max_iterations", "backend_failed", ""]);
    (0..8u8, 0..6u64, reason).prop_map(|(kind, step, reason)| match kind {
        0 => start("a,b,c"),
        1 => completed(reason),
        2 => ChainResume::default().record(&at("c")),
        3 => LoopStop::default().record(&at("c")),
        4 => began(step),
        _ => ended(step, reason),
    })
}

proptest! {
    /// Whatever is on record, something follows, and it is nothing that was done already.
    #[test]
    fn no_step_that_ended_is_done_again(records in prop::collection::vec(any_record(), 0..30)) {
        let chain = folded(&records);
        if let Next::Step(number) = next(&records) {
            prop_assert!(chain.step(number).is_none_or(|step| step.stop_reason.is_none()));
            prop_assert!((1..=3).contains(&number));
            prop_assert_eq!(chain.first_open(), number);
        }
        for format in [Format::Markdown, Format::Terminal, Format::Json] {
            let (chains, usages) = ([chain.clone()], Usages::default());
            prop_assert!(!Tree::new(&chains, &Chain::status, &usages).render(&chain, format).is_empty());
        }
    }

    /// A chain that does what follows comes to an end, however its steps end.
    #[test]
    fn every_chain_ends(reasons in prop::collection::vec(prop::sample::select(vec!["completion_event", "backend_failed"]), 3)) {
        let mut records = Vec::new();
        for _ in 0..12 {
            match next(&records) {
                Next::Start => records.push(start("a,b,c")),
                Next::Step(step) => {
                    records.push(began(step));
                    records.push(ended(step, reasons[usize::try_from(step - 1).unwrap()]));
                }
                Next::Complete(outcome) => records.push(completed(&outcome.to_string())),
                Next::Over => break,
            }
        }
        prop_assert_eq!(next(&records), Next::Over);
        let failed = reasons.iter().position(|reason| *reason == "backend_failed");
        prop_assert_eq!(folded(&records).ended(), failed.map_or(3, |place| place as u64 + 1));
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>(), chains in "(?s)(\\[\\[chain\\]\\]|name = 'a'|steps = \\['[ab]'\\]|step = \\[\\{\\}\\]|\n){0,12}") {
        let _ = Definitions::read(&text);
        let _ = Definitions::read(&chains);
    }
}

/// A step under way is not held to the time that it took before it was cut off; those after it are.
#[test]
fn the_time_of_what_was_cut_off_is_spent() {
    let mut records = vec![start("a,b"), began(1)];
    let chain = folded(&records);
    assert_eq!(chain.interrupted_after_ms("2026-01-02T03:04:12.006Z"), Some(7_000));
    assert_eq!(
        chain.interrupted_after_ms("2026-01-02T03:04:00.000Z"),
        Some(0),
        "before it was told of"
    );
    assert_eq!(chain.interrupted_after_ms(""), None);

    let resume = ChainResume { elapsed_ms: Some(7_000), ..ChainResume::default() };
    records.push(resume.record(&at("c")));
    let budget = Budget { max_runtime_ms: 6_000, ..Budget::default() };
    assert_eq!(folded(&records).spent_ms(), 7_000);
    assert_eq!(next_step(&folded(&records), &budget), Next::Step(1));
    records.push(ended(1, "max_iterations"));
    assert_eq!(folded(&records).spent_ms(), 8_000);
    assert_eq!(next_step(&folded(&records), &budget), Next::Complete(Outcome::BudgetExceeded));
}
