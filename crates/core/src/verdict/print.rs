//! A verdict as one line of JSON, for people who try a reviewer, and for programs.

use std::fmt::{self, Write as _};

use super::{Verdict, Violation};

/// What was read, about to be printed: an object with `verdict`, `followUpPrompt` and `reason`.
///
/// What is no verdict has `"violation"` in its place, and a reason. The text is never copied: it may be long.
#[derive(Clone, Copy, Debug)]
pub struct Printed<'r>(pub &'r Result<Verdict, Violation>);

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Ok(Verdict { ruling, follow_up }) => {
                let follow_up = Quoted(follow_up);
                write!(
                    f,
                    r#"{{"verdict": "{ruling}", "followUpPrompt": {follow_up}, "reason": null}}"#
                )
            }
            Err(violation) => {
                let reason = violation.to_string();
                let reason = Quoted(&reason);
                write!(
                    f,
                    r#"{{"verdict": "violation", "followUpPrompt": null, "reason": {reason}}}"#
                )
            }
        }
    }
}

/// A text as a JSON string.
struct Quoted<'t>(&'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        let is_special = |c: char| c.is_ascii_control() || matches!(c, '"' | '\\');
        for part in self.0.split_inclusive(is_special) {
            let plain = part.trim_end_matches(is_special);
            f.write_str(plain)?;
            match part[plain.len()..].chars().next() {
                None => {}
                Some(c @ ('"' | '\\')) => write!(f, "\\{c}")?,
                Some('\n') => f.write_str("\\n")?,
                Some('\r') => f.write_str("\\r")?,
                Some('\t') => f.write_str("\\t")?,
                Some(c) => write!(f, "\\u{:04x}", u32::from(c))?,
            }
        }
        f.write_char('"')
    }
}
