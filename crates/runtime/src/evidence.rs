//! Runs checks: each on a clean checkout of one commit, outside of the project.

use std::path::{Path, PathBuf};

use autoloop_core::config::{Check, Leftovers, Sandbox};
use autoloop_core::env::Inherits;
use autoloop_core::permissions::AllowList;
use autoloop_core::record::CheckFinish;

use crate::error::DriveError;
use crate::git::{LOCATING_VARIABLES, Repository};
use crate::layout::RunDir;
use crate::process::{self, token};
use crate::sandbox::{Enforcement, Scratch, probe};
use crate::site::Site;
use crate::turn::{millis, tail};
use crate::world::{Cause, Confinement, Ending, Finished, Job, Limits, Rules, Spool, World};

/// Output and errors become one stream, in their order.
const SHELL: (&str, &str) = ("/bin/sh", "exec 2>&1\n");

/// A private directory with the files of a commit, removed when it is dropped.
pub(crate) struct Checkout(Scratch);

impl Checkout {
    /// `note` has its path, for a later harness to remove what a killed one left.
    pub(crate) fn new(
        repository: &Repository,
        commit: &str,
        note: &Path,
        world: &World,
    ) -> Result<Checkout, DriveError> {
        let scratch = Scratch::new(&token(&*world.entropy), note);
        let write = |source| DriveError::Write { path: note.to_owned(), source };
        let checkout = Checkout(scratch.map_err(write)?);
        repository.check_out(commit, &checkout.tree())?;
        Ok(checkout)
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.0.dir().join("tree")
    }
}

/// What the checks of a run have in common.
pub(crate) struct CheckRunner<'c, 'a> {
    pub(crate) site: &'c Site<'a>,
    /// `None` in a simulated world, which has no git: checks run in the project.
    pub(crate) repository: Option<&'c Repository>,
    pub(crate) project: &'c Path,
    /// The home directory of the user, for caches.
    pub(crate) home: Option<&'c Path>,
    pub(crate) sandbox: Sandbox,
    pub(crate) dir: &'c RunDir,
}

impl CheckRunner<'_, '_> {
    /// Runs a check to its end; `None` when it was interrupted. A commit that cannot be checked out does not pass.
    pub(crate) fn run(
        &self,
        check: &Check,
        commit: &str,
        name: &str,
    ) -> Result<Option<CheckFinish>, DriveError> {
        let result = CheckFinish {
            name: check.name.clone(),
            command: check.command.clone(),
            commit: commit.to_owned(),
            ..CheckFinish::default()
        };
        let world = self.site.world;
        let checkout = self
            .repository
            .map(|repository| Checkout::new(repository, commit, &self.dir.checkout(), world));
        let checkout = match checkout.transpose() {
            Ok(checkout) => checkout,
            Err(error) => {
                let reason = Some(error.to_string());
                return Ok(Some(CheckFinish { exit_code: 126.into(), reason, ..result }));
            }
        };
        let job = self.job(check, checkout.as_ref(), name)?;
        let finished = process::run(job, world, &self.site.interrupts);
        if finished.cause == Cause::Interrupt {
            return Ok(None);
        }
        Ok(Some(CheckFinish {
            exit_code: finished.exit_code().into(),
            timed_out: finished.timed_out(),
            elapsed_ms: millis(finished.elapsed),
            digest: digest(&finished),
            output: tail(finished.stdout.end().trim_end()),
            reason: match &finished.ending {
                Ending::Exited(_) => None,
                Ending::NeverStarted(why) => Some(why.message.clone()),
                Ending::Lost(why) => Some(why.clone()),
            },
            ..result
        }))
    }

    fn job(
        &self,
        check: &Check,
        checkout: Option<&Checkout>,
        name: &str,
    ) -> Result<Job, DriveError> {
        let name = format!("check-{name}");
        let (shell, merge) = SHELL;
        let temporary = checkout.map(|checkout| ("TMPDIR".into(), checkout.0.temporary().into()));
        Ok(Job {
            program: shell.into(),
            args: vec!["-c".into(), format!("{merge}{}", check.command).into()],
            // What is under review gets no credentials.
            inherits: Inherits::Agent { client: None, more: Vec::new() },
            env: temporary.into_iter().collect(),
            env_removed: LOCATING_VARIABLES.map(Into::into).into(),
            dir: Some(checkout.map_or_else(|| self.project.to_owned(), |it| self.place(it))),
            notes: Some(self.site.state_dir.shims()),
            limits: Limits { deadline: Some(check.timeout), ..Limits::default() },
            spool: Some(Spool { stdout: self.dir.stdout(&name), stderr: self.dir.stderr(&name) }),
            leftovers: Leftovers::Kill,
            confinement: checkout.map(|checkout| self.confinement(checkout)).transpose()?.flatten(),
            ..Job::default()
        })
    }

    /// The directory of the project in a checkout.
    fn place(&self, checkout: &Checkout) -> PathBuf {
        let prefix = self.repository.map(Repository::prefix);
        let place = prefix.map_or_else(|| checkout.tree(), |prefix| checkout.tree().join(prefix));
        // A commit may be without it.
        if place.is_dir() { place } else { checkout.tree() }
    }

    /// A check writes in its checkout, among its temporary files and in the user's caches.
    fn confinement(&self, checkout: &Checkout) -> Result<Option<Confinement>, DriveError> {
        let Enforcement::Landlock { .. } = Enforcement::choose(self.sandbox, probe())? else {
            return Ok(None);
        };
        let tree = checkout.tree();
        let rules = Rules::new(&tree, &AllowList::read_only());
        let caches = self.home.map(|home| home.join(".cache"));
        let rules = caches.iter().fold(rules, |rules, cache| rules.free_in(cache));
        let rules = rules.keeping(&[self.project.to_owned()]);
        let rules = rules.free_in(&tree).free_in(&checkout.0.temporary());
        Ok(Some(Confinement { rules, ..Confinement::default() }))
    }
}

/// The BLAKE3 digest of the output; of none, that of nothing.
fn digest(finished: &Finished) -> String {
    let digest = finished.stdout.digest.map(blake3::Hash::from_bytes);
    digest.unwrap_or_else(|| blake3::hash(b"")).to_hex().to_string()
}
