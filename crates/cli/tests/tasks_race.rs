//! Several processes of several workers on one queue, some of which are killed: every task is closed,
//! and closed once.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use autoloop_core::queue::New;
use autoloop_runtime::journal::{Durability, FileJournal, FileSettings};
use autoloop_runtime::queue::{Builtin, Queue};
use autoloop_runtime::world::World;
use autoloop_testkit::sandbox::{Reaped, part};
use autoloop_testkit::{Sandbox, Seed};

const TASKS: usize = 200;
const PROCESSES: usize = 4;
const WORKERS: usize = 8;
const KILLS: usize = 12;
/// How long a claim of a dead process keeps others waiting.
const LASTING: Duration = Duration::from_secs(2);

fn journal(world: &World) -> FileJournal {
    FileJournal::new(".autoloop/journal.jsonl", world, FileSettings::default())
}

fn queue<'a>(journal: &'a FileJournal, world: &World) -> Builtin<'a> {
    Builtin::new(journal, world, (Durability::Cached, LASTING))
}

/// One process: its workers take tasks until all are closed, and note each one that they closed.
#[test]
fn part_of_a_child() {
    let Some(name) = part() else { return };
    let world = World::real();
    let journal = journal(&world);
    let queue = queue(&journal, &world);
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (queue, world, name) = (&queue, &world, &name);
            scope.spawn(move || work(queue, world, &format!("{name}-s{worker}")));
        }
    });
}

fn work(queue: &Builtin<'_>, world: &World, actor: &str) {
    loop {
        let Some(mine) = queue.claim_next(actor).unwrap() else {
            if queue.progress().unwrap().is_done() {
                return;
            }
            world.clock.sleep(Duration::from_millis(20));
            continue;
        };
        world.clock.sleep(Duration::from_millis(world.entropy.number() % 300));
        let kept = queue.renew(&mine.claim);
        match kept.and_then(|claim| queue.close(&claim, "done")) {
            Ok(()) => {
                let mut done = OpenOptions::new().append(true).create(true).open("done").unwrap();
                done.write_all(format!("{} {actor}\n", mine.item.id).as_bytes()).unwrap();
            }
            Err(error) => assert!(error.is_refusal(), "{error}"),
        }
    }
}

#[test]
fn every_task_is_closed_once_whoever_is_killed() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let world = World::real();
    let path = sandbox.journal_path();
    let ours = FileJournal::new(path, &world, FileSettings::default());
    let queue = queue(&ours, &world);
    for number in 0..TASKS {
        // Some wait for the one before them.
        let after = if number % 5 == 4 { vec![format!("t-{number}")] } else { Vec::new() };
        queue.add(&New { title: format!("task {number}"), after, ..New::default() }).unwrap();
    }
    let mut started = 0;
    let mut start = || {
        started += 1;
        let mut command = sandbox.play(&format!("p{started}"));
        command.stdout(Stdio::null());
        Reaped::start(command)
    };
    let mut dice = Seed(0x7461_736b).dice();
    let mut processes: Vec<Reaped> = (0..PROCESSES).map(|_| start()).collect();
    for _ in 0..KILLS {
        world.clock.sleep(Duration::from_millis(50 + dice.below(150)));
        let victim = dice.index(PROCESSES);
        processes[victim].kill();
        processes[victim] = start();
    }
    for process in &mut processes {
        assert!(process.0.wait().unwrap().success(), "a worker met an error");
    }
    assert!(queue.progress().unwrap().is_done());

    let journal = sandbox.journal();
    let claims = journal.lines().filter(|line| line.contains("queue.task.claimed")).count();
    assert!(claims > TASKS, "no kill hit a worker at work");
    let mut closed: BTreeMap<String, usize> = BTreeMap::new();
    for line in journal.lines().filter(|line| line.contains("queue.task.closed")) {
        let id = line.split("\"task\": \"").nth(1).unwrap().split('"').next().unwrap();
        *closed.entry(id.to_owned()).or_default() += 1;
    }
    assert_eq!(closed.len(), TASKS);
    assert!(closed.values().all(|times| *times == 1), "{closed:?}");
    // A worker that was killed between closing and noting did close it.
    let done = String::from_utf8(sandbox.read("done")).unwrap();
    let mut noted: Vec<&str> = done.lines().filter_map(|line| line.split(' ').next()).collect();
    let count = noted.len();
    noted.sort_unstable();
    noted.dedup();
    assert_eq!(noted.len(), count, "nobody was told twice that a task is closed");
    assert!(count + KILLS * WORKERS >= TASKS);
}
