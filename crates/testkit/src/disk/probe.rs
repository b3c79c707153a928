//! Access from outside of the simulation, for tests: no fault applies, no other process acts before
//! it, and it is not counted. Reading works on a dead machine too.

use std::path::{Path, PathBuf};

use super::SimDisk;
use super::content::Content;
use super::faults::Calls;
use super::names::Names;
use super::tree::{LastLink, Node, Tree, View};

impl SimDisk {
    /// The bytes of a file as processes see them.
    ///
    /// # Panics
    ///
    /// When there is no such file.
    #[must_use]
    pub fn contents(&self, path: impl AsRef<Path>) -> Vec<u8> {
        let path = path.as_ref();
        match self.look(path, View::Cached) {
            Some(Node::File(content)) => content.cached().to_vec(),
            other => panic!("{} is no file: {other:?}", path.display()),
        }
    }

    /// The bytes of a file after an offset, as processes see them; `None` when the file is shorter.
    /// Cheap enough to be called after every call.
    #[must_use]
    pub fn contents_from(&self, path: impl AsRef<Path>, offset: usize) -> Option<Vec<u8>> {
        let state = self.machine.state();
        let inode = state.tree.walk(path.as_ref(), LastLink::Follow, View::Cached).ok()?;
        match state.tree.node(inode) {
            Node::File(content) => content.cached().get(offset..).map(<[u8]>::to_vec),
            Node::Dir(_) | Node::Symlink(_) | Node::Special => None,
        }
    }

    /// Whether the machine runs: it did not die, and its disk was not reopened.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.machine.state().is_on()
    }

    /// The bytes of a file that survive any power cut; `None` when its name may be lost.
    #[must_use]
    pub fn durable_contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        match self.look(path.as_ref(), View::Durable)? {
            Node::File(content) => Some(content.durable().to_vec()),
            Node::Dir(_) | Node::Symlink(_) | Node::Special => None,
        }
    }

    /// Whether processes see this name.
    #[must_use]
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.machine.state().tree.find(path.as_ref(), LastLink::Keep).is_ok()
    }

    /// The number of calls by any process since the disk was created.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.machine.state().calls.clone()
    }

    /// The number of bytes appended by calls since the disk was created.
    #[must_use]
    pub fn bytes_appended(&self) -> u64 {
        self.machine.state().appended
    }

    /// Appends without a lock and without a sync, in one write.
    pub fn write_raw(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        self.change(path.as_ref(), |tree, path| {
            let inode = tree.open_to_append(path)?;
            if let Node::File(content) = tree.node_mut(inode) {
                content.append(bytes);
            }
            Ok(())
        });
    }

    /// Sets the contents of a file, durably. An existing file stays the same file; a missing one is
    /// created with its directories.
    pub fn set_contents(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        self.change(path.as_ref(), |tree, path| {
            let inode = match tree.find(path, LastLink::Follow) {
                Ok(inode) => inode,
                Err(_) => tree.plant(path, Node::File(Content::default()))?,
            };
            if let Node::File(content) = tree.node_mut(inode) {
                content.resize(0);
                content.append(bytes);
                content.sync();
            }
            Ok(())
        });
    }

    /// Creates a directory, durably, with its parents.
    pub fn plant_dir(&self, path: impl AsRef<Path>) {
        self.plant(path.as_ref(), Node::Dir(Names::default()));
    }

    /// Creates a symbolic link, durably.
    pub fn plant_symlink(&self, path: impl AsRef<Path>, target: impl Into<PathBuf>) {
        self.plant(path.as_ref(), Node::Symlink(target.into()));
    }

    /// Creates a pipe, durably.
    pub fn plant_special(&self, path: impl AsRef<Path>) {
        self.plant(path.as_ref(), Node::Special);
    }

    /// Adds a second name to a file, durably.
    pub fn plant_hard_link(&self, path: impl AsRef<Path>, file: impl AsRef<Path>) {
        self.change(path.as_ref(), |tree, path| {
            let inode = tree.find(file.as_ref(), LastLink::Keep)?;
            tree.plant_name(path, inode)
        });
    }

    /// Removes a name, without a sync.
    pub fn remove(&self, path: impl AsRef<Path>) {
        self.change(path.as_ref(), Tree::remove);
    }

    fn plant(&self, path: &Path, node: Node) {
        self.change(path, |tree, path| tree.plant(path, node).map(drop));
    }

    /// Changes the files without faults. On a dead machine nothing happens.
    fn change(&self, path: &Path, change: impl FnOnce(&mut Tree, &Path) -> std::io::Result<()>) {
        let mut state = self.machine.state();
        if state.is_on() {
            let done = change(&mut state.tree, path);
            done.unwrap_or_else(|error| panic!("cannot prepare {}: {error}", path.display()));
        }
    }

    fn look(&self, path: &Path, view: View) -> Option<Node> {
        let state = self.machine.state();
        let inode = state.tree.walk(path, LastLink::Follow, view).ok()?;
        Some(state.tree.node(inode).clone())
    }
}
