//! 64 senders at once, and SIGKILLs at 200 random moments of sends, claims and archivings.
//!
//! Every message that was acknowledged is in the mailbox of its recipient once, every sender has a copy of exactly the
//! messages that were delivered, and the next command removes whatever a killed process left.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use autoloop_core::message::{AgentName, Envelope, Telemetry, Type};
use autoloop_core::review::Severity;
use autoloop_core::timestamp::Timestamp;
use autoloop_runtime::mailbox::{Listed, Place, Workspace};
use autoloop_runtime::world::{Entropy, OsEntropy, World};
use autoloop_testkit::sandbox::{Reaped, part, tell, until};
use autoloop_testkit::{Dice, Sandbox, Seed};

const KILLS: usize = 200;
const SENDERS: usize = 64;
const EACH: usize = 100;
const PLACES: [Place; 3] = [Place::Unread, Place::Claimed, Place::Archived];

fn agent(name: &str) -> AgentName {
    name.parse().unwrap()
}

fn workspace(sandbox: &Sandbox) -> Workspace {
    Workspace::new(sandbox.path("mail"), &World::real())
}

fn message(from: &str, to: &[&str], subject: String) -> Envelope {
    Envelope {
        id: String::new(),
        from: agent(from),
        to: to.iter().map(|name| agent(name)).collect(),
        kind: Type::Notification,
        priority: Severity::P2,
        created_at: Timestamp::from_millis(0),
        expires_at: None,
        channel: None,
        auto_proceed: false,
        related_packet: None,
        related_pr: None,
        conversation_id: None,
        parent_message_id: None,
        context_keys: None,
        subject,
        body: "x".repeat(2_000),
        telemetry: Telemetry::default(),
    }
}

#[test]
fn part_of_a_child() {
    let Some(part) = part() else { return };
    let (what, number) = part.split_once(' ').unwrap();
    // Children start in the sandbox.
    let workspace = Workspace::new("mail".into(), &World::real());
    let ack = |text: &str| {
        std::io::stderr().write_all(format!("{text}\n").as_bytes()).expect("the test reads it");
    };
    match what {
        "burst" => {
            for count in 0..EACH {
                let subject = format!("{number}-{count}");
                ack(&workspace.send(message(number, &["bob"], subject)).unwrap().id);
            }
        }
        "send" => {
            for count in 0.. {
                let sent = message("ann", &["bob", "cyd"], format!("{number}-{count}"));
                ack(&workspace.send(sent).unwrap().id);
            }
        }
        "take" => loop {
            if let Some(claimed) = workspace.claim_next(&agent("bob")).unwrap() {
                let id = claimed.header.unwrap().id;
                workspace.archive(&agent("bob"), &id).unwrap();
                ack(&format!("archived {id}"));
            }
        },
        other => panic!("{other}"),
    }
}

/// A child, and the lines that it acknowledged, known once it ended.
struct Child {
    process: Reaped,
    acknowledged: JoinHandle<Vec<String>>,
}

impl Child {
    fn start(sandbox: &Sandbox, part: &str, count: &Arc<AtomicU64>) -> Self {
        let mut command = sandbox.play(part);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Reaped::start(command);
        let pipe = process.0.stderr.take().expect("it was asked for");
        let count = Arc::clone(count);
        let listen = move || {
            let mut lines = Vec::new();
            for line in BufReader::new(pipe).lines() {
                lines.push(line.expect("it writes text"));
                count.fetch_add(1, Ordering::SeqCst);
            }
            lines
        };
        Child { process, acknowledged: thread::spawn(listen) }
    }

    fn kill(mut self) -> Vec<String> {
        let ended = self.process.0.try_wait().expect("it is our child");
        self.process.kill();
        let lines = self.acknowledged.join().expect("its lines are text");
        assert_eq!(ended, None, "it ended by itself: {lines:?}");
        lines
    }
}

fn listed(workspace: &Workspace, name: &str) -> Vec<Listed> {
    workspace.list(&agent(name), &PLACES).unwrap()
}

/// The ids in a mailbox, each of which must be there once.
fn ids(listed: &[Listed]) -> BTreeSet<String> {
    let ids: Vec<String> = listed
        .iter()
        .map(|listed| listed.header.as_ref().expect("it is valid").id.clone())
        .collect();
    let unique: BTreeSet<String> = ids.iter().cloned().collect();
    assert_eq!(unique.len(), ids.len(), "a message is there twice");
    unique
}

/// The names of all files that are neither delivered nor copies.
fn unfinished(sandbox: &Sandbox, names: &[&str]) -> Vec<String> {
    let dirs = names.iter().flat_map(|name| [".sending", ".incoming"].map(|dir| (name, dir)));
    let paths = dirs.map(|(name, dir)| sandbox.path(format!("mail/agents/{name}/{dir}")));
    let files = paths.flat_map(|path| std::fs::read_dir(path).unwrap());
    files.map(|file| file.unwrap().path().display().to_string()).collect()
}

#[test]
fn many_senders_at_once_deliver_every_message_once() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let names: Vec<String> = (0..SENDERS).map(|number| format!("s{number}")).collect();
    let agents: Vec<AgentName> =
        names.iter().map(|name| agent(name)).chain([agent("bob")]).collect();
    workspace(&sandbox).init(&agents).unwrap();
    let count = Arc::default();
    let children: Vec<Child> =
        names.iter().map(|name| Child::start(&sandbox, &format!("burst {name}"), &count)).collect();
    let mut sent = BTreeSet::new();
    for child in children {
        let mut process = child.process;
        let lines = child.acknowledged.join().unwrap();
        assert!(process.0.wait().unwrap().success(), "{}", lines.join("\n"));
        sent.extend(lines);
    }
    assert_eq!(sent.len(), SENDERS * EACH, "ids are unique");
    let listed = listed(&workspace(&sandbox), "bob");
    assert_eq!(ids(&listed), sent);
    let names: BTreeSet<String> = listed.iter().map(Listed::name).collect();
    assert_eq!(names.len(), sent.len());
}

#[test]
fn kills_at_random_moments_lose_and_double_nothing() {
    let seed = Seed(OsEntropy.number());
    tell(&format!("mail_kills: seed {seed}"));
    let mut dice = seed.dice();
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    workspace(&sandbox).init(&[agent("ann"), agent("bob"), agent("cyd")]).unwrap();
    let mut lines = kill_at_random(&sandbox, &mut dice);
    let archived: BTreeSet<String> = {
        let archived = lines.iter().filter_map(|line| line.strip_prefix("archived "));
        archived.map(str::to_owned).collect()
    };
    lines.retain(|line| !line.starts_with("archived "));

    // The next command of any agent finishes what is left.
    workspace(&sandbox).sweep().unwrap();
    assert_eq!(unfinished(&sandbox, &["ann", "bob", "cyd"]), [""; 0]);
    let workspace = workspace(&sandbox);
    let bob = listed(&workspace, "bob");
    let delivered = ids(&bob);
    assert_eq!(ids(&listed(&workspace, "cyd")), delivered, "a broadcast reaches all or none");
    assert_eq!(copies(&sandbox), delivered.len(), "the sender has a copy of each");
    for id in &lines {
        assert!(delivered.contains(id), "{id} was acknowledged and is lost");
    }
    let subjects: BTreeMap<String, usize> =
        bob.iter().fold(BTreeMap::new(), |mut counts, listed| {
            *counts.entry(listed.header.as_ref().unwrap().subject.clone()).or_default() += 1;
            counts
        });
    assert!(subjects.values().all(|count| *count == 1), "one send delivers one message");
    for listed in &bob {
        let id = &listed.header.as_ref().unwrap().id;
        assert!(!archived.contains(id) || listed.place == Place::Archived, "{id} came back");
    }
    tell(&format!("mail_kills: {} sent, {} archived", delivered.len(), archived.len()));
    assert!(!archived.is_empty() && lines.len() > KILLS / 4, "{} sent", lines.len());
}

fn copies(sandbox: &Sandbox) -> usize {
    std::fs::read_dir(sandbox.path("mail/agents/ann/outbox")).unwrap().count()
}

/// Keeps three senders and one that claims and archives running, kills them, and returns what they acknowledged.
fn kill_at_random(sandbox: &Sandbox, dice: &mut Dice) -> Vec<String> {
    let count = Arc::new(AtomicU64::new(0));
    let mut number = 0;
    let mut start = |place: usize| {
        number += 1;
        let what = if place == 0 { "take" } else { "send" };
        Child::start(sandbox, &format!("{what} {number}"), &count)
    };
    let mut children: Vec<Child> = (0..4).map(&mut start).collect();
    let mut acknowledged = Vec::new();
    for _ in 0..KILLS {
        let wanted = count.load(Ordering::SeqCst) + dice.below(6);
        until("the children to get on", || (count.load(Ordering::SeqCst) >= wanted).then_some(()));
        // At some moment between two polls of the wait above.
        for _ in 0..dice.below(2_000) {
            std::hint::spin_loop();
        }
        let victim = dice.index(children.len());
        let killed = std::mem::replace(&mut children[victim], start(victim));
        acknowledged.extend(killed.kill());
    }
    children.into_iter().for_each(|child| acknowledged.extend(child.kill()));
    acknowledged
}
