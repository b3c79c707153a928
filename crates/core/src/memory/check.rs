//! What may be remembered.

use super::{LONGEST_NAME, LONGEST_TEXT, Said};

/// Why an entry is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    #[error("there is nothing to remember in an empty text")]
    Empty,
    #[error("the text has {0} characters; an entry has at most {LONGEST_TEXT}")]
    TooLong(usize),
    #[error("'{}' cannot be a {what}", name.escape_debug())]
    BadName { what: &'static str, name: String },
}

impl BadEntry {
    pub fn hint(&self) -> Option<String> {
        match self {
            BadEntry::Empty => None,
            BadEntry::TooLong(_) => {
                Some("write it to a file of the project and remember where it is".to_owned())
            }
            BadEntry::BadName { what, .. } => {
                Some(format!("a {what} is one line of 1 to {LONGEST_NAME} characters"))
            }
        }
    }
}

impl Said {
    /// Trims and checks the texts of an entry.
    pub fn checked(self) -> Result<Said, BadEntry> {
        Ok(match self {
            Said::Learning { text } => Said::Learning { text: checked_text(&text)? },
            Said::Preference { category, text } => Said::Preference {
                category: checked_name("category", &category)?,
                text: checked_text(&text)?,
            },
            Said::Meta { key, value } => {
                Said::Meta { key: checked_name("key", &key)?, value: checked_text(&value)? }
            }
            tombstone @ Said::Tombstone { .. } => tombstone,
        })
    }
}

fn checked_text(text: &str) -> Result<String, BadEntry> {
    let text = text.trim();
    match text.chars().count() {
        0 => Err(BadEntry::Empty),
        1..=LONGEST_TEXT => Ok(text.to_owned()),
        length => Err(BadEntry::TooLong(length)),
    }
}

fn checked_name(what: &'static str, name: &str) -> Result<String, BadEntry> {
    let name = name.trim();
    let is_good = !name.is_empty()
        && name.chars().count() <= LONGEST_NAME
        && !name.contains(char::is_control);
    match is_good {
        true => Ok(name.to_owned()),
        false => Err(BadEntry::BadName { what, name: name.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_remembered_is_told_of() {
        let learning = |text: &str| Said::Learning { text: text.to_owned() }.checked();
        assert_eq!(learning(" a b\n"), Ok(Said::Learning { text: "a b".to_owned() }));
        assert!(learning(&"ä".repeat(LONGEST_TEXT)).is_ok());
        insta::assert_snapshot!(learning(" \n").unwrap_err(), @"there is nothing to remember in an empty text");
        insta::assert_snapshot!(
            learning(&"ä".repeat(LONGEST_TEXT + 1)).unwrap_err(),
            @"the text has 16001 characters; an entry has at most 16000"
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
}
