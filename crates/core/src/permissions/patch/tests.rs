use proptest::prelude::*;

use super::*;
use crate::permissions::unified;

fn patch(old: Option<&str>, new: Option<&str>) -> FilePatch {
    let (old, new) = (old.map(str::as_bytes), new.map(str::as_bytes));
    let diff = unified("harness.md", old, new, usize::MAX);
    let mut files = read_patch(&diff.text).unwrap();
    assert_eq!(files.len(), 1, "{}", diff.text);
    files.remove(0)
}

/// What becomes of the change from `old` to `new` in a text of today.
fn undo(old: &str, new: &str, now: &str) -> Result<Undone, Conflict> {
    patch(Some(old), Some(new)).undo(Some(now.as_bytes()), Standing::Open)
}

fn holds(text: &str) -> Result<Undone, Conflict> {
    Ok(Undone::Holds(text.to_owned()))
}

const OLD: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
const NEW: &str = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";

#[test]
fn a_change_is_undone_where_it_is_found() {
    assert_eq!(undo(OLD, NEW, NEW), holds(OLD));
    assert_eq!(undo(OLD, NEW, OLD), Ok(Undone::Already));
    let edited =
        |text: &str| [text.replace('9', "nine"), format!("0\n0\n{text}"), format!("{text}10\n")];
    for (now, then) in edited(NEW).into_iter().zip(edited(OLD)) {
        assert_eq!(undo(OLD, NEW, &now), holds(&then), "{now:?}");
        assert_eq!(undo(OLD, NEW, &then), Ok(Undone::Already), "{then:?}");
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
    insta::assert_snapshot!(undo(OLD, NEW, "x\n").unwrap_err(), @"change 1 (@@ -2,7 +2,7 @@) is not there any more: its lines were changed since");
    let patch = patch(Some(OLD), Some(NEW));
    insta::assert_snapshot!(patch.undo(None, Standing::Open).unwrap_err(), @"it was edited by the review, and is gone now");
    insta::assert_snapshot!(patch.undo(Some(b"\xff"), Standing::Open).unwrap_err(), @"it is not a text any more");
}

#[test]
fn lines_at_the_end_are_not_put_there_twice() {
    assert_eq!(undo("a\nb\n", "a\n", "a\n"), holds("a\nb\n"));
    assert_eq!(undo("a\nb\n", "a\n", "a\nb\n"), Ok(Undone::Already));
    assert!(undo("a\nb\n", "a\n", "a\nx\n").is_err());
    assert_eq!(undo("a\n", "a\nb\n", "a\n"), Ok(Undone::Already));
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
    let added = patch(None, Some("a\n"));
    assert_eq!(added.undo(Some(b"a\n"), Standing::Open), Ok(Undone::Gone));
    assert_eq!(added.undo(None, Standing::Open), Ok(Undone::Already));
    insta::assert_snapshot!(added.undo(Some(b"a\nb\n"), Standing::Open).unwrap_err(), @"it was added by the review and has been changed since");
    let deleted = patch(Some("a"), None);
    assert_eq!(deleted.undo(None, Standing::Open), holds("a"));
    assert_eq!(deleted.undo(Some(b"a"), Standing::Open), Ok(Undone::Already));
    insta::assert_snapshot!(deleted.undo(Some(b"b"), Standing::Open).unwrap_err(), @"it was deleted by the review, and there is another one now");
    assert_eq!(patch(None, Some("")).undo(Some(b""), Standing::Open), Ok(Undone::Gone));
    assert_eq!(patch(Some(""), None).undo(None, Standing::Open), holds(""));
}

#[test]
fn what_was_only_named_cannot_be_undone() {
    let diff = unified("logs/x", Some(b"\xff"), Some(b"\xfe"), 1000);
    let file = read_patch(&diff.text).unwrap().remove(0);
    insta::assert_snapshot!(file.undo(Some(b"\xfe"), Standing::Open).unwrap_err(), @"the record only says that it was changed (not a text: 1 bytes before, 1 after)");
}

#[test]
fn what_we_would_not_write_is_refused() {
    let complaint = |text: &str| read_patch(text).unwrap_err().to_string();
    let whole = unified("x", Some(b"a\n"), Some(b"b\n"), 1000).text;
    insta::assert_snapshot!(complaint("hello"), @"line 1 of the diff is not the name of a file before");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/y\n"), @"line 2 of the diff is not the name of the same file");
    insta::assert_snapshot!(complaint("--- x\n+++ x\n"), @"line 2 of the diff is not the name of the same file");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/x\n"), @"line 3 of the diff is not a change");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/x\n@@ -1 +q @@\n"), @"line 3 of the diff is not the place of a change");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n-b\n"), @"line 5 of the diff is not within the change that it stands in");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n"), @"line 5 of the diff is not a line of a change");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n"), @"line 3 of the diff is not the place of a change");
    insta::assert_snapshot!(complaint("--- a/x\n+++ b/x\n@@ -18446744073709551615 +1 @@\n-a\n+b\n"), @"line 3 of the diff is not the place of a change");
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
        "e\r",
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
        let again = patch(Some(&old), Some(&new)).undo(Some(old.as_bytes()), Standing::Undone);
        prop_assert_eq!(again, Ok(Undone::Already));
    }

    #[test]
    fn several_files_are_told_apart((a, b) in edits(), (c, d) in edits()) {
        let diff = |path: &str, old: &str, new: &str| {
            unified(path, Some(old.as_bytes()), Some(new.as_bytes()), usize::MAX).text
        };
        let files = read_patch(&(diff("one", &a, &b) + &diff("two", &c, &d))).unwrap();
        prop_assert_eq!(files.len(), 2);
        prop_assert_eq!(files[0].undo(Some(b.as_bytes()), Standing::Open), holds(&a));
        prop_assert_eq!(files[1].undo(Some(d.as_bytes()), Standing::Open), holds(&c));
    }

    /// Somebody changed one line since. If the review had written it, that is a conflict; if not, it is
    /// a conflict or the line stays as it is now, and everything else is as it was.
    #[test]
    fn a_line_of_somebody_else_is_never_lost((old, new) in edits(), at: prop::sample::Index) {
        prop_assume!(!new.is_empty());
        let mut now = lines(&new);
        let at = at.index(now.len());
        now[at] = "somebody else's\n";
        let patch = patch(Some(&old), Some(&new));
        let Content::Hunks(hunks) = &patch.content else { unreachable!() };
        let mut is_of_review = false;
        // Where the line was in the old text.
        let mut was = at;
        for hunk in hunks.iter().filter(|hunk| hunk.new_start <= at) {
            let mut place = hunk.new_start;
            for (side, _) in &hunk.lines {
                match side {
                    Side::Old if place <= at => was += 1,
                    Side::Old => {}
                    Side::New if place < at => { was -= 1; place += 1 }
                    Side::New => { is_of_review |= place == at; place += 1 }
                    Side::Both => place += 1,
                }
            }
        }
        match patch.undo(Some(now.concat().as_bytes()), Standing::Open) {
            Err(_) => {}
            Ok(undone) => {
                prop_assert!(!is_of_review, "{undone:?}");
                let mut then = lines(&old);
                then[was] = "somebody else's\n";
                prop_assert_eq!(undone, Undone::Holds(then.concat()));
            }
        }
    }

    #[test]
    fn nothing_that_is_read_breaks_the_reader(text in ".{0,200}", pieces in texts()) {
        let _ = read_patch(&text);
        let headed = format!("--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n{pieces}");
        if let Ok(files) = read_patch(&headed) {
            let _ = files[0].undo(Some(text.as_bytes()), Standing::Open);
        }
    }
}
