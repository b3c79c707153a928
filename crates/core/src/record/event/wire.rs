//! How values stand in the fields of a record.

use crate::agents::Dollars;
use crate::record::{Number, Value};
use crate::slot::Picked;
use crate::word::{Meaning, Word};

/// How a type stands in the `fields` of a record.
pub(super) trait Wire: Sized {
    /// The value to write, unless there is nothing to say.
    fn write(&self) -> Option<Value>;
    /// Reads either form: the journal writes numbers as strings, a person may not.
    fn read(value: Option<&Value>) -> Option<Self>;
}

impl Wire for String {
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.clone()))
    }

    fn read(value: Option<&Value>) -> Option<Self> {
        value?.to_text()
    }
}

impl Wire for bool {
    fn write(&self) -> Option<Value> {
        Some(Value::Flag(*self))
    }

    fn read(value: Option<&Value>) -> Option<Self> {
        value?.to_text()?.parse().ok()
    }
}

impl Wire for u64 {
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.to_string()))
    }

    fn read(value: Option<&Value>) -> Option<Self> {
        value?.to_text()?.parse().ok()
    }
}

impl Wire for i32 {
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.to_string()))
    }

    fn read(value: Option<&Value>) -> Option<Self> {
        value?.to_text()?.parse().ok()
    }
}

/// Declares the few amounts that the journal writes as numbers.
macro_rules! amounts {
    ($( $(#[$doc:meta])* $name:ident, )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name(pub u64);

            impl Wire for $name {
                fn write(&self) -> Option<Value> {
                    Some(Value::Number(self.0.into()))
                }

                fn read(value: Option<&Value>) -> Option<Self> {
                    value?.to_text()?.parse().ok().map($name)
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

impl Wire for Dollars {
    fn write(&self) -> Option<Value> {
        Number::from_f64(self.amount()).map(Value::Number)
    }

    fn read(value: Option<&Value>) -> Option<Self> {
        Dollars::new(value?.to_text()?.parse().ok()?)
    }
}

impl<T: Meaning> Wire for Word<T> {
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.to_string()))
    }

    fn read(value: Option<&Value>) -> Option<Self> {
        Some(Word::from(value?.to_text()?.as_str()))
    }
}

impl Wire for Picked {
    fn write(&self) -> Option<Value> {
        Some(Value::Text(self.word().to_owned()))
    }

    fn read(value: Option<&Value>) -> Option<Self> {
        Some(Picked::from_word(&value?.to_text()?))
    }
}

impl<T: Wire> Wire for Option<T> {
    fn write(&self) -> Option<Value> {
        self.as_ref().and_then(Wire::write)
    }

    fn read(value: Option<&Value>) -> Option<Self> {
        match value {
            None => Some(None),
            present => T::read(present).map(Some),
        }
    }
}
