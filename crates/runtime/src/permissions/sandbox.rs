//! Where a reviewer's process can write at all.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use autoloop_core::config::Sandbox;
use autoloop_core::permissions::{AllowList, Shape};

#[cfg(target_os = "linux")]
mod landlock;

/// What the kernel offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Landlock, in this version of its interface.
    Landlock {
        /// The version.
        abi: u32,
    },
    /// Nothing, for this reason.
    None(&'static str),
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Support::Landlock { abi } => write!(f, "landlock abi {abi}"),
            Support::None(why) => write!(f, "no sandbox: {why}"),
        }
    }
}

/// Which layers bind a reviewer, for `review.start`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enforcement {
    layers: Vec<String>,
}

impl Enforcement {
    /// What is in force when a process is bound as far as this goes.
    pub fn with(support: Option<Support>) -> Enforcement {
        let mut layers = vec!["snapshot".to_owned()];
        if let Some(support @ Support::Landlock { .. }) = support {
            layers.push(support.to_string());
        }
        Enforcement { layers }
    }

    /// The layers, by name.
    pub fn layers(&self) -> &[String] {
        &self.layers
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.layers.join(", "))
    }
}

/// Why a process is not bound.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// There is no sandbox, and one is required.
    #[error("review.sandbox is \"required\", but there is none here: {0}")]
    Unsupported(&'static str),
    /// The kernel refused the rules.
    #[error("the sandbox could not be made: {0}")]
    Refused(String),
}

/// Where a reviewer may write. It may read everything that its user may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Files that may be written in place.
    pub files: Vec<PathBuf>,
    /// Directories in which files may be made, written and deleted, but nothing else.
    pub directories: Vec<PathBuf>,
    /// Directories in which anything may be done: a private one for temporary files, and those in
    /// which the agent keeps its own state. These may be links; the others may not.
    pub free: Vec<PathBuf>,
}

impl Rules {
    /// Where an allow list lets a reviewer write. Growing files are not among it: what is added to
    /// them goes through the harness.
    pub fn new(project_dir: &Path, allow: &AllowList) -> Rules {
        let project_dir = project_dir.canonicalize().unwrap_or_else(|_| project_dir.to_owned());
        let mut rules = Rules::default();
        for place in allow.places() {
            let path = project_dir.join(&place.path);
            match place.shape {
                Shape::Growing => {}
                Shape::File => rules.files.push(path),
                Shape::Children(_) | Shape::Beneath => rules.directories.push(path),
            }
        }
        let devices = ["null", "zero", "full", "random", "urandom", "tty", "ptmx"];
        rules.files.extend(devices.iter().map(|name| Path::new("/dev").join(name)));
        rules.free.extend(["/dev/pts", "/dev/shm"].map(PathBuf::from));
        rules
    }

    /// Lets it do what it likes in a directory.
    #[must_use]
    pub fn free_in(mut self, directory: &Path) -> Rules {
        self.free.push(directory.to_owned());
        self
    }

    /// Lets the known agents keep their sessions, caches and credentials.
    #[must_use]
    pub fn with_agent_state(mut self, home: &Path) -> Rules {
        let directories = [
            ".claude",
            ".codex",
            ".pi",
            ".gemini",
            ".cache",
            ".config/claude",
            ".config/codex",
            ".config/pi",
            ".config/opencode",
            ".local/share/opencode",
            ".local/state/opencode",
        ];
        self.free.extend(directories.iter().map(|name| home.join(name)));
        self.files.push(home.join(".claude.json"));
        self
    }

    /// The rules as arguments for the process that will apply them.
    pub fn to_args(&self) -> Vec<OsString> {
        let flagged = |flag: &'static str, paths: &[PathBuf]| -> Vec<OsString> {
            paths.iter().flat_map(|path| [flag.into(), path.clone().into_os_string()]).collect()
        };
        [
            flagged("--write-file", &self.files),
            flagged("--write-in", &self.directories),
            flagged("--free-in", &self.free),
        ]
        .concat()
    }

    /// Reads such arguments.
    ///
    /// # Errors
    ///
    /// The first argument that is not one of them.
    pub fn from_args(args: impl IntoIterator<Item = OsString>) -> Result<Rules, OsString> {
        let mut rules = Rules::default();
        let mut args = args.into_iter();
        while let Some(flag) = args.next() {
            let list = match flag.to_str() {
                Some("--write-file") => &mut rules.files,
                Some("--write-in") => &mut rules.directories,
                Some("--free-in") => &mut rules.free,
                _ => return Err(flag),
            };
            list.push(args.next().ok_or(flag)?.into());
        }
        Ok(rules)
    }
}

/// Asks the kernel what it offers. Costs a system call.
pub fn probe() -> Support {
    #[cfg(target_os = "linux")]
    return landlock::probe();
    #[cfg(not(target_os = "linux"))]
    Support::None("only Linux has Landlock")
}

/// Binds the calling thread, and every process it starts from now on, to the rules. There is no way
/// back. With [`Sandbox::Off`] nothing is done.
///
/// # Errors
///
/// When there is no sandbox although one is required, or the kernel refuses the rules.
pub fn apply_to_self(rules: &Rules, mode: Sandbox) -> Result<Enforcement, SandboxError> {
    match (mode, probe()) {
        (Sandbox::Off, _) => Ok(Enforcement::with(None)),
        (Sandbox::Required, Support::None(why)) => Err(SandboxError::Unsupported(why)),
        (Sandbox::Auto, Support::None(_)) => Ok(Enforcement::with(None)),
        (Sandbox::Auto | Sandbox::Required, support) => {
            #[cfg(target_os = "linux")]
            landlock::apply(rules)?;
            #[cfg(not(target_os = "linux"))]
            let _ = rules;
            Ok(Enforcement::with(Some(support)))
        }
    }
}

/// A variable for the reviewer's environment: `git status` then leaves the index alone, which would
/// otherwise have to be put back.
pub fn quiet_git() -> (&'static str, &'static str) {
    ("GIT_OPTIONAL_LOCKS", "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_survive_the_way_to_the_shim() {
        let rules = Rules::new(Path::new("/p q"), &AllowList::metareview(Path::new(".autoloop")))
            .free_in(Path::new("/tmp/\nx"))
            .with_agent_state(Path::new("/home/me"));
        assert_eq!(Rules::from_args(rules.to_args()), Ok(rules));
        assert_eq!(Rules::from_args(["--else".into()]), Err("--else".into()));
    }

    #[test]
    fn a_journal_is_never_among_what_may_be_written() {
        let list = AllowList::read_only().growing(Path::new(".autoloop/journal.jsonl"));
        let rules = Rules::new(Path::new("/p"), &list);
        assert!(rules.files.iter().all(|path| path.starts_with("/dev")));
        assert!(rules.directories.is_empty());
    }

    #[test]
    fn layers_are_told_in_words() {
        assert_eq!(Enforcement::with(None).to_string(), "snapshot");
        let landlock = Enforcement::with(Some(Support::Landlock { abi: 7 }));
        assert_eq!(landlock.to_string(), "snapshot, landlock abi 7");
    }
}
