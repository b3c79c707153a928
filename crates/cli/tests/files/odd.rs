//! Paths that are not regular files: each path that is read × each kind of file that an agent can
//! create there. No command hangs, and none fills the memory.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use autoloop_runtime::world::World;
use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until};
use autoloop_testkit::slots::{self, Agents, GOOD};

/// Longer than any load can explain.
const PATIENCE: Duration = Duration::from_secs(60);
/// Kilobytes of address space: far more than the harness needs, far less than an endless file has.
const MEMORY: &str = "4000000";

/// What is found where a file should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Odd {
    Pipe,
    Endless,
    Socket,
    Directory,
    Sparse,
    Circle,
}

const ALL: [Odd; 6] =
    [Odd::Pipe, Odd::Endless, Odd::Socket, Odd::Directory, Odd::Sparse, Odd::Circle];

impl Odd {
    fn place(self, path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(path);
        match self {
            Odd::Pipe => {
                let made = Command::new("mkfifo").arg(path).status().unwrap();
                assert!(made.success());
            }
            Odd::Endless => symlink("/dev/zero", path).unwrap(),
            Odd::Socket => {
                // The address of a socket must be short; its file can be anywhere.
                let dir = tempfile::tempdir_in("/tmp").unwrap();
                drop(UnixListener::bind(dir.path().join("s")).unwrap());
                let moved = Command::new("mv").arg(dir.path().join("s")).arg(path).status();
                assert!(moved.unwrap().success());
            }
            Odd::Directory => fs::create_dir(path).unwrap(),
            Odd::Sparse => File::create(path).unwrap().set_len(10 << 30).unwrap(),
            Odd::Circle => symlink(path, path).unwrap(),
        }
    }
}

/// What a command does with an odd file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// It does its work.
    Ignored,
    /// It exits with a code of its own, and names the file.
    Refused,
    /// It ends.
    Over,
}

struct Case {
    /// Where the odd file is.
    path: &'static str,
    args: &'static [&'static str],
    expected: fn(Odd) -> Expected,
}

const fn case(
    path: &'static str,
    args: &'static [&'static str],
    expected: fn(Odd) -> Expected,
) -> Case {
    Case { path, args, expected }
}

const RUN: &[&str] = &["run", ".", "do it"];
const SLOTS: &[&str] = &["slots", "--review"];

fn ignored(_: Odd) -> Expected {
    Expected::Ignored
}

fn refused(_: Odd) -> Expected {
    Expected::Refused
}

fn over(_: Odd) -> Expected {
    Expected::Over
}

/// Only a directory cannot be replaced.
fn replaced(odd: Odd) -> Expected {
    if odd == Odd::Directory { Expected::Refused } else { Expected::Ignored }
}

const CASES: &[Case] = &[
    case("autoloops.toml", RUN, refused),
    case("autoloops.toml", &["emit", "note.made", "x"], ignored),
    case("topology.toml", RUN, refused),
    case("harness.md", RUN, refused),
    case("home/autoloop/config.toml", RUN, refused),
    case(".git", RUN, over),
    case(".git", SLOTS, over),
    case(".git", &["doctor"], over),
    case(".gitignore", &["init", "made"], ignored),
    case(".autoloop/.gitignore", RUN, ignored),
    case(".autoloop/shims/abc1", RUN, ignored),
    case(".autoloop/shims", RUN, over),
    case(".autoloop/autoloops", RUN, replaced),
    case(".autoloop/journal.jsonl", &["emit", "note.made", "x"], refused),
    case(".autoloop/journal.jsonl", &["loops"], refused),
    case(".autoloop/journal.jsonl", RUN, refused),
    case(".autoloop/journal.jsonl.idx/queue", &["tasks", "list"], ignored),
    case(".autoloop/memory.jsonl", RUN, over),
    case(".autoloop/memory.jsonl", &["memory", "list"], over),
    case("home/autoloop/presets/mine/README.md", &["presets"], ignored),
    case("home/autoloop/presets/mine/notes", &["run", "mine", "do it"], over),
    case("home/autoloop/presets/mine/autoloops.toml", &["run", "mine", "do it"], over),
    case("roles/build.md", RUN, refused),
    case("home/autoloop/overrides/mine.toml", &["run", "mine", "do it"], refused),
    case(".autoloop/runs/abc/lock", &["loops"], ignored),
    case(".autoloop/runs/abc/lock", &["doctor"], over),
    case("chains.toml", &["chain", "run", "one", ".", "do it"], refused),
    case(".ai_agents/prompts/reviewer.md", SLOTS, refused),
    case("verdict", &["slots", "verdict", "verdict"], refused),
    case("text", &["emit", "note.made", "--file", "text"], refused),
    case("text", &["tasks", "add", "a task", "--description-file", "text"], refused),
    case(
        "play",
        &["run", ".", "do it", "--set", "backend.kind=script", "--set", "backend.command=play"],
        over,
    ),
    case(
        "play",
        &["doctor", "--set", "backend.kind=script", "--set", "backend.command=play"],
        over,
    ),
];

fn project() -> Sandbox {
    let agents = Agents { implement: "echo x > made; $T emit task.complete; true", ..GOOD };
    let agent = format!(
        "[ -n \"$AUTOLOOP_SLOT_PHASE\" ] || {{ $T emit task.complete; exit 0; }}\n{}",
        agents.implement
    );
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), &agent, "");
    let role =
        "[[role]]\nid = 'build'\nemits = ['task.complete']\nprompt_file = 'roles/build.md'\n";
    sandbox.write("topology.toml", role).write("roles/build.md", "Build.");
    sandbox.write("home/autoloop/presets/mine/topology.toml", "");
    sandbox.write("home/autoloop/presets/mine/README.md", "# mine: a loop");
    sandbox
}

struct Ended {
    code: Option<i32>,
    said: String,
}

/// Runs a command in bounded time and memory.
fn run(sandbox: &Sandbox, args: &[&str]) -> Result<Ended, String> {
    let said = tempfile::NamedTempFile::new().unwrap();
    let mut command = sandbox.at_home("sh");
    command.args(["-c", "ulimit -v \"$1\"; shift; exec \"$@\"", "sh", MEMORY]);
    command.arg(sandbox.binary()).args(args);
    let told = said.reopen().unwrap();
    command.stdout(told.try_clone().unwrap()).stderr(told);
    let mut running = Reaped::start(command);
    let clock = World::real().clock;
    let begin = clock.elapsed();
    loop {
        if let Some(status) = running.0.try_wait().unwrap() {
            let said = sandbox.filter(&fs::read_to_string(said.path()).unwrap_or_default());
            return Ok(Ended { code: status.code(), said });
        }
        if clock.elapsed() - begin > PATIENCE {
            return Err(format!("it hangs: {}", fs::read_to_string(said.path()).unwrap()));
        }
        clock.sleep(Duration::from_millis(2));
    }
}

fn check(case: &Case, odd: Odd) -> Result<(), String> {
    let sandbox = project();
    odd.place(&sandbox.path(case.path));
    let Ended { code, said } = run(&sandbox, case.args)?;
    let name = Path::new(case.path).file_name().unwrap().to_str().unwrap();
    let is_right = match ((case.expected)(odd), code) {
        (Expected::Ignored, code) => code == Some(0),
        (Expected::Refused, code) => matches!(code, Some(1..=9)) && said.contains(name),
        (Expected::Over, code) => matches!(code, Some(0..=9)),
    };
    if is_right && !said.contains("panicked") {
        Ok(())
    } else {
        Err(format!("exit {code:?}: {said}"))
    }
}

fn check_all(cases: &[Case]) {
    let mut wrong = Vec::new();
    for case in cases {
        for odd in ALL {
            if let Err(why) = check(case, odd) {
                wrong.push(format!("{odd:?} as {} with {:?}: {why}", case.path, case.args));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn an_odd_file_in_the_first_half_of_all_places_stops_nothing_for_good() {
    check_all(&CASES[..CASES.len() / 2]);
}

#[test]
fn an_odd_file_in_the_second_half_of_all_places_stops_nothing_for_good() {
    check_all(&CASES[CASES.len() / 2..]);
}

/// The same placed by an agent, during a run.
fn made_by_an_agent(odd: Odd, path: &str) -> String {
    let make = match odd {
        Odd::Pipe => format!("mkfifo {path}"),
        Odd::Endless => format!("ln -s /dev/zero {path}"),
        Odd::Socket => format!(
            "python3 -c 'import socket,sys,os; d=os.path.dirname(sys.argv[1]); d and os.chdir(d); \
             socket.socket(socket.AF_UNIX).bind(os.path.basename(sys.argv[1]))' {path}"
        ),
        Odd::Directory => format!("mkdir {path}"),
        Odd::Sparse => format!("truncate -s 10G {path}"),
        Odd::Circle => format!("ln -s x {path}; ln -s {path} x"),
    };
    format!("rm -rf {path}; {make}")
}

#[test]
fn an_implementer_that_replaces_a_file_of_git_stops_no_run() {
    for odd in ALL {
        for path in [".git", "\"$G/HEAD\"", "\"$G/commondir\"", "\"$G/index\""] {
            let make = made_by_an_agent(odd, path);
            // Resolved before anything is odd, and only in the project of this test.
            let implement = format!(
                "echo x > made; G=$(git rev-parse --absolute-git-dir) || exit 1\n\
                 case \"$G\" in \"$AUTOLOOP_PROJECT_DIR\"/?*) ;; *) exit 1;; esac\n{make}"
            );
            let agents = Agents { implement: &implement, ..GOOD };
            let binary = env!("CARGO_BIN_EXE_autoloop");
            let sandbox = slots::repository(binary, agents, (2, "slots.parallelAgents = 2"));
            let ended = run(&sandbox, SLOTS);
            let Ended { code, said } = ended.unwrap_or_else(|why| panic!("{odd:?} {path}: {why}"));
            assert!(matches!(code, Some(0..=9)), "{odd:?} {path}: {code:?} {said}");
            assert!(!said.contains("panicked"), "{odd:?} {path}: {said}");
        }
    }
}

#[test]
fn an_agent_that_replaces_files_of_its_run_stops_no_run() {
    let places = [
        "\"${AUTOLOOP_STATE_DIR:?}/runs/${AUTOLOOP_RUN_ID:?}/scratch\"",
        "\"${AUTOLOOP_STATE_DIR:?}/runs/${AUTOLOOP_RUN_ID:?}/request\"",
        "\"${AUTOLOOP_STATE_DIR:?}/shims/abc1\"",
        "metareview.md",
        ".git",
    ];
    for odd in ALL {
        for path in places {
            let make = made_by_an_agent(odd, path);
            let agent = format!(
                "[ -n \"$AUTOLOOP_REVIEW_MODE\" ] && exit 0; [ $N = 1 ] && {{ {make}; echo; exit 0; }}; $T emit task.complete"
            );
            let settings = "review.enabled = true\nreview.every_iterations = 1";
            let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), &agent, settings);
            let ended = run(&sandbox, RUN);
            let Ended { code, said } = ended.unwrap_or_else(|why| panic!("{odd:?} {path}: {why}"));
            assert!(matches!(code, Some(0..=9)), "{odd:?} {path}: {code:?} {said}");
            assert!(!said.contains("panicked"), "{odd:?} {path}: {said}");
        }
    }
}

/// A run whose implementer makes git itself hang: the first request to stop ends the run, long
/// before git would.
#[test]
fn a_git_that_waits_for_a_pipe_keeps_no_run_from_stopping() {
    let implement = "echo x > made; rm -f .gitignore; mkfifo .gitignore; echo done";
    let agents = Agents { implement, ..GOOD };
    let binary = env!("CARGO_BIN_EXE_autoloop");
    let sandbox = slots::repository(binary, agents, (2, "slots.parallelAgents = 2"));
    let mut command = sandbox.command();
    command.args(SLOTS).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Reaped::start(command);
    until("git waits for the pipe", || {
        let waiting = fs::read_dir("/proc").unwrap().flatten().any(|process| {
            let text = |name| fs::read_to_string(process.path().join(name)).unwrap_or_default();
            let dir = sandbox.path(".autoloop").display().to_string();
            text("comm") == "git\n"
                && text("cmdline").contains(&dir)
                && text("wchan").contains("wait_for_partner")
        });
        (waiting || running.0.try_wait().unwrap().is_some()).then_some(())
    });
    assert!(running.0.try_wait().unwrap().is_none(), "it waits");
    let pid = running.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    until("the end of the run", || running.0.try_wait().unwrap());
}
