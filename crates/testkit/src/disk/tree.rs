//! The directory tree: resolves paths by the rules of Linux.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use autoloop_runtime::world::{FileKind, FileStat};

use crate::seed::Dice;

use super::content::Content;
use super::errno::{self, fail};
use super::names::Names;

/// The inode number of a file.
pub(super) type Inode = u64;

const ROOT: Inode = 1;
const DEVICE: u64 = 1;
/// The number of symbolic links that the kernel follows in one path.
const MAX_LINKS: usize = 40;

/// What a name can stand for.
#[derive(Clone, Debug)]
pub(super) enum Node {
    File(Content),
    Dir(Names),
    Symlink(PathBuf),
    Special,
}

/// Whether to see the page cache or the disk.
#[derive(Clone, Copy)]
pub(super) enum View {
    Cached,
    Durable,
}

/// What to do when the last part of a path is a symbolic link.
#[derive(Clone, Copy)]
pub(super) enum LastLink {
    Follow,
    Keep,
}

/// All files of a disk. A file without a name stays while it is open.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<Inode, Node>,
    next: Inode,
}

impl Default for Tree {
    fn default() -> Self {
        let root = Node::Dir(Names::default());
        Tree { nodes: BTreeMap::from([(ROOT, root)]), next: ROOT + 1 }
    }
}

impl Tree {
    /// The file of an inode of this tree.
    pub(super) fn node(&self, inode: Inode) -> &Node {
        &self.nodes[&inode]
    }

    pub(super) fn node_mut(&mut self, inode: Inode) -> &mut Node {
        self.nodes.get_mut(&inode).expect("a live tree never drops a node")
    }

    pub(super) fn find(&self, path: &Path, last: LastLink) -> io::Result<Inode> {
        self.walk(path, last, View::Cached)
    }

    /// Resolves a path from the root, where relative paths start too.
    pub(super) fn walk(&self, path: &Path, last: LastLink, view: View) -> io::Result<Inode> {
        if path.as_os_str().is_empty() {
            return fail(errno::ENOENT);
        }
        let mut trail = vec![ROOT];
        let mut ahead = parts_backward(path);
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            let here = trail.last().copied().unwrap_or(ROOT);
            let Node::Dir(names) = self.node(here) else { return fail(errno::ENOTDIR) };
            if part == ".." {
                trail.pop();
                continue;
            }
            let Some(inode) = names.get(&part, view) else { return fail(errno::ENOENT) };
            match (self.node(inode), last) {
                (Node::Symlink(_), LastLink::Keep) if ahead.is_empty() => trail.push(inode),
                (Node::Symlink(target), _) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return fail(errno::ELOOP);
                    }
                    if target.is_absolute() {
                        trail.clear();
                    }
                    ahead.extend(parts_backward(target));
                }
                _ => trail.push(inode),
            }
        }
        Ok(trail.last().copied().unwrap_or(ROOT))
    }

    /// The file to append to, created if missing. Neither it nor its directory may be a link.
    pub(super) fn open_to_append(&mut self, path: &Path) -> io::Result<Inode> {
        let dir = path.parent().unwrap_or(Path::new(""));
        if dir.file_name().is_some() {
            let dir = self.find(dir, LastLink::Keep)?;
            if let Node::Symlink(_) = self.node(dir) {
                return fail(errno::ELOOP);
            }
        }
        let Some((names, name)) = self.place(path)? else { return fail(errno::EISDIR) };
        let Some(inode) = names.get(name, View::Cached) else {
            return self.add(path, Node::File(Content::default()));
        };
        match self.node(inode) {
            Node::Symlink(_) => fail(errno::ELOOP),
            Node::Dir(_) => fail(errno::EISDIR),
            Node::File(_) | Node::Special => Ok(inode),
        }
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        match self.place(path)? {
            Some((names, name)) if names.get(name, View::Cached).is_none() => {
                self.add(path, Node::Dir(Names::default())).map(drop)
            }
            _ => fail(errno::EEXIST),
        }
    }

    /// Replaces the file of a name atomically.
    pub(super) fn replace(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let old = self.find(path, LastLink::Keep);
        if let Ok(Node::Dir(_)) = old.map(|inode| self.node(inode)) {
            return fail(errno::EISDIR);
        }
        let mut content = Content::default();
        content.append(bytes);
        self.add(path, Node::File(content)).map(drop)
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        match self.node(self.find(dir, LastLink::Keep)?) {
            Node::Dir(names) => Ok(names.list()),
            _ => fail(errno::ENOTDIR),
        }
    }

    pub(super) fn rename_new(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.find(from, LastLink::Keep)?;
        match self.place(to)? {
            Some((names, name)) if names.get(name, View::Cached).is_none() => {
                names.put(name, inode);
            }
            _ => return fail(errno::EEXIST),
        }
        self.remove(from)
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        match self.node(self.find(path, LastLink::Keep)?) {
            Node::Dir(_) => fail(errno::EISDIR),
            _ => self.remove(path),
        }
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.find(path, LastLink::Keep)?;
        match self.place(path)? {
            Some((names, name)) => names.remove(name),
            None => return fail(errno::EISDIR),
        }
        Ok(())
    }

    /// Adds a file that is entirely on the disk, with missing directories.
    pub(super) fn plant(&mut self, path: &Path, node: Node) -> io::Result<Inode> {
        let inode = self.make(node);
        self.plant_name(path, inode)?;
        Ok(inode)
    }

    /// Adds a durable name to a file.
    pub(super) fn plant_name(&mut self, path: &Path, inode: Inode) -> io::Result<()> {
        if let Some(dir) = path.parent()
            && dir.file_name().is_some()
            && self.find(dir, LastLink::Follow).is_err()
        {
            self.plant(dir, Node::Dir(Names::default()))?;
        }
        match self.place(path)? {
            Some((names, name)) => names.settle(name, inode),
            None => return fail(errno::EISDIR),
        }
        Ok(())
    }

    pub(super) fn stat(&self, inode: Inode) -> FileStat {
        let (kind, len) = match self.node(inode) {
            Node::File(content) => (FileKind::Regular, content.cached().len()),
            Node::Dir(_) => (FileKind::Directory, 4096),
            Node::Symlink(target) => (FileKind::Symlink, target.as_os_str().len()),
            Node::Special => (FileKind::Special, 0),
        };
        let changed = match self.node(inode) {
            Node::File(content) => content.version().into(),
            _ => 0,
        };
        FileStat { device: DEVICE, inode, len: len as u64, links: self.links(inode), kind, changed }
    }

    /// The size of all files that still have a name.
    pub(super) fn used(&self) -> u64 {
        let len = |(&inode, node): (&Inode, &Node)| match node {
            Node::File(content) if self.links(inode) > 0 => content.cached().len() as u64,
            _ => 0,
        };
        self.nodes.iter().map(len).sum()
    }

    /// What a power cut leaves. The inode numbers of lost files are reused, as on real disks.
    pub(super) fn after_power_cut(&self, dice: &mut Dice) -> Tree {
        let mut nodes = BTreeMap::new();
        let mut ahead = vec![ROOT];
        while let Some(inode) = ahead.pop() {
            if nodes.contains_key(&inode) {
                continue;
            }
            let left = match self.node(inode) {
                Node::Dir(names) => Node::Dir(names.after_power_cut(dice)),
                Node::File(content) => Node::File(content.after_power_cut(dice)),
                node @ (Node::Symlink(_) | Node::Special) => node.clone(),
            };
            if let Node::Dir(names) = &left {
                ahead.extend(names.inodes());
            }
            nodes.insert(inode, left);
        }
        let next = nodes.last_key_value().map_or(ROOT, |(&last, _)| last) + 1;
        Tree { nodes, next }
    }

    /// The directory of a name, and the name. `/` and `..` have none.
    fn place<'a>(&mut self, path: &'a Path) -> io::Result<Option<(&mut Names, &'a OsStr)>> {
        let Some(name) = path.file_name() else {
            return self.find(path, LastLink::Follow).map(|_| None);
        };
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => self.find(dir, LastLink::Follow)?,
            _ => ROOT,
        };
        match self.node_mut(dir) {
            Node::Dir(names) => Ok(Some((names, name))),
            _ => fail(errno::ENOTDIR),
        }
    }

    fn add(&mut self, path: &Path, node: Node) -> io::Result<Inode> {
        let inode = self.next;
        match self.place(path)? {
            Some((names, name)) => names.put(name, inode),
            None => return fail(errno::EISDIR),
        }
        Ok(self.make(node))
    }

    fn make(&mut self, node: Node) -> Inode {
        let inode = self.next;
        self.next += 1;
        self.nodes.insert(inode, node);
        inode
    }

    fn links(&self, inode: Inode) -> u64 {
        if let Node::Dir(names) = self.node(inode) {
            // Its name, its own dot, and the two dots of each directory in it.
            let is_dir = |inode: &Inode| matches!(self.node(*inode), Node::Dir(_));
            return 2 + names.inodes().filter(is_dir).count() as u64;
        }
        let names = self.nodes.values().filter_map(|node| match node {
            Node::Dir(names) => Some(names.inodes().filter(|&named| named == inode).count() as u64),
            _ => None,
        });
        names.sum()
    }
}

/// The parts of a path, last one first.
fn parts_backward(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut parts: Vec<_> = parts.collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    fn errno<T>(result: io::Result<T>) -> Option<i32> {
        result.err().and_then(|error| error.raw_os_error())
    }

    fn append(tree: &mut Tree, path: &str) -> io::Result<Inode> {
        tree.open_to_append(Path::new(path))
    }

    fn find(tree: &Tree, path: &str) -> io::Result<Inode> {
        tree.find(Path::new(path), LastLink::Follow)
    }

    fn link(tree: &mut Tree, path: &str, target: &str) {
        tree.plant(Path::new(path), Node::Symlink(PathBuf::from(target))).unwrap();
    }

    #[test]
    fn paths_lead_where_linux_would_lead_them() {
        let mut tree = Tree::default();
        assert_eq!(errno(append(&mut tree, "/a/f")), Some(errno::ENOENT));
        tree.create_dir(Path::new("/a")).unwrap();
        assert_eq!(errno(tree.create_dir(Path::new("/a"))), Some(errno::EEXIST));
        assert_eq!(errno(tree.create_dir(Path::new("/"))), Some(errno::EEXIST));
        let file = append(&mut tree, "/a/f").unwrap();
        assert_eq!(append(&mut tree, "a/./f").unwrap(), file);
        assert_eq!(find(&tree, "/../a/../a/f").unwrap(), file);
        assert_eq!(errno(find(&tree, "/a/f/x")), Some(errno::ENOTDIR));
        assert_eq!(errno(find(&tree, "/a/f/..")), Some(errno::ENOTDIR));
        assert_eq!(errno(find(&tree, "")), Some(errno::ENOENT));
        assert_eq!(errno(append(&mut tree, "/a")), Some(errno::EISDIR));
        assert_eq!(errno(append(&mut tree, "/")), Some(errno::EISDIR));
        assert_eq!(errno(tree.replace(Path::new("/a"), b"")), Some(errno::EISDIR));
    }

    #[test]
    fn links_are_followed_but_not_by_a_writer() {
        let mut tree = Tree::default();
        let file = tree.plant(Path::new("/real/state/f"), Node::File(Content::default())).unwrap();
        link(&mut tree, "/real/state/to-f", "f");
        link(&mut tree, "/project", "/real");
        link(&mut tree, "/real/other", "../real/state");
        link(&mut tree, "/round", "/round");
        assert_eq!(find(&tree, "/project/other/to-f").unwrap(), file);
        assert_eq!(append(&mut tree, "/project/state/f").unwrap(), file);
        assert_eq!(errno(append(&mut tree, "/real/state/to-f")), Some(errno::ELOOP));
        assert_eq!(errno(append(&mut tree, "/real/other/f")), Some(errno::ELOOP));
        assert_eq!(errno(find(&tree, "/round")), Some(errno::ELOOP));
        let kept = tree.find(Path::new("/round"), LastLink::Keep).unwrap();
        assert_eq!(tree.stat(kept).kind, FileKind::Symlink);
    }

    #[test]
    fn names_are_counted() {
        let mut tree = Tree::default();
        let file = tree.plant(Path::new("/a/f"), Node::File(Content::settled(b"xyz"))).unwrap();
        assert_eq!((tree.stat(file).links, tree.used()), (1, 3));
        tree.plant_name(Path::new("/b/g"), file).unwrap();
        assert_eq!((tree.stat(file).links, tree.used()), (2, 3));
        tree.replace(Path::new("/a/f"), b"1234567").unwrap();
        assert_eq!((tree.stat(file).links, tree.used()), (1, 10));
        tree.remove(Path::new("/b/g")).unwrap();
        assert_eq!((tree.stat(file).links, tree.used()), (0, 7));
        assert_eq!(tree.stat(ROOT).links, 4);
    }

    #[test]
    fn files_below_a_lost_name_are_lost_even_if_synced() {
        let mut tree = Tree::default();
        tree.create_dir(Path::new("/a")).unwrap();
        let file = append(&mut tree, "/a/f").unwrap();
        for inode in [file, find(&tree, "/a").unwrap()] {
            match tree.node_mut(inode) {
                Node::File(content) => content.sync(),
                Node::Dir(names) => names.sync(),
                Node::Symlink(_) | Node::Special => {}
            }
        }
        let mut dice = Seed(2).dice();
        let lost = (0..50).map(|_| tree.after_power_cut(&mut dice)).find(|left| {
            assert_eq!(find(left, "/a").is_ok(), find(left, "/a/f").is_ok());
            find(left, "/a").is_err()
        });
        let mut lost = lost.expect("an unsynced name is lost in half of the power cuts");
        assert_eq!(append(&mut lost, "/new").unwrap(), 2, "lost numbers are given out again");
    }
}
