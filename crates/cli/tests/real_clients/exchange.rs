//! A review by message between two real clients: one reviews, another authors.

use autoloop_testkit::model_server::{Reply, Request};
use autoloop_testkit::slots::git;

use crate::lab::{Lab, User};

const PACKET: &str = "packet_id: 20260101_x_reviewer_rROUND\nreviewer: reviewer\nround: ROUND\n\
    created_at_utc: \"2026-01-01T00:00:00Z\"\nfindings:\n  - {id: F-001, severity: P1, blocking: true, status: STATUS}\n\
    qa_validation:\n  commands_run:\n    - {command: \"test -e feature\", result: pass}\n";

/// A reviewer that finds fault with the first round after it looked at the commit, and an author that repairs it.
fn model(request: &Request) -> Reply {
    let (prompt, has_looked) = (request.text(), !request.tool_results().is_empty());
    let is_author = prompt.contains("# Address review findings");
    match (is_author, has_looked) {
        (true, false) => Reply::shell("echo fixed >> feature"),
        (true, true) => Reply::text("I fixed it."),
        (false, false) => Reply::shell("git log --oneline -2; echo edited >> feature"),
        (false, true) => {
            let is_first = prompt.contains("in round 1 of at most 2");
            let (round, status) = if is_first { ("1", "open") } else { ("2", "fixed") };
            let packet = PACKET.replace("ROUND", round).replace("STATUS", status);
            Reply::text(&format!("I looked at it.\n\n```yaml\n{packet}```\n"))
        }
    }
}

pub(crate) fn claude_reviews_what_codex_authors() {
    let lab = Lab::new("claude", User::Ours, model).and_then(|lab| lab.and("codex"));
    let Some(lab) = lab else { return };
    let sandbox = &lab.sandbox;
    git(sandbox, &["checkout", "-q", "-b", "topic"]);
    sandbox.write("feature", "one\n");
    git(sandbox, &["add", "-A"]);
    git(sandbox, &["commit", "-q", "-m", "add the feature"]);
    let requested = lab.run(&["review", "request"]);
    assert_eq!(requested.code, Some(0), "{requested}");
    let args =
        ["review", "address", "--auto", "-b", "codex", "--set", "slots.reviewer.command=claude"];
    let output = lab.run(&args);
    assert_eq!(output.code, Some(0), "{output}\n{}", sandbox.journal());
    assert_eq!(sandbox.read("feature"), b"one\nfixed\n");
    assert_eq!(sandbox.fields("exchange.review", "verdict"), ["drift", "pass"]);
    assert_eq!(sandbox.fields("exchange.finish", "outcome"), ["approved"]);
    assert_eq!(sandbox.fields("backend.usage", "role"), ["reviewer", "author", "reviewer"]);
    let violations = sandbox.fields("review.violation", "path");
    assert!(violations.iter().all(|path| path == "feature"), "{violations:?}");
    assert_eq!(git(sandbox, &["status", "--porcelain"]), "");
    assert_eq!(sandbox.survivors(), "");
}
