//! The state directory, and the end of the journal in it.

use std::fs;
use std::io;
use std::path::Path;

use autoloop_core::record::parse;
use autoloop_runtime::filesystem::{FileSystem, Volume, volume};
use autoloop_runtime::journal::Journal;
use autoloop_runtime::world::World;

use super::finding::Finding;
use crate::commands::settings::Located;
use crate::failure::Failure;

/// With less room than this a run will hardly come to its end.
const TOO_LITTLE: u64 = 50 << 20;
/// With less than this it may fill up.
const LITTLE: u64 = 1 << 30;
/// How much of the end of a journal is read.
const TAIL: u64 = 256 << 10;

/// Looks at the state directory and at its journal.
pub(super) fn check(located: &Located, world: &World) -> Vec<Finding> {
    let files = &located.files;
    vec![state_dir(&files.state_dir), journal(&*located.journal(world))]
}

fn state_dir(dir: &Path) -> Finding {
    const NAME: &str = "state";
    let shown = dir.display();
    let kind = match fs::symlink_metadata(dir) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return missing(dir),
        Err(error) => {
            let found = format!("{shown} cannot be looked at: {error}");
            return Finding::problem(
                NAME,
                found,
                "see that you may enter the directories above it",
            );
        }
    };
    if kind.is_symlink() {
        return Finding::problem(
            NAME,
            format!("{shown} is a symbolic link, and journals are never written through one"),
            "name the real directory in core.state_dir",
        );
    }
    if !kind.is_dir() {
        let advice = "move it away, or name another directory in core.state_dir";
        return Finding::problem(NAME, format!("{shown} is not a directory"), advice);
    }
    match volume(dir) {
        Ok(volume) => of_volume(&shown.to_string(), &volume),
        Err(error) => Finding::problem(
            NAME,
            format!("{shown} cannot be looked at: {error}"),
            "see that you may enter it",
        ),
    }
}

/// Where there is none yet, what counts is the directory in which it will be made.
fn missing(dir: &Path) -> Finding {
    const NAME: &str = "state";
    let shown = dir.display();
    let is_there = |dir: &&Path| dir.as_os_str().is_empty() || dir.exists();
    let above = dir.ancestors().skip(1).find(is_there).unwrap_or(Path::new("."));
    let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
    match volume(above) {
        Ok(volume) => of_volume(&format!("{shown}, which the first run makes,"), &volume),
        Err(error) => Finding::problem(
            NAME,
            format!("{shown} cannot be made in {}: {error}", above.display()),
            "name another directory in core.state_dir",
        ),
    }
}

fn of_volume(shown: &str, volume: &Volume) -> Finding {
    const NAME: &str = "state";
    let free = in_short(volume.free);
    if !volume.is_writable {
        let advice = "make it writable for you, or name another directory in core.state_dir";
        return Finding::problem(NAME, format!("{shown} cannot be written to"), advice);
    }
    if volume.free < TOO_LITTLE {
        let found = format!("{shown} has {free} of free space left");
        return Finding::problem(NAME, found, "make room: every prompt and output is kept there");
    }
    let elsewhere = "keep it on a disk of this machine: name a directory there in core.state_dir";
    match (volume.system, volume.other_owner) {
        (FileSystem::Network(name), _) => Finding::warning(
            NAME,
            format!(
                "{shown} is on a network file system ({name}): locks may not hold there, and what was synced may be lost"
            ),
            elsewhere,
        ),
        (FileSystem::Program(name), _) => Finding::warning(
            NAME,
            format!(
                "{shown} is on a file system that a program serves ({name}): locks and syncs are what it makes of them"
            ),
            elsewhere,
        ),
        (FileSystem::Memory(name), _) => Finding::warning(
            NAME,
            format!("{shown} is in memory ({name}): a restart of the machine loses it"),
            elsewhere,
        ),
        (_, Some(owner)) => Finding::warning(
            NAME,
            format!("{shown} belongs to another user ({owner})"),
            "run loops as that user, or make the directory yours: chown -R",
        ),
        _ if volume.free < LITTLE => Finding::warning(
            NAME,
            format!("{shown} has {free} of free space left"),
            "make room: every prompt and output is kept there",
        ),
        (FileSystem::Local(name), None) => {
            Finding::ok(NAME, format!("{shown} can be written to; {name}, {free} free"))
        }
        (FileSystem::Unknown, None) => {
            Finding::ok(NAME, format!("{shown} can be written to; {free} free"))
        }
    }
}

/// Bytes in the unit that fits.
fn in_short(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

fn journal(journal: &dyn Journal) -> Finding {
    const NAME: &str = "journal";
    let shown = journal.path().display();
    match fs::metadata(journal.path()).map(|found| found.len()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Finding::ok(NAME, format!("{shown} does not exist yet"))
        }
        Err(error) => {
            let found = format!("{shown} cannot be looked at: {error}");
            Finding::problem(NAME, found, "see that you may enter the directories above it")
        }
        Ok(len) => match tail(journal, len) {
            Ok(bytes) => of_tail(&shown.to_string(), len, &bytes),
            Err(why) => {
                let advice = "move it away, or name another file in core.journal_file";
                Finding::problem(NAME, why.message(), advice)
            }
        },
    }
}

/// The end of the journal. No lock is taken to see it.
fn tail(journal: &dyn Journal, len: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    journal.copy(len.saturating_sub(TAIL)..len, &mut |more| {
        bytes.extend_from_slice(more);
        Ok(())
    })?;
    Ok(bytes)
}

fn of_tail(shown: &str, len: u64, tail: &[u8]) -> Finding {
    const NAME: &str = "journal";
    let size = in_short(len);
    if tail.last().is_some_and(|byte| *byte != b'\n') {
        return Finding::warning(
            NAME,
            format!("the last line of {shown} has no end: its writer died, or is at it now"),
            "nothing has to be done: the next writer ends the line and says so",
        );
    }
    let mut lines: Vec<&[u8]> = tail.split(|byte| *byte == b'\n').collect();
    lines.pop();
    if len > tail.len() as u64 && !lines.is_empty() {
        // The beginning of the first line was not read.
        lines.remove(0);
    }
    match lines.iter().filter(|line| parse(line).is_err()).count() {
        0 => {
            let last = match lines.len() {
                0 => "it holds one giant record at its end".to_owned(),
                1 => "its last line is a record".to_owned(),
                last => format!("its last {last} lines are records"),
            };
            let last = if len == 0 { "nothing is in it".to_owned() } else { last };
            Finding::ok(NAME, format!("{shown} has {size}, and {last}"))
        }
        bad => Finding::warning(
            NAME,
            format!("not a record: {bad} of the last {} lines of {shown}", lines.len()),
            "nothing has to be done: they are passed over. `autoloop journal verify` names each",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::report;
    use super::*;

    const GOOD: Volume = Volume {
        system: FileSystem::Local("ext4"),
        free: 7 << 30,
        is_writable: true,
        other_owner: None,
    };

    #[test]
    fn each_lack_of_a_state_directory_is_told() {
        let findings = [
            GOOD,
            Volume { is_writable: false, ..GOOD },
            Volume { free: 3 << 20, ..GOOD },
            Volume { free: 300 << 20, ..GOOD },
            Volume { system: FileSystem::Network("nfs"), ..GOOD },
            Volume { system: FileSystem::Program("fuse"), ..GOOD },
            Volume { system: FileSystem::Memory("tmpfs"), ..GOOD },
            Volume { system: FileSystem::Unknown, ..GOOD },
            Volume { other_owner: Some(0), ..GOOD },
        ]
        .map(|volume| of_volume(".autoloop", &volume));
        insta::assert_snapshot!(report(&findings, crate::style::Color::No), @r"
        ok       state  .autoloop can be written to; ext4, 7 GiB free
        problem  state  .autoloop cannot be written to
                        -> make it writable for you, or name another directory in core.state_dir
        problem  state  .autoloop has 3 MiB of free space left
                        -> make room: every prompt and output is kept there
        warning  state  .autoloop has 300 MiB of free space left
                        -> make room: every prompt and output is kept there
        warning  state  .autoloop is on a network file system (nfs): locks may not hold there, and what was synced may be lost
                        -> keep it on a disk of this machine: name a directory there in core.state_dir
        warning  state  .autoloop is on a file system that a program serves (fuse): locks and syncs are what it makes of them
                        -> keep it on a disk of this machine: name a directory there in core.state_dir
        warning  state  .autoloop is in memory (tmpfs): a restart of the machine loses it
                        -> keep it on a disk of this machine: name a directory there in core.state_dir
        ok       state  .autoloop can be written to; 7 GiB free
        warning  state  .autoloop belongs to another user (0)
                        -> run loops as that user, or make the directory yours: chown -R
        ");
    }

    #[test]
    fn only_the_end_of_a_journal_is_judged() {
        let good =
            r#"{"run": "r", "iteration": "", "topic": "t", "payload": "", "source": "agent"}"#;
        let told = |len: u64, tail: &str| of_tail("j", len, tail.as_bytes()).found;
        let two = format!("{good}\n{good}\n");
        assert_eq!(told(two.len() as u64, &two), "j has 0 KiB, and its last 2 lines are records");
        // Somewhere in the middle of a long file.
        let cut = format!("end of a line\n{good}\n");
        assert_eq!(told(1 << 30, &cut), "j has 1 GiB, and its last line is a record");
        assert_eq!(told(cut.len() as u64, &cut), "not a record: 1 of the last 2 lines of j");
        assert!(told(9, "{\"run\": \"").contains("has no end"));
        assert_eq!(told(0, ""), "j has 0 KiB, and nothing is in it");
    }
}
