//! Reads which item an agent reports having worked on.
//!
//! The harness assigns the items, so this decides little: the work of an agent that took nothing is not reviewed,
//! and a different item is recorded.

use crate::record::Picked;

/// The prefixes of an id, in lower case; the second is what `bd` prints for a claim.
const MARKS: [&str; 2] = ["picked:", "updated issue:"];

const LONGEST: usize = 200;

/// Reads the last line of an output that names an item.
pub fn picked(output: &str) -> Picked {
    output.lines().rev().find_map(said).unwrap_or_default()
}

fn said(line: &str) -> Option<Picked> {
    // A tick or a bullet may precede it.
    let line = line.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let rest = MARKS.iter().find_map(|mark| {
        let head = line.get(..mark.len())?;
        head.eq_ignore_ascii_case(mark).then(|| &line[mark.len()..])
    })?;
    let id = rest.split_whitespace().next()?;
    if id.len() > LONGEST {
        return None;
    }
    Some(match id.eq_ignore_ascii_case(Picked::NOTHING) {
        true => Picked::Nothing,
        false => Picked::Item(id.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_line_that_says_it_counts() {
        for (output, word) in [
            ("", ""),
            ("done", ""),
            ("picked: t-1", "t-1"),
            ("  - Picked: t-1 (slug)\n", "t-1"),
            ("\u{2713} Updated issue: bd-a1 \u{2014} a title", "bd-a1"),
            ("picked: t-1\npicked: t-2\n", "t-2"),
            ("picked: none", "none"),
            ("picked:", ""),
            ("I picked: t-1", ""),
        ] {
            assert_eq!(picked(output).word(), word, "{output:?}");
        }
        assert!(picked("picked: none").differs_from("t-1"));
        assert!(picked("picked: t-2").differs_from("t-1"));
        assert!(!picked("picked: t-1").differs_from("t-1"));
        assert!(!picked("").differs_from("t-1"));
    }

    proptest! {
        #[test]
        fn any_output_can_be_read(output in any::<String>()) {
            let found = picked(&output);
            prop_assert_eq!(Picked::from_word(found.word()), found);
        }
    }
}
