//! Memory files, on a real disk and on one that dies.

use std::collections::HashSet;
use std::path::Path;

use autoloop_core::memory::{Entry, Memory, Said};
use autoloop_runtime::journal::{AppendError, FileSettings};
use autoloop_runtime::memory::{Author, MemoryFile};
use autoloop_runtime::world::{Access, World};
use autoloop_testkit::{Faults, Seed, SimWorld, simulate};

fn learning(text: &str) -> Said {
    Said::Learning { text: text.to_owned() }
}

fn add(file: &MemoryFile, text: &str) -> Result<Option<Entry>, AppendError> {
    file.add(&Author::default(), &mut |_| Some(learning(text)))
}

#[test]
fn concurrent_writers_never_choose_the_same_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state/memory.jsonl");
    let world = World::real();
    let ids: Vec<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let file = MemoryFile::new(&path, &world, FileSettings::default());
                    (0..20).map(|_| add(&file, "x").unwrap().unwrap().id).collect::<Vec<_>>()
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 160);
    let memory = MemoryFile::new(&path, &world, FileSettings::default()).read().unwrap();
    assert_eq!(memory.live().len(), 160);
    assert_eq!((memory.next_number(), memory.bad()), (161, 0));
}

#[test]
fn a_torn_line_is_ended_and_counts_if_it_is_whole() {
    for (before, after, live) in [
        ("{\"id\": \"mem-1\", \"ty", "mem-2", 1),
        ("{\"id\": \"mem-4\", \"type\": \"learning\", \"text\": \"by hand\"}", "mem-5", 2),
        ("\n\n", "mem-1", 1),
    ] {
        let sim = SimWorld::new(Seed(1));
        let world = sim.world();
        let file = MemoryFile::new("/memory.jsonl", &world, FileSettings::default());
        let raw = world.disk.open(Path::new("/memory.jsonl"), Access::Append).unwrap();
        raw.append(before.as_bytes()).unwrap();
        assert_eq!(add(&file, "new").unwrap().unwrap().id, after);
        assert_eq!(file.read().unwrap().live().len(), live);
    }
}

#[test]
fn an_add_that_failed_for_a_torn_line_added_nothing() {
    let sim = SimWorld::new(Seed(1));
    let world = sim.world();
    let file = MemoryFile::new("/memory.jsonl", &world, FileSettings::default());
    sim.disk.set_contents("/memory.jsonl", b"");
    let line = b"{\"id\": \"mem-1\", \"type\": \"learning\", \"text\": \"known\"}";
    sim.disk.write_raw("/memory.jsonl", line);
    let unless_known = &mut |memory: &Memory| memory.live().is_empty().then(|| learning("known"));
    assert_eq!(file.add(&Author::default(), unless_known).unwrap(), None);
    assert_eq!(file.read().unwrap().live().len(), 1);
    assert_eq!(
        sim.disk.durable_contents("/memory.jsonl"),
        Some(sim.disk.contents("/memory.jsonl"))
    );
}

#[test]
fn an_acknowledged_entry_survives_a_crash_at_any_byte() {
    simulate("memory", 300, |seed, dice| {
        let sim = SimWorld::new(seed);
        let file = MemoryFile::new("/s/memory.jsonl", &sim.world(), FileSettings::default());
        let mut told = vec![add(&file, "first").unwrap().unwrap().id];
        sim.disk.set_faults(Faults::none().die_after_bytes(dice.below(400)));
        while let Ok(Some(entry)) = add(&file, "more of it") {
            told.push(entry.id);
        }
        let sim = SimWorld { disk: sim.disk.crash(dice), ..sim };
        let file = MemoryFile::new("/s/memory.jsonl", &sim.world(), FileSettings::default());
        told.push(add(&file, "last").unwrap().unwrap().id);
        let memory = file.read().unwrap();
        let found: Vec<_> = memory.live().into_iter().map(|entry| entry.id.clone()).collect();
        assert!(told.iter().all(|id| found.contains(id)), "{told:?} {found:?}");
        assert_eq!(found.iter().collect::<HashSet<_>>().len(), found.len());
    });
}

#[test]
fn nothing_is_written_when_there_is_nothing_to_say() {
    let sim = SimWorld::new(Seed(1));
    let file = MemoryFile::new("/s/memory.jsonl", &sim.world(), FileSettings::default());
    assert_eq!(file.add(&Author::default(), &mut |_| None).unwrap(), None);
    assert_eq!(file.read().unwrap(), Memory::default());
    let author = Author { source: "r#2".into(), first_number: 9 };
    let entry = file.add(&author, &mut |_| Some(learning("x"))).unwrap().unwrap();
    assert_eq!((entry.id.as_str(), entry.source.as_str()), ("mem-9", "r#2"));
}
