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
    assert_snapshot!(said.join("\n"), @"");
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
    assert_snapshot!(said.join("\n"), @"");
    assert_eq!(sandbox.journal(), "");
}

#[test]
fn a_squad_needs_a_repository() {
    let sandbox = project(GOOD, &[&["a"]], "");
    std::fs::remove_dir_all(sandbox.path(".git")).unwrap();
    assert_snapshot!(squad(&sandbox, ""), @"");
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
    assert_snapshot!(first.join("\n"), @"");
}
