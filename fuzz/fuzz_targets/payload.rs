//! The `key=value;` codec: any text can be read, reading is stable, and what is written is read
//! back.
#![no_main]

use autoloop_core::payload::Payload;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    reading_settles(text);
    no_word_is_lost(text);
    what_is_written_is_read(text);
});

fn reading_settles(text: &str) {
    let once = Payload::parse(text);
    let printed = once.to_string();
    let twice = Payload::parse(&printed);
    assert_eq!(twice, once, "printed as {printed:?}");
    assert_eq!(twice.to_string(), printed);
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
    let written = values.iter().enumerate().fold(Payload::new(), |payload, (index, value)| {
        payload.with(&format!("k{index}"), *value).expect("a letter and digits are a key")
    });
    let read = Payload::parse(&written.to_string());
    assert_eq!(read, written);
    assert_eq!(read.pairs().map(|(_, value)| value).collect::<Vec<_>>(), values);
}
