//! The two files whose keys are looked at, not only their bytes.

use std::path::Path;

use autoloop_core::permissions::{
    AllowList, Permission, Repaired, Unreadable, repair_settings, repair_topology,
};

type Repair = fn(&str, &str) -> Result<Repaired, Unreadable>;

/// How a file of the loop is repaired; `None` for a file that is only text.
pub(super) fn repair_of(seen: &Path, allow: &AllowList) -> Option<Repair> {
    // One of this name among the logs is just a log.
    if allow.permission(seen) != Permission::Edit {
        return None;
    }
    match seen.file_name()?.to_str() {
        Some("autoloops.toml") => Some(repair_settings),
        Some("topology.toml") => Some(repair_topology),
        _ => None,
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

/// Holds the new bytes of such a file against the old ones.
pub(super) fn examine(repair: Repair, old: &[u8], new: &[u8]) -> Finding {
    let text = |bytes| str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned());
    let repaired = text(old)
        .map_err(Unreadable::Before)
        .and_then(|old| Ok((old, text(new).map_err(Unreadable::After)?)))
        .and_then(|(old, new)| repair(old, new));
    match repaired {
        Ok(repaired) if repaired.put_back.is_empty() => Finding::Fine,
        Ok(repaired) => Finding::Repair(repaired),
        Err(why) => Finding::PutBack(why),
    }
}
