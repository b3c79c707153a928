//! Slots whose agents print far more than can be read.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until};
use autoloop_testkit::slots::{self, Agents, GOOD, PASS, outcomes};

fn project(agents: Agents<'_>, settings: &str) -> Sandbox {
    slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (1, settings))
}

/// Prints a gigabyte of lines.
const GIGABYTE: &str =
    "yes 'and then I looked at the next file, which is like the last' | head -c 1000000000; echo";

/// The peak memory of the harness or its supervisor, in kilobytes.
fn peak_of_a_run(sandbox: &Sandbox) -> u64 {
    let mut command = sandbox.command();
    command.args(["slots", "--review"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    let id = harness.0.id();
    let mut peak = 0;
    until("the end of the run", || {
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        let processes = children.split_whitespace().map(str::to_owned).chain([id.to_string()]);
        peak = processes.filter_map(|id| peak_of(&id)).fold(peak, u64::max);
        harness.0.try_wait().unwrap().map(drop)
    });
    peak
}

fn peak_of(id: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// More than an idle harness needs, and far less than is printed.
const LITTLE: u64 = 64 * 1024;

#[test]
fn three_agents_that_print_a_gigabyte_each_are_heard_to_the_end() {
    let review = format!("{GIGABYTE}; {}", slots::DRIFT_THEN_PASS);
    let agents = Agents { implement: GIGABYTE, review: &review, fix: GIGABYTE };
    let sandbox = project(agents, "backend.output_cap = 3000000");
    let peak = peak_of_a_run(&sandbox);
    assert_eq!(outcomes(&sandbox), ["t-1 passed: add a test"]);
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["drift", "pass"]);
    assert!(peak > 1_000 && peak < LITTLE, "{peak} kB");
    let run = sandbox.fields("slot.run.start", "run").concat();
    for name in ["implement", "review-0", "fix-1", "review-1"] {
        let stored = sandbox.read(format!(".autoloop/slots/{run}/1-1/{name}.out"));
        assert_eq!(stored.len(), 3_000_000, "{name}");
    }
}

#[test]
fn a_verdict_in_what_is_kept_nowhere_counts() {
    let review = format!(
        "head -c 5000000 /dev/zero | tr '\\0' x; {PASS}; head -c 5000000 /dev/zero | tr '\\0' y"
    );
    let sandbox = project(Agents { review: &review, ..GOOD }, "backend.output_cap = 3000000");
    assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(0));
    assert_eq!(outcomes(&sandbox), ["t-1 passed: good"]);
}

#[test]
fn a_giant_follow_up_is_shortened_and_a_larger_one_is_a_violation() {
    let review = r#"v=pass; [ $AUTOLOOP_FIX_ATTEMPT = 0 ] && v=drift; printf '{"followUpPrompt": "first '; head -c 7000000 /dev/zero | tr '\0' x; printf ' last", "verdict": "%s"}' $v"#;
    let sandbox = project(Agents { review, ..GOOD }, "");
    let peak = peak_of_a_run(&sandbox);
    assert!(peak > 1_000 && peak < LITTLE, "{peak} kB");
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["drift", "pass"]);
    for told in sandbox.fields("slot.review", "follow_up_prompt") {
        assert!(told.starts_with("first x") && told.ends_with("x last") && told.len() <= 50_000);
        assert!(told.contains(" characters left out]"), "{}", told.len());
    }
    assert!(sandbox.journal().len() < 1_000_000);

    let review = review.replace("7000000", "100000000");
    let sandbox = project(Agents { review: &review, ..GOOD }, "");
    let peak = peak_of_a_run(&sandbox);
    assert!(peak > 1_000 && peak < LITTLE, "{peak} kB");
    assert_eq!(sandbox.fields("slot.review", "verdict"), ["violation"]);
    assert_eq!(
        sandbox.fields("slot.review", "reason"),
        ["the JSON object at line 1, column 1 is longer than 8 MiB"]
    );
}
