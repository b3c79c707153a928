//! The rules for a reviewer's process, which it applies to itself before it becomes the reviewer.

use std::fmt;
use std::path::{Path, PathBuf};

use autoloop_core::config::Sandbox;
use autoloop_core::permissions::{AllowList, Shape};

use crate::world::{Confinement, Overlay, Rules};

/// For the reviewer's environment: `git status` then does not refresh the index, which would be a change.
pub const QUIET_GIT: (&str, &str) = ("GIT_OPTIONAL_LOCKS", "0");

impl Rules {
    /// Where an allow list permits a reviewer to write. Append-only files are left out: the harness appends
    /// to them for it.
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
        rules.free.push("/dev/pts".into());
        rules.free.push("/dev/shm".into());
        rules.keeping(&[project_dir])
    }

    /// Revokes all rights in directories that contain one of these paths, because no right can be revoked
    /// further down. A project may be in `/dev/shm`, or where an agent keeps its state.
    #[must_use]
    pub fn keeping(mut self, protected: &[PathBuf]) -> Rules {
        self.free.retain(|dir| {
            let real = dir.canonicalize();
            let contains = |path: &PathBuf| {
                path.starts_with(dir) || real.as_ref().is_ok_and(|real| path.starts_with(real))
            };
            !protected.iter().any(contains)
        });
        self
    }

    /// Permits everything in a directory.
    #[must_use]
    pub fn free_in(mut self, directory: &Path) -> Rules {
        self.free.push(directory.to_owned());
        self
    }
}

impl Confinement {
    /// The same with a view of the project in which everything may be written except what is sealed.
    #[must_use]
    pub fn behind(self, overlay: Overlay, sealed: Vec<PathBuf>) -> Confinement {
        Confinement { rules: self.rules.free_in(&overlay.project), overlay: Some(overlay), sealed }
    }

    /// Confines the calling process, and every process that it starts from now on, irrevocably.
    pub fn bind_self(&self) -> Result<(), SandboxError> {
        if let Some(overlay) = &self.overlay {
            overlay.enter(&self.sealed).map_err(|error| {
                SandboxError::Refused(format!("no overlay can be mounted: {error}"))
            })?;
        }
        #[cfg(target_os = "linux")]
        return super::landlock::apply(&self.rules);
        #[cfg(not(target_os = "linux"))]
        Err(SandboxError::Refused("only Linux has Landlock".to_owned()))
    }
}

/// What the kernel offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// With the version of its interface.
    Landlock { abi: u32 },
    /// With the reason.
    None(&'static str),
}

/// Asks the kernel what it offers. Costs a system call.
pub fn probe() -> Support {
    #[cfg(target_os = "linux")]
    return super::landlock::probe();
    #[cfg(not(target_os = "linux"))]
    Support::None("only Linux has Landlock")
}

/// The layers around a reviewer, for `review.start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    Snapshot,
    Landlock { abi: u32 },
    Overlay { abi: u32 },
}

impl Enforcement {
    /// The layer that the settings request and the kernel has; whether there is an overlay is found by trying.
    pub fn choose(mode: Sandbox, support: Support) -> Result<Enforcement, SandboxError> {
        match (mode, support) {
            (Sandbox::Off, _) | (Sandbox::Auto, Support::None(_)) => Ok(Enforcement::Snapshot),
            (Sandbox::Required, Support::None(why)) => Err(SandboxError::Unsupported(why)),
            (_, Support::Landlock { abi }) => Ok(Enforcement::Landlock { abi }),
        }
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Enforcement::Snapshot => f.write_str("snapshot"),
            Enforcement::Landlock { abi } => write!(f, "landlock abi {abi}"),
            Enforcement::Overlay { abi } => write!(f, "landlock abi {abi}, overlay"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("review.sandbox is \"required\", but there is none here: {0}")]
    Unsupported(&'static str),
    #[error("the sandbox could not be made: {0}")]
    Refused(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_chosen_by_settings_and_kernel() {
        let (has, lacks) = (Support::Landlock { abi: 7 }, Support::None("it is old"));
        let told = |mode, support| match Enforcement::choose(mode, support) {
            Ok(enforcement) => enforcement.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(told(Sandbox::Off, has), "snapshot");
        assert_eq!(told(Sandbox::Auto, has), "landlock abi 7");
        assert_eq!(told(Sandbox::Required, has), "landlock abi 7");
        assert_eq!(told(Sandbox::Auto, lacks), "snapshot");
        assert_eq!(
            told(Sandbox::Required, lacks),
            "review.sandbox is \"required\", but there is none here: it is old"
        );
        assert_eq!(Enforcement::Overlay { abi: 3 }.to_string(), "landlock abi 3, overlay");
    }

    #[test]
    fn a_journal_is_never_among_what_may_be_written() {
        let list = AllowList::read_only().growing(Path::new(".autoloop/journal.jsonl"));
        let rules = Rules::new(Path::new("/p"), &list);
        assert!(rules.files.iter().all(|path| path.starts_with("/dev")));
        assert!(rules.directories.is_empty());
    }

    #[test]
    fn a_directory_of_an_agent_that_contains_the_project_is_not_free() {
        let free = |protected: &str| {
            let state = ["/home/me/.cache", "/home/me/.claude"].map(Path::new);
            let rules = state.into_iter().fold(Rules::default(), Rules::free_in);
            rules.keeping(&[protected.into()]).free
        };
        assert!(free("/home/me/p").contains(&"/home/me/.cache".into()));
        assert!(!free("/home/me/.cache/trees/p").contains(&"/home/me/.cache".into()));
        assert!(free("/home/me/.cache/trees/p").contains(&"/home/me/.claude".into()));
    }

    #[test]
    fn shared_memory_is_free_but_not_where_the_project_is() {
        let free = |project: &str| Rules::new(Path::new(project), &AllowList::read_only()).free;
        let shared = PathBuf::from("/dev/shm");
        assert!(free("/p").contains(&shared));
        assert!(!free("/dev/shm/p").contains(&shared));
    }
}
