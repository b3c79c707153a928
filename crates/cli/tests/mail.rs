//! Mailboxes and packets, through the binary.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::Reaped;
use insta::assert_snapshot;
use serde_json::Value;

const AGENTS: &str = ".autoloop/mail/projects/default/agents";

/// A project in which ann and bob have mailboxes.
fn project() -> Sandbox {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    assert_eq!(sandbox.run(&["mail", "init", "ann", "bob"]).code, Some(0));
    sandbox
}

fn send(sandbox: &Sandbox, more: &[&str]) -> String {
    let words = ["mail", "send", "--from", "ann", "--to", "bob", "--type", "notification"];
    let output = sandbox.run(&[&words[..], &["--body", "It is green."], more].concat());
    assert_eq!(output.code, Some(0), "{output}");
    output.stdout.trim().to_owned()
}

/// The output with ids, threads and ages replaced.
fn shown(sandbox: &Sandbox, args: &[&str], ids: &[&str]) -> String {
    let mut text = sandbox.run(args).to_string();
    for (number, id) in (1..).zip(ids) {
        text = text.replace(id, &format!("ID-{number}"));
    }
    let words = text.split(' ').map(|word| match word {
        word if word.starts_with("conv-") => "CONV",
        word if word.ends_with('s') && word[..word.len() - 1].parse::<u32>().is_ok() => "AGE",
        word => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn messages_are_sent_listed_claimed_and_archived() {
    let sandbox = project();
    let first = send(&sandbox, &["--subject", "first", "--expires", "2h"]);
    let second = send(&sandbox, &["--subject", "second"]);
    let ids = [first.as_str(), second.as_str()];
    let inbox = sandbox.run(&["mail", "inbox", "--agent", "bob"]).stdout;
    let lines: Vec<&str> = inbox.lines().collect();
    assert!(lines[0].starts_with(&first) && lines[1].starts_with(&second), "{inbox}");
    assert!(lines[0].contains("  conv-") && lines[0].contains("  expires 20"), "{inbox}");
    assert_eq!(sandbox.run(&["mail", "claim", "--agent", "bob"]).stdout.trim(), first);
    assert_snapshot!(shown(&sandbox, &["mail", "claim", &first, "--agent", "bob"], &ids), @"
    exit 3
    --- stderr
    autoloop: the message 'ID-1' is claimed already
    ");
    assert_eq!(
        sandbox.run(&["mail", "claim", &first, "--agent", "bob", "--release"]).code,
        Some(0)
    );
    assert_eq!(sandbox.run(&["mail", "claim", &first, "--agent", "bob"]).code, Some(0));
    assert_eq!(sandbox.run(&["mail", "archive", &first, "--agent", "bob"]).code, Some(0));
    assert_snapshot!(shown(&sandbox, &["mail", "archive", &first, "--agent", "bob"], &ids), @"
    exit 3
    --- stderr
    autoloop: the message 'ID-1' is archived already
    ");
    let all = sandbox.run(&["mail", "inbox", "--agent", "bob", "--all", "--json"]).stdout;
    let states: Vec<String> = all
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["state"].to_string())
        .collect();
    assert_eq!(states, ["\"archived\"", "\"unread\""]);
    let answer = sandbox.run(&[
        "mail",
        "send",
        "--from",
        "bob",
        "--to",
        "ann",
        "--type",
        "question",
        "--subject",
        "?",
        "--body",
        "Why?",
        "--in-reply-to",
        &first,
        "--json",
    ]);
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap();
    let thread = answer["conversation_id"].as_str().unwrap();
    assert!(lines[0].contains(thread), "an answer continues the thread");
    assert_eq!(sandbox.run(&["mail", "thread", thread]).stdout.lines().count(), 2);
    let read = sandbox.run(&["mail", "read", &first, "--agent", "bob"]);
    assert!(
        read.stdout.ends_with("subject: first\nbody: It is green.\n")
            || read.stdout.contains("It is green."),
        "{read}"
    );
    let workspace = sandbox.path(".autoloop/mail/projects/default");
    let verified = sandbox.run(&["mail", "thread", "--verify", workspace.to_str().unwrap()]);
    assert_eq!(verified.code, Some(0), "{verified}");
}

#[test]
fn what_is_invalid_is_not_sent() {
    let sandbox = project();
    let words = ["mail", "send", "--from", "ann", "--subject", "s", "--to"];
    let request = |to: &str, body: &str| {
        sandbox.run(&[&words[..], &[to, "--type", "review_request", "--body", body]].concat())
    };
    assert_snapshot!(request("bob", "branch: -x\nround: 9"), @"
    exit 3
    --- stderr
    autoloop: the message is invalid, so it was not sent
      hint: missing field 'pr' in the body of a review_request
      hint: field 'branch': invalid name of a branch '-x'
      hint: missing field 'diff_summary' in the body of a review_request
      hint: field 'round': expected a whole number from 1 to 3, found '9'
    ");
    assert_snapshot!(request("cyd", "x").to_string().replace(&sandbox.path("").display().to_string(), ""), @"
    exit 2
    --- stderr
    autoloop: there is no agent 'cyd' in .autoloop/mail/projects/default
      hint: its agents are ann, bob
      hint: create the mailbox with `autoloop mail init cyd`
    ");
    let forged = Sandbox::run(
        &project().env("OACP_AGENT", "bob"),
        &[&words[..], &["bob", "--type", "question", "--body", "x"]].concat(),
    );
    assert_snapshot!(forged, @"
    exit 3
    --- stderr
    autoloop: forged sender: this process is 'bob' (OACP_AGENT), not 'ann'
      hint: leave --from out
    ");
    assert_eq!(sandbox.run(&["mail", "inbox", "--agent", "bob"]).stdout, "");
}

#[test]
fn links_lead_nowhere() {
    let sandbox = project();
    let elsewhere = tempfile::tempdir().unwrap();
    let inbox = sandbox.path(format!("{AGENTS}/bob/inbox"));
    fs::remove_dir_all(&inbox).unwrap();
    symlink(elsewhere.path(), &inbox).unwrap();
    let words =
        ["mail", "send", "--from", "ann", "--to", "bob", "--type", "question", "--subject", "s"];
    assert_ne!(sandbox.run(&[&words[..], &["--body", "x"]].concat()).code, Some(0));
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    fs::remove_file(&inbox).unwrap();
    assert_eq!(sandbox.run(&["mail", "init", "bob"]).code, Some(0));
    let secret = elsewhere.path().join("secret.yaml");
    fs::write(&secret, "id: secret\n").unwrap();
    symlink(&secret, inbox.join("20260213100000_ann_question_0000.yaml")).unwrap();
    let listed = sandbox.run(&["mail", "inbox", "--agent", "bob"]).stdout;
    assert_eq!(listed, "20260213100000_ann_question_0000.yaml  invalid\n");
}

#[test]
fn a_watch_prints_every_message_once() {
    let sandbox = project();
    let mut ids = vec![send(&sandbox, &["--subject", "waiting"])];
    let mut command = sandbox.command();
    command.args(["mail", "watch", "--agent", "bob"]).stdout(Stdio::piped());
    let mut watch = Reaped::start(command);
    let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    let mut next = || {
        let line = lines.next().unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(next(), ids[0]);
    for number in 0..5 {
        ids.push(send(&sandbox, &["--subject", &number.to_string()]));
        // Archived at once, it is printed all the same.
        let id = ids.last().unwrap();
        assert_eq!(sandbox.run(&["mail", "archive", id, "--agent", "bob"]).code, Some(0));
    }
    let printed: Vec<String> = (1..ids.len()).map(|_| next()).collect();
    assert_eq!(printed.len(), ids.len() - 1);
    assert!(printed.iter().all(|id| ids.contains(id)), "{printed:?}");
}

#[test]
fn a_packet_is_created_filled_and_checked() {
    let sandbox = project();
    let path =
        sandbox.run(&["review", "packet", "new", "--reviewer", "bob", "--topic", "parser"]).stdout;
    let path = path.trim();
    assert!(path.ends_with("_parser_bob_r1.yaml"), "{path}");
    let add = |more: &[&str]| {
        sandbox.run(&[&["review", "packet", "add", path][..], more].concat()).to_string()
    };
    assert_snapshot!(add(&["--severity", "P1", "--description", "crash: #1\n"]), @"
    exit 0
    --- stdout
    F-001
    ");
    assert_snapshot!(add(&["--severity", "P3", "--file", "../x"]), @"
    exit 3
    --- stderr
    autoloop: the packet would be invalid, so it was not written
      hint: field 'file': '../x' has an empty part, '.' or '..' in it; write a relative path without '..'
    ");
    assert_snapshot!(add(&["--severity", "P3", "--status", "fixed", "--line", "3", "--file", "src/a.rs"]), @"
    exit 0
    --- stdout
    F-002
    ");
    assert_snapshot!(add(&["--command", "make test", "--result", "fail"]), @"exit 0");
    assert_snapshot!(sandbox.run(&["review", "gate", path]), @"
    exit 3
    --- stdout
    closed: F-001 is a blocking P1 finding with the status open
    closed: validation command 'make test' has the result fail
    --- stderr
    autoloop: the gate is closed for 2 reasons
    ");
    assert_eq!(sandbox.run(&["review", "packet", "check", path]).code, Some(0));
    let again = sandbox.run(&["review", "packet", "new", "--reviewer", "bob", "--topic", "parser"]);
    assert_eq!(again.code, Some(1), "a packet is never replaced: {again}");
}
