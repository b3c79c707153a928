use super::*;
use crate::format::Format;
use crate::record::{Heading, print};
use crate::timestamp::Timestamp;
use crate::topic::Topic;

fn said(run: &str, topic: &str, payload: &str) -> Vec<u8> {
    let heading =
        Heading { run: run.into(), iteration: "1".into(), now: Timestamp::from_millis(0) };
    let mut line = Vec::new();
    print(&heading.agent(Topic::new(topic), payload), &mut line);
    line
}

fn journal() -> Vec<u8> {
    [
        said(
            "one",
            "issue.discovered",
            "id=issue-1; summary=fix login bug; disposition=open; owner=builder;",
        ),
        said("one", "issue.discovered", "id=issue-2; summary=slow\nstart;"),
        said("other", "issue.discovered", "id=issue-1; summary=not this one;"),
        said("one", "issue.discovered", "the tests are flaky"),
        said("one", "issue.resolved", "id=issue-1; resolution=done;"),
        said("one", "issue.resolved", "id=issue-9; resolution=never heard of;"),
        said("one", "slice.started", "id=slice-1; description=login form;"),
        said("one", "slice.started", "id=slice-2; description=logout;"),
        said("one", "slice.verified", "id=slice-1;"),
        said("one", "slice.committed", "id=slice-1; commit_hash=abc123;"),
        said(
            "one",
            "context.archived",
            "source_file=plan.md; dest_file=docs/plan.md; reason=stale;",
        ),
        said(
            "one",
            "chain.spawn",
            "chain_id=c-1; parent_id=one; steps=autofix,autotest; justification=flaky;",
        ),
        said("one", "review.ready", "id=issue-1; summary=this routes, it does not coordinate;"),
    ]
    .concat()
}

fn fold(view: &mut Coordinations, journal: &[u8]) {
    for line in journal.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        view.apply(&Glance::read(line).unwrap());
    }
}

#[test]
fn what_was_said_under_its_headings() {
    let mut view = Coordinations::default();
    fold(&mut view, &journal());
    let one = view.of("one").unwrap();
    insta::assert_snapshot!(one.render(Format::Markdown), @"
    ## Issues

    - [resolved] issue-1: fix login bug — done (owner: builder)
    - [open] issue-2: slow start
    - [open] the tests are flaky
    - [resolved] issue-9 — never heard of

    ## Slices

    - [committed] slice-1: login form
    - [in-progress] slice-2: logout

    ## Commits

    - slice-1 → abc123

    ## Archives

    - plan.md → docs/plan.md (stale)

    ## Chains

    - c-1: autofix,autotest — flaky (from one)
    ");
    insta::assert_snapshot!(one.render(Format::Terminal), @"
    Issues
    - [resolved] issue-1: fix login bug — done (owner: builder)
    - [open] issue-2: slow start
    - [open] the tests are flaky
    - [resolved] issue-9 — never heard of

    Slices
    - [committed] slice-1: login form
    - [in-progress] slice-2: logout

    Commits
    - slice-1 → abc123

    Archives
    - plan.md → docs/plan.md (stale)

    Chains
    - c-1: autofix,autotest — flaky (from one)
    ");
    insta::assert_snapshot!(view.of("other").unwrap().render(Format::Json), @r#"
    {
      "issues": [
        {
          "id": "issue-1",
          "summary": "not this one",
          "disposition": "open",
          "owner": "",
          "resolution": ""
        }
      ],
      "slices": [],
      "commits": [],
      "archives": [],
      "chains": []
    }
    "#);
}

#[test]
fn a_chain_may_be_spawned_by_the_harness() {
    let line = br#"{"run": "one", "iteration": "", "topic": "chain.spawn", "fields": {"chain_id": "c-1", "steps": "a,b"}}"#;
    let mut coordination = Coordination::default();
    assert!(coordination.apply(&Glance::read(line).unwrap()));
    assert!(coordination.render(Format::Markdown).ends_with("## Chains\n\n- c-1: a,b\n"));
}

#[test]
fn an_issue_that_is_found_again_is_open_again() {
    let mut view = Coordinations::default();
    for (topic, payload) in [
        ("issue.discovered", "id=i; summary=first;"),
        ("issue.resolved", "id=i; resolution=done;"),
        ("issue.discovered", "id=i; summary=second;"),
    ] {
        fold(&mut view, &said("one", topic, payload));
    }
    let text = view.of("one").unwrap().render(Format::Markdown);
    assert!(text.contains("- [open] i: second\n"), "{text}");
}

#[test]
fn nothing_is_said_of_nothing() {
    let nothing = Coordination::default();
    assert_eq!(nothing.render(Format::Markdown), "No coordination data available.\n");
    assert_eq!(nothing.render(Format::Terminal), "No coordination data available.\n");
    assert!(nothing.render(Format::Json).contains("\"issues\": []"));
}

#[test]
fn a_run_that_says_too_much_is_cut() {
    let mut coordination = Coordination::default();
    for number in 0..ENTRIES_KEPT + 5 {
        let payload = format!("id=i-{number}; summary={};", "x".repeat(2 * TEXT_KEPT));
        let line = said("one", "issue.discovered", &payload);
        coordination.apply(&Glance::read(line.trim_ascii_end()).unwrap());
    }
    assert_eq!(coordination.issues.list.len(), ENTRIES_KEPT);
    assert!(
        coordination
            .render(Format::Markdown)
            .starts_with("## Issues\n\n… 5 earlier\n- [open] i-5: xxx")
    );
}

#[test]
fn a_saved_view_goes_on_where_it_was() {
    let journal = journal();
    let mut whole = Coordinations::default();
    fold(&mut whole, &journal);
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', &journal).map(|at| at + 1).collect();
    for cut in ends {
        let mut half = Coordinations::default();
        fold(&mut half, &journal[..cut]);
        let saved = half.encode(Vec::new()).unwrap();
        let mut loaded = Coordinations::decode(&saved).unwrap();
        assert_eq!(loaded, half, "cut at {cut}");
        fold(&mut loaded, &journal[cut..]);
        assert_eq!(loaded, whole, "cut at {cut}");
    }
}

#[test]
fn damaged_bytes_are_not_loaded_or_do_no_harm() {
    let mut view = Coordinations::default();
    fold(&mut view, &journal());
    let saved = view.encode(Vec::new()).unwrap();
    for cut in 0..saved.len() {
        assert!(Coordinations::decode(&saved[..cut]).is_none(), "cut at {cut}");
    }
    for at in 0..saved.len() {
        let mut damaged = saved.clone();
        damaged[at] ^= 0x15;
        let _ = Coordinations::decode(&damaged).map(|view| {
            view.iter().map(|(_, one)| one.render(Format::Markdown)).collect::<String>()
        });
    }
}
