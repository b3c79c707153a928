//! The cases: each gets a new journal of some implementation.

use super::*;

pub(super) fn the_head_of_an_empty_journal_is_the_start(journal: &dyn Journal) {
    assert_eq!(journal.head().unwrap(), Position::START);
}

pub(super) fn an_empty_journal_shows_nothing(journal: &dyn Journal) {
    assert_eq!(read_from(journal, Position::START), (Vec::new(), Position::START));
}

pub(super) fn waiting_for_an_empty_journal_ends_in_time(journal: &dyn Journal) {
    assert_eq!(journal.wait(Position::START, SHORT).unwrap(), Position::START);
}

pub(super) fn appending_nothing_to_nothing_gives_the_start(journal: &dyn Journal) {
    assert_eq!(put(journal, &[]), Position::START);
    assert_eq!(all(journal), []);
}

pub(super) fn appending_nothing_gives_the_head_and_changes_nothing(journal: &dyn Journal) {
    let head = put(journal, &["a"]);
    assert_eq!(put(journal, &[]), head);
    assert_eq!(put_at(journal, head, &[]).unwrap(), head);
    assert_eq!(payloads(journal), ["a"]);
}

pub(super) fn appending_nothing_in_the_wrong_place_is_a_conflict(journal: &dyn Journal) {
    let head = put(journal, &["a"]);
    assert_eq!(conflict(put_at(journal, Position::START, &[])), head);
}

pub(super) fn a_record_comes_back_as_it_was(journal: &dyn Journal) {
    put(journal, &["hello"]);
    assert_eq!(all(journal), [said("hello")]);
}

pub(super) fn order_is_kept(journal: &dyn Journal) {
    let names: Vec<String> = (0..60).map(|number| number.to_string()).collect();
    for name in &names {
        put(journal, &[name]);
    }
    assert_eq!(payloads(journal), names);
}

pub(super) fn records_of_one_append_stay_in_order(journal: &dyn Journal) {
    put(journal, &["0"]);
    put(journal, &["a", "b", "c", "d"]);
    put(journal, &["1"]);
    assert_eq!(payloads(journal), ["0", "a", "b", "c", "d", "1"]);
}

pub(super) fn an_append_returns_the_head(journal: &dyn Journal) {
    for payloads in [&["a"][..], &["b", "c"]] {
        let behind = put(journal, payloads);
        assert_eq!(behind, journal.head().unwrap());
    }
}

pub(super) fn every_line_has_a_position_of_its_own_in_order(journal: &dyn Journal) {
    put(journal, &["same", "same"]);
    put(journal, &["same"]);
    let positions = positions(journal);
    assert_eq!(positions.len(), 3);
    assert!(positions.is_sorted() && positions[0] > Position::START);
    assert!(positions[0] != positions[1] && positions[1] != positions[2]);
}

pub(super) fn the_position_of_the_last_line_is_the_head(journal: &dyn Journal) {
    let head = put(journal, &["a", "b"]);
    assert_eq!(positions(journal).last(), Some(&head));
}

pub(super) fn the_start_can_be_expected_of_an_empty_journal(journal: &dyn Journal) {
    put_at(journal, Position::START, &["a"]).unwrap();
    assert_eq!(payloads(journal), ["a"]);
}

pub(super) fn the_start_cannot_be_expected_of_a_used_journal(journal: &dyn Journal) {
    let head = put(journal, &["a"]);
    assert_eq!(conflict(put_at(journal, Position::START, &["b"])), head);
    assert_eq!(payloads(journal), ["a"]);
}

pub(super) fn the_head_can_be_expected(journal: &dyn Journal) {
    let mut head = put(journal, &["a"]);
    for name in ["b", "c"] {
        head = put_at(journal, head, &[name]).unwrap();
    }
    assert_eq!(payloads(journal), ["a", "b", "c"]);
}

pub(super) fn a_conflict_stores_nothing(journal: &dyn Journal) {
    let old = put(journal, &["a"]);
    put(journal, &["b"]);
    conflict(put_at(journal, old, &["c", "d"]));
    assert_eq!(payloads(journal), ["a", "b"]);
}

pub(super) fn a_conflict_says_where_to_try_again(journal: &dyn Journal) {
    let old = put(journal, &["a"]);
    let head = put(journal, &["b"]);
    assert_eq!(conflict(put_at(journal, old, &["c"])), head);
    put_at(journal, head, &["c"]).unwrap();
    assert_eq!(payloads(journal), ["a", "b", "c"]);
}

pub(super) fn a_place_between_two_records_cannot_be_expected(journal: &dyn Journal) {
    put(journal, &["a", "b"]);
    let between = positions(journal)[0];
    conflict(put_at(journal, between, &["c"]));
}

pub(super) fn nothing_is_behind_the_head(journal: &dyn Journal) {
    let head = put(journal, &["a"]);
    assert_eq!(read_from(journal, head), (Vec::new(), head));
}

pub(super) fn reading_ends_at_the_head(journal: &dyn Journal) {
    let head = put(journal, &["a", "b"]);
    assert_eq!(read_from(journal, Position::START).1, head);
}

pub(super) fn reading_from_any_line_shows_the_rest(journal: &dyn Journal) {
    let names = ["a", "bb", "ccc", "dddd", "eeeee"];
    put(journal, &names[..2]);
    put(journal, &names[2..]);
    for (index, position) in positions(journal).into_iter().enumerate() {
        let (rest, _) = read_from(journal, position);
        let rest: Vec<_> = rest.iter().map(payload).collect();
        assert_eq!(rest, names[index + 1..]);
    }
}

pub(super) fn reading_from_an_acknowledged_position_shows_what_came_since(journal: &dyn Journal) {
    let mut seen = Position::START;
    for name in ["a", "b", "c"] {
        let before = journal.head().unwrap();
        let behind = put(journal, &[name]);
        assert_eq!(read_from(journal, before).0, [said(name)]);
        assert_eq!(read_from(journal, seen), (vec![said(name)], behind));
        seen = behind;
    }
}

pub(super) fn reading_stops_on_request_and_continues_from_there(journal: &dyn Journal) {
    put(journal, &["a", "b", "c", "d", "e"]);
    for stop in 1..=5 {
        let mut shown = Vec::new();
        let mut at = Position::START;
        loop {
            let mut left = stop;
            let next = journal.read(at, &mut |line| {
                shown.push(payload(&parse(line.bytes()).unwrap()).to_owned());
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            let next = next.unwrap();
            if next == at {
                break;
            }
            at = next;
        }
        assert_eq!(shown, ["a", "b", "c", "d", "e"], "in steps of {stop}");
        assert_eq!(at, journal.head().unwrap());
    }
}

pub(super) fn the_line_at_which_reading_stopped_counts_as_read(journal: &dyn Journal) {
    put(journal, &["a", "b"]);
    let after = journal.read(Position::START, &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!(after, positions(journal)[0]);
    assert_eq!(read_from(journal, after).0, [said("b")]);
}

pub(super) fn reading_twice_shows_the_same(journal: &dyn Journal) {
    put(journal, &["a", "b"]);
    assert_eq!(read_from(journal, Position::START), read_from(journal, Position::START));
}

pub(super) fn lines_are_the_printed_bytes(journal: &dyn Journal) {
    let mut expected = Vec::new();
    for record in [said("a \"b\"\n"), finished("\\")] {
        print(&record, &mut expected);
        journal.append(&[record.into()], Append::default()).unwrap();
    }
    let mut bytes = Vec::new();
    let mut take = |line: &autoloop_runtime::journal::Line<'_>| {
        assert!(line.is_whole());
        assert_eq!(line.pieces().len(), 1);
        bytes.extend_from_slice(line.bytes());
        bytes.push(b'\n');
        ControlFlow::Continue(())
    };
    journal.read(Position::START, &mut take).unwrap();
    assert_eq!(bytes, expected);
}

pub(super) fn one_can_append_while_reading(journal: &dyn Journal) {
    put(journal, &["a", "b"]);
    let mut shown = 0;
    let end = journal.read(Position::START, &mut |_| {
        put(journal, &["more"]);
        shown += 1;
        if shown > 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(shown, 2, "what comes meanwhile is for the next reading");
    assert_eq!(read_from(journal, end.unwrap()).0, [said("more"), said("more")]);
}

pub(super) fn unknown_topics_are_kept(journal: &dyn Journal) {
    let records: Vec<Record> =
        TOPICS.iter().map(|topic| Record { topic: Topic::new(*topic), ..said("p") }).collect();
    let new: Vec<NewRecord> = records.iter().cloned().map(Into::into).collect();
    journal.append(&new, Append::default()).unwrap();
    assert_eq!(all(journal), records);
}

pub(super) fn unknown_keys_are_kept(journal: &dyn Journal) {
    let extra = vec![
        ("mood".to_owned(), Value::List(vec![Value::Null, Value::Flag(true)])),
        ("deep".to_owned(), Value::Object(vec![("run".to_owned(), Value::Text("x".to_owned()))])),
    ];
    let record = Record { extra, ts: Some("yesterday".into()), ..said("p") };
    journal.append(&[record.clone().into()], Append::default()).unwrap();
    assert_eq!(all(journal), [record]);
}

pub(super) fn any_text_is_one_line(journal: &dyn Journal) {
    put(journal, NASTY);
    assert_eq!(payloads(journal), NASTY);
    assert_eq!(positions(journal).len(), NASTY.len());
}

pub(super) fn any_record_comes_back(journal: &dyn Journal) {
    let mut dice = Seed(0xc0ffee).dice();
    let mut records = Vec::new();
    for _ in 0..30 {
        let some: Vec<Record> =
            (0..=dice.below(4)).map(|_| autoloop_testkit::records::record(&mut dice)).collect();
        let new: Vec<NewRecord> = some.iter().cloned().map(Into::into).collect();
        let durability = if dice.chance(1, 2) { Durability::Cached } else { Durability::Synced };
        journal.append(&new, Append { durability, expect: None }).unwrap();
        records.extend(some);
    }
    assert_eq!(all(journal), records);
}

pub(super) fn a_record_of_two_megabytes_comes_back(journal: &dyn Journal) {
    let large = "line\n".repeat(400_000);
    put(journal, &["before", &large, "after"]);
    let payloads = payloads(journal);
    assert_eq!(payloads.len(), 3);
    assert!(payloads[1] == large, "{} bytes came back", payloads[1].len());
}

pub(super) fn cached_records_are_read_like_others(journal: &dyn Journal) {
    let how = Append { durability: Durability::Cached, expect: None };
    journal.append(&news(&["a"]), how).unwrap();
    put(journal, &["b"]);
    journal.append(&news(&["c"]), how).unwrap();
    assert_eq!(payloads(journal), ["a", "b", "c"]);
}

pub(super) fn a_spooled_text_follows_that_of_the_record(journal: &dyn Journal) {
    put_spooled(journal, finished("so far: "), spool(b"\"x\"\n"));
    assert_eq!(all(journal), [finished("so far: \"x\"\n")]);
}

pub(super) fn a_payload_can_be_spooled(journal: &dyn Journal) {
    put_spooled(journal, said("a"), spool(b"\tb\\"));
    assert_eq!(all(journal), [said("a\tb\\")]);
}

pub(super) fn an_empty_spool_adds_nothing(journal: &dyn Journal) {
    assert_eq!(spooled_output(journal, b""), "");
}

pub(super) fn a_spool_of_three_megabytes_comes_back(journal: &dyn Journal) {
    let text: String = (0..300_000).map(|number| format!("{number:09} ")).collect();
    let output = spooled_output(journal, text.as_bytes());
    assert!(output == text, "{} of {} bytes came back", output.len(), text.len());
}

pub(super) fn a_spool_that_is_not_utf8_is_shown_as_well_as_can_be(journal: &dyn Journal) {
    let text = b"a\xff\xfeb\xe2\x82";
    assert_eq!(spooled_output(journal, text), String::from_utf8_lossy(text));
}

/// A character, whole or broken, at every offset around the end of a piece.
pub(super) fn a_character_across_two_pieces_of_a_spool_is_whole(journal: &dyn Journal) {
    for (at, character) in [
        (1, "é".as_bytes()),
        (1, "漢".as_bytes()),
        (2, "漢".as_bytes()),
        (3, "🦀".as_bytes()),
        (1, b"\xf0\x9f"),
        (2, b"\xe6\xbc\""),
    ] {
        let mut text = vec![b'x'; SPOOL_PIECE - at];
        text.extend_from_slice(character);
        text.extend_from_slice(b"end");
        let before = journal.head().unwrap();
        put_spooled(journal, finished(""), spool(&text));
        let (records, _) = read_from(journal, before);
        assert!(output(&records[0]) == String::from_utf8_lossy(&text), "{character:?} at -{at}");
    }
}

pub(super) fn a_secret_across_two_pieces_of_a_spool_is_masked(journal: &dyn Journal) {
    for at in [1, 7, 14] {
        let mut text = vec![b'.'; SPOOL_PIECE - at];
        text.extend_from_slice(b"hunter2-hunter2 sk-ant-api03-abcdefghij0123456789\nend");
        let secrets = Some(vec![b"hunter2-hunter2".to_vec()]);
        let before = journal.head().unwrap();
        put_spooled(journal, finished(""), Spooled { secrets, ..spool(&text) });
        let (records, _) = read_from(journal, before);
        let stored = output(&records[0]).trim_start_matches('.');
        assert_eq!(stored, "[masked] sk-ant-[masked]\nend", "at -{at}");
    }
}

pub(super) fn spooled_records_are_adjacent_to_their_neighbours(journal: &dyn Journal) {
    let spooled = |text: &[u8]| NewRecord { record: finished("-"), spooled: Some(spool(text)) };
    let append = [said("a").into(), spooled(b"1"), spooled(b"2"), said("b").into()];
    journal.append(&append, Append::default()).unwrap();
    assert_eq!(all(journal), [said("a"), finished("-1"), finished("-2"), said("b")]);
}

pub(super) fn a_spool_that_cannot_be_read_is_refused_by_name(journal: &dyn Journal) {
    put(journal, &["before"]);
    let faults = Faults::none().fail_call(Op::Read, 1, 5);
    let broken = spool_with(b"text", faults);
    let append = [said("a").into(), NewRecord { record: finished(""), spooled: Some(broken) }];
    let error = journal.append(&append, Append::default()).unwrap_err();
    assert!(
        matches!(&error, AppendError::Spool { path, .. } if path == Path::new("/spool")),
        "{error:?}"
    );
    put(journal, &["after"]);
    assert_eq!(payloads(journal), ["before", "after"]);
}

pub(super) fn a_spool_for_a_text_that_the_record_has_not_is_refused(journal: &dyn Journal) {
    let record = Record { body: Body::System(Object::new()), ..said("") };
    let new = NewRecord { record, spooled: Some(spool(b"text")) };
    let error = journal.append(&[new], Append::default()).unwrap_err();
    assert!(matches!(error, AppendError::Spool { .. }), "{error:?}");
    put(journal, &["after"]);
    assert_eq!(payloads(journal), ["after"]);
}

pub(super) fn a_wait_for_what_has_come_ends_at_once(journal: &dyn Journal) {
    let first = put(journal, &["a"]);
    let head = put(journal, &["b"]);
    assert_eq!(journal.wait(Position::START, FOR_EVER).unwrap(), head);
    assert_eq!(journal.wait(first, FOR_EVER).unwrap(), head);
}

pub(super) fn a_wait_for_nothing_ends_in_time(journal: &dyn Journal) {
    let head = put(journal, &["a"]);
    assert_eq!(journal.wait(head, SHORT).unwrap(), head);
    assert_eq!(journal.wait(head, Duration::ZERO).unwrap(), head);
}

/// Two writers, each of which waits for the other's record.
pub(super) fn a_wait_ends_with_an_append(journal: &dyn Journal) {
    let talk = |own: usize| {
        let mut at = Position::START;
        for turn in 0..40 {
            if turn % 2 == own {
                at = put(journal, &["word"]);
            } else {
                let next = journal.wait(at, FOR_EVER).unwrap();
                assert_ne!(next, at);
                at = next;
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| talk(0));
        scope.spawn(|| talk(1));
    });
    assert_eq!(payloads(journal).len(), 40);
}

pub(super) fn every_waiter_is_woken(journal: &dyn Journal) {
    let head = put(journal, &["a"]);
    std::thread::scope(|scope| {
        let waiting: Vec<_> =
            (0..4).map(|_| scope.spawn(|| journal.wait(head, FOR_EVER).unwrap())).collect();
        let behind = put(journal, &["b"]);
        assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap() == behind));
    });
}

pub(super) fn many_writers_lose_nothing(journal: &dyn Journal) {
    const WRITERS: usize = 16;
    const APPENDS: usize = 50;
    let acknowledged = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                for number in 0..APPENDS {
                    let names: Vec<String> = (0..1 + (writer + number) % 3)
                        .map(|part| format!("{writer}/{number}/{part}"))
                        .collect();
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let head = put(journal, &names);
                    assert!(head <= journal.head().unwrap());
                    acknowledged.fetch_add(names.len(), Ordering::Relaxed);
                }
            });
        }
    });
    let stored = payloads(journal);
    assert_eq!(stored.len(), acknowledged.into_inner());
    let mut next = [0; WRITERS];
    let mut rest = stored.iter();
    while let Some(first) = rest.next() {
        let (writer, _) = first.split_once('/').unwrap();
        let writer: usize = writer.parse().unwrap();
        let number = next[writer];
        assert_eq!(*first, format!("{writer}/{number}/0"), "in order, from its first part");
        for part in 1..1 + (writer + number) % 3 {
            assert_eq!(rest.next(), Some(&format!("{writer}/{number}/{part}")), "adjacent");
        }
        next[writer] += 1;
    }
    assert_eq!(next, [APPENDS; WRITERS]);
}

/// Expecting the head makes the journal a counter that several writers can raise safely.
pub(super) fn writers_that_expect_the_head_take_turns(journal: &dyn Journal) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    loop {
                        let (records, head) = read_from(journal, Position::START);
                        match put_at(journal, head, &[&records.len().to_string()]) {
                            Ok(_) => break,
                            Err(AppendError::Conflict { .. }) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    let expected: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    assert_eq!(payloads(journal), expected);
}

pub(super) fn a_reader_that_follows_sees_what_a_late_one_sees(journal: &dyn Journal) {
    let followed = std::thread::scope(|scope| {
        let following = scope.spawn(|| {
            let (mut records, mut at) = (Vec::new(), Position::START);
            while records.len() < 120 {
                journal.wait(at, FOR_EVER).unwrap();
                let (more, behind) = read_from(journal, at);
                records.extend(more);
                at = behind;
            }
            records
        });
        for writer in 0..4 {
            scope.spawn(move || {
                for number in 0..10 {
                    let name = format!("{writer}/{number}");
                    put(journal, &[&name, &name, &name]);
                }
            });
        }
        following.join().unwrap()
    });
    assert_eq!(followed, all(journal));
}
