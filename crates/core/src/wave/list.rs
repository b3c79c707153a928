//! The list of objectives in a request for a wave.

use std::collections::BTreeSet;

use crate::wire_enum::words;

/// The maximum length of a list, in bytes. A reader that shortens long payloads keeps more than
/// this, so no list is taken for a shorter one.
pub(super) const LONGEST: usize = 10_000;

words! {
    /// Why a text is no list of objectives.
    BadList {
        Empty = "empty_branch_list",
        NotAList = "invalid_branch_list",
        TooMany = "too_many_branches",
        Repeated = "duplicate_branches",
        TooLong = "branch_list_too_long",
    }
}

impl BadList {
    pub(super) fn message(self) -> &'static str {
        match self {
            BadList::Empty => "there is no objective in it",
            BadList::NotAList => "a line does not begin with '- ', '* ' or a number and a dot",
            BadList::TooMany => "it has more items than parallel.max_branches allows",
            BadList::Repeated => "it has a duplicate objective",
            BadList::TooLong => {
                "it is longer than 10,000 bytes; write long objectives to files and name them"
            }
        }
    }
}

/// Reads a list of at most `most` different objectives: bullets or numbers, one per line.
pub fn objectives(text: &str, most: u64) -> Result<Vec<String>, BadList> {
    if text.len() > LONGEST {
        return Err(BadList::TooLong);
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let items = lines.map(item).collect::<Option<Vec<&str>>>().ok_or(BadList::NotAList)?;
    let distinct: BTreeSet<&str> = items.iter().copied().collect();
    match items.len() {
        0 => Err(BadList::Empty),
        count if count as u64 > most => Err(BadList::TooMany),
        count if count > distinct.len() => Err(BadList::Repeated),
        _ => Ok(items.into_iter().map(str::to_owned).collect()),
    }
}

fn item(line: &str) -> Option<&str> {
    let numbered = || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        (rest.len() < line.len()).then(|| rest.strip_prefix(". "))?
    };
    let said = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or_else(numbered)?;
    let said = said.trim();
    (!said.is_empty()).then_some(said)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
}
