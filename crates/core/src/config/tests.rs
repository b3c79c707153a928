//! Layers, what becomes of them, and what is said about them.

use proptest::prelude::*;

use super::*;

fn project(text: &str) -> Layer {
    Layer::file(Origin::Project, "autoloops.toml", text)
}

fn resolve(text: &str) -> Reading {
    Settings::resolve(&[project(text)])
}

/// Every problem in one line, with the bytes that are meant.
fn problems(layers: &[Layer]) -> String {
    let lines = Settings::resolve(layers).problems.into_iter().map(|problem| {
        let word = if problem.is_error() { "error" } else { "warning" };
        format!("{word}: {problem} <- {:?}", &problem.text[problem.span.clone()])
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn said(text: &str) -> String {
    problems(&[project(text)])
}

/// A value as `config show` prints it.
fn shown(settings: &Settings, key: Key) -> String {
    let all = as_toml(settings, Detail::Value);
    let prefix = format!("{key} = ");
    all.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or("not set").to_owned()
}

#[test]
fn every_default_is_read_as_its_key_says() {
    let settings = Settings::default();
    for key in Key::ALL {
        if let Preset::Value(text) = key.preset() {
            assert!(read_text(key.kind(), text).is_ok(), "{key}");
            assert_ne!(settings.value(*key), &Value::Unset, "{key}");
        }
        if let Preset::Like(other) = key.preset() {
            let is_text = matches!(other.kind(), Kind::Text | Kind::NeededText);
            assert_eq!(key.kind() == Kind::Text, is_text, "{key}");
        }
    }
    assert_eq!(Settings::resolve(&[]), Reading { settings, problems: vec![] });
}

#[test]
fn a_setting_under_two_names_that_differ_is_told_of() {
    let told = [
        said("reviewEnabled = true\n[slots]\nreviewEnabled = false\n"),
        said("slots.review_max_fix_attempts = 2\nslots.reviewMaxFixAttempts = 3\n"),
        said("reviewEnabled = true\n[slots]\nreviewEnabled = true\n"),
    ];
    insta::assert_snapshot!(told.join("\n"), @r#"
    warning: autoloops.toml: line 3, column 17: slots.reviewEnabled is set twice, to different values; line 1 sets another value; this one is used (keep one of the two) <- "false"
    warning: autoloops.toml: line 2, column 30: slots.reviewMaxFixAttempts is set twice, to different values; line 1 sets another value; this one is used (keep one of the two) <- "3"
    "#);
    // In the order of the file, like everything that is told of it.
    let told = said("reviewEnabled = true\n[slots]\nreviewEnabled = false\nodd = 1\n");
    let at = ["line 3", "line 4"].map(|line| told.find(line));
    assert!(at[0].is_some() && at[0] < at[1], "{told}");
}

#[test]
fn what_is_shown_says_the_same_again() {
    let text = r#"
        event_loop.required_events = ["a", "b"]
        event_loop.prompt = "one \"two\"\n\tthree\\ \u0085 é"
        backend.args = ["a,b", ""]
        backend.timeout_ms = "90s"
        backend.output_cap = "1MiB"
        review.prompt_file = ""
        memory.prompt_budget_chars = -1
        journal.lock_timeout = "1m30s"
    "#;
    let settings = resolve(text).settings;
    let again = resolve(&as_toml(&settings, Detail::Provenance));
    assert_eq!(again.problems, []);
    for key in Key::ALL {
        assert_eq!(again.settings.value(*key), settings.value(*key), "{key}");
    }
}

#[test]
fn tables_dotted_keys_and_inline_tables_mean_the_same() {
    for text in [
        "backend.command = 'x'\nbackend.args = ['a']",
        "[backend]\ncommand = 'x'\nargs = ['a']",
        "backend = { command = 'x', args = 'a' }",
        "[backend]\r\ncommand = 'x'\r\nargs = ['a']\r\n",
    ] {
        let Reading { settings, problems } = resolve(text);
        assert_eq!(problems, [], "{text}");
        assert_eq!(shown(&settings, Key::BackendCommand), "\"x\"", "{text}");
        assert_eq!(shown(&settings, Key::BackendArgs), "[\"a\"]", "{text}");
    }
}

#[test]
fn a_key_in_quotes_means_the_same_and_the_lower_line_holds() {
    let text = "'backend.command' = 'a'\n[backend]\ncommand = 'b'";
    let Reading { settings, problems } = resolve(text);
    assert_eq!((problems.len(), &shown(&settings, Key::BackendCommand)[..]), (1, "\"b\""));
    assert!(!problems[0].is_error());
}

#[test]
fn wrong_values_are_errors_and_the_layer_below_holds() {
    let layers = [
        Layer::file(Origin::User, "config.toml", "journal.sync = 'never'\nreview.enabled = false"),
        project(
            "review.enabled = 'maybe'\njournal.sync = 'sometimes'\nbackend = 'x'\nparallel.max_branches = 0",
        ),
    ];
    insta::assert_snapshot!(problems(&layers), @r#"
    error: autoloops.toml: line 1, column 18: review.enabled is "maybe"; expected true or false <- "'maybe'"
    error: autoloops.toml: line 2, column 16: journal.sync is "sometimes"; expected "always", "iteration" or "never" <- "'sometimes'"
    error: autoloops.toml: line 4, column 25: parallel.max_branches is 0; expected a whole number from 1 to 1000 <- "0"
    "#);
    let Reading { settings, .. } = Settings::resolve(&layers);
    assert_eq!(shown(&settings, Key::JournalSync), "\"never\"");
    assert_eq!(settings.origin(Key::ReviewEnabled), Origin::User);
    assert!(Settings::resolve(&layers).checked().is_err());
}

#[test]
fn the_key_that_was_probably_meant_is_named() {
    insta::assert_snapshot!(said("event_loop.max_iteration = 5"), @r#"warning: autoloops.toml: line 1, column 12: unknown key event_loop.max_iteration; did you mean event_loop.max_iterations? <- "max_iteration""#);
    insta::assert_snapshot!(said("max_iterations = 5"), @r#"warning: autoloops.toml: line 1, column 1: unknown key max_iterations; did you mean event_loop.max_iterations? <- "max_iterations""#);
    insta::assert_snapshot!(said("[bakend]\ncommand = 'x'\nargs = []"), @r#"warning: autoloops.toml: line 1, column 2: unknown table bakend; did you mean backend? <- "bakend""#);
    insta::assert_snapshot!(said("worktree.enabled = true\n[[hook]]\nphase = 'x'"), @r#"
    warning: autoloops.toml: line 1, column 1: unknown table worktree; no such table (run `autoloop config show` to list all keys) <- "worktree"
    warning: autoloops.toml: line 2, column 3: unknown key hook; no such key (run `autoloop config show` to list all keys) <- "hook"
    "#);
    insta::assert_snapshot!(said("backend.\"a\\u001bb\" = 1"), @r#"warning: autoloops.toml: line 1, column 9: unknown key backend.a\u{1b}b; no such key (run `autoloop config show` to list all keys) <- "\"a\\u001bb\"""#);
    assert!(resolve("zzz = 1").checked().is_ok(), "a warning is no error");
}

#[test]
fn a_flood_of_unknown_keys_is_counted() {
    let text: String = (0..1_000).map(|n| format!("zz{n} = 1\n")).collect();
    let problems = resolve(&text).problems;
    assert_eq!(problems.len(), 21);
    insta::assert_snapshot!(problems[20], @"autoloops.toml: line 1001, column 1: 980 more unknown keys");
}

#[test]
fn what_is_not_toml_is_an_error() {
    insta::assert_snapshot!(said("[journal]\nsync always"), @r#"error: autoloops.toml: line 2, column 6: invalid TOML: key with no value, expected `=` <- """#);
    insta::assert_snapshot!(said("[journal\nsync = 1"), @r#"error: autoloops.toml: line 1, column 9: invalid TOML: unclosed table, expected `]` <- """#);
    insta::assert_snapshot!(said("sync = \"no end"), @r#"error: autoloops.toml: line 1, column 15: invalid TOML: invalid basic string, expected `"` <- """#);
    insta::assert_snapshot!(said("a = 1\na = 2"), @r#"error: autoloops.toml: line 2, column 1: invalid TOML: duplicate key <- "a""#);
    insta::assert_snapshot!(said("a = \u{1b}[31m"), @r#"error: autoloops.toml: line 1, column 6: invalid TOML: unexpected key or value, expected newline, `#` <- """#);
    insta::assert_snapshot!(said("journal.sync = always"), @r#"error: autoloops.toml: line 1, column 16: invalid TOML: string values must be quoted, expected literal string <- "always""#);
    insta::assert_snapshot!(said(&format!("a = {}", "[".repeat(1_000))).replace(&"[".repeat(80), ""), @r#"error: autoloops.toml: line 1, column 85: invalid TOML: cannot recurse further; max recursion depth met <- "[""#);
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let padding = "#".repeat(LONGEST);
    assert_eq!(resolve(&padding).problems, []);
    insta::assert_snapshot!(said(&(padding + "#")), @r#"error: autoloops.toml: line 1, column 1: the settings have 1048577 bytes: the limit is 1048576 (1 MiB) <- """#);
}

#[test]
fn a_variable_holds_pairs() {
    let layer = |text: &str| [Layer::variable(text)];
    let Reading { settings, problems: none } = Settings::resolve(&layer(
        "event_loop.max_iterations=5; event_loop.prompt=a\\; b; backend.args=[\"x,y\"]; event_loop.max_iterations= 6",
    ));
    assert_eq!(none, []);
    assert_eq!(shown(&settings, Key::MaxIterations), "6", "the last one holds");
    assert_eq!(shown(&settings, Key::Prompt), "\"a; b\"");
    assert_eq!(shown(&settings, Key::BackendArgs), "[\"x,y\"]");
    assert_eq!(settings.provenance(Key::Prompt).name, Some("AUTOLOOP_SET"));
    insta::assert_snapshot!(problems(&layer("hello; review.enabled=maybe; revew.kind=pi")), @r#"
    error: AUTOLOOP_SET: line 1, column 1: invalid setting; expected key=value; key=value; <- "hello"
    error: AUTOLOOP_SET: line 1, column 23: review.enabled is "maybe"; expected true or false <- "maybe"
    warning: AUTOLOOP_SET: line 1, column 30: unknown key revew.kind; did you mean review.kind? <- "revew.kind"
    "#);
    insta::assert_snapshot!(problems(&layer("hello")), @r#"error: AUTOLOOP_SET: line 1, column 1: invalid setting; expected key=value; key=value; <- "hello""#);
    assert_eq!(problems(&layer(" ; ")), "");
}

#[test]
fn flags_set_keys() {
    let layers = [
        Layer::set("event_loop.max_iterations=4"),
        Layer::set("backend.prompt_mode = stdin"),
        Layer::max_iterations("9"),
        Layer::set("event_loop.completion_promise=a=b"),
    ];
    let Reading { settings, problems: none } = Settings::resolve(&layers);
    assert_eq!(none, []);
    assert_eq!(shown(&settings, Key::MaxIterations), "9");
    assert_eq!(shown(&settings, Key::BackendPromptMode), "\"stdin\"");
    assert_eq!(shown(&settings, Key::CompletionPromise), "\"a=b\"");
    insta::assert_snapshot!(problems(&[Layer::set("backend.kind")]), @r#"error: --set: line 1, column 1: invalid setting; expected key=value <- "backend.kind""#);
    insta::assert_snapshot!(problems(&[Layer::set("backend.knid=pi")]), @r#"error: --set: line 1, column 1: unknown key backend.knid; did you mean backend.kind? <- "backend.knid""#);
    insta::assert_snapshot!(problems(&[Layer::variable("backend.knid=pi")]), @r#"warning: AUTOLOOP_SET: line 1, column 1: unknown key backend.knid; did you mean backend.kind? <- "backend.knid""#);
    insta::assert_snapshot!(problems(&[Layer::set("backend.kind=pie")]), @r#"error: --set: line 1, column 14: backend.kind is "pie"; expected "command", "claude", "codex", "gemini", "opencode", "pi", "acp", "script" or "replay" (write "pi") <- "pie""#);
    insta::assert_snapshot!(problems(&[Layer::max_iterations("abc")]), @r#"error: --max-iterations: line 1, column 1: event_loop.max_iterations is "abc"; expected a whole number from 1 to 1000000 <- "abc""#);
}

#[test]
fn a_backend_on_the_command_line_takes_the_place_of_the_whole_backend() {
    let layers = [
        project(
            "backend = { kind = 'command', command = 'claude', args = ['-p'], output = 'claude', timeout_ms = 7 }",
        ),
        Layer::backend("pi --model 'a b'"),
        Layer::more_args(["--x", "it's", "$HOME"]),
    ];
    let Reading { settings, problems: none } = Settings::resolve(&layers);
    assert_eq!(none, []);
    assert_eq!(shown(&settings, Key::BackendCommand), "\"pi\"");
    assert_eq!(shown(&settings, Key::BackendArgs), r#"["--model", "a b", "--x", "it's", "$HOME"]"#);
    assert_eq!(settings.value(Key::BackendKind), &Value::Unset);
    assert_eq!(settings.value(Key::BackendOutput), &Value::Unset);
    assert_eq!(shown(&settings, Key::BackendTimeout), "7", "the rest stays");
    let more = Settings::resolve(&[project("backend.args = '-p'"), Layer::more_args(["-q"])]);
    assert_eq!(shown(&more.settings, Key::BackendArgs), r#"["-p", "-q"]"#);
    insta::assert_snapshot!(problems(&[Layer::backend("pi 'x")]), @r#"error: --backend: line 1, column 4: invalid command line; this quote is not closed <- "'""#);
    insta::assert_snapshot!(problems(&[Layer::backend(" ")]), @r#"error: --backend: line 1, column 1: missing command; expected a client like 'claude' or 'codex:MODEL', or a command line <- " ""#);
    insta::assert_snapshot!(problems(&[Layer::backend("''")]), @r#"error: --backend: line 1, column 1: missing command; expected a client like 'claude' or 'codex:MODEL', or a command line <- "''""#);
}

#[test]
fn a_layer_can_count_in_part() {
    let text = "zz = 1\nbackend.command = 'x'\nevent_loop.max_iterations = 9";
    let Reading { settings, problems } =
        Settings::resolve(&[project(text).with(Tables::Only(&["backend"]))]);
    assert_eq!(problems, []);
    assert_eq!(shown(&settings, Key::BackendCommand), "\"x\"");
    assert_eq!(settings.origin(Key::MaxIterations), Origin::Default);
}

#[test]
fn the_completion_of_the_topology_wins_and_a_warning_names_both() {
    for (text, is_warned) in [
        ("", false),
        ("event_loop.completion_event = 'all.done'", false),
        ("event_loop.completion_event = 'x'", true),
    ] {
        let (adopted, warning) =
            resolve(text).settings.with_completion("all.done", "topology.toml");
        assert_eq!(shown(&adopted, Key::CompletionEvent), "\"all.done\"");
        assert_eq!(adopted.origin(Key::CompletionEvent), Origin::Topology);
        assert_eq!(warning.is_some(), is_warned, "{text}");
        let message = warning.map(|warning| warning.message).unwrap_or_default();
        assert!(!is_warned || message.contains("'x'") && message.contains("'all.done'"));
    }
}

#[test]
fn each_value_tells_where_it_came_from() {
    let layers = [
        Layer::file(Origin::User, "/home/a/.config/autoloop/config.toml", "backend.command = 'pi'"),
        project("[event_loop]\nmax_iterations = 9\n"),
        Layer::file(Origin::UserOverride, "/home/a/o.toml", "review.every_iterations = 2"),
        Layer::file(Origin::RepoOverride, "/r/o.toml", "review.timeout_ms = 2"),
        Layer::variable("core.log_level=debug"),
        Layer::set("journal.sync=never"),
    ];
    let settings = Settings::resolve(&layers).settings;
    insta::assert_snapshot!(as_toml(&settings, Detail::Provenance), @r#"
    event_loop.max_iterations = 9                    # project: autoloops.toml, line 2
    event_loop.stall_iterations = 3                  # default
    event_loop.completion_event = "task.complete"    # default
    event_loop.completion_promise = "LOOP_COMPLETE"  # default
    event_loop.required_events = []                  # default
    # event_loop.prompt is not set: event_loop.prompt_file is read
    # event_loop.prompt_file is not set: the command line has the objective

    limits.max_cost_usd = 0                          # default
    limits.max_tokens = 0                            # default
    limits.max_runtime = "0s"                        # default
    limits.iteration.max_cost_usd = 0                # default
    limits.iteration.max_tokens = 0                  # default
    limits.iteration.max_runtime = "0s"              # default
    limits.slot.max_cost_usd = 0                     # default
    limits.slot.max_tokens = 0                       # default
    limits.slot.max_runtime = "0s"                   # default
    limits.review.max_cost_usd = 0                   # default
    limits.review.max_tokens = 0                     # default
    limits.review.max_runtime = "0s"                 # default

    # backend.kind is not set: derived from the name of the command
    backend.command = "pi"                           # user: /home/a/.config/autoloop/config.toml, line 1
    backend.args = []                                # default
    # backend.model is not set: the client chooses
    backend.env = []                                 # default
    # backend.prompt_mode is not set: stdin for a known client, else arg
    # backend.output is not set: derived from the kind
    backend.timeout_ms = 1800000                     # default
    backend.grace_ms = 5000                          # default
    backend.leftovers = "kill"                       # default
    backend.output_cap = 256000000                   # default
    backend.first_wait = "15s"                       # default
    backend.max_wait = "6h"                          # default

    review.enabled = true                            # default
    review.every_iterations = 2                      # user override: /home/a/o.toml, line 1
    # review.kind is not set: as backend.kind
    # review.command is not set: as backend.command
    # review.args is not set: as backend.args
    # review.model is not set: as backend.model
    # review.env is not set: as backend.env
    # review.prompt_mode is not set: as backend.prompt_mode
    # review.output is not set: as backend.output
    review.timeout_ms = 2                            # repo override: /r/o.toml, line 1
    # review.prompt is not set: review.prompt_file is read
    review.prompt_file = "metareview.md"             # default
    review.sandbox = "auto"                          # default

    memory.prompt_budget_chars = 8000                # default

    harness.instructions_file = "harness.md"         # default

    parallel.enabled = false                         # default
    parallel.max_branches = 3                        # default
    parallel.branch_timeout_ms = 180000              # default
    parallel.isolation = "shared"                    # default

    slots.reviewEnabled = false                      # default
    slots.reviewMaxFixAttempts = 5                   # default
    slots.reviewContractRepair = 0                   # default
    # slots.developerPromptPath is not set: looked up in .ai_agents/prompts, then in the user's settings, then built in
    # slots.reviewerPromptPath is not set: looked up in .ai_agents/prompts, then in the user's settings, then built in
    slots.parallelAgents = 1                         # default
    slots.iterations = 0                             # default
    slots.include_new = false                        # default
    slots.max_items = 0                              # default
    slots.source = "builtin"                         # default
    # slots.isolation is not set: a worktree for each of several slots, the project for one
    slots.commit = true                              # default
    slots.stopMarker = "no_beads_available"          # default
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
    slots.beads.command = "bd"                       # default

    exchange.max_rounds = 2                          # default

    squad.effort = "medium"                          # default
    squad.max_loops = 4                              # default
    squad.max_iterations = 20                        # default
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

    core.state_dir = ".autoloop"                     # default
    # core.journal_file is not set: journal.jsonl in core.state_dir
    # core.memory_file is not set: memory.jsonl in core.state_dir
    core.run_id_format = "human"                     # default
    core.log_level = "debug"                         # environment: AUTOLOOP_SET

    journal.sync = "never"                           # flag: --set
    journal.lock_timeout = "30s"                     # default
    "#);
    insta::assert_snapshot!(as_json(&settings, Detail::Value), @r#"
    {
      "event_loop.max_iterations": 9,
      "event_loop.stall_iterations": 3,
      "event_loop.completion_event": "task.complete",
      "event_loop.completion_promise": "LOOP_COMPLETE",
      "event_loop.required_events": [],
      "event_loop.prompt": null,
      "event_loop.prompt_file": null,
      "limits.max_cost_usd": 0,
      "limits.max_tokens": 0,
      "limits.max_runtime": "0s",
      "limits.iteration.max_cost_usd": 0,
      "limits.iteration.max_tokens": 0,
      "limits.iteration.max_runtime": "0s",
      "limits.slot.max_cost_usd": 0,
      "limits.slot.max_tokens": 0,
      "limits.slot.max_runtime": "0s",
      "limits.review.max_cost_usd": 0,
      "limits.review.max_tokens": 0,
      "limits.review.max_runtime": "0s",
      "backend.kind": null,
      "backend.command": "pi",
      "backend.args": [],
      "backend.model": null,
      "backend.env": [],
      "backend.prompt_mode": null,
      "backend.output": null,
      "backend.timeout_ms": 1800000,
      "backend.grace_ms": 5000,
      "backend.leftovers": "kill",
      "backend.output_cap": 256000000,
      "backend.first_wait": "15s",
      "backend.max_wait": "6h",
      "review.enabled": true,
      "review.every_iterations": 2,
      "review.kind": null,
      "review.command": null,
      "review.args": null,
      "review.model": null,
      "review.env": null,
      "review.prompt_mode": null,
      "review.output": null,
      "review.timeout_ms": 2,
      "review.prompt": null,
      "review.prompt_file": "metareview.md",
      "review.sandbox": "auto",
      "memory.prompt_budget_chars": 8000,
      "harness.instructions_file": "harness.md",
      "parallel.enabled": false,
      "parallel.max_branches": 3,
      "parallel.branch_timeout_ms": 180000,
      "parallel.isolation": "shared",
      "slots.reviewEnabled": false,
      "slots.reviewMaxFixAttempts": 5,
      "slots.reviewContractRepair": 0,
      "slots.developerPromptPath": null,
      "slots.reviewerPromptPath": null,
      "slots.parallelAgents": 1,
      "slots.iterations": 0,
      "slots.include_new": false,
      "slots.max_items": 0,
      "slots.source": "builtin",
      "slots.isolation": null,
      "slots.commit": true,
      "slots.stopMarker": "no_beads_available",
      "slots.reviewer.kind": null,
      "slots.reviewer.command": null,
      "slots.reviewer.args": null,
      "slots.reviewer.model": null,
      "slots.reviewer.env": null,
      "slots.reviewer.prompt_mode": null,
      "slots.reviewer.output": null,
      "slots.reviewer.timeout_ms": null,
      "slots.reviewer.grace_ms": null,
      "slots.reviewer.leftovers": null,
      "slots.reviewer.output_cap": null,
      "slots.beads.command": "bd",
      "exchange.max_rounds": 2,
      "squad.effort": "medium",
      "squad.max_loops": 4,
      "squad.max_iterations": 20,
      "squad.builder.kind": null,
      "squad.builder.command": null,
      "squad.builder.args": null,
      "squad.builder.model": null,
      "squad.builder.env": null,
      "squad.builder.prompt_mode": null,
      "squad.builder.output": null,
      "squad.builder.timeout_ms": null,
      "squad.builder.grace_ms": null,
      "squad.builder.leftovers": null,
      "squad.builder.output_cap": null,
      "squad.reviewer.kind": null,
      "squad.reviewer.command": null,
      "squad.reviewer.args": null,
      "squad.reviewer.model": null,
      "squad.reviewer.env": null,
      "squad.reviewer.prompt_mode": null,
      "squad.reviewer.output": null,
      "squad.reviewer.timeout_ms": null,
      "squad.reviewer.grace_ms": null,
      "squad.reviewer.leftovers": null,
      "squad.reviewer.output_cap": null,
      "squad.planner.kind": null,
      "squad.planner.command": null,
      "squad.planner.args": null,
      "squad.planner.model": null,
      "squad.planner.env": null,
      "squad.planner.prompt_mode": null,
      "squad.planner.output": null,
      "squad.planner.timeout_ms": null,
      "squad.planner.grace_ms": null,
      "squad.planner.leftovers": null,
      "squad.planner.output_cap": null,
      "core.state_dir": ".autoloop",
      "core.journal_file": null,
      "core.memory_file": null,
      "core.run_id_format": "human",
      "core.log_level": "debug",
      "journal.sync": "never",
      "journal.lock_timeout": "30s"
    }
    "#);
    let explained = as_json(&settings, Detail::Provenance);
    insta::assert_snapshot!(explained.lines().take(8).collect::<Vec<_>>().join("\n"), @r#"
    {
      "event_loop.max_iterations": {
        "value": 9,
        "layer": "project",
        "from": "autoloops.toml",
        "line": 2,
        "column": 18
      },
    "#);
    // A problem with a value is shown where the value stands.
    let problem = settings.problem(Key::MaxIterations, Severity::Warning, "odd".into()).unwrap();
    insta::assert_snapshot!(problem, @"autoloops.toml: line 2, column 18: odd");
    assert_eq!(settings.problem(Key::HarnessFile, Severity::Warning, "odd".into()), None);
}

/// A key with a value that it can have, as a file writes it.
fn assignment() -> impl Strategy<Value = (Key, String)> {
    prop::sample::select(Key::ALL.to_vec()).prop_flat_map(|key| {
        let value = match key.kind() {
            Kind::Text | Kind::NeededText | Kind::File | Kind::NeededPath => {
                "'[a-z][a-z .]{0,8}'".boxed()
            }
            Kind::Event => "'x[a-z.]{0,8}'".boxed(),
            Kind::Events => "\\['x[a-z]{1,4}'\\]".boxed(),
            Kind::List => "\\['[a-z,]{1,4}', '[a-z ,]{0,4}'\\]".boxed(),
            Kind::Variables => "\\['[A-Z]{1,4}', '[A-Z]{1,4}=[a-z ,]{0,4}'\\]".boxed(),
            Kind::Flag => "true|false|'yes'|'off'".boxed(),
            Kind::Count { most: ..10, .. } => "[1-3]".boxed(),
            Kind::Count { .. } | Kind::Limit | Kind::Bytes => "[1-9][0-9]{0,2}".boxed(),
            Kind::Cost => "[1-9][0-9]{0,2}(\\.[0-9]{1,2})?|'\\$[1-9]'".boxed(),
            Kind::Millis { .. } | Kind::Time => "[1-9][0-9]{0,2}|'[1-9][0-9]{0,2}s'".boxed(),
            Kind::Choice(words) | Kind::MaybeChoice(words) => {
                prop::sample::select(words.to_vec()).prop_map(|word| format!("'{word}'")).boxed()
            }
        };
        value.prop_map(move |value| (key, value))
    })
}

proptest! {
    #[test]
    fn the_last_layer_wins_and_explain_tells_the_truth(
        files in prop::collection::vec((0..4_usize, prop::collection::vec(assignment(), 0..6)), 0..6),
    ) {
        const ORIGINS: [Origin; 4] =
            [Origin::User, Origin::Project, Origin::UserOverride, Origin::RepoOverride];
        let layers: Vec<Layer> = files.iter().enumerate().map(|(number, (origin, lines))| {
            let mut seen = Vec::new();
            let text: String = lines
                .iter()
                .filter(|(key, _)| !seen.contains(key) && { seen.push(*key); true })
                .map(|(key, value)| format!("{key} = {value}\n"))
                .collect();
            Layer::file(ORIGINS[*origin], number.to_string(), text)
        }).collect();
        let Reading { settings, problems } = Settings::resolve(&layers);
        prop_assert_eq!(problems, vec![]);
        let defaults = Settings::default();
        for key in Key::ALL {
            // The last of the highest origin, found in another way than by stacking.
            let prefix = format!("{key} = ");
            let winner = layers
                .iter()
                .filter(|layer| layer.text.lines().any(|line| line.starts_with(&prefix)))
                .max_by_key(|layer| layer.origin);
            let from = settings.provenance(*key);
            match winner {
                None => {
                    prop_assert_eq!(from.origin, Origin::Default);
                    prop_assert_eq!(settings.value(*key), defaults.value(*key));
                }
                Some(layer) => {
                    prop_assert_eq!((from.origin, from.name), (layer.origin, Some(&layer.name[..])));
                    let place = from.place.unwrap();
                    let line = layer.text.lines().nth(place.line - 1).unwrap();
                    let written = line.strip_prefix(&prefix);
                    prop_assert_eq!(written, line.get(place.column - 1..));
                    let alone = resolve(line).settings;
                    prop_assert_eq!(settings.value(*key), alone.value(*key));
                }
            }
        }
    }

    #[test]
    fn any_text_is_answered(
        text in "(\\[?(journal|core|backend)\\]?|\\.|sync|args|lock_timeout|=| |\n|'|\"|\\{|\\}|\\[|,|;|\\\\|[0-9]|\u{1b}|\u{85}|é){0,20}|\\PC{0,40}",
    ) {
        let layers = [
            project(&text), Layer::variable(&text), Layer::set(&text), Layer::backend(&text),
            Layer::max_iterations(&text), Layer::more_args([&text[..]]),
        ];
        for layer in layers {
            let reading = Settings::resolve(&[layer]);
            for problem in &reading.problems {
                prop_assert!(!problem.to_string().contains(char::is_control), "{problem:?}");
                prop_assert!(text.get(problem.span.clone()).is_some() || problem.name == "--", "{problem:?}");
            }
            // Whatever was wrong, a plan can be made of what is left.
            let plan = crate::plan::Plan::resolve(&reading.settings, &Default::default());
            prop_assert!(plan.is_ok());
        }
    }
}

#[test]
fn checks_are_tables_with_names() {
    let user = "[checks.lint]\ncommand = 'old'\n[checks.test]\ncommand = 'make test'";
    let project = "[checks.lint]\ncommand = 'cargo clippy'\ntimeout_ms = '90s'";
    let reading = Settings::resolve(&[
        Layer::file(Origin::User, "user.toml", user),
        Layer::file(Origin::Project, "autoloops.toml", project),
    ]);
    assert_eq!(reading.problems, []);
    let shown = as_toml(&reading.settings, Detail::Provenance);
    let checks = shown.split_once("\nchecks").map(|(_, checks)| format!("checks{checks}"));
    insta::assert_snapshot!(checks.unwrap(), @r#"
    checks.test.command = "make test"                # user: user.toml, line 3
    checks.test.timeout_ms = 600000                  # user: user.toml, line 3

    checks.lint.command = "cargo clippy"             # project: autoloops.toml, line 1
    checks.lint.timeout_ms = 90000                   # project: autoloops.toml, line 1
    "#);
    let json: serde_json::Value =
        serde_json::from_str(&as_json(&reading.settings, Detail::Value)).unwrap();
    assert_eq!(json["checks.lint.command"], "cargo clippy");
}

#[test]
fn an_invalid_check_is_an_error_at_its_place() {
    let problems = |text: &str| {
        let reading = Settings::resolve(&[Layer::file(Origin::Project, "a.toml", text)]);
        reading.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let found = [
        "checks = 'make'",
        "checks.test = 'make'",
        "[checks.'a b']\ncommand = 'x'",
        "[checks.test]\ntimeout_ms = 5",
        "[checks.test]\ncommand = ''",
        "[checks.test]\ncommand = 'x'\ntimeout_ms = 0",
        "[checks.test]\ncomand = 'x'",
        "[check.test]\ncommand = 'x'",
    ]
    .map(problems);
    insta::assert_snapshot!(found.join("\n"), @r#"
    a.toml: line 1, column 10: checks is "make"; expected a table like [checks.test]
    a.toml: line 1, column 15: checks.test is "make"; expected a table: [checks.test]
    a.toml: line 1, column 9: invalid name of a check: checks.a b; expected letters, digits, '-' and '_'
    a.toml: line 1, column 9: checks.test has no command; expected a command for the shell: command = "make test"
    a.toml: line 2, column 11: checks.test.command is ""; expected a text that is not blank
    a.toml: line 3, column 14: checks.test.timeout_ms is 0; expected a whole number of milliseconds, at least 1, or a duration like "90s" or "1.5h"
    a.toml: line 1, column 9: checks.test has no command; expected a command for the shell: command = "make test"
    a.toml: line 2, column 1: unknown key checks.test.comand; did you mean command?
    a.toml: line 1, column 2: unknown table check; did you mean checks?
    "#);
}
