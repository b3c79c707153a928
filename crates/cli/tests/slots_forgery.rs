//! Agents of slots that forge records of the harness or of the queue: forged records are ignored,
//! and each is reported once, however often the harness is killed.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until};
use autoloop_testkit::slots::{self, Agents, DRIFT, GOOD, told};
use insta::assert_snapshot;

/// `forge RUN TOPIC FIELDS` writes a line into the journal.
const FORGE: &str = r#"NOW="$(date -u +%Y-%m-%dT%H:%M:%S.000Z)"
forge() { printf '{"run": "%s", "iteration": "1", "topic": "%s", "fields": {%s}, "ts": "%s"}\n' "$1" "$2" "$3" "$NOW" >> "$AUTOLOOP_JOURNAL_FILE"; }
ME="$AUTOLOOP_RUN_ID"
"#;

/// Records that would end every slot of the run.
const ENDS: &str = r#"forge "$ME" slot.implement '"slot": "1", "exit_code": "0", "timed_out": false'
forge "$ME" slot.review '"slot": "1", "attempt": "0", "verdict": "pass", "follow_up_prompt": ""'
forge "$ME" slot.finish '"slot": "1", "outcome": "passed", "reason": ""'
forge "$ME" slot.run.finish '"reason": "no_items", "taken": "1", "passed": "1"'
"#;

fn forging(script: &str, tasks: usize, settings: &str) -> Sandbox {
    let implement = format!("{FORGE}{script}\n{}", GOOD.implement);
    let agents = Agents { implement: &implement, review: DRIFT, ..GOOD };
    let settings = format!("slots.reviewMaxFixAttempts = 0\n{settings}");
    slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, &settings))
}

/// The reported forgeries, in order.
fn refused(sandbox: &Sandbox) -> Vec<String> {
    let of = |name| sandbox.fields("event.invalid", name);
    let both = of("emitted").into_iter().zip(of("reason"));
    both.map(|(emitted, reason)| format!("{emitted} {reason}")).collect()
}

#[test]
fn forged_records_are_reported_and_ignored() {
    let script = format!(
        r#"{ENDS}
forge "$ME" slot.of.tomorrow ''
forge "$ME" loop.complete '"reason": "completion_event"'
printf '{{"run": "%s", "iteration": "1", "topic": "slot.finish", "payload": "", "source": "agent"}}\n' "$ME" >> "$AUTOLOOP_JOURNAL_FILE"
tail -n 20 "$AUTOLOOP_JOURNAL_FILE" | grep '"slot.start"' > copy; cat copy >> "$AUTOLOOP_JOURNAL_FILE"
forge another-run slot.finish '"slot": "1", "outcome": "passed"'
"$T" emit slot.finish 2> said; "$T" emit found.something "it is the agent's own"
"#
    );
    let sandbox = forging(&script, 1, "");
    assert_snapshot!(told(&sandbox, &["slots", "--review"]), @r"
    exit 1
    --- stdout
    slots [RUN]: failed (no_items), 0 of 1 item passed
    --- stderr
    slots [RUN] begin: 1 slot, with review
    note: reviewers see no diff: [DIR] is not in a git repository
    iteration 1
      slot 1  t-1  implement: task 1
    note: ignored 8 forged records: only the harness may write slot.implement, slot.review, slot.finish, slot.run.finish, slot.of.tomorrow, loop.complete, slot.finish, slot.start
      slot 1  t-1  review
      slot 1  t-1  review: drift: add a test
      slot 1  t-1  drift: there are no fixes, and the review found: add a test
    iteration 1 failed: 1 of 1 item did not pass (t-1)
    autoloop: 1 of 1 item did not pass
      hint: `autoloop inspect slots --run [RUN]` shows why; failed items were returned to the queue
      hint: retry failed items with `autoloop slots --resume=[RUN]`
    ");
    assert_snapshot!(refused(&sandbox).join("\n"), @r"
    slot.finish reserved
    slot.implement forged
    slot.review forged
    slot.finish forged
    slot.run.finish forged
    slot.of.tomorrow forged
    loop.complete forged
    slot.finish forged
    slot.start forged
    ");
    assert_eq!(sandbox.fields("slot.finish", "outcome").last().unwrap(), "drift");
    assert_eq!(sandbox.run(&["tasks", "ready"]).stdout, "t-1  P2  ready  task 1\n");
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    assert_snapshot!(told(&sandbox, &["inspect", "slots", "--run", &run]), @r"
    exit 0
    --- stdout
    slots [RUN]: failed (no_items), 0 of 1 item passed
      1.1  t-1  drift  1 review, 0 fixes  there are no fixes, and the review found: add a test
    iteration 1 failed: 1 of 1 item did not pass (t-1)
    ");
}

#[test]
fn several_slots_tell_of_each_once() {
    let script = r#"forge "$ME" slot.finish "\"slot\": \"$AUTOLOOP_SLOT\", \"outcome\": \"passed\""
forge "$ME" "slot.mine.$AUTOLOOP_ITEM_ID" ''"#;
    let sandbox = forging(script, 6, "");
    let args = ["slots", "--review", "--parallel-agents", "3"];
    assert_eq!(sandbox.run(&args).code, Some(1));
    let mut refused = refused(&sandbox);
    refused.sort();
    let finishes = vec!["slot.finish forged".to_owned(); 6];
    let mine = (1..=6).map(|number| format!("slot.mine.t-{number} forged"));
    assert_eq!(refused, finishes.into_iter().chain(mine).collect::<Vec<_>>());
    let outcomes = sandbox.fields("slot.finish", "outcome");
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "drift").count(), 6);
}

/// How many lines of each topic were forged, and how many were reported.
fn counts(sandbox: &Sandbox) -> [BTreeMap<String, usize>; 2] {
    let count = |topics: Vec<String>| {
        topics.into_iter().fold(BTreeMap::new(), |mut counts, topic| {
            *counts.entry(topic).or_default() += 1;
            counts
        })
    };
    let journal = sandbox.journal();
    let forged = journal.lines().filter(|line| line.contains("\"hand\""));
    let topic = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["topic"].as_str().unwrap().to_owned()
    };
    [count(forged.map(topic).collect()), count(sandbox.fields("event.invalid", "emitted"))]
}

#[test]
fn a_harness_that_was_killed_anywhere_tells_of_each_once() {
    let script = r#"forge "$ME" slot.review '"slot": "1", "hand": "1"'
forge "$ME" slot.finish '"slot": "1", "outcome": "passed", "hand": "1"'
forge "$ME" slot.finish '"slot": "1", "outcome": "drift", "hand": "1"'"#;
    let sandbox = forging(script, 2, "");
    assert_eq!(sandbox.run(&["slots", "--review"]).code, Some(1));
    let [forged, told] = counts(&sandbox);
    assert_eq!((forged.values().sum::<usize>(), &forged), (6, &told));
    let journal = fs::read_to_string(sandbox.journal_path()).unwrap();
    let lines: Vec<&str> = journal.lines().collect();
    let first = lines.iter().position(|line| line.contains("slot.run.start")).unwrap();
    let last = lines.iter().rposition(|line| line.contains("slot.run.finish")).unwrap();
    for cut in first + 1..=last {
        fs::write(sandbox.journal_path(), lines[..cut].join("\n") + "\n").unwrap();
        let output = sandbox.run(&["slots", "--resume"]);
        assert_eq!(output.code, Some(1), "cut behind {}: {output}", lines[cut - 1]);
        let [forged, told] = counts(&sandbox);
        assert_eq!(forged, told, "cut behind {}", lines[cut - 1]);
        assert_eq!(sandbox.fields("slot.run.finish", "passed"), ["0"]);
    }
}

/// Runs slots until the agent hangs, and kills the harness.
fn killed(sandbox: &Sandbox) {
    let mut command = sandbox.command();
    let said = fs::File::create(sandbox.path("said-by-harness")).unwrap();
    command.args(["slots", "--review"]).stdout(Stdio::null()).stderr(said);
    let mut harness = Reaped::start(command);
    until("the agent to hang", || {
        let ended = harness.0.try_wait().unwrap();
        let said = || String::from_utf8_lossy(&sandbox.read("said-by-harness")).into_owned();
        assert!(ended.is_none(), "{}", said());
        sandbox.path("hung").exists().then_some(())
    });
    harness.kill();
    until("the end of the agents", || sandbox.survivors().is_empty().then_some(()));
}

#[test]
fn a_forged_end_hides_no_run_from_a_resume() {
    let script = format!(
        r#"if [ ! -e hung ]; then {ENDS}
forge ghost slot.run.start '"parallel_agents": "1"'
# To say that it was told of already is no way out.
forge "$ME" event.invalid '"recent_event": "", "emitted": "slot.run.finish", "suggested_roles": "", "allowed_events": "", "reason": "forged"'
touch hung; sleep 653; fi"#
    );
    let sandbox = forging(&script, 1, "");
    killed(&sandbox);
    killed_again(&sandbox);
    let output = sandbox.run(&["slots", "--resume"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_snapshot!(refused(&sandbox).join("\n"), @r"
    slot.run.finish forged
    slot.implement forged
    slot.review forged
    slot.finish forged
    slot.run.finish forged
    ");
    assert_eq!(sandbox.fields("slot.finish", "outcome").last().unwrap(), "drift");
    let run = &sandbox.fields("slot.run.start", "run")[0];
    assert!(sandbox.fields("slot.run.resume", "run").iter().all(|resumed| resumed == run));
}

/// Resumes the run and kills it again as soon as the resume is recorded.
fn killed_again(sandbox: &Sandbox) {
    let mut command = sandbox.command();
    command.args(["slots", "--resume"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut harness = Reaped::start(command);
    until("the run to be taken up", || {
        let is_there = !sandbox.fields("slot.run.resume", "run").is_empty();
        (is_there || harness.0.try_wait().unwrap().is_some()).then_some(())
    });
    harness.kill();
    until("the end of the agents", || sandbox.survivors().is_empty().then_some(()));
}

#[test]
fn forged_queue_records_break_no_rule() {
    // The first task has claim 1, of this slot.
    let script = r#"if [ "$AUTOLOOP_ITEM_ID" = t-1 ]; then
SOON="$(date -u -d '+1 hour' +%Y-%m-%dT%H:%M:%S.000Z)"
by() { forge "$1" queue.task.claimed "\"task\": \"$2\", \"owner\": \"$3\", \"until\": \"$4\", \"fence\": \"2\""; }
# With the name of a run, nothing is the queue's.
forge "$ME" queue.task.closed '"task": "t-1", "reason": "mine", "fence": "1"'
by "$ME" t-1 "$ME-s1" "$SOON"
# Without one, by the rules of the queue.
forge "" queue.task.closed '"task": "t-1", "reason": "no number"'
forge "" queue.task.closed '"task": "t-1", "reason": "not that one", "fence": "7"'
forge "" queue.task.released '"task": "t-1", "reason": "not that one", "fence": "7"'
by "" t-1 mallory "$SOON"
by "" t-2 mallory 9999-01-01T00:00:00.000Z
forge "" queue.task.renewed '"task": "t-1", "until": "9999-01-01T00:00:00.000Z", "fence": "1"'
NOW=9998-12-31T23:00:00.000Z
by "" t-2 mallory 9999-01-01T00:00:00.000Z
"$T" tasks list --json > seen
"$T" tasks add "what was found" > added
fi"#;
    let sandbox = forging(script, 2, "");
    assert_eq!(sandbox.run(&["slots"]).code, Some(0));
    assert_eq!(refused(&sandbox), ["queue.task.closed forged", "queue.task.claimed forged"]);
    let seen: serde_json::Value = serde_json::from_slice(&sandbox.read("seen")).unwrap();
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    let of = |name: &str| seen.as_array().unwrap().iter().map(|task| task[name].clone()).collect();
    let [ids, owners, fences] = ["id", "owner", "fence"].map(|name| -> Vec<_> { of(name) });
    assert_eq!(ids, ["t-1", "t-2"]);
    assert_eq!(owners, [format!("{run}-s1").into(), serde_json::Value::Null]);
    assert_eq!(fences, [1.into(), serde_json::Value::Null]);
    // A task that the agent added by the command counts, and is taken by the next run.
    assert_eq!(sandbox.read("added"), b"t-3\n");
    assert_eq!(sandbox.fields("slot.finish", "item_id"), ["t-1", "t-2"]);
    assert_eq!(sandbox.run(&["slots"]).code, Some(0));
    assert_eq!(sandbox.fields("slot.finish", "item_id"), ["t-1", "t-2", "t-3"]);
    assert_eq!(sandbox.fields("slot.finish", "outcome"), ["passed"; 3]);
    assert!(sandbox.run(&["tasks", "list"]).stdout.starts_with("no open tasks, 3 closed tasks"));
}

/// A record that is too long for memory is read without the middle of its long fields.
#[test]
fn a_record_of_the_harness_is_its_own_however_long_it_is() {
    let review = r#"v=pass; [ $AUTOLOOP_FIX_ATTEMPT = 0 ] && v=drift
printf '{"verdict": "%s", "followUpPrompt": "' $v; head -c 4300000 /dev/zero | tr '\0' x; printf '"}'"#;
    let agents = Agents { review, ..GOOD };
    let sandbox = slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (1, ""));
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    // Only the beginnings of such lines are compared.
    let topics = |journal: &str| -> Vec<String> {
        let topic = |line: &str| line.split('"').nth(11).unwrap_or_default().to_owned();
        journal.lines().map(topic).filter(|topic| !topic.starts_with("queue.")).collect()
    };
    let journal = fs::read_to_string(sandbox.journal_path()).unwrap();
    let whole = topics(&journal);
    assert!(!whole.contains(&"event.invalid".to_owned()), "{whole:?}");
    // Nothing is repeated when the run is resumed from before its end.
    let end = journal.lines().position(|line| line.contains("\"slot.finish\"")).unwrap();
    let kept: Vec<&str> = journal.lines().take(end).collect();
    sandbox.write_journal(kept.join("\n") + "\n");
    assert_eq!(sandbox.run(&["slots", "--resume"]).code, Some(0));
    let mut again = topics(&fs::read_to_string(sandbox.journal_path()).unwrap());
    again.retain(|topic| topic != "slot.run.resume");
    assert_eq!(again, whole);
}

/// The output of a view, without the run's id and times.
fn view(sandbox: &Sandbox, args: &[&str]) -> String {
    let told = told(sandbox, args);
    let words = |line: &str| {
        let is_time = |word: &&str| {
            let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            word.strip_suffix('s').is_some_and(is_number) || word.split(':').count() == 3
        };
        line.split(' ')
            .filter(|word| word.is_empty() || !is_time(word))
            .collect::<Vec<_>>()
            .join(" ")
    };
    told.lines().map(words).collect::<Vec<_>>().join("\n")
}

#[test]
fn views_agree_about_what_counts() {
    let waits = "touch at; until [ -e go ]; do sleep 0.05; done";
    let script = format!("{waits}\n{ENDS}\ntouch forged\nuntil [ -e end ]; do sleep 0.05; done");
    let sandbox = forging(&script, 2, "");
    let start = |args: &[&str], out: Stdio| {
        let mut command = sandbox.command();
        command.args(args).stdout(out).stderr(Stdio::null());
        Reaped::start(command)
    };
    let there = |name: &str| until(name, || sandbox.path(name).exists().then_some(()));
    let mut harness = start(&["slots", "--review"], Stdio::null());
    there("at");
    // One view that watches from the start, and others that start later.
    let lines = fs::File::create(sandbox.path("lines")).unwrap();
    let mut watching = start(&["watch"], lines.into());
    let shown = || String::from_utf8_lossy(&sandbox.read("lines")).into_owned();
    until("a watcher", || shown().contains("WORK").then_some(()));
    sandbox.write("go", "");
    there("forged");
    assert_snapshot!(view(&sandbox, &["watch", "--once"]), @r"
    exit 0
    --- stdout
    slots [RUN] running  1 taken, 0 passed, 0 failed, 1 left  iteration 1
      slot 1  WORK   t-1 task 1
    ");
    harness.kill();
    until("the end of the agents", || sandbox.survivors().is_empty().then_some(()));
    assert_snapshot!(view(&sandbox, &["watch", "--once"]), @r"
    exit 0
    --- stdout
    slots [RUN] crashed  1 taken, 0 passed, 0 failed  iteration 1
      slot 1  WORK   t-1 task 1
    ");
    assert_snapshot!(view(&sandbox, &["inspect", "slots"]), @r"
    exit 0
    --- stdout
    slots [RUN]: crashed, 0 of 1 item passed
      1.1  t-1  implement  0 reviews, 0 fixes  task 1
    ");
    watching.0.wait().unwrap();
    assert!(!shown().contains("DONE"), "{}", shown());

    // Records that its harness writes afterwards are accepted.
    sandbox.write("end", "");
    assert_eq!(sandbox.run(&["slots", "--resume"]).code, Some(1));
    assert_snapshot!(view(&sandbox, &["watch"]), @r"
    exit 1
    --- stdout
    slots [RUN] failed (no_items)  2 taken, 0 passed, 2 failed  iteration 2, failed: 1, 2
    slot 1  t-2  FAILED  drift  there are no fixes, and the review found: add a test
    --- stderr
    autoloop: slots '[RUN]' failed: no_items
      hint: resume it with `autoloop slots --resume=[RUN]`
    ");
}

/// What an agent can do to the files of its run before it kills the harness.
const TAMPERING: [(&str, &str); 8] = [
    ("seals removed", r#"sed -i 's/, "seal": "[^"]*"//' $J"#),
    ("seals edited", r#"sed -i 's/"seal": "\([0-9]*\):./"seal": "\1:x/' $J"#),
    ("seals renumbered", r#"sed -i 's/"seal": "/"seal": "1/' $J"#),
    ("notes forged", r#"echo 'autoloop notes 2' > "$D/own-records""#),
    ("records copied", "for i in 1 2 3; do grep seal $J > twice; cat twice >> $J; done"),
    (
        "flags that name another state directory",
        "echo '--set core.state_dir=elsewhere' > \"$D/flags\"",
    ),
    ("flags without a review", "echo '--set slots.reviewEnabled=false' > \"$D/flags\""),
    ("seals and flags removed", r#"sed -i 's/, "seal": "[^"]*"//' $J; rm "$D/request" "$D/flags""#),
];

/// An implementer forges the review and the end of its own slot, destroys what would prove them
/// false, and the harness is killed.
#[test]
fn records_that_cannot_be_proven_are_forged_and_the_step_is_done_again() {
    for (what, tamper) in TAMPERING {
        let script = format!(
            "if [ ! -e hung ]; then {ENDS}\nJ=$AUTOLOOP_JOURNAL_FILE; D=\".autoloop/slots/$ME\"; {tamper}\ntouch hung; sleep 655; fi"
        );
        let sandbox = forging(&script, 1, "");
        killed(&sandbox);
        let run = sandbox.fields("slot.run.start", "run").remove(0);
        // A run without any proof has to be named.
        let resume = match what {
            "seals and flags removed" => format!("--resume={run}"),
            _ => "--resume".to_owned(),
        };
        let output = sandbox.run(&["slots", &resume]);
        assert_ne!(output.code, Some(0), "{what}: {output}");
        let output = match what {
            // Its flags are lost, so the user has to give them again.
            "seals and flags removed" => {
                assert!(output.stderr.contains("cannot be proven"), "{what}: {output}");
                assert!(output.stderr.contains("--trust-journal"), "{what}: {output}");
                assert_eq!(sandbox.fields("slot.run.resume", "run").len(), 0, "{what}");
                continue;
            }
            _ => output,
        };
        assert_eq!(
            sandbox.fields("slot.finish", "outcome").last().unwrap(),
            "drift",
            "{what}: {output}"
        );
        assert_eq!(sandbox.run(&["tasks", "ready"]).stdout, "t-1  P2  ready  task 1\n", "{what}");
        let refused = refused(&sandbox);
        for topic in ["slot.review", "slot.finish", "slot.run.finish"] {
            assert!(refused.contains(&format!("{topic} forged")), "{what}: {refused:?}\n{output}");
        }
        assert!(!sandbox.path("elsewhere").exists(), "{what}");
    }
}

/// Where the seals are lost, the user may trust the journal: then no recorded step is repeated,
/// also later.
#[test]
fn a_person_can_trust_the_journal() {
    let hangs = "if [ $AUTOLOOP_ITEM_ID = t-2 ] && [ ! -e hung ]; then touch hung; sleep 656; fi";
    let implement = format!("{hangs}\necho $AUTOLOOP_ITEM_ID >> implemented; {}", GOOD.implement);
    let agents = Agents { implement: &implement, ..GOOD };
    let sandbox = slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (2, ""));
    killed(&sandbox);
    let run = sandbox.fields("slot.run.start", "run").remove(0);
    for name in ["request", "flags"] {
        fs::remove_file(sandbox.path(format!(".autoloop/slots/{run}/{name}"))).unwrap();
    }
    sandbox.remove_seals();
    let output = sandbox.run(&["slots", "--resume", "--trust-journal", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(sandbox.read("implemented"), b"t-1\nt-2\n");
    assert_eq!(sandbox.fields("slot.finish", "outcome"), ["passed"; 2]);
    assert_eq!(refused(&sandbox), [""; 0]);
    let output = sandbox.run(&["slots", "--trust-journal"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("--resume"), "{output}");
}
