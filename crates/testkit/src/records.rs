//! Generated records, for tests of readers and writers.
//!
//! [`record`] is fast enough for hundreds of thousands; [`any_record`] is for properties that need
//! a small counterexample. Both return only records that a line can express: no duplicate keys, and
//! a known key among the `extra` ones only with a value of the wrong type.

use autoloop_core::record::{Body, Object, Record, Value};
use autoloop_core::topic::Topic;
use proptest::prelude::*;

use crate::seed::Dice;

/// Texts that have broken a writer or a reader of JSON lines before.
pub const NASTY: &[&str] = &[
    "",
    " ",
    "\"",
    "\\",
    "\\\"",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "\u{1b}[31m",
    "\u{7f}",
    "\u{feff}",
    "\u{2028}",
    "\u{fffd}",
    "\u{10ffff}",
    "{\"run\": \"",
    "\"}\n{\"run\": \"x\", \"iteration\": \"1\", \"topic\": \"loop.start\", \"fields\": {}}\n",
    "\\u0022",
    "\\ud83e",
    "\", \"topic\": \"",
    "}}}]]",
    "null",
    "-0",
    "🦀 é 漢字",
];

/// Topics of all classes, and some that no version knows.
pub const TOPICS: &[&str] = &[
    "loop.start",
    "iteration.start",
    "iteration.finish",
    "backend.finish",
    "event.invalid",
    "loop.stop",
    "loop.complete",
    "wave.start",
    "journal.repaired",
    "issue.discovered",
    "chain.spawn",
    "slice.verified",
    "review.ready",
    "tasks.ready",
    "x.parallel.joined",
    "run",
    "",
    "never.heard \"of\" \\ it\n",
];

const KEYS: &[&str] =
    &["run", "topic", "fields", "output", "exit_code", "elapsed_s", "mood", "a b", "ä", "\"", "v2"];

/// Numbers as JSON writes them, the awkward ones first.
const NUMBERS: &[&str] = &[
    "0",
    "-0.0",
    "1",
    "-1",
    "1.5",
    "1e300",
    "-2.5e-300",
    "0.1",
    "9007199254740993",
    "18446744073709551615",
    "-9223372036854775808",
    "1e21",
    "123456789.125",
];

/// Any text.
pub fn text(dice: &mut Dice) -> String {
    let mut text = String::new();
    for _ in 0..dice.below(4) {
        match dice.below(5) {
            0 => text.push_str(word(dice, NASTY)),
            1 => text.extend((0..dice.below(6)).filter_map(|_| any_char(dice))),
            _ => text.push_str(word(dice, &["word", " ", "id=1; ", "ok", "ü"])),
        }
    }
    text
}

/// A text of a few thousand bytes or, now and then, of several hundred thousand.
pub fn long_text(dice: &mut Dice) -> String {
    let unit = format!("{}x", text(dice));
    let most = if dice.chance(1, 20) { 300_000 } else { 3000 };
    unit.repeat(1 + dice.index(most) / unit.len())
}

fn word(dice: &mut Dice, words: &[&'static str]) -> &'static str {
    words[dice.index(words.len())]
}

fn any_char(dice: &mut Dice) -> Option<char> {
    let limit = *dice.pick(&[0x20, 0x80, 0x800, 0x11_0000]);
    char::from_u32(u32::try_from(dice.below(limit)).ok()?)
}

/// Any value, nested at most so deep.
pub fn value(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => Value::Flag(dice.chance(1, 2)),
        2 => Value::Number(dice.number().to_string()),
        3 => number(word(dice, NUMBERS)),
        4 | 5 => Value::Text(text(dice)),
        6 => Value::List((0..dice.below(3)).map(|_| value(dice, depth - 1)).collect()),
        _ => Value::Object(object(dice, depth - 1)),
    }
}

fn number(text: &str) -> Value {
    Value::Number(text.to_owned())
}

/// Any object, nested at most so deep.
pub fn object(dice: &mut Dice, depth: usize) -> Object {
    let mut pairs = Object::new();
    let most = if dice.chance(1, 20) { 40 } else { 5 };
    for _ in 0..dice.below(most) {
        let key = if dice.chance(2, 3) { word(dice, KEYS).to_owned() } else { text(dice) };
        add(&mut pairs, &key, value(dice, depth));
    }
    pairs
}

/// Any record.
pub fn record(dice: &mut Dice) -> Record {
    let body = match dice.below(2) {
        0 => Body::System(fields(dice)),
        _ => Body::Agent {
            payload: text(dice),
            source: word(dice, &["agent", "agent", "harness", "", "\"me\""]).to_owned(),
        },
    };
    let mut record = Record {
        run: if dice.chance(1, 2) { "swift-agent".to_owned() } else { text(dice) },
        iteration: word(dice, &["", "1", "3", "12", "x"]).to_owned(),
        topic: Topic::new(if dice.chance(3, 4) {
            word(dice, TOPICS).to_owned()
        } else {
            text(dice)
        }),
        body,
        ts: dice.chance(2, 3).then(|| "2026-11-15T21:12:06.031Z".to_owned()),
        version: dice.chance(2, 3).then_some(1),
        seal: dice.chance(1, 3).then(|| text(dice)),
        extra: Object::new(),
    };
    if dice.chance(1, 3) {
        add_extra(&mut record, dice);
    }
    record
}

fn fields(dice: &mut Dice) -> Object {
    let mut fields = object(dice, 2);
    if dice.chance(1, 2) {
        add(&mut fields, "output", Value::Text(text(dice)));
        add(&mut fields, "exit_code", Value::Text(dice.below(3).to_string()));
    }
    fields
}

/// Unknown keys, and known ones with values of the wrong type.
fn add_extra(record: &mut Record, dice: &mut Dice) {
    for (key, value) in object(dice, 2) {
        if !KNOWN.contains(&key.as_str()) {
            record.extra.push((key, value));
        }
    }
    for key in misused(record) {
        if dice.chance(1, 4) {
            record.extra.push((key.to_owned(), Value::List(vec![value(dice, 0)])));
        }
    }
    // A record of the harness may have both shapes at once; the parser puts these after the rest.
    if let Body::System(fields) = &record.body
        && !fields.is_empty()
    {
        for key in ["payload", "source"] {
            if dice.chance(1, 8) {
                add(&mut record.extra, key, Value::Text(text(dice)));
            }
        }
    }
}

const KNOWN: [&str; 9] =
    ["run", "iteration", "topic", "fields", "payload", "source", "ts", "v", "seal"];

/// The known keys that can be among the extra ones, because the record does not have them itself.
fn misused(record: &Record) -> Vec<&'static str> {
    let mut keys = Vec::new();
    if record.iteration.is_empty() {
        keys.push("iteration");
    }
    match &record.body {
        Body::System(fields) if fields.is_empty() => keys.extend(["fields", "payload"]),
        Body::System(_) => keys.push("payload"),
        Body::Agent { source, .. } if source.is_empty() => keys.push("source"),
        Body::Agent { .. } => keys.push("fields"),
    }
    if record.ts.is_none() {
        keys.push("ts");
    }
    if record.version.is_none() {
        keys.push("v");
    }
    if record.seal.is_none() {
        keys.push("seal");
    }
    keys
}

fn add(object: &mut Object, key: &str, value: Value) {
    if object.iter().all(|(other, _)| other != key) {
        object.push((key.to_owned(), value));
    }
}

/// Any text, for properties.
pub fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        prop::sample::select(NASTY).prop_map(str::to_owned),
        "[a-z ]{0,12}",
    ]
}

/// Any value, for properties.
pub fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Flag),
        any::<i64>().prop_map(|number| Value::Number(number.to_string())),
        prop::sample::select(NUMBERS).prop_map(number),
        any_text().prop_map(Value::Text),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::List),
            any_object_of(inner).prop_map(Value::Object),
        ]
    })
}

fn any_object_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Object> {
    let key = prop_oneof![prop::sample::select(KEYS).prop_map(str::to_owned), any_text()];
    prop::collection::vec((key, value), 0..4).prop_map(|pairs| {
        let mut object = Object::new();
        for (key, value) in pairs {
            add(&mut object, &key, value);
        }
        object
    })
}

/// Any record, for properties.
pub fn any_record() -> impl Strategy<Value = Record> {
    let body = prop_oneof![
        any_object_of(any_value()).prop_map(Body::System),
        (any_text(), any_text()).prop_map(|(payload, source)| Body::Agent { payload, source }),
    ];
    let topic = prop_oneof![prop::sample::select(TOPICS).prop_map(str::to_owned), any_text()];
    let ts = prop::option::of(any_text());
    let version = prop::option::of(any::<u64>());
    let seal = prop::option::of(any_text());
    let heading = (any_text(), any_text(), topic);
    (heading, body, ts, (version, seal), any_object_of(any_value())).prop_map(
        |((run, iteration, topic), body, ts, (version, seal), mut extra)| {
            extra.retain(|(key, _)| !KNOWN.contains(&key.as_str()));
            let topic = Topic::new(topic);
            Record { run, iteration, topic, body, ts, version, seal, extra }
        },
    )
}
