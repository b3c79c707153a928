//! How the values of events are written to the fields of a record.

use crate::agents::Dollars;
use crate::record::{Field, Picked, Text, Value};
use crate::wire_enum::{WireEnum, Word};

/// A type of a field.
pub(super) trait Wire<'a>: Sized {
    /// `None` leaves the field out.
    fn write(&self) -> Option<Value>;
    /// Reads numbers and flags in either form: as such, or as strings.
    fn read(field: Field<'a>) -> Option<Self>;
    /// The value where the field is missing or cannot be read.
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

/// An amount that the journal writes as a number instead of a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount(pub u64);

impl Wire<'_> for Amount {
    fn write(&self) -> Option<Value> {
        Some(Value::Number(self.0.to_string()))
    }

    fn read(field: Field<'_>) -> Option<Self> {
        field.text()?.parse().ok().map(Amount)
    }
}

impl Wire<'_> for Dollars {
    fn write(&self) -> Option<Value> {
        let amount = serde_json::Number::from_f64(self.amount())?;
        Some(Value::Number(amount.to_string()))
    }

    fn read(field: Field<'_>) -> Option<Self> {
        Dollars::new(field.text()?.parse().ok()?)
    }
}

impl<T: WireEnum> Wire<'_> for Word<T> {
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.to_string()))
    }

    fn read(field: Field<'_>) -> Option<Self> {
        Some(Word::from(&*field.text()?))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitCode {
    Known(i32),
    /// A text of another writer; empty where the field is missing.
    Unknown(String),
}

impl ExitCode {
    pub fn known(&self) -> Option<i32> {
        match self {
            ExitCode::Known(code) => Some(*code),
            ExitCode::Unknown(_) => None,
        }
    }

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

    /// Without a code there is no evidence that the agent succeeded.
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
