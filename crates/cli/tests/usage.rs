//! What agents use: recorded once per agent, by every coordinator, and shown by every view.
#![cfg(target_os = "linux")]

use autoloop_testkit::Sandbox;
use autoloop_testkit::sandbox::Output;
use autoloop_testkit::slots::{self, Agents};
use serde_json::Value;

const SETTINGS: &str = "backend.output = 'claude'";

/// `say TEXT` prints the stream of a client that used 1200 tokens for a cent.
const SAY: &str = r#"
    say() {
        printf '%s\n' '{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":"make all"}}]}}' \
            '{"type":"result","subtype":"success","is_error":false,"result":"'"$1"'","total_cost_usd":0.01,"usage":{"input_tokens":1000,"output_tokens":200}}'
    }"#;

fn with_agent(agent: &str, settings: &str) -> Sandbox {
    let settings = format!("{SETTINGS}\n{settings}");
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), &format!("{SAY}\n{agent}"), &settings)
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output}"))
}

/// The roles of all turns with usage, in order.
fn roles(sandbox: &Sandbox) -> String {
    sandbox.fields("backend.usage", "role").join(" ")
}

#[test]
fn a_loop_with_metareviews_and_a_wave() {
    let sandbox = with_agent(
        r#"
        case "$AUTOLOOP_REVIEW_MODE$AUTOLOOP_RUN_ID-$N" in
            metareview*) ;;
            *-wave-*) ;;
            *-1) $T emit explore.parallel "$(printf -- '- look at a\n- look at b')" ;;
            *-2) $T emit task.complete done ;;
        esac
        say "done""#,
        "parallel.enabled = true\nreview.enabled = true\nreview.every_iterations = 1",
    );
    sandbox.write(
        "topology.toml",
        "[[role]]\nid = 'planner'\nemits = ['task.complete']\n[handoff]\n'loop.start' = 'planner'\n",
    );
    let result = sandbox.run(&["run", ".", "make", "it"]);
    assert_eq!(result.code, Some(0), "{result}");
    // Two iterations, two branches, and a metareview before the second iteration.
    let mut roles: Vec<String> = sandbox.fields("backend.usage", "role");
    roles.sort();
    assert_eq!(roles, ["metareview", "planner", "planner", "planner", "planner"]);
    let last = result.stdout.lines().last().unwrap();
    assert!(last.contains(" after 2 iterations in "), "{last}");
    assert!(last.ends_with(": 6.0k tokens, $0.05"), "{last}");

    let metrics = sandbox.run(&["inspect", "metrics"]).stdout;
    assert_eq!(metrics.matches("| 1.2k tokens, $0.01 |").count(), 2, "{metrics}");
    assert!(metrics.ends_with("Usage with metareviews and branches: 6.0k tokens, $0.05\n"));
    let metrics = json(&sandbox.run(&["inspect", "metrics", "--format", "json"]));
    assert_eq!(metrics[1]["usage"]["cost_usd"], 0.01);
    let show = sandbox.run(&["loops", "show", "latest"]).stdout;
    assert!(show.contains("\nusage         6.0k tokens, $0.05\n"), "{show}");
    let list = sandbox.run(&["loops"]).stdout;
    assert!(list.contains("  COST  ") && list.contains("  $0.05  "), "{list}");
    let watch = sandbox.run(&["watch", "--once"]).stdout;
    assert!(watch.lines().next().unwrap().ends_with("  6.0k tokens, $0.05"), "{watch}");
    let watch = json(&sandbox.run(&["watch", "--once", "--json"]));
    assert_eq!(watch["usage"]["total_tokens"], 6000);
    let finished = watch["finished"].as_array().unwrap();
    let names: Vec<_> = finished.iter().map(|row| row["row"].as_str().unwrap()).collect();
    assert_eq!(names, ["iteration 2", "metareview 2", "iteration 1"]);
    assert!(finished.iter().all(|row| row["usage"]["cost_usd"] == 0.01), "{watch}");
}

#[test]
fn a_chain_and_its_steps() {
    let sandbox = with_agent("$T emit task.complete; say \"done\"", "");
    for name in ["one", "two"] {
        sandbox.write(
            format!("{name}/autoloops.toml"),
            "event_loop.max_iterations = 2\nreview.enabled = false\n",
        );
    }
    let result = sandbox.run(&["run", "--chain", "one,two", ".", "make", "it"]);
    assert_eq!(result.code, Some(0), "{result}");
    let last = result.stdout.lines().last().unwrap();
    assert!(last.contains(" after 2 of 2 steps in "), "{last}");
    assert!(last.ends_with(": 2.4k tokens, $0.02"), "{last}");
    let result = json(&sandbox.run(&["run", "--chain", "one,two", ".", "make", "it", "--json"]));
    assert_eq!(result["usage"]["total_tokens"], 2400);
    assert_eq!(result["steps"][1]["usage"]["total_tokens"], 1200);
}

const AGENTS: Agents<'_> = Agents {
    implement: "echo x > made-$AUTOLOOP_ITEM_ID; say done",
    review: r#"
        v=pass; [ $AUTOLOOP_FIX_ATTEMPT = 0 ] && [ $AUTOLOOP_ITEM_ID = t-1 ] && v=drift
        say '{\"verdict\": \"'$v'\", \"followUpPrompt\": \"add a test\"}'"#,
    fix: "echo y >> made-$AUTOLOOP_ITEM_ID; say fixed",
};

#[test]
fn slots_and_each_of_their_agents() {
    let implement = format!("{SAY}\n{}", AGENTS.implement);
    let review = format!("{SAY}\n{}", AGENTS.review);
    let fix = format!("{SAY}\n{}", AGENTS.fix);
    let agents = Agents { implement: &implement, review: &review, fix: &fix };
    let sandbox = slots::project(env!("CARGO_BIN_EXE_autoloop"), agents, (2, SETTINGS));
    let result = sandbox.run(&["slots", "--review", "--no-watch"]);
    assert_eq!(result.code, Some(0), "{result}\n{}", sandbox.story());
    assert_eq!(roles(&sandbox), "implement review fix review implement review");
    assert_eq!(sandbox.fields("backend.usage", "slot"), ["1"; 6]);
    let last = result.stdout.lines().last().unwrap();
    assert!(last.contains(" 2 of 2 items passed in "), "{last}");
    assert!(last.ends_with(": 7.2k tokens, $0.06"), "{last}");
    let slots = sandbox.run(&["inspect", "slots"]).stdout;
    assert!(slots.contains("2 reviews, 1 fix, 4.8k tokens, $0.04"), "{slots}");
    assert!(slots.contains("1 review, 0 fixes, 2.4k tokens, $0.02"), "{slots}");
    let watch = json(&sandbox.run(&["watch", "--once", "--json"]));
    assert_eq!(watch["finished"][0]["item"], "t-1");
    assert_eq!(watch["finished"][0]["usage"]["cost_usd"], 0.04);
    assert_eq!(watch["rows"][0]["usage"]["cost_usd"], 0.02);
    let again = json(&sandbox.run(&["inspect", "slots", "--format", "json"]));
    assert_eq!(again["usage"]["cost_usd"], 0.06);
    assert_eq!(again["slots"][0]["usage"]["total_tokens"], 4800);
}

#[test]
fn nothing_is_said_about_cost_where_nothing_is_known() {
    let sandbox =
        Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), "$T emit task.complete done", "");
    let result = sandbox.run(&["run", ".", "make", "it"]);
    assert!(result.stdout.ends_with("after 1 iteration\n"), "{result}");
    let views = [
        &["loops"][..],
        &["loops", "show", "latest"],
        &["inspect", "metrics"],
        &["watch", "--once"],
    ];
    for view in views {
        let shown = sandbox.run(view).stdout.to_lowercase();
        assert!(!shown.contains("tokens") && !shown.contains("cost"), "{shown}");
    }
    let result = json(&sandbox.run(&["run", ".", "make", "it", "--json"]));
    assert_eq!(result["usage"], Value::Null);
}

/// The first attempt does half of the work, then the client is refused.
const LIMITED: &str = r#"
    if ! test -e tried; then
        touch tried
        echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"rate limit, try again in 1s","total_cost_usd":0.02,"usage":{"input_tokens":300,"output_tokens":0}}'
        exit 1
    fi
    $T emit task.complete done; say "done""#;

#[test]
fn an_attempt_before_a_wait_counts() {
    let sandbox = with_agent(LIMITED, "");
    let result = sandbox.run(&["run", ".", "make", "it"]);
    assert_eq!(result.code, Some(0), "{result}\n{}", sandbox.story());
    assert_eq!(sandbox.fields("backend.parked", "class").len(), 1, "{}", sandbox.story());
    assert!(result.stdout.ends_with(": 1.5k tokens, $0.03\n"), "{result}");
}
