//! What the program says about itself, and to somebody who mistyped.

use autoloop_testkit::Sandbox;
use insta::assert_snapshot;

fn run(args: &[&str]) -> String {
    Sandbox::new(env!("CARGO_BIN_EXE_autoloop")).run(args).to_string()
}

#[test]
fn without_arguments_it_says_what_can_be_done() {
    assert_snapshot!(run(&[]), @r"
    exit 2
    --- stderr
    Runs coding agents in loops that can be trusted

    Usage: autoloop <COMMAND>

    Commands:
      run      Drive a loop to its end
      chain    Run several loops, one after another
      presets  List the presets: loops that can be run by their name
      init     Write a new loop, with comments
      emit     Append an event to the journal
      inspect  Show what happened
      loops    Show which runs there are
      watch    Watch a run, a chain or slots
      journal  Look after the journal file
      config   Show the settings of a loop
      memory   Remember things across iterations and runs
      tasks    Keep a queue of things to be done
      review   Undo what a metareview changed
      slots    Work off a queue of items: implement, review, fix
      doctor   Check whether loops can be run here
      demo     Watch a whole run with scripted agents, in a project to be thrown away

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
fn what_was_mistyped_is_guessed() {
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

    Agents call it to say that something happened: `autoloop emit review.ready "the parser is done"`. The words of the payload are joined by spaces. When it exits with 0, the event is stored and survives a power cut.

    The run, the iteration and the journal come from AUTOLOOP_RUN_ID, AUTOLOOP_ITERATION and AUTOLOOP_JOURNAL_FILE, which the harness sets. Without them, the event belongs to the latest run in .autoloop/journal.jsonl. An agent that may not write the journal itself, like a reviewer in its sandbox, is given AUTOLOOP_DOOR: then the harness decides about the event and stores it.

    Exits with 3 when the event is not allowed now (AUTOLOOP_ALLOWED_EVENTS) or is one that only the harness may write, with 2 when the topic or the payload cannot be what was meant, and with 1 when the event could not be stored.

    Usage: autoloop emit [OPTIONS] <TOPIC> [PAYLOAD]...

    Arguments:
      <TOPIC>
              What happened: a word like `review.ready`

      [PAYLOAD]...
              What there is to say about it

    Options:
          --file <FILE>
              Take the payload from a file, of at most 100 MB

      -h, --help
              Print help (see a summary with '-h')
    "#);
}

#[test]
fn inspect_explains_itself() {
    assert_snapshot!(run(&["inspect", "journal", "--help"]), @"
    exit 0
    --- stdout
    The records themselves.

    With `--format json`, the lines of the journal as they stand, of all runs unless one is named. Lines that are not records are passed over; `autoloop journal verify` names them.

    Usage: autoloop inspect journal [OPTIONS] [PROJECT_DIR]

    Arguments:
      [PROJECT_DIR]
              Project whose journal is shown [default: the current one]

    Options:
          --run <RUN>
              Only the records of this run; `latest` is the one that began last

          --topic <TOPIC>
              Only records with this topic. Can be given more than once

          --format <FORMAT>
              How to print them

              Possible values:
              - json: The lines of the journal as they stand
              - text: A line each: time, run, iteration, topic and what there is to say
              
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
    Read the whole journal and name every line that is not a record.

    Each bad line is named with its number, its byte offset and what is wrong with it. Nothing is changed: a torn line harms nobody, and whatever follows it is read as usual. Exits with 0 only when every line is a record.

    Usage: autoloop journal verify [FILE]

    Arguments:
      [FILE]
              The journal [default: that of the current project]

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
    Print records as they come, from whichever process.

    First what is there, then everything that is added, until it is interrupted. The journal need not exist yet.

    Usage: autoloop journal follow [OPTIONS] [FILE]

    Arguments:
      [FILE]
              The journal [default: that of the current project]

    Options:
          --new
              Leave out what is there already

          --run <RUN>
              Only the records of this run

          --topic <TOPIC>
              Only records with this topic. Can be given more than once

          --format <FORMAT>
              How to print them

              Possible values:
              - json: The lines of the journal as they stand
              - text: A line each: time, run, iteration, topic and what there is to say
              
              [default: json]

      -h, --help
              Print help (see a summary with '-h')
    ");
}
