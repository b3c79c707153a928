//! The key by which this user's harnesses recognise what one of them wrote.
//!
//! It is in a file of its own that only the user can read, outside of every project, so that no copy of a
//! project and no confined agent has it. A process of the same user that is not confined can read it: the
//! key proves that a file was not damaged, swapped or edited, not that no such process wrote it.

#![expect(
    clippy::disallowed_methods,
    reason = "the key of the user is a real file outside of every project"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use autoloop_core::provenance::RunKey;
use rustix::fs::OFlags;

use super::Entropy;
use crate::private_files;

const LENGTH: usize = 32;

/// A keyed digest, cut to 128 bits.
pub type KeyedDigest = u128;

#[derive(Clone, Copy)]
pub struct Key([u8; LENGTH]);

impl Key {
    /// The key that seals the records of a run.
    pub fn of_run(&self, run: &str) -> RunKey {
        RunKey::new(&self.0, run)
    }

    /// The keyed digest of several parts, for one purpose: a seal for one is no seal for another.
    pub fn seal(&self, purpose: &str, parts: &[&[u8]]) -> KeyedDigest {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in [purpose.as_bytes()].iter().chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut half = [0; 16];
        hasher.finalize_xof().fill(&mut half);
        KeyedDigest::from_be_bytes(half)
    }
}

/// Where the key comes from. It is read or made when it is first needed.
pub struct Secret {
    place: Option<PathBuf>,
    key: OnceLock<Option<Key>>,
}

impl Secret {
    /// The key in a file, which is made when there is none; without a file there is no key.
    pub fn in_file(place: Option<PathBuf>) -> Self {
        Secret { place, key: OnceLock::new() }
    }

    /// A key that is known: for worlds that follow from a seed.
    pub fn fixed(key: [u8; LENGTH]) -> Self {
        Secret { place: None, key: OnceLock::from(Some(Key(key))) }
    }

    /// The usual file: `autoloop/key` in the directory for the state of the user's programs.
    pub fn default_path() -> Option<PathBuf> {
        let variable = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
        // By its specification, it counts only when it is absolute.
        let state_home = variable.filter(|dir| dir.is_absolute());
        let usual = || Some(std::env::home_dir()?.join(".local/state"));
        let dir = state_home.or_else(usual).filter(|dir| dir.is_absolute())?;
        Some(dir.join("autoloop/key"))
    }

    pub fn place(&self) -> Option<&Path> {
        self.place.as_deref()
    }

    /// The key; `None` where it cannot be kept: then nothing can be proven later.
    pub fn key(&self, entropy: &dyn Entropy) -> Option<Key> {
        *self.key.get_or_init(|| {
            let place = self.place.as_deref()?;
            read(place).or_else(|| {
                make(place, entropy).ok()?;
                read(place)
            })
        })
    }
}

/// Reads a key that no other user can read or write.
fn read(place: &Path) -> Option<Key> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).ok()?);
    let mut file = options.open(place).ok()?;
    let stat = file.metadata().ok()?;
    let is_private = stat.is_file()
        && stat.mode() & 0o077 == 0
        && stat.uid() == rustix::process::geteuid().as_raw();
    (is_private && stat.len() == LENGTH as u64).then_some(())?;
    let mut key = [0; LENGTH];
    file.read_exact(&mut key).ok()?;
    Some(Key(key))
}

/// Makes a key. Of several processes that do so at once one succeeds, and all read that one. What stands
/// there and is no key is replaced.
fn make(place: &Path, entropy: &dyn Entropy) -> io::Result<()> {
    let dir = place.parent().unwrap_or(place);
    private_files::create_dirs(dir)?;
    let mut key = [0; LENGTH];
    entropy.fill(&mut key);
    let own = dir.join(format!("key.{:016x}", entropy.number()));
    let mut file = private_files::create_file(&own, private_files::Use::Data)?;
    let written = file.write_all(&key).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| match fs::hard_link(&own, place) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match read(place) {
            Some(_) => Ok(()),
            None => fs::rename(&own, place),
        },
        // Not every file system has links.
        Err(_) => fs::rename(&own, place),
        Ok(()) => Ok(()),
    });
    // After a rename it is gone already.
    let _ = fs::remove_file(&own);
    placed?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread;

    use super::*;
    use crate::world::OsEntropy;

    fn key(place: &Path) -> Option<[u8; LENGTH]> {
        Some(Secret::in_file(Some(place.to_owned())).key(&OsEntropy)?.0)
    }

    #[test]
    fn a_key_is_made_once_and_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("state/autoloop/key");
        let made: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| key(&place))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(made[0].is_some());
        assert!(made.iter().all(|key| *key == made[0]));
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(place.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_key_is_replaced_and_never_used() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("key");
        fs::write(&place, [7; LENGTH]).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o644)).unwrap();
        let made = key(&place);
        assert!(made.is_some_and(|key| key != [7; LENGTH]));
        assert_eq!(key(&place), made);
        fs::write(&place, b"short").unwrap();
        assert!(key(&place).is_some_and(|key| Some(key) != made));
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(&place, &elsewhere).unwrap();
        symlink(&elsewhere, &place).unwrap();
        assert!(key(&place).is_some_and(|key| fs::read(&elsewhere).unwrap() != key));
        fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(key(&dir.path().join("file/key")), None);
    }

    #[test]
    fn parts_and_purposes_do_not_run_into_each_other() {
        let key = Key([1; LENGTH]);
        assert_ne!(key.seal("a", &[b"bc", b"d"]), key.seal("a", &[b"b", b"cd"]));
        assert_ne!(key.seal("a", &[b"b"]), key.seal("ab", &[b""]));
        assert_ne!(key.seal("a", &[b"b"]), Key([2; LENGTH]).seal("a", &[b"b"]));
    }
}
