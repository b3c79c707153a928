//! The peak memory of a process.

use std::fs;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Fallible;

/// The default capacity of a pipe.
const PIPE: usize = 64 * 1024;
/// How often in a row the process must be seen waiting before it counts as waiting for us.
const WAITS: usize = 50;

/// Runs a command and returns its peak memory in bytes.
///
/// The kernel discards the figure when the process ends. So its output goes to a pipe that is full:
/// when it has done its work it blocks, and the figure is read meanwhile.
pub(crate) fn peak_memory(command: &mut Command) -> Fallible<u64> {
    let (mut reader, mut writer) = io::pipe()?;
    writer.write_all(&[b' '; PIPE])?;
    let mut child = command.stdin(Stdio::null()).stdout(writer).spawn()?;
    // Ours would keep the pipe open.
    command.stdout(Stdio::null());

    let peak = peak_when_waiting(&mut child);
    // The pipe is drained before an error is returned, so that no process stays behind.
    io::copy(&mut reader.by_ref(), &mut io::sink())?;
    if !child.wait()?.success() {
        return Err("it did not end well".into());
    }
    peak
}

fn peak_when_waiting(child: &mut Child) -> Fallible<u64> {
    let path = format!("/proc/{}/status", child.id());
    let mut waits = 0;
    while waits < WAITS {
        if child.try_wait()?.is_some() {
            return Err("it ended before its memory could be looked at".into());
        }
        let status = fs::read_to_string(&path)?;
        let is_waiting = value(&status, "State").is_some_and(|state| state.starts_with('S'));
        waits = if is_waiting { waits + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(1));
    }
    peak_now(child.id())
}

/// The peak memory of a running process so far, in bytes.
pub(crate) fn peak_now(process: u32) -> Fallible<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let peak = value(&status, "VmHWM").and_then(|text| text.strip_suffix("kB"));
    let kilobytes: u64 = peak.ok_or("the kernel does not tell the peak")?.trim().parse()?;
    Ok(kilobytes * 1024)
}

fn value<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.strip_prefix(':')?.trim())
}

/// The kernel tells times in ticks of so many milliseconds, on every architecture.
const TICK: u64 = 10;

/// What a process took for itself, without its children.
pub(crate) struct Taken {
    /// In bytes, as it was last seen.
    pub(crate) peak: u64,
    pub(crate) cpu: Duration,
}

/// Runs a command to its end. The kernel tells the time of a process that has ended until it is waited for.
pub(crate) fn taken(command: &mut Command) -> Fallible<Taken> {
    let mut child = command.spawn()?;
    let mut peak = 0;
    let cpu = loop {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
        // The name before it may contain anything.
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        if fields.first() == Some(&"Z") {
            let ticks = |place: usize| -> Fallible<u64> {
                Ok(fields.get(place).ok_or("no time")?.parse()?)
            };
            // User and system time.
            let (user, system) = (ticks(11)?, ticks(12)?);
            break Duration::from_millis((user + system) * TICK);
        }
        peak = peak_now(child.id()).unwrap_or(peak);
        std::thread::sleep(Duration::from_millis(5));
    };
    match child.wait()?.success() {
        true => Ok(Taken { peak, cpu }),
        false => Err("it did not end well".into()),
    }
}
