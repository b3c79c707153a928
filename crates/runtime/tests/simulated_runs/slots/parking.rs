//! Runs of slots whose clients are unavailable now and then.
//!
//! A seed makes 200 items, their agents, and the outages of their clients: with and without a time that the client
//! names, short and longer than a run waits, of one client or of two. Harnesses are killed and interrupted meanwhile,
//! and the run is resumed until it ends. Every item must end as it does without any of that, and no client may be
//! asked again before its time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use autoloop_core::coordinator::Kind;
use autoloop_core::layout::StateDir;
use autoloop_core::queue::New;
use autoloop_core::slot::Slots;
use autoloop_runtime::drive::{DriveError, SlotsDriver};
use autoloop_runtime::journal::{Durability, FileJournal};
use autoloop_runtime::launch::{Launch, Opening};
use autoloop_runtime::process::Interrupts;
use autoloop_runtime::project::Project;
use autoloop_runtime::queue::Builtin;
use autoloop_runtime::site::Site;
use autoloop_runtime::world::{Clock, Job};
use autoloop_testkit::sandbox::tell;
use autoloop_testkit::{Dice, Faults, Script, Seed, SimWorld, all_seeds_run, simulate_at_once};

use super::agent::turn;
use super::part::{Phase, Turn};
use crate::agent::PATIENCE;
use crate::rules::one_of;
use crate::setup::{CONFIG, JOURNAL, STATE};

const SEEDS: u64 = 6;
const ITEMS: u64 = 200;
/// `backend.max_wait`.
const MAX_WAIT: Duration = Duration::from_secs(3_600);
/// The shortest time for which a client is left alone that names none.
const SHORTEST_BACKOFF: Duration = Duration::from_millis(7_500);
/// Longer than all waiting together.
const LASTING: Duration = Duration::from_secs(3_600 * 24 * 30);
const RUN: &str = "swift-otter-0";

/// A generated run.
#[derive(Clone, Debug)]
struct Parking {
    seed: Seed,
    slots: u64,
    reviewer: &'static str,
    outages: Vec<Outage>,
    /// At which agents a user interrupts the run.
    interrupts: Vec<u64>,
    /// At which call to the disk the harness is killed; one for every harness that is.
    kills: Vec<u64>,
}

/// A time in which a client is unavailable.
#[derive(Clone, Copy, Debug)]
struct Outage {
    client: &'static str,
    from: Duration,
    to: Duration,
    /// What the client reports; `IN` is the time that it names.
    report: &'static str,
}

const REPORTS: [&str; 6] = [
    "API Error: 429 rate limit reached, try again in INs",
    "Request rejected (429)",
    "overloaded",
    "API Error: 500 Internal server error",
    "connect ECONNREFUSED 127.0.0.1:9",
    "usage limit reached, try again in INs",
];

/// How often, and how, a client was refused.
#[derive(Clone, Debug, Default)]
struct Client {
    /// The first failure since it last answered.
    since: Option<Duration>,
    /// It must not be asked before.
    not_before: Duration,
    has_given_up: bool,
}

/// What is known about a run while it is carried out.
#[derive(Debug, Default)]
struct Watch {
    clients: BTreeMap<&'static str, Client>,
    agents: u64,
    refusals: u64,
    given_up: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ending {
    /// By item: how its slots ended, with their reviews and the number of fixes.
    items: BTreeMap<String, Vec<(String, Vec<String>, usize)>>,
    finish: (String, u64, u64),
}

#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    harnesses: u64,
    agents: u64,
    refusals: u64,
    given_up: u64,
    parked: u64,
    passed: u64,
}

impl Parking {
    fn any(seed: Seed, dice: &mut Dice) -> Parking {
        let mut outages = Vec::new();
        for client in ["claude", "codex"] {
            let mut at = 0;
            for _ in 0..dice.below(14) {
                at += dice.below(4_000);
                let longest = *dice.pick(&[5, 60, 1_200, 3_000, 12_000]);
                let to = at + 1 + dice.below(longest);
                let report = one_of(dice, &REPORTS);
                let [from, to] = [at, to].map(Duration::from_secs);
                outages.push(Outage { client, from, to, report });
                at = to.as_secs();
            }
        }
        Parking {
            seed,
            slots: 1 + dice.below(8),
            reviewer: one_of(dice, &["codex", "codex", "/opt/bin/claude"]),
            outages,
            interrupts: (0..dice.below(4)).map(|_| 1 + dice.below(300)).collect(),
            kills: (0..dice.below(6)).map(|_| 1 + dice.below(9_000)).collect(),
        }
    }

    /// The same run where nothing goes wrong.
    fn undisturbed(&self) -> Parking {
        Parking { outages: vec![], interrupts: vec![], kills: vec![], ..self.clone() }
    }

    /// The time that a turn takes, its exit code, and what its agent says: a function of the seed and the turn.
    fn part(&self, turn: &Turn) -> (Duration, i32, &'static str) {
        let Turn { item, phase, attempt, .. } = turn;
        let name = format!("{item} {phase:?} {attempt}");
        let mixed = |number, byte| Seed(number ^ u64::from(byte)).dice().number();
        let mut dice = Seed(name.bytes().fold(self.seed.0, mixed)).dice();
        let takes = Duration::from_secs(*dice.pick(&[0, 1, 30, 100]));
        let code = i32::from(dice.chance(1, 25));
        let says = match phase {
            Phase::Implement | Phase::Fix => {
                one_of(&mut dice, &["done", "a test prints 429 Too Many Requests: overloaded"])
            }
            Phase::Review => one_of(
                &mut dice,
                &[
                    r#"{"verdict": "pass", "followUpPrompt": "no rate limit (429)"}"#,
                    r#"{"verdict": "pass", "followUpPrompt": ""}"#,
                    r#"{"verdict": "drift", "followUpPrompt": "Invalid API key is not tested"}"#,
                ],
            ),
        };
        (takes, code, says)
    }
}

/// What a client prints at the end of a turn, and its exit code.
fn ends(client: &str, code: i32, says: &str, error: Option<&str>) -> Script {
    let shown = serde_json::Value::from(error.unwrap_or(says));
    let stream = match (client, error, code) {
        // It fails without a word about why, after what the agent said.
        ("claude", None, 1..) => format!(
            "{{\"type\":\"assistant\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":{shown}}}]}}}}\n"
        ),
        ("claude", ..) => format!(
            "{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":{},\"result\":{shown}}}\n",
            error.is_some()
        ),
        (_, None, 1..) => "{\"type\":\"turn.started\"}\n".to_owned(),
        (_, None, _) => format!(
            "{{\"type\":\"turn.started\"}}\n{{\"type\":\"item.completed\",\"item\":{{\"type\":\"agent_message\",\"text\":{shown}}}}}\n{{\"type\":\"turn.completed\",\"usage\":{{}}}}\n"
        ),
        (_, Some(_), _) => format!(
            "{{\"type\":\"turn.started\"}}\n{{\"type\":\"turn.failed\",\"error\":{{\"message\":{shown}}}}}\n"
        ),
    };
    Script::exits(code).stdout(stream)
}

fn lock(watch: &Mutex<Watch>) -> MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Parking {
    /// What becomes of an agent that is started now.
    fn perform(&self, job: &Job, now: Duration, watch: &mut Watch, stop: &Interrupts) -> Script {
        let is_codex = job.program.to_string_lossy().ends_with("codex");
        let name = if is_codex { "codex" } else { "claude" };
        watch.agents += 1;
        if self.interrupts.contains(&watch.agents) {
            stop.raise(2);
        }
        let client = watch.clients.entry(name).or_default();
        assert!(now >= client.not_before, "{name} is asked at {now:?}, but {client:?}");
        assert!(!client.has_given_up, "{name} is asked after it was given up");
        let (takes, code, says) = self.part(&turn(job));
        let is_out = |outage: &&Outage| {
            outage.client == name && outage.from <= now + takes && now < outage.to
        };
        let Some(outage) = self.outages.iter().find(is_out) else {
            client.since = None;
            return ends(name, code, says, None).taking(takes);
        };
        watch.refusals += 1;
        let until_then = outage.from.saturating_sub(now);
        let failed = now + until_then;
        // Some name a time that is too short.
        let left = (outage.to - failed).as_secs().max(1);
        let named = 1 + Seed(self.seed.0 ^ watch.agents).dice().below(left);
        let does_name = outage.report.contains("IN");
        let wait = if does_name { Duration::from_secs(named) } else { SHORTEST_BACKOFF };
        let since = *client.since.get_or_insert(failed);
        match MAX_WAIT.checked_sub(failed - since).filter(|left| !left.is_zero()) {
            Some(left) => client.not_before = failed + wait.min(left),
            None => {
                client.has_given_up = true;
                watch.given_up += 1;
            }
        }
        let report = outage.report.replace("IN", &named.to_string());
        ends(name, 1, "", Some(&report)).taking(until_then)
    }

    /// Carries the run out, by as many harnesses as it needs.
    fn play(&self, tally: &mut Tally) -> Ending {
        let mut sim = SimWorld::new(self.seed);
        let mut dice = self.seed.dice();
        let config = format!(
            "backend.command = \"claude\"\nbackend.max_wait = {}\n\
             [slots]\nreviewer.command = {:?}\nreviewEnabled = true\nreviewMaxFixAttempts = 2\nreviewContractRepair = 0\n\
             parallelAgents = {}\nstopMarker = \"\"\n",
            MAX_WAIT.as_millis(),
            self.reviewer,
            self.slots,
        );
        sim.disk.set_contents(CONFIG, config.as_bytes());
        self.fill(&sim);
        let watch = Arc::new(Mutex::new(Watch::default()));
        let mut kills = self.kills.iter();
        for harness in 0..60 {
            lock(&watch).clients.clear();
            let faults = kills.next().map(|call| Faults::none().die_at_call(*call));
            sim.disk.set_faults(faults.unwrap_or_default());
            let opening = if harness == 0 { Opening::Begin } else { Opening::Resume };
            let driven = self.drive(&sim, &watch, opening);
            let is_alive = sim.disk.is_alive();
            let has_given_up = lock(&watch).clients.values().any(|client| client.has_given_up);
            match driven {
                Ok(slots) if is_alive && !slots.status().is_unfinished() => {
                    let watch = lock(&watch);
                    let journal = String::from_utf8(sim.disk.contents(JOURNAL)).unwrap();
                    tally.runs += 1;
                    tally.harnesses += harness + 1;
                    tally.agents += watch.agents;
                    tally.refusals += watch.refusals;
                    tally.given_up += watch.given_up;
                    tally.parked += journal.matches("\"topic\": \"backend.parked\"").count() as u64;
                    return Ending::of(&slots);
                }
                Err(DriveError::Client { error, .. }) if is_alive => {
                    assert!(has_given_up, "it could have waited: {error}");
                    sim.clock.advance(Duration::from_secs(dice.below(6_000)));
                }
                Err(error) => assert!(!is_alive, "{error}"),
                Ok(_) => {}
            }
            sim.disk = match dice.chance(1, 2) && !is_alive {
                true => sim.disk.crash(&mut dice),
                false => sim.disk.reopen(),
            };
            sim.clock.advance(Duration::from_millis(1));
        }
        panic!("it never ends");
    }

    fn fill(&self, sim: &SimWorld) {
        let world = sim.world();
        let journal = FileJournal::new(JOURNAL, &world, PATIENCE);
        let queue = Builtin::new(&journal, &world, Durability::Synced, LASTING);
        for item in 0..ITEMS {
            queue.add(&New { title: format!("item {item}"), ..New::default() }).unwrap();
        }
    }

    fn drive(
        &self,
        sim: &SimWorld,
        watch: &Arc<Mutex<Watch>>,
        opening: Opening,
    ) -> Result<Slots, DriveError> {
        let interrupts = Interrupts::default();
        let (parking, watch, stop) = (self.clone(), Arc::clone(watch), interrupts.clone());
        let clock = sim.clock.clone();
        let sim = sim.clone().with_script(move |job| {
            parking.perform(job, clock.elapsed(), &mut lock(&watch), &stop)
        });
        let world = sim.world();
        let journal = FileJournal::new(JOURNAL, &world, PATIENCE);
        let queue = Builtin::new(&journal, &world, Durability::Cached, LASTING);
        let project = Project { dir: "/p".into(), loop_dir: "/p".into(), ..Project::default() };
        let loaded = project.load(&*world.disk)?;
        let state_dir = StateDir::new(STATE);
        let site = Site {
            interrupts,
            program: "/bin/autoloop".as_ref(),
            ..Site::new(&world, &journal, &state_dir)
        };
        // A kill may leave nothing of the run.
        let has_begun = String::from_utf8_lossy(&sim.disk.contents(JOURNAL)).contains("slot.run.");
        let opening = if has_begun { opening } else { Opening::Begin };
        let launch = Launch::new(Kind::Slots, RUN.parse()?, opening, project, loaded);
        SlotsDriver::open(site, &launch, &queue, &[])?.run()
    }
}

impl Ending {
    fn of(slots: &Slots) -> Ending {
        let finish = slots.finish.as_ref().unwrap();
        let mut ending = Ending {
            finish: (finish.reason.to_string(), finish.taken, finish.passed),
            ..Ending::default()
        };
        for slot in &slots.slots {
            let outcome = slot.finish.as_ref().map(|finish| finish.outcome.to_string());
            let reviews = slot.reviews.iter().map(|review| review.verdict.to_string()).collect();
            let end = (outcome.unwrap_or_default(), reviews, slot.fixes.len());
            ending.items.entry(slot.start.item_id.clone()).or_default().push(end);
        }
        ending
    }
}

#[test]
fn every_item_ends_as_it_would_without_outages() {
    let tally = Mutex::new(Tally::default());
    simulate_at_once("parking", SEEDS, |seed, dice| {
        let parking = Parking::any(seed, dice);
        let mut own = Tally::default();
        let alone = parking.undisturbed().play(&mut own);
        assert_eq!((own.refusals, own.parked), (0, 0), "{parking:?}");
        assert_eq!(alone.items.len() as u64, ITEMS);
        let disturbed = parking.play(&mut own);
        assert_eq!(disturbed, alone, "{parking:?}");
        let mut tally = tally.lock().unwrap();
        tally.runs += own.runs;
        tally.harnesses += own.harnesses;
        tally.agents += own.agents;
        tally.refusals += own.refusals;
        tally.given_up += own.given_up;
        tally.parked += own.parked;
        tally.passed += alone.finish.2;
    });
    let tally = tally.into_inner().unwrap();
    tell(&format!("parking: {tally:?}"));
    if all_seeds_run() {
        assert!(tally.parked >= 20 * SEEDS && tally.given_up >= SEEDS / 2, "{tally:?}");
        assert!(tally.harnesses >= tally.runs + SEEDS && tally.passed >= 50 * SEEDS, "{tally:?}");
    }
}
