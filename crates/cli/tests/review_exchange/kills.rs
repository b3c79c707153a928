//! SIGKILL at every record of an automatic review, each followed by a resume.

use std::process::Stdio;

use autoloop_testkit::sandbox::{Reaped, until};

use super::*;

fn lines(sandbox: &Sandbox) -> usize {
    fs::read_to_string(sandbox.journal_path()).unwrap_or_default().lines().count()
}

fn start(sandbox: &Sandbox, args: &[&str]) -> Reaped {
    let mut command = sandbox.command();
    command.arg("review").args(args).stdout(Stdio::null()).stderr(Stdio::null());
    Reaped::start(command)
}

#[test]
fn a_review_killed_at_any_record_answers_each_request_once() {
    let undisturbed = project(TWO_ROUNDS, FIXES, "checks.test.command = 'test -e feature'");
    assert_eq!(review(&undisturbed, &["request"]).code, Some(0));
    let before = lines(&undisturbed);
    assert_eq!(review(&undisturbed, &["address", "--auto"]).code, Some(0));
    let records = lines(&undisturbed) - before;
    assert!(records > 15, "{records}");
    let sandbox = project(TWO_ROUNDS, FIXES, "checks.test.command = 'test -e feature'");
    assert_eq!(review(&sandbox, &["request"]).code, Some(0));
    let mut begun = false;
    let mut kills = 0;
    loop {
        let args: &[&str] = if begun { &["run", "--resume"] } else { &["address", "--auto"] };
        let (now, more) = (lines(&sandbox), 1 + kills % 3);
        let mut harness = start(&sandbox, args);
        let ended = until("some records", || {
            let ended = harness.0.try_wait().unwrap();
            (ended.is_some() || lines(&sandbox) >= now + more).then_some(ended)
        });
        begun |= !sandbox.fields("exchange.auto", "round").is_empty();
        // The last one may be killed after it recorded the end.
        let is_over = !sandbox.fields("exchange.finish", "outcome").is_empty();
        if is_over || ended.is_some_and(|status| status.success()) {
            break;
        }
        assert!(ended.is_none(), "{ended:?}\n{}", sandbox.journal());
        harness.0.kill().unwrap();
        harness.0.wait().unwrap();
        kills += 1;
        assert!(kills < 200, "{}", sandbox.journal());
    }
    assert!(kills > 5, "{kills}");
    let sent = |sandbox: &Sandbox| {
        mail(sandbox, "author/inbox").len() + mail(sandbox, "author/inbox/archive").len()
    };
    assert_eq!(sent(&sandbox), sent(&undisturbed));
    assert_eq!(status(&sandbox)["outcome"], "approved");
    let requests = |sandbox: &Sandbox| mail(sandbox, "author/outbox");
    assert_eq!(requests(&sandbox), requests(&undisturbed));
    assert_valid_after_kills(&sandbox);
    until("the last process to end", || sandbox.survivors().is_empty().then_some(()));
}

/// A kill can tear the record being written; then the next writer records the repair.
fn assert_valid_after_kills(sandbox: &Sandbox) {
    let output = sandbox.run(&["mail", "thread", "--verify", ".autoloop/mail/projects/default"]);
    assert_eq!(output.code, Some(0), "{output}");
}
