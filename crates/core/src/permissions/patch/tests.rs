use proptest::prelude::*;

use super::*;
use crate::permissions::unified;

fn diff(path: &str, old: Option<&str>, new: Option<&str>) -> String {
    unified(path, old.map(str::as_bytes), new.map(str::as_bytes), usize::MAX).text
}

/// What becomes of the change from `old` to `new` in a file that holds `now`.
fn revert_file(
    old: Option<&str>,
    new: Option<&str>,
    now: Option<&[u8]>,
) -> Result<Revert, Conflict> {
    let text = diff("harness.md", old, new);
    let files = read_patch(&text).unwrap();
    assert_eq!(files.len(), 1, "{text:?}");
    files[0].revert(now, Earlier::Unreverted)
}

fn undo(old: &str, new: &str, now: &str) -> Result<Revert, Conflict> {
    revert_file(Some(old), Some(new), Some(now.as_bytes()))
}

fn holds(text: &str) -> Result<Revert, Conflict> {
    Ok(Revert::Write(text.to_owned()))
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

const OLD: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
const NEW: &str = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";

#[test]
fn a_change_is_undone_where_it_is_found() {
    assert_eq!(undo(OLD, NEW, NEW), holds(OLD));
    assert_eq!(undo(OLD, NEW, OLD), Ok(Revert::Already));
    let edited =
        |text: &str| [text.replace('9', "nine"), format!("0\n0\n{text}"), format!("{text}10\n")];
    for (now, then) in edited(NEW).into_iter().zip(edited(OLD)) {
        assert_eq!(undo(OLD, NEW, &now), holds(&then), "{now:?}");
        assert_eq!(undo(OLD, NEW, &then), Ok(Revert::Already), "{then:?}");
    }
    // Moved, and something near it is different.
    let both = |text: &str| format!("0\n{}", text.replace('7', "seven"));
    assert_eq!(undo(OLD, NEW, &both(NEW)), holds(&both(OLD)));
    // Near it, but not beside it.
    assert_eq!(undo(OLD, NEW, &NEW.replace('3', "three")), holds(&OLD.replace('3', "three")));
}

#[test]
fn a_change_that_was_changed_is_a_conflict() {
    for now in [
        NEW.replace("five", "fünf"),
        NEW.replace("five\n", ""),
        NEW.replace("4", "four"),
        NEW.replace("6\n", "six\n"),
        String::new(),
        format!("0\n{}", NEW.replace("five", "fünf")),
        // It is there twice, at neither of which it was.
        format!("0\n{NEW}{NEW}"),
    ] {
        let conflict = undo(OLD, NEW, &now);
        assert!(
            matches!(conflict, Err(Conflict::Changed { number: 1, .. })),
            "{now:?}: {conflict:?}"
        );
    }
    insta::assert_snapshot!(undo(OLD, NEW, "x\n").unwrap_err(), @"change 1 (@@ -2,7 +2,7 @@) no longer applies: its lines were changed since");
    insta::assert_snapshot!(revert_file(Some(OLD), Some(NEW), None).unwrap_err(), @"it was edited by the review and has been deleted since");
    insta::assert_snapshot!(revert_file(Some(OLD), Some(NEW), Some(b"\xff")).unwrap_err(), @"it is no longer text");
}

#[test]
fn lines_at_the_end_are_not_put_there_twice() {
    assert_eq!(undo("a\nb\n", "a\n", "a\n"), holds("a\nb\n"));
    assert_eq!(undo("a\nb\n", "a\n", "a\nb\n"), Ok(Revert::Already));
    assert!(undo("a\nb\n", "a\n", "a\nx\n").is_err());
    assert_eq!(undo("a\n", "a\nb\n", "a\n"), Ok(Revert::Already));
    assert_eq!(undo("a\n", "a\nb\n", "a\nb\nc\n"), holds("a\nc\n"));
    assert!(undo("a\n", "a\nb\n", "a\nx\n").is_err());
    assert_eq!(undo("", "a\n", "a\n"), holds(""));
    assert_eq!(undo("a\n", "", ""), holds("a\n"));
    assert!(undo("a\n", "", "x\n").is_err());
}

#[test]
fn a_line_without_an_end_stays_at_the_end() {
    assert_eq!(undo("a", "a\n", "a\n"), holds("a"));
    assert!(undo("a", "a\n", "a\nb\n").is_err());
    assert_eq!(undo("a\n", "a", "a"), holds("a\n"));
    assert!(undo("a\n", "a", "a\nb").is_err());
}

#[test]
fn files_that_came_and_went_go_and_come() {
    let added = |now| revert_file(None, Some("a\n"), now);
    assert_eq!(added(Some(b"a\n")), Ok(Revert::Remove));
    assert_eq!(added(None), Ok(Revert::Already));
    insta::assert_snapshot!(added(Some(b"a\nb\n")).unwrap_err(), @"it was added by the review and has been changed since");
    let deleted = |now| revert_file(Some("a"), None, now);
    assert_eq!(deleted(None), holds("a"));
    assert_eq!(deleted(Some(b"a")), Ok(Revert::Already));
    insta::assert_snapshot!(deleted(Some(b"b")).unwrap_err(), @"it was deleted by the review and has been created again");
    assert_eq!(revert_file(None, Some(""), Some(b"")), Ok(Revert::Remove));
    assert_eq!(revert_file(Some(""), None, None), holds(""));
}

#[test]
fn files_without_a_shown_line_stand_between_others() {
    let diff = [
        diff("empty", None, Some("")),
        diff("edited", Some("a\n"), Some("b\n")),
        diff("gone", Some(""), None),
        unified("named", Some(b"\xff"), None, 1000).text,
        diff("last", None, Some("")),
    ];
    let text = diff.concat();
    let files = read_patch(&text).unwrap();
    let now = [Some(&b""[..]), Some(b"b\n"), None, None, Some(b"")];
    let results: Vec<String> = files
        .iter()
        .zip(now)
        .map(|(file, now)| {
            let path = &file.path;
            match file.revert(now, Earlier::Unreverted) {
                Ok(revert) => format!("{path} {revert:?}"),
                Err(conflict) => format!("{path} {conflict}"),
            }
        })
        .collect();
    insta::assert_snapshot!(results.join("\n"), @r#"
    empty Remove
    edited Write("a\n")
    gone Write("")
    named the record only says that it was changed (not text: 1 bytes before, 0 after)
    last Remove
    "#);
}

#[test]
fn what_we_would_not_write_is_refused() {
    let complaint = |text: &str| read_patch(text).unwrap_err().to_string();
    let whole = unified("x", Some(b"a\n"), Some(b"b\n"), 1000).text;
    insta::assert_snapshot!(complaint("hello"), @"a header does not name one file");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/y\n"), @"a header does not name one file");
    insta::assert_snapshot!(complaint("--- x\n+++ x\n"), @"a header does not name one file");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/x\n"), @"no change of x");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/x\n@@ -1 +q @@\n"), @"at byte 16: can't parse range");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n-b\n"), @"at byte 16: hunk header does not match hunk");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n"), @"at byte 16: hunk header does not match hunk");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/x\n@@ -18446744073709551615 +1 @@\n-a\n+b\n"), @"at byte 16: can't parse range");
    insta::assert_snapshot!(complaint(&format!("{whole}{whole}")), @"the diff changes x twice");
}

/// Texts of few different lines, some of which look like lines of a diff.
fn texts() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "a\n",
        "b\n",
        "c\n",
        "\n",
        "d\r\n",
        "-- a/x\n",
        "++ b/x\n",
        "@@ -1 +1 @@\n",
        "# z\n",
        "\\ No newline at end of file\n",
        "f\n",
        "g\n",
    ]);
    let end = prop::sample::select(vec!["", "", "end"]);
    (prop::collection::vec(line, 0..30), end).prop_map(|(lines, end)| lines.concat() + end)
}

/// A text, and the same with some lines taken out and others put in.
fn edits() -> impl Strategy<Value = (String, String)> {
    let edit = (any::<prop::sample::Index>(), 0..3_usize, texts());
    let both = (texts(), prop::collection::vec(edit, 1..4));
    let both = both.prop_map(|(old, edits)| {
        let mut new: Vec<String> = lines(&old).iter().map(|line| (*line).to_owned()).collect();
        for (at, out, put) in edits {
            let at = at.index(new.len() + 1);
            let end = (at + out).min(new.len());
            new.splice(at..end, lines(&put).iter().take(3).map(|line| (*line).to_owned()));
        }
        (old, new.concat())
    });
    both.prop_filter("something is different", |(old, new)| old != new)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn undoing_gives_what_was_before((old, new) in prop_oneof![edits(), (texts(), texts())]) {
        prop_assume!(old != new);
        prop_assert_eq!(undo(&old, &new, &new), holds(&old));
    }

    #[test]
    fn once_is_enough((old, new) in prop_oneof![edits(), (texts(), texts())]) {
        prop_assume!(old != new);
        let text = diff("x", Some(&old), Some(&new));
            let again = read_patch(&text).unwrap()[0].revert(Some(old.as_bytes()), Earlier::Reverted);
        prop_assert_eq!(again, Ok(Revert::Already));
    }

    #[test]
    fn several_files_are_told_apart((a, b) in edits(), (c, d) in edits()) {
        let text = diff("one", Some(&a), Some(&b)) + &diff("two", Some(&c), Some(&d));
            let files = read_patch(&text).unwrap();
        prop_assert_eq!(files.len(), 2);
        prop_assert_eq!(files[0].revert(Some(b.as_bytes()), Earlier::Unreverted), holds(&a));
        prop_assert_eq!(files[1].revert(Some(d.as_bytes()), Earlier::Unreverted), holds(&c));
    }

    /// One line was changed since. If the review had written it, that is a conflict; if not, it is a conflict
    /// or the line stays as it is now, and everything else is as it was.
    #[test]
    fn a_later_edit_is_never_lost((old, new) in edits(), at: prop::sample::Index) {
        prop_assume!(!new.is_empty());
        let mut now = lines(&new);
        let at = at.index(now.len());
        now[at] = "a later edit\n";
        let text = diff("x", Some(&old), Some(&new));
            let file = read_patch(&text).unwrap().remove(0);
        let mut is_of_review = false;
        // Where the line was in the old text.
        let mut was = at;
        for hunk in file.patch.hunks() {
            let mut place = hunk.new_range().start() - usize::from(!hunk.new_range().is_empty());
            if place > at {
                continue;
            }
            for line in hunk.lines() {
                match line {
                    Line::Delete(_) if place <= at => was += 1,
                    Line::Delete(_) => {}
                    Line::Insert(_) if place < at => { was -= 1; place += 1 }
                    Line::Insert(_) => { is_of_review |= place == at; place += 1 }
                    Line::Context(_) => place += 1,
                }
            }
        }
        match file.revert(Some(now.concat().as_bytes()), Earlier::Unreverted) {
            Err(_) => {}
            Ok(reverted) => {
                prop_assert!(!is_of_review, "{reverted:?}");
                let mut then = lines(&old);
                then[was] = "a later edit\n";
                prop_assert_eq!(reverted, Revert::Write(then.concat()));
            }
        }
    }

    #[test]
    fn nothing_that_is_read_breaks_the_reader(text in ".{0,200}", pieces in texts()) {
        let _ = read_patch(&text);
        let headed = format!("--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n{pieces}");
        if let Ok(files) = read_patch(&headed) {
            let _ = files[0].revert(Some(text.as_bytes()), Earlier::Unreverted);
        }
    }
}
