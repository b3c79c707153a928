//! The processes of this machine, as `/proc` shows them. Other systems show none.

#![expect(clippy::disallowed_methods, reason = "/proc is not simulated")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memchr::memmem;
use rustix::io::Errno;
use rustix::process::Pid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: Pid,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// Whether it has ended and was not waited for.
    pub(crate) is_dead: bool,
    /// In ticks since the machine was started.
    pub(crate) started: u64,
}

impl Seen {
    pub(crate) fn identity(&self) -> Identity {
        (self.pid.as_raw_nonzero().get(), self.started)
    }
}

/// The id of a process and its start in ticks: no other process has both.
pub(crate) type Identity = (i32, u64);

pub(crate) fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

pub(crate) fn id(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().cast_unsigned()
}

pub(crate) fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| pid(entry.file_name().to_str()?.parse().ok()?))
}

/// The status of a process; `None` when it is gone.
pub(crate) fn look(pid: Pid) -> Option<Seen> {
    parse(pid, &fs::read(of(pid, "stat")).ok()?)
}

/// The name in the second field may contain anything, also spaces and brackets.
fn parse(pid: Pid, stat: &[u8]) -> Option<Seen> {
    let after_name = memchr::memrchr(b')', stat)? + 1;
    let text = std::str::from_utf8(&stat[after_name..]).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let started = fields.nth(16)?.parse().ok()?;
    Some(Seen { pid, parent, group, is_dead, started })
}

pub(crate) fn children(of: Pid) -> Vec<Seen> {
    let of = of.as_raw_nonzero().get();
    all().filter_map(look).filter(|seen| seen.parent == of).collect()
}

/// The live processes with a word in their names. `None` where processes cannot be seen.
pub(crate) fn named(word: &str) -> Option<impl Iterator<Item = Seen>> {
    look(rustix::process::getpid())?;
    let is_named = move |pid: &Pid| {
        let name = fs::read_to_string(of(*pid, "comm"));
        name.is_ok_and(|name| name.contains(word))
    };
    Some(all().filter(is_named).filter_map(look).filter(|seen| !seen.is_dead))
}

/// The working directory of a process; `None` for another user's process and a deleted directory.
pub(crate) fn working_dir(pid: Pid) -> Option<PathBuf> {
    fs::read_link(of(pid, "cwd")).ok()?.canonicalize().ok()
}

/// The arguments and the environment that a process was started with; `None` for another user's process.
pub(crate) fn words(pid: Pid) -> Option<Vec<OsString>> {
    let mut text = fs::read(of(pid, "cmdline")).ok()?;
    text.extend(fs::read(of(pid, "environ")).ok()?);
    Some(text.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned()).collect())
}

/// Whether all processes can be seen: not in a container, and not where those of other users are hidden.
pub(crate) fn are_all_seen() -> bool {
    /// The initial namespace of Linux.
    const FIRST: &str = "pid:[4026531836]";
    let is_first = fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name == Path::new(FIRST));
    is_first && pid(1).and_then(look).is_some()
}

/// Whether a process is alive, also one of another user.
pub(crate) fn is_alive(pid: Pid) -> bool {
    match look(pid) {
        Some(seen) => !seen.is_dead,
        None => rustix::process::test_kill_process(pid) == Err(Errno::PERM),
    }
}

/// Whether the environment that a process was started with has this variable. False for processes of other users.
pub(crate) fn carries(pid: Pid, name: &str, value: &str) -> bool {
    let Ok(environment) = fs::read(of(pid, "environ")) else { return false };
    let wanted = format!("{name}={value}");
    memmem::find_iter(&environment, wanted.as_bytes()).any(|start| {
        let end = start + wanted.len();
        (start == 0 || environment[start - 1] == 0)
            && environment.get(end).is_none_or(|after| *after == 0)
    })
}

/// The id of this boot of the machine.
pub(crate) fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

fn of(pid: Pid, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/{file}", pid.as_raw_nonzero()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_behind_any_name() {
        let line = b"42 (a) b (c)) S 7 42 9 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 12345 1 2 3\n";
        let pid = pid(42).unwrap();
        let seen = Seen { pid, parent: 7, group: 42, is_dead: false, started: 12345 };
        assert_eq!(parse(pid, line), Some(seen));
        assert_eq!(parse(pid, b"42 (sh) S 7"), None);
        assert_eq!(parse(pid, b""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_seen_with_its_parent_and_its_environment() {
        let me = rustix::process::getpid();
        assert!(all().any(|pid| pid == me));
        let seen = look(me).unwrap();
        assert_eq!(Pid::from_raw(seen.parent), rustix::process::getppid());
        assert!(seen.started > 0 && is_alive(me));
        let path = std::env::var("PATH").unwrap();
        assert!(carries(me, "PATH", &path));
        assert!(!carries(me, "PATH", &path[..path.len() - 1]), "a part of the value is not it");
        assert!(!carries(me, "ATH", &path), "a part of the name is not it");
        assert_eq!(boot().len(), 36);
        assert_eq!(working_dir(me), std::env::current_dir().unwrap().canonicalize().ok());
        let words = words(me).unwrap();
        assert_eq!(words[0], std::env::args_os().next().unwrap());
        assert!(words.contains(&format!("PATH={path}").into()));
    }
}
