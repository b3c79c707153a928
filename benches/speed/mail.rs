//! Messages: sending, checking and listing them, next to the public tool `oacp` where it is installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Fallible;
use crate::bench::{Bench, Case};
use crate::options::Effort;
use crate::table::{Finding, Quantity, Reach};
use crate::timing::{alternate, process};

const ORACLE: &str = "oacp";
const BODY: &str = "pr: 86\nbranch: b\ndiff_summary: d\n";

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "mail-send",
        what: "mail send, synced",
        against: "oacp send, not synced",
        reach: Reach::AtMost(0.05),
        measure: |bench| {
            let send = [
                "--from",
                "ann",
                "--to",
                "bob",
                "--type",
                "review_request",
                "--subject",
                "s",
                "--body",
                BODY,
            ];
            let [ours, theirs] = [["mail", "send"], ["send", "default"]];
            compare(bench, 0, &[&ours[..], &send].concat(), &[&theirs[..], &send].concat())
        },
    },
    Case {
        name: "mail-validate",
        what: "mail validate, one message",
        against: "oacp validate",
        reach: Reach::AtMost(0.05),
        measure: |bench| {
            let file = bench.place.path().join("message.yaml");
            fs::write(&file, message(0))?;
            let file = file.display().to_string();
            compare(bench, 0, &["mail", "validate", &file], &["validate", &file])
        },
    },
    Case {
        name: "mail-inbox",
        what: "mail inbox with 10,000 messages",
        against: "oacp inbox",
        reach: Reach::AtMost(0.01),
        measure: |bench| {
            let agent = ["--agent", "bob"];
            let [ours, theirs] = [["mail", "inbox"], ["inbox", "default"]];
            compare(bench, 10_000, &[&ours[..], &agent].concat(), &[&theirs[..], &agent].concat())
        },
    },
];

/// Measures two commands, each in a workspace of its own with so many messages.
fn compare(bench: &Bench, messages: u32, ours: &[&str], theirs: &[&str]) -> Fallible<Finding> {
    let project = bench.project("mail")?;
    let homes =
        ["ours", "theirs"].map(|name| bench.place.path().join(format!("mail-{messages}-{name}")));
    let mut command = project.autoloop(ours);
    command.arg("--home").arg(&homes[0]).current_dir(project.dir());
    let mut init = project.autoloop(&["mail", "init", "ann", "bob"]);
    process(init.arg("--home").arg(&homes[0]))?;
    fill(&homes[0], messages)?;
    let mut oracle = Command::new(ORACLE);
    oracle.args(theirs).env("OACP_HOME", &homes[1]);
    let mut init = Command::new(ORACLE);
    init.args(["init", "default", "--agents", "ann,bob"]).env("OACP_HOME", &homes[1]);
    let rounds = match bench.effort {
        Effort::Full => 40,
        Effort::Quick => 4,
    };
    // It takes seconds for what is measured here.
    let rounds = if messages > 0 { rounds / 4 } else { rounds };
    if process(&mut init).is_err() {
        let [ours, _] =
            alternate(rounds, || process(&mut command), || Ok(std::time::Duration::ZERO))?;
        return Ok(Finding { ours: Quantity::Time(ours), theirs: None });
    }
    fill(&homes[1], messages)?;
    let [ours, theirs] = alternate(rounds, || process(&mut command), || process(&mut oracle))?;
    Ok(Finding { ours: Quantity::Time(ours), theirs: Some(Quantity::Time(theirs)) })
}

fn fill(home: &Path, messages: u32) -> Fallible<()> {
    let inbox = home.join("projects/default/agents/bob/inbox");
    for number in 0..messages {
        let name = format!("20260213100000_ann_review_request_{number:04x}.yaml");
        fs::write(inbox.join(name), message(number))?;
    }
    Ok(())
}

fn message(number: u32) -> String {
    let body = BODY.replace('\n', "\n  ");
    format!(
        "id: msg-20260213100000-ann-{number:04x}\nfrom: ann\nto: bob\ntype: review_request\npriority: P1\n\
         created_at_utc: \"2026-02-13T10:00:00Z\"\nrelated_pr: \"86\"\nconversation_id: conv-20260213-ann-1\n\
         subject: a change\nbody: |\n  {}\n",
        body.trim_end()
    )
}
