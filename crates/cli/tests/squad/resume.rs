//! Squads that were killed, interrupted or stopped at a limit, and two squads in one directory.

use std::collections::BTreeMap;
use std::process::Stdio;

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::{Reaped, until};
use insta::assert_snapshot;

use crate::scene::*;

const GROUPS: &[&[&str]] = &[&["a", "b"], &["c", "d"]];

fn started(sandbox: &Sandbox, words: &[&str]) -> Reaped {
    let mut command = sandbox.command();
    command.args(["squad", "--no-watch"]).args(words).stdout(Stdio::null()).stderr(Stdio::null());
    Reaped::start(command)
}

fn records(sandbox: &Sandbox) -> usize {
    std::fs::read_to_string(sandbox.journal_path()).map_or(0, |journal| journal.lines().count())
}

/// How often each agent run ended, by what it was for.
fn ended(sandbox: &Sandbox) -> BTreeMap<String, usize> {
    let about = rows(sandbox, "squad.turn", &["turn", "phase", "subject", "loop_id", "attempt"]);
    let about: BTreeMap<&str, &str> = about.iter().filter_map(|row| row.split_once(' ')).collect();
    let mut count = BTreeMap::new();
    for turn in rows(sandbox, "squad.turn.finish", &["turn"]) {
        *count.entry(about[&*turn].to_owned()).or_default() += 1;
    }
    count
}

#[test]
fn a_squad_killed_after_any_record_ends_like_an_undisturbed_one() {
    let review = "case $T$N in b1) answer false;; *) answer true;; esac";
    let agents = Agents { review, ..GOOD };
    let flags = ["--plan", "plan.toml", "--effort", "low"];
    let calm = project(agents, GROUPS, "");
    assert!(started(&calm, &flags).0.wait().unwrap().success());
    let all = records(&calm);
    let (runs, mut subjects_of_calm) = (ended(&calm), subjects(&calm));
    subjects_of_calm.sort();
    assert!(all > 40, "{all}");
    for wanted in 1..all {
        let sandbox = project(agents, GROUPS, "");
        let mut harness = started(&sandbox, &flags);
        until("its record", || {
            (records(&sandbox) >= wanted || harness.0.try_wait().unwrap().is_some()).then_some(())
        });
        harness.kill();
        let said = told(&sandbox, &["squad", "--resume", "--no-watch"]);
        let is_over = said.contains("completed: there is nothing to resume")
            || said.contains("the latest squad, '[RUN]', completed");
        assert!(said.starts_with("exit 0\n") || is_over, "after {wanted} records: {said}");
        assert_eq!(ended(&sandbox), runs, "after {wanted} records");
        let mut found = subjects(&sandbox);
        found.sort();
        assert_eq!(found, subjects_of_calm, "after {wanted} records");
        let mut merges = rows(&sandbox, "squad.merge", &["loop_id", "outcome"]);
        merges.sort();
        assert_eq!(merges, [1, 2, 3, 4].map(|id| format!("[RUN]-{id} merged")), "after {wanted}");
        assert_eq!(sandbox.survivors(), "", "after {wanted}");
    }
}

#[test]
fn a_squad_that_is_interrupted_is_resumed() {
    let build = "work; MARK=\"$AUTOLOOP_PROJECT_DIR/home/mark\"; mkdir -p \"${MARK%/*}\"
        if [ $T = a ] && [ ! -e \"$MARK\" ]; then touch \"$MARK\"; sleep 100; fi; complete";
    let sandbox = project(Agents { build, ..GOOD }, &[&["a", "b"]], "");
    let mark = sandbox.path("home/mark");
    let mut harness = started(&sandbox, &["--plan", "plan.toml", "--effort", "low"]);
    until("the builder", || mark.exists().then_some(()));
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&harness.0),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let status = harness.0.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(sandbox.fields("squad.finish", "outcome"), ["interrupted"]);
    assert_eq!(sandbox.survivors(), "");
    let said = told(&sandbox, &["squad", "--resume", "--no-watch"]);
    assert!(said.starts_with("exit 0\n"), "{said}");
    assert_eq!(files(&sandbox), ["a.txt", "b.txt"]);
}

#[test]
fn two_squads_in_one_directory_have_nothing_in_common() {
    let sandbox = project(GOOD, &[&["a", "b"]], "");
    completes(&sandbox, "--effort low");
    completes(&sandbox, "--effort low");
    let tasks = sql(&sandbox, "select id, count(*), count(distinct run_id) from tasks group by id");
    assert_eq!(tasks, "id\tcount(*)\tcount(distinct run_id)\na\t2\t2\nb\t2\t2");
    assert_eq!(sql(&sandbox, "select count(distinct id) from loops"), "count(distinct id)\n4");
    let first = sql(&sandbox, "select * from loop_reviews order by id");
    let done = sandbox.run(&["store", "rebuild"]);
    assert_eq!(done.code, Some(0), "{done}");
    assert_eq!(sql(&sandbox, "select * from loop_reviews order by id"), first);
}

#[test]
fn a_squad_at_its_limit_stops_and_continues_with_a_higher_one() {
    let build = "work; call record_cost '{\"costUsd\":0.6}'; complete";
    let sandbox = project(Agents { build, ..GOOD }, &[&["a"], &["b"], &["c"]], "");
    assert_snapshot!(squad(&sandbox, "--effort low --set limits.max_cost_usd=5"), @r"
    exit 1
    --- stdout
    squad [RUN]: stopped: 1 of 3 tasks merged
    --- stderr
    squad [RUN] begins: low effort, at most 4 loops at once
      3 tasks in 3 groups
      [RUN]-1  a: write a
      [RUN]-1  build
      [RUN]-1  review
      [RUN]-1  review: pass (unverified: no check ran)
      [RUN]-1  merged
      [RUN]-2  b: write b
      [RUN]-2  build
    autoloop: squad '[RUN]' stopped: the run took $4.20 of $5.00, and another turn may take $1.00 (limits.max_cost_usd)
      hint: 1 task merged; carry on with `autoloop squad --resume=[RUN] --budget 10`
    ");
    assert_eq!(rows(&sandbox, "squad.finish", &["outcome"]), ["max_cost"]);
    assert!(files(&sandbox).len() < 3);
    // With the same limit nothing more is started.
    let started = turns(&sandbox).len();
    let said = told(&sandbox, &["squad", "--resume", "--no-watch"]);
    assert!(said.starts_with("exit 1\n") && said.contains("limits.max_cost_usd"), "{said}");
    assert_eq!(turns(&sandbox).len(), started);
    let said = told(&sandbox, &["squad", "--resume", "--no-watch", "--budget", "1000"]);
    assert!(said.starts_with("exit 0\n"), "{said}");
    assert_eq!(files(&sandbox), ["a.txt", "b.txt", "c.txt"]);
    assert_eq!(count(&sandbox, "build"), 3);
}

#[test]
fn a_squad_beyond_its_limit_is_not_completed() {
    let judge = "call record_cost '{\"costUsd\":100}'; judge true";
    let sandbox = project(Agents { judge, ..GOOD }, &[&["a"]], "");
    let said = squad(&sandbox, "--effort low --budget 20");
    assert!(said.starts_with("exit 1\n") && said.contains("limits.max_cost_usd"), "{said}");
    let turns_so_far = turns(&sandbox).len();
    let said = told(&sandbox, &["squad", "--resume", "--no-watch", "--budget", "200"]);
    assert!(said.starts_with("exit 0\n"), "{said}");
    assert_eq!(turns(&sandbox).len(), turns_so_far);
}

#[test]
fn what_the_user_repaired_is_checked_again() {
    let build = "complete";
    let sandbox = project(Agents { build, revise: build, ..GOOD }, &[&["a"]], "");
    let repaired = sandbox.path("home/repaired");
    let settings = String::from_utf8(sandbox.read("autoloops.toml")).unwrap();
    let check = format!("checks.test.command = 'test -e \"{}\"'\n", repaired.display());
    sandbox.write("autoloops.toml", settings + &check);
    let said = squad(&sandbox, "--effort low");
    assert!(said.starts_with("exit 1\n"), "{said}");
    sandbox.write("home/repaired", "");
    let said = told(&sandbox, &["squad", "resolve", "a", "--no-watch", "--retry"]);
    assert!(said.starts_with("exit 0\n"), "{said}");
}
