//! How values stand in the fields of a record.

use crate::agents::Dollars;
use crate::record::{Field, Number, Picked, Text, Value};
use crate::wire_enum::{Meaning, Word};

/// How a type stands in the `fields` of a record.
pub(super) trait Wire<'a>: Sized {
    /// The value to write, unless there is nothing to say.
    fn write(&self) -> Option<Value>;
    /// Reads either form: the journal writes numbers as strings, a person may not.
    fn read(field: Field<'a>) -> Option<Self>;
    /// What a record says that has no such field, or one that cannot be read.
    fn missing() -> Self
    where
        Self: Default,
    {
        Self::default()
    }
}

impl Wire<'_> for String {
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.clone()))
    }

    fn read(field: Field<'_>) -> Option<Self> {
        field.text().map(Into::into)
    }
}

impl<'a> Wire<'a> for Text<'a> {
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.read().into_owned()))
    }

    fn read(field: Field<'a>) -> Option<Self> {
        field.long_text()
    }
}

impl Wire<'_> for bool {
    fn write(&self) -> Option<Value> {
        Some(Value::Flag(*self))
    }

    fn read(field: Field<'_>) -> Option<Self> {
        field.text()?.parse().ok()
    }
}

impl Wire<'_> for u64 {
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.to_string()))
    }

    fn read(field: Field<'_>) -> Option<Self> {
        field.text()?.parse().ok()
    }
}

/// Declares the few amounts that the journal writes as numbers.
macro_rules! amounts {
    ($( $(#[$doc:meta])* $name:ident, )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name(pub u64);

            impl Wire<'_> for $name {
                fn write(&self) -> Option<Value> {
                    Some(Value::Number(self.0.into()))
                }

                fn read(field: Field<'_>) -> Option<Self> {
                    field.text()?.parse().ok().map($name)
                }
            }
        )*
    };
}

amounts! {
    /// Seconds.
    Seconds,
    /// Tokens of a model.
    Tokens,
}

impl Wire<'_> for Dollars {
    fn write(&self) -> Option<Value> {
        Number::from_f64(self.amount()).map(Value::Number)
    }

    fn read(field: Field<'_>) -> Option<Self> {
        Dollars::new(field.text()?.parse().ok()?)
    }
}

impl<T: Meaning> Wire<'_> for Word<T> {
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.to_string()))
    }

    fn read(field: Field<'_>) -> Option<Self> {
        Some(Word::from(&*field.text()?))
    }
}

/// The exit code of an agent, as a record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// It is known.
    Known(i32),
    /// Another writer put this in its place; empty where it is missing.
    Unknown(String),
}

impl ExitCode {
    /// The code, if it is known.
    pub fn known(&self) -> Option<i32> {
        match self {
            ExitCode::Known(code) => Some(*code),
            ExitCode::Unknown(_) => None,
        }
    }

    /// Whether the record does not say.
    pub fn is_missing(&self) -> bool {
        *self == ExitCode::missing()
    }
}

impl From<i32> for ExitCode {
    fn from(code: i32) -> Self {
        ExitCode::Known(code)
    }
}

impl Default for ExitCode {
    fn default() -> Self {
        ExitCode::Known(0)
    }
}

impl std::fmt::Display for ExitCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ExitCode::Known(code) => code.fmt(f),
            ExitCode::Unknown(word) => word.fmt(f),
        }
    }
}

impl Wire<'_> for ExitCode {
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.to_string()))
    }

    fn read(field: Field<'_>) -> Option<Self> {
        let text = field.text()?;
        Some(text.parse().map_or_else(|_| ExitCode::Unknown(text.into_owned()), ExitCode::Known))
    }

    /// Without a code nothing says that the agent succeeded.
    fn missing() -> Self {
        ExitCode::Unknown(String::new())
    }
}

impl Wire<'_> for Picked {
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.word().to_owned()))
    }

    fn read(field: Field<'_>) -> Option<Self> {
        Some(Picked::from_word(&field.text()?))
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Option<T> {
    fn write(&self) -> Option<Value> {
        self.as_ref().and_then(Wire::write)
    }

    fn read(field: Field<'a>) -> Option<Self> {
        Some(T::read(field))
    }
}
