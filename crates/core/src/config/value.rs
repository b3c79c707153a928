//! What is written for a setting, read as what the setting may be.
//!
//! TOML has numbers, flags and lists of its own; flags of the command line and variables are only
//! text. Both mean the same: a text is read as the setting needs it.

use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::key::Kind;
use crate::agents::Dollars;
use crate::duration;
use crate::suggest::suggest;
use crate::topic::{Topic, TopicClass};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Unset,
    Text(String),
    List(Vec<String>),
    Flag(bool),
    Number(i64),
    Time(Duration),
    Cost(Dollars),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The part that is invalid, if not the whole value.
    pub(crate) span: Option<Range<usize>>,
    pub(crate) found: String,
    pub(crate) label: String,
    pub(crate) hint: Option<String>,
}

pub(crate) fn read(kind: Kind, written: &Spanned<DeValue<'_>>) -> Result<Value, Refusal> {
    let value = written.get_ref();
    match (kind, value) {
        (_, DeValue::String(text)) => read_text(kind, text),
        (Kind::Flag, DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
        (
            Kind::Flag
            | Kind::Count { .. }
            | Kind::Limit
            | Kind::Millis { .. }
            | Kind::Time
            | Kind::Cost
            | Kind::Bytes,
            DeValue::Integer(number),
        ) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => read_text(kind, &number.to_string())
                .map_err(|refusal| Refusal { found: number.to_string(), ..refusal }),
            Err(_) => Err(refuse(kind, found(value))),
        },
        (Kind::Cost, DeValue::Float(number)) => read_text(kind, &number.as_str().replace('_', "")),
        (Kind::List | Kind::Events | Kind::Variables, DeValue::Array(elements)) => {
            let texts = elements.iter().map(|element| match element.get_ref().as_str() {
                Some(text) => checked_element(kind, text)
                    .map_err(|refusal| Refusal { span: Some(element.span()), ..refusal }),
                None => {
                    let found = format!("a list with {}", found(element.get_ref()));
                    Err(Refusal { span: Some(element.span()), ..refuse(kind, found) })
                }
            });
            texts.collect::<Result<_, _>>().map(Value::List)
        }
        _ => Err(refuse(kind, found(value))),
    }
}

pub(crate) fn read_text(kind: Kind, text: &str) -> Result<Value, Refusal> {
    if text.contains('\0') {
        return Err(Refusal {
            label: "a text may not contain a NUL character".to_owned(),
            ..refuse(kind, shown(text))
        });
    }
    let word = text.trim();
    let refused = || refuse(kind, shown(text));
    match kind {
        Kind::Text
        | Kind::File
        | Kind::MaybeChoice(_)
        | Kind::List
        | Kind::Events
        | Kind::Variables
            if word.is_empty() =>
        {
            Ok(Value::Unset)
        }
        Kind::NeededText | Kind::NeededPath if word.is_empty() => Err(refused()),
        Kind::Text | Kind::File | Kind::NeededText | Kind::NeededPath => {
            Ok(Value::Text(text.to_owned()))
        }
        Kind::Event => event(word).map(Value::Text),
        Kind::List | Kind::Events | Kind::Variables => list(kind, word),
        Kind::Flag => match word.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(Value::Flag(true)),
            "false" | "0" | "no" | "off" => Ok(Value::Flag(false)),
            _ => Err(refused()),
        },
        Kind::Count { .. } | Kind::Limit => {
            word.parse().map_err(|_| refused()).and_then(|number| in_range(kind, number))
        }
        Kind::Millis { .. } | Kind::Time => match word.parse() {
            Ok(millis) => in_range(kind, millis),
            Err(_) => time(kind, word),
        },
        Kind::Cost => cost(word).map(Value::Cost).ok_or_else(refused),
        Kind::Bytes => bytes(word).ok_or_else(refused).and_then(|bytes| in_range(kind, bytes)),
        Kind::Choice(words) | Kind::MaybeChoice(words) if words.contains(&word) => {
            Ok(Value::Text(word.to_owned()))
        }
        Kind::Choice(words) | Kind::MaybeChoice(words) => {
            let near = suggest(word, words.iter().copied());
            Err(Refusal { hint: near.map(|near| format!("write \"{near}\"")), ..refused() })
        }
    }
}

/// A list in a text: a TOML array, or words separated by commas.
fn list(kind: Kind, text: &str) -> Result<Value, Refusal> {
    if text.starts_with('[') {
        let written = format!("x={text}");
        let table = DeTable::parse(&written).map_err(|_| refuse(kind, shown(text)))?;
        let array = table.get_ref().get("x").ok_or_else(|| refuse(kind, shown(text)))?;
        // Positions in this text are not those in the text around it.
        return read(kind, array).map_err(|refusal| Refusal { span: None, ..refusal });
    }
    let elements = text.split(',').map(str::trim).filter(|element| !element.is_empty());
    elements
        .map(|element| checked_element(kind, element))
        .collect::<Result<_, _>>()
        .map(Value::List)
}

fn checked_element(kind: Kind, text: &str) -> Result<String, Refusal> {
    match kind {
        Kind::Events => event(text),
        Kind::Variables => variable(text),
        // A blank argument is an argument.
        _ => read_text(Kind::Text, text).map(|_| text.to_owned()),
    }
}

/// The name of a variable with its value, or a name that may begin or end with `*`.
fn variable(text: &str) -> Result<String, Refusal> {
    let refusal = |label: &str| {
        Err(Refusal { label: label.to_owned(), ..refuse(Kind::Variables, shown(text)) })
    };
    if text.contains('\0') {
        return refusal("a variable may not contain a NUL character");
    }
    let (name, is_assignment) = match text.split_once('=') {
        Some((name, _)) => (name, true),
        None => (text, false),
    };
    let fixed = match is_assignment {
        true => name,
        false => name.strip_suffix('*').or(name.strip_prefix('*')).unwrap_or(name),
    };
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "_-./:@".contains(c);
    match fixed {
        "" if is_assignment || name.is_empty() => refusal("the name of the variable is missing"),
        _ if fixed.starts_with('$') => refusal("the name of a variable is written without '$'"),
        _ if fixed.contains('*') => {
            refusal("only a name without a value may begin or end with '*'")
        }
        _ if !fixed.chars().all(is_valid) => refusal("this is no name of a variable"),
        _ => Ok(text.to_owned()),
    }
}

fn event(text: &str) -> Result<String, Refusal> {
    let refusal = |label: String| Refusal { label, ..refuse(Kind::Event, shown(text)) };
    let topic = Topic::check(text).map_err(|error| refusal(error.to_string()))?;
    if topic.class() == TopicClass::Reserved {
        return Err(refusal("only the harness writes this event".to_owned()));
    }
    Ok(text.to_owned())
}

fn time(kind: Kind, text: &str) -> Result<Value, Refusal> {
    let time = duration::parse(text)
        .map_err(|error| Refusal { label: error.to_string(), ..refuse(kind, shown(text)) })?;
    match kind {
        Kind::Millis { least } if time.as_millis() < least.into() => Err(refuse(kind, shown(text))),
        _ => Ok(Value::Time(time)),
    }
}

/// Dollars, with or without their sign.
fn cost(text: &str) -> Option<Dollars> {
    let amount: f64 = text.strip_prefix('$').unwrap_or(text).parse().ok()?;
    Some(amount).filter(|amount| *amount <= MOST_DOLLARS).and_then(Dollars::new)
}

const MOST_DOLLARS: f64 = 1e9;

/// A number of bytes, with or without a unit.
fn bytes(text: &str) -> Option<i64> {
    const UNITS: [(&str, i64); 9] = [
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("k", 1_000),
        ("b", 1),
        ("", 1),
    ];
    let text = text.to_ascii_lowercase();
    let (number, scale) =
        UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))?;
    number.trim_end().parse::<i64>().ok()?.checked_mul(scale)
}

fn in_range(kind: Kind, number: i64) -> Result<Value, Refusal> {
    let refused = || Err(refuse(kind, number.to_string()));
    match kind {
        Kind::Count { least, most } if !(least..=most).contains(&number) => refused(),
        Kind::Bytes if number < 1 => refused(),
        Kind::Millis { .. } | Kind::Time => match u64::try_from(number) {
            Ok(millis) => time(kind, &format!("{millis}ms"))
                .map_err(|refusal| Refusal { found: number.to_string(), ..refusal }),
            Err(_) => refused(),
        },
        _ => Ok(Value::Number(number)),
    }
}

fn refuse(kind: Kind, found: String) -> Refusal {
    Refusal { span: None, found, label: format!("expected {}", accepted(kind)), hint: None }
}

pub(crate) fn accepted(kind: Kind) -> String {
    let words = match kind {
        Kind::Text => "a text in quotes",
        Kind::NeededText => "a text that is not blank",
        Kind::File => "the path of a file, in quotes",
        Kind::NeededPath => "a path that is not blank",
        Kind::Event => "an event like \"task.complete\"",
        Kind::Events => {
            "a list of events: [\"review.passed\", \"tests.passed\"] or \"review.passed,tests.passed\""
        }
        Kind::List => "a list of texts: [\"--verbose\", \"a,b\"] or \"--verbose,a\"",
        Kind::Variables => "a list of variables: [\"MY_TOKEN\", \"MYAPP_*\", \"NAME=value\"]",
        Kind::Flag => "true or false",
        Kind::Count { least, most } => return format!("a whole number from {least} to {most}"),
        Kind::Limit => "a whole number; 0 or less is no limit",
        Kind::Millis { least: 0 } | Kind::Time => {
            "a duration like \"30s\", \"1m30s\", \"500ms\" or \"1.5h\", or a whole number of milliseconds"
        }
        Kind::Millis { least } => {
            return format!(
                "a whole number of milliseconds, at least {least}, or a duration like \"90s\" or \"1.5h\""
            );
        }
        Kind::Cost => "an amount of dollars like 5 or 2.50; 0 is no limit",
        Kind::Bytes => {
            "a whole number of bytes, at least 1, or a size like \"512KB\", \"64MB\" or \"2GiB\""
        }
        Kind::Choice(words) | Kind::MaybeChoice(words) => return one_of(words),
    };
    words.to_owned()
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

pub(crate) fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => shown(text),
        DeValue::Integer(number) if number.as_str().len() <= ENOUGH => number.to_string(),
        DeValue::Integer(_) => "a very long integer".to_owned(),
        DeValue::Float(_) => "a number with decimals".to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date or time".to_owned(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// The length up to which messages show a value.
const ENOUGH: usize = 40;

fn shown(text: &str) -> String {
    let start: String = text.chars().take(ENOUGH).flat_map(char::escape_debug).collect();
    let more = if text.chars().nth(ENOUGH).is_some() { "…" } else { "" };
    format!("\"{start}{more}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHOICE: Kind = Kind::Choice(&["arg", "stdin", "file"]);
    const COUNT: Kind = Kind::Count { least: 1, most: 100 };
    const MILLIS: Kind = Kind::Millis { least: 1 };

    /// As in a file.
    fn toml(kind: Kind, written: &str) -> Result<Value, Refusal> {
        let text = format!("x = {written}");
        let table = DeTable::parse(&text).unwrap();
        read(kind, table.get_ref().get("x").unwrap())
    }

    fn texts(texts: &[&str]) -> Value {
        Value::List(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn native_values_and_texts_mean_the_same() {
        let time = |millis| Value::Time(Duration::from_millis(millis));
        for (kind, written, value) in [
            (Kind::Flag, "true", Value::Flag(true)),
            (Kind::Flag, "'no'", Value::Flag(false)),
            (Kind::Flag, "1", Value::Flag(true)),
            (Kind::Flag, "0", Value::Flag(false)),
            (Kind::Flag, "' YES '", Value::Flag(true)),
            (COUNT, "7", Value::Number(7)),
            (COUNT, "'7'", Value::Number(7)),
            (COUNT, "0x10", Value::Number(16)),
            (Kind::Limit, "-5", Value::Number(-5)),
            (Kind::Limit, "'-5'", Value::Number(-5)),
            (MILLIS, "1_500", time(1_500)),
            (MILLIS, "'1500'", time(1_500)),
            (MILLIS, "'1.5s'", time(1_500)),
            (Kind::Time, "'0s'", time(0)),
            (Kind::Time, "0", time(0)),
            (Kind::Bytes, "1024", Value::Number(1024)),
            (Kind::Bytes, "'2 MiB'", Value::Number(2 << 20)),
            (Kind::Bytes, "'3kb'", Value::Number(3_000)),
            (Kind::Bytes, "'3K'", Value::Number(3_000)),
            (CHOICE, "' stdin '", Value::Text("stdin".into())),
            (Kind::MaybeChoice(&["pi"]), "''", Value::Unset),
            (Kind::Text, "' a '", Value::Text(" a ".into())),
            (Kind::Text, "'  '", Value::Unset),
            (Kind::List, "['a,b', '', ' c ']", texts(&["a,b", "", " c "])),
            (Kind::List, "'a, b ,,c'", texts(&["a", "b", "c"])),
            (Kind::List, "'[\"a,b\", \"c\"]'", texts(&["a,b", "c"])),
            (Kind::List, "[]", texts(&[])),
            (Kind::List, "''", Value::Unset),
            (Kind::Events, "'review.passed'", texts(&["review.passed"])),
            (Kind::Event, "'task.complete'", Value::Text("task.complete".into())),
        ] {
            assert_eq!(toml(kind, written), Ok(value), "{kind:?} {written}");
        }
    }

    fn refusal(kind: Kind, written: &str) -> String {
        let Refusal { found, label, hint, .. } = toml(kind, written).unwrap_err();
        let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{found}: {label}{hint}")
    }

    #[test]
    fn what_is_refused_is_told_what_to_write() {
        insta::assert_snapshot!(refusal(Kind::Flag, "'maybe'"), @r#""maybe": expected true or false"#);
        insta::assert_snapshot!(refusal(Kind::Flag, "2"), @"2: expected true or false");
        insta::assert_snapshot!(refusal(COUNT, "0"), @"0: expected a whole number from 1 to 100");
        insta::assert_snapshot!(refusal(COUNT, "-5"), @"-5: expected a whole number from 1 to 100");
        insta::assert_snapshot!(refusal(COUNT, "'many'"), @r#""many": expected a whole number from 1 to 100"#);
        insta::assert_snapshot!(refusal(COUNT, "2.5"), @"a number with decimals: expected a whole number from 1 to 100");
        insta::assert_snapshot!(refusal(COUNT, "99999999999999999999"), @"99999999999999999999: expected a whole number from 1 to 100");
        insta::assert_snapshot!(refusal(Kind::Limit, "'all'"), @r#""all": expected a whole number; 0 or less is no limit"#);
        insta::assert_snapshot!(refusal(MILLIS, "0"), @r#"0: expected a whole number of milliseconds, at least 1, or a duration like "90s" or "1.5h""#);
        insta::assert_snapshot!(refusal(MILLIS, "-1"), @r#"-1: expected a whole number of milliseconds, at least 1, or a duration like "90s" or "1.5h""#);
        insta::assert_snapshot!(refusal(MILLIS, "'soon'"), @r#""soon": 'soon' is not a duration; write one like 30s, 1m30s, 500ms or 1.5h"#);
        insta::assert_snapshot!(refusal(MILLIS, "3153600000001"), @"3153600000001: '3153600000001ms' is too long: the limit is a hundred years (36500d)");
        insta::assert_snapshot!(refusal(Kind::Time, "[]"), @r#"an array: expected a duration like "30s", "1m30s", "500ms" or "1.5h", or a whole number of milliseconds"#);
        insta::assert_snapshot!(refusal(Kind::Bytes, "'2 TB'"), @r#""2 TB": expected a whole number of bytes, at least 1, or a size like "512KB", "64MB" or "2GiB""#);
        insta::assert_snapshot!(refusal(Kind::Bytes, "0"), @r#"0: expected a whole number of bytes, at least 1, or a size like "512KB", "64MB" or "2GiB""#);
        insta::assert_snapshot!(refusal(CHOICE, "'studin'"), @r#""studin": expected "arg", "stdin" or "file" (write "stdin")"#);
        insta::assert_snapshot!(refusal(CHOICE, "''"), @r#""": expected "arg", "stdin" or "file""#);
        insta::assert_snapshot!(refusal(Kind::NeededText, "' '"), @r#"" ": expected a text that is not blank"#);
        insta::assert_snapshot!(refusal(Kind::NeededPath, "7"), @"7: expected a path that is not blank");
        insta::assert_snapshot!(refusal(Kind::Text, "2026-01-01"), @"a date or time: expected a text in quotes");
        insta::assert_snapshot!(refusal(Kind::File, "{}"), @"a table: expected the path of a file, in quotes");
        insta::assert_snapshot!(refusal(Kind::Text, r#""a\u0000b""#), @r#""a\0b": a text may not contain a NUL character"#);
        insta::assert_snapshot!(refusal(Kind::List, "['a', 5]"), @r#"a list with 5: expected a list of texts: ["--verbose", "a,b"] or "--verbose,a""#);
        insta::assert_snapshot!(refusal(Kind::List, "'[a'"), @r#""[a": expected a list of texts: ["--verbose", "a,b"] or "--verbose,a""#);
        insta::assert_snapshot!(refusal(Kind::List, "3"), @r#"3: expected a list of texts: ["--verbose", "a,b"] or "--verbose,a""#);
        insta::assert_snapshot!(refusal(Kind::Events, "['loop.start']"), @r#""loop.start": only the harness writes this event"#);
        insta::assert_snapshot!(refusal(Kind::Events, "true"), @r#"true: expected a list of events: ["review.passed", "tests.passed"] or "review.passed,tests.passed""#);
        insta::assert_snapshot!(refusal(Kind::Event, "'a b'"), @r#""a b": topic 'a b' contains whitespace (' '); a topic is a word like review.ready"#);
        insta::assert_snapshot!(refusal(Kind::Event, "7"), @r#"7: expected an event like "task.complete""#);
        insta::assert_snapshot!(refusal(Kind::Flag, &format!("'{}'", "x".repeat(99))), @r#""xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…": expected true or false"#);
    }

    #[test]
    fn the_element_that_is_wrong_is_the_one_that_is_meant() {
        let text = "x = ['a', 5]";
        let table = DeTable::parse(text).unwrap();
        let refusal = read(Kind::List, table.get_ref().get("x").unwrap()).unwrap_err();
        assert_eq!(&text[refusal.span.unwrap()], "5");
    }

    #[test]
    fn only_words_for_yes_enable_anything() {
        for (word, flag) in [("true", true), ("1", true), ("yes", true), ("on", true)]
            .into_iter()
            .chain([("false", false), ("0", false), ("no", false), ("off", false)])
        {
            assert_eq!(read_text(Kind::Flag, word), Ok(Value::Flag(flag)), "{word}");
        }
        for word in ["y", "n", "enabled", "2", "", "tru"] {
            assert!(read_text(Kind::Flag, word).is_err(), "{word}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered_in_one_visible_line(text in "\\PC{0,60}|[0-9a-zA-Z.\\[\\]\"', \u{0}\u{1b}\n-]{0,20}") {
            for key in super::super::key::Key::ALL {
                if let Err(refusal) = read_text(key.kind(), &text) {
                    for said in [&refusal.found, &refusal.label] {
                        prop_assert!(!said.contains(char::is_control), "{said:?}");
                    }
                }
            }
        }
    }
}
