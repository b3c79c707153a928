//! A wave with worktrees that crashes after each of its records.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use autoloop_testkit::sandbox::tell;

use super::*;

/// The unit of `ulimit -f`.
const BLOCK: usize = 512;
/// Names of one length, so that records have nearly the same length in every run.
const NAMES: &str = "core.run_id_format = 'counter'";

/// The disk is full in the middle of each record in turn; then the run is resumed.
#[test]
fn a_wave_that_crashes_after_any_record_has_the_same_outcome() {
    let whole = project("true", "abcd", WORK, NAMES);
    run(&whole);
    assert_all_is_merged(&whole, "left alone");
    let journal = String::from_utf8(whole.read(".autoloop/journal.jsonl")).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    let first = lines.iter().position(|line| line.contains("\"wave.start\"")).unwrap();
    let before = |record: usize| lines[..record].iter().map(|line| line.len()).sum::<usize>();
    let next = AtomicUsize::new(first);
    let kept = Mutex::new(BTreeSet::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let record = next.fetch_add(1, Ordering::Relaxed);
                    let Some(line) = lines.get(record) else { break };
                    let records = cut_at(before(record) + line.len() / 2);
                    kept.lock().unwrap().extend(records);
                }
            });
        }
    });
    // Branches write in any order, so a cut may be one record off.
    let kept = kept.into_inner().unwrap();
    let all = lines.len() - first;
    tell(&format!("a wave in trees of its own was cut off behind {} of {all} records", kept.len()));
    assert!(kept.len() * 10 >= all * 8, "{kept:?} of {first}..{}", lines.len());
}

/// Lets a harness write that many bytes, and another one resume. Returns the number of records in
/// between, if the first one did not complete.
fn cut_at(bytes: usize) -> Option<usize> {
    let sandbox = project("true", "abcd", WORK, NAMES);
    // Padding before it makes the length a whole number of blocks.
    let frame = "{\"run\": \"\", \"iteration\": \"\", \"topic\": \"note\", \"payload\": \"\", \"source\": \"agent\"}\n";
    let blocks = (bytes + frame.len()).div_ceil(BLOCK);
    let filling = "x".repeat(blocks * BLOCK - bytes - frame.len());
    sandbox.write_journal(frame.replace("payload\": \"", &format!("payload\": \"{filling}")));
    let mut limited = sandbox.at_home("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" run . -i 2");
    limited.args(["-c", &script]).arg(sandbox.binary());
    let output = sandbox.finish(limited);
    let records = sandbox.journal().lines().count() - 1;
    let stops = sandbox.fields("loop.stop", "stopped_before_iteration");
    let is_whole = stops.contains(&"3".to_owned());
    if !is_whole {
        let resumed = sandbox.run(&["run", "--resume", ".", "-i", "2"]);
        assert_eq!(resumed.code, Some(1), "cut at {bytes}: {output}\n{resumed}");
    }
    assert_all_is_merged(&sandbox, &format!("cut at {bytes}"));
    (!is_whole).then_some(records)
}
