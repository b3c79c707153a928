//! The paths that may change during a review.

use std::path::{Path, PathBuf};

/// The paths that may change. All others may not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    places: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, or the directory of the files, relative to the project.
    pub path: PathBuf,
    pub shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    File,
    /// The file itself, which may only grow.
    Growing,
    /// The files directly in the directory with this extension.
    Children(&'static str),
    /// Everything below the directory.
    Beneath,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    None,
    /// Bytes may be appended.
    Grow,
    /// A regular file may be created, written and deleted.
    Edit,
    /// A directory may be created, because a file in it may be edited.
    Hold,
    /// Files and directories of any depth may be created and deleted.
    EditTree,
}

impl AllowList {
    /// Nothing may change: for a reviewer of an agent's work.
    pub fn read_only() -> Self {
        AllowList::default()
    }

    /// The files of the loop: for a metareview. Both directories are relative to the project; that of the
    /// loop is empty if it is the project.
    pub fn metareview(loop_dir: &Path, state_dir: &Path) -> Self {
        let own = ["autoloops.toml", "topology.toml", "harness.md", "metareview.md"];
        let state = ["context.md", "plan.md", "progress.md"];
        let place = |path: PathBuf, shape| Place { path, shape };
        let mut places: Vec<Place> =
            own.iter().map(|name| place(loop_dir.join(name), Shape::File)).collect();
        places.push(place(loop_dir.join("roles"), Shape::Children("md")));
        places.extend(state.iter().map(|name| place(state_dir.join(name), Shape::File)));
        places.push(place(state_dir.join("docs"), Shape::Children("md")));
        places.push(place(state_dir.join("logs"), Shape::Beneath));
        AllowList { places }
    }

    #[must_use]
    pub fn without(mut self, file: &Path) -> Self {
        self.places.retain(|place| place.path != file);
        self
    }

    /// Allows a file to grow: the journal, and the memory to which `autoloop memory` appends.
    #[must_use]
    pub fn growing(mut self, file: &Path) -> Self {
        self.places.push(Place { path: file.to_owned(), shape: Shape::Growing });
        self
    }

    pub fn places(&self) -> &[Place] {
        &self.places
    }

    pub fn permission(&self, path: &Path) -> Permission {
        let found =
            |wanted| self.places.iter().map(|place| place.permission(path)).any(|p| p == wanted);
        [Permission::Grow, Permission::Edit, Permission::EditTree, Permission::Hold]
            .into_iter()
            .find(|&wanted| found(wanted))
            .unwrap_or(Permission::None)
    }
}

impl Place {
    fn permission(&self, path: &Path) -> Permission {
        let permission = match self.shape {
            Shape::File if path == self.path => Permission::Edit,
            Shape::Growing if path == self.path => Permission::Grow,
            Shape::Children(ending) if path.parent() == Some(&self.path) => {
                let named = path.extension().is_some_and(|extension| extension == ending);
                if named { Permission::Edit } else { Permission::None }
            }
            Shape::Children(_) if path == self.path => Permission::Hold,
            Shape::Beneath if path == self.path => Permission::Hold,
            Shape::Beneath if path.starts_with(&self.path) => Permission::EditTree,
            _ if self.path.starts_with(path) => Permission::Hold,
            _ => Permission::None,
        };
        // A name like `roles/../src` never comes from a walk; taken literally it would fool the prefix.
        let literal = path.components().all(|part| part != std::path::Component::ParentDir);
        if literal { permission } else { Permission::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(path: &str) -> Permission {
        AllowList::metareview(Path::new(""), Path::new(".autoloop"))
            .growing(Path::new(".autoloop/memory.jsonl"))
            .permission(Path::new(path))
    }

    #[test]
    fn a_metareview_may_edit_the_files_of_the_loop_and_no_others() {
        for path in [
            "autoloops.toml",
            "topology.toml",
            "harness.md",
            "metareview.md",
            "roles/critic.md",
            ".autoloop/context.md",
            ".autoloop/plan.md",
            ".autoloop/progress.md",
            ".autoloop/docs/decisions.md",
        ] {
            assert_eq!(permission(path), Permission::Edit, "{path}");
        }
        for path in [".autoloop/logs/a.log", ".autoloop/logs/deep/er/b"] {
            assert_eq!(permission(path), Permission::EditTree, "{path}");
        }
        for path in ["roles", ".autoloop", ".autoloop/docs", ".autoloop/logs"] {
            assert_eq!(permission(path), Permission::Hold, "{path}");
        }
        assert_eq!(permission(".autoloop/memory.jsonl"), Permission::Grow);
        for path in [
            "src/main.rs",
            "Cargo.toml",
            "roles/deep/er.md",
            "roles/run.sh",
            "roles/md",
            "roles.md",
            "sub/autoloops.toml",
            ".autoloop/journal.jsonl",
            ".autoloop/runs/x/plan.md",
            ".autoloop/docs/a/b.md",
            ".autoloop/docs/.md/x",
            ".autoloop/logs/../journal.jsonl",
            ".git/config",
            "/etc/passwd",
            "autoloops.toml/x",
        ] {
            assert_eq!(permission(path), Permission::None, "{path}");
        }
    }

    #[test]
    fn a_state_directory_elsewhere_is_as_good() {
        let list = AllowList::metareview(Path::new(""), Path::new("/state/of/it"));
        assert_eq!(list.permission(Path::new("/state/of/it/plan.md")), Permission::Edit);
        assert_eq!(list.permission(Path::new("/state/of/it/plan.mdx")), Permission::None);
        assert_eq!(list.permission(Path::new(".autoloop/plan.md")), Permission::None);
    }

    #[test]
    fn a_file_that_does_not_count_is_taken_off_the_list() {
        let list = AllowList::metareview(Path::new(""), Path::new(".autoloop"))
            .without(Path::new("autoloops.toml"));
        assert_eq!(list.permission(Path::new("autoloops.toml")), Permission::None);
        assert_eq!(list.permission(Path::new("topology.toml")), Permission::Edit);
    }

    #[test]
    fn a_reader_may_do_nothing() {
        let list = AllowList::read_only();
        assert_eq!(list.permission(Path::new("autoloops.toml")), Permission::None);
        assert_eq!(list.permission(Path::new("")), Permission::None);
    }
}
