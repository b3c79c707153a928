//! A shorthand for journals in tests.

/// The lines of a journal: one for each `run#iteration topic key=value; key=value`, a second after
/// the one before it. An agent's record is written as `run#iteration topic said payload`. Values
/// are used as they are, so that escapes can be written.
///
/// # Panics
///
/// When a line has no topic.
pub fn lines(story: &str) -> Vec<String> {
    let lines = story.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.enumerate().map(|(second, text)| line(second, text)).collect()
}

fn line(second: usize, text: &str) -> String {
    let (at, rest) = text.split_once(' ').expect("a run comes before its topic");
    let (run, iteration) = at.split_once('#').unwrap_or((at, ""));
    let (topic, fields) = rest.split_once(' ').unwrap_or((rest, ""));
    let (minute, second) = (second / 60, second % 60);
    let heading = format!(r#"{{"run": "{run}", "iteration": "{iteration}", "topic": "{topic}", "#);
    let ts = format!(r#""ts": "2026-01-02T03:{minute:02}:{second:02}.000Z", "v": 1}}"#);
    if let Some(payload) = fields.strip_prefix("said ") {
        return format!(r#"{heading}"payload": "{payload}", "source": "agent", {ts}"#);
    }
    let pairs = fields.split("; ").filter_map(|pair| pair.split_once('='));
    let fields: Vec<String> = pairs.map(|(key, value)| format!(r#""{key}": "{value}""#)).collect();
    format!(r#"{heading}"fields": {{{}}}, {ts}"#, fields.join(", "))
}
