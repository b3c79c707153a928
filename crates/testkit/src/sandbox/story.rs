//! A journal as text: one short line per record, without what differs from run to run.

use std::fmt::Write;

use super::Sandbox;

/// Longer values are replaced by their length.
const SHOWN: usize = 300;

impl Sandbox {
    /// The journal, one line per record: the run by its number if there are several, the iteration,
    /// the topic, and all fields in order, escaped as stored. Prompts, durations, times, run ids
    /// and what this machine can enforce are omitted; long values are replaced by their length.
    pub fn story(&self) -> String {
        let journal = self.journal();
        let mut runs: Vec<&str> = Vec::new();
        let mut story = String::new();
        for line in journal.lines() {
            let parts = pairs(line);
            let head = |name: &str| {
                let found = parts.iter().find(|(known, _)| *known == name);
                found.map_or("", |(_, value)| value.trim_matches('"'))
            };
            let run = head("run");
            if !runs.contains(&run) {
                runs.push(run);
            }
            let number = runs.iter().position(|known| *known == run).unwrap_or_default();
            if number > 0 {
                let _ = write!(story, "(run {}) ", number + 1);
            }
            let _ = write!(story, "{} {}", or_dash(head("iteration")), head("topic"));
            for (place, (name, value)) in parts.iter().enumerate() {
                match *name {
                    "iteration" if place > 1 => {
                        let _ = write!(story, " iteration={}", shown(value));
                    }
                    "run" | "iteration" | "topic" | "fields" | "ts" | "v" | "seal" | "source" => {}
                    "prompt" => story.push_str(" prompt=…"),
                    "elapsed_s" => story.push_str(" elapsed_s=…"),
                    "enforcement" => story.push_str(" enforcement=…"),
                    name => {
                        let _ = write!(story, " {name}={}", shown(value));
                    }
                }
            }
            story.push('\n');
        }
        for run in runs.into_iter().filter(|run| run.len() > 3) {
            story = story.replace(run, "[RUN]");
        }
        story
    }

    /// The topics of the journal with their iterations, in order.
    pub fn topics(&self) -> String {
        let story = self.story();
        let topic = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        story.lines().map(topic).collect::<Vec<_>>().join("\n")
    }

    /// A field of the records of a topic, escaped as it is, in order.
    pub fn fields(&self, topic: &str, name: &str) -> Vec<String> {
        let journal = self.journal();
        let has = |parts: &[(&str, &str)], name: &str, wanted: &str| {
            parts.iter().any(|(known, value)| *known == name && value.trim_matches('"') == wanted)
        };
        let records = journal.lines().map(pairs).filter(|parts| has(parts, "topic", topic));
        let value = |parts: Vec<(&str, &str)>| {
            let found = parts.into_iter().find(|(known, _)| *known == name)?;
            Some(found.1.trim_matches('"').to_owned())
        };
        records.filter_map(value).collect()
    }
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn shown(value: &str) -> String {
    let inner = value.trim_matches('"');
    match inner.chars().count() {
        0 => "''".to_owned(),
        length if length > SHOWN => format!("[{length} characters]"),
        _ => inner.to_owned(),
    }
}

/// The names and values of a line, in order. With the escaping rule of the journal a quote is never
/// inside of a string, so no JSON reader is needed, and the bytes are seen as stored.
fn pairs(line: &str) -> Vec<(&str, &str)> {
    let mut pairs = Vec::new();
    let mut rest = line;
    while let Some((name, after)) = quoted(rest) {
        let Some(value) = after.strip_prefix(": ").or_else(|| after.strip_prefix(':')) else {
            break;
        };
        let end = match value.strip_prefix('"') {
            Some(text) => text.find('"').map_or(value.len(), |end| end + 2),
            None if value.starts_with('{') => 0,
            None => value.find([',', '}']).unwrap_or(value.len()),
        };
        pairs.push((name, &value[..end]));
        rest = &value[end..];
    }
    pairs
}

/// The next text in quotes, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (_, text) = text.split_once('"')?;
    text.split_once('"')
}
