use proptest::prelude::*;

use super::*;
use crate::text;

fn learning(text: &str) -> Said {
    Said::Learning { text: text.into() }
}

fn preference(category: &str, text: &str) -> Said {
    Said::Preference { category: category.into(), text: text.into() }
}

fn meta(key: &str, value: &str) -> Said {
    Said::Meta { key: key.into(), value: value.into() }
}

fn tombstone(target: &str) -> Said {
    Said::Tombstone { target: target.into(), reason: "wrong".into() }
}

/// A file of these entries, one a minute.
fn memory(said: impl IntoIterator<Item = Said>) -> Memory {
    let mut memory = Memory::default();
    for (minute, said) in said.into_iter().enumerate() {
        let entry = Entry {
            id: said.id(memory.next_number()),
            created: format!("2026-11-15T21:{minute:02}:00.000Z"),
            source: String::new(),
            said,
        };
        let mut line = Vec::new();
        print(&entry, &mut line);
        memory.apply(line.trim_ascii_end());
    }
    memory
}

fn ids(entries: &[&Entry]) -> String {
    entries.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn one_counter_names_all_sorts() {
    let memory =
        memory([learning("a"), preference("style", "b"), meta("k", "v"), tombstone("mem-1")]);
    assert_eq!(ids(&memory.entries.iter().collect::<Vec<_>>()), "mem-1 mem-2 meta-3 ts-4");
    assert_eq!(memory.next_number(), 5);
}

#[test]
fn what_is_live_comes_newest_first() {
    let memory = memory([
        learning("a"),
        meta("branch", "old"),
        learning("b"),
        meta("branch", "new"),
        tombstone("mem-1"),
        preference("style", "c"),
    ]);
    assert_eq!(ids(&memory.live()), "mem-6 meta-4 mem-3");
    assert_eq!(memory.id_state("mem-1"), IdState::Gone);
    assert_eq!(memory.id_state("meta-2"), IdState::Gone);
    assert_eq!(memory.id_state("mem-99"), IdState::Unknown);
    assert!(
        matches!(memory.id_state("mem-3"), IdState::Live(entry) if entry.said == learning("b"))
    );
}

#[test]
fn a_removed_note_does_not_bring_back_what_it_replaced() {
    let memory = memory([meta("k", "old"), meta("k", "new"), tombstone("meta-2")]);
    assert_eq!(ids(&memory.live()), "");
}

#[test]
fn names_are_never_used_again_and_odd_ones_do_no_harm() {
    let mut memory = Memory::default();
    for line in [
        r#"{"id": "mem-7", "type": "learning", "text": "by another writer"}"#,
        r#"{"id": "mem-18446744073709551615", "type": "learning"}"#,
        r#"{"id": "odd", "type": "learning", "extra": [1]}"#,
        r#"{"id": "mem-1", "type": "mood"}"#,
        "torn {",
        "",
    ] {
        memory.apply(line.as_bytes());
    }
    assert_eq!(memory.next_number(), 8);
    assert_eq!((memory.live().len(), memory.bad()), (3, 2));
}

#[test]
fn a_doubled_name_loses_nothing() {
    let mut memory = memory([learning("first")]);
    memory.apply(br#"{"id": "mem-1", "type": "learning", "text": "second"}"#);
    assert_eq!(ids(&memory.live()), "mem-1 mem-1");
}

#[test]
fn words_are_found_in_any_case_and_order() {
    let memory = memory([learning("Run the tests first"), preference("Tests", "be quick")]);
    let find = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        ids(&memory.find(&words))
    };
    assert_eq!(find(&["TESTS"]), "mem-2 mem-1");
    assert_eq!(find(&["first", "tests"]), "mem-1");
    assert_eq!(find(&["slow"]), "");
}

fn two_tiers() -> (Memory, Memory) {
    let project = memory([
        preference("style", "small commits"),
        learning("the tests need\n## Objective:\nno network"),
        meta("branch", "old"),
        meta("branch", "main"),
        learning("newer"),
    ]);
    let run = memory([learning("in this run"), meta("slice", "2")]);
    (project, run)
}

#[test]
fn a_block_shows_both_tiers() {
    let (project, run) = two_tiers();
    let block = Block::new(&project, &run, DEFAULT_BUDGET);
    insta::assert_snapshot!(block.text, @"
    Project memory:
    Preferences:
    - [mem-1] [style] small commits (created: 2026-11-15T21:00:00.000Z)
    Learnings:
    - [mem-5] newer (created: 2026-11-15T21:04:00.000Z)
    - [mem-2] the tests need ## Objective: no network (created: 2026-11-15T21:01:00.000Z)
    Meta:
    - [meta-4] branch: main (created: 2026-11-15T21:03:00.000Z)
    Run memory:
    Learnings:
    - [mem-1] in this run (created: 2026-11-15T21:00:00.000Z)
    Meta:
    - [meta-2] slice: 2 (created: 2026-11-15T21:01:00.000Z)
    ");
    assert_eq!(block.entries, Counts { preferences: 1, learnings: 3, meta: 2 });
    assert!(!block.is_truncated());
    assert_eq!(Block::new(&project, &run, 0).text, block.text);
    assert_eq!(Block::new(&Memory::default(), &Memory::default(), 100).text, "");
}

#[test]
fn a_block_within_its_budget_tells_what_went() {
    let (project, run) = two_tiers();
    insta::assert_snapshot!(Block::new(&project, &run, 250).text, @"
    Project memory:
    Preferences:
    - [mem-1] [style] small commits (created: 2026-11-15T21:00:00.000Z)
    Learnings:
    - [mem-5] newer (created: 2026-11-15T21:04:00.000Z)
    Meta:
    - [meta-4] branch: main (created: 2026-11-15T21:03:00.000Z)
    Run memory:
    Meta:
    - [meta-2] slice: 2 (created: 2026-11-15T21:01:00.000Z)
    ...
    (2 left out to keep to the budget: 0 preferences, 2 learnings, 0 meta; 144 characters. `autoloop memory list` shows all.)
    ");
}

/// Old learnings go first, then old notes, and preferences last.
#[test]
fn the_order_in_which_entries_go() {
    let project = memory([
        preference("a", "p1"),
        learning("l1"),
        meta("k1", "v"),
        learning("l2"),
        meta("k2", "v"),
        preference("b", "p2"),
    ]);
    let run = memory([learning("r1")]);
    let shown = |budget: usize| {
        let text = Block::new(&project, &run, budget).text;
        let all = ["p2", "p1", "k2", "k1", "l2", "l1", "r1"];
        all.into_iter().filter(|word| text.contains(word)).collect::<Vec<_>>().join(" ")
    };
    let mut seen: Vec<String> = (1..600).map(shown).collect();
    seen.dedup();
    assert_eq!(
        seen,
        [
            "",
            "p2",
            "p2 p1",
            "p2 p1 k2",
            "p2 p1 k2 k1",
            "p2 p1 k2 k1 l2",
            "p2 p1 k2 k1 l2 l1",
            "p2 p1 k2 k1 l2 l1 r1",
        ]
    );
}

#[test]
fn a_giant_entry_does_not_drive_out_the_others() {
    let project = memory([learning("small"), learning(&"x".repeat(10_000))]);
    let block = Block::new(&project, &Memory::default(), 1_000);
    assert!(block.text.contains("small") && block.text.contains("xxx..."), "{}", block.text);
    assert!(!block.is_truncated());
}

fn any_said() -> impl Strategy<Value = Said> {
    prop_oneof![
        any::<String>().prop_map(|text| learning(&text)),
        (any::<String>(), any::<String>())
            .prop_map(|(category, text)| preference(&category, &text)),
        ("[a-c]", any::<String>()).prop_map(|(key, value)| meta(&key, &value)),
        "(mem|meta)-[1-9]".prop_map(|target| tombstone(&target)),
    ]
}

proptest! {
    #[test]
    fn an_entry_round_trips_in_one_line(said in any_said(), source in any::<String>()) {
        let entry = Entry { id: said.id(3), created: "now".into(), source, said };
        let mut line = Vec::new();
        print(&entry, &mut line);
        prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        prop_assert_eq!(parse(line.trim_ascii_end()), Some(entry));
    }

    #[test]
    fn any_bytes_can_be_applied(line in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut memory = Memory::default();
        memory.apply(&line);
        memory.live();
    }

    #[test]
    fn a_block_keeps_to_its_budget(
        project in prop::collection::vec(any_said(), 0..12),
        run in prop::collection::vec(any_said(), 0..12),
        budget in 1..900usize,
    ) {
        let (project, run) = (memory(project), memory(run));
        let block = Block::new(&project, &run, budget);
        prop_assert!(text::length(&block.text) <= longest(budget));
        prop_assert_eq!(block.entries.total(), project.live().len() + run.live().len());
        let entries = block.text.lines().filter(|line| line.starts_with("- [")).count();
        prop_assert_eq!(entries + block.dropped.total(), block.entries.total());
    }
}

#[test]
fn what_cannot_be_remembered_is_told_of() {
    let learning = |text: &str| Said::Learning { text: text.to_owned() }.checked();
    assert_eq!(learning(" a b\n"), Ok(Said::Learning { text: "a b".to_owned() }));
    assert!(learning(&"ä".repeat(LONGEST_TEXT)).is_ok());
    insta::assert_snapshot!(learning(" \n").unwrap_err(), @"the text is empty");
    insta::assert_snapshot!(
        learning(&"ä".repeat(LONGEST_TEXT + 1)).unwrap_err(),
        @"the text has 16001 characters: the limit is 16000"
    );

    let meta = |key: &str| Said::Meta { key: key.to_owned(), value: "x".to_owned() }.checked();
    assert_eq!(meta(" k "), Ok(Said::Meta { key: "k".to_owned(), value: "x".to_owned() }));
    insta::assert_snapshot!(meta("a\nb").unwrap_err(), @r"'a\nb' cannot be a key");
    assert!(meta(&"k".repeat(LONGEST_NAME + 1)).is_err());

    let said = Said::Preference { category: " ".to_owned(), text: "x".to_owned() };
    let bad = said.checked().unwrap_err();
    insta::assert_snapshot!(bad, @"'' cannot be a category");
    assert_eq!(bad.hint().as_deref(), Some("a category is one line of 1 to 100 characters"));
}

#[test]
fn the_environment_says_where_memory_is() {
    let places = |memory: &str, state: &str, project: &str, run: &str| {
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        let env = Env {
            memory_file: path(memory),
            state_dir: path(state),
            project_dir: path(project),
            run_id: (!run.is_empty()).then(|| run.to_owned()),
            ..Env::default()
        };
        let Places { project, run } = Places::of(&env);
        (project.display().to_string(), run.map(|run| run.display().to_string()))
    };
    for (memory, state, project, run, expected) in [
        ("", "", "", "", (".autoloop/memory.jsonl", None)),
        ("", "", "/p", "", ("/p/.autoloop/memory.jsonl", None)),
        ("", "", "/p", "r", ("/p/.autoloop/memory.jsonl", None)),
        ("", "/s", "/p", "r", ("/s/memory.jsonl", Some("/s/runs/r/memory.jsonl"))),
        ("/m", "/s", "/p", "r", ("/s/memory.jsonl", Some("/m"))),
        ("/s/memory.jsonl", "/s", "/p", "r", ("/s/memory.jsonl", None)),
        ("", "/s", "", "../../etc", ("/s/memory.jsonl", None)),
        ("", "/s", "", "a/b", ("/s/memory.jsonl", None)),
        ("", "/s", "", "..", ("/s/memory.jsonl", None)),
        ("", "/s", "", "/etc", ("/s/memory.jsonl", None)),
    ] {
        let expected = (expected.0.to_owned(), expected.1.map(str::to_owned));
        assert_eq!(places(memory, state, project, run), expected);
    }
}
