//! The command that resumes a run, as it can be typed where this one was.

use std::env;
use std::path::Path;

use autoloop_core::config::shell_words::join;

/// What is resumed: each coordinator has a command of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resumed {
    Loop,
    Chain,
    Slots,
}

impl Resumed {
    fn words(self) -> &'static str {
        match self {
            Resumed::Loop => "autoloop run",
            Resumed::Chain => "autoloop chain run",
            Resumed::Slots => "autoloop slots",
        }
    }

    /// The command for the run `id` of the project in `dir`.
    pub(super) fn command(self, id: &str, dir: &Path) -> String {
        let words = format!("{} --resume={id}", self.words());
        match place(dir) {
            Some(dir) => format!("{words} {}", join([dir.as_str()])),
            None => words,
        }
    }
}

/// How a project is named from here; `None` where it is this directory.
fn place(dir: &Path) -> Option<String> {
    let here = env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    match dir.strip_prefix(&here) {
        Ok(below) if below.as_os_str().is_empty() => None,
        Ok(below) if below.as_os_str().as_encoded_bytes().starts_with(b"-") => {
            Some(format!("./{}", below.display()))
        }
        Ok(below) => Some(below.display().to_string()),
        Err(_) => Some(dir.display().to_string()),
    }
}
