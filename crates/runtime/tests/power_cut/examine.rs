//! Examines a journal after a power cut.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use autoloop_core::record::{JournalRepaired, Piece, print};
use autoloop_core::views::metrics::Metrics;
use autoloop_runtime::journal::file::FragmentKind;
use autoloop_runtime::journal::sidecar::Kept;
use autoloop_runtime::journal::{Append, FileJournal, Journal, Position};

use crate::workload::{WRITERS, Workload, journal};

/// What was found in a state that is in order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Findings {
    /// Acknowledged records that are not there.
    pub(crate) lost: usize,
    /// Records that are there without having been acknowledged.
    pub(crate) unacknowledged: usize,
    /// Whether the last line was torn.
    pub(crate) torn: bool,
    /// Whether bytes that are no record are in a line of their own.
    pub(crate) junk: bool,
    /// Whether a kept view survived and fits.
    pub(crate) kept_view: bool,
}

/// Something in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// The record of this number, to the byte.
    Record(usize),
    /// The note of a repair.
    Repaired,
    /// The record that was appended after the cut.
    Recovery,
    /// What is not a record.
    Junk,
}

/// A problem, in words.
pub(crate) type Problem = String;

/// Looks at the journal on a mounted disk, appends to it, and looks again. Acknowledged records that
/// are missing are counted; anything else that is wrong is a problem.
pub(crate) fn examine(
    mounted: &Path,
    workload: &Workload,
    acknowledged: &BTreeSet<usize>,
) -> Result<Findings, Problem> {
    let journal = journal(mounted);
    let bytes = contents(&journal)?;
    let before = entries(&journal, workload)?;
    check_order(&before, workload)?;
    let lost = missing(&before, acknowledged);
    if lost == 0 {
        check_that_junk_is_last(&before, acknowledged)?;
    }
    let kept_view = check_views(&journal)?;
    let torn = check_fragment(&journal)?;

    let recovery = [Workload::recovery().into()];
    journal.append(&recovery, Append::default()).map_err(failed("a new append"))?;
    if !contents(&journal)?.starts_with(&bytes) {
        return Err("the new append changed what stood there".to_owned());
    }
    let after = entries(&journal, workload)?;
    check_order(&after, workload)?;
    check_recovery(&before, &after, torn)?;
    check_views(&journal)?;
    if check_fragment(&journal)? {
        return Err("the line is torn after a repair".to_owned());
    }
    Ok(Findings {
        lost,
        unacknowledged: numbers(&before).filter(|number| !acknowledged.contains(number)).count(),
        torn,
        junk: before.contains(&Entry::Junk),
        kept_view,
    })
}

fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> Problem {
    move |error| format!("{what} failed: {error}")
}

fn contents(journal: &FileJournal) -> Result<Vec<u8>, Problem> {
    match std::fs::read(journal.path()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        bytes => bytes.map_err(failed("reading the file")),
    }
}

/// Reads the whole journal as every reader does, and compares the two ways to know where it ends.
fn entries(journal: &FileJournal, workload: &Workload) -> Result<Vec<Entry>, Problem> {
    let mut entries = Vec::new();
    let mut invented = None;
    let end = journal
        .read(Position::START, &mut |line| {
            for piece in line.pieces() {
                match entry(&piece, workload) {
                    Some(entry) => entries.push(entry),
                    None => invented = Some(String::from_utf8_lossy(piece.bytes).into_owned()),
                }
            }
            ControlFlow::Continue(())
        })
        .map_err(failed("reading"))?;
    if let Some(record) = invented {
        return Err(format!("a record that no writer wrote: {record:.300}"));
    }
    let head = journal.head().map_err(failed("looking for the head"))?;
    if head != end {
        return Err(format!("the head is {head:?}, but reading ended at {end:?}"));
    }
    Ok(entries)
}

/// What a piece of a line is; `None` for a record that no writer wrote.
fn entry(piece: &Piece<'_>, workload: &Workload) -> Option<Entry> {
    let Ok(record) = &piece.content else { return Some(Entry::Junk) };
    if record.topic() == JournalRepaired::TOPIC {
        return Some(Entry::Repaired);
    }
    let mut recovery = Vec::new();
    print(&Workload::recovery(), &mut recovery);
    if recovery.strip_suffix(b"\n") == Some(piece.bytes) {
        return Some(Entry::Recovery);
    }
    workload.number(piece.bytes, &record.iteration()).map(Entry::Record)
}

fn numbers(entries: &[Entry]) -> impl Iterator<Item = usize> {
    entries.iter().filter_map(|entry| match entry {
        Entry::Record(number) => Some(*number),
        Entry::Repaired | Entry::Recovery | Entry::Junk => None,
    })
}

/// No record is there twice, and those of each writer are in the order in which it wrote them. The
/// first writer was done before the others began.
fn check_order(entries: &[Entry], workload: &Workload) -> Result<(), Problem> {
    let found: Vec<usize> = numbers(entries).collect();
    let of = |writer| found.iter().filter(move |&&number| workload.writer(number) == writer);
    let in_order = (0..WRITERS).all(|writer| of(writer).is_sorted_by(|a, b| a < b));
    let first_is_first = found.is_sorted_by_key(|&number| workload.writer(number).min(1));
    match in_order && first_is_first {
        true => Ok(()),
        false => Err(format!("records are there twice or in a wrong order: {found:?}")),
    }
}

fn missing(entries: &[Entry], acknowledged: &BTreeSet<usize>) -> usize {
    let found: BTreeSet<usize> = numbers(entries).collect();
    acknowledged.difference(&found).count()
}

/// Everything before an acknowledged record was there when it was synced.
fn check_that_junk_is_last(
    entries: &[Entry],
    acknowledged: &BTreeSet<usize>,
) -> Result<(), Problem> {
    let is_acknowledged = |entry: &Entry| match entry {
        Entry::Record(number) => acknowledged.contains(number),
        Entry::Repaired | Entry::Recovery | Entry::Junk => false,
    };
    let last = entries.iter().rposition(is_acknowledged).unwrap_or(0);
    match entries[..last].contains(&Entry::Junk) {
        true => Err("there is junk before an acknowledged record".to_owned()),
        false => Ok(()),
    }
}

/// A view that was kept, and may be older or newer than the journal, changes nothing. Returns whether
/// there was one that fits.
fn check_views(journal: &FileJournal) -> Result<bool, Problem> {
    let has_kept = journal.has_sidecar::<Metrics>().map_err(failed("looking at the sidecar"))?;
    let start = Kept { view: Metrics::default(), position: Position::START };
    let anew = (journal as &dyn Journal).fold_on(start).map_err(failed("folding"))?;
    let kept = journal.fold::<Metrics>().map_err(failed("folding"))?;
    journal.latest_run().map_err(failed("looking for the latest run"))?;
    match kept == anew {
        true => Ok(has_kept),
        false => Err("the view that was kept is not the view of this journal".to_owned()),
    }
}

/// Whether there is a torn line.
fn check_fragment(journal: &FileJournal) -> Result<bool, Problem> {
    let fragment = journal.fragment().map_err(failed("looking for a fragment"))?;
    match fragment.map(|fragment| fragment.kind) {
        None => Ok(false),
        Some(FragmentKind::Torn) => Ok(true),
        Some(FragmentKind::BeingWritten) => Err("a lock survived the power cut".to_owned()),
    }
}

/// The new record is behind everything, and a torn line before it was ended. That line may turn out to
/// be blank, junk or a record, and where a newline was lost, several of these.
fn check_recovery(before: &[Entry], after: &[Entry], torn: bool) -> Result<(), Problem> {
    let added = after.strip_prefix(before).ok_or("the new append changed earlier lines")?;
    let is_old = |entry: &Entry| matches!(entry, Entry::Record(_) | Entry::Junk);
    match (added, torn) {
        ([Entry::Recovery], false) => Ok(()),
        ([ended @ .., Entry::Repaired, Entry::Recovery], true) if ended.iter().all(is_old) => {
            Ok(())
        }
        _ => Err(format!("the new append added {added:?}, torn: {torn}")),
    }
}
