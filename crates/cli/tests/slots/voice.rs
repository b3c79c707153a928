//! What the reviewer of a slot emits besides its verdict: it is stored or refused, never
//! acknowledged and lost.

use autoloop_testkit::Sandbox;

use crate::scene::*;

/// Emits in every possible way, with the socket and without, and prints the exit code of each
/// command.
const SPEAK: &str = r#"for how in env 'env -u AUTOLOOP_DOOR -u AUTOLOOP_TICKET'; do
    $how "$AUTOLOOP_BIN" emit issue.discovered 'id=i-1;summary=slow;'; echo "emit=$?"
    $how "$AUTOLOOP_BIN" memory add learning 'keep it short'; echo "memory=$?"
    $how "$AUTOLOOP_BIN" tasks add 'more work'; echo "tasks=$?"
done
"$AUTOLOOP_BIN" memory list
"#;

/// How a reviewer is confined: by all layers of the kernel, by Landlock alone, or by the snapshot
/// only.
fn held(review: &str, how: &str, tasks: usize, more: &str) -> Sandbox {
    let mode = if how == "snapshot" { "off" } else { "auto" };
    let settings = format!("review.sandbox = '{mode}'\n{more}");
    let sandbox = repository(Agents { review, ..GOOD }, tasks, &settings);
    if how != "landlock" {
        return sandbox;
    }
    // An overlay cannot be mounted on a path with a comma.
    let temporary = sandbox.path(".git/a,b");
    std::fs::create_dir(&temporary).unwrap();
    sandbox.env("TMPDIR", temporary)
}

#[test]
fn an_emit_of_a_reviewer_is_stored_or_refused() {
    let review = format!("{SPEAK}{PASS}");
    for (how, slots) in [("any", 1), ("any", 2), ("landlock", 1), ("landlock", 2), ("snapshot", 1)]
    {
        let sandbox = held(&review, how, 1, "");
        passes(&sandbox, &format!("--review --iterations 1 --parallel-agents {slots}"));
        let held_by = sandbox.fields("slot.review", "enforcement").concat();
        let output = file(&sandbox, "1-1/review-0.out");
        let said = |what: &str| output.lines().filter(|line| *line == what).count();
        let how = format!("{how} ({held_by}), {slots}: {output}");
        let events = sandbox.fields("issue.discovered", "source").len();
        assert_eq!(events, said("emit=0"), "{how}");
        let run = sandbox.fields("slot.run.start", "run").concat();
        let memory =
            [".autoloop/memory.jsonl".to_owned(), format!(".autoloop/runs/{run}/memory.jsonl")];
        let memory = memory.map(|file| String::from_utf8(sandbox.read(file)).unwrap()).concat();
        assert_eq!(memory.matches("keep it short").count(), said("memory=0"), "{how}");
        let tasks = sandbox.run(&["tasks", "list"]).stdout;
        assert_eq!(tasks.matches("more work").count(), said("tasks=0"), "{how}");
        if held_by != "snapshot" {
            // It works through the harness, fails without it, and a reviewer may not change the
            // queue.
            assert_eq!((said("emit=0"), said("memory=0"), said("tasks=3")), (1, 1, 1), "{how}");
            assert_eq!(said("tasks=0"), 0, "{how}");
            assert!(output.contains("mem-"), "{how}");
        }
        assert_eq!(sandbox.fields("review.violation", "path"), Vec::<String>::new(), "{how}");
    }
}

#[test]
fn a_journal_outside_of_the_state_directory_is_protected() {
    let elsewhere = tempfile::tempdir().unwrap();
    let place = elsewhere.path().canonicalize().unwrap();
    let review = format!(
        "J='{0}/journal.jsonl'; M='{0}/memory.jsonl'; echo forged >> $M; sed -i s/slot/tols/ $J $M; true > $J; rm -f $J $M; mv $J '{0}/away'; echo evil > '{0}/beside'; {PASS}",
        place.display()
    );
    for how in ["any", "landlock", "snapshot"] {
        let settings = format!(
            "core.journal_file = '{0}/journal.jsonl'\ncore.memory_file = '{0}/memory.jsonl'",
            place.display()
        );
        let sandbox = held(&review, how, 0, &settings);
        std::fs::write(place.join("memory.jsonl"), "").unwrap();
        assert_eq!(sandbox.run(&["memory", "add", "learning", "be kind"]).code, Some(0));
        assert_eq!(sandbox.run(&["tasks", "add", "do it"]).code, Some(0));
        let memory = std::fs::read(place.join("memory.jsonl")).unwrap();
        let output = passes(&sandbox, "--review --iterations 1");
        let journal = std::fs::read_to_string(place.join("journal.jsonl")).unwrap();
        assert!(journal.contains("slot.finish"), "{how}: {output}\n{journal}");
        assert_eq!(sandbox.run(&["journal", "verify"]).code, Some(0), "{how}");
        let now = std::fs::read(place.join("memory.jsonl")).unwrap();
        assert!(now.starts_with(&memory), "{how}: {}", String::from_utf8_lossy(&now));
        assert!(!place.join("away").exists(), "{how}");
        for name in ["journal.jsonl", "memory.jsonl", "beside"] {
            let _ = std::fs::remove_file(place.join(name));
        }
        let _ = std::fs::remove_dir_all(place.join("journal.jsonl.idx"));
    }
}
