//! What a reviewer changed: what stays, and what does not.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use autoloop_core::config::Layer;
use autoloop_core::permissions::{
    AllowList, Diff, LONGEST_DIFFED, Permission, PutBack, Repaired, Unreadable, What,
    repair_settings, repair_topology, unified,
};
use autoloop_core::record::ViolationOutcome;

use super::append_only::AppendOnlyViolation;

/// The longest diff of one file, in bytes.
const LONGEST_FILE_DIFF: usize = 64 * 1024;

/// What a reviewer changed, in the order of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewChanges {
    pub allowed: Vec<Allowed>,
    pub violations: Vec<Violation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Relative to the project.
    pub path: PathBuf,
    pub what: What,
    /// `None` if it is not a file.
    pub diff: Option<Diff>,
}

impl Allowed {
    /// A file that had other contents, or none.
    pub(super) fn file(path: &Path, what: What, old: Option<&[u8]>, new: Option<&[u8]>) -> Allowed {
        let diff = unified(&path.to_string_lossy(), old, new, LONGEST_FILE_DIFF);
        Allowed { path: path.to_owned(), what, diff: Some(diff) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Relative to the project.
    pub path: PathBuf,
    pub kind: ViolationKind,
    /// How many more changes inside this directory it stands for.
    pub beneath: usize,
    /// Whether everything is as it was; checked by looking again.
    pub restored: bool,
}

impl Violation {
    pub(super) fn new(path: PathBuf, kind: ViolationKind, restored: bool) -> Violation {
        Violation { path, kind, beneath: 0, restored }
    }

    /// The path, `.` for the project itself.
    pub fn place(&self) -> &Path {
        if self.path.as_os_str().is_empty() { Path::new(".") } else { &self.path }
    }

    pub fn outcome(&self) -> ViolationOutcome {
        match (&self.kind, self.restored) {
            (ViolationKind::KeptOut(_), _) => ViolationOutcome::KeptOut,
            (ViolationKind::NotTakenOver(_), _) => ViolationOutcome::NotBroughtOver,
            (_, true) => ViolationOutcome::PutBack,
            (_, false) => ViolationOutcome::NotPutBack,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place().display(), self.kind)?;
        if self.beneath > 0 {
            write!(f, ", with {} more inside", self.beneath)?;
        }
        write!(f, " ({})", self.outcome())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViolationKind {
    #[error("{0}")]
    Changed(What),
    /// Changed in the reviewer's view of the project, which is discarded.
    #[error("{0}")]
    KeptOut(What),
    /// An allowed change in that view could not be applied to the project.
    #[error("cannot be taken over: {0}")]
    NotTakenOver(String),
    /// Changed where the limits did not allow a copy.
    #[error("{0}; no copy of it was kept")]
    ChangedUnkept(What),
    /// A reference of git, or the commit that is checked out.
    #[error("{0}")]
    Pointer(&'static str),
    #[error("setting {0} changed")]
    GitSetting(String),
    #[error("protected setting {0}")]
    Setting(PutBack),
    #[error("{0}")]
    AppendOnly(AppendOnlyViolation),
    /// A settings file that does not parse any more.
    #[error("{0}")]
    Unreadable(Unreadable),
}

/// A file of the loop some of whose keys are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettingsFile<'l> {
    /// `autoloops.toml`, with the layers of settings below it.
    Settings(&'l [Layer]),
    /// `topology.toml`.
    Topology,
}

impl<'l> SettingsFile<'l> {
    pub(super) fn at(path: &Path, allow: &AllowList, beneath: &'l [Layer]) -> Option<Self> {
        // One of this name among the logs is just a log.
        if allow.permission(path) != Permission::Edit {
            return None;
        }
        match path.file_name()?.to_str() {
            Some("autoloops.toml") => Some(SettingsFile::Settings(beneath)),
            Some("topology.toml") => Some(SettingsFile::Topology),
            _ => None,
        }
    }

    /// Compares the new bytes of such a file with the old ones; `None` when it was deleted. Protected keys
    /// get their old values back; on an error the whole file has to be restored.
    pub(super) fn check(self, old: &[u8], new: Option<&[u8]>) -> Result<Repaired, Unreadable> {
        let text = |bytes| str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned());
        let new = new.ok_or_else(|| Unreadable::After("the file is gone".to_owned()))?;
        let old = text(old).map_err(Unreadable::Before)?;
        let new = text(new).map_err(Unreadable::After)?;
        match self {
            SettingsFile::Settings(beneath) => repair_settings(old, new, beneath),
            SettingsFile::Topology => repair_topology(old, new),
        }
    }
}

/// The bytes of a file; not all of one that is too long for a diff.
pub(super) fn read_for_diff(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(2 * LONGEST_DIFFED as u64 + 1024).read_to_end(&mut bytes)?;
    Ok(bytes)
}
