//! JSON for other programs: what stands in an object, in the order in which it was put there.

use std::fmt;

use autoloop_core::format::safe_json;
use autoloop_core::record::escape;

/// A value to be printed, over several lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Flag(bool),
    Number(u64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    /// Texts in a list.
    pub(crate) fn texts<T: ToString>(texts: impl IntoIterator<Item = T>) -> Json {
        Json::List(texts.into_iter().map(|text| Json::Text(text.to_string())).collect())
    }

    /// The value in a single line.
    pub(crate) fn in_line(&self) -> String {
        let joined = |pieces: Vec<String>| pieces.join(", ");
        match self {
            Json::List(items) => format!("[{}]", joined(items.iter().map(Json::in_line).collect())),
            Json::Object(pairs) => {
                let pair = |(key, value): &(&str, Json)| format!("\"{key}\": {}", value.in_line());
                format!("{{{}}}", joined(pairs.iter().map(pair).collect()))
            }
            scalar => scalar.to_string(),
        }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>, indent: usize) -> fmt::Result {
        let inner = indent + 2;
        match self {
            Json::Null => f.write_str("null"),
            Json::Flag(flag) => write!(f, "{flag}"),
            Json::Number(number) => write!(f, "{number}"),
            Json::Text(text) => print_text(text, f),
            Json::List(items) if items.is_empty() => f.write_str("[]"),
            Json::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let before = if index == 0 { "[" } else { "," };
                    write!(f, "{before}\n{:inner$}", "")?;
                    item.print(f, inner)?;
                }
                write!(f, "\n{:indent$}]", "")
            }
            Json::Object(pairs) if pairs.is_empty() => f.write_str("{}"),
            Json::Object(pairs) => {
                for (index, (key, value)) in pairs.iter().enumerate() {
                    let before = if index == 0 { "{" } else { "," };
                    write!(f, "{before}\n{:inner$}\"{key}\": ", "")?;
                    value.print(f, inner)?;
                }
                write!(f, "\n{:indent$}}}", "")
            }
        }
    }
}

fn print_text(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut bytes = Vec::with_capacity(text.len());
    escape(text, &mut bytes);
    write!(f, "\"{}\"", safe_json(&String::from_utf8_lossy(&bytes)))
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f, 0)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Json::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Json::Text(text)
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Self {
        Json::Number(number)
    }
}

impl From<bool> for Json {
    fn from(flag: bool) -> Self {
        Json::Flag(flag)
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Json::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_what_every_parser_reads() {
        let value = Json::Object(vec![
            ("text", "a\"b\\c\u{1}\né".into()),
            ("none", None::<u64>.into()),
            ("list", Json::List(vec![1.into(), true.into(), Json::List(vec![])])),
            ("empty", Json::Object(vec![])),
        ]);
        let read: serde_json::Value = serde_json::from_str(&value.to_string()).unwrap();
        let expected = serde_json::json!({
            "text": "a\"b\\c\u{1}\né", "none": null, "list": [1, true, []], "empty": {}
        });
        assert_eq!(read, expected);
        insta::assert_snapshot!(
            value.in_line(),
            @r#"{"text": "a\u0022b\u005cc\u0001\u000aé", "none": null, "list": [1, true, []], "empty": {}}"#
        );
        insta::assert_snapshot!(value, @r#"
        {
          "text": "a\u0022b\u005cc\u0001\u000aé",
          "none": null,
          "list": [
            1,
            true,
            []
          ],
          "empty": {}
        }
        "#);
    }
}
