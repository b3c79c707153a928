//! A fold of the journal that is kept in a file.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::record::Glance;

/// A state that records are folded into, one after another. A view is total: it never fails, never
/// reads settings, and ignores what it does not know. It is kept with the position up to which it
/// was folded, so that a reader only reads the records after it.
pub trait View: Default + Serialize + DeserializeOwned {
    /// Also the name of the file in which the view is kept.
    const NAME: &'static str;
    /// Raised when the encoding changes in form or meaning; older states are then discarded. Fields
    /// and variants are encoded by their order, so moving one is a change of form.
    const VERSION: u32;

    fn apply(&mut self, record: &Glance<'_>);

    fn encode(&self, out: Vec<u8>) -> Option<Vec<u8>> {
        postcard::to_extend(self, out).ok()
    }

    /// `None` for bytes that [`View::encode`] did not write. At most a megabyte is reserved before
    /// elements are decoded, whatever length the bytes claim.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (view, rest) = postcard::take_from_bytes(bytes).ok()?;
        rest.is_empty().then_some(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Tasks;
    use crate::run::Runs;
    use crate::views::board::Boards;
    use crate::views::coordination::Coordinations;
    use crate::views::latest_run::LatestRun;
    use crate::views::metrics::Metrics;
    use crate::views::scratchpad::Scratchpads;
    use crate::views::usage::Usages;

    const JOURNAL: &str = r#"
{"run": "a", "iteration": "", "topic": "loop.start", "fields": {"max_iterations": "9", "completion_promise": "DONE", "completion_event": "task.complete", "review_every": "3", "objective": "to do", "preset": "p", "preset_dir": "d"}, "ts": "2026-11-15T21:12:06.031Z"}
{"run": "a", "iteration": "1", "topic": "iteration.start", "fields": {"recent_event": "loop.start", "suggested_roles": "builder", "allowed_events": "e", "backpressure": "", "prompt": "p"}, "ts": "2026-11-15T21:12:07.031Z"}
{"run": "a", "iteration": "1", "topic": "explore.parallel", "payload": "- x\n- y", "source": "agent", "ts": "2026-11-15T21:12:08.031Z"}
{"run": "a", "iteration": "1", "topic": "chain.spawn", "payload": "steps=s; justification=j;", "source": "agent"}
{"run": "a", "iteration": "1", "topic": "issue.discovered", "payload": "id=i; summary=s; owner=o;", "source": "agent"}
{"run": "a", "iteration": "1", "topic": "slice.committed", "payload": "id=s; commit_hash=h;", "source": "agent"}
{"run": "a", "iteration": "1", "topic": "event.invalid", "fields": {"recent_event": "r", "emitted": "e", "suggested_roles": "s", "allowed_events": "a", "reason": "forged"}}
{"run": "a", "iteration": "1", "topic": "iteration.finish", "fields": {"exit_code": "3", "timed_out": false, "elapsed_s": 4, "output": "printed"}, "ts": "2026-11-15T21:12:09.031Z"}
{"run": "a", "iteration": "1", "topic": "backend.usage", "fields": {"input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 3, "cache_write_tokens": 4, "total_tokens": 10, "cost_usd": 0.5, "role": "builder", "model": "m"}, "ts": "2026-11-15T21:12:09.031Z"}
{"run": "a", "iteration": "1", "topic": "wave.start", "fields": {"wave_id": "w", "trigger_topic": "explore.parallel", "branch_count": "2", "opening_recent_event": "loop.start", "opening_roles": "builder", "opening_events": "e", "objectives": "- x\n- y", "base": "c0ffee"}}
{"run": "a", "iteration": "1", "topic": "wave.branch.finish", "fields": {"wave_id": "w", "branch_id": "branch-1", "stop_reason": "max_iterations", "elapsed_ms": "7", "tree": "t", "output": "o", "detail": "d"}}
{"run": "a", "iteration": "1", "topic": "wave.branch.merge", "fields": {"wave_id": "w", "branch_id": "branch-1", "outcome": "conflict", "branch": "b", "commit": "c", "tree": "t", "files": "f", "detail": "d"}}
{"run": "c", "iteration": "", "topic": "loop.start", "fields": {"max_iterations": "9", "completion_promise": "", "completion_event": "", "review_every": "0", "objective": "to stop"}, "ts": "2026-11-15T21:12:09.531Z"}
{"run": "c", "iteration": "1", "topic": "loop.stop", "fields": {"reason": "interrupted"}, "ts": "2026-11-15T21:12:09.731Z"}
{"run": "b", "iteration": "", "topic": "slot.run.start", "fields": {"iterations": "5", "parallel_agents": "2", "review": true, "max_fix_attempts": "3", "source": "builtin", "isolation": "worktree", "stop_marker": "NONE"}, "ts": "2026-11-15T21:12:10.031Z"}
{"run": "b", "iteration": "1", "topic": "slot.start", "fields": {"slot": "1", "item_id": "t-1", "title": "one", "actor": "x", "base": "c0ffee", "branch": "b", "tree": "t"}, "ts": "2026-11-15T21:12:11.031Z"}
{"run": "b", "iteration": "1", "topic": "slot.finish", "fields": {"slot": "1", "item_id": "t-1", "outcome": "failed", "reason": "r"}, "ts": "2026-11-15T21:12:11.531Z"}
{"run": "", "iteration": "", "topic": "queue.task.added", "fields": {"task": "t-1", "title": "one", "priority": "4", "description": "d", "acceptance": "a", "by": "b"}, "ts": "2026-11-15T21:12:12.031Z"}
{"run": "", "iteration": "", "topic": "queue.task.claimed", "fields": {"task": "t-1", "owner": "o", "until": "2026-11-15T21:13:12.031Z", "fence": "1"}, "ts": "2026-11-15T21:12:12.031Z"}
"#;

    /// The name and version of a view, and a digest of its encoded state.
    fn fingerprint<V: View>() -> String {
        let mut view = V::default();
        for line in JOURNAL.trim().lines() {
            view.apply(&Glance::read(line.as_bytes()).unwrap());
        }
        let digest = blake3::hash(&view.encode(Vec::new()).unwrap()).to_hex();
        format!("{} {} {}\n", V::NAME, V::VERSION, &digest[..16])
    }

    /// A digest that changed means that views kept by the version before would be misread: raise the
    /// VERSION of the view, then accept the new digest.
    #[test]
    fn a_changed_state_comes_with_a_new_version() {
        let all = [
            fingerprint::<Boards>(),
            fingerprint::<Coordinations>(),
            fingerprint::<LatestRun>(),
            fingerprint::<Metrics>(),
            fingerprint::<Runs>(),
            fingerprint::<Scratchpads>(),
            fingerprint::<Tasks>(),
            fingerprint::<Usages>(),
        ];
        insta::assert_snapshot!(all.concat(), @"
        boards 9 5faaf1c6c4104d9f
        coordination 2 995f974d0e269903
        latest-run 2 c4aac5a21cc00455
        metrics 3 5c3cdee0cb785a73
        runs 16 9ee5aaa629341b2d
        scratchpads 1 2d9448b23fa5fd1b
        queue 3 e20375d8047db7d9
        usage 2 d07fddb5b05927bf
        ");
    }

    #[test]
    fn bytes_after_the_state_and_forged_lengths_are_refused() {
        let bytes = LatestRun("run".into()).encode(Vec::new()).unwrap();
        assert_eq!(LatestRun::decode(&bytes), Some(LatestRun("run".into())));
        assert_eq!(LatestRun::decode(&[&bytes[..], b"x"].concat()), None);
        // A list of 2^63 elements.
        let forged = [[0x80; 9].as_slice(), &[1]].concat();
        assert_eq!(LatestRun::decode(&forged), None);
        assert_eq!(Runs::decode(&forged), None);
        assert_eq!(Metrics::decode(&forged), None);
        assert_eq!(Scratchpads::decode(&forged), None);
    }
}
