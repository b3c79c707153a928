//! How a view is written out.

use std::str::FromStr;

/// For whom a view is written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For prompts and notes.
    Markdown,
    /// For a person.
    Terminal,
    /// For programs.
    Json,
}

impl FromStr for Format {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "md" => Ok(Format::Markdown),
            "terminal" | "text" => Ok(Format::Terminal),
            "json" => Ok(Format::Json),
            _ => Err("the formats are md, terminal and json"),
        }
    }
}
