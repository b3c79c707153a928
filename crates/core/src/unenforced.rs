//! Keys of other versions of this tool that limit what a run may do, and that this version does not
//! enforce. A user who set one relies on it, so a run does not begin with it.

use toml::de::DeValue;

/// Limits by the last part of their name: they occur in several tables and in roles.
const KEYS: [&str; 6] = [
    "max_cost_usd",
    "max_runtime",
    "max_iteration_runtime",
    "stall_iterations",
    "read_only",
    "disallowed_tools",
];
/// Tables of conditions for an event or the completion.
const TABLES: [&str; 2] = ["acceptance", "gate"];
pub const HINT: &str = "remove it, or continue without it: --ignore-unenforced";

/// Whether an unknown key sets a limit. One that is switched off does not.
pub fn is_unenforced(path: &str, value: &DeValue<'_>) -> bool {
    is_named(path) && !is_off(value)
}

/// The same for a value in text form.
pub fn is_unenforced_text(path: &str, value: &str) -> bool {
    is_named(path) && !["", "0", "false", "[]"].contains(&value.trim())
}

pub const LABEL: &str = "it would not limit this run";

pub fn message(path: &str) -> String {
    format!("{} is not enforced by this version", path.escape_debug())
}

fn is_named(path: &str) -> bool {
    let mut parts = path.split('.');
    let last = parts.clone().next_back().unwrap_or_default();
    KEYS.contains(&last) || parts.any(|part| TABLES.contains(&part))
}

fn is_off(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Boolean(flag) => !flag,
        DeValue::Integer(number) => number.as_str().trim_start_matches('0').is_empty(),
        DeValue::Float(number) => number.as_str().parse::<f64>().is_ok_and(|number| number == 0.0),
        DeValue::String(text) => ["", "0"].contains(&text.trim()),
        DeValue::Array(values) => values.iter().all(|value| is_off(value.get_ref())),
        DeValue::Table(table) => table.values().all(|value| is_off(value.get_ref())),
        DeValue::Datetime(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use toml::de::DeTable;

    use super::*;

    #[test]
    fn limits_are_found_wherever_they_stand_unless_they_are_off() {
        for (text, expected) in [
            ("max_cost_usd = 5", true),
            ("max_cost_usd = 0", false),
            ("max_cost_usd = 0.0", false),
            ("max_runtime = '2h'", true),
            ("stall_iterations = 3", true),
            ("read_only = true", true),
            ("read_only = false", false),
            ("disallowed_tools = ['Bash']", true),
            ("disallowed_tools = []", false),
            ("acceptance = { verify_cmd = 'make test' }", true),
            ("acceptance = { assert_clean_tree = false, criteria = '' }", false),
            ("gate = [{ event = 'x', requires = ['y'] }]", true),
            ("max_iterations = 5", false),
            ("gated = true", false),
        ] {
            let table = DeTable::parse(text).unwrap();
            let (name, value) = table.get_ref().iter().next().unwrap();
            assert_eq!(is_unenforced(name.get_ref(), value.get_ref()), expected, "{text}");
            let nested = format!("role.{}", name.get_ref());
            assert_eq!(is_unenforced(&nested, value.get_ref()), expected, "{text}");
        }
    }
}
