//! The gate and the findings packets of a review.

use std::path::{Path, PathBuf};

use autoloop_core::message::{Body, Checked, Lgtm, Message, Packet, deferred, gate};
use autoloop_runtime::mailbox;
use autoloop_runtime::world::World;

use crate::commands::mail::check::unreadable;
use crate::failure::{Failure, Kind};
use crate::terminal;

/// Check whether the quality gate is open for a findings packet.
///
/// The gate is open if no blocking finding is unresolved and all validation commands passed. With --lgtm, the approval
/// must list every deferred finding among its nits. Prints each reason for a closed gate. An invalid packet is closed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Findings packet
    #[arg(value_name = "PACKET")]
    packet: PathBuf,
    /// Message that approves the change
    #[arg(long, value_name = "MESSAGE")]
    lgtm: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let mut reasons = Vec::new();
    let packet = read(&args.packet, world, Packet::read, &mut reasons)?;
    let lgtm = match &args.lgtm {
        Some(path) => read(path, world, Message::read, &mut reasons)?.map(|found| (path, found)),
        None => None,
    };
    let lgtm = match lgtm {
        None => None,
        Some((path, message)) => approval(path, message, &mut reasons),
    };
    if let Some(packet) = &packet {
        let found = gate(packet, lgtm.as_ref());
        reasons.extend(found.iter().map(ToString::to_string));
    }
    if reasons.is_empty() {
        let mut text = "open\n".to_owned();
        let packet = packet.iter().filter(|_| args.lgtm.is_none());
        for finding in packet.flat_map(deferred) {
            text.push_str(&format!("note: list {} in the nits of the approval\n", finding.id));
        }
        return Ok(terminal::print(&text)?);
    }
    let lines: String = reasons.iter().map(|reason| format!("closed: {reason}\n")).collect();
    terminal::print(&lines)?;
    let count = terminal::counted(reasons.len() as u64, "reason");
    Err(Failure::new(Kind::Refused, format!("the gate is closed for {count}")))
}

/// Reads a file; if it is invalid, its problems are reasons.
fn read<T>(
    path: &Path,
    world: &World,
    read: impl FnOnce(&[u8]) -> Checked<T>,
    reasons: &mut Vec<String>,
) -> Result<Option<T>, Failure> {
    let checked =
        mailbox::check(&*world.disk, path, read).map_err(|error| unreadable(path, &error))?;
    for problem in checked.problems.errors {
        let place = format!("{}:{}:{}", path.display(), problem.line, problem.column);
        reasons.push(format!("{place}: {}", problem.message));
    }
    Ok(checked.value)
}

fn approval(path: &Path, message: Message, reasons: &mut Vec<String>) -> Option<Lgtm> {
    match message.body {
        Body::Lgtm(lgtm) => Some(lgtm),
        _ => {
            let kind = message.envelope.kind;
            reasons.push(format!("{} is a {kind}, not a review_lgtm", path.display()));
            None
        }
    }
}
