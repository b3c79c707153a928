//! Views over a journal that any program may have written to: folded incrementally, from scratch or
//! from a sidecar, they are equal, and no line makes a reader fail.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use autoloop_core::record::{BadLine, Body, Glance, Object, Record, Value, pieces, print};
use autoloop_core::topic::Topic;
use autoloop_core::view::View;
use autoloop_core::views::latest_run::LatestRun;
use autoloop_core::views::metrics::Metrics;
use autoloop_runtime::journal::sidecar::Kept;
use autoloop_runtime::journal::{
    Append, Durability, FileJournal, FileSettings, Journal, NewRecord, Position, ReadError,
};
use autoloop_runtime::world::{Disk, Secret, World};
use autoloop_testkit::records::text;
use autoloop_testkit::{Dice, Seed, SimClock, SimDisk, SimWorld, all_seeds_run, simulate};
use proptest::prelude::*;

#[path = "views/scene.rs"]
mod scene;

use scene::*;

const PATH: &str = "/state/journal.jsonl";
/// As much as has to be folded before a view is kept.
const ENOUGH: usize = 256 * 1024;

/// The journal compared with a list in memory.
#[test]
fn views_agree_however_they_are_folded() {
    let mut kept_views = 0;
    simulate("views", 2000, |_, dice| {
        let disk = holding(b"");
        let writer = journal(&disk);
        let mut foreign = Foreign { disk: &disk, records: Vec::new() };
        let (mut metrics, mut latest) = (Kept::<Metrics>::default(), Kept::<LatestRun>::default());
        let is_large = dice.chance(1, 20);
        for _ in 0..12 {
            if dice.chance(1, 2) {
                foreign.write(dice);
            } else {
                let mut new: Vec<Record> =
                    (0..dice.below(4)).map(|_| viewed_record(dice)).collect();
                if is_large && dice.chance(1, 3) {
                    new.push(said(&"long ".repeat(ENOUGH / 5)));
                }
                let append: Vec<NewRecord> = new.iter().cloned().map(Into::into).collect();
                let how = Append { expect: None, durability: Durability::Cached };
                writer.append(&append, how).unwrap();
                foreign.records.extend(new);
            }
            if dice.chance(1, 3) {
                fold_on(&writer, &mut metrics);
                fold_on(&writer, &mut latest);
                // Keeps the views of a large journal.
                journal(&disk).fold::<Metrics>().unwrap();
                journal(&disk).latest_run().unwrap();
            }
        }
        // A torn line is ended.
        writer.append(&[said("end").into()], Append::default()).unwrap();
        foreign.records.push(said("end"));
        fold_on(&writer, &mut metrics);
        fold_on(&writer, &mut latest);

        let expected: Metrics = folded(&foreign.records);
        assert_eq!(metrics.view, expected, "folded on");
        assert_eq!(from_scratch::<Metrics>(&disk.contents(PATH)), expected, "from scratch");
        assert!(!writer.has_sidecar::<Metrics>().unwrap(), "appended to");
        assert_eq!(writer.fold::<Metrics>().unwrap(), metrics, "anew");
        kept_views += u32::from(writer.has_sidecar::<Metrics>().unwrap());
        assert_eq!(writer.fold::<Metrics>().unwrap(), metrics, "from the sidecar");

        let expected: LatestRun = folded(&foreign.records);
        assert_eq!(latest.view, expected);
        assert_eq!(writer.latest_run().unwrap(), expected, "backward");
        assert_eq!(writer.fold::<LatestRun>().unwrap().view, expected);
    });
    assert!(kept_views > 50 || !all_seeds_run(), "{kept_views}");
}

/// A record whose output has so many bytes.
fn giant(run: &str, topic: &str, size: usize) -> Record {
    system(run, topic, &[("exit_code", "3"), ("output", &"x".repeat(size)), ("more", "m")])
}

const MIB: usize = 1 << 20;

/// The latest run is found backward over many records, giant lines and giant junk, wherever it is.
#[test]
fn the_latest_run_is_found_from_either_end() {
    let begun = |run: &str| line_of(&system(run, "loop.start", &[]));
    let small = line_of(&said("small")).repeat(2 * MIB / 90);
    let large = line_of(&giant("r", "iteration.finish", 5 * MIB));
    let junk = [vec![b'"'; 5 * MIB], b"\n".to_vec()].concat();
    let torn = large[..3 * MIB].to_vec();
    let giant_start = line_of(&giant("giant", "loop.start", 5 * MIB));
    let cases: [(&[&[u8]], &str); 9] = [
        (&[&begun("a"), &small], "a"),
        (&[&begun("a"), &large, &begun("b"), &large], "b"),
        (&[&begun("a"), &large, &small], "a"),
        (&[&begun("a"), &junk, &small], "a"),
        (&[&begun("a"), &small, &giant_start], "giant"),
        (&[&giant_start, &small, b"\n"], "giant"),
        (&[&begun("a"), &small, &torn], "a"),
        (&[&begun("a"), &torn, &begun("glued"), b"\0\0\n", &small], "glued"),
        (&[&small, &large], ""),
    ];
    for (parts, expected) in cases {
        let disk = holding(&parts.concat());
        let first = journal(&disk);
        assert_eq!(first.latest_run().unwrap().0, expected, "backward");
        assert!(first.has_sidecar::<LatestRun>().unwrap());
        assert_eq!(first.latest_run().unwrap().0, expected, "from what was kept");
        assert_eq!(first.fold::<LatestRun>().unwrap().view.0, expected, "on from what was kept");
        disk.remove("/state/journal.jsonl.idx/latest-run");
        assert_eq!(first.fold::<LatestRun>().unwrap().view.0, expected, "forward");
        disk.write_raw(PATH, b"\n");
        disk.write_raw(PATH, &begun("new"));
        assert_eq!(journal(&disk).latest_run().unwrap().0, "new");
    }
}

/// A journal just large enough to be kept, with a few rows.
fn kept_journal() -> (SimDisk, Metrics) {
    let mut records = vec![said(&"long ".repeat(ENOUGH / 5))];
    for iteration in ["1", "2", "3"] {
        for (topic, fields) in [
            ("iteration.start", &[("suggested_roles", "builder")][..]),
            ("iteration.finish", &[("exit_code", "0"), ("elapsed_s", "7")]),
        ] {
            let record = system("one", topic, fields);
            records.push(Record { iteration: iteration.into(), ..record });
        }
    }
    let disk = holding(&lines_of(&records));
    let metrics = journal(&disk).fold::<Metrics>().unwrap().view;
    assert_eq!(metrics, folded(&records));
    assert!(journal(&disk).has_sidecar::<Metrics>().unwrap());
    (disk, metrics)
}

const SIDECAR: &str = "/state/journal.jsonl.idx/metrics";

/// The sidecar is not used, and the view is correct without it.
fn assert_ignored(disk: &SimDisk, what: &str) {
    let journal = journal(disk);
    assert!(!journal.has_sidecar::<Metrics>().unwrap(), "{what}");
    let expected = from_scratch::<Metrics>(&disk.contents(PATH));
    assert_eq!(journal.fold::<Metrics>().unwrap().view, expected, "{what}");
}

#[test]
fn a_damaged_sidecar_is_ignored() {
    let (disk, _) = kept_journal();
    let good = disk.contents(SIDECAR);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        disk.set_contents(SIDECAR, &bad);
        assert_ignored(&disk, &format!("byte {at}"));
        disk.set_contents(SIDECAR, &good[..at]);
        assert_ignored(&disk, &format!("cut at {at}"));
    }
    disk.set_contents(SIDECAR, &[good.as_slice(), b"x"].concat());
    assert_ignored(&disk, "longer");
    disk.set_contents(SIDECAR, &good);
    assert!(journal(&disk).has_sidecar::<Metrics>().unwrap());
}

/// Puts other bytes at a place, and seals the file again with a key.
fn forged((good, journal): (&[u8], &[u8]), at: usize, bytes: &[u8], key: [u8; 32]) -> Vec<u8> {
    const SEAL: usize = 64;
    let mut forged = good.to_vec();
    forged[at..at + bytes.len()].copy_from_slice(bytes);
    let (header, state) = (&forged[..SEAL], &forged[SEAL + 16..]);
    let anchor = &journal[journal.len().saturating_sub(16 * 1024)..];
    let key = Secret::fixed(key).key(&*SimWorld::new(Seed(0)).world().entropy).unwrap();
    let seal = key.seal("sidecar", &[b"metrics", header, anchor, state]);
    forged[SEAL..SEAL + 16].copy_from_slice(&seal.to_le_bytes());
    forged
}

#[test]
fn a_sidecar_that_is_sealed_but_does_not_fit_is_ignored() {
    let (disk, _) = kept_journal();
    let (good, bytes) = (disk.contents(SIDECAR), disk.contents(PATH));
    let all = (good.as_slice(), bytes.as_slice());
    let resealed = |at, bytes: &[u8]| forged(all, at, bytes, [7; 32]);
    assert_eq!(resealed(0, &good[..1]), good, "the seal is where it is looked for");
    let version = Metrics::VERSION + 1;
    let len = bytes.len() as u64;
    for (what, at, bytes) in [
        ("another format", 6, b"9".to_vec()),
        ("another version", 8, version.to_le_bytes().to_vec()),
        ("behind the end", 12, (len + 1).to_le_bytes().to_vec()),
        ("far behind the end", 12, u64::MAX.to_le_bytes().to_vec()),
        ("in the middle of a line", 12, (len - 1).to_le_bytes().to_vec()),
        ("at the start", 12, 0u64.to_le_bytes().to_vec()),
        ("another mark", 20, 7u32.to_le_bytes().to_vec()),
        ("another file", 32, 777u64.to_le_bytes().to_vec()),
        ("another length", 40, 7u64.to_le_bytes().to_vec()),
        ("another time", 48, 777u64.to_le_bytes().to_vec()),
        ("no view", 80, vec![0xff; good.len() - 80]),
        ("a huge count", 80, vec![0xff, 0xff, 0xff, 0x7f]),
    ] {
        disk.set_contents(SIDECAR, &resealed(at, &bytes));
        assert_ignored(&disk, what);
    }
    disk.set_contents(SIDECAR, &forged(all, 0, &good[..1], [8; 32]));
    assert_ignored(&disk, "sealed with another key");
    disk.set_contents(SIDECAR, &[]);
    assert_ignored(&disk, "empty");
    disk.remove(SIDECAR);
    assert!(!journal(&disk).has_sidecar::<Metrics>().unwrap());
    disk.plant_dir(SIDECAR);
    assert_ignored(&disk, "a directory");
}

#[test]
fn a_sidecar_of_another_journal_is_ignored() {
    let (disk, _) = kept_journal();
    let (good, bytes) = (disk.contents(SIDECAR), disk.contents(PATH));
    let check = |what: &str, other: &[u8]| {
        disk.set_contents(PATH, other);
        disk.set_contents(SIDECAR, &good);
        assert_ignored(&disk, what);
    };
    for cut in [1, 2, 40, 200, 1000, bytes.len() - 1, bytes.len()] {
        check(&format!("cut by {cut}"), &bytes[..bytes.len() - cut]);
    }
    let other = lines_of(&[said(&"other ".repeat(bytes.len() / 6 + 20))]);
    check("replaced", &other);
    check("replaced by as many bytes", &other[other.len() - bytes.len()..]);
    let whole = bytes.len();
    for distance in [1, 2, 3, 10, 64, 65, 500, 16_000, 16 * 1024, 17_000, whole / 2, whole - 9] {
        let mut edited = bytes.clone();
        let at = edited.len() - distance;
        edited[at] ^= 1;
        check(&format!("edited {distance} before its end"), &edited);
    }
    let longer = [b"\n".as_slice(), &bytes].concat();
    check("a line added in front", &longer);
    // Seems appended to.
    check("a line added behind", &[bytes.as_slice(), b"\n"].concat());
}

/// Another process replaces the file while a view is being folded: the view is that of the old or
/// of the new file.
#[test]
fn a_journal_replaced_while_it_is_folded_gives_the_old_view_or_the_new() {
    for moment in 1..40 {
        let (disk, old) = kept_journal();
        let other = lines_of(&[system("other", "iteration.start", &[]), said("end")]);
        let new = from_scratch::<Metrics>(&other);
        let mut calls = 0;
        disk.interleave(move |_, disk| {
            calls += 1;
            if calls == moment {
                disk.as_process(2).replace(Path::new(PATH), &other).unwrap();
            }
        });
        let view = journal(&disk).fold::<Metrics>().unwrap().view;
        assert!(view == old || view == new, "at call {moment}");
    }
}

/// Every topic that is found, line by line, and the bad lines.
fn seen(disk: &SimDisk) -> (Vec<String>, usize) {
    let (mut topics, mut bad) = (Vec::new(), 0);
    let journal = journal(disk);
    let end = journal.read(Position::START, &mut |line| {
        let mut quick = Vec::new();
        line.records(|record| quick.push(record.topic().into_owned()));
        let thorough: Vec<_> = line
            .pieces()
            .iter()
            .filter_map(|piece| piece.content.as_ref().ok())
            .map(|record| record.topic().into_owned())
            .collect();
        assert_eq!(quick, thorough, "both ways show the same records");
        bad += line.pieces().iter().filter(|piece| piece.content.is_err()).count();
        topics.extend(quick);
        ControlFlow::Continue(())
    });
    assert_eq!(end.unwrap(), journal.head().unwrap());
    (topics, bad)
}

#[test]
fn no_line_makes_a_reader_stumble() {
    let topic = |topic: &str| line_of(&system("r", topic, &[]));
    let (a, b) = (topic("a"), topic("b"));
    let bare = &a[..a.len() - 1];
    let cases: [(&str, Vec<u8>, &[&str], usize); 16] = [
        ("nothing", vec![], &[], 0),
        ("blank lines", [b"\n\n \t\n", a.as_slice(), b"\n", &b].concat(), &["a", "b"], 0),
        ("torn at the end", [a.as_slice(), &b[..20]].concat(), &["a"], 0),
        ("only its newline missing", [a.as_slice(), &b[..b.len() - 1]].concat(), &["a"], 0),
        ("torn in the middle", [&a[..20], b"\n", &b].concat(), &["b"], 1),
        ("glued", [&a[..20], b.as_slice()].concat(), &["b"], 1),
        ("two on a line", [bare, b.as_slice()].concat(), &["a", "b"], 0),
        ("NULs before", [&[0; 5000], a.as_slice()].concat(), &["a"], 0),
        ("NULs behind", [bare, &[0; 99], b"\n", &b].concat(), &["a", "b"], 0),
        ("NULs only", [&[0; 99], b"\n".as_slice(), &b].concat(), &["b"], 0),
        ("a byte order mark", [b"\xef\xbb\xbf", a.as_slice(), &b].concat(), &["a", "b"], 0),
        ("carriage returns", [bare, b"\r\n", &b].concat(), &["a", "b"], 0),
        ("no UTF-8", [b"\xff\xfe\n", a.as_slice()].concat(), &["a"], 1),
        (
            "no UTF-8 in a text",
            b"{\"run\": \"\xff\", \"topic\": \"c\", \"fields\": {}}\n".to_vec(),
            &["c"],
            0,
        ),
        ("prose", [b"# notes\n", a.as_slice(), b"[1]\n3\n"].concat(), &["a"], 3),
        ("a doubled key", [b"{\"run\": \"\", \"run\": \"\"}\n", a.as_slice()].concat(), &["a"], 1),
    ];
    for (what, bytes, topics, bad) in cases {
        let found = seen(&holding(&bytes));
        assert_eq!((found.0.as_slice(), found.1), (topics.map_owned().as_slice(), bad), "{what}");
    }
}

trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for &[&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|&text| text.to_owned()).collect()
    }
}

#[test]
fn a_line_that_is_being_written_is_shown_when_it_is_there() {
    let disk = holding(b"");
    let reader = journal(&disk);
    let line = line_of(&said("a"));
    for byte in &line[..line.len() - 1] {
        disk.write_raw(PATH, &[*byte]);
        assert_eq!(seen(&disk), (Vec::new(), 0));
        assert_eq!(reader.head().unwrap(), Position::START);
        assert_eq!(reader.fold::<Metrics>().unwrap().position, Position::START);
    }
    disk.write_raw(PATH, b"\n");
    assert_eq!(seen(&disk), (vec!["review.ready".to_owned()], 0));
}

/// Twenty megabytes in one line need little memory; a reader that asks for them gets them.
#[test]
fn a_giant_line_is_shown_without_its_middle() {
    let line = line_of(&giant("r", "backend.finish", 20 * MIB));
    let next = line_of(&said("next"));
    let disk = holding(&[next.as_slice(), &line, &next].concat());
    let reader = journal(&disk);
    let mut shown = Vec::new();
    let end = reader.read(Position::START, &mut |line| {
        assert!(line.bytes().len() < 100_000, "{}", line.bytes().len());
        line.records(|record| {
            shown.push(record.topic().into_owned());
            if record.topic() == "backend.finish" {
                assert!(!line.is_whole());
                assert_eq!(record.field("exit_code").unwrap(), "3");
                assert_eq!(record.field("more").unwrap(), "m");
                assert!(record.field("output").unwrap().starts_with("xxx"));
            }
        });
        if !line.is_whole() {
            let mut copied = Vec::new();
            let range = line.offset()..line.offset() + line.length();
            let mut take = |bytes: &[u8]| {
                copied.extend_from_slice(bytes);
                Ok(())
            };
            reader.copy(range, &mut take).unwrap();
            assert!(copied == line_of(&giant("r", "backend.finish", 20 * MIB)));
        }
        ControlFlow::Continue(())
    });
    assert_eq!(shown, ["review.ready", "backend.finish", "review.ready"]);
    assert_eq!(end.unwrap(), reader.head().unwrap());

    // Reading can stop at it and go on behind it.
    let mut count = 0;
    let behind = reader.read(Position::START, &mut |_| {
        count += 1;
        if count == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let mut rest = Vec::new();
    let mut take = |line: &autoloop_runtime::journal::Line<'_>| {
        rest.extend_from_slice(line.bytes());
        ControlFlow::Continue(())
    };
    reader.read(behind.unwrap(), &mut take).unwrap();
    assert_eq!(rest, next[..next.len() - 1]);
}

/// A torn line hides no giant behind it, even if it was torn inside a string.
#[test]
fn a_giant_behind_a_fragment_is_found_and_can_be_copied() {
    const BLOCK: usize = 512 * 1024;
    let giant = line_of(&giant("r", "backend.finish", 5 * MIB));
    let giant = &giant[..giant.len() - 1];
    let begun = b"{\"run\": \"r\", \"iteration\": \"1\", \"topic\": \"t\", \"payload\": \"";
    // The beginning of the record behind the longer ones falls across two blocks.
    let across = [0, 1, 4, 8]
        .map(|bytes| [begun.as_slice(), &vec![b'p'; 9 * BLOCK - begun.len() - bytes]].concat());
    let mut fragments: Vec<&[u8]> =
        vec![b"{\"run\": \"torn in a str", b"{\"run\": \"r\", \"to", b"{\"ru"];
    fragments.extend(across.iter().map(Vec::as_slice));
    for torn in fragments {
        let again = b"{\"run\": \"r\", \"iteration\": \"torn aga".as_slice();
        let journal_bytes = [torn, giant, again, giant, giant, b"\n"].concat();
        let disk = holding(&journal_bytes);
        assert_eq!(seen(&disk), (vec!["backend.finish".to_owned(); 3], 2));
        let reader = journal(&disk);
        let mut starts = Vec::new();
        let mut check = |line: &autoloop_runtime::journal::Line<'_>| {
            for piece in line.pieces() {
                let Ok(record) = &piece.content else { continue };
                assert_eq!(record.field("exit_code").unwrap(), "3");
                assert_eq!(record.field("more").unwrap(), "m");
                let range = line.offset_of(piece.at)..line.offset_of(piece.at + piece.bytes.len());
                starts.push(range.start);
                let mut copied = Vec::new();
                let mut take = |bytes: &[u8]| {
                    copied.extend_from_slice(bytes);
                    Ok(())
                };
                reader.copy(range, &mut take).unwrap();
                assert!(copied == giant);
            }
            ControlFlow::Continue(())
        };
        reader.read(Position::START, &mut check).unwrap();
        let second = torn.len() + giant.len() + again.len();
        assert_eq!(starts, [torn.len(), second, second + giant.len()].map(|start| start as u64));
    }
}

/// The hidden part of a giant is validated like everything else.
#[test]
fn a_giant_with_something_wrong_in_its_middle_is_no_record() {
    let line = line_of(&giant("r", "t", 5 * MIB));
    for (wrong, topics, bad) in [
        (b"x".as_slice(), &["t"][..], 0),
        (b"\xff", &["t"], 0),
        (b"\\ud83e", &["t"], 0),
        (b"\x01", &[], 1),
        (b"\\q", &[], 1),
    ] {
        let mut line = line.clone();
        line.splice(2 * MIB..2 * MIB, wrong.iter().copied());
        let disk = holding(&line);
        assert_eq!(seen(&disk), (topics.map_owned(), bad), "{wrong:?}");
        assert_eq!(from_scratch::<Metrics>(&line), journal(&disk).fold().unwrap().view);
        let found = |line: &[u8]| pieces(line).iter().any(|piece| piece.content.is_ok());
        assert_eq!(found(&line[..line.len() - 1]), bad == 0, "{wrong:?}");
    }
}

/// A giant without long strings cannot be shortened; it is reported, and what follows is read.
#[test]
fn a_giant_without_strings_is_reported_and_skipped() {
    let record = line_of(&said("a"));
    let bare = &record[..record.len() - 1];
    let next = line_of(&system("r", "next", &[]));
    let numbers = [b"[".as_slice(), &b"1,".repeat(3 * MIB), b"1]\n"].concat();
    let trailing = [bare, &vec![b' '; 6 * MIB], b"and prose\n"].concat();
    for giant in [numbers, trailing] {
        let disk = holding(&[giant.as_slice(), &next].concat());
        let mut bad = Vec::new();
        let mut note = |line: &autoloop_runtime::journal::Line<'_>| {
            assert!(line.bytes().len() < 6 * MIB);
            bad.extend(line.pieces().into_iter().filter_map(|piece| piece.content.err()));
            ControlFlow::Continue(())
        };
        journal(&disk).read(Position::START, &mut note).unwrap();
        assert!(matches!(bad[..], [BadLine::TooLarge { .. }]), "{bad:?}");
        assert_eq!(seen(&disk), (vec!["next".to_owned()], 1));
    }
}

/// A reader at a changed place of the file gets an error.
#[test]
fn a_position_in_a_changed_file_is_known_to_be_stale() {
    let bytes = lines_of(&[said("one"), said("two"), said("three")]);
    let disk = holding(&bytes);
    let reader = journal(&disk);
    let head = reader.head().unwrap();
    let read = || reader.read(head, &mut |_| ControlFlow::Continue(()));
    assert_eq!(read().unwrap(), head);
    let stale = |what: &str| {
        assert!(matches!(read(), Err(ReadError::Changed { .. })), "{what}: {:?}", read());
    };
    for cut in 1..=bytes.len() {
        disk.set_contents(PATH, &bytes[..bytes.len() - cut]);
        stale("cut");
        disk.write_raw(PATH, &[vec![b'x'; cut], b"\n".to_vec()].concat());
        stale("cut and grown");
    }
    for distance in 1..60 {
        let mut edited = bytes.clone();
        let at = edited.len() - distance;
        edited[at] ^= 1;
        disk.set_contents(PATH, &edited);
        stale("edited");
    }
    disk.remove(PATH);
    stale("removed");
    let said = read().unwrap_err().to_string();
    assert_eq!(said, "/state/journal.jsonl was cut, replaced or edited since it was last read");
}

fn lines(journal: &FileJournal) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut take = |line: &autoloop_runtime::journal::Line<'_>| {
        lines.push(line.bytes().to_vec());
        ControlFlow::Continue(())
    };
    journal.read(Position::START, &mut take).unwrap();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Any bytes after a valid journal leave all earlier records readable, and later ones too.
    #[test]
    fn any_bytes_leave_all_earlier_records_readable(
        payloads in prop::collection::vec(any::<String>(), 0..4),
        junk in prop::collection::vec(
            prop_oneof![
                4 => prop::sample::select(b"\n\r\0\"\\{}:,\xef\xbb\xbf\xff ".as_slice()),
                3 => any::<u8>(),
            ],
            0..60,
        ),
    ) {
        let records: Vec<Record> = payloads.iter().map(|payload| said(payload)).collect();
        let valid: Vec<Vec<u8>> = records
            .iter()
            .map(|record| line_of(record).strip_suffix(b"\n").unwrap().to_vec())
            .collect();
        let disk = holding(&lines_of(&records));
        let journal = journal(&disk);
        disk.write_raw(PATH, &junk);
        prop_assert_eq!(&lines(&journal)[..valid.len()], &valid);
        seen(&disk);

        let position = journal.append(&[said("last").into()], Append::default()).unwrap();
        let after = lines(&journal);
        prop_assert_eq!(&after[..valid.len()], &valid);
        let last = line_of(&said("last"));
        prop_assert_eq!(after.last().unwrap(), &last[..last.len() - 1]);
        prop_assert_eq!(position, journal.head().unwrap());
        let whole = [lines_of(&records), junk].concat();
        prop_assert!(disk.contents(PATH).starts_with(&whole), "no byte is cut");
        seen(&disk);
    }
}

/// A sidecar is never written through a link: it would overwrite another file.
#[test]
fn a_link_in_place_of_the_sidecars_is_left_alone() {
    let (disk, metrics) = kept_journal();
    disk.remove(SIDECAR);
    disk.remove("/state/journal.jsonl.idx");
    disk.plant_dir("/victim");
    disk.set_contents("/victim/metrics", b"precious");
    disk.plant_symlink("/state/journal.jsonl.idx", "/victim");
    assert_eq!(journal(&disk).fold::<Metrics>().unwrap().view, metrics);
    assert_eq!(disk.contents("/victim/metrics"), b"precious");
}
