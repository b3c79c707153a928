//! Git with settings of our own, in a directory of our own.
//!
//! An agent that works in a repository can write its settings, attributes, index and references, and so decide
//! what git stages, shows and merges. What is reviewed and merged must not depend on them. So it is read and
//! written from a private git directory that shares nothing with the repository but its objects, which are named
//! by their content. The settings that say how files are stored apply as they were when the repository was found.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::GitError;
use super::command::Git;
use crate::files::{self, Links, Unreadable};
use crate::private_files;
use crate::world::RealDisk;

/// The names of private directories begin with this.
const PREFIX: &str = "autoloop-git-";
/// A list of ignored files, or of commits without parents, is shorter.
const LONGEST_LIST: u64 = 16 * 1024 * 1024;
/// How the files of a checkout are stored. The other settings are not needed, or run programs.
const KEPT: [&str; 7] = [
    "core.autocrlf",
    "core.eol",
    "core.excludesfile",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
];
/// Who commits.
const IDENTITY: [&str; 6] =
    ["author.email", "author.name", "committer.email", "committer.name", "user.email", "user.name"];

/// The settings on which commits depend, as they were when the repository was found.
#[derive(Clone, Debug)]
pub(super) struct Pinned {
    common: PathBuf,
    settings: Arc<[(String, String)]>,
    /// The hash by which objects are named, where it is not the default one.
    format: Option<String>,
    /// The commits whose parents a shallow clone does not have; empty in any other.
    shallow: Arc<[u8]>,
}

impl Pinned {
    pub(super) fn read(git: &Git, common: &Path) -> Result<Pinned, GitError> {
        let listed = git.run(["config", "--null", "--list"])?;
        let entries = listed.names().into_iter().map(|entry| {
            let entry = entry.to_string_lossy();
            // A key without a value is a flag that is set.
            let (key, value) = entry.split_once('\n').unwrap_or((&entry, "true"));
            (key.to_owned(), value.to_owned())
        });
        let entries: Vec<(String, String)> = entries.collect();
        let format = entries.iter().rfind(|(key, _)| key == "extensions.objectformat");
        let format = format.map(|(_, value)| value.clone());
        let settings = entries.into_iter().filter(|(key, _)| is_kept(key)).collect();
        let shallow = read_list(&common.join("shallow")).into();
        Ok(Pinned { common: common.to_owned(), settings, format, shallow })
    }

    /// Makes a private git directory, which is removed when it is dropped.
    pub(super) fn open(&self, git: &Git) -> Result<Private, GitError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        self.sweep();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = self.common.join(format!("{PREFIX}{}-{count}", std::process::id()));
        let empty = dir.join("empty");
        let create =
            |path: &Path| private_files::create_dir(path).map_err(GitError::io("make", path));
        create(&dir)?;
        let lock = File::create_new(dir.join("lock")).and_then(|lock| {
            lock.try_lock()?;
            Ok(lock)
        });
        let lock = lock.map_err(GitError::io("lock", &dir))?;
        let attributes = ("core.attributesfile".to_owned(), "/dev/null".to_owned());
        let settings: Vec<_> = self.settings.iter().cloned().chain([attributes]).collect();
        let git = configured(git, &settings).at(&empty);
        let git = git.with("GIT_DIR", &dir).with("GIT_WORK_TREE", &empty);
        let git = git.with("GIT_OBJECT_DIRECTORY", self.common.join("objects"));
        let git = git.with("GIT_CONFIG_GLOBAL", "/dev/null").with("GIT_CONFIG_NOSYSTEM", "1");
        let private = Private { dir, git: git.with("GIT_ATTR_NOSYSTEM", "1"), _lock: lock };
        for name in ["refs", "info", "empty"] {
            create(&private.dir.join(name))?;
        }
        private.write("HEAD", b"ref: refs/heads/none\n")?;
        private.write("config", self.format_settings().as_bytes())?;
        private.write("info/exclude", &self.ignored())?;
        if !self.shallow.is_empty() {
            private.write("shallow", &self.shallow)?;
        }
        Ok(private)
    }

    /// Git in its own directory, with the identity, filters and merge drivers that were configured when the
    /// repository was found: later filters and drivers do nothing.
    pub(super) fn as_configured(&self, git: &Git) -> Result<Git, GitError> {
        let words = ["config", "--null", "--name-only", "--get-regexp", r"^(filter|merge)\..*\."];
        // It fails where there are none.
        let now = git.try_run(words)?.names();
        let now = now.iter().map(|key| key.to_string_lossy().into_owned());
        let is_new =
            |key: &String| is_driver(key) && !self.settings.iter().any(|(at, _)| at == key);
        let off = now.filter(is_new).map(|key| {
            let value = if key.ends_with(".required") { "false" } else { "" };
            (key, value.to_owned())
        });
        let is_used = |key: &str| is_driver(key) || IDENTITY.contains(&key);
        let used = self.settings.iter().filter(|(key, _)| is_used(key)).cloned();
        Ok(configured(git, &used.chain(off).collect::<Vec<_>>()))
    }

    fn format_settings(&self) -> String {
        let is_word = |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match self.format.as_deref().filter(is_word) {
            Some(format) => format!(
                "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = {format}\n"
            ),
            None => "[core]\n\trepositoryformatversion = 0\n".to_owned(),
        }
    }

    /// The list of ignored files of the repository. Ignored files are no part of any work, so an agent that writes
    /// this list can hide nothing but what is not merged either.
    fn ignored(&self) -> Vec<u8> {
        read_list(&self.common.join("info/exclude"))
    }

    /// Removes the directories of killed processes, which hold their locks no more.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.common).into_iter().flatten().flatten() {
            let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
            // One that is just being made is not locked yet.
            if !is_ours || !is_old(&entry.path()) {
                continue;
            }
            let is_stale =
                match files::open_here(&entry.path().join("lock"), Links::Refuse, u64::MAX) {
                    Ok(lock) => lock.try_lock().is_ok(),
                    Err(Unreadable::Io(error)) => error.kind() == ErrorKind::NotFound,
                    Err(_) => false,
                };
            if is_stale {
                // Another process may remove it at the same time.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

pub(super) struct Private {
    dir: PathBuf,
    git: Git,
    _lock: File,
}

impl Private {
    /// Git in this directory, with no files, no index and no attributes.
    pub(super) fn git(&self) -> &Git {
        &self.git
    }

    /// The same with the attributes of a commit.
    pub(super) fn with_attributes(&self, commit: &str) -> Git {
        self.git.with("GIT_ATTR_SOURCE", commit)
    }

    /// The same for the files of a checkout, with an index that is empty at first.
    pub(super) fn on(&self, checkout: &Path, attributes: &str) -> Git {
        let git = self.with_attributes(attributes).at(checkout);
        git.with("GIT_WORK_TREE", checkout).with("GIT_INDEX_FILE", self.dir.join("index"))
    }

    pub(super) fn with_input(&self, git: &Git, input: &[u8]) -> Result<Git, GitError> {
        self.write("input", input)?;
        let path = self.dir.join("input");
        Ok(git.with_stdin(File::open(&path).map_err(GitError::io("open", path))?))
    }

    /// Checks that the objects that only the second tree or commit has match their names. Git does not check when it reads
    /// them, and an agent can write other contents into the files of objects.
    pub(super) fn check_objects(&self, from: &str, to: &str) -> Result<(), GitError> {
        let git = self.with_input(self.git(), format!("{to}\n^{from}\n").as_bytes())?;
        let copied = self.dir.join("check");
        let plain = ["--revs", "--quiet", "--no-reuse-object", "--window=0", "--compression=0"];
        let words = ["pack-objects"].into_iter().chain(plain).map(OsStr::new);
        let name = git.run(words.chain([copied.as_os_str()]))?.line();
        let pack = self.dir.join(format!("check-{name}.pack"));
        let words = ["index-pack", "--verify"].map(OsStr::new).into_iter();
        match git.try_run(words.chain([pack.as_os_str()]))?.code {
            0 => Ok(()),
            _ => Err(GitError::Forged(to.to_owned())),
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), GitError> {
        let path = self.dir.join(name);
        fs::write(&path, bytes).map_err(GitError::io("write", path))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // What stays is swept the next time.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A list in a file of the repository; empty if it cannot be read.
fn read_list(path: &Path) -> Vec<u8> {
    files::read(&RealDisk, path, Links::Refuse, LONGEST_LIST).ok().flatten().unwrap_or_default()
}

/// Git with settings in variables: a key on a command line must not contain `=`.
fn configured(git: &Git, settings: &[(String, String)]) -> Git {
    let mut git = git.with("GIT_CONFIG_COUNT", settings.len().to_string());
    for (nth, (key, value)) in settings.iter().enumerate() {
        git = git.with(&format!("GIT_CONFIG_KEY_{nth}"), key);
        git = git.with(&format!("GIT_CONFIG_VALUE_{nth}"), value);
    }
    git
}

fn is_kept(key: &str) -> bool {
    KEPT.contains(&key) || IDENTITY.contains(&key) || is_driver(key)
}

/// Whether a key is about a filter or a merge driver, which attributes name.
fn is_driver(key: &str) -> bool {
    let mut parts = key.splitn(2, '.');
    match (parts.next(), parts.next().and_then(|rest| rest.rsplit_once('.'))) {
        (Some("filter"), Some((_, what))) => {
            matches!(what, "clean" | "smudge" | "process" | "required")
        }
        (Some("merge"), Some((_, what))) => matches!(what, "driver" | "recursive" | "name"),
        _ => false,
    }
}

/// Whether a directory is older than the time it takes to lock it.
fn is_old(dir: &Path) -> bool {
    let modified = fs::symlink_metadata(dir).and_then(|found| found.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age.as_secs() > 60))
}

#[cfg(test)]
mod tests {
    use super::super::scene::Scene;
    use super::*;

    fn pinned(scene: &Scene) -> (Git, Pinned) {
        let git = Git::new(&scene.top, &scene.world);
        let pinned = Pinned::read(&git, &scene.top.join(".git")).unwrap();
        (git, pinned)
    }

    #[test]
    fn settings_hold_as_they_were() {
        let scene = Scene::new();
        scene.git(&["config", "filter.known=x.clean", "true"]);
        scene.git(&["config", "core.autocrlf", "input"]);
        let (git, pinned) = pinned(&scene);
        scene.git(&["config", "filter.known=x.clean", "false"]);
        scene.git(&["config", "filter.new.clean", "false"]);
        scene.git(&["config", "filter.new.required", "true"]);
        scene.git(&["config", "core.autocrlf", "true"]);
        scene.git(&["config", "alias.x", "status"]);
        scene.git(&["config", "user.name", "An Agent"]);
        let private = pinned.open(&git).unwrap();
        let listed = private.git().run(["config", "--list"]).unwrap().line();
        let has = |setting: &str| listed.lines().filter(|line| *line == setting).count();
        assert_eq!((has("filter.known=x.clean=true"), has("core.autocrlf=input")), (1, 1));
        for foreign in ["filter.new", "alias.x", "autocrlf=true"] {
            assert!(!listed.contains(foreign), "{foreign}: {listed}");
        }
        let checkout = pinned.as_configured(&git).unwrap();
        let value = |key: &str| checkout.run(["config", "--get", key]).unwrap().line();
        assert_eq!(value("filter.known=x.clean"), "true");
        assert_eq!(value("filter.new.clean"), "");
        assert_eq!(value("filter.new.required"), "false");
        assert_eq!(value("user.name"), "A Person");
    }

    #[test]
    fn what_a_killed_process_left_is_swept() {
        let scene = Scene::new();
        let (git, pinned) = pinned(&scene);
        let names = || {
            let found = fs::read_dir(scene.top.join(".git")).unwrap().flatten();
            let names = found.map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.filter(|name| name.starts_with(PREFIX)).count()
        };
        scene.write(".git/autoloop-git-0-0/lock", "").write(".git/autoloop-git-0-1/HEAD", "");
        let age = |dir: &Path| {
            let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(9);
            File::open(dir).unwrap().set_modified(long_ago).unwrap();
        };
        let held = pinned.open(&git).unwrap();
        assert_eq!(names(), 3, "they may be in the making");
        for name in ["autoloop-git-0-0", "autoloop-git-0-1"] {
            age(&scene.top.join(".git").join(name));
        }
        age(&held.dir);
        let other = pinned.open(&git).unwrap();
        assert_eq!(names(), 2, "one that is held stays");
        drop((held, other));
        assert_eq!(names(), 0);
    }

    #[test]
    fn a_pipe_in_place_of_a_list_makes_nobody_wait() {
        let scene = Scene::new();
        let (_, pinned) = pinned(&scene);
        let list = scene.top.join(".git/info/exclude");
        fs::write(&list, "mine\n").unwrap();
        assert_eq!(pinned.ignored(), b"mine\n");
        fs::remove_file(&list).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&list).status().unwrap();
        assert!(made.success());
        assert_eq!(pinned.ignored(), b"");
    }

    #[test]
    fn drivers_are_told_from_other_settings() {
        for key in ["filter.a.clean", "filter.a.b.process", "merge.x.driver"] {
            assert!(is_driver(key), "{key}");
        }
        for key in ["filter.clean", "merge.renames", "core.eol", "filter.a.other", "merge.x.tool"] {
            assert!(!is_driver(key), "{key}");
        }
    }
}
