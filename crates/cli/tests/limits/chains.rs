//! Chains, whose steps share the limits of a run.

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::Output;
use insta::assert_snapshot;

use crate::loops::{agent, reasons, result, turns};

/// A chain of two loops with three turns each, all of which cost a quarter of a dollar.
fn project() -> Sandbox {
    let sandbox = agent(
        &format!("\"$T\" emit step >&2; echo '{}'", result("0.25", 1_000)),
        "core.run_id_format = 'counter'\n",
    );
    for name in ["one", "two"] {
        let settings = "event_loop.max_iterations = 3\nreview.enabled = false\n";
        sandbox.write(format!("{name}/autoloops.toml"), settings);
    }
    sandbox.write("chains.toml", "[[chain]]\nname = 'both'\nsteps = ['one', 'two']\n");
    sandbox
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Output {
    sandbox.run(&[&["chain", "run", "both", ".", "make it"], args].concat())
}

fn failure(output: &Output) -> String {
    let is_told = |line: &&str| line.starts_with("autoloop:") || line.starts_with("  hint:");
    let lines: Vec<&str> = output.stderr.lines().filter(is_told).collect();
    format!("exit {:?}\n{}", output.code, lines.join("\n"))
}

#[test]
fn the_steps_of_a_chain_share_its_budget() {
    let sandbox = project();
    let output = run(&sandbox, &["--budget", "1"]);
    assert_snapshot!(failure(&output), @"
    exit Some(1)
    autoloop: chain 'run-1' ended with step_failed: step 2 (two): max_cost
      hint: raise the limit and resume it with `autoloop chain run --resume=run-1`
    ");
    assert_eq!((turns(&sandbox), reasons(&sandbox)), (4, "max_iterations max_cost".into()));
    let shown = |format: &str| sandbox.run(&["inspect", "chain", "--format", format]).stdout;
    assert_snapshot!(shown("terminal"), @"
    chain run-1 (both): failed (step_failed), 4.0k tokens, $1.00
      1  one  run-2  max_iterations  3.0k tokens, $0.75
      2  two  run-3  max_cost        1.0k tokens, $0.25
    ");
    assert_snapshot!(shown("md"), @"
    # Chain run-1

    - name: both
    - status: failed (step_failed)
    - objective: make it
    - usage: 4.0k tokens, $1.00

    | step | preset | run | ended with | usage |
    |---|---|---|---|---|
    | 1 | one | run-2 | max_iterations | 3.0k tokens, $0.75 |
    | 2 | two | run-3 | max_cost | 1.0k tokens, $0.25 |
    ");
    assert!(shown("json").contains("\"cost_usd\": 0.75"), "{}", shown("json"));

    // The same budget leaves nothing, a higher one is enough for the rest.
    let resume = ["chain", "run", "--resume", ".", "--budget"];
    let again = sandbox.run(&[&resume[..], &["1"]].concat());
    assert_eq!((again.code, turns(&sandbox)), (Some(1), 4), "{again}");
    let more = sandbox.run(&[&resume[..], &["1.50"]].concat());
    assert_eq!((more.code, turns(&sandbox)), (Some(0), 6), "{more}");
}

#[test]
fn the_steps_of_a_chain_share_its_tokens() {
    let sandbox = project();
    let output = run(&sandbox, &["--set", "limits.max_tokens=3500"]);
    assert_snapshot!(failure(&output), @"
    exit Some(1)
    autoloop: chain 'run-1' ended with step_failed: step 2 (two): max_tokens
      hint: raise the limit and resume it with `autoloop chain run --resume=run-1`
    ");
    assert_eq!((turns(&sandbox), reasons(&sandbox)), (3, "max_iterations max_tokens".into()));
}
