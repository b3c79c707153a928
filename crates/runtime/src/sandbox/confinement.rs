//! What binds a reviewer's process, from the moment before it becomes the reviewer.

use std::fmt;
use std::path::PathBuf;

use autoloop_core::config::Sandbox;

use super::rules::Support;
use crate::world::{Confinement, Overlay};

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
}
