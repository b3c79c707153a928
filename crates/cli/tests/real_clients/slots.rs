//! Slots: items that are implemented, reviewed and fixed by real clients.

use autoloop_testkit::model_server::{Reply, Request};
use autoloop_testkit::sandbox::skip;
use autoloop_testkit::slots::git;

use crate::lab::{LOOK, Lab, User, seen};

const WORK: &str = "case \"$AUTOLOOP_SLOT_PHASE\" in \
    implement) echo $AUTOLOOP_ITEM_ID > made-$AUTOLOOP_ITEM_ID;; \
    fix) echo fixed >> made-$AUTOLOOP_ITEM_ID;; \
    review) echo wrong >> README.md;; esac";

/// An agent that does the item, or a reviewer that finds fault with the first attempt at the first item.
fn model(request: &Request) -> Reply {
    let Some(seen) = seen(request) else { return Reply::shell(LOOK.to_owned() + WORK) };
    let has = |line: &str| seen.contains(&format!("AUTOLOOP_{line}"));
    if !has("SLOT_PHASE=review") {
        return Reply::text("It is done.");
    }
    let is_drift = has("ITEM_ID=t-1") && has("FIX_ATTEMPT=0");
    let verdict = if is_drift { "drift" } else { "pass" };
    Reply::text(&format!("{{\"verdict\": \"{verdict}\", \"followUpPrompt\": \"as it should be\"}}"))
}

fn add(lab: &Lab, items: &[&str]) {
    for item in items {
        let added = lab.run(&["tasks", "add", item, "--acceptance", "it works"]);
        assert_eq!(added.code, Some(0), "{added}");
    }
}

pub(crate) fn slots_review_fix_and_merge(client: &'static str) {
    let Some(lab) = Lab::new(client, User::Ours, model) else { return };
    let sandbox = &lab.sandbox;
    add(&lab, &["one", "two"]);
    // Two first starts of OpenCode at once may lock its database, which is waited for.
    let wait = ["--set", "backend.first_wait=1s"];
    let words = ["slots", "--review", "--parallel-agents", "2", "-p", client];
    let output = lab.run(&[&words[..], &wait].concat());
    assert_eq!(output.code, Some(0), "{output}\n{}", sandbox.journal());
    assert_eq!(sandbox.fields("slot.merge", "outcome"), ["merged"; 2], "{output}");
    assert_eq!(sandbox.read("made-t-1"), b"t-1\nfixed\n");
    assert_eq!(sandbox.read("made-t-2"), b"t-2\n");
    assert_eq!(sandbox.read("README.md"), b"a project\n");
    assert_eq!(sandbox.fields("slot.review", "verdict").len(), 3, "{output}");
    assert_eq!(sandbox.fields("backend.usage", "input_tokens").len(), 6);
    let violations = sandbox.fields("review.violation", "path");
    assert!(violations.iter().all(|path| path == "README.md"), "{violations:?}");
    assert_eq!(git(sandbox, &["status", "--porcelain"]), "");
    assert_eq!(git(sandbox, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(sandbox.survivors(), "");
}

/// Of all tools of the client, a reviewer has only its shell to change files with.
pub(crate) fn a_reviewer_without_a_sandbox_is_read_only(client: &'static str, tools: [&str; 2]) {
    let Some(lab) = Lab::new(client, User::Ours, model) else { return };
    add(&lab, &["one"]);
    let flags = ["--review-max-fix-attempts", "0", "--set", "review.sandbox=off", "-p", client];
    let output = lab.run(&[&["slots", "--review"][..], &flags].concat());
    assert_eq!(lab.sandbox.fields("slot.review", "verdict"), ["drift"], "{output}");
    let offers = |phase: &str| {
        let said = format!("AUTOLOOP_SLOT_PHASE={phase}");
        let requests = lab.model.requests();
        let request = requests.iter().find(|request| request.text().contains(&said)).unwrap();
        let offered = request.body["tools"].to_string();
        tools.map(|tool| offered.contains(&format!("\"{tool}\"")))
    };
    assert_eq!(offers("implement"), [true, true]);
    assert_eq!(offers("review"), [false, false]);
}

/// The other tests run as the user who runs them, who may be root.
pub(crate) fn any_user_can_run_it(client: &'static str) {
    let Some(lab) = Lab::new(client, User::Nobody, model) else { return };
    if !lab.has_other_users() {
        skip(client, "another user needs the privileges of root, and to reach the binary");
        return;
    }
    let sandbox = &lab.sandbox;
    // The first item passes after a fix.
    add(&lab, &["one"]);
    let output = lab.run(&["slots", "--review", "--review-max-fix-attempts", "0", "-p", client]);
    assert_eq!(
        sandbox.fields("slot.review", "verdict"),
        ["drift"],
        "{output}\n{}",
        sandbox.journal()
    );
    assert_eq!(sandbox.fields("slot.implement", "exit_code"), ["0"], "{output}");
    assert_eq!(sandbox.read("README.md"), b"a project\n");
    assert_eq!(sandbox.survivors(), "");
}
