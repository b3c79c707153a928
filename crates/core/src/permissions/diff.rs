//! What an allowed change did, as text for the journal.

use similar::TextDiff;

/// Longer files are named, not diffed.
pub const LONGEST_DIFFED: usize = 512 * 1024;

/// The name of a file that does not exist.
pub(super) const NOWHERE: &str = "/dev/null";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// The text; for a change that cannot be shown, a line that names it.
    pub text: String,
    /// Whether the change can be reverted from the text alone.
    pub complete: bool,
}

/// Compares two contents of a file; `None` if there was or is no file.
pub fn unified(path: &str, old: Option<&[u8]>, new: Option<&[u8]>, longest: usize) -> Diff {
    let side = |prefix: &str, bytes: Option<&[u8]>| match bytes {
        Some(_) => format!("{prefix}/{path}"),
        None => NOWHERE.to_owned(),
    };
    let (from, to) = (side("a", old), side("b", new));
    let sizes = (old.map_or(0, <[u8]>::len), new.map_or(0, <[u8]>::len));
    let named = |why: &str| Diff {
        text: format!(
            "--- {from}\n+++ {to}\n# {why}: {} bytes before, {} after\n",
            sizes.0, sizes.1
        ),
        complete: false,
    };
    if sizes.0.max(sizes.1) > LONGEST_DIFFED {
        return named("too long to show");
    }
    let texts = (text(old), text(new));
    let (Some(old), Some(new)) = texts else { return named("not text") };
    let mut text = TextDiff::from_lines(old, new).unified_diff().header(&from, &to).to_string();
    // An empty file has no lines that could be shown.
    if text.is_empty() && from != to && (from == NOWHERE || to == NOWHERE) {
        text = format!("--- {from}\n+++ {to}\n");
    }
    if text.len() > longest {
        return named("too different to show");
    }
    Diff { text, complete: true }
}

/// Text with line feeds only: readers of diffs know no other line ends.
fn text(bytes: Option<&[u8]>) -> Option<&str> {
    let text = str::from_utf8(bytes.unwrap_or_default()).ok()?;
    let mut ends = text.match_indices('\r').map(|(at, _)| text.as_bytes().get(at + 1));
    let is_lines = ends.all(|next| next == Some(&b'\n'));
    (is_lines && !text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_whole_or_named() {
        insta::assert_snapshot!(unified("harness.md", Some(b"a\nb\n"), Some(b"a\nc"), 1000).text, @r"
        --- a/harness.md
        +++ b/harness.md
        @@ -1,2 +1,2 @@
         a
        -b
        +c
        \ No newline at end of file
        ");
        insta::assert_snapshot!(unified("roles/x.md", None, Some(b"hi\n"), 1000).text, @r"
        --- /dev/null
        +++ b/roles/x.md
        @@ -0,0 +1 @@
        +hi
        ");
        insta::assert_snapshot!(unified("roles/x.md", None, Some(b""), 1000).text, @r"
        --- /dev/null
        +++ b/roles/x.md
        ");
        let long = unified("harness.md", Some(b"a\n"), Some("b\n".repeat(99).as_bytes()), 100);
        assert!(!long.complete);
        insta::assert_snapshot!(long.text, @r"
        --- a/harness.md
        +++ b/harness.md
        # too different to show: 2 bytes before, 198 after
        ");
        insta::assert_snapshot!(unified("logs/x", Some(b"\xff"), None, 100).text, @r"
        --- a/logs/x
        +++ /dev/null
        # not text: 1 bytes before, 0 after
        ");
        assert!(!unified("harness.md", Some(b"a\rb\n"), Some(b"b\n"), 100).complete);
        assert!(unified("harness.md", Some(b"a\r\n"), Some(b"b\r\n"), 100).complete);
    }
}
