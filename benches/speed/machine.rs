//! The machine that the figures were measured on.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A few lines about the machine.
pub(crate) fn facts(place: &Path) -> String {
    let mut text = String::new();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let facts = [
        ("kernel", said_by(Command::new("uname").args(["-s", "-r", "-m"]))),
        ("processor", Some(format!("{}, {cores} cores", processor().unwrap_or_default()))),
        ("file system", file_system(place)),
        ("load", fs::read_to_string("/proc/loadavg").ok().map(|load| load.trim().to_owned())),
    ];
    for (name, fact) in facts {
        let fact = fact.unwrap_or_else(|| "unknown".to_owned());
        let _ = writeln!(text, "{name}: {fact}");
    }
    text
}

fn said_by(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The file system of a directory: that of the longest mount point above it.
fn file_system(place: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut best: Option<(&Path, &str)> = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (Path::new(words.next()?), words.next()?);
        let is_longer =
            |(known, _): (&Path, &str)| point.as_os_str().len() >= known.as_os_str().len();
        if place.starts_with(point) && best.is_none_or(is_longer) {
            best = Some((point, kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}
