//! Text in the shape that agents read and write: source code, Markdown, logs.

use std::fmt::Write;

use autoloop_testkit::Dice;

const NOUNS: [&str; 32] = [
    "parser", "token", "buffer", "record", "journal", "cursor", "offset", "reader", "writer",
    "handle", "state", "branch", "commit", "review", "finding", "queue", "batch", "header",
    "payload", "error", "config", "session", "module", "scope", "symbol", "table", "index",
    "schema", "worker", "signal", "timeout", "größe",
];
const VERBS: [&str; 16] = [
    "read", "write", "check", "split", "merge", "find", "append", "lock", "flush", "parse", "walk",
    "count", "close", "open", "drop", "retry",
];
const FILLERS: [&str; 24] = [
    "the",
    "a",
    "of",
    "and",
    "when",
    "that",
    "is",
    "was",
    "no longer",
    "every",
    "first",
    "with",
    "before",
    "after",
    "must",
    "so that",
    "which",
    "already",
    "still",
    "only",
    "now",
    "without",
    "→",
    "then",
];

/// A stock of lines from which texts are built. Generating each line would take longer than
/// everything that is measured.
pub(crate) struct Prose {
    lines: Vec<String>,
}

impl Prose {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        Prose { lines: (0..4096).map(|_| line(dice)).collect() }
    }

    /// A text of about so many bytes.
    pub(crate) fn text(&self, dice: &mut Dice, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 128);
        while text.len() < bytes {
            text.push_str(dice.pick(&self.lines).as_str());
            text.push('\n');
        }
        text
    }
}

fn line(dice: &mut Dice) -> String {
    let noun = *dice.pick(&NOUNS);
    let other = *dice.pick(&NOUNS);
    let verb = *dice.pick(&VERBS);
    let number = dice.below(900);
    let indent = "    ".repeat(dice.index(4));
    match dice.below(14) {
        0 => format!("{indent}let {noun} = self.{other}.{verb}({number})?;"),
        1 => format!(
            "{indent}if {noun}.{verb}() != \"{other}\" {{ return Err(\"{verb} {noun}\"); }}"
        ),
        2 => format!("{indent}fn {verb}_{noun}(&mut self, {other}: &str) -> Result<(), Error> {{"),
        3 => format!("{indent}}}"),
        4 => String::new(),
        5 => format!("## {verb} the {noun} ({number})"),
        6 => format!("test {noun}::{verb}_{other}_{number} ... ok"),
        7 => format!("  \"{noun}\": {{\"{verb}\": \"{other}\", \"count\": {number}}},"),
        8 => format!("\t{verb}({noun}, '\\n');\t// {other}"),
        9 => format!("- [x] `src/{noun}/{other}.rs:{number}`: {}", sentence(dice)),
        _ => sentence(dice),
    }
}

fn sentence(dice: &mut Dice) -> String {
    let mut text = String::new();
    for _ in 0..4 + dice.index(14) {
        let words: &[&str] = match dice.below(5) {
            0 => &NOUNS,
            1 => &VERBS,
            _ => &FILLERS,
        };
        let _ = write!(text, "{} ", dice.pick(words));
    }
    text.push_str(NOUNS[dice.index(NOUNS.len())]);
    text.push('.');
    text
}
