//! Enums that are one word each in records and settings.

use std::fmt;

/// Declares enums with a word per variant, and maybe other words that mean the same.
macro_rules! words {
    ($( $(#[$about:meta])* $name:ident {
        $( $(#[$each:meta])* $variant:ident = $word:literal $(| $also:literal)*, )+
    } )+) => { $(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $( $(#[$each])* $variant, )+ }

        impl $name {
            /// All words, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word $(, $also)*),+];

            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word $(| $also)* => Some(Self::$variant),)+
                    _ => None,
                }
            }

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl $crate::wire_enum::WireEnum for $name {
            fn of_word(word: &str) -> Option<Self> {
                Self::from_word(word)
            }

            fn word(self) -> &'static str {
                self.name()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    )+ };
}

pub(crate) use words;

/// An enum that is a word on the wire.
pub trait WireEnum: Copy + fmt::Display {
    fn of_word(word: &str) -> Option<Self>;
    fn word(self) -> &'static str;
}

/// A word on the wire. An unknown one is kept as it is: it is shown, and nothing is concluded from
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word<T> {
    Known(T),
    /// Written by another version or another program.
    Unknown(String),
}

impl<T: WireEnum> Word<T> {
    pub fn known(&self) -> Option<T> {
        match self {
            Word::Known(meaning) => Some(*meaning),
            Word::Unknown(_) => None,
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Word::Known(meaning) => meaning.word(),
            Word::Unknown(word) => word,
        }
    }
}

impl<T: WireEnum> From<&str> for Word<T> {
    fn from(word: &str) -> Self {
        T::of_word(word).map_or_else(|| Word::Unknown(word.to_owned()), Word::Known)
    }
}

impl<T: WireEnum> From<T> for Word<T> {
    fn from(meaning: T) -> Self {
        Word::Known(meaning)
    }
}

/// A kept view stores the word, so that a new variant does not change the encoding.
impl<T: WireEnum> serde::Serialize for Word<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, T: WireEnum> serde::Deserialize<'de> for Word<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|word| Word::from(word.as_str()))
    }
}

/// The field is missing.
impl<T> Default for Word<T> {
    fn default() -> Self {
        Word::Unknown(String::new())
    }
}

impl<T: PartialEq> PartialEq<T> for Word<T> {
    fn eq(&self, other: &T) -> bool {
        matches!(self, Word::Known(meaning) if meaning == other)
    }
}

impl<T: fmt::Display> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Known(meaning) => meaning.fmt(f),
            Word::Unknown(word) => f.pad(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::MergeOutcome;

    #[test]
    fn a_word_stays_what_it_is() {
        for text in ["merged", "conflict", "rebased", "Merged", ""] {
            assert_eq!(Word::<MergeOutcome>::from(text).to_string(), text);
        }
        assert_eq!(Word::from("merged"), MergeOutcome::Merged);
        assert_ne!(Word::from("conflict"), MergeOutcome::Merged);
        assert_eq!(Word::<MergeOutcome>::from("rebased").known(), None);
        assert_eq!(Word::<MergeOutcome>::default(), Word::from(""));
        assert_eq!(Word::from(MergeOutcome::Busy), Word::from(MergeOutcome::Busy.name()));
    }
}
