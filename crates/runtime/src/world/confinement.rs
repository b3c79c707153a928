//! What binds the process of a job from the moment before it becomes the program: plain data, which the harness sends
//! to the shim with the job. [`sandbox`](crate::sandbox) makes and enforces it.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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

/// Where a reviewer may write. It may read everything that its user may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Files that may be written in place.
    #[serde(with = "bytes")]
    pub files: Vec<PathBuf>,
    /// Directories in which files may be made, written and deleted, but nothing else.
    #[serde(with = "bytes")]
    pub directories: Vec<PathBuf>,
    /// Directories in which anything may be done: a private one for temporary files, and those in
    /// which the agent keeps its own state. These may be links; the others may not.
    #[serde(with = "bytes")]
    pub free: Vec<PathBuf>,
}

/// A view of a project that can be written without changing it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// The project, without links in its path.
    #[serde(with = "bytes")]
    pub project: PathBuf,
    /// What is written goes here.
    #[serde(with = "bytes")]
    pub upper: PathBuf,
    /// The kernel works here. On the same file system.
    #[serde(with = "bytes")]
    pub work: PathBuf,
}

impl Confinement {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_survive_the_way_to_the_shim() {
        let rules = Rules {
            files: vec!["/p q/file".into(), "/dev/null".into()],
            directories: vec!["/p q/roles".into()],
            free: vec!["/tmp/\nx".into()],
        };
        let bounds = Confinement { rules, ..Confinement::default() };
        assert_eq!(Confinement::from_args(bounds.to_args()), Ok(bounds.clone()));
        let overlay =
            Overlay { project: "/p q".into(), upper: "/s/upper".into(), work: "/s/work".into() };
        let sealed = vec!["/r".into(), "/s t".into()];
        let sealing =
            Confinement { overlay: Some(overlay.clone()), sealed, ..Confinement::default() };
        assert_eq!(Confinement::from_args(sealing.to_args()), Ok(sealing));
        let bounds = Confinement { overlay: Some(overlay), ..bounds };
        assert_eq!(Confinement::from_args(bounds.to_args()), Ok(bounds));
        let nowhere = Confinement::default();
        assert_eq!(nowhere.to_args(), ["--bound"]);
        assert_eq!(Confinement::from_args(nowhere.to_args()), Ok(nowhere));
        assert_eq!(Confinement::from_args(["--else".into()]), Err("--else".into()));
        assert_eq!(Confinement::from_args(["--overlay".into()]), Err("--overlay".into()));
    }
}
