//! The state directory, and the end of the journal in it.

use std::fs;
use std::io;
use std::path::Path;

use autoloop_core::record::parse;
use autoloop_runtime::filesystem::{FileSystem, Volume, volume};
use autoloop_runtime::journal::Journal;

use super::Finding;
use crate::failure::Failure;

/// Free space below which a run is unlikely to complete, in bytes.
const TOO_LITTLE: u64 = 50 << 20;
/// Free space below which a run may fill the disk.
const LITTLE: u64 = 1 << 30;
/// How much of the end of a journal is read.
const TAIL: u64 = 256 << 10;

pub(super) fn directory(dir: &Path) -> Finding {
    let shown = dir.display();
    let unreadable = |error: io::Error| {
        Finding::problem(format!("cannot read {shown}: {error}"), "allow access to it")
    };
    let kind = match fs::symlink_metadata(dir) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return missing(dir),
        Err(error) => return unreadable(error),
    };
    if kind.is_symlink() {
        return Finding::problem(
            format!("{shown} is a symbolic link; journals are not written through one"),
            "set core.state_dir to the real directory",
        );
    }
    if !kind.is_dir() {
        let advice = "move it away, or set core.state_dir to another directory";
        return Finding::problem(format!("{shown} is not a directory"), advice);
    }
    match volume(dir) {
        Ok(volume) => of_volume(&shown.to_string(), &volume),
        Err(error) => unreadable(error),
    }
}

/// Before the first run, checks the directory in which the state directory will be created.
fn missing(dir: &Path) -> Finding {
    let shown = dir.display();
    let is_there = |dir: &&Path| dir.as_os_str().is_empty() || dir.exists();
    let above = dir.ancestors().skip(1).find(is_there).unwrap_or(Path::new("."));
    let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
    match volume(above) {
        Ok(volume) => of_volume(&format!("{shown} (created by the first run)"), &volume),
        Err(error) => Finding::problem(
            format!("cannot create {shown} in {}: {error}", above.display()),
            "set core.state_dir to another directory",
        ),
    }
}

fn of_volume(shown: &str, volume: &Volume) -> Finding {
    let free = in_short(volume.free);
    if !volume.is_writable {
        let advice = "make it writable, or set core.state_dir to another directory";
        return Finding::problem(format!("{shown} is not writable"), advice);
    }
    let low = (format!("{shown} has {free} free"), "free space: all prompts and outputs are kept");
    if volume.free < TOO_LITTLE {
        return Finding::problem(low.0, low.1);
    }
    let elsewhere = "set core.state_dir to a directory on a local disk";
    let found = match (volume.system, volume.other_owner) {
        (FileSystem::Network(name), _) => format!(
            "{shown} is on a network file system ({name}): locks may not work, and synced data may be lost"
        ),
        (FileSystem::Program(name), _) => format!(
            "{shown} is on a file system served by a program ({name}): locks and syncs depend on it"
        ),
        (FileSystem::Memory(name), _) => {
            format!("{shown} is in memory ({name}): lost when the machine restarts")
        }
        (_, Some(owner)) => {
            return Finding::warning(
                format!("{shown} belongs to another user ({owner})"),
                "run loops as that user, or make the directory yours: chown -R",
            );
        }
        _ if volume.free < LITTLE => return Finding::warning(low.0, low.1),
        (FileSystem::Local(name), None) => {
            return Finding::ok(format!("{shown} is writable; {name}, {free} free"));
        }
        (FileSystem::Unknown, None) => {
            return Finding::ok(format!("{shown} is writable; {free} free"));
        }
    };
    Finding::warning(found, elsewhere)
}

/// Bytes in the unit that fits.
fn in_short(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

pub(super) fn journal(journal: &dyn Journal) -> Finding {
    let shown = journal.path().display();
    let len = match fs::metadata(journal.path()) {
        Ok(found) => found.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Finding::ok(format!("{shown} does not exist yet"));
        }
        Err(error) => {
            return Finding::problem(format!("cannot read {shown}: {error}"), "allow access to it");
        }
    };
    match tail(journal, len) {
        Ok(bytes) => of_tail(&shown.to_string(), len, &bytes),
        Err(why) => {
            let advice = "move it away, or set core.journal_file to another file";
            Finding::problem(why.message(), advice)
        }
    }
}

/// The end of the journal, read without its lock.
fn tail(journal: &dyn Journal, len: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    journal.copy(len.saturating_sub(TAIL)..len, &mut |more| {
        bytes.extend_from_slice(more);
        Ok(())
    })?;
    Ok(bytes)
}

fn of_tail(shown: &str, len: u64, tail: &[u8]) -> Finding {
    if tail.last().is_some_and(|byte| *byte != b'\n') {
        return Finding::warning(
            format!("the last line of {shown} is torn: its writer died, or is writing now"),
            "do nothing: the next writer ends the line and records the repair",
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
                _ if len == 0 => "it is empty".to_owned(),
                0 => "it ends with one giant record".to_owned(),
                1 => "its last line is a record".to_owned(),
                last => format!("its last {last} lines are records"),
            };
            Finding::ok(format!("{shown} has {}, and {last}", in_short(len)))
        }
        bad => Finding::warning(
            format!("not a record: {bad} of the last {} lines of {shown}", lines.len()),
            "do nothing: they are skipped. `autoloop journal verify` lists each",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report;
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
        .map(|volume| of_volume(".autoloop", &volume).of("state"));
        insta::assert_snapshot!(report(&findings, crate::style::Color::No), @"
        ok       state  .autoloop is writable; ext4, 7 GiB free
        problem  state  .autoloop is not writable
                        -> make it writable, or set core.state_dir to another directory
        problem  state  .autoloop has 3 MiB free
                        -> free space: all prompts and outputs are kept
        warning  state  .autoloop has 300 MiB free
                        -> free space: all prompts and outputs are kept
        warning  state  .autoloop is on a network file system (nfs): locks may not work, and synced data may be lost
                        -> set core.state_dir to a directory on a local disk
        warning  state  .autoloop is on a file system served by a program (fuse): locks and syncs depend on it
                        -> set core.state_dir to a directory on a local disk
        warning  state  .autoloop is in memory (tmpfs): lost when the machine restarts
                        -> set core.state_dir to a directory on a local disk
        ok       state  .autoloop is writable; 7 GiB free
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
        assert!(told(9, "{\"run\": \"").contains("is torn"));
        assert_eq!(told(0, ""), "j has 0 KiB, and it is empty");
    }
}
