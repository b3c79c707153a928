//! What the rows share: a working directory, the effort, the big journals.

use std::cell::OnceCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use autoloop_core::env::Env;

use crate::Fallible;
use crate::corpus::{self, Corpus};
use crate::options::{Effort, Options};
use crate::place::Place;
use crate::table::{Finding, Reach};

/// One row of the table.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) against: &'static str,
    pub(crate) reach: Reach,
    pub(crate) measure: fn(&Bench) -> Fallible<Finding>,
}

/// The context of a row.
pub(crate) struct Bench {
    pub(crate) place: Place,
    pub(crate) effort: Effort,
    mixed: OnceCell<Project>,
    small: OnceCell<Project>,
}

/// A project directory with a journal.
#[derive(Clone)]
pub(crate) struct Project {
    dir: PathBuf,
}

impl Bench {
    pub(crate) fn new(options: &Options) -> Fallible<Self> {
        Ok(Bench {
            place: Place::new()?,
            effort: options.effort,
            mixed: OnceCell::new(),
            small: OnceCell::new(),
        })
    }

    /// How often two processes are started to be compared.
    pub(crate) fn starts(&self) -> usize {
        match self.effort {
            Effort::Full => 600,
            Effort::Quick => 60,
        }
    }

    /// How often anything that takes about a second is done.
    pub(crate) fn rounds(&self) -> usize {
        match self.effort {
            Effort::Full => 10,
            Effort::Quick => 2,
        }
    }

    /// The big journal, created when it is first needed.
    pub(crate) fn big(&self, corpus: Corpus) -> Fallible<&Project> {
        let cell = match corpus {
            Corpus::Mixed => &self.mixed,
            Corpus::Small => &self.small,
        };
        if let Some(project) = cell.get() {
            return Ok(project);
        }
        let bytes = match self.effort {
            Effort::Full => 1_000_000_000,
            Effort::Quick => 64_000_000,
        };
        let project = self.project(corpus.name())?;
        writeln!(
            io::stderr(),
            "  writing {} MB of {} records …",
            bytes / 1_000_000,
            corpus.name()
        )?;
        corpus::write(corpus, &project.journal(), bytes)?;
        Ok(cell.get_or_init(|| project))
    }

    /// A project with nothing in it.
    pub(crate) fn project(&self, name: &str) -> Fallible<Project> {
        let project = Project { dir: self.place.path().join(name) };
        std::fs::create_dir_all(project.dir.join(".autoloop"))?;
        Ok(project)
    }
}

impl Project {
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.dir.join(".autoloop/journal.jsonl")
    }

    /// Where the views of the journal are kept.
    pub(crate) fn sidecars(&self) -> PathBuf {
        self.dir.join(".autoloop/journal.jsonl.idx")
    }

    /// The variables that the harness sets for an agent of this project.
    pub(crate) fn env(&self) -> Env {
        Env {
            run_id: Some(corpus::RUN.to_owned()),
            iteration: Some("3".to_owned()),
            project_dir: Some(self.dir.clone()),
            state_dir: Some(self.dir.join(".autoloop")),
            journal_file: Some(self.journal()),
            recent_event: Some("loop.start".to_owned()),
            allowed_roles: vec!["builder".to_owned()],
            allowed_events: vec!["review.ready".to_owned(), "build.blocked".to_owned()],
            completion_event: Some("task.complete".to_owned()),
            ..Env::default()
        }
    }

    /// The program that is measured.
    pub(crate) fn autoloop(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_autoloop"));
        command.args(arguments).envs(self.env().vars());
        command
    }
}
