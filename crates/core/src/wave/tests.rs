use proptest::prelude::*;

use super::*;
use crate::coordinator::Fold;
use crate::prompt::wave::{joined_payload, results};
use crate::record::{
    Glance, Heading, Record, WaveBranchFinish, WaveBranchMerge, WaveBranchStart, WaveStart, print,
};
use crate::run::Run;
use crate::timestamp::Timestamp;
use crate::topology::Topology;

fn heading() -> Heading {
    Heading { run: "r".into(), iteration: "1".into(), now: Timestamp::from_millis(0) }
}

fn opened(objectives: &[&str], base: Option<&str>) -> Record {
    let list = objectives.iter().map(|objective| format!("- {objective}\n")).collect();
    WaveStart {
        wave_id: "w".into(),
        trigger_topic: "explore.parallel".into(),
        objectives: list,
        base: base.map(str::to_owned),
        ..WaveStart::default()
    }
    .record(&heading())
}

fn ended(branch: &str, stop_reason: &str) -> [Record; 2] {
    let (wave_id, branch_id) = ("w".to_owned(), branch.to_owned());
    let start = WaveBranchStart { wave_id, branch_id, ..WaveBranchStart::default() };
    let finish = WaveBranchFinish {
        wave_id: "w".into(),
        branch_id: branch.into(),
        stop_reason: stop_reason.into(),
        ..WaveBranchFinish::default()
    };
    [start.record(&heading()), finish.record(&heading())]
}

fn merged(branch: &str, outcome: &str) -> Record {
    WaveBranchMerge {
        wave_id: "w".into(),
        branch_id: branch.into(),
        outcome: outcome.into(),
        branch: format!("autoloop/w/{branch}"),
        commit: "0123456789abcdef".into(),
        tree: None,
        files: "a,b c".into(),
        detail: Some("a rebase".into()),
    }
    .record(&heading())
}

fn fold(records: impl IntoIterator<Item = Record>) -> Run {
    let mut run = Run::new("r");
    for record in records {
        let mut line = Vec::new();
        print(&record, &mut line);
        run.apply(&Glance::read(line.trim_ascii_end()).unwrap());
    }
    run
}

fn step(run: &Run) -> String {
    match next(&run.waves, &run.id, &run.turn.opening_event, Some(4), &Topology::default()) {
        Some(WaveStep::Branches(orders)) => format!("{} branches", orders.len()),
        Some(WaveStep::Merge(order)) => format!(
            "merge {} from {}, {}",
            order.branch_id,
            order.base,
            order.failure.as_ref().map_or("well", |reason| reason.as_str())
        ),
        Some(WaveStep::Join(_)) => "join".into(),
        other => format!("{other:?}"),
    }
}

#[test]
fn work_is_brought_back_in_order_when_all_have_ended_and_once() {
    let mut records = vec![opened(&["a", "b"], Some("c0ffee"))];
    let mut steps = Vec::new();
    let mut then = |more: Vec<Record>| {
        records.extend(more);
        steps.push(step(&fold(records.iter().cloned())));
    };
    then(Vec::new());
    then(ended("branch-2", "backend_timeout").to_vec());
    then(ended("branch-1", "max_iterations").to_vec());
    then(vec![merged("branch-1", "merged")]);
    then(vec![merged("branch-2", "not_tried")]);
    insta::assert_snapshot!(steps.join("\n"), @"
    2 branches
    1 branches
    merge branch-1 from c0ffee, well
    merge branch-2 from c0ffee, backend_timeout
    join
    ");
}

#[test]
fn nothing_is_brought_back_from_a_shared_tree() {
    let records = [opened(&["a"], None)].into_iter().chain(ended("branch-1", "max_iterations"));
    assert_eq!(step(&fold(records)), "join");
}

/// A wave in which everything happened that can happen to the work of a branch.
fn everything() -> Run {
    let words = ["nothing", "merged", "conflict", "uncommitted_changes", "project_busy"];
    let words = words.into_iter().chain(["unfinished", "not_tried", "failed", "unheard of"]);
    let branches = words.enumerate().flat_map(|(place, word)| {
        let id = state::branch_id(place);
        ended(&id, "max_iterations").into_iter().chain([merged(&id, word)])
    });
    let list = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
    fold([opened(&list, Some("c0ffee"))].into_iter().chain(branches))
}

#[test]
fn what_became_of_the_work_is_told() {
    let run = everything();
    let wave = run.waves.open.as_ref().unwrap();
    let told = results(wave, 0);
    let told = told.lines().filter(|line| line.contains("erged") || line.contains("changed"));
    insta::assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @"
    It changed no file.
    Its work is merged (0123456789ab).
    NOT merged: the checked-out commit changes a, b c differently. Its work is on the git branch autoloop/w/branch-3 (up to 0123456789ab).
    NOT merged: the project has uncommitted changes in a, b c. Its work is on the git branch autoloop/w/branch-4 (up to 0123456789ab).
    NOT merged: a rebase is in progress in the project. Its work is on the git branch autoloop/w/branch-5 (up to 0123456789ab).
    NOT merged: a rebase was left unfinished in its worktree. Its work is on the git branch autoloop/w/branch-6 (up to 0123456789ab).
    NOT merged: it ended with a rebase. Its work is on the git branch autoloop/w/branch-7 (up to 0123456789ab).
    NOT merged: a rebase. Its worktree is kept. Its work is on the git branch autoloop/w/branch-8 (up to 0123456789ab).
    NOT merged: a rebase. Its worktree is kept. Its work is on the git branch autoloop/w/branch-9 (up to 0123456789ab).
    ");
    let payload = joined_payload(wave);
    assert!(payload.starts_with("w: branch-1 nothing in a,b c; branch-2 merged"), "{payload}");
    assert!(payload.contains("branch-3 conflict in a,b c (kept on autoloop/w/branch-3);"));
}

#[test]
fn a_wave_is_kept_as_it_was() {
    let waves = everything().waves;
    let bytes = postcard::to_stdvec(&waves).unwrap();
    assert_eq!(postcard::from_bytes(&bytes), Ok(waves));
}

#[test]
fn why_there_can_be_no_trees_is_told() {
    let told = refused("explore.parallel", "no_worktree: git is not on PATH");
    assert_eq!(
        told,
        "the wave 'explore.parallel' was not opened: branches cannot have worktrees of their own: git is not on PATH"
    );
}

#[test]
fn bullets_and_numbers_are_items() {
    let read = |text| objectives(text, 3);
    assert_eq!(read("- a\n* b c\n\n 12. d\n"), Ok(vec!["a".into(), "b c".into(), "d".into()]));
    assert_eq!(read("- - x"), Ok(vec!["- x".into()]));
    for (text, bad) in [
        ("", BadList::Empty),
        (" \n\n", BadList::Empty),
        ("a", BadList::NotAList),
        ("1) a", BadList::NotAList),
        ("-a", BadList::NotAList),
        (". a", BadList::NotAList),
        ("-", BadList::NotAList),
        ("- a\nb", BadList::NotAList),
        ("- a\n- b\n- c\n- d", BadList::TooMany),
        ("- a\n* a", BadList::Repeated),
    ] {
        assert_eq!(read(text), Err(bad), "{text:?}");
    }
    assert_eq!(read(&"- a\n".repeat(100_000)), Err(BadList::TooLong));
}

proptest! {
    #[test]
    fn a_printed_list_reads_as_it_was(
        items in prop::collection::btree_set("[a-z]([a-z/ .;,-]{0,20}[a-z])?", 1..9),
    ) {
        let text: String = items.iter().map(|item| format!("- {item}\n")).collect();
        let read = objectives(&text, 9).unwrap();
        prop_assert_eq!(read, items.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn no_text_breaks_it(text in ".{0,200}") {
        let _ = objectives(&text, 3);
    }
}
