//! `autoloop memory add`: something worth remembering.

use autoloop_core::memory::Said;
use autoloop_runtime::memory::{Change, Reach};
use autoloop_runtime::world::World;
use clap::Subcommand;

use super::Tiers;
use super::tiers::change_through;
use crate::commands::settings;
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
    let change = change(&args.what);
    let env = settings::environment()?;
    match settings::client(&env) {
        Some(client) => change_through(&client, &change),
        None => Tiers::of_environment(&env, world)?.change(change),
    }
}

/// What is to be remembered, and for whom.
fn change(what: &What) -> Change {
    let reach = |project: bool| if project { Reach::Project } else { Reach::Usual };
    let (said, reach) = match what {
        What::Learning { project, text } => {
            (Said::Learning { text: text.join(" ") }, reach(*project))
        }
        What::Preference { category, text } => {
            (Said::Preference { category: category.clone(), text: text.join(" ") }, Reach::Project)
        }
        What::Meta { project, key, value } => {
            (Said::Meta { key: key.clone(), value: value.join(" ") }, reach(*project))
        }
    };
    Change::Add { said, reach }
}
