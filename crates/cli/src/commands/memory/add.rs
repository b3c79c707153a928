//! `autoloop memory add`: something worth remembering.

use std::io::{self, Write};

use autoloop_core::memory::{LONGEST_NAME, LONGEST_TEXT, Said};
use autoloop_runtime::world::World;
use clap::Subcommand;

use super::{Tier, Tiers, not_stored};
use crate::failure::Failure;

/// Remember something.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Something worth knowing next time.
    Learning {
        /// Remember it for all runs of the project.
        #[arg(long)]
        project: bool,
        /// What was learned.
        #[arg(required = true, value_name = "TEXT")]
        text: Vec<String>,
    },
    /// How somebody wants things done; always for all runs of the project.
    Preference {
        /// In which matter: a word like `style`.
        category: String,
        /// How it is wanted.
        #[arg(required = true, value_name = "TEXT")]
        text: Vec<String>,
    },
    /// A note under a key; the last one with a key counts.
    Meta {
        /// Remember it for all runs of the project.
        #[arg(long)]
        project: bool,
        /// The key: a word like `branch`.
        key: String,
        /// The note.
        #[arg(required = true, value_name = "VALUE")]
        value: Vec<String>,
    },
}

pub(super) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let (said, project) = said(&args.what)?;
    let tiers = Tiers::of_environment(world)?;
    let (tier, file) = match &tiers.run {
        Some(file) if !project => (Tier::Run, file),
        _ => (Tier::Project, &tiers.project),
    };
    let author = tiers.author(tier)?;
    let added = file.add(&author, &mut |_| Some(said.clone())).map_err(not_stored)?;
    if let Some(entry) = added {
        writeln!(io::stdout(), "added {} to {tier} memory", entry.id)?;
    }
    Ok(())
}

/// What is to be remembered, and whether for all runs.
fn said(what: &What) -> Result<(Said, bool), Failure> {
    match what {
        What::Learning { project, text } => {
            Ok((Said::Learning { text: checked_text(text)? }, *project))
        }
        What::Preference { category, text } => {
            let category = checked_name("category", category)?;
            Ok((Said::Preference { category, text: checked_text(text)? }, true))
        }
        What::Meta { project, key, value } => {
            let key = checked_name("key", key)?;
            Ok((Said::Meta { key, value: checked_text(value)? }, *project))
        }
    }
}

fn checked_text(words: &[String]) -> Result<String, Failure> {
    let text = words.join(" ").trim().to_owned();
    let length = text.chars().count();
    match length {
        0 => Err(Failure::usage("there is nothing to remember in an empty text")),
        1..=LONGEST_TEXT => Ok(text),
        _ => Err(Failure::usage(format!(
            "the text has {length} characters; an entry has at most {LONGEST_TEXT}"
        ))
        .hint("write it to a file of the project and remember where it is")),
    }
}

fn checked_name(what: &str, name: &str) -> Result<String, Failure> {
    let name = name.trim();
    let is_good = !name.is_empty()
        && name.chars().count() <= LONGEST_NAME
        && !name.contains(char::is_control);
    if is_good {
        return Ok(name.to_owned());
    }
    Err(Failure::usage(format!("'{}' cannot be a {what}", name.escape_debug()))
        .hint(format!("a {what} is one line of 1 to {LONGEST_NAME} characters")))
}
