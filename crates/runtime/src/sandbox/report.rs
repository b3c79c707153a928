//! What came of a review, as far as files go.

use std::fmt;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{Diff, PutBack, Unreadable, What};

use super::append_only::NotGrown;

/// What a reviewer changed: what stays, and what was put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Changes that stay, in the order of their paths.
    pub allowed: Vec<Allowed>,
    /// Changes that were put back, or should have been.
    pub violations: Vec<Violation>,
}

impl Restored {
    /// Whether everything that had to be put back was.
    pub fn is_clean(&self) -> bool {
        self.violations.iter().all(|violation| violation.restored)
    }
}

/// A change that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Where, as seen from the project.
    pub path: PathBuf,
    /// What was done.
    pub what: What,
    /// What is different in a file.
    pub diff: Option<Diff>,
}

/// A change that had to be put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where, as seen from the project.
    pub path: PathBuf,
    /// What was done.
    pub what: Offence,
    /// How many more changes of things inside this directory belong to it.
    pub beneath: usize,
    /// Whether everything is as it was; found out by looking again.
    pub restored: bool,
}

impl Violation {
    /// Where, in a form that is never empty.
    pub fn place(&self) -> &Path {
        if self.path.as_os_str().is_empty() { Path::new(".") } else { &self.path }
    }

    /// What came of it, in words.
    pub fn outcome(&self) -> &'static str {
        match (&self.what, self.restored) {
            (Offence::KeptOut(_), _) => "kept out",
            (Offence::NotBroughtOver(_), _) => "not brought over",
            (_, true) => "put back",
            (_, false) => "not put back",
        }
    }

    /// Whether it left a file of settings so that it could not be read.
    pub fn is_unreadable(&self) -> bool {
        matches!(self.what, Offence::Unreadable(_))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place().display(), self.what)?;
        if self.beneath > 0 {
            write!(f, ", with {} more inside", self.beneath)?;
        }
        write!(f, " ({})", self.outcome())
    }
}

/// What was done that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offence {
    /// Something was changed that may not be, or in a way that is not allowed.
    Changed(What),
    /// The same, in a view of the project that is thrown away: it never reached the project.
    KeptOut(What),
    /// Something in such a view could not be brought over to the project, for this reason.
    NotBroughtOver(String),
    /// Something that is too much to be copied was changed.
    ChangedUnkept(What),
    /// A setting that binds the reviewer was changed.
    Setting(PutBack),
    /// A file that may only become longer did something else.
    NotGrown(NotGrown),
    /// A file of settings was left so that it cannot be read.
    Unreadable(Unreadable),
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Offence::Changed(what) | Offence::KeptOut(what) => what.fmt(f),
            Offence::NotBroughtOver(why) => write!(f, "cannot be brought over: {why}"),
            Offence::ChangedUnkept(what) => write!(f, "{what}; no copy of it was kept"),
            Offence::Setting(put_back) => write!(f, "protected setting {put_back}"),
            Offence::NotGrown(fault) => fault.fmt(f),
            Offence::Unreadable(why) => why.fmt(f),
        }
    }
}
