//! `autoloop emit` where the journal's path is something else: nothing is lost or overwritten.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::skip;
use insta::assert_snapshot;

/// With a run, so that the journal is not read before it is written to.
fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop")).env("AUTOLOOP_RUN_ID", "r")
}

#[test]
fn a_directory() {
    let sandbox = sandbox();
    fs::create_dir_all(sandbox.journal_path()).unwrap();
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 1
    --- stderr
    autoloop: not stored: .autoloop/journal.jsonl is a directory, not a journal
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    ");
    assert_eq!(fs::read_dir(sandbox.journal_path()).unwrap().count(), 0);
}

#[test]
fn a_link_to_another_file() {
    let sandbox = sandbox();
    sandbox.write("victim", "precious").write(".autoloop/x", "");
    symlink(sandbox.path("victim"), sandbox.journal_path()).unwrap();
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 1
    --- stderr
    autoloop: not stored: .autoloop/journal.jsonl is or is below a symbolic link; a journal is not written through links
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    ");
    assert_eq!(sandbox.read("victim"), b"precious");
}

#[test]
fn a_link_to_nothing() {
    let sandbox = sandbox();
    sandbox.write(".autoloop/x", "");
    symlink(sandbox.path("victim"), sandbox.journal_path()).unwrap();
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 1
    --- stderr
    autoloop: not stored: .autoloop/journal.jsonl is or is below a symbolic link; a journal is not written through links
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    ");
    assert!(!sandbox.path("victim").exists());
}

#[test]
fn a_link_in_a_circle() {
    let sandbox = sandbox();
    sandbox.write(".autoloop/x", "");
    symlink("journal.jsonl", sandbox.journal_path()).unwrap();
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 1
    --- stderr
    autoloop: not stored: .autoloop/journal.jsonl is or is below a symbolic link; a journal is not written through links
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    ");
}

#[test]
fn a_state_directory_that_is_a_link() {
    let sandbox = sandbox();
    sandbox.write("elsewhere/journal.jsonl", "precious\n");
    symlink("elsewhere", sandbox.path(".autoloop")).unwrap();
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 1
    --- stderr
    autoloop: not stored: .autoloop/journal.jsonl is or is below a symbolic link; a journal is not written through links
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    ");
    assert_eq!(sandbox.read("elsewhere/journal.jsonl"), b"precious\n");
}

#[test]
fn a_state_directory_that_is_a_link_to_nothing() {
    let sandbox = sandbox();
    symlink("elsewhere", sandbox.path(".autoloop")).unwrap();
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 1
    --- stderr
    autoloop: not stored: .autoloop/journal.jsonl is or is below a symbolic link; a journal is not written through links
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    ");
    assert!(!sandbox.path("elsewhere").exists());
}

#[test]
fn a_project_that_is_reached_by_a_link() {
    let sandbox = sandbox();
    sandbox.write("real/x", "");
    symlink("real", sandbox.path("linked")).unwrap();
    let sandbox = sandbox.env("AUTOLOOP_PROJECT_DIR", "linked");
    assert_eq!(sandbox.emit(&["a"]).code, Some(0), "where a project lies is the user's choice");
    assert!(sandbox.path("real/.autoloop/journal.jsonl").exists());
}

#[test]
fn a_pipe() {
    let sandbox = sandbox();
    sandbox.write(".autoloop/x", "");
    let made = Command::new("mkfifo").arg(sandbox.journal_path()).status().unwrap();
    assert!(made.success());
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 1
    --- stderr
    autoloop: not stored: .autoloop/journal.jsonl is a pipe, a socket or a device, not a journal
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    ");
}

#[test]
fn a_device() {
    let sandbox = sandbox().env("AUTOLOOP_JOURNAL_FILE", "/dev/null");
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 1
    --- stderr
    autoloop: not stored: /dev/null is a pipe, a socket or a device, not a journal
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    ");
}

#[test]
fn a_file_with_two_names() {
    let sandbox = sandbox();
    sandbox.write("victim", "precious\n").write(".autoloop/x", "");
    fs::hard_link(sandbox.path("victim"), sandbox.journal_path()).unwrap();
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 1
    --- stderr
    autoloop: not stored: .autoloop/journal.jsonl has 2 hard links; a journal must have one
      hint: `find -samefile` shows the other names; remove them, or move the journal away and back by copying
    ");
    assert_eq!(sandbox.read("victim"), b"precious\n");
}

#[test]
fn a_file_where_a_directory_should_be() {
    let sandbox = sandbox();
    sandbox.write(".autoloop", "a file");
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 1
    --- stderr
    autoloop: not stored: cannot open .autoloop/journal.jsonl: Not a directory (os error 20)
    ");
    assert_eq!(sandbox.read(".autoloop"), b"a file");
    let deeper = sandbox.env("AUTOLOOP_STATE_DIR", ".autoloop/deeper/state");
    assert_snapshot!(deeper.emit(&["a"]), @"
    exit 1
    --- stderr
    autoloop: not stored: cannot open .autoloop/deeper/state/journal.jsonl: Not a directory (os error 20)
    ");
}

#[test]
fn a_place_where_nothing_can_be_made() {
    let sandbox = sandbox().env("AUTOLOOP_STATE_DIR", "/proc/nowhere/state");
    assert_snapshot!(sandbox.emit(&["a"]), @"
    exit 1
    --- stderr
    autoloop: not stored: cannot create the directory /proc/nowhere: No such file or directory (os error 2)
    ");
}

#[test]
fn a_name_that_is_too_long() {
    let sandbox = sandbox().env("AUTOLOOP_STATE_DIR", "x".repeat(300));
    let output = sandbox.emit(&["a"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("File name too long"), "{output}");
}

/// The same without a run: the journal is read first, and the error is as clear.
#[test]
fn the_latest_run_of_an_invalid_journal_is_an_error() {
    let said = |make: &dyn Fn(&Path)| {
        let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
        sandbox.write("victim", "precious\n").write(".autoloop/x", "");
        make(&sandbox.journal_path());
        let output = sandbox.emit(&["a"]);
        assert_eq!(sandbox.read("victim"), b"precious\n");
        output.to_string()
    };
    let directory = said(&|path| fs::create_dir(path).unwrap());
    let link = said(&|path| symlink("../victim", path).unwrap());
    let pipe = said(&|path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()));
    assert_snapshot!([directory, link, pipe].join("\n"), @"
    exit 1
    --- stderr
    autoloop: .autoloop/journal.jsonl is a directory, not a journal
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    exit 1
    --- stderr
    autoloop: not stored: .autoloop/journal.jsonl is or is below a symbolic link; a journal is not written through links
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    exit 1
    --- stderr
    autoloop: .autoloop/journal.jsonl is a pipe, a socket or a device, not a journal
      hint: move it away, or name another journal in AUTOLOOP_JOURNAL_FILE
    ");
}

/// A path that cannot be written to, by permission or, for the superuser, by attribute.
struct ReadOnly(PathBuf);

impl ReadOnly {
    /// `None` where nothing prevents this user from writing.
    fn make(path: PathBuf, can_write: impl Fn() -> bool) -> Option<Self> {
        let is_dir = path.is_dir();
        let mode = if is_dir { 0o555 } else { 0o444 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        let guard = ReadOnly(path);
        if can_write() {
            // Permissions do not apply to the superuser; the immutable attribute does.
            let _ = Command::new("chattr").arg("+i").arg(&guard.0).output();
        }
        (!can_write()).then_some(guard)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = Command::new("chattr").arg("-i").arg(&self.0).output();
        let _ = fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700));
    }
}

#[test]
fn a_file_that_may_not_be_written_to() {
    let sandbox = sandbox();
    sandbox.emit(&["earlier"]);
    let before = sandbox.journal();
    let path = sandbox.journal_path();
    let can_write = || fs::OpenOptions::new().append(true).open(&path).is_ok();
    let Some(read_only) = ReadOnly::make(path.clone(), can_write) else {
        return skip("a_file_that_may_not_be_written_to", "nothing binds this user here");
    };
    let output = sandbox.emit(&["a"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(
        output.stderr.starts_with("autoloop: not stored: cannot open .autoloop/journal.jsonl: "),
        "{output}"
    );
    assert_eq!(sandbox.journal(), before);
    drop(read_only);
    assert_eq!(sandbox.emit(&["a"]).code, Some(0), "it works again");
}

#[test]
fn a_directory_that_may_not_be_written_to() {
    let sandbox = sandbox();
    sandbox.write("closed/x", "");
    let dir = sandbox.path("closed");
    let can_write = || {
        fs::write(dir.join("probe"), "").and_then(|()| fs::remove_file(dir.join("probe"))).is_ok()
    };
    let Some(_read_only) = ReadOnly::make(dir.clone(), can_write) else {
        return skip("a_directory_that_may_not_be_written_to", "nothing binds this user here");
    };
    let emit_with = |name: &str, value: &str| {
        let mut command = sandbox.command();
        command.args(["emit", "a"]).env(name, value);
        sandbox.finish(command)
    };
    let output = emit_with("AUTOLOOP_PROJECT_DIR", "closed");
    assert_eq!(output.code, Some(1), "{output}");
    let expected = "autoloop: not stored: cannot create the directory closed/.autoloop: ";
    assert!(output.stderr.starts_with(expected), "{output}");
    let output = emit_with("AUTOLOOP_STATE_DIR", "closed");
    assert_eq!(output.code, Some(1), "{output}");
    let expected = "autoloop: not stored: cannot open closed/journal.jsonl: ";
    assert!(output.stderr.starts_with(expected), "{output}");
}

/// The emit is refused even where the refusal cannot be recorded.
#[test]
fn a_reserved_topic_where_no_journal_can_be() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    fs::create_dir_all(sandbox.journal_path()).unwrap();
    assert_snapshot!(sandbox.emit(&["loop.start"]), @"
    exit 3
    --- stderr
    autoloop: invalid event 'loop.start'; only the harness may write such topics; emit a topic of your own, like review.ready
      hint: the refusal could not be recorded: .autoloop/journal.jsonl is a directory, not a journal
    ");
}
