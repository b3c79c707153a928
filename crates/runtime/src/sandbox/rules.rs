//! Where a reviewer's process can write at all.

use std::fmt;
use std::path::{Path, PathBuf};

use autoloop_core::permissions::{AllowList, Shape};

use super::confinement::SandboxError;
use crate::world::Rules;

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
        rules.free.push("/dev/pts".into());
        rules.free.push("/dev/shm".into());
        rules.keeping(&[project_dir])
    }

    /// Takes back the right to do anything in a directory that contains one of these paths: no right can
    /// be taken back further down. Some people keep projects where programs share memory, or where an
    /// agent keeps its state.
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
}

/// Asks the kernel what it offers. Costs a system call.
pub fn probe() -> Support {
    #[cfg(target_os = "linux")]
    return super::landlock::probe();
    #[cfg(not(target_os = "linux"))]
    Support::None("only Linux has Landlock")
}

impl Rules {
    /// Binds the calling thread, and every process it starts from now on. There is no way back.
    pub(super) fn bind_self(&self) -> Result<(), SandboxError> {
        #[cfg(target_os = "linux")]
        return super::landlock::apply(self);
        #[cfg(not(target_os = "linux"))]
        Err(SandboxError::Refused("only Linux has Landlock".to_owned()))
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
    fn a_journal_is_never_among_what_may_be_written() {
        let list = AllowList::read_only().growing(Path::new(".autoloop/journal.jsonl"));
        let rules = Rules::new(Path::new("/p"), &list);
        assert!(rules.files.iter().all(|path| path.starts_with("/dev")));
        assert!(rules.directories.is_empty());
    }

    #[test]
    fn a_directory_of_an_agent_that_contains_the_project_is_not_free() {
        let free = |protected: &str| {
            let rules = Rules::default().with_agent_state(Path::new("/home/me"));
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
