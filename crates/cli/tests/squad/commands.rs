//! The command line of squads: what is refused, and how.

use insta::assert_snapshot;

use crate::scene::*;

#[test]
fn a_plan_that_cannot_be_used_is_refused_with_the_reason() {
    let sandbox = project(GOOD, &[&["a"]], "");
    let plans = [
        "[[task]]\nid = 'a'\ntitle = 'a'\nafter = ['b']\n[[task]]\nid = 'b'\ntitle = 'b'\nafter = ['a']\n[[group]]\ntasks = ['a', 'b']\n",
        "[[task]]\nid = 'a'\ntitle = 'a'\n[[group]]\ntasks = ['a', 'x']\n",
        "[[task]]\nid = 'a'\ntitle = 'a'\n[[task]]\nid = 'b'\ntitle = 'b'\n[[group]]\ntasks = ['a']\n",
        "[[task]]\nid = 'a'\n",
        "task = [",
    ];
    let said = plans.map(|plan| {
        sandbox.write("plan.toml", plan);
        squad(&sandbox, "")
    });
    assert_snapshot!(said.join("\n"), @r"
    exit 2
    --- stderr
    error: the tasks depend on each other in a cycle: a after b after a
     --> plan.toml:8:10
      |
    8 | after = ['a']
      |          ^^^

    autoloop: the plan plan.toml cannot be built
    exit 2
    --- stderr
    error: unknown task 'x': no [[task]] has this id; did you mean 'a'?
     --> plan.toml:5:15
      |
    5 | tasks = ['a', 'x']
      |               ^^^

    autoloop: the plan plan.toml cannot be built
    exit 2
    --- stderr
    error: no group has task 'b'
     --> plan.toml:5:6
      |
    5 | id = 'b'
      |      ^^^

    autoloop: the plan plan.toml cannot be built
    exit 2
    --- stderr
    error: missing field `title`, in `task`
     --> plan.toml:1:1
      |
    1 | [[task]]
      | ^^^^^^^^

    autoloop: the plan plan.toml cannot be built
    exit 2
    --- stderr
    error: invalid TOML: unclosed array, expected `]`
     --> plan.toml:1:9
      |
    1 | task = [
      |         ^

    autoloop: the plan plan.toml cannot be built
    ");
    assert_eq!(sandbox.journal(), "");
}

#[test]
fn a_command_line_that_cannot_be_meant_is_refused() {
    let sandbox = project(GOOD, &[&["a"]], "");
    let said = [
        &["squad"][..],
        &["squad", "spec.md"],
        &["squad", "."],
        &["squad", " ", "--no-watch"],
        &["squad", "--plan", "nothing.toml"],
        &["squad", "build it", "--effort", "huge"],
        &["squad", "build it", "--max-loops", "0"],
        &["squad", "--plan", "plan.toml", "--reviewer", "no-such-agent"],
        &["squad", "--resume"],
        &["squad", "--resume=nobody"],
        &["squad", "clean", "--run", "nobody"],
    ]
    .map(|words| format!("$ {}\n{}", words.join(" "), told(&sandbox, words)));
    assert_snapshot!(said.join("\n"), @r"
    $ squad
    exit 2
    --- stderr
    autoloop: no specification: nothing says what to build
      hint: name a file or a text: `autoloop squad spec.md`, or a plan: `--plan plan.toml`
    $ squad spec.md
    exit 2
    --- stderr
    autoloop: no such file: spec.md
      hint: a specification that is not a file needs at least two words
    $ squad .
    exit 2
    --- stderr
    autoloop: the specification is a directory: .
      hint: name a file or a text before the directory of the project
    $ squad   --no-watch
    exit 2
    --- stderr
    autoloop: the specification is empty: ' '
    $ squad --plan nothing.toml
    exit 2
    --- stderr
    autoloop: --plan: no such file: nothing.toml
    $ squad build it --effort huge
    exit 2
    --- stderr
    error: invalid value 'huge' for '--effort <LEVEL>'
      [possible values: low, medium, high, max]

    For more information, try '--help'.
    $ squad build it --max-loops 0
    exit 2
    --- stderr
    error: invalid value '0' for '--max-loops <N>': 0 is not in 1..=1000

    For more information, try '--help'.
    $ squad --plan plan.toml --reviewer no-such-agent
    exit 1
    --- stderr
    autoloop: cannot start 'no-such-agent': not found in PATH; squad.reviewer.command (flag: --set) names it
      hint: install it, put its directory on PATH, make it executable, or name another agent
    $ squad --resume
    exit 1
    --- stderr
    autoloop: no squad to resume in [DIR]/.autoloop/journal.jsonl: no squad was started there
      hint: start a new squad with `autoloop squad SPEC`
    $ squad --resume=nobody
    exit 1
    --- stderr
    autoloop: no run 'nobody' in [DIR]/.autoloop/journal.jsonl
      hint: list all runs with `autoloop loops --all`
      hint: start a new squad with `autoloop squad SPEC`
    $ squad clean --run nobody
    exit 1
    --- stderr
    autoloop: no squad 'nobody'
      hint: list all runs with `autoloop loops --all`
    ");
    assert_eq!(sandbox.journal(), "");
}

#[test]
fn a_squad_needs_a_repository() {
    let sandbox = project(GOOD, &[&["a"]], "");
    std::fs::remove_dir_all(sandbox.path(".git")).unwrap();
    assert_snapshot!(squad(&sandbox, ""), @r"
    exit 2
    --- stderr
    autoloop: [DIR] is not in a git repository; run `git init` there and commit the files
    ");
}

#[test]
fn each_part_has_its_own_agent() {
    let sandbox = project(Agents { review: "exit 1", judge: "exit 1", ..GOOD }, &[&["a"]], "");
    let answer = "case $AUTOLOOP_LOOP_ID in '') \"$AUTOLOOP_BIN\" mcp call set_review_result '{\"passed\":true}';; *) \"$AUTOLOOP_BIN\" mcp call set_loop_review_result \"{\\\"loopId\\\":\\\"$AUTOLOOP_LOOP_ID\\\",\\\"passed\\\":true}\";; esac";
    sandbox.write("reviewer.sh", answer);
    let reviewer = format!("sh {}", sandbox.path("reviewer.sh").display());
    let said =
        told(&sandbox, &["squad", "--plan", "plan.toml", "--no-watch", "--reviewer", &reviewer]);
    assert!(said.starts_with("exit 0\n"), "{said}");
}

#[test]
fn an_agent_is_told_what_it_works_on() {
    let tell = "echo \"$AUTOLOOP_PHASE run=$AUTOLOOP_RUN_ID loop=$AUTOLOOP_LOOP_ID task=$AUTOLOOP_TASK_ID ticket=${#AUTOLOOP_TICKET} bin=$(test -x \"$AUTOLOOP_BIN\" && echo yes)\"";
    let all = |then: &str| format!("{tell}; {then}");
    let (build, review) = (all("work; [ $N -lt 1 ] || complete"), all("answer true"));
    let (checkpoint, judge) = (all("answer true"), all("judge true"));
    let agents =
        Agents { build: &build, review: &review, checkpoint: &checkpoint, judge: &judge, ..GOOD };
    let sandbox = project(agents, &[&["a"]], "");
    completes(&sandbox, "--effort max");
    let said = rows(&sandbox, "squad.turn.finish", &["output"]);
    let first: Vec<&str> = said.iter().filter_map(|output| output.lines().next()).collect();
    assert_snapshot!(first.join("\n"), @r"
    build run=[RUN] loop=[RUN]-1 task=a ticket=32 bin=yes
    checkpoint run=[RUN] loop=[RUN]-1 task= ticket=32 bin=yes
    build run=[RUN] loop=[RUN]-1 task=a ticket=32 bin=yes
    review run=[RUN] loop=[RUN]-1 task=a ticket=32 bin=yes
    review run=[RUN] loop= task= ticket=32 bin=yes
    ");
}

#[test]
fn a_squad_in_a_part_of_a_repository_checks_that_part() {
    let sandbox = project(GOOD, &[&["a"]], "checks.test.command = 'test -e plan.toml'\n");
    let settings = sandbox.read("autoloops.toml");
    sandbox.write("app/autoloops.toml", settings).write("app/plan.toml", sandbox.read("plan.toml"));
    autoloop_testkit::slots::git(&sandbox, &["rm", "-q", "plan.toml", "autoloops.toml"]);
    autoloop_testkit::slots::git(&sandbox, &["add", "-A"]);
    autoloop_testkit::slots::git(&sandbox, &["commit", "-q", "-m", "move"]);
    let words = ["squad", "--plan", "app/plan.toml", "--effort", "low", "--no-watch", "app"];
    let said = sandbox.run(&words);
    assert_eq!(said.code, Some(0), "{said}");
    assert!(sandbox.path("app/a.txt").exists());
}
