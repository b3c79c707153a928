//! Runs that do not end by themselves.

use std::process::Command;

use autoloop_testkit::model_server::{Reply, Request};
use autoloop_testkit::sandbox::{Reaped, until};

use crate::lab::{Lab, User, by_name};

const SETTINGS: &str = "event_loop.max_iterations = 1\nevent_loop.prompt = 'finish it'\n";

fn run(client: &str) -> Vec<String> {
    [vec!["run".to_owned(), ".".to_owned()], by_name(client)].concat()
}

pub(crate) fn a_hang_ends_at_the_deadline(client: &'static str) {
    let Some(lab) = Lab::new(client, User::Ours, |_: &Request| Reply::Hang) else { return };
    let settings = "backend.timeout_ms = 8000\nbackend.grace_ms = 1000\n";
    lab.sandbox.write("autoloops.toml", SETTINGS.to_owned() + settings);
    let output = lab.run(&run(client));
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(lab.sandbox.fields("iteration.finish", "timed_out"), ["true"], "{output}");
    assert_eq!(lab.sandbox.survivors(), "");
}

/// SIGTERM, and then SIGKILL in another run, while a tool works in a session of its own.
pub(crate) fn no_process_is_left_after_a_signal(client: &'static str) {
    let tool = "echo > started; exec python3 -c 'import time; time.sleep(600)'";
    let Some(lab) = Lab::new(client, User::Ours, move |_: &Request| Reply::shell(tool)) else {
        return;
    };
    lab.sandbox.write("autoloops.toml", SETTINGS);
    for signal in ["-TERM", "-KILL"] {
        let mut harness = Reaped::start(lab.command(&run(client)));
        let started = lab.sandbox.path("started");
        until("the tool", || started.exists().then_some(()));
        let mut kill = Command::new("kill");
        kill.arg(signal).arg(harness.0.id().to_string());
        assert!(kill.status().unwrap().success());
        let ended = harness.0.wait().unwrap();
        assert!(!ended.success(), "{signal}: {ended}");
        // The harness that is killed leaves the rest to the shim.
        until("the end of all", || lab.sandbox.survivors().is_empty().then_some(()));
        std::fs::remove_file(started).unwrap();
    }
    assert_eq!(lab.sandbox.fields("loop.stop", "reason"), ["interrupted"]);
}
