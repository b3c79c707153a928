//! What a harness leaves behind when it is killed during a metareview.

use std::fs;

use autoloop_testkit::sandbox::until;

use super::{Layer, Project};

/// Kills the harness as soon as its reviewer is running. The agent does nothing from then on.
fn kill_during_a_review(layer: Layer) -> Project {
    let review = "$T emit issue.discovered 'id=i-1;summary=x;'; while :; do sleep 1; done";
    let mut project = layer.project(review);
    if layer == Layer::Overlay {
        let temporary = project.sibling.path().join("a-b");
        fs::create_dir(&temporary).unwrap();
        project.sandbox = project.sandbox.env("TMPDIR", &temporary);
    }
    let sandbox = &project.sandbox;
    fs::rename(sandbox.path("autoloops.toml"), sandbox.path("autoloops.conf")).unwrap();
    let mut harness = sandbox.command().args(["run", ".", "-i", "2"]).spawn().unwrap();
    until("the review", || {
        (!sandbox.fields("issue.discovered", "source").is_empty()).then_some(())
    });
    harness.kill().unwrap();
    harness.wait().unwrap();
    sandbox.write("agent.sh", "");
    project
}

/// The private directories of reviews among the temporary files.
fn private_directories(project: &Project) -> Vec<String> {
    let mut found = Vec::new();
    for place in ["a-b", "a,b"].map(|name| project.sibling.path().join(name)) {
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        found.extend(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    }
    found
}

#[test]
fn the_settings_of_a_killed_run_hold_when_it_is_resumed() {
    for layer in Layer::all() {
        let project = kill_during_a_review(layer);
        let sandbox = &project.sandbox;
        assert!(!sandbox.path("autoloops.toml").exists(), "{layer:?}");
        let output = sandbox.run(&["run", "--resume"]);
        // The agent that the older file names is started, and its review takes place.
        let iterations = sandbox.fields("iteration.finish", "exit_code");
        assert_eq!(iterations, ["0", "0"], "{layer:?}: {output}");
        assert_eq!(sandbox.fields("review.finish", "exit_code"), ["0"], "{layer:?}: {output}");
    }
}

#[test]
fn a_later_start_removes_what_a_killed_harness_left() {
    for layer in Layer::all() {
        for again in [&["run", "--resume"][..], &["run", ".", "-i", "1"]] {
            let project = kill_during_a_review(layer);
            let sandbox = &project.sandbox;
            let is_held = layer != Layer::Snapshot;
            assert_eq!(private_directories(&project).is_empty(), !is_held, "{layer:?}");
            let output = sandbox.run(again);
            assert_eq!(output.code, Some(1), "{layer:?}: {output}");
            assert_eq!(private_directories(&project), Vec::<String>::new(), "{layer:?} {again:?}");
            for missing in ["metareview.md", "roles", ".autoloop/plan.md", ".autoloop/context.md"] {
                assert!(!sandbox.path(missing).exists(), "{layer:?} {again:?}: {missing}");
            }
        }
    }
}
