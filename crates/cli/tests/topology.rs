//! `autoloop inspect topology`, through the binary.

use autoloop_testkit::Sandbox;
use insta::assert_snapshot;

const TOPOLOGY: &str = r#"
name = "plan, build, review"
completion = "task.complete"
[[role]]
id = "planner"
emits = ["tasks.ready", "issue.discovered"]
prompt_file = "planner.md"
[[role]]
id = "builder"
emits = ["review.ready", "build.blocked"]
prompt = "Build."
[[role]]
id = "critic"
emits = ["review.passed", "review.rejected", "task.complete"]
[handoff]
"loop.start" = ["planner"]
"tasks.ready" = ["builder"]
"review.ready" = ["critic"]
"review.rejected" = ["builder", "planner"]
'/build\..*/' = ["planner"]
"review.passed" = ["critic"]
"#;

fn project(topology: &str, settings: &str) -> Sandbox {
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), "", settings);
    sandbox.write("topology.toml", topology).write("planner.md", "Plan.");
    sandbox
}

fn inspect(sandbox: &Sandbox, args: &[&str]) -> String {
    let args: Vec<&str> = ["inspect", "topology"].iter().chain(args).copied().collect();
    sandbox.run(&args).to_string()
}

#[test]
fn a_sound_topology_is_drawn() {
    let sandbox = project(TOPOLOGY, "event_loop.required_events = ['review.passed']");
    assert_snapshot!(inspect(&sandbox, &[]), @r#"
    exit 0
    --- stdout
    plan, build, review

    loop.start          ──▶ planner

    planner
      tasks.ready       ──▶ builder
      issue.discovered  ──▶ (recorded, not routed)

    builder
      review.ready      ──▶ critic
      build.blocked     ──▶ planner

    critic
      review.passed     ──▶ critic
      review.rejected   ──▶ builder, planner
      task.complete     ──▶ complete

    completes on  task.complete
              or  "LOOP_COMPLETE" in the output
           after  review.passed

    /build\..*/ hands over to:
      planner
    "#);
    assert_snapshot!(inspect(&sandbox, &["--format", "md"]), @r"
    exit 0
    --- stdout
    # plan, build, review

    Entry: `planner`
    Completion: `task.complete`, or `LOOP_COMPLETE` in the output
    Required events: `review.passed`

    ## Roles

    | role | emits | prompt |
    |---|---|---|
    | `planner` | `tasks.ready`, `issue.discovered` | `planner.md` |
    | `builder` | `review.ready`, `build.blocked` | in topology.toml |
    | `critic` | `review.passed`, `review.rejected`, `task.complete` | - |

    ## Handoff

    | event | roles |
    |---|---|
    | `loop.start` | `planner` |
    | `tasks.ready` | `builder` |
    | `review.ready` | `critic` |
    | `review.rejected` | `builder`, `planner` |
    | `/build\..*/` | `planner` |
    | `review.passed` | `critic` |
    ");
}

#[test]
fn a_graph_is_one_that_graphviz_reads() {
    let odd = "name = 'a \"b\" \\ c'\n[[role]]\nid = 'x\"y\\n'\nemits = ['task.complete', 'lost', '/a\\.b/']\n[handoff]\n'loop.start' = 'x\"y\\n'\n'a.b' = 'x\"y\\n'\n";
    let sandbox = project(odd, "");
    assert_snapshot!(inspect(&sandbox, &["--format", "graph"]), @r#"
    exit 0
    --- stdout
    digraph "a \"b\" \\ c" {
      rankdir=LR;
      node [shape=box, style=rounded];
      start [shape=circle, label=""];
      complete [shape=doublecircle, label=""];
      any [style=dashed, label="any role"];
      "role x\"y\\n" [label="x\"y\\n"];
      start -> "role x\"y\\n" [label="loop.start"];
      "role x\"y\\n" -> complete [label="task.complete"];
      "role x\"y\\n" -> any [label="lost"];
      "role x\"y\\n" -> "role x\"y\\n" [label="/a\\.b/"];
    }
    "#);
}

#[test]
fn other_programs_get_json() {
    let topology =
        "[[role]]\nid = 'a'\nemits = ['one']\n[handoff]\n'loop.start' = 'a'\n'two' = ['a']\n";
    let sandbox = project(topology, "event_loop.completion_promise = ''");
    assert_snapshot!(inspect(&sandbox, &["--format", "json"]), @r#"
    exit 0
    --- stdout
    {
      "name": "",
      "entry": [
        "a"
      ],
      "completion": {
        "event": "task.complete",
        "promise": null,
        "required_events": []
      },
      "roles": [
        {
          "id": "a",
          "emits": [
            "one"
          ],
          "has_prompt": false,
          "prompt_file": null,
          "backend_command": null
        }
      ],
      "handoff": [
        {
          "event": "loop.start",
          "roles": [
            "a"
          ]
        },
        {
          "event": "two",
          "roles": [
            "a"
          ]
        }
      ],
      "warnings": [
        {
          "kind": "unhandled_event",
          "message": "event 'one' of role 'a' is not in the handoff map: all roles are suggested after it"
        },
        {
          "kind": "no_completion",
          "message": "no role may emit 'task.complete', which completes the run"
        },
        {
          "kind": "unheard_handoff",
          "message": "no role emits 'two', so its handoff is never used"
        }
      ]
    }
    "#);
}

#[test]
fn warnings_come_last_and_no_line_is_too_wide() {
    let long = "x".repeat(90);
    let topology = format!(
        "[[role]]\nid = 'a'\nemits = ['{long}', 'go']\n[[role]]\nid = 'b-{long}'\n[[role]]\nid = 'c'\nemits = ['go']\n[handoff]\n'loop.start' = ['a', 'b-{long}', 'c']\n'go' = ['c', 'a']\n"
    );
    let sandbox = project(&topology, "event_loop.required_events = ['review.passed']");
    let shown = inspect(&sandbox, &["--format", "text"]);
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(shown.contains("warning: role\n         'b-xxx"), "{shown}");
    assert!(
        shown.contains("warning: no role may emit 'task.complete', which completes the run\n"),
        "{shown}"
    );
    assert!(shown.ends_with("warning: no role may emit 'review.passed', which has to be seen before the run\n         completes"), "{shown}");
}

#[test]
fn a_loop_without_roles_has_a_picture_too() {
    let sandbox = project("", "");
    assert_snapshot!(inspect(&sandbox, &["."]), @r#"
    exit 0
    --- stdout
    topology

    no roles: one agent does all work, and every event is accepted

    completes on  task.complete
              or  "LOOP_COMPLETE" in the output
    "#);
    assert!(inspect(&sandbox, &["--format", "graph"]).contains("digraph \"topology\""));
}

#[test]
fn a_topology_that_cannot_be_used_is_shown_where_it_is_wrong() {
    let sandbox = project("[[role]]\nid = 'a'\nemits = ['/(/']\n", "");
    assert_snapshot!(inspect(&sandbox, &[]), @r"
    exit 2
    --- stderr
    error: '/(/' is not a regular expression: found open group without closing ')', in `role.emits`
     --> topology.toml:3:10
      |
    3 | emits = ['/(/']
      |          ^^^^^

    autoloop: the settings cannot be used because of this error
    ");
    sandbox.write("topology.toml", "completion = 'loop.complete'\n");
    assert_snapshot!(inspect(&sandbox, &[]), @r"
    exit 2
    --- stderr
    error: 'loop.complete' cannot complete a run: only the harness may write such topics, in `completion`
     --> topology.toml:1:14
      |
    1 | completion = 'loop.complete'
      |              ^^^^^^^^^^^^^^^

    autoloop: the settings cannot be used because of this error
    ");
    sandbox.write("topology.toml", "[[role]]\nid = 'a'\nemit = []\n");
    assert_snapshot!(sandbox.run(&["inspect", "topology"]).stderr, @r"
    warning: unknown key role.emit
     --> topology.toml:3:1
      |
    3 | emit = []
      | ^^^^ did you mean emits?
    ");
}
