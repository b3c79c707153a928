//! Several processes with several workers each on one queue, some of which are killed: every task
//! is closed exactly once.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use autoloop_core::queue::New;
use autoloop_runtime::journal::{Durability, FileJournal, FileSettings};
use autoloop_runtime::queue::{Builtin, Queue};
use autoloop_runtime::world::World;
use autoloop_testkit::sandbox::{Reaped, part, until};
use autoloop_testkit::{Sandbox, Seed};

const TASKS: usize = 200;
const PROCESSES: usize = 4;
const WORKERS: usize = 8;
const KILLS: usize = 12;
/// The workers of the first process hold their first task until it is killed, so that there is
/// something to release however slow the others are.
const STUCK: &str = "p1-";
/// The time limit of a process, so that a failing test does not hang.
const ENOUGH: Duration = Duration::from_secs(600);
/// No claim expires: the claims of killed workers are released by their successors.
const LASTING: Duration = Duration::from_secs(6000);

fn journal(world: &World) -> FileJournal {
    FileJournal::new(".autoloop/journal.jsonl", world, FileSettings::default())
}

fn queue<'a>(journal: &'a FileJournal, world: &World) -> Builtin<'a> {
    Builtin::new(journal, world, Durability::Cached, LASTING)
}

/// One process: it releases the claims of killed workers, and its workers take tasks until all are
/// closed.
#[test]
fn part_of_a_child() {
    let Some(name) = part() else { return };
    let world = World::real();
    let journal = journal(&world);
    let queue = queue(&journal, &world);
    queue.release_all(&is_dead, "its process is dead").unwrap();
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
            assert!(world.clock.elapsed() < ENOUGH, "not done: {:?}", queue.progress());
            world.clock.sleep(Duration::from_millis(5));
            continue;
        };
        let held = format!("held-{}", mine.item.id);
        hold(&held, actor);
        if actor.starts_with(STUCK) {
            world.clock.sleep(ENOUGH);
        }
        world.clock.sleep(Duration::from_millis(world.entropy.number() % 40));
        let claim = queue.renew(&mine.claim).unwrap();
        fs::remove_file(&held).unwrap();
        queue.close(&claim, "done").unwrap();
    }
}

/// Whether the process of a worker was killed.
fn is_dead(actor: &str) -> bool {
    let process = actor.split('-').next().unwrap();
    Path::new(&format!("dead-{process}")).exists()
}

/// Marks a task as held by us, and fails when a living worker holds it.
fn hold(held: &str, actor: &str) {
    match OpenOptions::new().write(true).create_new(true).open(held) {
        Ok(mut file) => file.write_all(actor.as_bytes()).unwrap(),
        Err(_) => {
            let other = fs::read_to_string(held).unwrap();
            // A worker killed before it wrote its name left an empty file.
            let is_free = other.is_empty() || is_dead(&other);
            assert!(is_free, "{held} is in the hands of {other}, and was given to {actor}");
            fs::write(held, actor).unwrap();
        }
    }
}

/// Whether a worker of the process that gets stuck holds a task.
fn is_stuck(sandbox: &Sandbox) -> bool {
    let files = fs::read_dir(sandbox.path("")).unwrap().flatten().map(|entry| entry.path());
    let held = files.filter(|path| path.to_string_lossy().contains("/held-"));
    held.filter_map(|path| fs::read_to_string(path).ok()).any(|actor| actor.starts_with(STUCK))
}

#[test]
fn every_task_is_closed_once_whichever_worker_is_killed() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let world = World::real();
    let path = sandbox.journal_path();
    let ours = FileJournal::new(path, &world, FileSettings::default());
    let queue = queue(&ours, &world);
    for number in 0..TASKS {
        // Some depend on the one before them.
        let after = if number % 5 == 4 { vec![format!("t-{number}")] } else { Vec::new() };
        queue.add(&New { title: format!("task {number}"), after, ..New::default() }).unwrap();
    }
    let mut started = 0;
    let mut start = || {
        started += 1;
        let name = format!("p{started}");
        let mut command = sandbox.play(&name);
        command.stdout(Stdio::null());
        (name, Reaped::start(command))
    };
    let mut dice = Seed(0x7461_736b).dice();
    let mut processes = vec![start()];
    until("a worker to be stuck", || is_stuck(&sandbox).then_some(()));
    processes.extend((1..PROCESSES).map(|_| start()));
    for kill in 0..KILLS {
        world.clock.sleep(Duration::from_millis(dice.below(80)));
        let victim = if kill == 0 { 0 } else { dice.index(PROCESSES) };
        let (name, process) = &mut processes[victim];
        process.kill();
        sandbox.write(format!("dead-{name}"), "");
        (*name, *process) = start();
    }
    for (name, process) in &mut processes {
        assert!(process.0.wait().unwrap().success(), "{name} met an error");
    }
    assert!(queue.progress().unwrap().is_done());

    let journal = sandbox.journal();
    let count = |topic: &str| journal.lines().filter(|line| line.contains(topic)).count();
    assert!(count("queue.task.released") > 0, "what the stuck ones had");
    assert_eq!(count("queue.task.closed"), TASKS, "each was closed once");
}
