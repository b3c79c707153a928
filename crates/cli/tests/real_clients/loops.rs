//! A whole preset loop, with a metareview.

use autoloop_testkit::model_server::{Reply, Request};

use crate::lab::{EMIT, LOOK, Lab, User, by_name, seen};

/// A builder reports what it may; a reviewer edits a file of the loop and one that it may not. Gemini refuses commands
/// with substitutions.
const WORK: &str = "{ printf '%s ' \"$AUTOLOOP_REVIEW_MODE\"; pwd -P; } >> where; \
    if [ -z \"$AUTOLOOP_REVIEW_MODE\" ]; then EMIT; exit; fi; \
    echo out > \"$HOME/outside\"; echo 'look at the tests first' > .autoloop/context.md; echo changed >> README.md; \
    \"$AUTOLOOP_BIN\" memory add learning 'the tests are slow'; \
    \"$AUTOLOOP_BIN\" emit issue.discovered 'summary=no tests;'";

fn model(request: &Request) -> Reply {
    match seen(request) {
        None => Reply::shell(LOOK.to_owned() + &WORK.replace("EMIT", EMIT)),
        Some(_) => Reply::text("It is reported."),
    }
}

pub(crate) fn a_preset_completes(client: &'static str, flags: Vec<String>) {
    let Some(lab) = Lab::new(client, User::Ours, model) else { return };
    let objective = ["run", "autofix", "the importer crashes"].map(str::to_owned);
    let output = lab.run(&[&objective[..], &flags].concat());
    assert_eq!(output.code, Some(0), "{output}\n{}", lab.sandbox.journal());
    assert_eq!(lab.sandbox.fields("loop.complete", "reason"), ["completion_event"]);
    assert_eq!(lab.sandbox.fields("iteration.finish", "exit_code"), ["0"; 4]);
    assert_eq!(lab.sandbox.fields("backend.usage", "input_tokens").len(), 4);
    assert_eq!(lab.model.requests().len(), 8);
    assert_eq!(lab.sandbox.survivors(), "");
}

pub(crate) fn a_preset_completes_with_a_review(client: &'static str) {
    let Some(lab) = Lab::new(client, User::Ours, model) else { return };
    let sandbox = &lab.sandbox;
    let args = ["run", "autofix", "the importer crashes", "--set", "review.every_iterations=2"];
    let output = lab.run(&[&args.map(str::to_owned)[..], &by_name(client)].concat());
    assert_eq!(output.code, Some(0), "{output}\n{}", sandbox.journal());
    assert_eq!(sandbox.fields("loop.complete", "reason"), ["completion_event"]);
    assert_eq!(sandbox.fields("iteration.finish", "exit_code"), ["0"; 4]);
    assert_eq!(sandbox.fields("backend.usage", "input_tokens").len(), 5);
    assert_eq!(lab.model.requests().len(), 10);
    let all_in_project = format!("{} ", sandbox.path("").display()).repeat(4);
    let wheres = String::from_utf8(sandbox.read("where")).unwrap();
    let of_builders: Vec<&str> = wheres.lines().filter_map(|line| line.strip_prefix(' ')).collect();
    assert_eq!(of_builders.join(" ") + " ", all_in_project);
    // The review: what it may do is done, and what its client does for itself is no violation.
    assert_reviewed(&lab);
    assert_eq!(sandbox.survivors(), "");
}

fn assert_reviewed(lab: &Lab) {
    let sandbox = &lab.sandbox;
    assert_eq!(sandbox.fields("review.finish", "exit_code"), ["0"], "{}", sandbox.journal());
    assert_eq!(sandbox.read(".autoloop/context.md"), b"look at the tests first\n");
    assert_eq!(sandbox.read("README.md"), b"a project\n");
    assert_eq!(sandbox.fields("issue.discovered", "source"), ["agent"]);
    assert!(!lab.home("outside").exists());
    let violations = sandbox.fields("review.violation", "path");
    assert!(violations.iter().all(|path| path == "README.md" || path == "where"), "{violations:?}");
}

/// Codex has a sandbox of its own, which is off in ours.
#[test]
fn codex_reviews_in_its_own_sandbox_where_there_is_no_other() {
    let Some(lab) = Lab::new("codex", User::Ours, model) else { return };
    let settings =
        "event_loop.max_iterations = 2\nevent_loop.prompt = 'finish it'\nreview.sandbox = 'off'\n";
    let topology = "[[role]]\nid = 'a'\nemits = ['built']\n[handoff]\n'loop.start' = ['a']\n";
    lab.sandbox.write("autoloops.toml", settings).write("topology.toml", topology);
    lab.run(&["run", ".", "-b", "codex"]);
    assert_eq!(lab.sandbox.fields("review.start", "enforcement"), ["snapshot"]);
    assert_reviewed(&lab);
}
