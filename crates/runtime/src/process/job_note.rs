//! Notes about running jobs, which name their harness for the sweep after a crash.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, getpid};

use crate::files::{self, Links, Unreadable};
use crate::private_files;
use crate::procfs;
use crate::world::RealDisk;

const LONGEST: u64 = 1024;

/// A file whose name is the token of the job.
#[derive(Debug)]
pub(crate) struct Note {
    path: PathBuf,
}

/// The process that runs the job: an id alone could belong to another process by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Harness {
    pid: Pid,
    started: u64,
    boot: String,
}

impl Note {
    pub(crate) fn create(notes: &Path, token: &str) -> io::Result<Self> {
        if !is_token(token) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a job with a note needs a token of letters and digits",
            ));
        }
        Note::write(notes, token).map_err(|error| {
            let message = format!("cannot write a note to {}: {error}", notes.display());
            io::Error::new(error.kind(), message)
        })
    }

    /// Under another name first: a sweep must not see a note without its text.
    fn write(notes: &Path, token: &str) -> io::Result<Self> {
        let path = notes.join(token);
        let unfinished = path.with_extension("new");
        let line = Harness::this().to_string();
        let mut file = match private_files::create_file(&unfinished, private_files::Use::Data) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                private_files::create_dirs(notes)?;
                private_files::create_file(&unfinished, private_files::Use::Data)?
            }
            file => file?,
        };
        file.write_all(line.as_bytes())?;
        fs::rename(&unfinished, &path)?;
        Ok(Note { path })
    }

    pub(crate) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// One that cannot be removed costs the next start a look.
    pub(crate) fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

pub(super) fn all(notes: &Path) -> io::Result<Vec<(String, Option<Harness>)>> {
    let entries = match fs::read_dir(notes) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let Ok(token) = entry.file_name().into_string() else { continue };
        if is_token(&token) {
            let text = match files::read(&RealDisk, &entry.path(), Links::Refuse, LONGEST) {
                // No harness can have written this, so it is not a note.
                Err(Unreadable::NotAFile | Unreadable::TooLong { .. }) => continue,
                text => text.ok().flatten().unwrap_or_default(),
            };
            found.push((token, Harness::parse(&String::from_utf8_lossy(&text))));
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl Harness {
    fn this() -> Self {
        let pid = getpid();
        let started = procfs::look(pid).map_or(0, |seen| seen.started);
        Harness { pid, started, boot: procfs::boot() }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        Some(Harness {
            pid: procfs::pid(words.next()?.parse().ok()?)?,
            started: words.next()?.parse().ok()?,
            boot: words.next().unwrap_or_default().to_owned(),
        })
    }

    pub(super) fn is_gone(&self) -> bool {
        procfs::look(self.pid).is_none_or(|seen| seen.started != self.started)
    }

    pub(super) fn is_of_this_boot(&self) -> bool {
        self.boot == procfs::boot()
    }
}

impl std::fmt::Display for Harness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} {} {}", self.pid.as_raw_nonzero(), self.started, self.boot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_its_harness_until_it_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let notes = dir.path().join("state/shims");
        let note = Note::create(&notes, "abc1").unwrap();
        let found = all(&notes).unwrap();
        assert_eq!(found, [("abc1".to_owned(), Some(Harness::this()))]);
        note.remove();
        assert_eq!(all(&notes).unwrap(), []);
    }

    #[test]
    fn only_tokens_are_names_of_notes() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Note::create(dir.path(), "../out").is_err());
        assert!(Note::create(dir.path(), "").is_err());
        std::fs::write(dir.path().join("README.txt"), "1 2 3").unwrap();
        assert_eq!(all(dir.path()).unwrap(), []);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_reused_process_id_is_not_the_harness() {
        let this = Harness::this();
        assert!(!this.is_gone());
        assert!(this.is_of_this_boot());
        assert!(Harness { started: this.started + 1, ..this.clone() }.is_gone());
        assert!(!Harness { boot: "another".into(), ..this }.is_of_this_boot());
        assert_eq!(Harness::parse("no note"), None);
    }
}
