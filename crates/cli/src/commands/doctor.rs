//! `autoloop doctor`: whether loops can be run here, and what to do about each lack.

mod agents;
mod finding;
mod git;
mod kernel;
mod login;
mod state;
mod supervision;

use std::io;
use std::path::{Path, PathBuf};

use autoloop_core::format::json_text;
use autoloop_runtime::project::Loaded;
use autoloop_runtime::world::World;
use serde::Serialize;

pub(crate) use self::agents::KNOWN as KNOWN_AGENTS;
use self::finding::{Finding, Verdict};
use super::settings::{self, Located};
use crate::failure::Failure;
use crate::style::Color;
use crate::terminal;

/// Check whether loops can be run here.
///
/// Checks the settings, the agents and their logins, git, the state directory and its journal, the supervision of
/// processes, orphans of killed harnesses, and the sandbox of the kernel. Prints what to do about each problem.
/// Changes nothing, and sends no request to a provider.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The project [default: the current one].
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let (located, _) = settings::look_for(args.dir.as_deref(), world)?;
    let (loaded, about_settings) = load(&located, world);
    let mut findings = vec![about_settings];
    findings.extend(agents::check(&located.dir, loaded.as_ref(), world));
    findings.push(supervision::check(world));
    findings.push(supervision::left_over(&located.files.state_dir));
    findings.extend(git::check(&located, loaded.as_ref(), world));
    findings.extend(state::check(&located, world));
    findings.extend(kernel::check(loaded.as_ref()));
    match args.json {
        true => terminal::print(&json(&findings))?,
        false => {
            let color = Color::of(&io::stdout());
            terminal::print_painted(&finding::report(&findings, color), color)?;
        }
    }
    match findings.iter().filter(|finding| finding.verdict == Verdict::Problem).count() {
        0 => Ok(()),
        1 => Err(Failure::failed("there is 1 problem")),
        many => Err(Failure::failed(format!("there are {many} problems"))),
    }
}

fn json(findings: &[Finding]) -> String {
    #[derive(Serialize)]
    struct Report<'a> {
        ok: bool,
        checks: &'a [Finding],
    }
    let ok = findings.iter().all(|finding| finding.verdict != Verdict::Problem);
    json_text(&Report { ok, checks: findings })
}

/// The files of the loop, if they can be used.
fn load(located: &Located, world: &World) -> (Option<Loaded>, Finding) {
    const NAME: &str = "settings";
    let loaded = settings::project(&located.dir).and_then(|project| project.load(&*world.disk));
    match loaded {
        Ok(loaded) => {
            let finding = match loaded.warnings.as_slice() {
                [] => Finding::ok(NAME, told_of(&located.dir, &loaded)),
                [first, ..] => Finding::warning(
                    NAME,
                    format!("{} can be used, but: {first}", files_of(&located.dir)),
                    "`autoloop config show` shows each of these warnings in its place",
                ),
            };
            (Some(loaded), finding)
        }
        Err(error) => {
            let found = error.to_string();
            let first = found.lines().next().unwrap_or_default();
            let advice = "mend it; `autoloop config show` shows every such mistake in its place";
            (None, Finding::problem(NAME, first, advice))
        }
    }
}

fn told_of(dir: &Path, loaded: &Loaded) -> String {
    let roles = match loaded.topology.roles.len() {
        0 => "no roles".to_owned(),
        1 => "1 role".to_owned(),
        many => format!("{many} roles"),
    };
    format!("{} can be used; the loop has {roles}", files_of(dir))
}

fn files_of(dir: &Path) -> String {
    format!("the files of the loop in {}", dir.display())
}
