//! `autoloop watch` and `autoloop run --watch` in a pseudo-terminal.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use autoloop_runtime::world::World;
use autoloop_testkit::sandbox::until;
use autoloop_testkit::{Sandbox, Terminal, shorthand, slots};
use rustix::process::{Pid, Signal, kill_process};

use crate::scene::{cut_off, run, with_agent};

const USUAL: (u16, u16) = (80, 24);

/// A loop whose agent prints something and then waits until the test continues it.
fn sandbox() -> Sandbox {
    with_agent(
        "
        for n in $(seq 40); do echo \"number $n\"; done
        echo \"hello from the agent\"
        while ! test -e go; do sleep 0.02; done
        echo LOOP_COMPLETE",
    )
}

/// Starts `autoloop …` in a terminal.
fn open(sandbox: &Sandbox, args: &[&str]) -> Terminal {
    let mut command = sandbox.command();
    command.args(args);
    Terminal::start(command, USUAL)
}

fn ended(terminal: &mut Terminal) -> ExitStatus {
    until("the end of the program", || terminal.process.0.try_wait().unwrap())
}

fn send(terminal: &Terminal, signal: Signal) {
    let pid = Pid::from_child(&terminal.process.0);
    kill_process(pid, signal).unwrap();
}

fn is_stopped(terminal: &Terminal) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", terminal.process.0.id())).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('T')
}

#[test]
fn a_run_is_watched_resized_looked_into_and_left() {
    let sandbox = sandbox();
    let _run = run(&sandbox);
    let mut terminal = open(&sandbox, &["watch"]);
    let screen = terminal.see("hello from the agent");
    assert!(terminal.is_taken());
    assert!(screen.contains("> loop  RUN 1/3"), "{screen}");
    assert!(screen.lines().next().unwrap().ends_with("running  mend the parser"), "{screen}");
    assert!(screen.contains("LAST LINE"), "{screen}");
    // The selected run fills the window.
    assert!(screen.contains("number 40\nhello from the agent"), "{screen}");

    terminal.resize((30, 8));
    terminal.miss("LAST LINE");
    terminal.see("> loop  RUN 1/3");
    terminal.resize((10, 2));
    terminal.see("needs 20x4");
    terminal.resize(USUAL);
    terminal.see("LAST LINE");

    terminal.press("\r");
    let screen = terminal.see("q back");
    assert!(screen.contains("iteration-1.out"), "{screen}");
    assert!(screen.contains("number 40\nhello from the agent"), "{screen}");
    terminal.press("\u{1b}[5~");
    terminal.miss("hello from the agent");
    terminal.press("g");
    terminal.see("\nnumber 1\nnumber 2\n");
    terminal.press("G");
    terminal.see("hello from the agent");
    terminal.press("q");
    terminal.see("> loop");

    terminal.press("?");
    terminal.see("PgUp, PgDn");
    terminal.press("x");
    terminal.miss("PgUp, PgDn");

    sandbox.write("go", "");
    terminal.see("completed: completion_promise");
    terminal.press("q");
    assert_eq!(ended(&mut terminal).code(), Some(0));
    terminal.assert_given_back();
}

#[test]
fn escape_and_ctrl_c_leave_as_well() {
    let sandbox = cut_off();
    for key in ["\u{1b}", "\u{3}"] {
        let mut terminal = open(&sandbox, &["watch", "otter"]);
        terminal.see("crashed");
        terminal.press(key);
        assert_eq!(ended(&mut terminal).code(), Some(0));
        terminal.assert_given_back();
    }
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_restored() {
    let sandbox = sandbox();
    let _run = run(&sandbox);
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut terminal = open(&sandbox, &["watch"]);
        terminal.see("hello from the agent");
        send(&terminal, signal);
        assert_eq!(ended(&mut terminal).signal(), Some(signal.as_raw()));
        terminal.assert_given_back();
    }
}

#[test]
fn the_shell_gets_the_terminal_for_a_while() {
    let sandbox = sandbox();
    let _run = run(&sandbox);
    let mut terminal = open(&sandbox, &["watch"]);
    // By the key, and by a signal from outside.
    for by_key in [true, false] {
        terminal.see("hello from the agent");
        match by_key {
            true => terminal.press("\u{1a}"),
            false => send(&terminal, Signal::TSTP),
        }
        until("it to stop", || is_stopped(&terminal).then_some(()));
        terminal.assert_given_back();
        send(&terminal, Signal::CONT);
        until("it to come back", || terminal.is_taken().then_some(()));
    }
    terminal.see("hello from the agent");
    terminal.press("q");
    assert_eq!(ended(&mut terminal).code(), Some(0));
    terminal.assert_given_back();
}

#[test]
fn it_rests_when_nothing_happens() {
    let sandbox = sandbox();
    let _run = run(&sandbox);
    let terminal = open(&sandbox, &["watch"]);
    terminal.see("hello from the agent");
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", terminal.process.0.id())).unwrap();
        let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        // The 14th and 15th field of the file; the first two were removed.
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let clock = World::real().clock;
    let begin = clock.elapsed();
    let before = ticks();
    clock.sleep(Duration::from_secs(2));
    // There are some hundred ticks a second; a busy loop would use all of them.
    let (spent, seconds) = (ticks() - before, (clock.elapsed() - begin).as_secs());
    assert!(spent < 10 * seconds, "{spent} ticks in {seconds} s");
}

#[test]
fn a_run_can_be_watched_where_it_is_started() {
    let sandbox = sandbox();
    let mut terminal = open(&sandbox, &["run", ".", "--watch", "mend the parser"]);
    terminal.see("hello from the agent");
    terminal.press("q");
    terminal.see("the run continues; Ctrl-C stops it");
    terminal.press("j");
    terminal.miss("the run continues");
    terminal.press("qq");
    terminal.assert_given_back();
    // The shell gets the terminal back as usual.
    send(&terminal, Signal::TSTP);
    until("it to stop", || is_stopped(&terminal).then_some(()));
    send(&terminal, Signal::CONT);
    sandbox.write("go", "");
    assert_eq!(ended(&mut terminal).code(), Some(0));
    terminal.see("completed (completion_promise) after 1 iteration");
}

#[test]
fn ctrl_c_in_the_view_stops_the_work_beside_it() {
    let sandbox = sandbox();
    let mut terminal = open(&sandbox, &["run", ".", "--watch", "mend the parser"]);
    terminal.see("hello from the agent");
    terminal.press("\u{3}");
    assert_eq!(ended(&mut terminal).code(), Some(130));
    terminal.assert_given_back();
    terminal.see("was interrupted");
    assert!(sandbox.journal().contains("\"reason\": \"interrupted\""));
}

#[test]
fn an_unfinished_key_does_not_hold_up_the_end_of_a_run() {
    let sandbox = sandbox();
    let mut terminal = open(&sandbox, &["run", ".", "--watch", "mend the parser"]);
    terminal.see("hello from the agent");
    terminal.press("?");
    terminal.see("Ctrl-Z");
    // Alt-[ sends the prefix of many key sequences. The pane closes with the key before it.
    terminal.press("x\u{1b}[");
    terminal.miss("Ctrl-Z");
    sandbox.write("go", "");
    assert_eq!(ended(&mut terminal).code(), Some(0));
    terminal.assert_given_back();
}

#[test]
fn without_a_smart_terminal_there_are_lines() {
    let sandbox = cut_off();
    let mut command = sandbox.at_home("env");
    command.arg("TERM=dumb").arg(sandbox.binary()).args(["watch", "otter"]);
    let mut terminal = Terminal::start(command, USUAL);
    assert_eq!(ended(&mut terminal).code(), Some(1));
    let screen = terminal.see("crashed");
    assert!(screen.contains("03:00:00 loop  NEXT"), "{screen}");
}

#[test]
fn without_a_keyboard_there_is_no_view() {
    let sandbox = cut_off();
    // In a new session, so that there is no terminal to open.
    let mut command = sandbox.at_home("setsid");
    command.args(["-w", "sh", "-c", "\"$0\" watch otter </dev/null"]).arg(sandbox.binary());
    let mut terminal = Terminal::start(command, USUAL);
    assert_eq!(ended(&mut terminal).code(), Some(1));
    insta::assert_snapshot!(terminal.see("hint:"), @r"
    autoloop: cannot open the live view on this terminal: No such device or address (os error 6)
      hint: print lines instead with `autoloop watch | cat`
    ");
    terminal.assert_given_back();
}

/// A squad of two loops: the builders wait for the test, the reviewer of the second one never passes it.
const SQUAD_AGENT: &str = r#"
    T=$AUTOLOOP_TASK_ID
    call() { "$AUTOLOOP_BIN" mcp call "$@"; }
    case "$AUTOLOOP_PHASE" in
    build | revise)
        echo "$AUTOLOOP_PHASE" >> "$T.txt"
        echo "building $T"
        while ! test -e "$AUTOLOOP_PROJECT_DIR/go-$T"; do sleep 0.02; done
        call complete_task "{\"taskId\":\"$T\"}" ;;
    review)
        [ "$T" = a ] && passed=true || passed=false
        call set_loop_review_result "{\"loopId\":\"$AUTOLOOP_LOOP_ID\",\"passed\":$passed,\"issues\":[{\"description\":\"no test\"}]}" ;;
    esac
"#;

const SQUAD_PLAN: &str = r#"
[[task]]
id = "a"
title = "write a"
description = "x"
[[task]]
id = "b"
title = "write b"
description = "x"
[[group]]
tasks = ["a", "b"]
"#;

#[test]
fn a_squad_shows_its_loops_until_one_is_stuck() {
    let sandbox = with_agent(SQUAD_AGENT);
    let script = sandbox.path("agent.sh").display().to_string();
    let settings = String::from_utf8(sandbox.read("autoloops.toml")).unwrap();
    sandbox.write("autoloops.toml", settings.replace("'agent.sh'", &format!("'{script}'")));
    sandbox.write("plan.toml", SQUAD_PLAN).write(".gitignore", "home/\n");
    for args in
        [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]]
    {
        slots::git(&sandbox, args);
    }
    let mut terminal = open(&sandbox, &["squad", "--plan", "plan.toml", "--effort", "low"]);
    terminal.resize((120, 30));
    terminal.see("building b");
    let screen = terminal.see("building a");
    assert!(screen.contains("0/2 tasks merged"), "{screen}");
    assert!(screen.contains("> squad"), "{screen}");
    assert!(screen.contains("group 1   "), "{screen}");
    assert!(screen.contains("0/2 merged"), "{screen}");
    for task in ["a", "b"] {
        let line = screen.lines().find(|line| line.contains(&format!("{task} write {task}")));
        assert!(line.unwrap().contains("BUILD 1"), "{screen}");
    }
    sandbox.write("go-a", "");
    terminal.see("PASSED");
    // The second loop is selected, and its output is opened.
    terminal.press("jjj\r");
    terminal.see("q back");
    terminal.see("turn-2/agent.out");
    terminal.press("q");
    sandbox.write("go-b", "");
    assert_eq!(ended(&mut terminal).code(), Some(1));
    terminal.assert_given_back();
    terminal.see("autoloop squad resolve");

    let mut terminal = open(&sandbox, &["watch"]);
    terminal.resize((120, 30));
    let screen = terminal.see("stopped: blocked");
    assert!(screen.contains("0/2 tasks merged, 1 blocked"), "{screen}");
    let stuck = screen.lines().find(|line| line.contains("STUCK")).unwrap();
    assert!(stuck.contains("failed, revision 2/2"), "{screen}");
    terminal.press("jjj");
    let screen = terminal.see("resolve it with `autoloop squad resolve");
    assert!(screen.contains("review: drift: no test"), "{screen}");
    terminal.press("q");
    assert_eq!(ended(&mut terminal).code(), Some(0));
    terminal.assert_given_back();

    // An agent can write to the journal, but not for the harness.
    let run = &sandbox.fields("squad.start", "run")[0];
    let forged = format!("{run} squad.merge loop_id={run}-1; outcome=merged; commit=x; files=");
    let mut journal = sandbox.read(".autoloop/journal.jsonl");
    journal.extend(shorthand::lines(&forged).join("").into_bytes());
    journal.push(b'\n');
    sandbox.write_journal(journal);
    let once = sandbox.run(&["watch", "--once"]).stdout;
    assert!(once.contains("PASSED") && !once.contains("MERGED"), "{once}");
}
