//! Checks files that contain messages or findings packets.

use std::path::{Path, PathBuf};

use autoloop_core::format::json_line;
use autoloop_core::message::{Checked, Place, Problems};
use autoloop_runtime::mailbox;
use autoloop_runtime::world::World;
use serde_json::json;

use crate::failure::{Failure, Kind};
use crate::terminal;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files to check
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Print one JSON object per file
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run<T>(
    args: &Args,
    world: &World,
    what: &str,
    read: impl Fn(&Path, &[u8]) -> Checked<T>,
) -> Result<(), Failure> {
    let (mut refused, mut missing) = (0, None);
    for file in &args.files {
        let checked = mailbox::check(&*world.disk, file, |bytes| read(file, bytes));
        let problems = checked.map(|checked| checked.problems).unwrap_or_else(|error| {
            missing = Some(unreadable(file, &error));
            let mut problems = Problems::default();
            problems.error(Place::START, error.to_string());
            problems
        });
        refused += usize::from(!problems.is_accepted());
        terminal::print(&match args.json {
            true => as_json(file, &problems),
            false => as_text(file, &problems),
        })?;
    }
    match (missing, refused) {
        (Some(failure), _) => Err(failure),
        (None, 0) => Ok(()),
        (None, refused) => {
            let count = args.files.len();
            let message = format!("{refused} of {count} {what} not accepted");
            Err(Failure::new(Kind::Refused, message))
        }
    }
}

pub(crate) fn unreadable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot read {}: {error}", file.display()))
        .hint("name a file that exists and that you may read")
}

fn as_json(file: &Path, problems: &Problems) -> String {
    json_line(&json!({
        "file": file.to_string_lossy(),
        "accepted": problems.is_accepted(),
        "errors": problems.errors,
        "warnings": problems.warnings,
    })) + "\n"
}

fn as_text(file: &Path, problems: &Problems) -> String {
    let file = file.display();
    let errors = problems.errors.iter().map(|problem| ("error", problem));
    let warnings = problems.warnings.iter().map(|problem| ("warning", problem));
    let mut lines: String = errors
        .chain(warnings)
        .map(|(kind, found)| {
            let message = found.message.replace('\n', " ");
            format!("{file}:{}:{}: {kind}: {message}\n", found.line, found.column)
        })
        .collect();
    if problems.is_accepted() {
        lines.push_str(&format!("{file}: accepted\n"));
    }
    lines
}
