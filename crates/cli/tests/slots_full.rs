//! Slots on a disk that fills up: no item fails, and the run can be resumed once there is room.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{assert_success, part, skip};
use autoloop_testkit::slots::{self, Agents, GOOD, git, outcomes, told};

const BINARY: &str = env!("CARGO_BIN_EXE_autoloop");

#[test]
fn part_of_a_child() {
    match part().as_deref() {
        None => {}
        Some("fill the disk") => fill_the_disk(),
        Some(other) => panic!("there is no part {other}"),
    }
}

#[test]
fn a_disk_that_fills_up_stops_a_run_and_fails_no_item() {
    let sandbox = Sandbox::new(BINARY);
    let Some(mut command) = sandbox.play_on_small_disk("fill the disk", "20m") else {
        return skip(
            "a_disk_that_fills_up_stops_a_run_and_fails_no_item",
            "no disk may be mounted here",
        );
    };
    // The project is created among the temporary files.
    command.env("TMPDIR", sandbox.path("small"));
    assert_success(&command.output().unwrap());
}

/// Creates a large file, which is in every later worktree too. The third one also fills the disk
/// and leaves room for the journal only.
const FILLS: &str = "head -c 300000 /dev/urandom > \"made-$AUTOLOOP_ITEM_ID\" || exit 1
    [ $AUTOLOOP_ITEM_ID = t-3 ] && [ ! -e \"$HOME/filler\" ] && { cat /dev/zero > \"$HOME/filler\"; truncate -s -49152 \"$HOME/filler\"; }
    true";

fn fill_the_disk() {
    let sandbox = slots::repository(BINARY, Agents { implement: FILLS, ..GOOD }, (6, ""));
    fs::create_dir_all(sandbox.path("home")).unwrap();
    let begun = sandbox.run(&["slots", "--review", "--parallel-agents", "2"]);
    assert_eq!(begun.code, Some(1), "{begun}");
    assert!(begun.stderr.contains("hint: free some space"), "{begun}");
    assert!(!outcomes(&sandbox).concat().contains("failed"), "{begun}");
    // The first step that meets the full disk reports it.
    let again = told(&sandbox, &["slots", "--resume"]);
    assert!(again.starts_with("exit 1\n") && again.contains("hint: free some space"), "{again}");
    assert!(again.contains("then resume it with `autoloop slots --resume="), "{again}");
    assert!(!outcomes(&sandbox).concat().contains("failed"));

    fs::write(sandbox.path("home/filler"), "").unwrap();
    let resumed = sandbox.run(&["slots", "--resume"]);
    assert_eq!(resumed.code, Some(0), "{resumed}");
    assert_eq!(outcomes(&sandbox).len(), 6, "{resumed}");
    let mut reviewed = sandbox.fields("slot.review", "item_id");
    reviewed.sort();
    assert_eq!(reviewed, ["t-1", "t-2", "t-3", "t-4", "t-5", "t-6"], "each once");
    for item in 1..=6 {
        let size = git(&sandbox, &["cat-file", "-s", &format!("HEAD:made-t-{item}")]);
        assert_eq!(size, "300000", "t-{item}");
    }
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    assert_eq!(git(&sandbox, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(&sandbox, &["branch", "--list", "autoloop/*"]), "");
}
