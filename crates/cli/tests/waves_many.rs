//! A wave of many branches: all of them end, and the harness keeps few files open.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until};

const BRANCHES: usize = 200;
/// The files that a harness has open for itself: the journal, its locks, its standard streams.
const OWN_FILES: usize = 40;
/// The files that it has open for a running branch: two pipes, its lock, its notes, and one more
/// while it starts.
const FILES_A_BRANCH: usize = 5;

#[test]
fn two_hundred_branches_end_and_no_file_stays_open() {
    let agent = "case \"$AUTOLOOP_RUN_ID\" in *-wave-*)\necho found\n;; *)\n\
                 [ $N = 1 ] && $T emit explore.parallel --file list\n\
                 [ $N = 2 ] && { touch joined; while [ ! -e enough ]; do sleep 0.01; done; }\n\
                 true\n;; esac\n";
    let settings = format!("parallel.enabled = true\nparallel.max_branches = {BRANCHES}");
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, &settings);
    let list: String = (1..=BRANCHES).map(|number| format!("- part {number}\n")).collect();
    sandbox.write("list", list);
    let mut command = sandbox.command();
    command.args(["run", ".", "-i", "2"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    let open_files = || fs::read_dir(format!("/proc/{}/fd", harness.0.id())).unwrap().count();
    let mut most = 0;
    until("the run to go on after the wave", || {
        most = most.max(open_files());
        sandbox.path("joined").exists().then_some(())
    });
    let after = open_files();
    sandbox.write("enough", "");
    assert_eq!(harness.0.wait().unwrap().code(), Some(1));

    assert!(most <= OWN_FILES + FILES_A_BRANCH * BRANCHES, "{most} files were open");
    assert!(after <= OWN_FILES, "{after} files stayed open");
    assert_eq!(sandbox.fields("wave.branch.finish", "stop_reason"), ["max_iterations"; BRANCHES]);
    let ended: BTreeSet<_> =
        sandbox.fields("wave.branch.finish", "branch_id").into_iter().collect();
    assert_eq!(ended.len(), BRANCHES);
    assert_eq!(sandbox.fields("wave.join.finish", "joined_topic"), ["explore.parallel.joined"]);
    assert_eq!(sandbox.survivors(), "");
}
