//! The answers of issue trackers: every shape that is documented, and any text at all.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use autoloop_core::queue::Status;
use autoloop_core::queue::beads::{BadAnswer, Issue, complaint, each_issue, is_unknown_option};
use proptest::prelude::*;

const ISSUE: &str = r#"{"id":"bd-a1","title":"parse","status":"open","priority":1}"#;

fn issues(answer: &str) -> Result<Vec<Issue>, BadAnswer> {
    let mut issues = Vec::new();
    each_issue(answer, &mut |issue| issues.push(issue))?;
    Ok(issues)
}

fn ids(answer: &str) -> Vec<String> {
    issues(answer).unwrap().into_iter().map(|issue| issue.item.id).collect()
}

fn wrong(answer: &str) -> String {
    issues(answer).unwrap_err().to_string()
}

#[test]
fn lists_come_bare_wrapped_and_alone() {
    for answer in [
        format!("[{ISSUE}]"),
        format!("  [\n{ISSUE}\n]\n"),
        format!(r#"{{"schema_version":1,"data":[{ISSUE}]}}"#),
        format!(r#"{{"schema_version":1,"data":{ISSUE}}}"#),
        format!(r#"{{"schema_version":1,"data":{{"issues":[{ISSUE}],"total":1}}}}"#),
        format!(r#"{{"issues":[{ISSUE}]}}"#),
        format!(r#"{{"items":[{ISSUE}]}}"#),
        format!(r#"{{"results":[{ISSUE}]}}"#),
        format!(r#"{{"closed":[{ISSUE}],"unblocked":[]}}"#),
        ISSUE.to_owned(),
        format!("Note: the database was upgraded\n[{ISSUE}]\n"),
        format!("[warning] the daemon is old\n[1] see the log\n[{ISSUE}]\nShowing 1 of 5\n"),
        format!("{{\"level\":\"warn\",\"message\":\"slow\"}}\n{{\"issues\":[{ISSUE}]}}\n"),
        format!("{}[\n{ISSUE}\n]", "[0]\n[note]\n".repeat(5)),
        format!(r#"[{ISSUE}, null, 7, {{"no":"id"}}]"#),
        format!(r#"[{ISSUE}, {{"id":""}}, {{"id":"--force"}}, {{"id":"two words"}}]"#),
    ] {
        assert_eq!(ids(&answer), ["bd-a1"], "{answer}");
    }
    for answer in [
        "",
        " \n",
        "[]",
        r#"{"data":[]}"#,
        r#"{"data":null}"#,
        r#"{"issues":[]}"#,
        "[warning] old\n[]\n",
    ] {
        assert_eq!(ids(answer), [""; 0], "{answer}");
    }
}

#[test]
fn an_answer_that_is_no_list_of_issues_is_an_error() {
    insta::assert_snapshot!(wrong("Segmentation\u{7} fault"), @"its answer is not JSON: Segmentation fault");
    insta::assert_snapshot!(wrong("7"), @"its answer contains no issues: 7");
    insta::assert_snapshot!(wrong("null"), @"its answer contains no issues: null");
    insta::assert_snapshot!(wrong("[1, 2]"), @"its answer contains no issues: [1, 2]");
    insta::assert_snapshot!(wrong(r#"{"total": 3}"#), @r#"its answer contains no issues: {"total": 3}"#);
    insta::assert_snapshot!(wrong(r#"{"error": "no database", "hint": "bd init"}"#), @"it answered with an error: no database (bd init)");
    assert!(wrong(&"x".repeat(5_000_000)).len() < 1_000);
    assert!(wrong(&"[".repeat(1_000_000)).len() < 1_000);
}

#[test]
fn an_issue_has_what_a_worker_needs() {
    let answer = r#"[{"id":"bd-b2","title":"test","status":"open","priority":0,"description":"d",
        "acceptance_criteria":"a","assignee":"","dependencies":[
        {"issue_id":"bd-b2","depends_on_id":"bd-a1","type":"blocks"},
        {"issue_id":"bd-b2","depends_on_id":"bd-c3","dep_type":"related"},
        {"id":"bd-d4","title":"x","status":"closed","dependency_type":"waits-for"},
        {"issue_id":"bd-b2","depends_on_id":"bd-e","type":"parent-child"}]}]"#;
    let item = issues(answer).unwrap().remove(0).item;
    assert_eq!((item.description.as_str(), item.acceptance.as_str()), ("d", "a"));
    assert_eq!(item.dependencies, ["bd-a1", "bd-d4"]);
    assert_eq!((item.owner, item.priority.number()), (None, 0));
    assert_eq!(item.status, Status::Ready, "nothing says that what it waits for is open");

    let of = |status: &str| {
        let answer = format!(
            r#"{{"id":"a","status":"{status}","priority":99,"dependencies":[{{"id":"b","status":"open"}}]}}"#
        );
        issues(&answer).unwrap().remove(0).item.status
    };
    for (status, expected) in [
        ("open", Status::Blocked),
        ("in_progress", Status::InWork),
        ("hooked", Status::InWork),
        ("closed", Status::Closed),
        ("tombstone", Status::Closed),
        ("deferred", Status::Blocked),
        ("pinned", Status::Blocked),
        ("waiting for legal", Status::Blocked),
    ] {
        assert_eq!(of(status), expected, "{status}");
    }
}

#[test]
fn errors_are_found_on_either_output_in_every_shape() {
    let json =
        r#"{"error":"no issue bd-9","hint":"see bd list","code":"not_found","schema_version":1}"#;
    for (stdout, stderr, expected) in [
        (json, "", "no issue bd-9 (see bd list)"),
        ("", json, "no issue bd-9 (see bd list)"),
        (json, "Error: exit", "no issue bd-9 (see bd list)"),
        (
            "",
            r#"{"error":{"code":3,"message":"locked","hint":"wait","retryable":true}}"#,
            "locked (wait)",
        ),
        ("", r#"{"error_code":3,"message":"locked","kind":"io","recovery_hints":[]}"#, "locked"),
        (r#"{"schema_version":1,"data":{"error":"odd"}}"#, "", "odd"),
        ("", "Error claiming bd-1: taken\n", "Error claiming bd-1: taken"),
        ("plain", "", "plain"),
        ("[]", "warn: x\nerror: y", "warn: x error: y"),
        ("Warning: old\n{\"error\":\"taken\"}\nexit\n", "", "taken"),
        ("", "{\"level\":\"warn\",\"message\":\"slow\"}\n{\"error\":\"taken\"}\n", "taken"),
        ("usage: bd …", "exit status 1", "exit status 1"),
        ("", " \n", "it printed nothing"),
    ] {
        assert_eq!(complaint(stdout, stderr), expected);
    }
}

#[test]
fn a_missing_feature_differs_from_a_refusal() {
    for said in [
        "Error: unknown flag: --claim",
        "error: unexpected argument '--limit' found",
        "unrecognized option '--claim'",
        "No such option: --claim",
    ] {
        assert!(is_unknown_option(said), "{said}");
    }
    for said in
        ["already claimed by w1", "no issue bd-9", "database is locked", "it printed nothing"]
    {
        assert!(!is_unknown_option(said), "{said}");
    }
}

proptest! {
    #[test]
    fn no_text_is_too_odd(text in any_answer(), other in any_answer()) {
        let told = match issues(&text) {
            Ok(found) => {
                prop_assert!(found.iter().all(|issue| issue.item.id.len() <= text.len()));
                String::new()
            }
            Err(why) => why.to_string(),
        };
        for message in [told, complaint(&text, &other)] {
            prop_assert!(!message.contains(char::is_control), "{message:?}");
            prop_assert!(message.chars().count() < 600);
        }
    }
}

/// Text of any sort, and JSON that is nearly right.
fn any_answer() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"id\"",
        "\"data\"",
        "\"issues\"",
        "\"error\"",
        "\"a\"",
        "null",
        "1",
        "\n",
        "\u{1b}",
        "\"status\"",
        "\"open\"",
        "\"dependencies\"",
        "\"message\"",
    ]);
    prop_oneof![
        any::<String>(),
        prop::collection::vec(word, 0..20).prop_map(|words| words.concat()),
    ]
}

/// The largest amount of memory that this process has had, in bytes.
#[cfg(target_os = "linux")]
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[test]
#[cfg(target_os = "linux")]
fn two_hundred_thousand_issues_cost_no_more_than_their_text() {
    let issue = |number: usize| {
        format!(r#"{{"id":"b-{number}","title":"do it","status":"open","priority":2,"x":[1]}}"#)
    };
    let text = format!("[{}]", (0..200_000).map(issue).collect::<Vec<_>>().join(","));
    let before = peak();
    let mut found = 0;
    each_issue(&text, &mut |_| found += 1).unwrap();
    assert_eq!(found, 200_000);
    let grown = peak() - before;
    assert!(grown < 8 << 20, "{} bytes an issue", grown / 200_000);
}
