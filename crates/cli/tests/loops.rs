//! `autoloop loops` through the binary: runs that ended, crashed or are running.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use autoloop_testkit::sandbox::{Reaped, until};
use autoloop_testkit::{Sandbox, shorthand};
use insta::assert_snapshot;

fn shell(agent: &str, settings: &str) -> Sandbox {
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, settings)
}

fn empty() -> Sandbox {
    shell("", "")
}

/// A record of the harness, at a second of a fixed day.
fn record((run, iteration): (&str, &str), second: u32, topic: &str, fields: &str) -> String {
    format!(
        r#"{{"run": "{run}", "iteration": "{iteration}", "topic": "{topic}", "fields": {{{fields}}}, "ts": "2026-01-02T03:04:{second:02}.000Z", "v": 1}}"#
    ) + "\n"
}

fn begin(run: &str, objective: &str) -> String {
    let fields = format!(
        r#""max_iterations": "5", "completion_promise": "", "completion_event": "task.complete", "review_every": "0", "objective": "{objective}""#
    );
    record((run, ""), 0, "loop.start", &fields)
}

fn iteration(run: &str, number: &str) -> String {
    record(
        (run, number),
        1,
        "iteration.start",
        r#""recent_event": "loop.start", "suggested_roles": "", "allowed_events": "", "backpressure": "", "prompt": """#,
    ) + &record(
        (run, number),
        9,
        "iteration.finish",
        r#""exit_code": "0", "timed_out": false, "elapsed_s": 8, "output": """#,
    )
}

fn end(run: &str, topic: &str, reason: &str) -> String {
    record((run, ""), 10, topic, &format!(r#""reason": "{reason}""#))
}

/// One run of each status that a journal alone can show.
fn journal() -> String {
    let mut text = String::new();
    text += &(begin("swift-otter", "write a parser\\u000aand test it")
        + &iteration("swift-otter", "1")
        + &end("swift-otter", "loop.complete", "completion_event"));
    text += &(begin("calm-heron", "tidy up") + &end("calm-heron", "loop.stop", "max_iterations"));
    text += &(begin("calm-crow", "sleep") + &end("calm-crow", "loop.stop", "interrupted"));
    text += &(begin("loud-crow", "shout") + &iteration("loud-crow", "1"));
    text += "{\"run\": \"stray\", \"iteration\": \"\", \"topic\": \"note\", \"payload\": \"\", \"source\": \"agent\"}\n";
    text
}

/// Removes ages, which differ from day to day, and the width of their column.
fn without_ages(text: &str) -> String {
    let is_age =
        |word: &str| word.ends_with(['d', 'h']) && word.starts_with(|c: char| c.is_ascii_digit());
    let shown = |word: &str| if is_age(word) { "[AGE]".to_owned() } else { word.to_owned() };
    let line = |line: &str| line.split_whitespace().map(shown).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn loops(sandbox: &Sandbox, args: &[&str]) -> String {
    let args: Vec<&str> = ["loops"].iter().chain(args).copied().collect();
    without_ages(&sandbox.run(&args).to_string())
}

#[test]
fn every_state_that_a_journal_tells_of_is_listed() {
    let sandbox = empty();
    sandbox.write_journal(journal());
    assert_snapshot!(loops(&sandbox, &[]), @r"
    exit 0
    --- stdout
    RUN KIND STATUS DONE LAST EVENT STARTED (UTC) TIME SILENT OBJECTIVE
    stray - no start record 0 note - - -
    loud-crow loop crashed 1/5 loop.start 2026-01-02 03:04 9s [AGE] shout
    calm-crow loop interrupted 0/5 loop.start 2026-01-02 03:04 10s [AGE] sleep
    calm-heron loop stopped: max_iterations 0/5 loop.start 2026-01-02 03:04 10s [AGE] tidy up
    swift-otter loop completed 1/5 loop.start 2026-01-02 03:04 10s [AGE] write a parser
    ");
}

#[test]
fn of_runs_that_are_over_only_the_last_few_are_listed() {
    let sandbox = empty();
    let over = |n: usize| {
        let run = format!("run-{n}");
        begin(&run, "") + &end(&run, "loop.complete", "completion_event")
    };
    let text: String = (1..=8).map(over).collect();
    sandbox.write_journal(begin("run-0", "the oldest, and not over") + &text);
    let listed = loops(&sandbox, &[]);
    let names: Vec<&str> = listed.lines().filter(|line| line.starts_with("run-")).collect();
    assert_eq!(names.len(), 6, "{listed}");
    assert!(
        names[0].starts_with("run-8") && names[5].starts_with("run-0 loop crashed"),
        "{listed}"
    );
    assert!(listed.ends_with("3 more ended; list them with --all"), "{listed}");
    let all = loops(&sandbox, &["--all"]);
    assert_eq!(all.lines().filter(|line| line.starts_with("run-")).count(), 9, "{all}");
}

#[test]
fn other_programs_get_json() {
    let sandbox = empty();
    sandbox.write_journal(journal());
    let list: serde_json::Value =
        serde_json::from_str(&sandbox.run(&["loops", "--json"]).stdout).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 5);
    assert_eq!(list[1]["status"], "crashed");
    assert_eq!(list[3]["reason"], "max_iterations");
    assert_snapshot!(sandbox.run(&["loops", "show", "swift", "--json"]).stdout, @r#"
    {
      "run": "swift-otter",
      "kind": "loop",
      "status": "completed",
      "reason": "completion_event",
      "detail": null,
      "pid": null,
      "iterations": 1,
      "max_iterations": 5,
      "last_event": "loop.start",
      "began": "[TS]",
      "last_heard": "[TS]",
      "elapsed_s": 10,
      "usage": null,
      "parked": null,
      "objective": "write a parser\nand test it",
      "completion_event": "task.complete",
      "completion_promise": "",
      "review_every": 0,
      "reviewed_before": null,
      "events": [],
      "refused": 0,
      "last_refused": null,
      "journal": ".autoloop/journal.jsonl",
      "files": ".autoloop/runs/swift-otter"
    }
    "#);
}

#[test]
fn one_run_is_shown_in_full() {
    let sandbox = empty();
    sandbox.write_journal(journal());
    assert_snapshot!(loops(&sandbox, &["show", "loud-crow"]), @"
    exit 0
    --- stdout
    run loud-crow
    kind loop
    status crashed: no end is recorded, and no process holds its lock
    objective shout
    started [TS]
    last record [TS], [AGE] ago
    time 9s
    iterations 1/5
    last event loop.start
    events none yet
    completes on event task.complete
    metareviews none
    journal .autoloop/journal.jsonl
    files .autoloop/runs/loud-crow
    to resume autoloop run --resume=loud-crow
    ");
}

#[test]
fn a_name_that_means_no_run_or_several_is_an_error() {
    let sandbox = empty();
    sandbox.write_journal(journal());
    assert_snapshot!(loops(&sandbox, &["show", "swift-oter"]), @r"
    exit 1
    --- stderr
    autoloop: no run 'swift-oter' in .autoloop/journal.jsonl
    hint: did you mean 'swift-otter'?
    ");
    assert_snapshot!(loops(&sandbox, &["artifacts", "zzz"]), @r"
    exit 1
    --- stderr
    autoloop: no run 'zzz' in .autoloop/journal.jsonl
    hint: list all runs with `autoloop loops --all`
    ");
    assert_snapshot!(loops(&sandbox, &["watch", "calm"]), @r"
    exit 2
    --- stderr
    autoloop: 2 runs begin with 'calm'
    hint: name one of them: calm-crow, calm-heron
    ");
    assert!(loops(&sandbox, &["show", "latest"]).contains("run loud-crow"));
}

#[test]
fn without_a_journal_there_is_nothing_to_list() {
    let sandbox = empty();
    assert_snapshot!(loops(&sandbox, &[]), @"
    exit 0
    --- stdout
    no run in .autoloop/journal.jsonl yet
    ");
    assert_snapshot!(loops(&sandbox, &["--json"]), @r"
    exit 0
    --- stdout
    []
    ");
    assert_snapshot!(loops(&sandbox, &["watch"]), @r"
    exit 1
    --- stderr
    autoloop: no run in .autoloop/journal.jsonl yet
    hint: start a new run with `autoloop run DIR`
    ");
}

#[test]
fn the_places_that_are_set_are_looked_at() {
    let sandbox =
        shell("echo LOOP_COMPLETE", "core.state_dir = 'state'\ncore.journal_file = 'log.jsonl'");
    assert_eq!(sandbox.run(&["run", ".", "x"]).code, Some(0));
    assert!(loops(&sandbox, &[]).contains(" completed 1/3 "), "{}", loops(&sandbox, &[]));
    assert!(sandbox.run(&["inspect", "journal"]).stdout.contains("loop.complete"));
    assert!(sandbox.run(&["inspect", "metrics"]).stdout.contains("complete:completion_promise"));
    assert!(sandbox.run(&["journal", "verify"]).stdout.starts_with("log.jsonl: 6 records"));
    let artifacts = loops(&sandbox, &["artifacts", "latest"]);
    assert!(artifacts.contains("state/runs/"), "{artifacts}");
    assert_eq!(sandbox.emit(&["note"]).code, Some(0));
    assert!(sandbox.run(&["journal", "verify"]).stdout.starts_with("log.jsonl: 7 records"));
    assert!(!sandbox.path(".autoloop").exists(), "nothing was written elsewhere");

    // With invalid settings the default state directory is used, with a warning.
    sandbox.write("autoloops.toml", "core.state_dir = \n");
    assert_snapshot!(sandbox.run(&["inspect", "journal"]).stderr, @"
    autoloop: warning: autoloops.toml: line 1, column 18: invalid TOML: string values must be quoted, expected literal string; using the defaults
    autoloop: .autoloop/journal.jsonl is empty
    ");
}

#[test]
fn the_files_of_a_run_are_listed_with_their_sizes() {
    let sandbox = shell("echo twelve byte; $T memory add learning x >&2; echo LOOP_COMPLETE", "");
    assert_eq!(sandbox.run(&["run", ".", "x"]).code, Some(0));
    let list = sandbox.run(&["loops", "artifacts", "latest", "--json"]).stdout;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let mut told: Vec<String> = Vec::new();
    for artifact in list.as_array().unwrap() {
        let path = artifact["path"].as_str().unwrap();
        assert_eq!(artifact["bytes"], std::fs::metadata(sandbox.path(path)).unwrap().len());
        let name = path.rsplit('/').next().unwrap();
        told.push(format!("{} {name}", artifact["kind"].as_str().unwrap()));
    }
    assert_snapshot!(told.join("\n"), @r"
    journal journal.jsonl
    flags flags
    errors iteration-1.err
    output iteration-1.out
    prompt iteration-1.prompt.md
    lock lock
    memory memory.jsonl
    flags request
    ");
}

/// Waits in its second iteration until the test continues it.
const WAITS: &str = r#"
if [ $N = 2 ]; then touch there; while [ ! -e go ]; do sleep 0.05; done; fi
$T emit step.done "turn $N"
[ $N != 2 ] || echo LOOP_COMPLETE; [ $N != 3 ] || $T emit task.complete"#;

fn start(sandbox: &Sandbox, args: &[&str]) -> Reaped {
    let mut command = sandbox.command();
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    Reaped::start(command)
}

fn wait_for(sandbox: &Sandbox, name: &str) {
    until(name, || sandbox.path(name).exists().then_some(()));
}

/// The remaining output of a process, without times of day and the run's id.
fn rest(process: &mut Reaped, run: &str) -> String {
    let mut text = String::new();
    process.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    process.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    let code = process.0.wait().unwrap().code();
    let is_time = |word: &str| word.len() == 8 && word.as_bytes()[2] == b':';
    let line = |line: &str| {
        let time = line.split(' ').next().is_some_and(is_time);
        if time { format!("[TIME]{}", &line[8..]) } else { line.to_owned() }
    };
    let text: Vec<String> = text.lines().map(line).collect();
    format!("exit {code:?}\n{}", text.join("\n").replace(run, "[RUN]"))
}

#[test]
fn a_run_is_watched_to_its_end() {
    let sandbox = shell(WAITS, "");
    let _harness = start(&sandbox, &["run", ".", "make", "it"]);
    wait_for(&sandbox, "there");
    let run = sandbox.fields("loop.start", "run").remove(0);
    let shown = loops(&sandbox, &[]);
    assert!(shown.contains(&format!("{run} loop running 1/3 step.done")), "{shown}");
    let shown = loops(&sandbox, &["show", &run]);
    assert!(shown.contains("status running, in process"), "{shown}");
    assert!(shown.contains("current iteration 2, after step.done"), "{shown}");

    let mut watch = start(&sandbox, &["loops", "watch"]);
    let mut first = String::new();
    let mut out = BufReader::new(watch.0.stdout.take().unwrap());
    out.read_line(&mut first).unwrap();
    assert_eq!(first, format!("run {run}: running, 1 of 3 iterations done, iteration 2 running\n"));
    sandbox.write("go", "");
    let mut later = String::new();
    out.read_to_string(&mut later).unwrap();
    watch.0.stdout = None;
    let later = later.replace(&run, "[RUN]");
    // The time of day comes first; the duration of a turn depends on the machine.
    let untimed = |line: &str| {
        let line = line.split_at_checked(10).map_or(line, |(time, rest)| {
            if time.contains(':') && !time.starts_with('r') { rest } else { line }
        });
        let is_end = line.starts_with("  ended after ");
        if is_end { "  ended after [TIME]".to_owned() } else { line.to_owned() }
    };
    let later: Vec<String> = later.lines().map(untimed).collect();
    assert_snapshot!(later.join("\n"), @r"
      emitted step.done  turn 2
      ended after [TIME]
    iteration 3/3  no roles  after step.done
      emitted step.done  turn 3
      emitted task.complete
      ended after [TIME]
    run [RUN]: completed (completion_event) after 3 iterations
    ");
    assert_eq!(watch.0.wait().unwrap().code(), Some(0));
}

#[test]
fn watching_a_run_that_is_killed_ends_too() {
    let sandbox = shell(WAITS, "");
    let mut harness = start(&sandbox, &["run", ".", "make", "it"]);
    wait_for(&sandbox, "there");
    let run = sandbox.fields("loop.start", "run").remove(0);
    let mut watch = start(&sandbox, &["loops", "watch", &run[..run.len() - 1]]);
    let mut first = [0; 4];
    watch.0.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    harness.kill();
    assert_snapshot!(rest(&mut watch, &run).split_once('\n').unwrap().1.split_once('\n').unwrap().1, @r"
    autoloop: run '[RUN]' crashed
      hint: resume it with `autoloop run --resume=[RUN]`
    ");
    assert_eq!(watch.0.wait().unwrap().code(), Some(1));
    assert!(loops(&sandbox, &[]).contains("crashed"));
}

#[test]
fn watching_a_run_that_is_over_says_how_it_ended() {
    let sandbox = empty();
    sandbox.write_journal(journal());
    assert_snapshot!(loops(&sandbox, &["watch", "swift"]), @r"
    exit 0
    --- stdout
    run swift-otter: completed, 1 of 5 iterations done
    run swift-otter: completed (completion_event) after 1 iteration
    ");
    assert_snapshot!(loops(&sandbox, &["watch", "calm-heron"]), @r"
    exit 1
    --- stdout
    run calm-heron: stopped, 0 of 5 iterations done
    --- stderr
    autoloop: run 'calm-heron' stopped: max_iterations
    hint: resume it with `autoloop run --resume=calm-heron -i 5`
    ");
    assert_snapshot!(loops(&sandbox, &["watch", "calm-crow"]), @r"
    exit 1
    --- stdout
    run calm-crow: interrupted, 0 of 5 iterations done
    --- stderr
    autoloop: run 'calm-crow' was interrupted
    hint: resume it with `autoloop run --resume=calm-crow`
    ");
}

/// Journals of the same length and with the same end: one that has a kept view, and one that
/// replaces it.
fn swapped(
    kept: &str,
    found: &str,
    view: &[&str],
    command: &[&str],
) -> autoloop_testkit::sandbox::Output {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    let width = kept.len().max(found.len());
    let filler: String = (0..600)
        .map(|number| format!("{{\"run\": \"r\", \"iteration\": \"1\", \"topic\": \"x.said\", \"payload\": \"{number:0>800}\", \"source\": \"agent\"}}\n"))
        .collect();
    let journal = |begin: &str| format!("{begin}{}\n{filler}", " ".repeat(width - begin.len()));
    sandbox.write_journal(journal(kept));
    // Twice: a journal that changed only just now gets no kept view.
    for _ in 0..2 {
        assert_eq!(sandbox.run(view).code, Some(0), "{view:?}");
    }
    // The same file, as `dd conv=notrunc` changes it.
    sandbox.write_journal(journal(found));
    sandbox.run(command)
}

fn begun(run: &str) -> String {
    format!(
        "{{\"run\": \"{run}\", \"iteration\": \"\", \"topic\": \"loop.start\", \"fields\": {{\"max_iterations\": \"3\", \"objective\": \"x\"}}}}\n"
    )
}

fn added(criteria: &str) -> String {
    format!(
        "{{\"run\": \"\", \"iteration\": \"\", \"topic\": \"queue.task.added\", \"fields\": {{\"task\": \"t-1\", \"title\": \"one\", \"acceptance\": \"{criteria}\", \"priority\": 2}}, \"ts\": \"2026-11-15T21:12:06.031Z\"}}\n"
    )
}

/// A view kept beside the journal is a cache: where the journal differs, the cache is discarded.
#[test]
fn a_changed_first_line_is_noticed_under_a_sidecar() {
    let output =
        swapped(&begun("kept-run"), &begun("real-run"), &["loops", "--json"], &["loops", "--json"]);
    assert!(output.stdout.contains("real-run") && !output.stdout.contains("kept-run"), "{output}");
    let output = swapped(
        &begun("kept-run"),
        &begun("real-run"),
        &["watch", "--once"],
        &["watch", "--once", "--json"],
    );
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("real-run"), "{output}");
    let closed = added("easy")
        + "{\"run\": \"\", \"iteration\": \"\", \"topic\": \"queue.task.closed\", \"fields\": {\"task\": \"t-1\", \"reason\": \"mine\", \"fence\": \"1\"}, \"ts\": \"2026-11-15T21:12:07.031Z\"}\n";
    for view in [&["tasks", "list"][..], &["tasks", "ready"]] {
        let output = swapped(
            &closed,
            &added("hard"),
            view,
            &["tasks", "claim", "t-1", "--as", "me", "--json"],
        );
        assert_eq!(output.code, Some(0), "{output}");
        let output = swapped(&closed, &added("hard"), view, &["tasks", "show", "t-1"]);
        assert!(output.stdout.contains("hard") && !output.stdout.contains("easy"), "{output}");
    }
}

/// What a terminal acts on: an escape sequence, C1 controls, direction marks, line separators.
const OBEYED: &str =
    "\\u001b]0;x\\u0007\u{9b}31m\u{85}\u{7f}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{2029}";

/// A journal in which every name that an agent can choose is hostile.
fn hostile() -> Sandbox {
    let sandbox = empty();
    let line = |run: &str, iteration: &str, topic: &str, body: &str| {
        format!(
            "{{\"run\": \"{run}\", \"iteration\": \"{iteration}\", \"topic\": \"{topic}\", {body}, \"ts\": \"2026-11-15T21:12:06.031Z\"}}\n"
        )
    };
    let x = OBEYED;
    let (run, slots, chain) = (format!("run-{x}"), format!("slots-{x}"), format!("chain-{x}"));
    let journal = [
        line(
            &run,
            "",
            "loop.start",
            &format!(
                "\"fields\": {{\"max_iterations\": \"3\", \"completion_promise\": \"{x}\", \"completion_event\": \"{x}\", \"objective\": \"o{x}\"}}"
            ),
        ),
        line(
            &run,
            "1",
            "iteration.start",
            &format!(
                "\"fields\": {{\"recent_event\": \"{x}\", \"suggested_roles\": \"role{x}\", \"allowed_events\": \"{x}\"}}"
            ),
        ),
        line(
            &run,
            "1",
            &format!("topic{x}"),
            &format!("\"payload\": \"p{x}\", \"source\": \"agent\""),
        ),
        line(
            &run,
            "1",
            "issue.discovered",
            &format!("\"payload\": \"id=i{x}; summary=s{x}; owner=o{x};\", \"source\": \"agent\""),
        ),
        line(
            &run,
            "1",
            "event.invalid",
            &format!("\"fields\": {{\"emitted\": \"{x}\", \"reason\": \"{x}\"}}"),
        ),
        line(
            &run,
            "1",
            "iteration.finish",
            &format!(
                "\"fields\": {{\"exit_code\": \"0\", \"elapsed_s\": 1, \"output\": \"out{x}\"}}"
            ),
        ),
        line(&run, "", "loop.stop", &format!("\"fields\": {{\"reason\": \"r{x}\"}}")),
        line(
            "",
            "",
            "queue.task.added",
            &format!(
                "\"fields\": {{\"task\": \"t-1\", \"title\": \"t{x}\", \"description\": \"d{x}\", \"acceptance\": \"a{x}\", \"priority\": 2, \"by\": \"b{x}\"}}"
            ),
        ),
        line(
            &chain,
            "",
            "chain.start",
            &format!(
                "\"fields\": {{\"name\": \"n{x}\", \"steps\": \"s{x}\", \"step_count\": \"1\", \"objective\": \"o{x}\"}}"
            ),
        ),
        line(
            &chain,
            "",
            "chain.step.start",
            &format!(
                "\"fields\": {{\"step\": \"1\", \"preset\": \"s{x}\", \"preset_dir\": \"{x}\", \"work_dir\": \"{x}\", \"run_id\": \"{run}\"}}"
            ),
        ),
        line(
            &slots,
            "",
            "slot.run.start",
            "\"fields\": {\"iterations\": \"0\", \"parallel_agents\": \"1\", \"review\": true, \"max_fix_attempts\": \"1\", \"source\": \"builtin\", \"isolation\": \"shared\", \"stop_marker\": \"x\"}",
        ),
        line(
            &slots,
            "1",
            "slot.start",
            &format!(
                "\"fields\": {{\"slot\": \"1\", \"item_id\": \"i{x}\", \"title\": \"t{x}\", \"actor\": \"a{x}\", \"base\": \"\", \"branch\": \"\", \"tree\": \"\"}}"
            ),
        ),
        line(
            &slots,
            "1",
            "slot.finish",
            &format!(
                "\"fields\": {{\"slot\": \"1\", \"item_id\": \"i{x}\", \"outcome\": \"failed\", \"reason\": \"r{x}\"}}"
            ),
        ),
    ];
    sandbox.write_journal(journal.concat());
    sandbox
}

/// Whatever names agents choose, no listing contains control characters, even when piped; JSON
/// contains them as escapes.
#[test]
fn no_listing_shows_what_a_terminal_obeys() {
    let sandbox = hostile();
    let listings = "loops|loops --all|loops --json|loops --all --json|loops show run-|loops show run- --json|\
        loops artifacts run-|loops artifacts run- --json|inspect metrics|inspect metrics --format json|\
        inspect metrics --format csv|inspect journal|inspect journal --format json|inspect coordination|\
        inspect coordination --format json|inspect chain|inspect chain --format json|inspect slots|inspect slots --format json|\
        tasks list|tasks list --json|tasks ready|tasks ready --json|tasks show t-1|tasks show t-1 --json|\
        watch --once|watch --once --json|watch --once run-|watch --once run- --json|watch --once chain-|\
        watch --once slots-|watch --once slots- --json|loops show nosuch|tasks show nosuch|run --resume=nosuch";
    let is_obeyed = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = 0;
    for listing in listings.split('|').map(str::trim) {
        let args: Vec<&str> = listing.split(' ').collect();
        let output = sandbox.run(&args);
        for text in [&output.stdout, &output.stderr] {
            // Tables for other programs end their lines with both.
            let text = text.replace("\r\n", "\n");
            assert!(!text.contains(is_obeyed), "{listing}: {text:?}");
        }
        if listing.contains("json") && output.code == Some(0) && output.stdout.contains("u202e") {
            shown += 1;
            let values = serde_json::Deserializer::from_str(&output.stdout).into_iter();
            let values: Vec<serde_json::Value> = values.map(Result::unwrap).collect();
            assert!(format!("{values:?}").contains("202e"), "{listing}: {values:?}");
        }
    }
    assert!(shown >= 8, "{shown} listings hold what was to be escaped");
}

/// A run of each coordinator, all of which crashed.
const CRASHED: &str = "
    bravo loop.start max_iterations=5; objective=x
    brave-crow slot.run.start iterations=4; parallel_agents=1; source=builtin
    brave-crow#1 slot.start slot=1; item_id=t-7; title=mend the parser
    brave-crow#1 slot.implement slot=1; item_id=t-7; exit_code=0; output=mended
    relay chain.start name=ship; steps=autospec; objective=a tool
";

#[test]
fn a_name_means_the_same_run_in_every_command() {
    let sandbox = empty();
    sandbox.write_journal(shorthand::lines(CRASHED).join("\n") + "\n");
    let said = |words: &str| {
        let output = sandbox.run(&words.split(' ').collect::<Vec<_>>());
        format!("{}{}", output.stdout, output.stderr)
    };
    for (words, expected) in [
        (
            "loops show brave",
            "run           brave-crow\nkind          slots\nstatus        crashed",
        ),
        ("loops artifacts brave", "journal.jsonl"),
        ("watch brave --once", "slots brave-crow crashed"),
        ("loops watch brave", "slots 'brave-crow' crashed"),
        ("inspect slots --run brave", "slots brave-crow: crashed"),
        ("inspect output 1 --run brave", "== slot 1, implement ==\nmended\n"),
        ("inspect journal --run brave", "slot.run.start"),
        ("inspect chain --chain rel", "Chain relay"),
        ("slots --resume brave", "cannot resume 'brave-crow'"),
        ("run --resume=bravo .", "cannot resume 'bravo'"),
        ("chain run --resume=rel .", "cannot resume 'relay'"),
        ("run --resume=brave .", "'brave-crow' is a run of slots, not a run of a loop"),
        ("slots --resume=rel", "resume it with `autoloop chain run --resume=relay`"),
    ] {
        let said = said(words);
        assert!(said.contains(expected), "{words}: {said}");
    }
    for command in
        ["loops show", "watch --once", "inspect journal --run", "run . --resume", "slots --resume"]
    {
        let several = said(&format!("{command} brav"));
        assert!(several.contains("2 runs begin with 'brav'"), "{command}: {several}");
        assert!(several.contains("brave-crow, bravo"), "{command}: {several}");
        let mistyped = said(&format!("{command} brave-crw"));
        assert!(mistyped.contains("did you mean 'brave-crow'?"), "{command}: {mistyped}");
    }
}

#[test]
fn a_run_at_its_limit_is_resumed_with_a_higher_one() {
    let sandbox = empty();
    sandbox.write_journal(journal());
    let shown = loops(&sandbox, &["show", "calm-h"]);
    assert!(shown.contains("to resume autoloop run --resume=calm-heron -i 5"), "{shown}");
    let slots = "
        crow slot.run.start iterations=2; parallel_agents=1; source=builtin
        crow#2 slot.start slot=1; item_id=t-7; title=x
        crow slot.run.finish reason=iterations; taken=2; passed=1
    ";
    sandbox.write_journal(shorthand::lines(slots).join("\n") + "\n");
    let shown = loops(&sandbox, &["show", "crow"]);
    assert!(shown.contains("status failed: iterations"), "{shown}");
    assert!(shown.contains("to resume autoloop slots --resume=crow -i 4"), "{shown}");
}

#[test]
fn resume_takes_no_run_that_another_process_carries_out() {
    let agent =
        "[ ! -e wait ] || { touch there; while [ ! -e go ]; do sleep 0.05; done; }; echo $N";
    let sandbox = shell(agent, "event_loop.max_iterations = 1");
    assert_eq!(sandbox.run(&["run", ".", "x"]).code, Some(1));
    let first = sandbox.fields("loop.start", "run").remove(0);
    sandbox.write("wait", "");
    let mut harness = start(&sandbox, &["run", ".", "y"]);
    wait_for(&sandbox, "there");
    let process = harness.0.id();
    std::fs::remove_file(sandbox.path("wait")).unwrap();
    let resumed = sandbox.run(&["run", "--resume", ".", "-i", "2"]);
    let second = sandbox.fields("loop.start", "run").remove(1);
    let note = format!("'{second}' is running in process {process}; resuming '{first}'");
    assert!(resumed.stderr.contains(&note), "{resumed}");
    assert_eq!(sandbox.fields("loop.resume", "run"), [first]);
    sandbox.write("go", "");
    harness.0.wait().unwrap();
}
