//! Paths that are no journal.

use autoloop_runtime::journal::{AppendError, Journal, Position, ReadError, Unsuitable};
use autoloop_testkit::SimDisk;

use super::model::*;

fn refused(disk: &SimDisk) -> (Unsuitable, String) {
    match journal(disk).append(&news(&["a"]), SYNCED) {
        Err(error @ AppendError::Unsuitable { .. }) => {
            let words = error.to_string();
            let AppendError::Unsuitable { why, .. } = error else { unreachable!() };
            (why, words)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_link_is_never_written_through() {
    let disk = new_disk();
    disk.set_contents("/etc/passwd", b"victim\n");
    disk.plant_symlink(PATH, "/etc/passwd");
    let (why, words) = refused(&disk);
    assert_eq!(why, Unsuitable::Symlink);
    assert_eq!(
        words,
        "/home/state/journal.jsonl is or is below a symbolic link; a journal is not written through links"
    );
    assert_eq!(disk.contents("/etc/passwd"), b"victim\n");
}

#[test]
fn a_link_to_nothing_makes_no_file() {
    let disk = new_disk();
    disk.plant_dir("/etc");
    disk.plant_symlink(PATH, "/etc/cron");
    assert_eq!(refused(&disk).0, Unsuitable::Symlink);
    assert!(!disk.exists("/etc/cron"));
}

#[test]
fn a_linked_state_directory_is_refused() {
    let disk = new_disk();
    disk.plant_dir("/elsewhere");
    disk.plant_symlink("/home/state", "/elsewhere");
    assert_eq!(refused(&disk).0, Unsuitable::Symlink);
    assert!(!disk.exists("/elsewhere/journal.jsonl"));

    let disk = new_disk();
    disk.plant_symlink("/home/state", "/nowhere");
    assert_eq!(refused(&disk).0, Unsuitable::Symlink);
    assert!(!disk.exists("/nowhere"));
}

#[test]
fn a_link_higher_up_is_the_user_s_own_choice() {
    let disk = new_disk();
    disk.plant_dir("/big/disk");
    disk.plant_symlink("/home", "/big/disk");
    journal(&disk).append(&news(&["a"]), SYNCED).unwrap();
    assert!(disk.exists("/big/disk/state/journal.jsonl"));
}

#[test]
fn a_directory_and_a_pipe_are_refused() {
    let disk = new_disk();
    disk.plant_dir(PATH);
    let (why, words) = refused(&disk);
    assert_eq!(why, Unsuitable::Directory);
    assert_eq!(words, "/home/state/journal.jsonl is a directory, not a journal");

    let disk = new_disk();
    disk.plant_special(PATH);
    let (why, words) = refused(&disk);
    assert_eq!(why, Unsuitable::Special);
    assert_eq!(words, "/home/state/journal.jsonl is a pipe, a socket or a device, not a journal");
    assert_eq!(disk.bytes_appended(), 0);
    let read = journal(&disk).read(Position::START, &mut |_| std::ops::ControlFlow::Continue(()));
    assert!(
        matches!(read, Err(ReadError::Unsuitable { why: Unsuitable::Special, .. })),
        "{read:?}"
    );
}

#[test]
fn a_file_with_two_names_is_refused() {
    let disk = new_disk();
    disk.set_contents("/home/diary", b"victim");
    disk.plant_hard_link(PATH, "/home/diary");
    let (why, words) = refused(&disk);
    assert_eq!(why, Unsuitable::HardLinks(2));
    assert_eq!(words, "/home/state/journal.jsonl has 2 hard links; a journal must have one");
    assert_eq!(disk.contents("/home/diary"), b"victim");
}

#[test]
fn a_file_where_a_directory_should_be_is_an_error() {
    let disk = new_disk();
    disk.set_contents("/home/state", b"file");
    let error = journal(&disk).append(&news(&["a"]), SYNCED).unwrap_err();
    assert!(matches!(error, AppendError::Io { .. }), "{error:?}");
    assert_eq!(disk.contents("/home/state"), b"file");
}

/// A process that does not release the lock is named.
#[test]
fn a_lock_that_is_never_released_is_an_error() {
    use autoloop_runtime::world::{Access, Disk};

    let disk = new_disk();
    journal(&disk).append(&news(&["a"]), SYNCED).unwrap();
    let other = disk.as_process(77);
    let held = other.open(std::path::Path::new(PATH), Access::Append).unwrap();
    assert!(held.try_lock().unwrap());
    let before = disk.contents(PATH);
    let error = journal(&disk).append(&news(&["b"]), SYNCED).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/home/state/journal.jsonl has been locked for 3ms by process 77"
    );
    assert_eq!(disk.contents(PATH), before);
    disk.kill_process(77);
    journal(&disk).append(&news(&["b"]), SYNCED).unwrap();
}
