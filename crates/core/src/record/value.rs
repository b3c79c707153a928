//! The JSON values of records.

use std::fmt;

use super::number::{Number, TakenOut};
use crate::json::escape;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value. Objects keep their order and have no duplicate keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Flag(bool),
    Number(Number),
    Text(String),
    List(Vec<Value>),
    Object(Object),
}

pub type Object = Vec<(String, Value)>;

impl Value {
    /// Text, and numbers and flags as text: `"exit_code": "0"` and `"exit_code": 0` mean the same.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Value::Text(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Flag(flag) => Some(flag.to_string()),
            Value::Null | Value::List(_) | Value::Object(_) => None,
        }
    }

    /// Parses one JSON value; numbers stay as they are written.
    pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
        let taken = TakenOut::of(text);
        let parsed = serde_json::from_str::<Value>(&taken.text);
        match parsed.ok().and_then(|value| value.with_numbers(&taken)) {
            Some(value) => Ok(value),
            // Parsed again for the position of the error.
            None => serde_json::from_str(text),
        }
    }

    /// Replaces the indexes of numbers by the numbers.
    fn with_numbers(self, taken: &TakenOut<'_>) -> Option<Value> {
        Some(match self {
            Value::Number(index) => Value::Number(taken.number(&index)?),
            Value::List(items) => Value::List(
                items.into_iter().map(|item| item.with_numbers(taken)).collect::<Option<_>>()?,
            ),
            Value::Object(pairs) => {
                let pair = |(key, value): (String, Value)| Some((key, value.with_numbers(taken)?));
                Value::Object(pairs.into_iter().map(pair).collect::<Option<_>>()?)
            }
            Value::Null | Value::Flag(_) | Value::Text(_) => self,
        })
    }

    pub(super) fn print(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Flag(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
            Value::Number(number) => out.extend_from_slice(number.as_str().as_bytes()),
            Value::Text(text) => print_text(text, out),
            Value::List(items) => {
                out.push(b'[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.extend_from_slice(b", ");
                    }
                    item.print(out);
                }
                out.push(b']');
            }
            // Without spaces, so that `{"run": "` begins a record and nothing else.
            Value::Object(pairs) => {
                out.push(b'{');
                for (index, (key, value)) in pairs.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    print_text(key, out);
                    out.push(b':');
                    value.print(out);
                }
                out.push(b'}');
            }
        }
    }
}

pub(super) fn print_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    escape(text, out);
    out.push(b'"');
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        let mut object = Object::new();
        let mut keys = std::collections::HashSet::new();
        while let Some((key, value)) = pairs.next_entry::<String, Value>()? {
            if !keys.insert(key.clone()) {
                return Err(de::Error::custom(format_args!("duplicate key {key:?}")));
            }
            object.push((key, value));
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Value, String> {
        Value::parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn order_is_kept_and_nesting_is_printed_without_spaces() {
        let value = parse(r#"{"run": "x", "a": [1, {"b": null}], "c": -2.5, "d": true}"#).unwrap();
        let mut out = Vec::new();
        value.print(&mut out);
        let printed = String::from_utf8(out).unwrap();
        assert_eq!(printed, r#"{"run":"x","a":[1, {"b":null}],"c":-2.5,"d":true}"#);
        assert_eq!(parse(&printed), Ok(value));
    }

    #[test]
    fn a_key_cannot_stand_twice_at_any_depth() {
        assert!(parse(r#"{"a": 1, "a": 2}"#).unwrap_err().contains("duplicate key \"a\""));
        assert!(parse(r#"[{"b": {"a": 1, "\u0061": 2}}]"#).is_err());
    }

    #[test]
    fn depth_is_bounded_and_the_size_of_numbers_is_not() {
        assert!(parse(&"[".repeat(100_000)).is_err());
        let digits = "7".repeat(400);
        for number in ["18446744073709551615", "1e999999999", "-1e999", "1.50", &digits] {
            assert_eq!(parse(number).unwrap().to_text().unwrap(), number);
        }
    }
}
