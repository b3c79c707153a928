//! What an agent is given and what it returns: its environment, its prompt, its output; and how the
//! files of the loop are reloaded when it changes them.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;

use autoloop_testkit::Sandbox;
use insta::assert_snapshot;

fn shell(agent: &str, settings: &str) -> Sandbox {
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, settings)
}

fn run(sandbox: &Sandbox) -> Option<i32> {
    sandbox.run(&["run", ".", "make", "it"]).code
}

fn text(sandbox: &Sandbox, name: &str) -> String {
    let id = sandbox.fields("loop.start", "run").remove(0);
    let text = String::from_utf8(sandbox.read(name)).unwrap();
    sandbox.filter(&text).replace(&id, "[RUN]")
}

const ROLES: &str = "[[role]]\nid = 'a'\nemits = ['x.done', 'y.done']\n[[role]]\nid = 'b'\nemits = ['z']\n[handoff]\n'loop.start' = ['a', 'b']\n";

#[test]
fn the_environment_of_an_agent_is_as_documented() {
    let agent = "env | grep ^AUTOLOOP_ | grep -v _SLOT_TOKEN | grep -v ^AUTOLOOP_PROMPT= | sort > env; pwd > cwd; echo LOOP_COMPLETE";
    let sandbox = shell(agent, "").env("AUTOLOOP_REVIEW_MODE", "left over");
    sandbox.write("topology.toml", ROLES);
    assert_eq!(sandbox.run(&["run", ".", "--set", "event_loop.required_events=p,q"]).code, Some(1));
    assert_snapshot!(text(&sandbox, "env"), @"
    AUTOLOOP_ALLOWED_EVENTS=x.done,y.done,z
    AUTOLOOP_ALLOWED_ROLES=a,b
    AUTOLOOP_BIN=[DIR]/.autoloop/autoloops
    AUTOLOOP_COMPLETION_EVENT=task.complete
    AUTOLOOP_COMPLETION_PROMISE=LOOP_COMPLETE
    AUTOLOOP_DOOR=
    AUTOLOOP_FIX_ATTEMPT=
    AUTOLOOP_ITEM_ID=
    AUTOLOOP_ITERATION=3
    AUTOLOOP_JOURNAL_FILE=[DIR]/.autoloop/journal.jsonl
    AUTOLOOP_LOG_LEVEL=info
    AUTOLOOP_LOOP_ID=
    AUTOLOOP_MEMORY_FILE=[DIR]/.autoloop/runs/[RUN]/memory.jsonl
    AUTOLOOP_PARALLEL=
    AUTOLOOP_PHASE=
    AUTOLOOP_PROJECT_DIR=[DIR]
    AUTOLOOP_PROMPT_PATH=[DIR]/.autoloop/runs/[RUN]/iteration-3.prompt.md
    AUTOLOOP_RECENT_EVENT=loop.start
    AUTOLOOP_REQUIRED_EVENTS=p,q
    AUTOLOOP_REVIEW_MODE=
    AUTOLOOP_RUN_ID=[RUN]
    AUTOLOOP_SLOT=
    AUTOLOOP_SLOT_PHASE=
    AUTOLOOP_STATE_DIR=[DIR]/.autoloop
    AUTOLOOP_TASK_ID=
    AUTOLOOP_TICKET=
    ");
    assert_eq!(text(&sandbox, "cwd"), "[DIR]\n");
}

#[test]
fn the_working_directory_is_the_project_wherever_the_harness_was_started() {
    let sandbox = shell("pwd > cwd; echo LOOP_COMPLETE", "");
    fs::create_dir(sandbox.path("elsewhere")).unwrap();
    let mut command = sandbox.command();
    command.args(["run", ".."]).current_dir(sandbox.path("elsewhere"));
    assert_eq!(sandbox.finish(command).code, Some(0));
    assert_eq!(text(&sandbox, "cwd"), "[DIR]\n");
}

/// Prints the `PWD` and `OLDPWD` that a process was given. A shell sets its own before the first
/// command.
// A prompt is a variable too, and spans several lines.
const GIVEN_PWD: &str = r"tr '\n\0' ' \n' < /proc/$$/environ | grep -E '^(OLD)?PWD='";

#[test]
fn pwd_of_agents_and_reviewers_is_their_working_directory() {
    let settings = "review.every = 1\nevent_loop.max_iterations = 2";
    let sandbox = shell(GIVEN_PWD, settings).env("PWD", "/usr").env("OLDPWD", "/tmp");
    fs::create_dir(sandbox.path("else where")).unwrap();
    let mut command = sandbox.command();
    command.args(["run", "..", "make it"]).current_dir(sandbox.path("else where"));
    let output = sandbox.finish(command);
    assert_eq!(output.code, Some(1), "{output}");
    let expected = r"PWD=[DIR]\u000a";
    assert_eq!(sandbox.fields("backend.finish", "output"), [expected; 2]);
    assert_eq!(sandbox.fields("review.finish", "output"), [expected]);
}

#[test]
fn the_tool_works_from_another_directory_and_without_the_environment() {
    let agent = "cd / && \"$AUTOLOOP_PROJECT_DIR/.autoloop/autoloops\" emit far.away 'from here'";
    let sandbox = shell(agent, "event_loop.max_iterations = 1");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("far.away", "payload"), ["from here"]);

    let mut command = sandbox.at_home(sandbox.path(".autoloop/autoloops"));
    command.args(["emit", "by.hand", "later"]).current_dir("/").env_clear();
    assert_eq!(sandbox.finish(command).code, Some(0));
    assert_eq!(sandbox.fields("by.hand", "payload"), ["later"]);
}

#[test]
fn the_prompt_is_the_last_argument_and_in_a_file() {
    let agent = r#"printf %s "$1" > arg; cp "$AUTOLOOP_PROMPT_PATH" file; echo LOOP_COMPLETE"#;
    let sandbox = shell(agent, "");
    assert_eq!(run(&sandbox), Some(0));
    assert!(text(&sandbox, "arg").contains("make it"));
    assert_eq!(sandbox.read("arg"), sandbox.read("file"));
    let shown = sandbox.run(&["inspect", "prompt", "1"]);
    assert_eq!(shown.code, Some(0), "{shown}");
    assert_eq!(
        shown.stdout.trim_end(),
        sandbox.filter(&String::from_utf8(sandbox.read("file")).unwrap()).trim_end()
    );
}

#[test]
fn more_arguments_come_in_front_of_the_prompt() {
    let sandbox = shell("printf '%s\\n' \"$1\" \"$2\" $# > args; echo LOOP_COMPLETE", "");
    assert_eq!(sandbox.run(&["run", ".", "make", "it", "--", "-x", "two words"]).code, Some(0));
    assert_eq!(text(&sandbox, "args"), "-x\ntwo words\n3\n");
}

#[test]
fn a_prompt_too_long_for_an_argument_goes_by_stdin_and_the_journal_says_so() {
    let sandbox = shell("echo $#; wc -c < harness.md; cat > stdin; echo LOOP_COMPLETE", "");
    sandbox.write("harness.md", "é".repeat(150_000));
    assert_eq!(run(&sandbox), Some(0));
    let story = sandbox.story();
    let line = story.lines().find(|line| line.contains("backend.start")).unwrap();
    let digits = line.split(' ').find(|word| word.len() == 6 && word.parse::<u32>().is_ok());
    let line = line.replace(digits.unwrap(), "[BYTES]");
    assert_snapshot!(line, @"1 backend.start backend_kind=command command=sh prompt_mode=stdin timeout_ms=1800000 prompt_detour=a prompt of [BYTES] bytes is too long for an argument");
    assert!(text(&sandbox, "stdin").contains("make it"));
}

#[test]
fn any_output_is_stored_on_one_line_and_decodes_back() {
    let sandbox = shell(r#"printf 'a"b\\c\td\n\000\377é\033[0m'"#, "event_loop.max_iterations = 2");
    assert_eq!(run(&sandbox), Some(1));
    assert_snapshot!(sandbox.fields("iteration.finish", "output")[0], @r"a\u0022b\u005cc\u0009d\u000a\u0000�é\u001b[0m");
    let journal = sandbox.read(".autoloop/journal.jsonl");
    let line = |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).unwrap();
    let records: Vec<_> =
        journal.split(|byte| *byte == b'\n').filter(|l| !l.is_empty()).map(line).collect();
    let finish = records.iter().find(|record| record["topic"] == "iteration.finish").unwrap();
    assert_eq!(finish["fields"]["output"], "a\"b\\c\td\n\0\u{fffd}é\u{1b}[0m");
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
}

#[test]
fn a_character_across_the_border_of_two_reads_stays_whole() {
    let agent = "head -c 65535 /dev/zero | tr '\\0' a; printf 'é'";
    let sandbox = shell(agent, "event_loop.max_iterations = 1");
    assert_eq!(run(&sandbox), Some(1));
    let output = sandbox.fields("iteration.finish", "output").remove(0);
    assert_eq!(output.len(), 65_537);
    assert!(output.ends_with("aé"));
}

#[test]
fn much_output_in_every_iteration_never_ends_a_run() {
    let agent = "head -c 200000 /dev/zero | tr '\\0' x; echo; echo $N";
    let sandbox = shell(agent, "event_loop.max_iterations = 6");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
    for output in sandbox.fields("iteration.finish", "output") {
        assert_eq!(output.replace("\\u000a", "\n").trim_end().len(), 200_002);
    }
}

#[test]
fn a_promise_in_the_middle_of_much_output_counts() {
    let agent = "head -c 3000000 /dev/zero | tr '\\0' x; echo LOOP_COMPLETE; head -c 3000000 /dev/zero | tr '\\0' y";
    let sandbox = shell(agent, "");
    assert_eq!(run(&sandbox), Some(0));
    let output = sandbox.fields("iteration.finish", "output").remove(0);
    assert_eq!(output.replace("\\u000a", "\n").len(), 6_000_014);
}

#[test]
fn the_settings_are_read_again_before_every_iteration() {
    let agent =
        "[ $N = 1 ] && sed -i 's/max_iterations = 2/max_iterations = 3/' autoloops.toml; true";
    let sandbox = shell(agent, "event_loop.max_iterations = 2");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("iteration.finish", "exit_code").len(), 3);
    assert_eq!(sandbox.fields("loop.stop", "max_iterations"), ["3"]);
}

#[test]
fn the_command_line_stays_above_what_is_read_again() {
    let agent = "sed -i 's/max_iterations = 3/max_iterations = 9/' autoloops.toml";
    let sandbox = shell(agent, "event_loop.max_iterations = 3");
    assert_eq!(sandbox.run(&["run", ".", "-i", "2"]).code, Some(1));
    assert_eq!(sandbox.fields("iteration.finish", "exit_code").len(), 2);
}

#[test]
fn settings_that_broke_leave_the_last_good_ones_and_the_next_prompt_says_so() {
    let agent = r#"case $N in
1) cp autoloops.toml good; echo 'broken = [' >> autoloops.toml;;
2) cp good autoloops.toml;;
esac"#;
    let sandbox = shell(agent, "event_loop.max_iterations = 3");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("loop.stop", "reason"), ["max_iterations"]);
    let prompts = sandbox.fields("iteration.start", "prompt");
    let told: Vec<bool> =
        prompts.iter().map(|prompt| prompt.contains("cannot be used as they are")).collect();
    assert_eq!(told, [false, true, false]);
    let told = prompts[1].split("\\u000a").find(|line| line.contains("cannot be used")).unwrap();
    assert_snapshot!(told, @"- the files of the loop cannot be used as they are: [DIR]/autoloops.toml: line 6, column 11: invalid TOML: unclosed array, expected `]`");
}

#[test]
fn a_topology_that_broke_leaves_the_last_good_one() {
    let agent = "echo '[[role' > topology.toml; $T emit x.done";
    let sandbox = shell(agent, "event_loop.max_iterations = 2");
    sandbox.write("topology.toml", ROLES);
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("iteration.start", "suggested_roles"), ["a,b", "a,b"]);
    assert!(sandbox.fields("iteration.start", "prompt")[1].contains("topology.toml"));
}

#[test]
fn the_scratchpad_shows_the_latest_run_only() {
    let sandbox = shell(
        "echo \"$AUTOLOOP_RUN_ID\" >> ids; echo said by $(wc -l < ids)",
        "event_loop.max_iterations = 1",
    );
    run(&sandbox);
    run(&sandbox);
    assert_snapshot!(sandbox.run(&["inspect", "scratchpad", "--format", "md"]), @"
    exit 0
    --- stdout
    ## Iteration 1

    exit_code=0

    said by 2
    ");
    assert_snapshot!(sandbox.run(&["inspect", "output", "1"]), @"
    exit 0
    --- stdout
    said by 2
    ");
}

#[test]
fn a_torn_line_before_an_iteration_loses_nothing() {
    let agent = "[ $N = 1 ] && { printf '{\"run\": \"torn' >> \"$AUTOLOOP_JOURNAL_FILE\"; $T emit after.it; }; true";
    let sandbox = shell(agent, "event_loop.max_iterations = 2");
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.fields("iteration.start", "recent_event"), ["loop.start", "after.it"]);
    let shown = sandbox.run(&["inspect", "journal"]);
    assert!(shown.stdout.contains("after.it"), "{shown}");
}

#[test]
fn a_scripted_agent_plays_its_turns() {
    let sandbox = shell("", "");
    sandbox.write(
        "autoloops.toml",
        "backend = { kind = 'script', command = 'agent.toml' }\nreview.enabled = false\n",
    );
    sandbox.write("topology.toml", ROLES);
    sandbox.write(
        "agent.toml",
        "[[turn]]\niteration = 1\ndo = [{ print = 'first' }, { emit = 'x.done', payload = 'p' }, { write = 'made/file', text = 't' }]\n[[turn]]\ndo = [{ print = 'second' }, { emit = 'nope' }, { exit = 4 }]\n",
    );
    assert_eq!(run(&sandbox), Some(1));
    assert_eq!(sandbox.read("made/file"), b"t");
    assert_snapshot!(sandbox.story(), @r"
    - loop.start max_iterations=3 completion_promise=LOOP_COMPLETE completion_event=task.complete review_every=0 objective=make it
    1 iteration.start recent_event=loop.start suggested_roles=a,b allowed_events=x.done,y.done,z backpressure='' prompt=…
    1 backend.start backend_kind=script command=agent.toml prompt_mode=arg timeout_ms=1800000
    1 x.done payload=p
    1 backend.finish exit_code=0 timed_out=false output=first\u000aemitted x.done\u000a
    1 iteration.finish exit_code=0 timed_out=false elapsed_s=… output=first\u000aemitted x.done\u000a
    2 iteration.start recent_event=x.done suggested_roles=a,b allowed_events=x.done,y.done,z backpressure='' prompt=…
    2 backend.start backend_kind=script command=agent.toml prompt_mode=arg timeout_ms=1800000
    2 event.invalid recent_event=x.done emitted=nope suggested_roles=a,b allowed_events=x.done,y.done,z
    2 backend.finish exit_code=4 timed_out=false output=second\u000a detail=autoloop: invalid event 'nope'; recent event: 'x.done'; suggested roles: a, b; allowed next events: x.done, y.done, z
    2 iteration.finish exit_code=4 timed_out=false elapsed_s=… output=second\u000a detail=autoloop: invalid event 'nope'; recent event: 'x.done'; suggested roles: a, b; allowed next events: x.done, y.done, z
    2 loop.stop reason=backend_failed iteration=2 output_tail=second\u000a detail=the agent failed (exit code 4): autoloop: invalid event 'nope'; recent event: 'x.done'; suggested roles: a, b; allowed next events: x.done, y.done, z
    ");
}

/// The prompts that the agent got, one for each iteration.
fn prompts(sandbox: &Sandbox) -> Vec<String> {
    let prompts = sandbox.fields("iteration.start", "prompt");
    prompts.iter().map(|prompt| prompt.replace("\\u000a", "\n")).collect()
}

const TWO_EVENTS: &str = "[[role]]\nid = 'a'\nemits = ['a.done', 'b.done']\n";

/// A turn without an event is reported on the terminal, and once to the next turn.
#[test]
fn a_turn_without_an_event_is_reported() {
    let agent = "[ $N = 2 ] && exec $T emit a.done; echo nothing";
    let sandbox = shell(agent, "event_loop.max_iterations = 3");
    sandbox.write("topology.toml", TWO_EVENTS);
    for flags in [&[][..], &["-v"]] {
        let output = sandbox.run(&[&["run", ".", "make it"], flags].concat());
        let told: Vec<&str> = output.stderr.lines().filter(|line| *line == "  no event").collect();
        assert_eq!(told.len(), 2, "{output}");
    }
    let told = "Iteration 1 emitted no event";
    let is_told: Vec<bool> = prompts(&sandbox).iter().map(|text| text.contains(told)).collect();
    assert_eq!(is_told, [false, true, false, false, true, false]);
}

#[test]
fn a_promise_that_does_not_count_is_explained() {
    for (agent, settings, why) in [
        ("$T emit a.done; echo LOOP_COMPLETE", "", "the turn also emitted `a.done`"),
        ("$T emit no.such; echo LOOP_COMPLETE", "", "`no.such` was refused in the turn"),
        (
            "echo LOOP_COMPLETE",
            "event_loop.required_events = ['b.done']",
            "required events were not seen yet: b.done",
        ),
    ] {
        let settings = format!("event_loop.max_iterations = 2\n{settings}");
        let sandbox = shell(agent, &settings);
        sandbox.write("topology.toml", TWO_EVENTS);
        let output = sandbox.run(&["run", ".", "make it"]);
        assert_eq!(output.code, Some(1), "{output}");
        let note = format!("note: the completion promise did not count: {why}\n");
        assert_eq!(output.stderr.matches(&note).count(), 2, "{note}{output}");
        let told = format!("The completion promise of iteration 1 did not count: {why}.");
        let second = prompts(&sandbox).remove(1);
        assert!(second.contains(&told), "{told}\n{second}");
        assert!(!second.contains("Iteration 1 emitted"), "{second}");
    }
}

#[test]
fn a_completion_event_that_does_not_count_is_explained() {
    let settings = "event_loop.max_iterations = 2\nevent_loop.required_events = ['b.done']";
    let sandbox = shell("case $N in 1) $T emit task.complete;; *) $T emit b.done;; esac", settings);
    let output = sandbox.run(&["run", ".", "make it"]);
    let why = "did not count: required events were not seen yet: b.done";
    assert!(output.stderr.contains(&format!("note: the completion event {why}\n")), "{output}");
    let second = prompts(&sandbox).remove(1);
    assert!(second.contains(&format!("The completion event of iteration 1 {why}.")), "{second}");
    assert_eq!(output.code, Some(0), "it counts once they were seen: {output}");
}

/// The remark about the previous iteration survives a harness that dies in the next one.
#[test]
fn a_remark_about_the_last_turn_is_repeated_when_the_next_one_is_retried() {
    let agent = "[ $N = 2 ] && [ ! -e mended ] && { touch mended; exit 5; }; $T emit a.done; echo LOOP_COMPLETE";
    let sandbox = shell(agent, "event_loop.max_iterations = 2");
    sandbox.write("topology.toml", TWO_EVENTS);
    assert_eq!(sandbox.run(&["run", ".", "make it"]).code, Some(1));
    assert_eq!(sandbox.run(&["run", "--resume"]).code, Some(1));
    let told = "The completion promise of iteration 1 did not count";
    let is_told: Vec<bool> = prompts(&sandbox).iter().map(|text| text.contains(told)).collect();
    assert_eq!(is_told, [false, true, true]);
}

/// The prompt asks for an event, and for the promise only where an event is impossible.
#[test]
fn the_prompt_does_not_ask_for_two_things_that_exclude_each_other() {
    let sandbox = shell("echo LOOP_COMPLETE", "event_loop.required_events = []");
    sandbox.write("topology.toml", TWO_EVENTS);
    assert_eq!(sandbox.run(&["run", ".", "make it"]).code, Some(0));
    let prompt = prompts(&sandbox).remove(0);
    let (_, protocol) = prompt.split_once("\nProtocol:\n").unwrap();
    assert!(protocol.contains("only if you cannot run the event tool"), "{protocol}");
    assert!(protocol.contains("in a turn without an emitted or refused event"), "{protocol}");
}

#[test]
fn every_refusal_is_shown_also_when_another_event_was_accepted() {
    let agent = "$T emit no.such; $T emit b.bad; $T emit a.done; true";
    let sandbox = shell(agent, "event_loop.max_iterations = 1");
    sandbox.write("topology.toml", TWO_EVENTS);
    let output = sandbox.run(&["run", ".", "-v", "make it"]);
    assert!(output.stderr.contains("  emitted: a.done\n  refused: no.such, b.bad\n"), "{output}");
}

#[test]
fn the_end_of_a_run_has_the_number_of_its_last_iteration() {
    let sandbox = shell("[ $N = 2 ] && [ -e mended ] && echo LOOP_COMPLETE; true", "");
    assert_eq!(sandbox.run(&["run", ".", "-i", "2", "make it"]).code, Some(1));
    sandbox.write("mended", "");
    assert_eq!(sandbox.run(&["run", ".", "-i", "2", "make it"]).code, Some(0));
    assert_eq!(sandbox.fields("loop.stop", "iteration"), ["2"]);
    assert_eq!(sandbox.fields("loop.complete", "iteration"), ["2"]);
    assert_eq!(sandbox.fields("loop.start", "iteration"), ["", ""]);
}

/// An event that no handoff names is routed to all roles; each may emit what any of them may.
#[test]
fn an_event_without_a_handoff_is_routed_to_all_roles() {
    let agent = "case $N in 1) $T emit x.done;; 2) $T emit z;; *) $T emit other;; esac";
    let sandbox = shell(agent, "event_loop.max_iterations = 3");
    sandbox.write("topology.toml", ROLES.replace("['a', 'b']", "['a']"));
    sandbox.run(&["run", ".", "make it"]);
    assert_eq!(sandbox.fields("iteration.start", "suggested_roles"), ["a", "a,b", "a,b"]);
    let all = "x.done,y.done,z";
    assert_eq!(sandbox.fields("iteration.start", "allowed_events"), ["x.done,y.done", all, all]);
    assert_eq!(sandbox.fields("event.invalid", "emitted"), ["other"]);
    let sandbox = shell("$T emit any.thing", "event_loop.max_iterations = 1");
    assert_eq!(sandbox.run(&["run", ".", "make it"]).code, Some(1));
    assert_eq!(
        sandbox.fields("event.invalid", "emitted"),
        [""; 0],
        "no topology allows everything"
    );
}

#[test]
fn the_completion_of_the_topology_wins_over_the_settings() {
    let sandbox = shell("$T emit all.done", "event_loop.completion_event = 'mine'");
    sandbox.write(
        "topology.toml",
        "completion = 'all.done'\n[[role]]\nid = 'a'\nemits = ['all.done']\n",
    );
    let output = sandbox.run(&["run", ".", "make it"]);
    assert_eq!(output.code, Some(0), "{output}");
    let warning = "warning: event_loop.completion_event is 'mine', but the completion of [DIR]/topology.toml is 'all.done', which wins\n";
    assert!(output.stderr.contains(warning), "{output}");
    let shown = sandbox.run(&["config", "show", "--explain"]);
    assert!(shown.stdout.contains("all.done"), "{shown}");
}

/// A command may read its prompt from a variable. A prompt that is too long for that is in its file
/// only.
#[test]
fn the_prompt_is_in_a_variable_where_it_fits() {
    let agent = "printf %s \"$AUTOLOOP_PROMPT\" > prompt; cp \"$AUTOLOOP_PROMPT_PATH\" path; echo LOOP_COMPLETE";
    let sandbox = shell(agent, "core.log_level = 'none'");
    let output = sandbox.run(&["run", ".", "make it"]);
    assert_eq!(output.code, Some(0), "{output}");
    let prompt = String::from_utf8(sandbox.read("prompt")).unwrap();
    let path = String::from_utf8(sandbox.read("path")).unwrap();
    assert_eq!(prompt.trim_end(), path.trim_end());
    let long = "word ".repeat(30_000);
    sandbox.write("PROMPT.md", &long);
    let set = "event_loop.prompt_file=PROMPT.md";
    assert_eq!(sandbox.run(&["run", ".", "--set", set]).code, Some(0));
    assert_eq!(sandbox.read("prompt"), b"");
    assert!(String::from_utf8(sandbox.read("path")).unwrap().contains("word word word"));
}
