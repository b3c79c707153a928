//! The arguments of an agent that works in a tree of its own.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// An argument as it is meant in a working tree: a file that only the project has is that file. Scripts
/// of agents are often no part of the repository.
pub(super) fn found(arg: &OsStr, (home, tree): (&Path, &Path)) -> OsString {
    let is_path = arg.as_encoded_bytes().iter().any(|byte| b"./".contains(byte));
    let at_home = home.join(arg);
    match is_path && !tree.join(arg).exists() && at_home.is_file() {
        true => std::path::absolute(&at_home).unwrap_or(at_home).into_os_string(),
        false => arg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_only_the_project_has_is_found_from_a_tree() {
        let dir = tempfile::tempdir().unwrap();
        let (home, tree) = (dir.path().join("home"), dir.path().join("tree"));
        for (place, name) in
            [(&home, "agent.sh"), (&home, "exec"), (&home, "both.py"), (&tree, "both.py")]
        {
            std::fs::create_dir_all(place).unwrap();
            std::fs::write(place.join(name), "").unwrap();
        }
        let found = |arg: &str| found(OsStr::new(arg), (&home, &tree));
        assert_eq!(found("agent.sh"), home.join("agent.sh"));
        for as_it_is in ["exec", "both.py", "missing.sh", "--x=1.5", ".", &"a.".repeat(9_000)] {
            assert_eq!(found(as_it_is), as_it_is);
        }
    }
}
