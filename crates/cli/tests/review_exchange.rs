//! Reviews by message through the binary, with scripted authors and reviewers in a real repository.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::Output;
use autoloop_testkit::slots::git;
use insta::assert_snapshot;
use serde_json::Value;

#[path = "review_exchange/kills.rs"]
mod kills;

/// Prints a packet; `$R` is the round. The first argument is the list of findings, the second the cited command.
const PACKET: &str = r#"
R=$AUTOLOOP_ITERATION
packet() {
  printf 'I looked at it.\n\n```yaml\npacket_id: 20260101_x_reviewer_r%s\nreviewer: reviewer\nround: %s\n' "$R" "$R"
  printf 'created_at_utc: "2026-01-01T00:00:00Z"\n%b\n' "$1"
  printf 'qa_validation:\n  commands_run:\n    - command: "%s"\n      result: pass\n```\n' "${2:-test -e feature}"
}
CLEAN='findings: []'
P1='findings:\n  - {id: F-001, severity: P1, blocking: true, status: open, file: feature, description: "it is wrong"}'
FIXED='findings:\n  - {id: F-001, severity: P1, blocking: true, status: fixed, file: feature, description: "it is wrong"}'
P2='findings:\n  - {id: F-001, severity: P2, blocking: false, status: open, description: "unclear name", recommendation: "rename it"}'
"#;

const APPROVES: &str = "packet \"$CLEAN\"";
/// Finds something in the first round, and is content with the second.
const TWO_ROUNDS: &str = "case $R in 1) packet \"$P1\";; *) packet \"$FIXED\";; esac";
const NEVER_CONTENT: &str = "packet \"$P1\"";
const FIXES: &str = "echo round $AUTOLOOP_ITERATION >> feature; echo I fixed it.";

/// A project on the branch `topic`, with a commit to review.
fn project(reviewer: &str, author: &str, settings: &str) -> Sandbox {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let settings = format!(
        "backend = {{ command = 'sh', args = ['home/author.sh'], grace_ms = 300 }}\n\
         slots.reviewer.command = 'sh'\nslots.reviewer.args = ['home/reviewer.sh']\n{settings}\n"
    );
    sandbox.write("autoloops.toml", settings).write(".gitignore", "home/\n.autoloop/\n");
    sandbox.write("home/reviewer.sh", format!("{PACKET}\n{reviewer}\n"));
    sandbox.write("home/author.sh", author);
    git(&sandbox, &["init", "-q", "-b", "main"]);
    commit(&sandbox, "first");
    git(&sandbox, &["checkout", "-q", "-b", "topic"]);
    sandbox.write("feature", "one\n");
    commit(&sandbox, "add the feature");
    sandbox
}

fn commit(sandbox: &Sandbox, message: &str) {
    git(sandbox, &["add", "-A"]);
    git(sandbox, &["commit", "-q", "-m", message]);
}

fn review(sandbox: &Sandbox, args: &[&str]) -> Output {
    sandbox.run(&[&["review"], args].concat())
}

fn status(sandbox: &Sandbox) -> Value {
    let output = review(sandbox, &["status", "--json"]);
    assert_eq!(output.code, Some(0), "{output}");
    serde_json::from_str(&output.stdout).unwrap()
}

/// The names of the messages in a directory of an agent, without what differs from run to run.
fn mail(sandbox: &Sandbox, dir: &str) -> Vec<String> {
    let found = fs::read_dir(sandbox.path(format!(".autoloop/mail/projects/default/agents/{dir}")));
    let names = found.into_iter().flatten().flatten().filter(|entry| entry.path().is_file());
    let mut names: Vec<String> = names
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .map(|name| {
            let types = ["request", "feedback", "addressed", "lgtm"];
            let end = types.iter().find_map(|word| Some(name.find(word)? + word.len()));
            name[15..end.unwrap()].to_owned()
        })
        .collect();
    names.sort();
    names
}

/// The whole workspace is a valid history.
fn assert_valid(sandbox: &Sandbox) {
    let output = sandbox.run(&["mail", "thread", "--verify", ".autoloop/mail/projects/default"]);
    assert_eq!(output.code, Some(0), "{output}");
    let verified = sandbox.run(&["journal", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified}");
}

#[test]
fn a_review_without_findings_approves_at_once() {
    let sandbox = project(APPROVES, "", "checks.test.command = 'grep one feature'");
    let requested = review(&sandbox, &["request"]);
    assert_eq!(requested.code, Some(0), "{requested}");
    assert!(
        requested.stdout.ends_with(": topic round 1/2, waiting for the reviewer\n"),
        "{requested}"
    );
    assert_eq!(mail(&sandbox, "reviewer/inbox"), ["author_review_request"]);
    let waiting = status(&sandbox);
    assert_eq!((&waiting["status"], &waiting["turn"]), (&"waiting".into(), &"reviewer".into()));
    let seen = sandbox.run(&["watch", "--once"]);
    assert!(seen.stdout.contains(" waiting  round 1/2"), "{seen}");
    let run = review(&sandbox, &["run"]);
    assert_eq!(run.code, Some(0), "{run}");
    let id = sandbox.fields("exchange.start", "run").remove(0);
    let seen = sandbox.run(&["inspect", "review", "--run", &id]);
    assert!(seen.stdout.contains("topic round 1/2, approved"), "{seen}");
    let after = status(&sandbox);
    assert_eq!((&after["status"], &after["outcome"]), (&"completed".into(), &"approved".into()));
    assert_eq!(after["rounds"][0]["checks"], "2 of 2 passed");
    assert_eq!(after["approved"], git(&sandbox, &["rev-parse", "topic"]));
    assert_eq!(mail(&sandbox, "author/inbox"), ["reviewer_review_lgtm"]);
    assert_eq!(mail(&sandbox, "reviewer/inbox/archive"), ["author_review_request"]);
    assert!(mail(&sandbox, "reviewer/inbox").is_empty());
    assert_valid(&sandbox);
    assert_eq!(sandbox.survivors(), "");
    let none = review(&sandbox, &["run"]);
    assert_eq!((none.code, &*none.stdout), (Some(0), "no open request for 'reviewer'\n"));
}

#[test]
fn findings_are_addressed_and_the_next_round_approves() {
    let sandbox = project(TWO_ROUNDS, "", "");
    assert_eq!(review(&sandbox, &["request", "--pr", "86"]).code, Some(0));
    let first = review(&sandbox, &["run"]);
    assert_eq!(first.code, Some(1), "{first}");
    assert!(
        first.stderr.contains("not approved: 1 blocking finding in packets/findings/"),
        "{first}"
    );
    let again = review(&sandbox, &["request"]);
    assert_eq!(again.code, Some(3), "{again}");
    assert!(again.stderr.contains("the findings of round 1 are not addressed"), "{again}");
    let unknown = review(&sandbox, &["address", "--findings", "F-001,F-009"]);
    assert_eq!(unknown.code, Some(3), "{unknown}");
    assert!(
        unknown.stderr.contains("the findings packet has no finding F-009\n  hint: it has F-001"),
        "{unknown}"
    );
    let unchanged = review(&sandbox, &["address", "--findings", "F-001"]);
    assert_eq!(unchanged.code, Some(3), "{unchanged}");
    let absent = review(&sandbox, &["address", "--findings", "F-001", "--commit", "0123abc"]);
    assert_eq!(absent.code, Some(3), "{absent}");
    sandbox.write("feature", "two\n");
    commit(&sandbox, "fix the feature");
    let addressed = review(&sandbox, &["address", "--findings", "F-001"]);
    assert_eq!(addressed.code, Some(0), "{addressed}");
    assert_eq!(review(&sandbox, &["request"]).code, Some(0));
    let second = review(&sandbox, &["run"]);
    assert_eq!(second.code, Some(0), "{second}");
    assert_valid(&sandbox);
    let shown = review(&sandbox, &["status"]);
    assert_snapshot!(filtered(&shown.stdout), @r"
    topic round 2/2, approved

    ROUND  COMMIT        FINDINGS    CHECKS         RESPONSE  ADDRESSED  TIME
    1      COMMIT......  1 P1 open   1 of 1 passed  feedback  F-001      0s
    2      COMMIT......  1 P1 fixed  1 of 1 passed  lgtm      -          0s
    ");
}

/// A status without its ids and times.
fn filtered(text: &str) -> String {
    let is_hex = |word: &str| word.len() == 12 && word.chars().all(|c| c.is_ascii_hexdigit());
    let is_time =
        |word: &str| word.strip_suffix('s').is_some_and(|count| count.parse::<u64>().is_ok());
    let line = |line: &str| {
        let words = line.split(' ').map(|word| match word {
            word if is_hex(word) => "COMMIT......",
            word if is_time(word) => "0s",
            word => word,
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let text: Vec<String> = text.lines().map(line).collect();
    let (_, rest) = text[0].split_once(": ").unwrap();
    [&[rest.to_owned()], &text[1..]].concat().join("\n")
}

#[test]
fn an_automatic_review_runs_until_it_is_approved() {
    let reviewer = "case $R in 1|2) packet \"$P1\";; *) packet \"$FIXED\";; esac";
    let sandbox = project(reviewer, FIXES, "");
    assert_eq!(review(&sandbox, &["request", "--rounds", "3"]).code, Some(0));
    let output = review(&sandbox, &["address", "--auto"]);
    assert_eq!(output.code, Some(0), "{output}");
    let after = status(&sandbox);
    assert_eq!(after["rounds"].as_array().unwrap().len(), 3);
    assert_eq!(after["rounds"][1]["addressed"][0], "F-001");
    assert_eq!(
        git(&sandbox, &["log", "--format=%s", "-2"]),
        "Address the findings of review round 2\nAddress the findings of review round 1"
    );
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    assert_valid(&sandbox);
    let list = sandbox.run(&["loops"]);
    assert!(list.stdout.contains("review of topic"), "{list}");
}

#[test]
fn blockers_after_the_last_round_end_the_review() {
    let sandbox = project(NEVER_CONTENT, FIXES, "");
    assert_eq!(review(&sandbox, &["request"]).code, Some(0));
    let output = review(&sandbox, &["address", "--auto"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("the review ended with blockers_remain"), "{output}");
    let after = status(&sandbox);
    assert_eq!(
        (&after["status"], &after["reason"]),
        (&"stopped".into(), &"1 blocking finding left".into())
    );
    assert_eq!(after["rounds"][1]["response"], "feedback: max_rounds_exceeded");
    let beyond = review(&sandbox, &["request"]);
    assert_eq!(beyond.code, Some(3), "{beyond}");
    assert!(
        beyond.stderr.contains(
            "round 3 is beyond the limit of 2 rounds\n  hint: begin another review with --pr"
        ),
        "{beyond}"
    );
    assert_valid(&sandbox);
    // A new review of the same branch is possible.
    assert_eq!(review(&sandbox, &["request", "--pr", "9"]).code, Some(0));
}

#[test]
fn a_reviewer_that_takes_too_long_is_ended_and_the_author_is_told() {
    let sandbox = project("sleep 600", "", "slots.reviewer.grace_ms = 100");
    assert_eq!(review(&sandbox, &["request", "--max-runtime", "1"]).code, Some(0));
    let output = review(&sandbox, &["run"]);
    assert_eq!(output.code, Some(1), "{output}");
    let after = status(&sandbox);
    assert_eq!(after["rounds"][0]["response"], "feedback: reviewer_budget_exceeded");
    assert_eq!(after["reason"], "max_runtime_s_reviewer: it ran for 1 s without an answer");
    assert_eq!(sandbox.survivors(), "");
    assert_valid(&sandbox);
    // The next round can be requested.
    assert_eq!(review(&sandbox, &["request"]).code, Some(0));
    assert_eq!(status(&sandbox)["rounds"][1]["round"], 2);
    assert_valid(&sandbox);
}

#[test]
fn a_reviewer_that_takes_too_many_turns_does_not_approve() {
    let reviewer = r#"printf '{"type":"result","subtype":"success","is_error":false,"num_turns":9,"result":"ok"}\n'"#;
    let sandbox = project(reviewer, "", "slots.reviewer.output = 'claude'");
    assert_eq!(review(&sandbox, &["request"]).code, Some(0));
    assert_eq!(review(&sandbox, &["run"]).code, Some(1));
    let after = status(&sandbox);
    assert_eq!(after["reason"], "max_turns_reviewer: it took 9 turns of 8");
    assert_eq!(after["rounds"][0]["turns"], 9);
    assert_valid(&sandbox);
}

#[test]
fn a_review_stops_at_a_limit_of_its_cost_and_can_be_resumed() {
    let usage = r#"printf '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"total_cost_usd":2.0,"usage":{"input_tokens":10,"output_tokens":10},"result":"ok"}\n'"#;
    let settings = "slots.reviewer.output = 'claude'\nlimits.max_cost_usd = 1.0";
    let sandbox = project(usage, "", settings);
    assert_eq!(review(&sandbox, &["request"]).code, Some(0));
    let output = review(&sandbox, &["run"]);
    assert_eq!(output.code, Some(1), "{output}");
    let after = status(&sandbox);
    assert_eq!((&after["status"], &after["outcome"]), (&"stopped".into(), &"limit_reached".into()));
    assert_eq!(after["cost_usd"], 2.0);
    assert!(mail(&sandbox, "author/inbox").is_empty());
}

#[test]
fn a_deferred_finding_is_a_nit_of_the_approval() {
    let sandbox = project("packet \"$P2\"", "", "");
    assert_eq!(review(&sandbox, &["request"]).code, Some(0));
    let output = review(&sandbox, &["run"]);
    assert_eq!(output.code, Some(0), "{output}");
    let texts = sandbox.fields("exchange.message", "text");
    let approval = texts.last().unwrap();
    for part in [
        "nit_id: NIT-001",
        "tier: P2",
        "summary: unclear name",
        "owner: author",
        "next_action: rename it",
        "source: F-001",
    ] {
        assert!(approval.contains(part), "{part}: {approval}");
    }
    assert_valid(&sandbox);
}

#[test]
fn changes_of_a_reviewer_are_discarded_and_recorded() {
    let sandbox = project(
        &format!("echo edited >> feature; echo new > new; {APPROVES}"),
        "",
        "checks.test.command = 'test ! -e new && ! grep edited feature'",
    );
    assert_eq!(review(&sandbox, &["request"]).code, Some(0));
    let output = review(&sandbox, &["run"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(!sandbox.path("new").exists());
    assert_eq!(git(&sandbox, &["status", "--porcelain"]), "");
    let paths = sandbox.fields("review.violation", "path");
    assert!(
        paths.iter().any(|path| path == "feature") && paths.iter().any(|path| path == "new"),
        "{paths:?}"
    );
}

#[test]
fn a_silent_reviewer_is_asked_once_more_and_approves_nothing() {
    let sandbox = project("true", "", "");
    assert_eq!(review(&sandbox, &["request"]).code, Some(0));
    let output = review(&sandbox, &["run"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("the review ended with undelivered"), "{output}");
    let after = status(&sandbox);
    assert_eq!((&after["status"], &after["approved"]), (&"failed".into(), &Value::Null));
    assert_eq!(sandbox.fields("exchange.review", "attempt"), ["0", "1"]);
    assert!(mail(&sandbox, "author/inbox").is_empty());
    // The request is still there, and is retried.
    sandbox.write("home/reviewer.sh", format!("{PACKET}\n{APPROVES}\n"));
    let retried = review(&sandbox, &["run", "--resume"]);
    assert_eq!(retried.code, Some(0), "{retried}");
    assert_eq!(mail(&sandbox, "author/inbox"), ["reviewer_review_lgtm"]);
    assert_valid(&sandbox);
}

#[test]
fn an_invalid_packet_is_repaired_with_the_listed_problems() {
    let reviewer = "if grep -q 'Once more' \"$AUTOLOOP_PROMPT_PATH\"; then packet \"$CLEAN\"; else packet 'findings: none'; fi";
    let sandbox = project(reviewer, "", "");
    assert_eq!(review(&sandbox, &["request"]).code, Some(0));
    let output = review(&sandbox, &["run"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(sandbox.fields("exchange.review", "verdict"), ["violation", "pass"]);
    let reason = sandbox.fields("exchange.review", "reason").remove(0);
    assert!(reason.contains("line 5, column"), "{reason}");
}

#[test]
fn what_does_not_pass_on_a_clean_checkout_blocks() {
    let cites = "packet \"$CLEAN\" 'test -e home'";
    for (reviewer, settings, command) in [
        (cites, "", "test -e home"),
        (APPROVES, "checks.lint.command = 'echo bad; exit 7'", "echo bad; exit 7"),
        (
            APPROVES,
            "checks.slow = { command = 'sleep 86123 & sleep 86123', timeout_ms = 300 }",
            "sleep 86123 & sleep 86123",
        ),
    ] {
        let sandbox = project(reviewer, "", settings);
        assert_eq!(review(&sandbox, &["request"]).code, Some(0));
        let output = review(&sandbox, &["run"]);
        assert_eq!(output.code, Some(1), "{output}");
        let packet = sandbox.fields("exchange.message", "packet_text").pop().unwrap();
        assert!(packet.contains(&format!("`{command}` does not pass")), "{packet}");
        assert!(packet.contains("result: fail") && packet.contains("output_digest:"), "{packet}");
        assert_valid(&sandbox);
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let lines =
            processes.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
        assert_eq!(lines.filter(|line| line.contains("86123")).collect::<Vec<_>>(), [""; 0]);
    }
}

#[test]
fn an_approval_is_void_once_the_branch_has_moved() {
    let sandbox = project(APPROVES, "", "");
    assert_eq!(review(&sandbox, &["request"]).code, Some(0));
    assert_eq!(review(&sandbox, &["run"]).code, Some(0));
    sandbox.write("feature", "three\n");
    commit(&sandbox, "one more thing");
    let after = status(&sandbox);
    assert_eq!(after["approved"], Value::Null);
    assert_eq!(after["moved_to"], git(&sandbox, &["rev-parse", "topic"]));
    let shown = review(&sandbox, &["status"]);
    assert!(shown.stdout.contains("the approval is void: the branch moved to "), "{shown}");
    // A new review begins.
    assert_eq!(review(&sandbox, &["request"]).code, Some(0));
    assert_eq!(status(&sandbox)["rounds"].as_array().unwrap().len(), 1);
}

#[test]
fn requests_that_cannot_be_reviewed_are_refused() {
    let sandbox = project(APPROVES, "", "");
    let own = review(&sandbox, &["request", "--to", "author"]);
    assert_eq!(own.code, Some(3), "{own}");
    let nothing = review(&sandbox, &["request", "--base", "HEAD"]);
    assert_eq!(nothing.code, Some(3), "{nothing}");
    let rounds = review(&sandbox, &["request", "--rounds", "4"]);
    assert_eq!(rounds.code, Some(2), "{rounds}");
    sandbox.write("feature", "dirty\n");
    let dirty = review(&sandbox, &["request"]);
    assert_eq!(dirty.code, Some(0), "{dirty}");
    assert!(
        dirty
            .stderr
            .contains("1 file with uncommitted changes, such as feature, will not be reviewed"),
        "{dirty}"
    );
    let twice = review(&sandbox, &["request"]);
    assert_eq!(twice.code, Some(3), "{twice}");
    assert_eq!(review(&sandbox, &["run"]).code, Some(0));
    let nothing = review(&sandbox, &["address", "--findings", "F-001"]);
    assert_eq!(nothing.code, Some(3), "{nothing}");
}

/// A request that another program put into the inbox, as the specification shows it.
#[test]
fn a_request_of_another_program_is_answered() {
    let sandbox = project(APPROVES, "", "");
    let request = "id: msg-20260213T1000Z-claude-001\nfrom: claude\nto: codex\ntype: review_request\npriority: P1\ncreated_at_utc: \"2026-02-13T10:00:00Z\"\nrelated_pr: \"86\"\nsubject: \"Review: the feature (#86)\"\nbody: |\n  pr: 86\n  branch: topic\n  diff_summary: |\n    Adds a feature.\n  max_turns_reviewer: 8\n  max_runtime_s_reviewer: 600\n";
    sandbox.write(
        ".autoloop/mail/projects/default/agents/codex/inbox/20260213100000_claude_review_request_0a1b.yaml",
        request,
    );
    let output = review(&sandbox, &["run", "--agent", "codex"]);
    // The script signs as another reviewer; the harness knows who it is.
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(mail(&sandbox, "claude/inbox"), ["codex_review_lgtm"]);
    assert_eq!(mail(&sandbox, "codex/inbox/archive"), ["claude_review_request"]);
    let after = status(&sandbox);
    assert_eq!((&after["author"], &after["pr"]), (&"claude".into(), &86.into()));
}
