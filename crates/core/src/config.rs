//! The settings of `autoloops.toml`, as far as they are known here.
//!
//! Tables and dotted keys mean the same. Keys that are not known here are left to those who know them.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::duration::{self, BadDuration};
use crate::run_id::RunIdFormat;

/// The most bytes of a settings file that are read.
pub const LONGEST: usize = 1024 * 1024;

/// The settings, with every default filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `core.run_id_format`: how the ids of new runs are chosen.
    pub run_id_format: RunIdFormat,
    /// `journal.*`: how the journal is written.
    pub journal: JournalConfig,
}

/// How the journal is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// `journal.sync`: when records are forced to the disk.
    pub sync: SyncPolicy,
    /// `journal.lock_timeout`: how long to wait for another writer; zero means to try once.
    pub lock_timeout: Duration,
}

impl Default for JournalConfig {
    fn default() -> Self {
        JournalConfig { sync: SyncPolicy::Always, lock_timeout: Duration::from_secs(30) }
    }
}

/// When the records of the journal are forced to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SyncPolicy {
    /// After every append, before it is acknowledged.
    #[default]
    Always,
    /// After every append of the harness. What agents emit is forced to the disk with the next of
    /// those, so a loss of power may cost the events of the iteration under way.
    Iteration,
    /// Whenever the system does it: for tests and throw-away runs.
    Never,
}

impl SyncPolicy {
    /// The word for it in settings.
    pub fn name(self) -> &'static str {
        match self {
            SyncPolicy::Always => "always",
            SyncPolicy::Iteration => "iteration",
            SyncPolicy::Never => "never",
        }
    }
}

impl fmt::Display for SyncPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where in a text something is, counted in lines and characters from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why the settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// More bytes than [`LONGEST`].
    #[error("the settings are {bytes} bytes long; {LONGEST} bytes (1 MiB) are the most")]
    TooLong {
        /// How many there are.
        bytes: usize,
    },
    /// The text is not TOML.
    #[error("{at}: this is not TOML: {problem}")]
    Syntax {
        /// Where reading stopped.
        at: Place,
        /// What the reader of TOML says.
        problem: String,
    },
    /// A table is something else.
    #[error("{at}: {table} is {found}; accepted is a table: [{table}]")]
    NotATable {
        /// Where the value stands.
        at: Place,
        /// The name of the table.
        table: &'static str,
        /// What stands there instead.
        found: String,
    },
    /// A value is none of those that are accepted.
    #[error("{at}: {key} is {found}; accepted is {accepted}")]
    Value {
        /// Where the value stands.
        at: Place,
        /// The key that it belongs to.
        key: &'static str,
        /// What stands there.
        found: String,
        /// What may stand there.
        accepted: &'static str,
    },
    /// A text that should be a duration is none.
    #[error("{at}: {key}: {problem}")]
    Duration {
        /// Where the value stands.
        at: Place,
        /// The key that it belongs to.
        key: &'static str,
        /// What is wrong with the text.
        problem: BadDuration,
    },
}

impl Config {
    /// Reads the text of a settings file.
    ///
    /// # Errors
    ///
    /// When the text is longer than [`LONGEST`], not TOML, or a key known here has a value that is
    /// not accepted.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        if text.len() > LONGEST {
            return Err(ConfigError::TooLong { bytes: text.len() });
        }
        let root = DeTable::parse(text).map_err(|error| syntax(text, &error))?;
        let document = Document { text, root: root.into_inner() };
        let default = JournalConfig::default();
        Ok(Config {
            run_id_format: document
                .choice(&RUN_ID_FORMAT, |word| word.parse().ok())?
                .unwrap_or_default(),
            journal: JournalConfig {
                sync: document.choice(&SYNC, sync_policy)?.unwrap_or(default.sync),
                lock_timeout: document.duration(&LOCK_TIMEOUT)?.unwrap_or(default.lock_timeout),
            },
        })
    }
}

/// A setting: where it stands and what it may be.
struct Setting {
    table: &'static str,
    name: &'static str,
    key: &'static str,
    accepted: &'static str,
}

const RUN_ID_FORMAT: Setting = Setting {
    table: "core",
    name: "run_id_format",
    key: "core.run_id_format",
    accepted: r#""human", "compact" or "counter""#,
};

const SYNC: Setting = Setting {
    table: "journal",
    name: "sync",
    key: "journal.sync",
    accepted: r#""always", "iteration" or "never""#,
};

const LOCK_TIMEOUT: Setting = Setting {
    table: "journal",
    name: "lock_timeout",
    key: "journal.lock_timeout",
    accepted: r#"a duration like "30s", "1m30s", "500ms" or "1.5h", or a whole number of milliseconds"#,
};

fn sync_policy(word: &str) -> Option<SyncPolicy> {
    [SyncPolicy::Always, SyncPolicy::Iteration, SyncPolicy::Never]
        .into_iter()
        .find(|policy| policy.name() == word)
}

/// A parsed file together with its text, which knows the places.
struct Document<'t> {
    text: &'t str,
    root: DeTable<'t>,
}

impl<'t> Document<'t> {
    /// The value of a setting, if the file has it.
    fn find(&self, setting: &Setting) -> Result<Option<&Spanned<DeValue<'t>>>, ConfigError> {
        let Some(table) = self.root.get(setting.table) else { return Ok(None) };
        match table.get_ref() {
            DeValue::Table(entries) => Ok(entries.get(setting.name)),
            other => Err(ConfigError::NotATable {
                at: place(self.text, table.span()),
                table: setting.table,
                found: found(other),
            }),
        }
    }

    /// A setting that is one word out of a few.
    fn choice<T>(
        &self,
        setting: &Setting,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.find(setting)? else { return Ok(None) };
        match value.get_ref().as_str().and_then(read) {
            Some(choice) => Ok(Some(choice)),
            None => Err(self.refuse(setting, value)),
        }
    }

    /// A setting that is a duration: text with units, or an integer of milliseconds.
    fn duration(&self, setting: &Setting) -> Result<Option<Duration>, ConfigError> {
        let Some(value) = self.find(setting)? else { return Ok(None) };
        let read = match value.get_ref() {
            DeValue::String(text) => duration::parse(text),
            DeValue::Integer(number) => {
                match u64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(millis) => duration::parse(&format!("{millis}ms")),
                    Err(_) => return Err(self.refuse(setting, value)),
                }
            }
            _ => return Err(self.refuse(setting, value)),
        };
        let at = place(self.text, value.span());
        read.map(Some).map_err(|problem| ConfigError::Duration { at, key: setting.key, problem })
    }

    fn refuse(&self, setting: &Setting, value: &Spanned<DeValue<'_>>) -> ConfigError {
        ConfigError::Value {
            at: place(self.text, value.span()),
            key: setting.key,
            found: found(value.get_ref()),
            accepted: setting.accepted,
        }
    }
}

/// A value as a message may show it.
fn found(value: &DeValue<'_>) -> String {
    const ENOUGH: usize = 40;
    match value {
        DeValue::String(text) => {
            let start: String = text.chars().take(ENOUGH).flat_map(char::escape_debug).collect();
            let more = if text.chars().nth(ENOUGH).is_some() { "…" } else { "" };
            format!("\"{start}{more}\"")
        }
        DeValue::Integer(number) if number.as_str().len() <= ENOUGH => number.to_string(),
        DeValue::Integer(_) => "a very long integer".to_owned(),
        DeValue::Float(_) => "a number with decimals".to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date or time".to_owned(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn syntax(text: &str, error: &toml::de::Error) -> ConfigError {
    // The reader writes one thought a line, and may quote what it stumbled over.
    let lines: Vec<_> = error.message().lines().collect();
    let problem = lines.join("; ").chars().map(visible).collect();
    ConfigError::Syntax { at: place(text, error.span().unwrap_or_default()), problem }
}

/// The character, or its escape if a terminal would obey it.
fn visible(character: char) -> String {
    match character {
        '\'' | '"' | '\\' => character.to_string(),
        _ => character.escape_debug().to_string(),
    }
}

fn place(text: &str, span: Range<usize>) -> Place {
    let before = &text.as_bytes()[..span.start.min(text.len())];
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
    // A character is counted by its first byte.
    let is_first = |byte: &&u8| **byte & 0b1100_0000 != 0b1000_0000;
    Place {
        line: memchr::memchr_iter(b'\n', before).count() + 1,
        column: before[line_start..].iter().filter(is_first).count() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(text: &str) -> String {
        Config::parse(text).unwrap_err().to_string()
    }

    fn parse(text: &str) -> (RunIdFormat, SyncPolicy, u128) {
        let config = Config::parse(text).unwrap();
        (config.run_id_format, config.journal.sync, config.journal.lock_timeout.as_millis())
    }

    #[test]
    fn reads_settings() {
        use {RunIdFormat as F, SyncPolicy as S};
        for (text, expected) in [
            ("", (F::Human, S::Always, 30_000)),
            ("# nothing\n[journal]\n[core]", (F::Human, S::Always, 30_000)),
            ("journal.sync = \"always\"", (F::Human, S::Always, 30_000)),
            ("journal.sync = \"iteration\"", (F::Human, S::Iteration, 30_000)),
            ("[journal]\nsync = \"never\"\nlock_timeout = \"1m30s\"", (F::Human, S::Never, 90_000)),
            ("journal = { sync = 'never', lock_timeout = 500 }", (F::Human, S::Never, 500)),
            ("journal.lock_timeout = \"1.5h\"", (F::Human, S::Always, 5_400_000)),
            ("journal.lock_timeout = 0x1_0", (F::Human, S::Always, 16)),
            ("journal.lock_timeout = 1_000", (F::Human, S::Always, 1_000)),
            ("journal.lock_timeout = 0", (F::Human, S::Always, 0)),
            ("core.run_id_format = \"compact\"", (F::Compact, S::Always, 30_000)),
            ("[core]\r\nrun_id_format = \"counter\"\r\n", (F::Counter, S::Always, 30_000)),
            (
                "sync = 3\n[journal]\nother = 1\n[backend]\ncommand = 'x'",
                (F::Human, S::Always, 30_000),
            ),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        assert_eq!(Config::parse(""), Ok(Config::default()));
        assert_eq!(Config::default().journal.lock_timeout, Duration::from_secs(30));
        assert_eq!(Config::default().journal.sync, SyncPolicy::default());
    }

    #[test]
    fn says_which_value_is_wrong() {
        insta::assert_snapshot!(message("[journal]\nsync = \"sometimes\""), @r#"line 2, column 8: journal.sync is "sometimes"; accepted is "always", "iteration" or "never""#);
        insta::assert_snapshot!(message("journal.sync = \"Always\\u001b\""), @r#"line 1, column 16: journal.sync is "Always\u{1b}"; accepted is "always", "iteration" or "never""#);
        insta::assert_snapshot!(message("'é'.x = 'é'\njournal.sync = true"), @r#"line 2, column 16: journal.sync is true; accepted is "always", "iteration" or "never""#);
        insta::assert_snapshot!(message("journal = { 'sync' = 'é', lock_timeout = 1.5 }"), @r#"line 1, column 22: journal.sync is "é"; accepted is "always", "iteration" or "never""#);
        insta::assert_snapshot!(message("journal = { a = 'éé', lock_timeout = 1.5 }"), @r#"line 1, column 38: journal.lock_timeout is a number with decimals; accepted is a duration like "30s", "1m30s", "500ms" or "1.5h", or a whole number of milliseconds"#);
        insta::assert_snapshot!(message("journal.lock_timeout = -1"), @r#"line 1, column 24: journal.lock_timeout is -1; accepted is a duration like "30s", "1m30s", "500ms" or "1.5h", or a whole number of milliseconds"#);
        insta::assert_snapshot!(message("journal.lock_timeout = 3153600000001"), @"line 1, column 24: journal.lock_timeout: '3153600000001ms' is too long; a hundred years (36500d) is the most");
        insta::assert_snapshot!(message("journal.lock_timeout = []"), @r#"line 1, column 24: journal.lock_timeout is an array; accepted is a duration like "30s", "1m30s", "500ms" or "1.5h", or a whole number of milliseconds"#);
        insta::assert_snapshot!(message("journal.lock_timeout = 2026-01-01"), @r#"line 1, column 24: journal.lock_timeout is a date or time; accepted is a duration like "30s", "1m30s", "500ms" or "1.5h", or a whole number of milliseconds"#);
        insta::assert_snapshot!(message("[journal.lock_timeout]"), @r#"line 1, column 1: journal.lock_timeout is a table; accepted is a duration like "30s", "1m30s", "500ms" or "1.5h", or a whole number of milliseconds"#);
        insta::assert_snapshot!(message("journal.lock_timeout = 'soon'"), @"line 1, column 24: journal.lock_timeout: 'soon' is not a duration; write one like 30s, 1m30s, 500ms or 1.5h");
        insta::assert_snapshot!(message("journal.lock_timeout = '500'"), @"line 1, column 24: journal.lock_timeout: '500' has no unit; write 500s for seconds or 500ms for milliseconds");
        insta::assert_snapshot!(message("core.run_id_format = 'uuid'"), @r#"line 1, column 22: core.run_id_format is "uuid"; accepted is "human", "compact" or "counter""#);
        insta::assert_snapshot!(message("core.run_id_format = 7"), @r#"line 1, column 22: core.run_id_format is 7; accepted is "human", "compact" or "counter""#);
    }

    #[test]
    fn says_which_table_is_none() {
        insta::assert_snapshot!(message("journal = 'fast'"), @r#"line 1, column 11: journal is "fast"; accepted is a table: [journal]"#);
        insta::assert_snapshot!(message("\n\n[[journal]]\nsync = 'never'"), @"line 3, column 1: journal is an array; accepted is a table: [journal]");
    }

    #[test]
    fn says_where_the_text_is_not_toml() {
        insta::assert_snapshot!(message("[journal]\nsync always"), @"line 2, column 6: this is not TOML: key with no value, expected `=`");
        insta::assert_snapshot!(message("[journal\nsync = 1"), @"line 1, column 9: this is not TOML: unclosed table, expected `]`");
        insta::assert_snapshot!(message("sync = \"no end"), @r#"line 1, column 15: this is not TOML: invalid basic string, expected `"`"#);
        insta::assert_snapshot!(message("a = 1\na = 2"), @"line 2, column 1: this is not TOML: duplicate key");
        insta::assert_snapshot!(message("a = \u{1b}[31m"), @"line 1, column 6: this is not TOML: unexpected key or value, expected newline, `#`");
        insta::assert_snapshot!(message("a = \"\u{1b}[31m\""), @r"line 1, column 6: this is not TOML: invalid basic string, expected non-double-quote visible characters, `\`");
        insta::assert_snapshot!(message("journal.sync = always"), @"line 1, column 16: this is not TOML: string values must be quoted, expected literal string");
        insta::assert_snapshot!(message(&format!("a = {}", "[".repeat(1_000))), @"line 1, column 85: this is not TOML: cannot recurse further; max recursion depth met");
    }

    #[test]
    fn what_the_reader_of_toml_says_becomes_one_visible_line() {
        use serde::de::Error;
        let error = toml::de::Error::custom("odd `\u{1b}\u{202e}`\nexpected \"a\"");
        insta::assert_snapshot!(syntax("", &error), @r#"line 1, column 1: this is not TOML: odd `\u{1b}\u{202e}`; expected "a""#);
    }

    #[test]
    fn refuses_a_file_that_is_too_long() {
        let padding = "#".repeat(LONGEST);
        assert!(Config::parse(&padding).is_ok());
        insta::assert_snapshot!(message(&(padding + "#")), @"the settings are 1048577 bytes long; 1048576 bytes (1 MiB) are the most");
    }

    proptest! {
        #[test]
        fn tables_and_dotted_keys_mean_the_same(
            sync in prop::sample::select(vec!["always", "iteration", "never", "later"]),
            millis in -5..100_000_i64,
        ) {
            let dotted = Config::parse(&format!("journal.sync = '{sync}'\njournal.lock_timeout = {millis}"));
            let table = Config::parse(&format!("[journal]\nsync = '{sync}'\nlock_timeout = {millis}"));
            prop_assert_eq!(dotted.is_ok(), sync != "later" && millis >= 0);
            match (dotted, table) {
                (Ok(dotted), Ok(table)) => prop_assert_eq!(dotted, table),
                (dotted, table) => prop_assert_eq!(dotted.is_err(), table.is_err()),
            }
        }

        #[test]
        fn a_place_is_where_an_editor_shows_it(lines in prop::collection::vec("[a-zé🎉]{0,6}", 1..5), pick: prop::sample::Index) {
            let text = lines.join("\n");
            let line = pick.index(lines.len());
            let start: usize = lines[..line].iter().map(|line| line.len() + 1).sum();
            for (column, (at, _)) in lines[line].char_indices().enumerate() {
                let expected = Place { line: line + 1, column: column + 1 };
                prop_assert_eq!(place(&text, start + at..text.len()), expected);
            }
        }

        #[test]
        fn anything_is_answered_in_one_visible_line(
            text in "(\\[?(journal|core)\\]?|\\.|sync|lock_timeout|=| |\n|'|\"|\\{|\\}|\\[|[0-9]|\u{1b}|\u{85}|é){0,20}",
        ) {
            if let Err(error) = Config::parse(&text) {
                let message = error.to_string();
                prop_assert!(!message.contains(char::is_control), "{message:?}");
            }
        }
    }
}
