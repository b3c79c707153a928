//! Runs every example of the documentation.
//!
//! Every ```` ```console ```` block of the README and of `docs/` is run against the real binary.
//! The blocks of one page run from top to bottom in one temporary directory, which already has some
//! small projects ([`PROJECTS`], and `built` with a squad). `[..]` stands for text that changes from run to run, and `? 3`
//! for an exit code other than 0.
//!
//! `TRYCMD=overwrite cargo test -p autoloop --test docs` writes the current output into the pages;
//! read the diff before you commit it.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use autoloop_runtime::world::{Secret, World};
use autoloop_testkit::sandbox::write_program;
use autoloop_testkit::squads::{SquadWriter, sample};
use trycmd::TestCases;
use trycmd::schema::Bin;

/// A run of two iterations that completed.
const FINISHED: &str = r#"{"run": "swift-otter", "iteration": "", "topic": "loop.start", "fields": {"max_iterations": "10", "completion_promise": "", "completion_event": "task.complete", "review_every": "0", "objective": "write a parser"}, "ts": "2026-11-15T21:12:06.031Z", "v": 1}
{"run": "swift-otter", "iteration": "1", "topic": "iteration.start", "fields": {"recent_event": "loop.start", "suggested_roles": "planner", "allowed_events": "tasks.ready", "backpressure": "", "prompt": "Plan it."}, "ts": "2026-11-15T21:12:06.040Z", "v": 1}
{"run": "swift-otter", "iteration": "1", "topic": "backend.start", "fields": {"backend_kind": "command", "command": "claude", "prompt_mode": "arg", "timeout_ms": "1800000"}, "ts": "2026-11-15T21:12:06.040Z", "v": 1}
{"run": "swift-otter", "iteration": "1", "topic": "tasks.ready", "payload": "three slices", "source": "agent", "ts": "2026-11-15T21:12:19.418Z", "v": 1}
{"run": "swift-otter", "iteration": "1", "topic": "backend.finish", "fields": {"exit_code": "0", "timed_out": false, "output": "I planned\u000athree slices."}, "ts": "2026-11-15T21:12:20.102Z", "v": 1}
{"run": "swift-otter", "iteration": "1", "topic": "iteration.finish", "fields": {"exit_code": "0", "timed_out": false, "elapsed_s": 14, "output": "I planned\u000athree slices."}, "ts": "2026-11-15T21:12:20.102Z", "v": 1}
{"run": "swift-otter", "iteration": "2", "topic": "iteration.start", "fields": {"recent_event": "tasks.ready", "suggested_roles": "builder", "allowed_events": "task.complete", "backpressure": "", "prompt": "Build it."}, "ts": "2026-11-15T21:12:20.110Z", "v": 1}
{"run": "swift-otter", "iteration": "2", "topic": "backend.start", "fields": {"backend_kind": "command", "command": "claude", "prompt_mode": "arg", "timeout_ms": "1800000"}, "ts": "2026-11-15T21:12:20.110Z", "v": 1}
{"run": "swift-otter", "iteration": "2", "topic": "issue.discovered", "payload": "id=issue-1; summary=no test for empty input; disposition=open; owner=builder;", "source": "agent", "ts": "2026-11-15T21:13:02.500Z", "v": 1}
{"run": "swift-otter", "iteration": "2", "topic": "task.complete", "payload": "the parser parses", "source": "agent", "ts": "2026-11-15T21:14:31.007Z", "v": 1}
{"run": "swift-otter", "iteration": "2", "topic": "backend.finish", "fields": {"exit_code": "0", "timed_out": false, "output": "done"}, "ts": "2026-11-15T21:14:31.950Z", "v": 1}
{"run": "swift-otter", "iteration": "2", "topic": "iteration.finish", "fields": {"exit_code": "0", "timed_out": false, "elapsed_s": 131, "output": "done"}, "ts": "2026-11-15T21:14:31.950Z", "v": 1}
{"run": "swift-otter", "iteration": "2", "topic": "loop.complete", "fields": {"reason": "completion_event"}, "ts": "2026-11-15T21:14:31.951Z", "v": 1}
"#;

/// A damaged journal: a program without the lock wrote after a torn record, a line was edited by
/// hand, and the last writer was killed.
const DAMAGED: &str = r#"{"run": "calm-heron", "iteration": "1", "topic": "tasks.ready", "payload": "go", "source": "agent"}
{"run": "calm-heron", "iteration": "1", "topic": "iteration.fin{"run": "calm-heron", "iteration": "1", "topic": "build.done", "payload": "ok", "source": "agent"}
{"run": "calm-heron", "run": "loud-crow", "topic": "review.passed", "payload": ""}
notes to self
{"run": "calm-heron", "iteration": "2", "topic": "rev"#;

/// Invalid settings.
const MISTAKEN: &str = "[journal]\nsync = \"sometimes\"\n";

/// Roles with two mistakes in their handoffs.
const ROLES: &str = r#"name = "plan, build, review"

[[role]]
id = "planner"
emits = ["tasks.ready"]
prompt = "Plan."

[[role]]
id = "builder"
emits = ["review.ready", "build.blocked"]
prompt = "Build."

[[role]]
id = "critic"
emits = ["review.passed", "review.rejected", "task.complete"]
prompt = "Judge."

[handoff]
"loop.start" = ["planner"]
"tasks.ready" = ["builder"]
"review.ready" = ["critic"]
"review.rejected" = ["builder"]
"review.pased" = ["critic"]
'/build[.].*/' = ["planner"]
"#;

/// A run with a review that changed one file and tried to change another.
const REVIEWED: &str = r#"{"run": "calm-wren", "iteration": "", "topic": "loop.start", "fields": {"max_iterations": "2", "completion_promise": "", "completion_event": "task.complete", "review_every": "1", "objective": "write a parser"}, "ts": "2026-11-15T21:12:06.031Z", "v": 1}
{"run": "calm-wren", "iteration": "1", "topic": "iteration.start", "fields": {"recent_event": "loop.start", "suggested_roles": "", "allowed_events": "", "backpressure": "", "prompt": "Write it."}, "ts": "2026-11-15T21:12:06.040Z", "v": 1}
{"run": "calm-wren", "iteration": "1", "topic": "backend.start", "fields": {"backend_kind": "command", "command": "claude", "prompt_mode": "arg", "timeout_ms": "1800000"}, "ts": "2026-11-15T21:12:06.040Z", "v": 1}
{"run": "calm-wren", "iteration": "1", "topic": "backend.finish", "fields": {"exit_code": "0", "timed_out": false, "output": "I wrote a parser."}, "ts": "2026-11-15T21:13:06.031Z", "v": 1}
{"run": "calm-wren", "iteration": "1", "topic": "iteration.finish", "fields": {"exit_code": "0", "timed_out": false, "elapsed_s": 60, "output": "I wrote a parser."}, "ts": "2026-11-15T21:13:06.031Z", "v": 1}
{"run": "calm-wren", "iteration": "2", "topic": "review.start", "fields": {"kind": "metareview", "backend_kind": "command", "command": "claude", "prompt_mode": "arg", "prompt": "Look at it.", "timeout_ms": "300000", "enforcement": "snapshot, landlock abi 6"}, "ts": "2026-11-15T21:14:06.031Z", "v": 1}
{"run": "calm-wren", "iteration": "2", "topic": "review.violation", "fields": {"kind": "metareview", "path": "src/main.rs", "what": "modified", "outcome": "put back"}, "ts": "2026-11-15T21:15:06.031Z", "v": 1}
{"run": "calm-wren", "iteration": "2", "topic": "review.finish", "fields": {"kind": "metareview", "exit_code": "0", "timed_out": false, "output": "The builder forgets the tests, so I say it twice.\u000a", "diff": "--- a/harness.md\u000a+++ b/harness.md\u000a@@ -1,2 +1,3 @@\u000a Be careful.\u000a Test it.\u000a+Test it again.\u000a"}, "ts": "2026-11-15T21:15:06.040Z", "v": 1}
{"run": "calm-wren", "iteration": "2", "topic": "iteration.start", "fields": {"recent_event": "loop.start", "suggested_roles": "", "allowed_events": "", "backpressure": "", "prompt": "Write it."}, "ts": "2026-11-15T21:15:06.050Z", "v": 1}
{"run": "calm-wren", "iteration": "2", "topic": "backend.start", "fields": {"backend_kind": "command", "command": "claude", "prompt_mode": "arg", "timeout_ms": "1800000"}, "ts": "2026-11-15T21:15:06.050Z", "v": 1}
{"run": "calm-wren", "iteration": "2", "topic": "backend.finish", "fields": {"exit_code": "0", "timed_out": false, "output": "I tested it."}, "ts": "2026-11-15T21:16:06.030Z", "v": 1}
{"run": "calm-wren", "iteration": "2", "topic": "iteration.finish", "fields": {"exit_code": "0", "timed_out": false, "elapsed_s": 60, "output": "I tested it."}, "ts": "2026-11-15T21:16:06.030Z", "v": 1}
{"run": "calm-wren", "iteration": "2", "topic": "loop.stop", "fields": {"reason": "max_iterations", "completed_iterations": "2", "stopped_before_iteration": "3", "max_iterations": "2"}, "ts": "2026-11-15T21:16:06.031Z", "v": 1}
"#;

/// Two chains, and the agent of their loops.
const CHAINS: &str = r#"[[chain]]
name = "ship"
steps = ["draft", "polish"]

[[chain]]
name = "careful"
steps = ["ship", "polish"]
"#;
const CHAINED: &str =
    "backend.kind = \"script\"\nbackend.command = \"script.toml\"\nreview.enabled = false\n";
/// The project's own loop, whose agent asks for a chain.
const CHAINED_ROLES: &str = "[[role]]\nid = \"lead\"\nemits = [\"task.complete\"]\n";
const CHAINED_LOOP: &str = "event_loop.max_iterations = 3\nreview.enabled = false\n";
const CHAINED_SCRIPT: &str = r#"[[turn]]
role = "lead"
iteration = 1
do = [{ emit = "chain.spawn", payload = "steps=ship; justification=a poem for the first page;" }]

[[turn]]
do = [{ print = "four lines" }, { emit = "task.complete" }]
"#;
/// A chain that would never end.
const CIRCULAR: &str = "[[chain]]\nname = \"ship\"\nsteps = [\"draft\", \"ship\"]\n";

/// What a reviewer printed: a verdict, one with a brace before it, and the stream of a client.
const DRIFT: &str = "The parser is fine. The tests are not:\n\n{\"verdict\": \"drift\", \"followUpPrompt\": \"test an empty line\"}\n";
const BRACES: &str =
    "`fn f() { 1 }` is fine.\n{\"verdict\": \"pass\", \"followUpPrompt\": \"ok\"}\n";
const CLAUDE: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"{\"verdict\": \"pass\", \"followUpPrompt\": \"ok\"}"}
"#;

/// A project whose agent needs one review before it rejects an empty title.
const SHOP: &str = "backend.command = \"sh\"\nbackend.args = [\"agent.sh\"]\n";
const SHOP_AGENT: &str = r#"say() { echo "{\"verdict\": \"$1\", \"followUpPrompt\": \"$2\"}"; }
case "$AUTOLOOP_SLOT_PHASE $AUTOLOOP_ITEM_ID $AUTOLOOP_FIX_ATTEMPT" in
  "review t-1 0") say drift "refuse an empty title" ;;
  review*) say pass "no problems" ;;
  *) echo "done" ;;
esac
"#;

/// The project of the tutorial, which is the directory of the page itself.
const GREET: &str = "#!/bin/sh\necho \"Hello, $1!\"\n";
/// The agent of the tutorial: does what the event or the phase asks for.
const GREET_AGENT: &str = r#"#!/bin/sh
say() { "$AUTOLOOP_BIN" emit "$1" "$2" > /dev/null; }
result=done
case "$AUTOLOOP_SLOT_PHASE $AUTOLOOP_ALLOWED_ROLES" in
  *diagnoser*) say cause.found "greet.sh does not look whether a name was given" ;;
  *fixer*)
    printf '%s\n' '#!/bin/sh' '[ -n "$1" ] || { echo "usage: greet.sh NAME" >&2; exit 2; }' 'echo "Hello, $1!"' > greet.sh
    say fix.ready "greet.sh prints its usage when the name is missing" ;;
  *verifier*) say fix.verified "no name: usage and exit code 2; Ada: Hello, Ada!" ;;
  *closer*) say task.complete "greet.sh asks for a name" ;;
  review*) result='{\"verdict\": \"pass\", \"followUpPrompt\": \"test.sh fails when the greeting is wrong\"}' ;;
  *) echo 'test "$(sh greet.sh Ada)" = "Hello, Ada!"' > test.sh ;;
esac
printf '{"type":"result","subtype":"success","is_error":false,"result":"%s"}\n' "$result"
"#;

/// A project whose agents review and author by scripts.
const LETTERS: &str = "backend = { command = \"sh\", args = [\"author.sh\"] }\nslots.reviewer = { command = \"sh\", args = [\"reviewer.sh\"] }\n\n[checks.test]\ncommand = \"sh test.sh\"\n";
const LETTERS_REVIEWER: &str = r#"R=$AUTOLOOP_ITERATION
if [ "$R" = 1 ]; then status=open; else status=fixed; fi
cat <<END
I looked at it.

\`\`\`yaml
packet_id: 20260101_greet_reviewer_r$R
reviewer: reviewer
round: $R
created_at_utc: "2026-01-01T00:00:00Z"
findings:
  - id: F-001
    severity: P1
    blocking: true
    status: $status
    file: usage.txt
    description: "it does not say how to greet several people"
qa_validation:
  commands_run:
    - command: grep -q NAME usage.txt
      result: pass
\`\`\`
END
"#;
const LETTERS_AUTHOR: &str =
    "echo 'greet NAME...' > usage.txt\necho 'The usage names several people.'\n";

/// A project whose squad builds two tasks, of which one is revised.
const TEAM: &str = "backend = { command = \"sh\", args = [\"agent.sh\"] }\n\n[checks.test]\ncommand = \"sh test.sh\"\n";
const TEAM_PLAN: &str = r#"[[task]]
id = "t1"
title = "parse the header"
description = "parse.sh prints the title of a page"
[[task]]
id = "t2"
title = "print the title"
description = "print.sh prints it in capitals"
acceptance = "an empty title is refused"
[[group]]
tasks = ["t1", "t2"]
"#;
const TEAM_AGENT: &str = r#"call() { "$AUTOLOOP_BIN" mcp call "$@" > /dev/null; }
about="\"loopId\":\"$AUTOLOOP_LOOP_ID\""
case "$AUTOLOOP_PHASE $AUTOLOOP_TASK_ID" in
  "build t1") echo 'sed -n 1p' > parse.sh; call complete_task ;;
  "build t2") echo 'tr a-z A-Z' > print.sh; call complete_task ;;
  revise*) echo 'read -r title && [ "$title" ] && echo "$title" | tr a-z A-Z' > print.sh; call complete_task ;;
  "review t2")
    if grep -q read print.sh; then call set_loop_review_result "{$about, \"passed\": true}"
    else call set_loop_review_result "{$about, \"passed\": false, \"issues\": [
      {\"file\": \"print.sh\", \"line\": 1, \"description\": \"an empty title is printed\"}]}"; fi ;;
  "review t1") call set_loop_review_result "{$about, \"passed\": true}" ;;
  *) call set_review_result '{"passed": true}' ;;
esac
"#;

/// The files of some projects, which exist before the first block of a page.
const PROJECTS: [(&str, &str, &str); 29] = [
    (".", "greet.sh", GREET),
    ("again", "autoloops.toml", "review.enabled = false\n"),
    ("shop", "autoloops.toml", SHOP),
    ("shop", "agent.sh", SHOP_AGENT),
    ("reviewed", ".autoloop/journal.jsonl", REVIEWED),
    ("reviewed", "harness.md", "Be careful.\nTest it.\nTest it again.\n"),
    ("planned", "topology.toml", ROLES),
    ("finished", ".autoloop/journal.jsonl", FINISHED),
    ("damaged", ".autoloop/journal.jsonl", DAMAGED),
    ("mistaken", "autoloops.toml", MISTAKEN),
    ("chained", "chains.toml", CHAINS),
    ("chained", "autoloops.toml", CHAINED),
    ("chained", "topology.toml", CHAINED_ROLES),
    ("chained", "script.toml", CHAINED_SCRIPT),
    ("chained", "draft/autoloops.toml", CHAINED_LOOP),
    ("chained", "polish/autoloops.toml", CHAINED_LOOP),
    ("circular", "chains.toml", CIRCULAR),
    ("letters", "autoloops.toml", LETTERS),
    ("letters", "reviewer.sh", LETTERS_REVIEWER),
    ("letters", "author.sh", LETTERS_AUTHOR),
    ("letters", "test.sh", "test -s usage.txt\n"),
    ("letters", "usage.txt", "greet NAME\n"),
    ("team", "autoloops.toml", TEAM),
    ("team", "plan.toml", TEAM_PLAN),
    ("team", "agent.sh", TEAM_AGENT),
    ("team", "test.sh", "for file in *.sh; do sh -n \"$file\" || exit 1; done\n"),
    ("reviewer", "drift.txt", DRIFT),
    ("reviewer", "braces.txt", BRACES),
    ("reviewer", "claude.jsonl", CLAUDE),
];

/// The programs that a block may run besides `autoloop`. A line whose program is not installed is
/// skipped.
const PROGRAMS: [&str; 5] = ["cat", "git", "jq", "python3", "timeout"];

#[test]
fn every_console_block_runs_as_shown() {
    if run_again_without_variables() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let autoloop = Path::new(env!("CARGO_BIN_EXE_autoloop"));
    let cases = TestCases::new();
    cases.register_bin("autoloop", autoloop);
    for program in PROGRAMS {
        cases.register_bin(program, find(program).map_or(Bin::Ignore, Bin::Path));
    }
    // For programs that start `autoloop` themselves; and the agent of the tutorial.
    let agents = place.path().join("agents");
    write_program(agents.join("claude"), GREET_AGENT);
    let beside = autoloop.parent().map(Path::to_owned).into_iter().chain([agents]);
    let path = env::join_paths(beside.chain(search_path())).unwrap();
    cases.env("PATH", path.into_string().unwrap());
    // Shells complain about a language that is not installed.
    cases.env("LC_ALL", "C");
    // The settings of the user who runs the tests do not apply.
    let home = place.path().join("home").display().to_string();
    cases.env("HOME", &home).env("XDG_CONFIG_HOME", &home);
    for role in ["AUTHOR", "COMMITTER"] {
        cases
            .env(format!("GIT_{role}_NAME"), "Ada")
            .env(format!("GIT_{role}_EMAIL"), "ada@example.com");
    }
    cases.timeout(Duration::from_secs(600));
    for page in pages() {
        cases.case(set_stage(place.path(), &page));
    }
    cases.run();
}

/// A block with an unknown program would be skipped silently and test nothing.
#[test]
fn every_program_in_a_block_is_known() {
    for page in pages() {
        for command in commands(&fs::read_to_string(&page).unwrap()) {
            let program = command.split_whitespace().find(|word| !word.contains('='));
            let is_known = program.is_some_and(|it| it == "autoloop" || PROGRAMS.contains(&it));
            assert!(
                is_known,
                "{}: `{command}` cannot be tested; a block that is not to be run is ```sh",
                page.display()
            );
        }
    }
}

#[test]
fn the_pages_have_blocks_at_all() {
    let count = |page: &str| commands(&fs::read_to_string(root().join(page)).unwrap()).len();
    assert!(count("README.md") >= 4);
    assert!(count("docs/commands.md") >= 10);
}

#[test]
fn every_link_leads_to_a_file() {
    let others = ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "GLOSSARY.md"]
        .map(|it| root().join(it));
    for page in pages().into_iter().chain(others) {
        let text = fs::read_to_string(&page).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !target.contains("://") {
                let is_there = page.parent().unwrap().join(path).exists();
                assert!(is_there, "{} links to {target}, which is not there", page.display());
            }
        }
    }
}

/// The README names two commands, each on its own line, and CI runs both exactly as written.
#[test]
fn the_readme_and_the_gate_name_the_same_commands() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let gate = fs::read_to_string(root().join(".ci/run")).unwrap();
    for command in ["cargo run --release -- demo", "cargo test --workspace"] {
        assert!(readme.lines().any(|line| line == command), "README.md lacks `{command}`");
        let step = format!("run {command}");
        assert!(gate.lines().any(|line| line == step), ".ci/run lacks `{step}`");
    }
}

/// Variables of a loop that runs these tests would change the results. They cannot be removed from
/// a running process safely, so the test runs again in a process without them.
fn run_again_without_variables() -> bool {
    let is_ours = |name: &OsString| name.to_string_lossy().starts_with("AUTOLOOP_");
    let names: Vec<_> = env::vars_os().map(|(name, _)| name).filter(is_ours).collect();
    if names.is_empty() {
        return false;
    }
    let mut again = Command::new(env::current_exe().unwrap());
    again.args(["--exact", "every_console_block_runs_as_shown", "--nocapture"]);
    for name in names {
        again.env_remove(name);
    }
    assert!(again.status().unwrap().success(), "the blocks do not run as shown, see above");
    true
}

/// Copies a page to where it can run: beside it a directory to start from (`.in`), and one (`.out`)
/// whose presence makes every run work on a copy.
fn set_stage(place: &Path, page: &Path) -> PathBuf {
    let staged = place.join(page.file_name().unwrap());
    symlink(page, &staged).unwrap();
    fs::create_dir(staged.with_extension("out")).unwrap();
    for (project, file, content) in PROJECTS {
        let file = staged.with_extension("in").join(project).join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    let state_dir = staged.with_extension("in").join("built/.autoloop");
    fs::create_dir_all(&state_dir).unwrap();
    sample(&mut SquadWriter::new(&world(place), &state_dir.join("journal.jsonl"), "swift-otter"));
    staged
}

/// The world of the user of the pages, with their key.
fn world(place: &Path) -> World {
    let key = place.join("home/.local/state/autoloop/key");
    fs::create_dir_all(key.parent().unwrap()).unwrap();
    World { secret: Arc::new(Secret::in_file(Some(key))), ..World::real() }
}

/// The commands in the `console` blocks of a page.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut fence = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(info), None) => fence = Some(info == "console"),
            (Some(_), Some(_)) => fence = None,
            (None, Some(true)) => commands.extend(line.strip_prefix("$ ").map(str::to_owned)),
            (None, _) => {}
        }
    }
    commands
}

fn pages() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).unwrap();
    let mut pages: Vec<_> = docs.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(root().join("README.md"));
    pages
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn search_path() -> Vec<PathBuf> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect()
}

fn find(program: &str) -> Option<PathBuf> {
    search_path().into_iter().map(|dir| dir.join(program)).find(|path| path.is_file())
}
