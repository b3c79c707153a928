//! The cost of a slot in processes: figures that do not depend on the load of the machine.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "all of this is a test")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::write_program;
use autoloop_testkit::slots::{self, Agents, GOOD};
use insta::assert_snapshot;

const IDLE: Agents<'_> = Agents { implement: "echo $PPID", ..GOOD };

/// A project in which every git that is started is counted.
fn counted(agents: Agents<'_>, tasks: usize) -> Sandbox {
    let sandbox = slots::repository(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, ""));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let real: PathBuf =
        std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.exists()).unwrap();
    let (bin, log) = (sandbox.path(".autoloop/bin"), sandbox.path(".autoloop/asked"));
    let script =
        format!("#!/bin/sh\necho \"$*\" >> {}\nexec {} \"$@\"\n", log.display(), real.display());
    write_program(bin.join("git"), script);
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path))).unwrap();
    sandbox.env("PATH", path)
}

/// The git commands of one more slot: those of six slots instead of four, halved.
fn asked_a_slot(agents: Agents<'_>, args: &[&str], dirty: &str) -> String {
    let mut asked = BTreeMap::<String, i32>::new();
    for (tasks, sign) in [(6, 1), (4, -1)] {
        let sandbox = counted(agents, tasks);
        if !dirty.is_empty() {
            sandbox.write(dirty, "not committed");
        }
        let output = sandbox.run(&[&["slots", "--review"], args].concat());
        assert_eq!(output.code, Some(0), "{output}");
        let asked_for = sandbox.read(".autoloop/asked");
        let asked_for = String::from_utf8_lossy(&asked_for);
        // The message of a commit may have several lines.
        for line in asked_for.lines().filter(|line| line.starts_with("-C ")) {
            let mut words = line.split(' ');
            let command = loop {
                match words.next() {
                    Some("-c" | "-C") => drop(words.next()),
                    word => break word.unwrap_or_default().to_owned(),
                }
            };
            *asked.entry(command).or_default() += sign;
        }
    }
    asked.retain(|_, count| *count != 0);
    asked
        .iter()
        .map(|(command, count)| format!("{command} {}\n", f64::from(*count) / 2.0))
        .collect()
}

#[test]
fn git_is_called_only_as_often_as_needed() {
    // The files are written as a tree four times: before the slot begins, when the implementer has ended, for the
    // review, and before the commit.
    assert_snapshot!(asked_a_slot(IDLE, &[], ""), @r"
    add 4
    cat-file 4
    commit-tree 1
    config 1
    diff 1
    hash-object 1
    ls-files 9
    read-tree 4
    rev-parse 4
    symbolic-ref 1
    update-index 4
    update-ref 1
    write-tree 5
    ");
    assert_snapshot!(asked_a_slot(IDLE, &[], "new"), @r"
    add 4
    cat-file 4
    commit-tree 2
    config 1
    diff 1
    hash-object 1
    ls-files 9
    read-tree 4
    rev-parse 4
    symbolic-ref 1
    update-index 4
    update-ref 1
    write-tree 5
    ");
    // Two at once, each in its own worktree.
    assert_snapshot!(asked_a_slot(IDLE, &["--parallel-agents", "2"], ""), @r"
    add 4
    config 1
    diff 1
    for-each-ref 2
    ls-files 10
    read-tree 4
    reset 1
    rev-parse 7.5
    symbolic-ref 1
    update-index 4
    update-ref 3
    worktree 1
    write-tree 4
    ");
}

#[test]
fn one_supervisor_does_for_a_whole_run() {
    let sandbox = counted(IDLE, 5);
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    let supervisors = sandbox.fields("slot.implement", "output");
    assert_eq!(supervisors.len(), 5);
    assert!(supervisors.iter().all(|one| *one == supervisors[0]), "{supervisors:?}");
    assert_eq!(sandbox.survivors(), "");
}
