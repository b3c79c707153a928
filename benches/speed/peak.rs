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
