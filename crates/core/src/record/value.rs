//! The JSON values of records.

use std::collections::HashSet;

use serde_json::value::RawValue;

use super::BadLine;
use crate::json::{each_pair, escape};

const DEEPEST: usize = 127;

/// A JSON value. Objects keep their order and have no duplicate keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Flag(bool),
    /// As written: JSON limits neither the size nor the precision of a number, but most types do, and
    /// `1.50` and `1.5` are different.
    Number(String),
    Text(String),
    List(Vec<Value>),
    Object(Object),
}

pub type Object = Vec<(String, Value)>;

impl Value {
    /// Text, and numbers and flags as text: `"exit_code": "0"` and `"exit_code": 0` mean the same.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Value::Text(text) | Value::Number(text) => Some(text.clone()),
            Value::Flag(flag) => Some(flag.to_string()),
            Value::Null | Value::List(_) | Value::Object(_) => None,
        }
    }

    pub(super) fn parse(line: &str) -> Result<Value, BadLine> {
        let text = line.trim_matches([' ', '\t', '\r', '\n']);
        // The grammar of an object is checked while it is read.
        if !text.starts_with('{') {
            let check: Result<&RawValue, _> = serde_json::from_str(text);
            check.map_err(|error| BadLine::not_json(&error, 0))?;
        }
        Value::read(text, line, DEEPEST)
    }

    fn read(text: &str, line: &str, depth: usize) -> Result<Value, BadLine> {
        let at = text.as_ptr().addr() - line.as_ptr().addr();
        let bad = |error| BadLine::not_json(&error, at);
        Ok(match text.as_bytes().first() {
            Some(b'n') => Value::Null,
            Some(b't' | b'f') => Value::Flag(text == "true"),
            Some(b'"') if !text.contains('\\') => Value::Text(text[1..text.len() - 1].to_owned()),
            Some(b'"') => Value::Text(serde_json::from_str(text).map_err(bad)?),
            Some(b'[' | b'{') if depth == 0 => {
                return Err(BadLine::NotJson { reason: "recursion limit exceeded".to_owned(), at });
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).map_err(bad)?;
                let read = |item: &RawValue| Value::read(item.get(), line, depth - 1);
                Value::List(items.into_iter().map(read).collect::<Result<_, _>>()?)
            }
            Some(b'{') => {
                let mut pairs = Vec::new();
                let mut parser = serde_json::Deserializer::from_str(text);
                each_pair(&mut parser, |key, value| pairs.push((key.get(), value.get())))
                    .and_then(|()| parser.end())
                    .map_err(bad)?;
                let mut object = Object::with_capacity(pairs.len());
                let mut keys = HashSet::with_capacity(pairs.len());
                for (key, value) in pairs {
                    let Value::Text(key) = Value::read(key, line, depth)? else { continue };
                    if !keys.insert(key.clone()) {
                        return Err(BadLine::Ambiguous(format!("duplicate key {key:?}")));
                    }
                    object.push((key, Value::read(value, line, depth - 1)?));
                }
                Value::Object(object)
            }
            _ => Value::Number(text.to_owned()),
        })
    }

    pub(super) fn print(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Flag(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
            Value::Number(number) => out.extend_from_slice(number.as_bytes()),
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
