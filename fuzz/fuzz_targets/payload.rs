//! The pairs `key=value;`: any text can be read, no word of it is lost, and what is written to the rule is
//! read back.
#![no_main]

use autoloop_core::payload::Payload;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    the_first_value_counts(text);
    no_word_is_lost(text);
    what_is_written_is_read(text);
});

fn the_first_value_counts(text: &str) {
    let once = Payload::parse(text);
    for (key, value) in once.pairs() {
        let first = once.pairs().find(|(name, _)| *name == key);
        assert_eq!(once.get(key), first.map(|(_, value)| value), "{key}={value}");
    }
}

fn no_word_is_lost(text: &str) {
    let read = Payload::parse(text);
    let kept: String = read
        .text()
        .into_iter()
        .map(str::to_owned)
        .chain(read.pairs().map(|(key, value)| format!("{key}{value}")))
        .collect();
    assert_eq!(words(&kept), words(text));
}

/// The text without the characters that the codec may add or remove.
fn words(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !matches!(c, ';' | '\\' | '=')).collect()
}

/// The text, cut into values at its NULs.
fn what_is_written_is_read(text: &str) {
    let values: Vec<&str> = text.split('\0').collect();
    let escaped = |value: &str| value.replace('\\', r"\\").replace(';', r"\;");
    let pair = |(index, value): (usize, &&str)| format!("k{index}={};", escaped(value));
    let read = Payload::parse(&values.iter().enumerate().map(pair).collect::<String>());
    assert_eq!(read.text(), None);
    assert_eq!(read.pairs().map(|(_, value)| value).collect::<Vec<_>>(), values);
}
