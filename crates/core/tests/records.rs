//! What is written is read back by every reader, and a torn line is never read as more than it is.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use autoloop_core::record::{
    BadLine, Body, Escaper, Glance, Object, Record, Value, escape, parse, pieces, print,
    print_around,
};
use autoloop_testkit::records::{any_record, long_text, record, text};
use autoloop_testkit::{Dice, all_seeds_run, simulate};
use proptest::prelude::*;

fn line_of(record: &Record) -> Vec<u8> {
    let mut line = Vec::new();
    print(record, &mut line);
    line
}

/// The printed line without its newline, which is the only one.
fn body_of(record: &Record) -> Vec<u8> {
    let mut line = line_of(record);
    assert_eq!(line.pop(), Some(b'\n'));
    assert!(line.iter().all(|&byte| byte >= 0x20), "{}", String::from_utf8_lossy(&line));
    line
}

/// A lazy record and a parsed record are equal.
fn assert_alike(glance: &Glance<'_>, record: &Record) {
    assert_eq!(glance.run(), record.run);
    assert_eq!(glance.iteration(), record.iteration);
    assert_eq!(glance.topic(), record.topic.as_str());
    assert_eq!(glance.ts().as_deref(), record.ts.as_deref());
    match &record.body {
        Body::Agent { payload, source } => {
            assert_eq!(glance.payload().as_deref(), Some(payload.as_str()));
            assert_eq!(glance.source().as_deref(), Some(source.as_str()));
            assert_eq!(glance.field("output"), None);
        }
        Body::System(fields) => {
            assert_eq!((glance.payload(), glance.source()), (None, None));
            for (name, value) in fields {
                assert_eq!(glance.field(name).map(String::from), value.to_text(), "{name:?}");
            }
            assert_eq!(glance.field("no such field"), None);
        }
    }
}

/// For any line: when it parses, the lazy reader sees the same record. When the lazy reader sees
/// one, it parses after the errors that the lazy reader accepts were repaired. Returns whether it
/// parses.
fn assert_readers_agree(line: &[u8]) -> bool {
    let glance = Glance::read(line);
    match (parse(line), glance) {
        (Ok(record), Ok(glance)) => {
            assert_alike(&glance, &record);
            true
        }
        (Ok(_), Err(bad)) => panic!("{bad}: {}", String::from_utf8_lossy(line)),
        (Err(bad), Ok(glance)) => {
            let mended = mended(line);
            let record = parse(&mended)
                .unwrap_or_else(|_| panic!("{bad}, but seen: {}", String::from_utf8_lossy(line)));
            assert_alike(&glance, &record);
            false
        }
        (Err(_), Err(_)) => false,
    }
}

/// Repairs what the lazy reader accepts, and nothing else: bytes that are not UTF-8, and halves of
/// surrogate pairs.
fn mended(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let mut out = String::new();
    let mut rest = text.as_ref();
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        out.push_str(plain);
        let unit = |from: usize| {
            let digits = escape.get(from..from + 6)?.strip_prefix("\\u")?;
            let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
        };
        let taken = match (unit(0), unit(6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push('\u{fffd}');
                rest = &escape[6..];
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&escape[..taken]);
        rest = &escape[taken..];
    }
    out.push_str(rest);
    out.into_bytes()
}

fn assert_round_trip(record: &Record) {
    let line = body_of(record);
    let shown = || String::from_utf8_lossy(&line).into_owned();
    assert_eq!(parse(&line).as_ref(), Ok(record), "{}", shown());
    assert_alike(&Glance::read(&line).unwrap(), record);
    let found = pieces(&line);
    assert_eq!(found.len(), 1, "{}", shown());
    assert_eq!(found[0].bytes, line);

    let other: serde_json::Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(other["run"], record.run);
    assert_eq!(other["topic"], record.topic.as_str());
    match &record.body {
        Body::Agent { payload, .. } => assert_eq!(other["payload"], *payload),
        Body::System(fields) => {
            for (name, value) in fields {
                assert_eq!(other["fields"][name], foreign(value), "{}", shown());
            }
        }
    }
    for (name, value) in &record.extra {
        assert_eq!(other[name], foreign(value), "{}", shown());
    }
}

/// A value as serde_json represents it.
fn foreign(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Flag(flag) => (*flag).into(),
        Value::Number(number) => serde_json::from_str(number.as_str()).unwrap(),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(foreign).collect(),
        Value::Object(pairs) => {
            pairs.iter().map(|(key, value)| (key.clone(), foreign(value))).collect()
        }
    }
}

#[test]
fn any_record_round_trips_and_every_reader_reads_it() {
    simulate("record round trip", 200, |_, dice| {
        for _ in 0..100 {
            assert_round_trip(&record(dice));
        }
    });
}

#[test]
fn long_texts_round_trip() {
    simulate("long texts", 40, |_, dice| {
        let mut long = record(dice);
        match &mut long.body {
            Body::Agent { payload, .. } => *payload = long_text(dice),
            Body::System(fields) => {
                fields.retain(|(name, _)| name != "prompt");
                fields.push(("prompt".to_owned(), Value::Text(long_text(dice))));
            }
        }
        long.extra.retain(|(name, _)| name != "fields");
        assert_round_trip(&long);
    });
}

proptest! {
    #[test]
    fn round_trips_with_a_small_counterexample(record in any_record()) {
        assert_round_trip(&record);
    }

    #[test]
    fn any_bytes_can_be_looked_at(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        assert_readers_agree(&bytes);
        pieces(&bytes);
    }

    #[test]
    fn anything_where_a_value_should_be_can_be_looked_at(
        value in r#"([0-9.eE+-]{1,6}|true|null|[a-z]{1,5}|-?[0-9]{1,40}(\.[0-9]{0,3})?(e[0-9]{1,3})?|"(\\u[0-9a-gD]{0,4}|\\ud8[0-9]{2}|\\uDC[0-9]{2}|\\[a-z"/\\]|[\x00-\x21a-z])*"?)"#,
        is_field in any::<bool>(),
    ) {
        let line = match is_field {
            true => format!(r#"{{"run": "r", "iteration": "1", "topic": "t", "fields": {{"a": "b", "c": {value}}}}}"#),
            false => format!(r#"{{"run": "r", "iteration": "1", "topic": "t", "fields": {{}}, "v": {value}}}"#),
        };
        assert_readers_agree(line.as_bytes());
    }

    /// Whatever a JSON reader accepts as a number is kept as it is written, wherever it stands.
    #[test]
    fn a_number_of_any_size_is_kept(
        number in r"-?(0|[1-9][0-9]{0,3}|[1-9][0-9]{300,420})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,12})?",
        other in r"-?[1-9][0-9]{0,400}",
    ) {
        for rest in [
            format!(r#""fields": {{"a": {number}, "b": {other}}}"#),
            format!(r#""fields": {{"a": {number}, "b": [{other}, {{"c":{number}}}]}}"#),
            format!(r#""payload": "1e309", "source": "agent", "more": [{number}, {other}]"#),
            format!(r#""fields": {{"a": "1e5", "b": "\u0031"}}, "v": {number}"#),
        ] {
            let line = format!(r#"{{"run": "r", "iteration": "1", "topic": "t", {rest}}}"#);
            prop_assert!(assert_readers_agree(line.as_bytes()), "{line}");
            let record = parse(line.as_bytes()).unwrap();
            let printed = String::from_utf8(body_of(&record)).unwrap();
            prop_assert!(printed.contains(&number), "{printed}");
            prop_assert_eq!(parse(printed.as_bytes()), Ok(record));
        }
        let line = format!(r#"{{"run": "r", "iteration": {number}, "topic": "t", "fields": {{}}}}"#);
        prop_assert_eq!(&parse(line.as_bytes()).unwrap().iteration, &number);
        let keyed = format!(r#"{{"run": "r", "topic": "t", {number}: 1}}"#);
        prop_assert!(parse(keyed.as_bytes()).is_err());
    }

    #[test]
    fn anything_that_looks_like_json_can_be_looked_at(
        line in r#"\{("(run|topic|iteration|fields|payload|v|ts)": ?("[a-z\\"]{0,4}"|\{("[ab]": ?[0-9a-z\\"]{1,3},? ?){0,3}\}|[0-9.e-]{1,4}),? ?){0,5}\}"#
    ) {
        assert_readers_agree(line.as_bytes());
    }
}

/// Both shapes at once, the wrong types, nothing but the least: what parses is printed so that it
/// parses to the same.
#[test]
fn odd_records_are_kept_as_they_are() {
    for line in [
        r#"{"run": "r", "topic": "t"}"#,
        r#"{"run": "r", "topic": "t", "iteration": 7}"#,
        r#"{"run": "r", "topic": "t", "iteration": null}"#,
        r#"{"run": "r", "topic": "t", "fields": 3}"#,
        r#"{"run": "r", "topic": "t", "fields": null, "payload": "p"}"#,
        r#"{"run": "r", "topic": "t", "payload": "p"}"#,
        r#"{"run": "r", "topic": "t", "payload": "p", "source": 5}"#,
        r#"{"run": "r", "topic": "t", "payload": 5, "source": "s"}"#,
        r#"{"run": "r", "topic": "t", "fields": {"a": 1}, "payload": "p", "source": "s"}"#,
        r#"{"run": "r", "topic": "t", "fields": {}, "ts": 5, "v": "one"}"#,
        r#"{"run": "r", "topic": "t", "fields": {}, "v": -1}"#,
        r#"{"run": "r", "topic": "t", "fields": {"run": "x", "topic": "y"}}"#,
    ] {
        let record = parse(line.as_bytes()).unwrap();
        assert_round_trip(&record);
        assert!(assert_readers_agree(line.as_bytes()));
    }
}

/// Writes a record as a person or another program might.
struct Hand<'a> {
    dice: &'a mut Dice,
    out: String,
}

impl Hand<'_> {
    fn blank(&mut self) {
        let blanks = ["", "", " ", "  ", "\t"];
        self.out.push_str(blanks[self.dice.index(blanks.len())]);
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            match (character, self.dice.below(4)) {
                ('"' | '\\', 0 | 1) => {
                    self.out.push('\\');
                    self.out.push(character);
                }
                ('/', 0) => self.out.push_str("\\/"),
                ('\n', 0) => self.out.push_str("\\n"),
                ('\t', 0) => self.out.push_str("\\t"),
                ('\r', 0) => self.out.push_str("\\r"),
                ('\u{8}', 0) => self.out.push_str("\\b"),
                ('\u{c}', 0) => self.out.push_str("\\f"),
                ('\0'..'\u{20}' | '"' | '\\', _) | (_, 0) => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        match self.dice.below(2) {
                            0 => self.out.push_str(&format!("\\u{unit:04x}")),
                            _ => self.out.push_str(&format!("\\u{unit:04X}")),
                        }
                    }
                }
                _ => self.out.push(character),
            }
        }
        self.out.push('"');
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Text(text) => self.text(text),
            Value::List(items) => {
                self.out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.comma(index);
                    self.value(item);
                }
                self.out.push(']');
            }
            Value::Object(pairs) => self.object(pairs),
            Value::Number(number) => self.out.push_str(number.as_str()),
            plain => self.out.push_str(&foreign(plain).to_string()),
        }
    }

    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.blank();
            self.out.push(',');
        }
        self.blank();
    }

    fn object(&mut self, pairs: &[(String, Value)]) {
        self.out.push('{');
        for (index, (key, value)) in pairs.iter().enumerate() {
            self.comma(index);
            self.text(key);
            self.blank();
            self.out.push(':');
            self.blank();
            self.value(value);
        }
        self.blank();
        self.out.push('}');
    }
}

/// The pairs of a record, in any order.
fn shuffled_pairs(record: &Record, dice: &mut Dice) -> Object {
    let text = |text: &str| Value::Text(text.to_owned());
    let said = |name: &str| record.extra.iter().any(|(key, _)| key == name);
    let mut pairs: Object = record.extra.clone();
    pairs.push(("run".into(), text(&record.run)));
    pairs.push(("topic".into(), text(record.topic.as_str())));
    if !said("iteration") {
        pairs.push(("iteration".into(), text(&record.iteration)));
    }
    match &record.body {
        Body::System(fields) if !said("fields") => {
            pairs.push(("fields".into(), Value::Object(fields.clone())));
        }
        Body::System(_) => {}
        Body::Agent { payload, source } => {
            pairs.push(("payload".into(), text(payload)));
            if !said("source") {
                pairs.push(("source".into(), text(source)));
            }
        }
    }
    pairs.extend(record.ts.as_deref().map(|ts| ("ts".into(), text(ts))));
    pairs.extend(record.version.map(|version| ("v".into(), Value::Number(version.to_string()))));
    for index in (1..pairs.len()).rev() {
        pairs.swap(index, dice.index(index + 1));
    }
    pairs
}

fn hand_written(record: &Record, dice: &mut Dice) -> Vec<u8> {
    let pairs = shuffled_pairs(record, dice);
    let mut hand = Hand { dice, out: String::new() };
    hand.object(&pairs);
    hand.out.into_bytes()
}

/// The fast reader returns the same as the full parser, for lines of any writer.
#[test]
fn a_glance_sees_what_the_parser_sees_in_lines_of_other_writers() {
    simulate("other writers", 300, |_, dice| {
        for _ in 0..70 {
            let record = record(dice);
            let by_hand = hand_written(&record, dice);
            assert!(assert_readers_agree(&by_hand), "{}", String::from_utf8_lossy(&by_hand));
            assert_alike(&Glance::read(&by_hand).unwrap(), &record);
            // It writes numbers in its own way, and so is another record.
            let compact = serde_json::from_slice::<serde_json::Value>(&body_of(&record)).unwrap();
            let compact = compact.to_string();
            assert!(assert_readers_agree(compact.as_bytes()), "{compact}");
        }
    });
}

/// Damages one or two bytes of a good line. What still parses is equal for both readers.
#[test]
fn a_glance_sees_what_the_parser_sees_in_damaged_lines() {
    let mut parsed = 0u32;
    simulate("damaged lines", 150, |_, dice| {
        for _ in 0..20 {
            let record = record(dice);
            let line = match dice.below(3) {
                0 => hand_written(&record, dice),
                _ => body_of(&record),
            };
            for _ in 0..30 {
                let mut damaged = line.clone();
                for _ in 0..=dice.below(2) {
                    damage(&mut damaged, dice);
                }
                parsed += u32::from(assert_readers_agree(&damaged));
                if dice.chance(1, 8) {
                    pieces(&damaged);
                }
            }
        }
    });
    assert!(parsed > 5000 || !all_seeds_run(), "only {parsed} damaged lines still parsed");
}

fn damage(line: &mut Vec<u8>, dice: &mut Dice) {
    const LIKELY: &[u8] = b"\"\\{}[]:,0189.eEn tu-/\0\x01\t\x1f\x7fx+\xc3\xa4\xff";
    let at = dice.index(line.len());
    match dice.below(6) {
        0 => line[at] = *dice.pick(LIKELY),
        1 => line.insert(at, *dice.pick(LIKELY)),
        2 => drop(line.remove(at)),
        3 => line[at] = any_byte(dice),
        4 => line.insert(at, any_byte(dice)),
        _ => {
            let to = dice.index(line.len());
            line.swap(at, to);
        }
    }
}

fn any_byte(dice: &mut Dice) -> u8 {
    u8::try_from(dice.below(256)).unwrap()
}

#[test]
fn filling_the_hole_gives_the_whole_record() {
    simulate("holes", 4000, |_, dice| {
        let mut whole = record(dice);
        let more = text(dice);
        let (before, after) = print_around(&whole);
        let target = match &mut whole.body {
            Body::Agent { payload, .. } => Some(payload),
            Body::System(fields) => fields.iter_mut().find_map(|(name, value)| match value {
                Value::Text(text) if name == "output" => Some(text),
                _ => None,
            }),
        };
        let Some(target) = target else {
            assert_eq!(before, line_of(&whole));
            assert!(after.is_empty());
            return;
        };
        target.push_str(&more);
        let mut filled = before;
        let mut escaper = Escaper::default();
        for byte in more.as_bytes() {
            escaper.push(&[*byte], &mut filled);
        }
        escaper.finish(&mut filled);
        filled.extend_from_slice(&after);
        assert_eq!(filled, line_of(&whole));
    });
}

/// The records that are found in a line, as the parser knows them.
fn found(line: &[u8]) -> Vec<Record> {
    pieces(line)
        .iter()
        .filter(|piece| piece.content.is_ok())
        .map(|piece| {
            assert_eq!(&line[piece.at..piece.at + piece.bytes.len()], piece.bytes);
            parse(piece.bytes).expect("what was found is a record to the letter")
        })
        .collect()
}

/// Recovery finds every whole record and invents none.
#[test]
fn a_record_behind_any_fragment_is_found_and_none_is_invented() {
    simulate("salvage", 250, |_, dice| {
        let (torn, next) = (record(dice), record(dice));
        let (torn_line, next_line) = (body_of(&torn), body_of(&next));
        let step = 1 + torn_line.len() / 150;
        for cut in (1..torn_line.len()).step_by(step) {
            let fragment = &torn_line[..cut];
            assert_eq!(found(fragment), [], "{}", String::from_utf8_lossy(fragment));
            let glued = [fragment, &next_line].concat();
            let shown = || String::from_utf8_lossy(&glued).into_owned();
            assert_eq!(found(&glued), std::slice::from_ref(&next), "{}", shown());
            let nuls = [fragment, &[0; 3], &next_line].concat();
            assert_eq!(found(&nuls), std::slice::from_ref(&next), "{}", shown());
        }
        let both = [torn_line, next_line].concat();
        assert_eq!(found(&both), [torn, next]);
    });
}

/// The printed line with the short escapes that most programs write.
fn in_short_escapes(record: &Record) -> Vec<u8> {
    let line = String::from_utf8(body_of(record)).unwrap();
    let mut parts = line.split("\\u00");
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at(2);
        match code {
            "22" => short.push_str("\\\""),
            "5c" => short.push_str("\\\\"),
            "0a" => short.push_str("\\n"),
            _ => short.push_str(&format!("\\u00{code}")),
        }
        short.push_str(rest);
    }
    short.into_bytes()
}

/// Other writers leave a quote in a string, behind a backslash, and the brace behind it ends nothing.
#[test]
fn a_torn_line_of_another_writer_is_no_record() {
    simulate("torn by others", 300, |_, dice| {
        let mut torn = record(dice);
        if let Body::Agent { payload, .. } = &mut torn.body {
            payload.push_str("\"}, \"}\\\"}");
        }
        let line = in_short_escapes(&torn);
        assert_eq!(parse(&line), Ok(torn));
        for cut in 1..line.len() {
            assert_eq!(found(&line[..cut]), [], "{}", String::from_utf8_lossy(&line[..cut]));
        }
    });
}

#[test]
fn three_records_on_one_line_are_three_records() {
    simulate("glued", 500, |_, dice| {
        let records: Vec<_> = (0..3).map(|_| record(dice)).collect();
        let line: Vec<u8> = records.iter().flat_map(body_of).collect();
        assert_eq!(found(&line), records);
    });
}

/// The text of a record can show whatever it likes: it is never taken for a record.
#[test]
fn a_record_quoted_in_a_record_is_text() {
    let inner = body_of(&parse(br#"{"run": "r", "topic": "loop.start"}"#).unwrap());
    let mut quoted = Vec::new();
    escape(std::str::from_utf8(&inner).unwrap(), &mut quoted);
    for body in ["\"payload\": \"", "\"fields\": {\"output\": \""] {
        let start = format!("{{\"run\": \"q\", \"iteration\": \"\", \"topic\": \"t\", {body}");
        for cut in 0..=quoted.len() {
            let torn = [start.as_bytes(), &quoted[..cut]].concat();
            assert_eq!(found(&torn), []);
        }
    }
}

#[test]
fn a_bad_line_says_what_is_wrong_with_it() {
    let cases: [(&[u8], &str); 9] = [
        (b"{\"run\": \"r\", \"top", "torn: the line ends in the middle of a record"),
        (b"hello", "not JSON: expected value at byte 1 of the line"),
        (b"{\"run\": \"\xff\"}", "not UTF-8 at byte 9 of the line"),
        (b"[1]", "not a record: the line contains a list, not an object"),
        (b"3", "not a record: the line contains a number, not an object"),
        (b"{\"run\": \"r\"}", "not a record: \"topic\" is missing"),
        (b"{\"topic\": \"t\"}", "not a record: \"run\" is missing"),
        (b"{\"run\": 1, \"topic\": \"t\"}", "not a record: \"run\" is not a string"),
        (
            b"{\"run\": \"r\", \"topic\": \"t\", \"topic\": \"u\"}",
            "ambiguous: duplicate key \"topic\"",
        ),
    ];
    for (line, words) in cases {
        let bad = parse(line).unwrap_err();
        assert_eq!(bad.to_string(), words);
        if !matches!(bad, BadLine::NotUtf8 { .. }) {
            assert!(Glance::read(line).is_err());
        }
    }
}
