//! Four processes of eight slots each race on one queue of forty items, and are killed at random.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use autoloop_runtime::world::World;
use autoloop_testkit::sandbox::{Reaped, until};
use autoloop_testkit::{Dice, Sandbox, simulate_at_once};

use autoloop_testkit::slots::{self, Agents, GOOD, PASS, git};

fn repository(agents: Agents<'_>, tasks: usize, settings: &str) -> Sandbox {
    slots::repository(env!("CARGO_BIN_EXE_autoloop"), agents, (tasks, settings))
}

const PROCESSES: usize = 4;
const SLOTS: usize = 8;
const ITEMS: usize = 40;
/// How often each process is killed.
const KILLS: usize = 5;

/// Does its work and leaves its worktree in one of several states: on its branch or detached, on a
/// new branch or on that of the project, with the work committed or not.
const WAYWARD: &str = "echo \"$AUTOLOOP_ITEM_ID\" > \"made-$AUTOLOOP_ITEM_ID\"
    kept() { git add -A && git -c user.name=a -c user.email=a@b commit -q \"$@\"; }
    case $((${AUTOLOOP_ITEM_ID#t-} % 6)) in
    1) kept -m one ;;
    2) kept -m one; kept --amend -m two ;;
    3) git checkout -q --detach; kept -m one ;;
    4) git symbolic-ref HEAD refs/heads/main ;;
    5) git checkout -q -B side-$AUTOLOOP_ITEM_ID; kept -m one ;;
    esac
    true";

/// Passes only what changes its own file and no other.
const CAREFUL: &str = "foreign=$(grep -c \"^+++ b/made-\" \"$AUTOLOOP_PROMPT_PATH\"); if [ \"$foreign\" = 1 ] && grep -q \"^+++ b/made-$AUTOLOOP_ITEM_ID\\$\" \"$AUTOLOOP_PROMPT_PATH\"; then";

/// Runs one process repeatedly until it ends by itself.
fn until_it_ends(sandbox: &Sandbox, name: usize, mut pauses: Vec<u64>) {
    let said = sandbox.path(format!("home/said-{name}"));
    let mut run = None;
    loop {
        let mut command = sandbox.command();
        match &run {
            None => command.args(["slots", "--review", "--parallel-agents", &SLOTS.to_string()]),
            Some(run) => command.args(["slots", &format!("--resume={run}")]),
        };
        command.stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap());
        let mut harness = Reaped::start(command);
        match pauses.pop() {
            Some(pause) => {
                World::real().clock.sleep(Duration::from_millis(pause));
                harness.kill();
            }
            None => drop(harness.0.wait()),
        }
        let text = fs::read_to_string(&said).unwrap();
        let mut words = text.lines().find_map(|line| Some(line.split_once("] slots ")?.1));
        run = run.or_else(|| Some(words.take()?.split(' ').next()?.to_owned()));
        let unfinished = run.as_ref().is_none_or(|run| !is_over(sandbox, run));
        if pauses.is_empty() && !unfinished {
            return;
        }
        if !unfinished {
            // This run has ended; the next start is a new run.
            run = None;
        }
    }
}

fn is_over(sandbox: &Sandbox, run: &str) -> bool {
    sandbox.fields("slot.run.finish", "run").iter().any(|over| over == run)
}

#[test]
fn every_item_is_implemented_and_passed_once() {
    let review = format!("{CAREFUL} {PASS}; else echo \"foreign changes\"; fi");
    let agents = Agents { implement: WAYWARD, review: &review, ..GOOD };
    simulate_at_once("slots_race", 1, |_, dice: &mut Dice| {
        let sandbox = repository(agents, ITEMS, "");
        fs::create_dir_all(sandbox.path("home")).unwrap();
        let pauses: Vec<Vec<u64>> =
            (0..PROCESSES).map(|_| (0..KILLS).map(|_| 30 + dice.below(1_200)).collect()).collect();
        std::thread::scope(|scope| {
            for (name, pauses) in pauses.into_iter().enumerate() {
                let sandbox = &sandbox;
                scope.spawn(move || until_it_ends(sandbox, name, pauses));
            }
        });
        until("the end of all agents", || sandbox.survivors().is_empty().then_some(()));
        judge(&sandbox);
    });
}

fn judge(sandbox: &Sandbox) {
    let outcomes: Vec<String> = slots::outcomes(sandbox);
    let not_passed: Vec<_> = outcomes
        .iter()
        .filter(|line| !line.contains(" passed: ") && !line.contains("no_item"))
        .collect();
    assert_eq!(not_passed, [""; 0]);
    let mut passed: BTreeMap<String, usize> = BTreeMap::new();
    for (item, outcome) in sandbox
        .fields("slot.finish", "item_id")
        .into_iter()
        .zip(sandbox.fields("slot.finish", "outcome"))
    {
        if outcome == "passed" {
            *passed.entry(item).or_default() += 1;
        }
    }
    assert_eq!(passed.len(), ITEMS, "every item passed");
    assert!(passed.values().all(|count| *count == 1), "each once: {passed:?}");
    let mut implemented = sandbox.fields("slot.implement", "item_id");
    implemented.sort();
    implemented.dedup();
    assert_eq!(
        implemented.len(),
        sandbox.fields("slot.implement", "item_id").len(),
        "implemented once"
    );
    assert_eq!(sandbox.run(&["tasks", "list"]).stdout.matches("t-").count(), 0);
    for commit in sandbox.fields("slot.merge", "commit") {
        git(sandbox, &["merge-base", "--is-ancestor", &commit, "HEAD"]);
    }
    for item in 1..=ITEMS {
        let made = git(sandbox, &["show", &format!("HEAD:made-t-{item}")]);
        assert_eq!(made, format!("t-{item}"));
    }
    assert_eq!(git(sandbox, &["status", "--porcelain"]), "");
    assert_eq!(git(sandbox, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(sandbox, &["branch", "--list", "autoloop/*"]), "");
}
