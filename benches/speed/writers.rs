//! Synced records per second, by several processes and by several threads.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use autoloop_core::record::{Record, print};
use autoloop_core::topic::Topic;
use autoloop_runtime::journal::{Append, FileJournal, FileSettings, Journal, NewRecord};
use autoloop_runtime::world::{Access, DiskFile, World};

use crate::Fallible;
use crate::bench::{Bench, Case};
use crate::corpus;
use crate::options::{Effort, Protocol, Writer};
use crate::table::{Finding, Quantity, Reach};
use crate::timing::{Better, calm};

const PROCESSES: usize = 8;
const THREADS: usize = 16;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "processes",
        what: "synced appends, 8 processes",
        against: "the same, syncing under the lock",
        reach: Reach::AtLeast(2.0),
        measure: |bench| processes(bench, Protocol::SyncUnderLock),
    },
    Case {
        name: "processes-blocking",
        what: "synced appends, 8 processes",
        against: "syncing under a lock that the kernel waits for",
        reach: Reach::Nothing,
        measure: |bench| processes(bench, Protocol::SyncUnderBlockingLock),
    },
    Case {
        name: "threads",
        what: "synced appends, 16 threads of one process",
        against: "one sync a record",
        reach: Reach::AtLeast(10.0),
        measure: threads,
    },
];

/// The length of a round: so short that some of them fall into calm moments of the machine.
const ROUND: Duration = Duration::from_millis(120);

fn rounds(bench: &Bench) -> usize {
    match bench.effort {
        Effort::Full => 50,
        Effort::Quick => 4,
    }
}

fn processes(bench: &Bench, baseline: Protocol) -> Fallible<Finding> {
    let journal = bench.project(baseline.name())?.journal();
    let rate = |protocol| {
        let writer = Writer { journal: journal.clone(), protocol, time: ROUND };
        rate_of_processes(&writer)
    };
    compare(bench, || rate(Protocol::Journal), || rate(baseline))
}

fn threads(bench: &Bench) -> Fallible<Finding> {
    let path = bench.project("threads")?.journal();
    let rate = |threads| rate_of_threads(&path, threads, ROUND);
    compare(bench, || rate(THREADS), || rate(1))
}

/// Takes turns, each starting with an empty file, and returns the stable rate of each.
fn compare(
    bench: &Bench,
    mut ours: impl FnMut() -> Fallible<f64>,
    mut theirs: impl FnMut() -> Fallible<f64>,
) -> Fallible<Finding> {
    let (mut our_rates, mut their_rates) = (Vec::new(), Vec::new());
    for _ in 0..rounds(bench) {
        our_rates.push(ours()?);
        their_rates.push(theirs()?);
    }
    let rate = |rates| Quantity::Rate(calm(rates, Better::More));
    Ok(Finding { ours: rate(our_rates), theirs: Some(rate(their_rates)) })
}

fn rate_of_processes(writer: &Writer) -> Fallible<f64> {
    fs::write(&writer.journal, "")?;
    let mut children = Vec::new();
    for _ in 0..PROCESSES {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--write").arg(&writer.journal).arg(writer.protocol.name());
        command.arg(writer.time.as_millis().to_string());
        children.push(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    }
    let counts = drive(&mut children);
    for child in &mut children {
        if counts.is_err() {
            // It may have ended by itself.
            let _ = child.kill();
        }
        child.wait()?;
    }
    Ok(counts? / writer.time.as_secs_f64())
}

/// Starts all of them at once, and adds up what each has written.
fn drive(children: &mut [Child]) -> Fallible<f64> {
    let outputs = children.iter_mut().map(|child| child.stdout.take().map(BufReader::new));
    let mut outputs: Vec<_> = outputs.collect::<Option<_>>().ok_or("no output")?;
    let mut line = String::new();
    for output in &mut outputs {
        output.read_line(&mut line)?;
    }
    for child in children {
        child.stdin.take().ok_or("no input")?.write_all(b"go\n")?;
    }
    let mut sum = 0.0;
    for output in &mut outputs {
        line.clear();
        output.read_line(&mut line)?;
        sum += line.trim().parse::<f64>()?;
    }
    Ok(sum)
}

/// One of those processes.
pub(crate) fn write(writer: &Writer) -> Fallible<()> {
    let world = World::real();
    let mut out = io::stdout();
    writeln!(out, "ready")?;
    io::stdin().lock().read_line(&mut String::new())?;
    let count = append_for(writer.time, |record| match writer.protocol {
        Protocol::Journal => {
            let journal = FileJournal::new(&writer.journal, &world, FileSettings::default());
            journal.append(std::slice::from_ref(record), Append::default())?;
            Ok(())
        }
        Protocol::SyncUnderLock => {
            sync_under_lock(&writer.journal, &world, &record.record, lock_by_asking)
        }
        Protocol::SyncUnderBlockingLock => {
            let lock = std::fs::File::open(&writer.journal)?;
            lock.lock()?;
            sync_under_lock(&writer.journal, &world, &record.record, |_, _| Ok(()))
        }
    })?;
    writeln!(out, "{count}")?;
    Ok(())
}

/// The journal's protocol, call for call, except the order of the last two steps.
fn sync_under_lock(
    path: &Path,
    world: &World,
    record: &Record,
    lock: impl Fn(&dyn DiskFile, &World) -> io::Result<()>,
) -> Fallible<()> {
    let mut line = Vec::new();
    print(record, &mut line);
    let file = world.disk.open(path, Access::Append)?;
    file.stat()?;
    lock(file.as_ref(), world)?;
    let stat = file.stat()?;
    if !world.disk.stat(path)?.is_same_file(&stat) {
        return Err("the journal was replaced".into());
    }
    let mut ending = [0; 64];
    file.read_at(&mut ending, stat.len.saturating_sub(64))?;
    if file.append(&line)? != line.len() {
        return Err("not all was written".into());
    }
    file.sync()?;
    file.unlock()?;
    Ok(())
}

/// Waits for the lock as the journal does.
fn lock_by_asking(file: &dyn DiskFile, world: &World) -> io::Result<()> {
    for _ in 0..8 {
        if file.try_lock()? {
            return Ok(());
        }
        std::thread::yield_now();
    }
    let mut pause = Duration::from_micros(50);
    while !file.try_lock()? {
        world.clock.sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
    Ok(())
}

fn rate_of_threads(path: &Path, threads: usize, time: Duration) -> Fallible<f64> {
    fs::write(path, "")?;
    let journal = FileJournal::new(path, &World::real(), FileSettings::default());
    let start = Barrier::new(threads);
    let work = || {
        start.wait();
        append_for(time, |record| {
            journal.append(std::slice::from_ref(record), Append::default())?;
            Ok(())
        })
        // An error of this type cannot be sent to another thread; its text can.
        .map_err(|error| error.to_string())
    };
    let counts = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        writers.into_iter().map(|writer| writer.join()).collect::<Vec<_>>()
    });
    let mut sum = 0.0;
    for count in counts {
        sum += f64::from(count.map_err(|_| "a writer panicked")??);
    }
    Ok(sum / time.as_secs_f64())
}

/// Appends a record of about 300 bytes repeatedly until the time is over.
fn append_for(time: Duration, append: impl Fn(&NewRecord) -> Fallible<()>) -> Fallible<u32> {
    let record = corpus::heading(0).agent(Topic::new("review.ready"), "x".repeat(150)).into();
    let begin = Instant::now();
    let mut count = 0;
    while begin.elapsed() < time {
        append(&record)?;
        count += 1;
    }
    Ok(count)
}
