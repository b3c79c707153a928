//! The guarantees of every journal, as one suite. Another implementation joins with one line at the
//! end.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use autoloop_core::record::{Body, Object, Record, Value, parse, print};
use autoloop_core::topic::Topic;
use autoloop_runtime::journal::{
    Append, AppendError, Durability, FileJournal, FileSettings, Journal, MemoryJournal, NewRecord,
    Position, Spooled,
};
use autoloop_runtime::world::{Access, Disk, World};
use autoloop_testkit::records::{NASTY, TOPICS};
use autoloop_testkit::{Faults, Op, Seed, SimClock, SimDisk, SimWorld};

/// A journal under test, and what has to live as long as it.
struct Subject {
    journal: Box<dyn Journal>,
    _dir: Option<tempfile::TempDir>,
}

impl std::ops::Deref for Subject {
    type Target = dyn Journal;

    fn deref(&self) -> &Self::Target {
        self.journal.as_ref()
    }
}

fn in_memory() -> Subject {
    Subject { journal: Box::new(MemoryJournal::default()), _dir: None }
}

fn on_a_simulated_disk() -> Subject {
    let world = SimWorld::new(Seed(1)).world();
    let journal = FileJournal::new("/state/journal.jsonl", &world, FileSettings::default());
    Subject { journal: Box::new(journal), _dir: None }
}

fn on_the_real_disk() -> Subject {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state/journal.jsonl");
    let journal = FileJournal::new(path, &World::real(), FileSettings::default());
    Subject { journal: Box::new(journal), _dir: Some(dir) }
}

/// So long that only an append can end a wait. In simulated time a wait of this length polls many
/// times.
const FOR_EVER: Duration = Duration::from_secs(1_000_000_000);
const SHORT: Duration = Duration::from_millis(5);
/// How much of a spooled text is read at once.
const SPOOL_PIECE: usize = 256 * 1024;

fn said(payload: &str) -> Record {
    Record {
        run: "r".into(),
        iteration: "1".into(),
        topic: Topic::new("review.ready"),
        body: Body::Agent { payload: payload.into(), source: "agent".into() },
        ts: None,
        version: None,
        seal: None,
        extra: Object::new(),
    }
}

fn finished(output: &str) -> Record {
    let fields = vec![
        ("exit_code".to_owned(), Value::Text("0".to_owned())),
        ("output".to_owned(), Value::Text(output.to_owned())),
        ("more".to_owned(), Value::Text("x".to_owned())),
    ];
    Record { topic: Topic::new("backend.finish"), body: Body::System(fields), ..said("") }
}

fn payload(record: &Record) -> &str {
    match &record.body {
        Body::Agent { payload, .. } => payload,
        Body::System(_) => panic!("{record:?}"),
    }
}

fn field<'r>(record: &'r Record, name: &str) -> Option<&'r Value> {
    let Body::System(fields) = &record.body else { return None };
    fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn output(record: &Record) -> &str {
    match field(record, "output") {
        Some(Value::Text(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn news(payloads: &[&str]) -> Vec<NewRecord> {
    payloads.iter().map(|payload| said(payload).into()).collect()
}

fn put(journal: &dyn Journal, payloads: &[&str]) -> Position {
    journal.append(&news(payloads), Append::default()).unwrap()
}

fn put_at(
    journal: &dyn Journal,
    expected: Position,
    payloads: &[&str],
) -> Result<Position, AppendError> {
    let how = Append { expect: Some(expected), ..Append::default() };
    journal.append(&news(payloads), how)
}

/// Every record after a position, and where reading ended.
fn read_from(journal: &dyn Journal, from: Position) -> (Vec<Record>, Position) {
    let mut records = Vec::new();
    let end = journal.read(from, &mut |line| {
        assert!(!line.bytes().contains(&b'\n'));
        records.push(parse(line.bytes()).unwrap());
        ControlFlow::Continue(())
    });
    (records, end.unwrap())
}

fn all(journal: &dyn Journal) -> Vec<Record> {
    read_from(journal, Position::START).0
}

fn payloads(journal: &dyn Journal) -> Vec<String> {
    all(journal).iter().map(|record| payload(record).to_owned()).collect()
}

/// The positions after every line.
fn positions(journal: &dyn Journal) -> Vec<Position> {
    let mut positions = Vec::new();
    let mut note = |line: &autoloop_runtime::journal::Line<'_>| {
        positions.push(line.position());
        ControlFlow::Continue(())
    };
    journal.read(Position::START, &mut note).unwrap();
    positions
}

fn conflict(outcome: Result<Position, AppendError>) -> Position {
    match outcome {
        Err(AppendError::Conflict { head }) => head,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

/// A text in a file of a simulated disk, which can be made to fail.
fn spool_with(text: &[u8], faults: Faults) -> Spooled {
    let disk = SimDisk::new(SimClock::default());
    disk.set_contents("/spool", text);
    let file = disk.open(Path::new("/spool"), Access::Read).unwrap();
    disk.set_faults(faults);
    Spooled { path: PathBuf::from("/spool"), text: Arc::from(file), secrets: None }
}

fn spool(text: &[u8]) -> Spooled {
    spool_with(text, Faults::none())
}

fn put_spooled(journal: &dyn Journal, record: Record, spooled: Spooled) {
    let new = NewRecord { record, spooled: Some(spooled) };
    journal.append(&[new], Append::default()).unwrap();
}

/// What a spooled text becomes, read back as the output of a record.
fn spooled_output(journal: &dyn Journal, text: &[u8]) -> String {
    put_spooled(journal, finished(""), spool(text));
    put(journal, &["next"]);
    let records = all(journal);
    assert_eq!(records.len(), 2);
    assert_eq!(field(&records[0], "more"), Some(&Value::Text("x".to_owned())));
    assert_eq!(payload(&records[1]), "next");
    output(&records[0]).to_owned()
}

#[path = "conformance/cases.rs"]
mod cases;

/// Runs every case against a new journal of one make.
macro_rules! suite {
    ($make:ident: $($case:ident)*) => {
        mod $make {
            $(
                #[test]
                fn $case() {
                    let subject = super::$make();
                    super::cases::$case(&*subject);
                }
            )*
        }
    };
}

macro_rules! every_case {
    ($make:ident) => {
        suite! { $make:
            the_head_of_an_empty_journal_is_the_start
            an_empty_journal_shows_nothing
            waiting_for_an_empty_journal_ends_in_time
            appending_nothing_to_nothing_gives_the_start
            appending_nothing_gives_the_head_and_changes_nothing
            appending_nothing_in_the_wrong_place_is_a_conflict
            a_record_comes_back_as_it_was
            order_is_kept
            records_of_one_append_stay_in_order
            an_append_returns_the_head
            every_line_has_a_position_of_its_own_in_order
            the_position_of_the_last_line_is_the_head
            the_start_can_be_expected_of_an_empty_journal
            the_start_cannot_be_expected_of_a_used_journal
            the_head_can_be_expected
            a_conflict_stores_nothing
            a_conflict_says_where_to_try_again
            a_place_between_two_records_cannot_be_expected
            nothing_is_behind_the_head
            reading_ends_at_the_head
            reading_from_any_line_shows_the_rest
            reading_from_an_acknowledged_position_shows_what_came_since
            reading_stops_on_request_and_continues_from_there
            the_line_at_which_reading_stopped_counts_as_read
            reading_twice_shows_the_same
            lines_are_the_printed_bytes
            one_can_append_while_reading
            unknown_topics_are_kept
            unknown_keys_are_kept
            any_text_is_one_line
            any_record_comes_back
            a_record_of_two_megabytes_comes_back
            cached_records_are_read_like_others
            a_spooled_text_follows_that_of_the_record
            a_payload_can_be_spooled
            an_empty_spool_adds_nothing
            a_spool_of_three_megabytes_comes_back
            a_spool_that_is_not_utf8_is_shown_as_well_as_can_be
            a_character_across_two_pieces_of_a_spool_is_whole
            a_secret_across_two_pieces_of_a_spool_is_masked
            spooled_records_are_adjacent_to_their_neighbours
            a_spool_that_cannot_be_read_is_refused_by_name
            a_spool_for_a_text_that_the_record_has_not_is_refused
            a_wait_for_what_has_come_ends_at_once
            a_wait_for_nothing_ends_in_time
            a_wait_ends_with_an_append
            every_waiter_is_woken
            many_writers_lose_nothing
            writers_that_expect_the_head_take_turns
            a_reader_that_follows_sees_what_a_late_one_sees
        }
    };
}

every_case!(in_memory);
every_case!(on_a_simulated_disk);
every_case!(on_the_real_disk);
