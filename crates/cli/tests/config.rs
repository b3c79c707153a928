//! `autoloop config` through the binary: its output, its errors and its exit codes.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use autoloop_core::config::{Detail, Key, Preset, Settings, as_toml};
use insta::assert_snapshot;

/// A temporary home, with a repository and a loop in it.
struct Stage(tempfile::TempDir);

impl Stage {
    fn new(files: &[(&str, &str)]) -> Stage {
        let stage = Stage(tempfile::tempdir().unwrap());
        fs::create_dir_all(stage.path("repo/autofix")).unwrap();
        fs::create_dir_all(stage.path("repo/.git")).unwrap();
        for (name, text) in files {
            stage.write(name, text);
        }
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    /// `autoloop config`, in the directory of the loop.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_autoloop"));
        command.arg("config").args(args).env_clear();
        command.env("HOME", self.path("home")).current_dir(self.path("repo/autofix"));
        command
    }

    fn run(&self, args: &[&str]) -> String {
        self.told(self.command(args).output().unwrap())
    }

    fn told(&self, output: Output) -> String {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let mut told = format!("exit {}\n", output.status.code().unwrap());
        for (name, bytes) in [("stdout", output.stdout), ("stderr", output.stderr)] {
            if !bytes.is_empty() {
                told += &format!("--- {name}\n{}", text(bytes));
            }
        }
        // The directory may be reached through a link.
        let real = self.0.path().canonicalize().unwrap();
        let shown = |path: &Path| path.display().to_string();
        told.replace(&shown(self.0.path()), "ROOT").replace(&shown(&real), "ROOT")
    }

    /// The lines of `config show --explain` that are not defaults.
    fn explained(&self, command: &mut Command) -> String {
        let told = self.told(command.output().unwrap());
        let is_set = |line: &&str| !line.is_empty() && !line.ends_with("# default");
        let set = told.lines().filter(|line| is_set(line) && !line.starts_with('#'));
        set.collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn shows_every_setting() {
    assert_snapshot!(Stage::new(&[]).run(&["show"]), @r#"
    exit 0
    --- stdout
    event_loop.max_iterations = 3
    event_loop.stall_iterations = 3
    event_loop.completion_event = "task.complete"
    event_loop.completion_promise = "LOOP_COMPLETE"
    event_loop.required_events = []
    # event_loop.prompt is not set: event_loop.prompt_file is read
    # event_loop.prompt_file is not set: the command line has the objective

    limits.max_cost_usd = 0
    limits.max_tokens = 0
    limits.max_runtime = "0s"
    limits.iteration.max_cost_usd = 0
    limits.iteration.max_tokens = 0
    limits.iteration.max_runtime = "0s"
    limits.slot.max_cost_usd = 0
    limits.slot.max_tokens = 0
    limits.slot.max_runtime = "0s"
    limits.review.max_cost_usd = 0
    limits.review.max_tokens = 0
    limits.review.max_runtime = "0s"

    # backend.kind is not set: derived from the name of the command
    backend.command = "claude"
    backend.args = []
    # backend.model is not set: the client chooses
    backend.env = []
    # backend.prompt_mode is not set: stdin for a known client, else arg
    # backend.output is not set: derived from the kind
    backend.timeout_ms = 1800000
    backend.grace_ms = 5000
    backend.leftovers = "kill"
    backend.output_cap = 256000000
    backend.first_wait = "15s"
    backend.max_wait = "6h"

    review.enabled = true
    review.every_iterations = 0
    # review.kind is not set: as backend.kind
    # review.command is not set: as backend.command
    # review.args is not set: as backend.args
    # review.model is not set: as backend.model
    # review.env is not set: as backend.env
    # review.prompt_mode is not set: as backend.prompt_mode
    # review.output is not set: as backend.output
    review.timeout_ms = 300000
    # review.prompt is not set: review.prompt_file is read
    review.prompt_file = "metareview.md"
    review.sandbox = "auto"

    memory.prompt_budget_chars = 8000

    harness.instructions_file = "harness.md"

    parallel.enabled = false
    parallel.max_branches = 3
    parallel.branch_timeout_ms = 180000
    parallel.isolation = "shared"

    slots.reviewEnabled = false
    slots.reviewMaxFixAttempts = 5
    slots.reviewContractRepair = 0
    # slots.developerPromptPath is not set: looked up in .ai_agents/prompts, then in the user's settings, then built in
    # slots.reviewerPromptPath is not set: looked up in .ai_agents/prompts, then in the user's settings, then built in
    slots.parallelAgents = 1
    slots.iterations = 0
    slots.include_new = false
    slots.max_items = 0
    slots.source = "builtin"
    # slots.isolation is not set: a worktree for each of several slots, the project for one
    slots.commit = true
    slots.stopMarker = "no_beads_available"
    # slots.reviewer.kind is not set: as backend.kind
    # slots.reviewer.command is not set: as backend.command
    # slots.reviewer.args is not set: as backend.args
    # slots.reviewer.model is not set: as backend.model
    # slots.reviewer.env is not set: as backend.env
    # slots.reviewer.prompt_mode is not set: as backend.prompt_mode
    # slots.reviewer.output is not set: as backend.output
    # slots.reviewer.timeout_ms is not set: as backend.timeout_ms
    # slots.reviewer.grace_ms is not set: as backend.grace_ms
    # slots.reviewer.leftovers is not set: as backend.leftovers
    # slots.reviewer.output_cap is not set: as backend.output_cap
    slots.beads.command = "bd"

    exchange.max_rounds = 2

    squad.effort = "medium"
    squad.max_loops = 4
    squad.max_iterations = 20
    # squad.builder.kind is not set: as backend.kind
    # squad.builder.command is not set: as backend.command
    # squad.builder.args is not set: as backend.args
    # squad.builder.model is not set: as backend.model
    # squad.builder.env is not set: as backend.env
    # squad.builder.prompt_mode is not set: as backend.prompt_mode
    # squad.builder.output is not set: as backend.output
    # squad.builder.timeout_ms is not set: as backend.timeout_ms
    # squad.builder.grace_ms is not set: as backend.grace_ms
    # squad.builder.leftovers is not set: as backend.leftovers
    # squad.builder.output_cap is not set: as backend.output_cap
    # squad.reviewer.kind is not set: as backend.kind
    # squad.reviewer.command is not set: as backend.command
    # squad.reviewer.args is not set: as backend.args
    # squad.reviewer.model is not set: as backend.model
    # squad.reviewer.env is not set: as backend.env
    # squad.reviewer.prompt_mode is not set: as backend.prompt_mode
    # squad.reviewer.output is not set: as backend.output
    # squad.reviewer.timeout_ms is not set: as backend.timeout_ms
    # squad.reviewer.grace_ms is not set: as backend.grace_ms
    # squad.reviewer.leftovers is not set: as backend.leftovers
    # squad.reviewer.output_cap is not set: as backend.output_cap
    # squad.planner.kind is not set: as backend.kind
    # squad.planner.command is not set: as backend.command
    # squad.planner.args is not set: as backend.args
    # squad.planner.model is not set: as backend.model
    # squad.planner.env is not set: as backend.env
    # squad.planner.prompt_mode is not set: as backend.prompt_mode
    # squad.planner.output is not set: as backend.output
    # squad.planner.timeout_ms is not set: as backend.timeout_ms
    # squad.planner.grace_ms is not set: as backend.grace_ms
    # squad.planner.leftovers is not set: as backend.leftovers
    # squad.planner.output_cap is not set: as backend.output_cap

    core.state_dir = ".autoloop"
    # core.journal_file is not set: journal.jsonl in core.state_dir
    # core.memory_file is not set: memory.jsonl in core.state_dir
    core.run_id_format = "human"
    core.log_level = "info"

    journal.sync = "always"
    journal.lock_timeout = "30s"
    "#);
}

#[test]
fn explains_where_each_value_came_from() {
    let stage = Stage::new(&[
        (
            "home/.config/autoloop/config.toml",
            "backend.command = \"pi\"\ncore.log_level = \"debug\"\n",
        ),
        ("repo/autofix/autoloops.toml", "[event_loop]\nmax_iterations = 9\nprompt = \"fix it\"\n"),
        ("repo/autofix/topology.toml", "completion = \"bug.closed\"\n"),
        ("home/.config/autoloop/overrides/autofix.toml", "\nreview.every_iterations = 2\n"),
        ("home/.config/autoloop/overrides/autodoc.toml", "review.every_iterations = 99\n"),
        ("repo/.autoloop/overrides/autofix.toml", "review.timeout_ms = \"90s\"\n"),
    ]);
    let args = ["show", "--explain", "--set", "journal.sync=never"];
    let mut command = stage.command(&args);
    command.env("AUTOLOOP_SET", "memory.prompt_budget_chars=0;");
    assert_snapshot!(stage.explained(&mut command), @r#"
    exit 0
    --- stdout
    event_loop.max_iterations = 9                    # project: autoloops.toml, line 2
    event_loop.completion_event = "bug.closed"       # topology: topology.toml
    event_loop.prompt = "fix it"                     # project: autoloops.toml, line 3
    backend.command = "pi"                           # user: ROOT/home/.config/autoloop/config.toml, line 1
    review.every_iterations = 2                      # user override: ROOT/home/.config/autoloop/overrides/autofix.toml, line 2
    review.timeout_ms = 90000                        # repo override: ROOT/repo/.autoloop/overrides/autofix.toml, line 1
    memory.prompt_budget_chars = 0                   # environment: AUTOLOOP_SET
    core.log_level = "debug"                         # user: ROOT/home/.config/autoloop/config.toml, line 2
    journal.sync = "never"                           # flag: --set
    "#);
    let mut other = stage.command(&["show", "--explain", "--preset", "autodoc"]);
    other.env("XDG_CONFIG_HOME", stage.path("home/.config"));
    assert_snapshot!(stage.explained(&mut other), @r#"
    exit 0
    --- stdout
    event_loop.max_iterations = 9                    # project: autoloops.toml, line 2
    event_loop.completion_event = "bug.closed"       # topology: topology.toml
    event_loop.prompt = "fix it"                     # project: autoloops.toml, line 3
    backend.command = "pi"                           # user: ROOT/home/.config/autoloop/config.toml, line 1
    review.every_iterations = 99                     # user override: ROOT/home/.config/autoloop/overrides/autodoc.toml, line 1
    core.log_level = "debug"                         # user: ROOT/home/.config/autoloop/config.toml, line 2
    "#);
}

#[test]
fn the_output_is_a_valid_settings_file() {
    let stage = Stage::new(&[(
        "repo/autofix/autoloops.toml",
        "backend.args = [\"a,b\", \"\\u001b\"]\nevent_loop.prompt = \"one\\ntwo\"",
    )]);
    let first = stage.command(&["show"]).output().unwrap().stdout;
    stage.write("repo/autofix/autoloops.toml", std::str::from_utf8(&first).unwrap());
    let second = stage.command(&["show"]).output().unwrap();
    assert_eq!((second.stdout, second.stderr), (first, vec![]));
}

#[test]
fn prints_json() {
    let stage = Stage::new(&[("repo/autofix/autoloops.toml", "backend.args = [\"a,b\"]")]);
    let json = |args: &[&str]| -> serde_json::Value {
        let output = stage.command(args).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let plain = json(&["show", "--json"]);
    assert_eq!(plain["backend.args"], serde_json::json!(["a,b"]));
    assert_eq!(plain["review.command"], serde_json::Value::Null);
    let explained = json(&["show", "--json", "--explain"]);
    assert_snapshot!(explained["backend.args"], @r#"{"value":["a,b"],"layer":"project","from":"autoloops.toml","line":1,"column":16}"#);
    assert_snapshot!(explained["review.timeout_ms"], @r#"{"value":300000,"layer":"default"}"#);
    assert_eq!(plain.as_object().unwrap().len(), explained.as_object().unwrap().len());
}

#[test]
fn warnings_are_printed_and_the_settings_shown() {
    let stage = Stage::new(&[
        ("repo/autofix/autoloops.toml", "[event_loop]\nmax_iteration = 9\n"),
        ("repo/autofix/harness.md", "see {{STATEDIR}}\n"),
    ]);
    let output = stage.command(&["show"]).output().unwrap();
    assert!(!output.stdout.is_empty());
    assert_snapshot!(stage.told(Output { stdout: vec![], ..output }), @"
    exit 0
    --- stderr
    warning: unknown key event_loop.max_iteration
     --> autoloops.toml:2:1
      |
    2 | max_iteration = 9
      | ^^^^^^^^^^^^^ did you mean event_loop.max_iterations?

    warning: unknown placeholder STATEDIR
     --> harness.md:1:5
      |
    1 | see {{STATEDIR}}
      |     ^^^^^^^^^^^^ left as it is
      |
      = help: the placeholders are STATE_DIR, TOOL_PATH and PRESET_DIR
    ");
}

#[test]
fn mistakes_are_underlined_and_nothing_is_shown() {
    let stage = Stage::new(&[(
        "repo/autofix/autoloops.toml",
        "[backend]\ncommnad = \"pi\"\ntimeout_ms = -5\n[review]\nenabled = \"maybe\"\n",
    )]);
    assert_snapshot!(stage.run(&["show"]), @r#"
    exit 2
    --- stderr
    warning: unknown key backend.commnad
     --> autoloops.toml:2:1
      |
    2 | commnad = "pi"
      | ^^^^^^^ did you mean backend.command?

    error: backend.timeout_ms is -5
     --> autoloops.toml:3:14
      |
    3 | timeout_ms = -5
      |              ^^ expected a whole number of milliseconds, at least 1, or a duration like "90s" or "1.5h"

    error: review.enabled is "maybe"
     --> autoloops.toml:5:11
      |
    5 | enabled = "maybe"
      |           ^^^^^^^ expected true or false

    autoloop: the settings cannot be used because of these 2 errors
    "#);
    stage.write("repo/autofix/autoloops.toml", "[backend\n");
    assert_snapshot!(stage.run(&["show"]), @"
    exit 2
    --- stderr
    error: invalid TOML: unclosed table, expected `]`
     --> autoloops.toml:1:9
      |
    1 | [backend
      |         ^

    autoloop: the settings cannot be used because of this error
    ");
    stage.write("repo/autofix/autoloops.toml", "");
    assert_snapshot!(stage.run(&["show", "--set", "event_loop.max_iterations=abc"]), @r#"
    exit 2
    --- stderr
    error: event_loop.max_iterations is "abc"
     --> --set:1:27
      |
    1 | event_loop.max_iterations=abc
      |                           ^^^ expected a whole number from 1 to 1000000

    autoloop: the settings cannot be used because of this error
    "#);
    assert_snapshot!(stage.run(&["show", "--set", "nonsense"]), @"
    exit 2
    --- stderr
    error: invalid setting
     --> --set:1:1
      |
    1 | nonsense
      | ^^^^^^^^ expected key=value

    autoloop: the settings cannot be used because of this error
    ");
    stage.write(
        "repo/autofix/topology.toml",
        "[[role]]\nid = \"fixer\"\nprompt_file = \"roles/fixer.md\"\n",
    );
    assert_snapshot!(stage.run(&["show"]), @r#"
    exit 2
    --- stderr
    error: prompt_file of role 'fixer' is 'roles/fixer.md'
     --> topology.toml:3:15
      |
    3 | prompt_file = "roles/fixer.md"
      |               ^^^^^^^^^^^^^^^^ there is no roles/fixer.md

    autoloop: the settings cannot be used because of this error
    "#);
    stage.write(
        "repo/autofix/topology.toml",
        "[[role]]\nid = \"fixer\"\nbackend_kind = \"comand\"\n",
    );
    assert_snapshot!(stage.run(&["show"]), @r#"
    exit 2
    --- stderr
    error: backend_kind of role 'fixer' is "comand"
     --> topology.toml:3:16
      |
    3 | backend_kind = "comand"
      |                ^^^^^^^^ expected "command", "claude", "codex", "gemini", "opencode", "pi", "acp", "script" or "replay"
      |
      = help: write "command"

    autoloop: the settings cannot be used because of this error
    "#);
    stage.write("repo/autofix/topology.toml", "[handoff]\n\"x\" = \"tester\"\n");
    assert_snapshot!(stage.run(&["show"]), @r#"
    exit 2
    --- stderr
    error: unknown role 'tester': no role is defined
     --> topology.toml:2:7
      |
    2 | "x" = "tester"
      |       ^^^^^^^^

    autoloop: the settings cannot be used because of this error
    "#);
}

#[test]
fn unreadable_files_are_reported() {
    let stage = Stage::new(&[("repo/autofix/autoloops.toml/x", "")]);
    assert_snapshot!(stage.run(&["show"]), @"
    exit 2
    --- stderr
    autoloop: cannot read autoloops.toml: it is not a regular file
    ");
    assert_snapshot!(stage.run(&["show", "nowhere"]), @"
    exit 2
    --- stderr
    autoloop: no such directory: nowhere
      hint: name the directory that contains autoloops.toml
    ");
    assert_snapshot!(stage.run(&["show", "--preset", "../x"]), @"
    exit 2
    --- stderr
    autoloop: invalid preset name '../x': it must be usable in the path of a file
    ");
    let mut named = stage.command(&["show", ".."]);
    assert_snapshot!(stage.told(named.env("AUTOLOOP_CONFIG", "mine.toml").output().unwrap()), @"
    exit 2
    --- stderr
    autoloop: AUTOLOOP_CONFIG names a missing file: mine.toml
      hint: write the file, or remove its name
    ");
    use std::os::unix::ffi::OsStrExt;
    let mut bytes = stage.command(&["show", ".."]);
    bytes.env("AUTOLOOP_SET", std::ffi::OsStr::from_bytes(b"\xff"));
    assert_snapshot!(stage.told(bytes.output().unwrap()), @"
    exit 2
    --- stderr
    autoloop: AUTOLOOP_SET is not valid UTF-8 (it reads '�')
      hint: set it to plain text, or unset it
    ");
}

#[test]
fn no_escape_sequence_reaches_the_terminal() {
    let stage = Stage::new(&[(
        "repo/autofix/autoloops.toml",
        "# \u{9b}31m\n\"zz\u{9b}31m\" = 1 # \u{85}\nbackend.args = [\"\\u001b[2J\", \"\u{9b}\"]\n",
    )]);
    let output = stage.command(&["show", "--explain"]).output().unwrap();
    for bytes in [output.stdout, output.stderr] {
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.is_empty());
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
}

#[test]
fn names_the_files() {
    let stage = Stage::new(&[
        ("home/.config/autoloop/config.toml", ""),
        ("repo/autofix/autoloops.conf", ""),
    ]);
    assert_snapshot!(stage.run(&["path"]), @"
    exit 0
    --- stdout
    user           ROOT/home/.config/autoloop/config.toml
    project        autoloops.conf
    user override  ROOT/home/.config/autoloop/overrides/autofix.toml  (missing)
    repo override  ROOT/repo/.autoloop/overrides/autofix.toml  (missing)
    ");
    let mut outside = stage.command(&["path", "."]);
    outside.current_dir(stage.path("home")).env("AUTOLOOP_CONFIG", "/dev/null");
    assert_snapshot!(stage.told(outside.output().unwrap()), @"
    exit 0
    --- stdout
    project  autoloops.toml  (missing)
    ");
}

#[test]
fn the_project_is_that_of_the_environment() {
    let stage = Stage::new(&[("elsewhere/autoloops.toml", "event_loop.max_iterations = 77")]);
    let mut command = stage.command(&["show", "--explain"]);
    command.env("AUTOLOOP_PROJECT_DIR", stage.path("elsewhere"));
    assert_snapshot!(stage.explained(&mut command), @"
    exit 0
    --- stdout
    event_loop.max_iterations = 77                   # project: ROOT/elsewhere/autoloops.toml, line 1
    ");
}

#[test]
fn the_help_is_written_for_people() {
    let stage = Stage::new(&[]);
    assert_snapshot!(stage.run(&["--help"]), @"
    exit 0
    --- stdout
    Show the settings of a loop.

    Settings come in layers, and later ones take precedence: the defaults, your own settings, the project's autoloops.toml, your overrides for the preset, the repository's overrides for it, the variable AUTOLOOP_SET, and the command line.

    Usage: autoloop config <COMMAND>

    Commands:
      show  Print all settings with their values
      path  Print the files that settings are read from
      help  Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')
    ");
    assert_snapshot!(stage.run(&["show", "--help"]), @"
    exit 0
    --- stdout
    Print all settings with their values.

    The output is a settings file with the same meaning. Unknown keys and other problems are reported on standard error; where the settings cannot be used, nothing else is printed.

    Usage: autoloop config show [OPTIONS] [DIR]

    Arguments:
      [DIR]
              Project directory [default: the current project]

    Options:
      -p, --preset <NAME>
              Name of the preset in override files [default: the name of DIR]

          --explain
              Print the layer and the line of each value

          --json
              Print JSON, with null for settings that are not set

          --set <KEY=VALUE>
              Set any setting; may be repeated

      -h, --help
              Print help (see a summary with '-h')
    ");
    assert_snapshot!(stage.run(&["path", "--help"]), @"
    exit 0
    --- stdout
    Print the files that settings are read from.

    Prints one per line, in the order of the layers; missing files are marked. Later files take precedence.

    Usage: autoloop config path [OPTIONS] [DIR]

    Arguments:
      [DIR]
              Project directory [default: the current project]

    Options:
      -p, --preset <NAME>
              Name of the preset in override files [default: the name of DIR]

      -h, --help
              Print help (see a summary with '-h')
    ");
}

/// The tables in `docs/configuration.md` have the rows of the table that the program uses.
#[test]
fn the_page_about_settings_tells_the_truth() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = fs::read_to_string(page).unwrap();
    let defaults = as_toml(&Settings::default(), Detail::Value);
    let missing: Vec<String> = Key::ALL
        .iter()
        .map(|key| {
            let default = match key.preset() {
                Preset::Value(_) => {
                    let prefix = format!("{key} = ");
                    let value = defaults.lines().find_map(|line| line.strip_prefix(&prefix));
                    format!("`{}`", value.unwrap())
                }
                Preset::Like(other) => format!("as `{other}`"),
                Preset::Nothing(then) => format!("not set: {then}"),
            };
            format!("| `{key}` | {default} | {} |", key.about())
        })
        .filter(|row| !page.lines().any(|line| line == row))
        .collect();
    assert!(missing.is_empty(), "docs/configuration.md lacks:\n{}", missing.join("\n"));
}

#[cfg(target_os = "linux")]
mod reads {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use autoloop_testkit::Sandbox;
    use rustix::fs::inotify::{self, ReadFlags, WatchFlags};

    /// Counts how often a file is opened before its mode is changed.
    struct Opened(OwnedFd);

    impl Opened {
        fn watch(path: &Path) -> Opened {
            let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
            // The kernel joins equal events that follow each other, so the end of each reading is watched too.
            let flags = WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE | WatchFlags::ATTRIB;
            inotify::add_watch(&watch, path, flags).unwrap();
            Opened(watch)
        }

        fn count(self) -> usize {
            let mut buffer = [MaybeUninit::uninit(); 64 * 1024];
            let mut events = inotify::Reader::new(self.0, &mut buffer);
            let kinds = std::iter::from_fn(|| Some(events.next().ok()?.events()));
            let kinds: Vec<ReadFlags> = kinds.collect();
            let agent = kinds.iter().position(|kind| kind.contains(ReadFlags::ATTRIB)).unwrap();
            kinds[..agent].iter().filter(|kind| kind.contains(ReadFlags::OPEN)).count()
        }
    }

    /// The agent of the first iteration marks where the start ends. The watched file is outside of the
    /// project, because a chain lists the project's files and hashes those that changed just before.
    #[test]
    fn settings_are_read_once_per_start() {
        let user = tempfile::tempdir().unwrap();
        let settings = user.path().join("config.toml");
        std::fs::write(&settings, "[backend]\ncommand = 'sh'\nargs = ['agent.sh']\n").unwrap();
        let sandbox =
            Sandbox::new(env!("CARGO_BIN_EXE_autoloop")).env("AUTOLOOP_CONFIG", &settings);
        sandbox.write("autoloops.toml", "[event_loop]\nmax_iterations = 1\n");
        sandbox.write("agent.sh", format!("chmod 600 '{}'; exit 1\n", settings.display()));
        assert_eq!(sandbox.run(&["tasks", "add", "one"]).code, Some(0));
        for (line, starts) in [
            ("run .", 1),
            ("run --resume", 1),
            ("run autofix work", 1),
            ("run --resume", 1),
            // The chain, and the run of its first step.
            ("run --chain autofix,autofix work", 2),
            ("chain run --resume", 2),
            ("slots --no-review --iterations 1", 1),
            ("slots --resume --iterations 2", 1),
        ] {
            let opened = Opened::watch(&settings);
            let output = sandbox.run(&line.split(' ').collect::<Vec<_>>());
            assert_eq!(output.code, Some(1), "{line}: {output}");
            assert_eq!(opened.count(), starts, "{line}");
        }
    }
}
