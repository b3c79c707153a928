//! Messages, packets, the gate and whole histories, through the binary, over the corpus.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use autoloop_testkit::Sandbox;
use insta::assert_snapshot;
use serde_json::Value;

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop"))
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/messages")
}

struct Case {
    file: String,
    kind: String,
    expected: String,
    gate: Option<String>,
    strength: String,
}

fn cases() -> Vec<Case> {
    let manifest = fs::read(corpus().join("manifest.json")).unwrap();
    let cases: Vec<BTreeMap<String, String>> = serde_json::from_slice(&manifest).unwrap();
    let case = |fields: BTreeMap<String, String>| Case {
        file: fields["file"].clone(),
        kind: fields["kind"].clone(),
        expected: fields["expected"].clone(),
        gate: fields.get("expected_gate").cloned(),
        strength: fields["strength"].clone(),
    };
    cases.into_iter().map(case).collect()
}

/// Whether the answer of a command agrees with the manifest.
fn agrees(case: &Case, accepted: bool, warned: bool) -> bool {
    match (case.strength.as_str(), case.expected.as_str()) {
        ("either", _) => true,
        (_, "accept") => accepted,
        ("should", _) => !accepted || warned,
        _ => !accepted,
    }
}

#[test]
fn files_of_the_corpus_are_judged_as_expected() {
    for (kind, command, count) in [
        ("message", &["mail", "validate"][..], 299),
        ("findings_packet", &["review", "packet", "check"], 63),
    ] {
        let cases: Vec<Case> = cases().into_iter().filter(|case| case.kind == kind).collect();
        // The long ones are written by the test of core.
        let cases: Vec<Case> =
            cases.into_iter().filter(|case| corpus().join(&case.file).exists()).collect();
        assert_eq!(cases.len(), count);
        let paths = cases.iter().map(|case| corpus().join(&case.file));
        let sandbox = sandbox();
        let output = sandbox.command().args(command).arg("--json").args(paths).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        let lines = String::from_utf8(output.stdout).unwrap();
        let answers: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), count);
        for (case, answer) in cases.iter().zip(answers) {
            assert!(answer["file"].as_str().unwrap().ends_with(&case.file), "{answer}");
            let accepted = answer["accepted"].as_bool().unwrap();
            assert_eq!(accepted, answer["errors"].as_array().unwrap().is_empty());
            let warned = !answer["warnings"].as_array().unwrap().is_empty();
            assert!(agrees(case, accepted, warned), "{answer}");
        }
    }
}

#[test]
fn the_gate_is_open_where_the_manifest_says_so() {
    let sandbox = sandbox();
    for case in cases().iter().filter(|case| case.gate.is_some() && case.strength == "must") {
        let path = corpus().join(&case.file);
        let code =
            sandbox.command().args(["review", "gate"]).arg(path).output().unwrap().status.code();
        let is_open = case.gate.as_deref() == Some("pass") && case.expected == "accept";
        assert_eq!(code, Some(if is_open { 0 } else { 3 }), "{}", case.file);
    }
}

#[test]
fn histories_are_judged_as_expected() {
    let sandbox = sandbox();
    let mut judged = 0;
    for case in cases().iter().filter(|case| case.kind == "workspace") {
        let mut dir = corpus().join(&case.file);
        if case.file.ends_with("packet_symlink_escape") {
            dir = sandbox.path("escape");
            let from = corpus().join(&case.file);
            copy(&from, &dir);
            let packets = dir.join("packets/findings");
            fs::create_dir_all(&packets).unwrap();
            let valid = corpus().join("packets/ok_open_blockers.yaml");
            std::os::unix::fs::symlink(valid, packets.join("20260213_review_loop_codex_r1.yaml"))
                .unwrap();
        }
        let mut command = sandbox.command();
        let output = command.args(["mail", "thread", "--verify"]).arg(&dir).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let accepted = output.status.code() == Some(0);
        assert!(accepted || output.status.code() == Some(3), "{text}");
        assert!(agrees(case, accepted, text.contains(": warning: ")), "{}: {text}", case.file);
        judged += 1;
    }
    assert_eq!(judged, 18);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = (entry.as_ref().unwrap().path(), entry.as_ref().unwrap().file_name());
        match path.is_dir() {
            true => copy(&path, &to.join(name)),
            false => drop(fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

#[test]
fn problems_have_places_and_words_that_help() {
    let sandbox = sandbox();
    let lgtm = corpus().join("messages/body_lgtm_nit_missing_owner.yaml");
    sandbox.write("lgtm.yaml", fs::read(lgtm).unwrap());
    assert_snapshot!(sandbox.run(&["mail", "validate", "lgtm.yaml"]), @"
    exit 3
    --- stdout
    lgtm.yaml:13:7: error: missing field 'owner' in entry 1 of 'nits'
    --- stderr
    autoloop: 1 of 1 messages not accepted
    ");
    let packet = fs::read_to_string(corpus().join("packets/ok_open_blockers.yaml")).unwrap();
    sandbox.write("packet.yaml", packet.replace("\"open\"", "done"));
    assert_snapshot!(sandbox.run(&["review", "packet", "check", "packet.yaml"]), @"
    exit 3
    --- stdout
    packet.yaml:14:13: error: field 'status': expected one of open, fixed, wont_fix, not_fixed, needs_clarification, found 'done'
    packet.yaml:26:13: error: field 'status': expected one of open, fixed, wont_fix, not_fixed, needs_clarification, found 'done'
    --- stderr
    autoloop: 1 of 1 packets not accepted
    ");
    sandbox.write("packet.yaml", packet);
    assert_snapshot!(sandbox.run(&["review", "gate", "packet.yaml"]), @"
    exit 3
    --- stdout
    closed: F-001 is a blocking P1 finding with the status open
    --- stderr
    autoloop: the gate is closed for 1 reason
    ");
    assert_snapshot!(sandbox.run(&["review", "gate", "packet.yaml", "--lgtm", "lgtm.yaml"]), @"
    exit 3
    --- stdout
    closed: lgtm.yaml:13:7: missing field 'owner' in entry 1 of 'nits'
    closed: F-001 is a blocking P1 finding with the status open
    --- stderr
    autoloop: the gate is closed for 2 reasons
    ");
    assert_snapshot!(sandbox.run(&["review", "gate", "missing.yaml"]), @"
    exit 2
    --- stderr
    autoloop: cannot read missing.yaml: there is no such file
      hint: name a file that exists and that you may read
    ");
}
