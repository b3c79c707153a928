//! Help texts, and the messages for mistyped commands.

use autoloop_testkit::{Sandbox, Terminal};
use insta::assert_snapshot;

fn sandbox() -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop"))
}

fn run(args: &[&str]) -> String {
    sandbox().run(args).to_string()
}

#[test]
fn without_arguments_it_prints_help() {
    assert_snapshot!(run(&[]), @r"
    exit 2
    --- stderr
    Run coding agents in loops that can be trusted

    Usage: autoloop <COMMAND>

    Commands:
      run          Run a loop until it completes, stops or fails
      chain        Run several loops in sequence
      presets      List the presets: loops that can be run by their name
      agents       List the known clients with their versions and problems
      init         Write a new loop, with comments
      emit         Append an event to the journal
      inspect      Show views of a journal
      loops        List runs
      watch        Watch a run, a chain, slots or a squad
      journal      Verify or follow the journal file
      config       Show the settings of a loop
      memory       Manage memory across iterations and runs
      tasks        Manage the task queue of the project
      mail         Exchange messages between agents
      mcp          Serve the tools of an agent over MCP on standard input and output
      review       Review by message; check findings packets and the gate; revert a metareview
      slots        Process a task queue: implement, review and fix each item
      squad        Build a specification with parallel loops, each with its own reviewer
      store        Read the squads of a project with SQL
      doctor       Check whether loops can run here
      demo         Run a loop with scripted agents in a temporary project
      version      Print the version
      completions  Print the completion script of a shell
      man          Print the manual page of a command
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version
    ");
}

#[test]
fn it_knows_its_version() {
    let expected = format!("exit 0\n--- stdout\nautoloop {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["--version"]), expected);
}

#[test]
fn help_and_version_are_commands_too() {
    assert_eq!(run(&["version"]), run(&["--version"]));
    assert_eq!(run(&["help"]), run(&["--help"]));
    assert_eq!(run(&["help", "emit"]), run(&["emit", "--help"]));
    assert_eq!(run(&["help", "journal", "verify"]), run(&["journal", "verify", "--help"]));
    let unknown = run(&["help", "emti"]);
    assert!(unknown.starts_with("exit 2") && unknown.contains("`autoloop help emit`"), "{unknown}");
    let unknown = run(&["help", "journal", "folow"]);
    assert!(unknown.contains("`autoloop help journal follow`"), "{unknown}");
    assert!(run(&["help", "zzz"]).starts_with("exit 2"));
}

#[test]
fn completions_are_written_for_every_shell() {
    for (shell, part) in [
        ("bash", "complete -F _autoloop"),
        ("zsh", "#compdef autoloop"),
        ("fish", "complete -c autoloop"),
        ("elvish", "edit:completion:arg-completer[autoloop]"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let output = sandbox().run(&["completions", shell]);
        assert_eq!(output.code, Some(0), "{shell}: {}", output.stderr);
        assert!(output.stdout.contains(part), "{shell}: {}", output.stdout);
        assert!(output.stdout.contains("max-iterations"), "{shell}");
        assert!(!output.stdout.contains("__script"), "{shell}");
    }
    assert!(run(&["completions", "cmd"]).starts_with("exit 2"));
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let sandbox = sandbox();
    let page = sandbox.run(&["man"]);
    assert_eq!(page.code, Some(0), "{}", page.stderr);
    assert!(page.stdout.contains(".TH autoloop 1"), "{}", page.stdout);
    let page = sandbox.run(&["man", "journal", "verify"]).stdout;
    assert!(page.contains(".TH autoloop-journal-verify 1"), "{page}");
    assert!(page.contains("autoloop journal verify"), "{page}");
    let unknown = sandbox.run(&["man", "jurnal"]);
    assert_eq!(unknown.code, Some(2), "{unknown}");
    assert!(unknown.stderr.contains("journal"), "{unknown}");
    let unknown = sandbox.run(&["man", "nosuchthing"]).stderr;
    assert!(
        unknown.starts_with("autoloop: 'autoloop' has no command 'nosuchthing'\n"),
        "{unknown}"
    );
    assert_eq!(sandbox.run(&["man", "--dir", "pages"]).code, Some(0));
    for name in ["autoloop.1", "autoloop-run.1", "autoloop-journal-verify.1"] {
        assert!(sandbox.path("pages").join(name).is_file(), "{name}");
    }
    assert!(!sandbox.path("pages/autoloop-__script.1").exists(), "it is no command for people");
}

#[test]
fn a_mistyped_subcommand_is_not_taken_for_a_directory() {
    for (args, meant) in [
        (&["loops", "shwo", "calm-heron"][..], "show"),
        (&["loops", "shwo"], "autoloop loops show"),
        (&["slots", "verdct"], "autoloop slots verdict"),
        (&["tasks", "lst"], "list"),
        (&["inspect", "metric"], "metrics"),
    ] {
        let output = sandbox().run(args);
        assert_eq!(output.code, Some(2), "{args:?}: {output}");
        assert!(output.stderr.contains(meant), "{args:?}: {output}");
    }
}

/// The output of a command, with colours if there are any.
fn coloured(sandbox: &Sandbox, args: &[&str], env: &[(&str, &str)]) -> String {
    let mut command = sandbox.command();
    command.args(args).envs(env.iter().copied());
    let output = command.output().expect("the binary can be started");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn colours_are_for_those_who_want_them() {
    let agent = "case $N in 1) $T emit a.done;; *) exit 9;; esac";
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, "");
    let force = ("CLICOLOR_FORCE", "1");
    for (args, part) in [
        (&["run", ".", "make it"][..], "the agent failed"),
        (&["loops"], "backend_failed"),
        (&["doctor"], "ok"),
        (&["inspect", "journal", "nowhere"], "autoloop:"),
        (&["config", "show", "--set", "zzz=1"], "unknown key"),
        (&["emti"], "unrecognized"),
    ] {
        let plain = coloured(&sandbox, args, &[]);
        assert!(plain.contains(part) && !plain.contains('\u{1b}'), "{args:?}: {plain:?}");
        let forced = coloured(&sandbox, args, &[force]);
        assert!(forced.contains("\u{1b}["), "{args:?}: {forced:?}");
        let refused = coloured(&sandbox, args, &[force, ("NO_COLOR", "1")]);
        assert!(!refused.contains('\u{1b}'), "{args:?}: {refused:?}");
    }
    let json = coloured(&sandbox, &["loops", "--json"], &[force]);
    assert!(!json.contains('\u{1b}'), "{json:?}");
}

#[test]
fn a_terminal_is_coloured() {
    let sandbox = sandbox();
    let mut command = sandbox.command();
    command.args(["inspect", "journal", "nowhere"]);
    let terminal = Terminal::start(command, (80, 24));
    terminal.see("nowhere does not exist");
    assert!(terminal.printed().contains("\u{1b}["), "{:?}", terminal.printed());
}

/// The output contains names that agents choose.
#[test]
fn coloured_output_has_no_control_characters_of_agents() {
    let line = r#"{"run": "a", "iteration": "", "topic": "loop.start", "fields": {"max_iterations": "3", "completion_promise": "", "completion_event": "", "review_every": "0", "objective": "\u001b]0;evil\u0007"}}
{"run": "a", "iteration": "", "topic": "loop.stop", "fields": {"reason": "\u001b]0;evil\u0007"}, "ts": "\u001b]0;evil\u0007 and some more"}
{"run": "\u001b]0;evil\u0007", "iteration": "", "topic": "\u001b]0;evil\u0007", "payload": "", "source": "agent", "ts": "\u001b]0;evil\u0007 and some more"}
"#;
    let sandbox = sandbox();
    sandbox.write_journal(line);
    let list = coloured(&sandbox, &["loops"], &[("CLICOLOR_FORCE", "1")]);
    assert!(list.contains("evil") && !list.contains("\u{1b}]"), "{list:?}");
}

#[test]
fn every_line_of_a_run_begins_with_the_elapsed_time() {
    let agent = "case $N in 1) $T emit a.done;; *) exit 9;; esac";
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, "");
    let text = coloured(&sandbox, &["run", ".", "-v", "make it"], &[]);
    let is_end = |line: &&str| line.contains(": failed (") || line.contains("' failed: ");
    let lines: Vec<&str> = text.lines().filter(|line| !is_end(line)).collect();
    assert!(lines.len() > 5, "{text}");
    for line in lines.iter().filter(|line| !line.contains("hint:")) {
        let time = line.strip_prefix('[').and_then(|line| line.split_once("] "));
        let time = time.and_then(|(time, _)| time.split_once(':'));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        assert!(time.is_some_and(|(m, s)| is_number(m) && is_number(s) && s.len() == 2), "{line}");
    }
}

#[test]
fn a_mistyped_command_gets_a_suggestion() {
    assert_snapshot!(run(&["emti", "review.ready"]), @"
    exit 2
    --- stderr
    error: unrecognized subcommand 'emti'

      tip: a similar subcommand exists: 'emit'

    Usage: autoloop <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(run(&["journal", "folow"]), @"
    exit 2
    --- stderr
    error: unrecognized subcommand 'folow'

      tip: a similar subcommand exists: 'follow'

    Usage: autoloop journal <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(run(&["--verbose"]), @"
    exit 2
    --- stderr
    error: unexpected argument '--verbose' found

      tip: a similar argument exists: '--version'

    Usage: autoloop --version <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn emit_explains_itself() {
    assert_snapshot!(run(&["emit", "--help"]), @r#"
    exit 0
    --- stdout
    Append an event to the journal.

    Agents call it to report a result: `autoloop emit review.ready "the parser is done"`. The words of the payload are joined by spaces. After the command has succeeded, the event survives a power cut.

    The run, the iteration and the journal are taken from AUTOLOOP_RUN_ID, AUTOLOOP_ITERATION and AUTOLOOP_JOURNAL_FILE, which the harness sets. Without them, the event belongs to the latest run in .autoloop/journal.jsonl. An agent that cannot write the journal, like a reviewer in its sandbox, has AUTOLOOP_DOOR instead: a socket of the harness, which checks and stores the event.

    An event that is not allowed now (AUTOLOOP_ALLOWED_EVENTS), or that only the harness may write, is refused.

    Usage: autoloop emit [OPTIONS] <TOPIC> [PAYLOAD]...

    Arguments:
      <TOPIC>
              Topic of the event, like `review.ready`

      [PAYLOAD]...
              Payload: a short text

    Options:
          --file <FILE>
              Read the payload from FILE, up to 100 MB

      -h, --help
              Print help (see a summary with '-h')
    "#);
}

#[test]
fn inspect_explains_itself() {
    assert_snapshot!(run(&["inspect", "journal", "--help"]), @"
    exit 0
    --- stdout
    Print records.

    With `--format json`, prints the lines of the journal unchanged. Prints all runs unless --run is given. Invalid lines are skipped; `autoloop journal verify` lists them.

    Usage: autoloop inspect journal [OPTIONS] [PROJECT_DIR]

    Arguments:
      [PROJECT_DIR]
              Project directory [default: the current project]

    Options:
          --run <RUN>
              Print records of one run only: its id, a prefix, or `latest`

          --topic <TOPIC>
              Print records with this topic only; repeatable

          --format <FORMAT>
              Output format

              Possible values:
              - json: The lines of the journal, unchanged
              - text: One line per record: time, run, iteration, topic and payload
              
              [default: text]

      -h, --help
              Print help (see a summary with '-h')
    ");
}

#[test]
fn verify_explains_itself() {
    assert_snapshot!(run(&["journal", "verify", "--help"]), @"
    exit 0
    --- stdout
    Report invalid lines, and removed, edited or copied records.

    Prints the line number, the byte offset and the problem of each. Changes nothing: readers skip a torn line and read the records after it. Records of a harness are checked by their seals if this user's key wrote them.

    Usage: autoloop journal verify [FILE]

    Arguments:
      [FILE]
              Journal file [default: that of the current project]

    Options:
      -h, --help
              Print help (see a summary with '-h')
    ");
}

#[test]
fn follow_explains_itself() {
    assert_snapshot!(run(&["journal", "follow", "--help"]), @"
    exit 0
    --- stdout
    Print records of all processes as they are appended.

    Prints the existing records, then new ones until interrupted. The journal need not exist yet.

    Usage: autoloop journal follow [OPTIONS] [FILE]

    Arguments:
      [FILE]
              Journal file [default: that of the current project]

    Options:
          --new
              Skip existing records

          --run <RUN>
              Print records of this run only

          --topic <TOPIC>
              Print records with this topic only; repeatable

          --format <FORMAT>
              Output format

              Possible values:
              - json: The lines of the journal, unchanged
              - text: One line per record: time, run, iteration, topic and payload
              
              [default: json]

      -h, --help
              Print help (see a summary with '-h')
    ");
}
