//! What binds a reviewer's process, from the moment before it becomes the reviewer.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use autoloop_core::config::Sandbox;
use serde::{Deserialize, Serialize};

use super::overlay::Overlay;
use super::rules::{Rules, Support};
use crate::message::bytes;

/// The first word about any bounds.
const BOUND: &str = "--bound";

/// The bounds of a process: where it may write, and in which view of the project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Where it may write.
    pub rules: Rules,
    /// The view that stands in the place of the project.
    pub overlay: Option<Overlay>,
    /// With such a view: files and directories that are for reading only, wherever else it may write.
    #[serde(with = "bytes")]
    pub sealed: Vec<PathBuf>,
}

impl Confinement {
    /// The same bounds, with a view of the project in which anything may be written.
    #[must_use]
    pub fn behind(self, overlay: Overlay) -> Confinement {
        let rules = self.rules.free_in(&overlay.project);
        Confinement { rules, overlay: Some(overlay), ..self }
    }

    /// The same bounds, with files and directories in the view that are for reading only.
    #[must_use]
    pub fn with_sealed(self, sealed: Vec<PathBuf>) -> Confinement {
        Confinement { sealed, ..self }
    }

    /// Binds the calling process, and every process it starts from now on. There is no way back.
    ///
    /// # Errors
    ///
    /// When the kernel does not let us, or refuses the rules.
    pub fn bind_self(&self) -> Result<(), SandboxError> {
        if let Some(overlay) = &self.overlay {
            overlay.enter(&self.sealed).map_err(|error| {
                SandboxError::Refused(format!("no overlay can be mounted: {error}"))
            })?;
        }
        self.rules.bind_self()
    }

    /// Whether a process can be bound so, found out by doing it to one.
    pub fn is_possible(&self, program: &Path) -> bool {
        let Ok(overlay) = self.overlay.as_ref().map(Overlay::for_a_try).transpose() else {
            return false;
        };
        let tried = Confinement { overlay, ..self.clone() };
        Command::new(program)
            .args([crate::shim::COMMAND, crate::shim::TRY])
            .args(tried.to_args())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// The bounds as arguments for the process that will be bound.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let flagged = |flag: &'static str, paths: &[PathBuf]| -> Vec<OsString> {
            paths.iter().flat_map(|path| [flag.into(), path.clone().into_os_string()]).collect()
        };
        let overlay = self.overlay.iter().flat_map(|overlay| {
            let Overlay { project, upper, work } = overlay.clone();
            ["--overlay".into(), project.into(), upper.into(), work.into()]
        });
        [
            // Never no words at all, which would read as no bounds.
            vec![BOUND.into()],
            flagged("--write-file", &self.rules.files),
            flagged("--write-in", &self.rules.directories),
            flagged("--free-in", &self.rules.free),
            overlay.collect(),
            flagged("--seal", &self.sealed),
        ]
        .concat()
    }

    /// Reads such arguments; an error is the first that is not one of them.
    pub(crate) fn from_args(
        args: impl IntoIterator<Item = OsString>,
    ) -> Result<Confinement, OsString> {
        let mut bounds = Confinement::default();
        let mut args = args.into_iter();
        while let Some(flag) = args.next() {
            let mut path = || args.next().map(PathBuf::from).ok_or_else(|| flag.clone());
            match flag.to_str() {
                Some(BOUND) => {}
                Some("--write-file") => bounds.rules.files.push(path()?),
                Some("--write-in") => bounds.rules.directories.push(path()?),
                Some("--free-in") => bounds.rules.free.push(path()?),
                Some("--seal") => bounds.sealed.push(path()?),
                Some("--overlay") => {
                    bounds.overlay =
                        Some(Overlay { project: path()?, upper: path()?, work: path()? });
                }
                _ => return Err(flag),
            }
        }
        Ok(bounds)
    }
}

/// Which layers bind a reviewer, for `review.start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// What it changed is put back.
    Snapshot,
    /// And most of it is prevented by the kernel.
    Landlock {
        /// The version of the kernel's interface.
        abi: u32,
    },
    /// And it works on a view of the project.
    Overlay {
        /// The version of the kernel's interface.
        abi: u32,
    },
}

impl Enforcement {
    /// What the kernel lets us promise, as far as the settings want it.
    ///
    /// # Errors
    ///
    /// When a sandbox is required and there is none.
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

#[cfg(test)]
mod tests {
    use autoloop_core::permissions::AllowList;

    use super::*;

    #[test]
    fn bounds_survive_the_way_to_the_shim() {
        let rules = Rules::new(
            Path::new("/p q"),
            &AllowList::metareview(Path::new(""), Path::new(".autoloop")),
        )
        .free_in(Path::new("/tmp/\nx"))
        .with_agent_state(Path::new("/home/me"));
        let bounds = Confinement { rules, ..Confinement::default() };
        assert_eq!(Confinement::from_args(bounds.to_args()), Ok(bounds.clone()));
        let overlay =
            Overlay { project: "/p q".into(), upper: "/s/upper".into(), work: "/s/work".into() };
        let sealing = Confinement::default()
            .behind(overlay.clone())
            .with_sealed(vec!["/r".into(), "/s t".into()]);
        assert_eq!(Confinement::from_args(sealing.to_args()), Ok(sealing));
        let bounds = bounds.behind(overlay);
        assert_eq!(Confinement::from_args(bounds.to_args()), Ok(bounds));
        let nowhere = Confinement::default();
        assert_eq!(nowhere.to_args(), ["--bound"]);
        assert_eq!(Confinement::from_args(nowhere.to_args()), Ok(nowhere));
        assert_eq!(Confinement::from_args(["--else".into()]), Err("--else".into()));
        assert_eq!(Confinement::from_args(["--overlay".into()]), Err("--overlay".into()));
    }

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
}
