//! The built-in queue: the errors for impossible requests, and any interleaving of several owners.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::{BTreeMap, BTreeSet};

use autoloop_core::queue::*;
use autoloop_core::record::{Glance, QueueRenewed, Record, print};
use autoloop_core::timestamp::Timestamp;
use autoloop_core::view::View;
use autoloop_testkit::{Dice, simulate};

const BEGIN: i64 = 1_794_777_126_031;

/// A queue, its clock, and every claim that was ever given.
struct Yard {
    tasks: Tasks,
    now: i64,
    journal: Vec<Vec<u8>>,
}

impl Yard {
    fn new() -> Self {
        Yard { tasks: Tasks::default(), now: BEGIN, journal: Vec::new() }
    }

    /// With these tasks: title, and the numbers of its dependencies.
    fn with(tasks: &[(&str, &[u32])]) -> Self {
        let mut yard = Yard::new();
        for (title, after) in tasks {
            let after = after.iter().map(|number| format!("t-{number}")).collect();
            let new = New { title: (*title).to_owned(), after, ..New::default() };
            let (added, _) = yard.tasks.add(new, yard.stamp()).unwrap();
            yard.write(&added);
        }
        yard
    }

    fn stamp(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    fn in_seconds(&self, seconds: i64) -> Timestamp {
        Timestamp::from_millis(self.now + seconds * 1_000)
    }

    /// Writes a change, and applies it as any reader would.
    fn write(&mut self, record: &Record) {
        let mut line = Vec::new();
        print(record, &mut line);
        self.tasks.apply(&Glance::read(line.trim_ascii_end()).unwrap());
        self.journal.push(line);
    }

    fn claim(&mut self, id: &str, owner: &str, seconds: i64) -> Result<Claim, Refusal> {
        let until = self.in_seconds(seconds);
        let (change, claim) = self.tasks.claim(id, owner, self.stamp(), until)?;
        self.write(&change);
        Ok(claim)
    }

    fn close(&mut self, claim: &Claim) -> Result<(), Refusal> {
        let closed = self.tasks.close(claim, "done", self.stamp())?;
        self.write(&closed);
        Ok(())
    }

    fn add_error(&self, new: New) -> String {
        self.tasks.add(new, self.stamp()).unwrap_err().to_string()
    }

    fn ready(&self) -> Vec<&str> {
        self.tasks.ready(self.stamp()).iter().map(|task| task.id.as_str()).collect()
    }
}

fn titled(title: &str) -> New {
    New { title: title.to_owned(), ..New::default() }
}

#[test]
fn the_most_urgent_comes_first_and_then_the_oldest() {
    let mut yard = Yard::new();
    for priority in [2, 4, 0, 2, 0] {
        let new = New { priority: Priority::new(priority).unwrap(), ..titled("work") };
        let (added, _) = yard.tasks.add(new, yard.stamp()).unwrap();
        yard.write(&added);
    }
    assert_eq!(yard.ready(), ["t-3", "t-5", "t-1", "t-4", "t-2"]);
    let next = |but: &[&str], held_at: Option<&str>| {
        let but = but.iter().map(ToString::to_string).collect();
        let wanted = Wanted { but, held_at: held_at.map(str::to_owned) };
        yard.tasks.next(yard.stamp(), &wanted).map(|task| task.id.as_str())
    };
    assert_eq!(next(&[], None), Some("t-3"));
    assert_eq!(next(&["t-3"], None), Some("t-5"));
    assert_eq!(yard.tasks.mark(), "5");
    assert_eq!([next(&[], Some("5")), next(&[], Some("2"))], [Some("t-3"), Some("t-1")]);
    assert_eq!(next(&[], Some("0")), None);
    let added = yard.tasks.added_since("3", yard.stamp()).map(|task| &*task.id);
    assert_eq!(added.collect::<Vec<_>>(), ["t-4", "t-5"]);
}

#[test]
fn a_task_is_not_ready_until_its_dependencies_are_closed() {
    let mut yard = Yard::with(&[("a", &[]), ("b", &[1]), ("c", &[1, 2])]);
    assert_eq!(yard.ready(), ["t-1"]);
    let refused = yard.claim("t-3", "ann", 60).unwrap_err();
    insta::assert_snapshot!(refused, @"t-3 waits for t-1, t-2");
    let claim = yard.claim("t-1", "ann", 60).unwrap();
    assert_eq!(yard.ready(), [""; 0]);
    yard.close(&claim).unwrap();
    assert_eq!(yard.ready(), ["t-2"]);
    let reopened = yard.tasks.reopen("t-1", "bob", "not so", yard.stamp()).unwrap();
    yard.write(&reopened);
    assert_eq!(yard.ready(), ["t-1"]);
    let progress = yard.tasks.progress(yard.stamp());
    assert_eq!(progress, Progress { done: 0, in_work: 0, ready: 1, blocked: 2 });
}

#[test]
fn a_late_word_of_an_owner_whose_claim_expired_is_refused() {
    let mut yard = Yard::with(&[("a", &[])]);
    let late = yard.claim("t-1", "ann", 60).unwrap();
    insta::assert_snapshot!(
        yard.claim("t-1", "bob", 60).unwrap_err(),
        @"t-1 is claimed by ann until 2026-11-15T21:13:06.031Z"
    );
    yard.now += 60_000;
    let claim = yard.claim("t-1", "bob", 60).unwrap();
    assert!(claim.fence > late.fence);
    insta::assert_snapshot!(yard.close(&late).unwrap_err(), @"claim 1 of t-1 is no longer valid: bob has claimed it");
    let renewed = yard.tasks.renew(&late, yard.stamp(), yard.in_seconds(60));
    assert!(matches!(renewed, Err(Refusal::Lost { .. })));
    // The clock may jump back to where the first claim was good.
    yard.now -= 90_000;
    assert!(yard.close(&late).is_err());
    yard.close(&claim).unwrap();
    insta::assert_snapshot!(yard.close(&claim).unwrap_err(), @"t-1 is closed");
}

#[test]
fn an_owner_that_was_killed_takes_its_own_again_and_its_dead_self_is_refused() {
    let mut yard = Yard::with(&[("a", &[])]);
    let dead = yard.claim("t-1", "run-s1", 60).unwrap();
    let alive = yard.claim("t-1", "run-s1", 60).unwrap();
    assert!(yard.close(&dead).is_err());
    yard.close(&alive).unwrap();
}

#[test]
fn an_owner_keeps_what_was_made_to_wait_meanwhile() {
    let mut yard = Yard::with(&[("a", &[]), ("b", &[])]);
    yard.claim("t-1", "run-s1", 60).unwrap();
    let linked = yard.tasks.link("t-1", "t-2", yard.stamp()).unwrap();
    yard.write(&linked);
    assert!(yard.claim("t-1", "run-s2", 60).is_err());
    let again = yard.claim("t-1", "run-s1", 60).unwrap();
    yard.now += 90_000;
    let blocked = yard.claim("t-1", "run-s2", 60).unwrap_err();
    assert_eq!(blocked.to_string(), "t-1 waits for t-2");
    // Until another worker claims it, its late owner keeps it.
    yard.close(&again).unwrap();
}

#[test]
fn a_user_closes_unclaimed_tasks_and_their_own() {
    let mut yard = Yard::with(&[("a", &[]), ("b", &[])]);
    yard.claim("t-1", "ann", 60).unwrap();
    let closed = yard.tasks.close_as("t-1", "bob", "", yard.stamp());
    assert!(matches!(closed, Err(Refusal::Held { .. })));
    for (id, who) in [("t-1", "ann"), ("t-2", "bob")] {
        let closed = yard.tasks.close_as(id, who, "", yard.stamp()).unwrap();
        yard.write(&closed);
    }
    assert!(yard.tasks.progress(yard.stamp()).is_done());
}

#[test]
fn refusals_say_what_is_wrong() {
    let mut yard = Yard::with(&[("a", &[]), ("b", &[1]), ("c", &[2])]);
    let now = yard.stamp();
    let claim = yard.claim("t-1", "ann", 60).unwrap();
    let tasks = &yard.tasks;
    insta::assert_snapshot!(yard.add_error(titled(" \n")), @"the title is empty: expected one line that says what to do");
    insta::assert_snapshot!(yard.add_error(titled(&"x".repeat(1025))), @"the title has 1025 bytes: the limit is 1024");
    let long = Some("x".repeat(10 * 1024 * 1024));
    insta::assert_snapshot!(
        yard.add_error(New { description: long.clone(), ..titled("a") }),
        @"the description has 10485760 bytes: the limit is 262144"
    );
    insta::assert_snapshot!(
        yard.add_error(New { acceptance: long, ..titled("a") }),
        @"the text of the acceptance criteria has 10485760 bytes: the limit is 262144"
    );
    insta::assert_snapshot!(
        yard.add_error(New { after: vec!["t-9".to_owned()], ..titled("a") }),
        @"unknown task 't-9'"
    );
    insta::assert_snapshot!(tasks.known("t-1,t-2").unwrap_err(), @"unknown task 't-1,t-2'");
    insta::assert_snapshot!(tasks.known("a\u{1b}[2Jb\n").unwrap_err(), @"unknown task 'a [2Jb'");
    insta::assert_snapshot!(tasks.reopen("t-1", "ann", "", now).unwrap_err(), @"t-1 is not closed");
    insta::assert_snapshot!(tasks.link("t-1", "t-3", now).unwrap_err(), @"t-1 cannot wait for t-3: t-3 waits for t-2, which waits for t-1");
    insta::assert_snapshot!(tasks.link("t-1", "t-1", now).unwrap_err(), @"t-1 cannot wait for itself");
    insta::assert_snapshot!(tasks.link("t-2", "t-1", now).unwrap_err(), @"t-2 already waits for t-1");
    insta::assert_snapshot!(tasks.unlink("t-1", "t-2", now).unwrap_err(), @"t-1 does not wait for 't-2'");
    insta::assert_snapshot!(tasks.claim_to_release("t-2", None).unwrap_err(), @"t-2 is not claimed");
    insta::assert_snapshot!(tasks.claim_to_release("t-1", Some("bob")).unwrap_err(), @"t-1 is claimed by ann until 2026-11-15T21:13:06.031Z");
    insta::assert_snapshot!(tasks.claim("t-2", "a b", now, now).unwrap_err(), @"invalid owner 'a b': expected one word of at most 200 bytes");
    let month = yard.in_seconds(30 * 86_400 + 1);
    insta::assert_snapshot!(tasks.claim("t-1", "ann", now, month).unwrap_err(), @"t-1 cannot be claimed for longer than 30d");
    insta::assert_snapshot!(tasks.renew(&claim, now, month).unwrap_err(), @"t-1 cannot be claimed for longer than 30d");
    let path = (1..=7).map(|number| format!("t-{number}")).collect();
    insta::assert_snapshot!(Refusal::Cycle { id: "t-7".into(), path }, @"t-7 cannot wait for t-1: t-1 waits for t-7 through 5 others");
    insta::assert_snapshot!(Refusal::NoPriority { number: 7 }, @"invalid priority 7: expected 0 (most urgent) to 4");
    insta::assert_snapshot!(Refusal::BadId { id: "a b".into() }, @"invalid task id 'a b': expected one word of at most 200 bytes");
    insta::assert_snapshot!(Refusal::Taken { id: "t-1".into() }, @"duplicate task id 't-1'");
    let released = tasks.release(&claim, "ann", "given up", now).unwrap();
    yard.write(&released);
    insta::assert_snapshot!(yard.close(&claim).unwrap_err(), @"claim 1 of t-1 is no longer valid: it was released");
}

#[test]
fn records_that_break_the_rules_or_come_from_agents_do_not_count() {
    let mut yard = Yard::with(&[("a", &[]), ("b", &[1])]);
    yard.claim("t-1", "ann", 60).unwrap();
    let before = yard.tasks.clone();
    let ts = yard.stamp();
    for (topic, body) in [
        ("closed", r#""payload": "task=t-1;", "source": "agent""#),
        ("closed", r#""fields": {"task": "t-1", "reason": "no number"}"#),
        ("closed", r#""fields": {"task": "t-1", "reason": "", "fence": "7"}"#),
        ("released", r#""fields": {"task": "t-1", "reason": "", "fence": "2"}"#),
        (
            "claimed",
            r#""fields": {"task": "t-1", "owner": "eve", "until": "2026-11-16T00:00:00.000Z", "fence": "2"}"#,
        ),
        (
            "claimed",
            r#""fields": {"task": "t-2", "owner": "eve", "until": "2026-11-16T00:00:00.000Z", "fence": "2"}"#,
        ),
        (
            "claimed",
            r#""fields": {"task": "t-1", "owner": "ann", "until": "2026-11-16T00:00:00.000Z", "fence": "1"}"#,
        ),
        (
            "claimed",
            r#""fields": {"task": "t-1", "owner": "ann", "until": "2026-11-16T00:00:00.000Z", "fence": "18446744073709551615"}"#,
        ),
        ("claimed", r#""fields": {"task": "t-1", "owner": "ann", "until": "soon", "fence": "2"}"#),
        (
            "claimed",
            r#""fields": {"task": "t-1", "owner": "ann", "until": "9999-01-01T00:00:00.000Z", "fence": "2"}"#,
        ),
        (
            "renewed",
            r#""fields": {"task": "t-1", "until": "9999-01-01T00:00:00.000Z", "fence": "1"}"#,
        ),
        ("added", r#""fields": {"task": "t-1", "title": "again", "priority": "2"}"#),
        ("added", r#""fields": {"task": "t-3", "title": "odd", "priority": "9"}"#),
        ("added", r#""fields": {"task": "", "title": "odd", "priority": "2"}"#),
        ("added", r#""fields": {"task": "--force", "title": "odd", "priority": "2"}"#),
        ("added", r#""fields": {"task": "a,b", "title": "odd", "priority": "2"}"#),
        ("added", r#""fields": {"task": "a\u0000b", "title": "odd", "priority": "2"}"#),
        ("added", r#""fields": {"task": "\u001b[2J", "title": "odd", "priority": "2"}"#),
        ("linked", r#""fields": {"task": "t-1", "after": "t-2"}"#),
        ("mystery", r#""fields": {"task": "t-1"}"#),
    ] {
        let line = format!(
            r#"{{"run": "", "iteration": "", "topic": "queue.task.{topic}", {body}, "ts": "{ts}", "v": 1}}"#
        );
        yard.tasks.apply(&Glance::read(line.as_bytes()).unwrap());
        assert_eq!(yard.tasks, before, "{line}");
    }
    let good = r#"{"run": "RUN", "iteration": "", "topic": "queue.task.linked", "fields": {"task": "t-3", "after": "t-2"}, "ts": "2026-11-15T21:12:06.031Z", "v": 1}"#;
    let added = yard.tasks.add(titled("c"), ts).unwrap();
    yard.write(&added.0);
    for (run, counts) in [("swift-otter", false), ("", true)] {
        let line = good.replace("RUN", run);
        yard.tasks.apply(&Glance::read(line.as_bytes()).unwrap());
        assert_eq!(yard.tasks.get("t-3").unwrap().after.len(), usize::from(counts), "{line}");
    }
}

#[test]
fn a_claim_from_a_fast_clock_expires_too() {
    let mut yard = Yard::with(&[("a", &[])]);
    let right = yard.now;
    yard.now += 10 * 365 * 86_400_000;
    let ahead = yard.claim("t-1", "ann", 60).unwrap();
    assert_eq!(yard.ready(), [""; 0]);
    yard.now = right;
    assert_eq!(yard.ready(), ["t-1"]);
    // Until another worker claims it, she keeps it.
    yard.tasks.renew(&ahead, yard.stamp(), yard.in_seconds(60)).unwrap();
    yard.claim("t-1", "bob", 60).unwrap();
    assert!(matches!(yard.close(&ahead), Err(Refusal::Lost { .. })));
    // A clock that was set back a little changes nothing.
    yard.now -= 3_600_000;
    assert!(matches!(yard.claim("t-1", "eve", 60), Err(Refusal::Held { .. })));
}

#[test]
fn ten_thousand_tasks_are_no_burden() {
    let mut yard = Yard::new();
    for number in 0..10_000 {
        let after = if number > 0 { vec![format!("t-{number}")] } else { Vec::new() };
        let added = yard.tasks.add(New { after, ..titled("work") }, yard.stamp()).unwrap();
        yard.write(&added.0);
    }
    assert_eq!(yard.ready(), ["t-1"]);
    let linked = yard.tasks.link("t-1", "t-10000", yard.stamp());
    insta::assert_snapshot!(linked.unwrap_err(), @"t-1 cannot wait for t-10000: t-10000 waits for t-1 through 9998 others");
}

/// Several owners, some of which die and return, on a clock that jumps.
#[test]
fn no_interleaving_gives_one_item_to_two() {
    simulate("queue", 100, |_, dice| {
        let mut yard = Yard::new();
        let mut claims: Vec<Claim> = Vec::new();
        let mut added = 0;
        let mut closed: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..120 {
            yard.now += match dice.below(20) {
                0 => -30_000,
                1 => 90_000,
                some => i64::try_from(some).unwrap() * 500,
            };
            act(&mut yard, dice, (&mut claims, &mut added, &mut closed));
            examine(&yard, &claims, added);
        }
        let mut again = Tasks::default();
        for line in &yard.journal {
            again.apply(&Glance::read(line.trim_ascii_end()).unwrap());
        }
        assert_eq!(again, yard.tasks);
        let bytes = again.encode(Vec::new()).unwrap();
        assert_eq!(Tasks::decode(&bytes), Some(again));
        assert_eq!(Tasks::decode(&bytes[..dice.index(bytes.len())]), None);
    });
}

/// A damaged view of the queue is rejected, or loaded as something usable.
#[test]
fn damaged_views_do_no_harm() {
    simulate("queue bytes", 300, |_, dice| {
        let mut yard = Yard::with(&[("a", &[]), ("b", &[1]), ("c", &[1, 2])]);
        yard.claim("t-1", "ann", 60).unwrap();
        let mut bytes = yard.tasks.encode(Vec::new()).unwrap();
        for _ in 0..=dice.below(3) {
            let place = dice.index(bytes.len());
            bytes[place] = dice.bytes(1)[0];
        }
        let Some(tasks) = Tasks::decode(&bytes) else { return };
        let (ready, progress) = (tasks.ready(yard.stamp()).len(), tasks.progress(yard.stamp()));
        assert_eq!(ready, progress.ready);
        yard.tasks = tasks;
        let added = yard.tasks.add(titled("d"), yard.stamp()).unwrap();
        yard.write(&added.0);
        assert_eq!(yard.tasks.iter().count(), progress.total() + 1);
        let _ = yard.tasks.link(&added.1, "t-3", yard.stamp());
    });
}

type Known<'a> = (&'a mut Vec<Claim>, &'a mut usize, &'a mut BTreeMap<String, usize>);

/// One owner acts. What the queue allows is compared with what the test knows.
fn act(yard: &mut Yard, dice: &mut Dice, (claims, added, closed): Known<'_>) {
    let owner = format!("w{}", dice.below(4));
    let id = format!("t-{}", dice.below(10) + 1);
    let other = format!("t-{}", dice.below(10) + 1);
    let now = yard.stamp();
    let claim = (!claims.is_empty()).then(|| dice.pick(claims).clone());
    let change = match (dice.below(9), claim) {
        (0 | 1, _) => {
            let after = if yard.tasks.get(&other).is_some() { vec![other] } else { Vec::new() };
            let change =
                yard.tasks.add(New { after, ..titled("work") }, now).map(|(added, _)| added);
            *added += usize::from(change.is_ok());
            change
        }
        (2..=4, _) => {
            let Some(task) = yard.tasks.next(now, &Wanted::default()) else { return };
            assert!(!task.is_closed && yard.tasks.open_dependencies(task).next().is_none());
            let id = task.id.clone();
            let (change, claim) = yard.tasks.claim(&id, &owner, now, yard.in_seconds(20)).unwrap();
            claims.push(claim);
            Ok(change)
        }
        (5, Some(claim)) => {
            yard.tasks.renew(&claim, now, yard.in_seconds(20)).map(|(change, _)| change)
        }
        (6, Some(claim)) => yard.tasks.release(&claim, &claim.owner, "failed", now),
        (7, Some(claim)) => {
            let change = yard.tasks.close(&claim, "done", now);
            if change.is_ok() {
                *closed.entry(claim.item).or_default() += 1;
            }
            change
        }
        (8, _) => match dice.below(3) {
            0 => yard.tasks.link(&id, &other, now),
            1 => yard.tasks.unlink(&id, &other, now),
            _ => {
                let change = yard.tasks.reopen(&id, &owner, "", now);
                if change.is_ok() {
                    closed.remove(&id);
                }
                change
            }
        },
        _ => return,
    };
    if let Ok(change) = change {
        let before = yard.tasks.clone();
        yard.write(&change);
        // On a clock that jumps, a claim may be renewed until the same moment.
        let counts = yard.tasks != before || change.topic == *QueueRenewed::TOPIC;
        assert!(counts, "what is decided counts when it is read: {change:?}");
    }
    assert!(closed.values().all(|times| *times == 1));
}

/// What holds at any time.
fn examine(yard: &Yard, claims: &[Claim], added: usize) {
    let now = yard.stamp();
    assert_eq!(yard.tasks.iter().count(), added, "nothing is lost");
    assert_eq!(yard.tasks.progress(now).total(), added);
    for task in yard.tasks.iter() {
        let good = claims.iter().filter(|claim| {
            claim.item == task.id && yard.tasks.renew(claim, now, yard.in_seconds(20)).is_ok()
        });
        let owners = good.count();
        assert!(owners <= 1, "{owners} owners of {}", task.id);
        assert!(!task.is_closed || owners == 0, "{} is closed and claimed", task.id);
        // Nothing depends on itself.
        let mut seen = BTreeSet::new();
        let mut open: Vec<&str> = task.after.iter().map(String::as_str).collect();
        while let Some(next) = open.pop() {
            assert_ne!(next, task.id);
            if seen.insert(next) {
                open.extend(yard.tasks.get(next).unwrap().after.iter().map(String::as_str));
            }
        }
    }
}
