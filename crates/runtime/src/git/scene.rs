//! Real repositories for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Repository;
use crate::world::World;

/// A repository of its own, with one commit in it.
pub(crate) struct Scene {
    _dir: tempfile::TempDir,
    pub(crate) top: PathBuf,
    pub(crate) world: World,
}

impl Scene {
    /// One without a commit.
    pub(crate) fn empty() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap().join("project");
        fs::create_dir(&top).unwrap();
        let scene = Scene { _dir: dir, top, world: World::real() };
        scene.git(&["init", "-q", "-b", "main"]);
        scene.git(&["config", "user.name", "A Person"]);
        scene.git(&["config", "user.email", "person@example.org"]);
        scene
    }

    pub(crate) fn new() -> Scene {
        let scene = Scene::empty();
        scene.write("file", "one\ntwo\nthree\n").write(".gitignore", "ignored\nstate/\n");
        scene.commit("begin");
        scene
    }

    pub(crate) fn repository(&self) -> Repository {
        Repository::find(&self.top, &self.world).unwrap().unwrap()
    }

    /// Where a working tree may be.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.top.join("state").join(name)
    }

    pub(crate) fn write(&self, name: impl AsRef<Path>, text: &str) -> &Scene {
        let path = self.top.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn read(&self, name: impl AsRef<Path>) -> String {
        fs::read_to_string(self.top.join(name)).unwrap_or_default()
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    /// Has git read the text of one file where it means that of another, which is as long, as an agent can that writes
    /// the file of an object.
    pub(crate) fn forge(&self, meant: &str, read: &str) {
        let object = |text: &str| {
            self.write("state/forged", text);
            let name = self.git(&["hash-object", "-w", "state/forged"]);
            self.top.join(".git/objects").join(&name[..2]).join(&name[2..])
        };
        let (meant, read) = (object(meant), object(read));
        fs::remove_file(&meant).unwrap();
        fs::copy(read, meant).unwrap();
    }

    /// Runs git in the project, and returns what it prints.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.top, args)
    }

    pub(crate) fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        let output = Command::new("git").args(args).current_dir(dir).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {args:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}
