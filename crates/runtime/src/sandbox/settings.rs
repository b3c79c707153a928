//! The two files whose keys are compared, not only their bytes.

use std::path::Path;

use autoloop_core::config::Layer;
use autoloop_core::permissions::{
    AllowList, Permission, Repaired, Unreadable, repair_settings, repair_topology,
};

/// A file of the loop some of whose keys are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyedFile<'l> {
    /// `autoloops.toml`, with the layers of settings beneath it.
    Settings(&'l [Layer]),
    /// `topology.toml`.
    Topology,
}

impl<'l> KeyedFile<'l> {
    /// Which of them a path is; `None` for a file that is only text.
    pub(super) fn at(seen: &Path, allow: &AllowList, beneath: &'l [Layer]) -> Option<Self> {
        // One of this name among the logs is just a log.
        if allow.permission(seen) != Permission::Edit {
            return None;
        }
        match seen.file_name()?.to_str() {
            Some("autoloops.toml") => Some(KeyedFile::Settings(beneath)),
            Some("topology.toml") => Some(KeyedFile::Topology),
            _ => None,
        }
    }

    /// Compares the new bytes of such a file with the old ones.
    pub(super) fn examine(self, old: &[u8], new: &[u8]) -> Finding {
        let text = |bytes| str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned());
        let repaired = text(old)
            .map_err(Unreadable::Before)
            .and_then(|old| Ok((old, text(new).map_err(Unreadable::After)?)))
            .and_then(|(old, new)| match self {
                KeyedFile::Settings(beneath) => repair_settings(old, new, beneath),
                KeyedFile::Topology => repair_topology(old, new),
            });
        match repaired {
            Ok(repaired) if repaired.put_back.is_empty() => Finding::Fine,
            Ok(repaired) => Finding::Repair(repaired),
            Err(why) => Finding::PutBack(why),
        }
    }
}

/// What is to be done about a changed file of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Nothing.
    Fine,
    /// Some keys are to be put back: this is the text.
    Repair(Repaired),
    /// The whole file is to be put back.
    PutBack(Unreadable),
}
