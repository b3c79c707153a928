//! An automatic review by message in a simulated world, killed at every call to the disk and resumed.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoloop_core::coordinator::Kind;
use autoloop_core::exchange::{Acting, Exchange};
use autoloop_core::layout::StateDir;
use autoloop_core::message::{MAX_ROUNDS, Message, Type};
use autoloop_core::record::ExchangeStart;
use autoloop_runtime::drive::{DriveError, ExchangeDriver, Order};
use autoloop_runtime::journal::{FileJournal, FileSettings};
use autoloop_runtime::launch::{Launch, Opening};
use autoloop_runtime::mailbox::Workspace;
use autoloop_runtime::project::Project;
use autoloop_runtime::runs;
use autoloop_runtime::site::Site;
use autoloop_runtime::world::{Disk, Job};
use autoloop_testkit::{Faults, Script, Seed, SimWorld, all_seeds_run, simulate};

const STATE: &str = "/p/.autoloop";
const JOURNAL: &str = "/p/.autoloop/journal.jsonl";
const RUN: &str = "swift-otter";
const SETTINGS: &[u8] = b"backend.command = 'author'\nslots.reviewer.command = 'reviewer'\nchecks.test.command = 'make test'\n";

/// An exchange of a generated reviewer and author.
struct Play {
    sim: SimWorld,
    rounds: u64,
}

impl Play {
    fn new(seed: Seed, rounds: u64) -> Play {
        let sim = SimWorld::new(seed);
        sim.disk.set_contents("/p/autoloops.toml", SETTINGS);
        Play { sim: sim.with_script(move |job| script(seed, job)), rounds }
    }

    /// Lets one harness carry the exchange on.
    fn drive(&self) -> Result<Exchange, DriveError> {
        let world = self.sim.world();
        let settings = FileSettings { lock_timeout: Duration::from_secs(30) };
        let journal = FileJournal::new(JOURNAL, &world, settings);
        let project = Project { dir: "/p".into(), loop_dir: "/p".into(), ..Project::default() };
        let loaded = project.load(&*world.disk)?;
        let state_dir = StateDir::new(STATE);
        let site =
            Site { program: "/bin/autoloop".as_ref(), ..Site::new(&world, &journal, &state_dir) };
        let begun = runs::exchanges(&site)?.into_iter().next();
        let (opening, order) = match begun {
            None => (Opening::Begin, self.request()),
            Some(exchange) if !exchange.is_auto => (Opening::Resume, Order::Auto),
            Some(_) => (Opening::Resume, Order::Continue),
        };
        let launch = Launch::new(Kind::Exchange, RUN.parse()?, opening, project, loaded);
        let acting = if order == self.request() { Acting::Author } else { Acting::Reviewer };
        let mail = Workspace::new(state_dir.join("mail"), &world);
        ExchangeDriver::open(site, &launch, mail, acting)?.run(order)
    }

    fn request(&self) -> Order {
        Order::Request {
            start: ExchangeStart {
                author: "alice".into(),
                reviewer: "bob".into(),
                pr: 7,
                branch: "topic".into(),
                base: String::new(),
                rounds: self.rounds,
                max_turns: 8,
                max_runtime_s: 600,
                conversation: "conv-20260213-alice-1".into(),
            },
            commit: format!("{:040x}", 1),
            diff_summary: "a change".into(),
        }
    }

    /// Carries the exchange on until it ends. The first harness that makes `at` calls to the disk dies.
    fn play(&mut self, at: Option<u64>) -> Exchange {
        if let Some(at) = at {
            self.sim.disk.set_faults(Faults::none().die_at_call(at));
        }
        for _ in 0..20 {
            let driven = self.drive();
            if !self.sim.disk.is_alive() {
                self.sim.disk = self.sim.disk.reopen();
                continue;
            }
            let exchange = driven.unwrap();
            if exchange.finish.is_some() {
                return exchange;
            }
        }
        panic!("it never ends");
    }

    fn names(&self, dir: &str) -> Vec<PathBuf> {
        let dir = Path::new(STATE).join("mail/agents").join(dir);
        let names = self.sim.disk.list(&dir).unwrap_or_default();
        let names = names.iter().map(|name| dir.join(name));
        names.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect()
    }

    /// The messages in an inbox, processed ones included, by their types.
    fn inbox(&self, agent: &str) -> Vec<Type> {
        let dirs = ["inbox", "inbox/claimed", "inbox/archive"];
        let paths = dirs.iter().flat_map(|dir| self.names(&format!("{agent}/{dir}")));
        let mut paths: Vec<PathBuf> = paths.collect();
        paths.sort_by_key(|path| path.file_name().unwrap().to_owned());
        let read = |path: &PathBuf| {
            let bytes = self.sim.disk.contents(path.to_str().unwrap());
            let checked = Message::read(&bytes);
            assert_eq!(checked.problems.errors, [], "{}", path.display());
            checked.value.unwrap().envelope.kind
        };
        paths.iter().map(read).collect()
    }
}

/// What an agent does: a function of the seed and of its turn.
fn script(seed: Seed, job: &Job) -> Script {
    let variable = |name: &str| {
        let found = job.env.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let round: u64 = variable("AUTOLOOP_ITERATION").parse().unwrap_or(0);
    let mut dice = Seed(seed.0 ^ round).dice();
    let name = job.program.to_string_lossy().into_owned();
    let script = Script::exits(0).taking(Duration::from_secs(3));
    match &*name {
        "/bin/sh" => Script::exits(i32::from(seed.0.is_multiple_of(5))).stdout("tested"),
        "author" => script.stdout("I fixed it."),
        _ => {
            let status = if dice.chance(1, 2) { "fixed" } else { "open" };
            script.stdout(format!(
                "```yaml\npacket_id: 20260213_x_bob_r{round}\nreviewer: bob\nround: {round}\ncreated_at_utc: \"2026-02-13T10:00:00Z\"\n\
                 findings:\n  - {{id: F-001, severity: P1, blocking: true, status: {status}}}\n  - {{id: F-002, severity: P1, blocking: true, status: {status}}}\n\
                 qa_validation:\n  commands_run:\n    - command: make test\n      result: pass\n```\n"
            ))
        }
    }
}

#[test]
fn an_exchange_killed_at_any_call_ends_like_an_undisturbed_one() {
    let mut outcomes = BTreeSet::new();
    simulate("exchange in a world", 6, |seed, dice| {
        let rounds = 1 + seed.0 % MAX_ROUNDS;
        let mut alone = Play::new(seed, rounds);
        let undisturbed = alone.play(None);
        let calls = alone.sim.disk.calls().total();
        outcomes.insert(undisturbed.outcome().unwrap().name());
        let expected = [alone.inbox("alice"), alone.inbox("bob")];
        for _ in 0..30 {
            let mut cut = Play::new(seed, rounds);
            let exchange = cut.play(Some(1 + dice.below(calls)));
            assert_eq!(exchange.outcome(), undisturbed.outcome());
            assert_eq!([cut.inbox("alice"), cut.inbox("bob")], expected);
        }
    });
    if all_seeds_run() {
        assert!(outcomes.len() >= 2, "{outcomes:?}");
    }
}
