//! The saved state of views: any contents of a sidecar are loaded or rejected, and a loaded state
//! can be folded further, shown and saved again. Memory is bounded by the fuzzer's own limit.
#![no_main]

use autoloop_core::views::latest_run::LatestRun;
use autoloop_core::views::metrics::{Format, Metrics};
use autoloop_core::views::usage::Usages;
use autoloop_core::queue::Tasks;
use autoloop_core::record::Glance;
use autoloop_core::view::View;
use libfuzzer_sys::fuzz_target;

/// Records for a loaded state to continue with, in a run and an iteration that it may know.
const JOURNAL: [&str; 5] = [
    r#"{"run": "r", "iteration": "1", "topic": "iteration.start", "fields": {"suggested_roles": "builder"}}"#,
    r#"{"run": "r", "iteration": "1", "topic": "tasks.ready", "payload": "go", "source": "agent"}"#,
    r#"{"run": "r", "iteration": "1", "topic": "iteration.finish", "fields": {"exit_code": "0", "timed_out": false, "elapsed_s": 4}}"#,
    r#"{"run": "r", "iteration": "", "topic": "loop.complete", "fields": {"reason": "completion_event"}}"#,
    r#"{"run": "", "iteration": "", "topic": "queue.task.linked", "fields": {"task": "t-2", "after": "t-1"}, "ts": "2026-11-15T21:12:06.031Z"}"#,
];

fuzz_target!(|bytes: &[u8]| {
    if let Some(mut metrics) = attack::<Metrics>(bytes) {
        // A row takes at least eight bytes, so damaged bytes cannot ask for more than there are.
        assert!(metrics.iterations(None, &Usages::default()).count() <= bytes.len() / 8);
        fold_on(&mut metrics);
        for format in [Format::Markdown, Format::Csv, Format::Json] {
            assert!(!metrics.render(None, &Usages::default(), format).is_empty());
        }
    }
    if let Some(mut usages) = attack::<Usages>(bytes) {
        fold_on(&mut usages);
        usages.total(Some("r"));
    }
    if let Some(mut latest) = attack::<LatestRun>(bytes) {
        fold_on(&mut latest);
    }
    if let Some(mut tasks) = attack::<Tasks>(bytes) {
        fold_on(&mut tasks);
    }
});

/// Decodes a view; the result is encoded and decoded again as the same.
fn attack<V: View + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<V> {
    let view = V::decode(bytes)?;
    let encoded = view.encode(Vec::new()).expect("views can be encoded");
    assert_eq!(V::decode(&encoded).as_ref(), Some(&view));
    Some(view)
}

fn fold_on<V: View>(view: &mut V) {
    for line in JOURNAL {
        view.apply(&Glance::read(line.as_bytes()).expect("these are records"));
    }
}
