//! Projects on a real disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::project::Overrides;
use crate::world::RealDisk;
use autoloop_core::config::{BackendKind, Key, Value};
use tempfile::TempDir;

/// A directory with a project in it.
struct Stage(TempDir);

impl Stage {
    fn new(files: &[(&str, &str)]) -> Stage {
        let stage = Stage(tempfile::tempdir().unwrap());
        fs::create_dir(stage.path("loop")).unwrap();
        for (name, text) in files {
            stage.write(name, text);
        }
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn project(&self) -> Project {
        let mut project = Project::new(&self.path("loop")).unwrap();
        project.env.user_file = Some(self.path("user/config.toml"));
        project
    }

    fn load(&self) -> Loaded {
        self.project().load(&RealDisk).unwrap()
    }

    /// Why it cannot be loaded.
    fn refusal(&self) -> String {
        self.shown(self.project().load(&RealDisk).unwrap_err().to_string())
    }

    fn warnings(&self) -> String {
        let warnings = self.load().warnings;
        self.shown(warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    fn shown(&self, text: String) -> String {
        text.replace(&self.0.path().display().to_string(), "ROOT")
    }
}

/// The metareview.md that the reference prints.
const SAMPLE: &str = "You are the loop's meta agent.\n\nPrefer bounded hygiene edits to `autoloops.toml`, `.autoloop/context.md`, `.autoloop/logs/`, and `.autoloop/docs/*.md`.\n";

#[test]
fn an_empty_directory_is_a_loop_with_defaults() {
    let stage = Stage::new(&[]);
    let loaded = stage.load();
    assert_eq!(loaded.settings, Settings::default());
    assert_eq!(loaded.topology, Topology::default());
    assert_eq!((loaded.objective, loaded.harness, loaded.review_prompt), (None, None, None));
    assert_eq!(loaded.warnings, []);
    assert_eq!(loaded.files.journal, stage.path("loop/.autoloop/journal.jsonl"));
}

#[test]
fn everything_is_read_and_filled_in() {
    let stage = Stage::new(&[
        (
            "loop/autoloops.toml",
            "[event_loop]\nprompt_file = 'TASK.md'\n[core]\nstate_dir = 'state'",
        ),
        ("loop/TASK.md", "make {{STATE_DIR}} literal"),
        (
            "loop/topology.toml",
            "completion = 'done.now'\n[[role]]\nid = 'a'\nprompt_file = 'roles/a.md'\nbackend_command = 'pi'\n[[role]]\nid = 'b'\nprompt = 'see {{STATE_DIR}}'\n[[role]]\nid = 'c'\n",
        ),
        ("loop/roles/a.md", "{{TOOL_PATH}} emit, in {{PRESET_DIR}}"),
        ("loop/harness.md", "rules in {{STATE_DIR}}"),
        ("loop/metareview.md", SAMPLE),
    ]);
    let loaded = stage.load();
    assert_eq!(loaded.warnings, []);
    assert_eq!(loaded.objective.as_deref(), Some("make {{STATE_DIR}} literal"));
    let shown = |text: &str| stage.shown(text.to_owned());
    assert_eq!(shown(loaded.role_prompt("a")), "ROOT/loop/state/autoloops emit, in ROOT/loop");
    assert_eq!(shown(loaded.role_prompt("b")), "see ROOT/loop/state");
    assert_eq!((loaded.role_prompt("c"), loaded.role_prompt("unknown")), ("", ""));
    assert_eq!(shown(loaded.harness.as_deref().unwrap()), "rules in ROOT/loop/state");
    assert_eq!(loaded.review_prompt.as_deref(), Some(SAMPLE));
    assert_eq!(loaded.plan.completion.event, "done.now");
    assert_eq!(loaded.settings.origin(Key::CompletionEvent), Origin::Topology);
    let role = loaded.topology.role("a").unwrap();
    assert_eq!(loaded.plan.backend_for(role).kind, BackendKind::Pi);
}

#[test]
fn every_layer_has_its_place() {
    let set = |number: u64| format!("event_loop.max_iterations = {number}");
    let stage = Stage::new(&[("user/config.toml", &set(11))]);
    fs::create_dir(stage.path(".git")).unwrap();
    let mut project = stage.project();
    let expect = |project: &Project, number: i64, origin: Origin| {
        let settings = project.load(&RealDisk).unwrap().settings;
        assert_eq!(settings.value(Key::MaxIterations), &Value::Number(number));
        assert_eq!(settings.origin(Key::MaxIterations), origin);
    };
    expect(&project, 11, Origin::User);
    stage.write("loop/autoloops.conf", &set(12));
    expect(&project, 12, Origin::Project);
    stage.write("loop/autoloops.toml", &set(13));
    expect(&project, 13, Origin::Project);
    stage.write("user/overrides/loop.toml", &set(14));
    stage.write("user/overrides/other.toml", &set(99));
    expect(&project, 14, Origin::UserOverride);
    stage.write(".autoloop/overrides/loop.toml", &set(15));
    expect(&project, 15, Origin::RepoOverride);
    project.env.set = Some("event_loop.max_iterations=16;".into());
    expect(&project, 16, Origin::Environment);
    project.overrides.max_iterations = Some("17".into());
    expect(&project, 17, Origin::Flag);
    project.overrides.set = vec!["event_loop.max_iterations=18".into()];
    expect(&project, 18, Origin::Flag);
    project.overrides = Overrides {
        backend: Some("pi --fast".into()),
        more_args: vec!["-x y".into()],
        ..Overrides::default()
    };
    let backend = project.load(&RealDisk).unwrap().plan.backend;
    assert_eq!((&backend.command[..], backend.kind), ("pi", BackendKind::Pi));
    assert_eq!(backend.args, ["--fast", "-x y"]);
}

#[test]
fn of_a_project_only_what_is_about_it_holds_for_a_preset_elsewhere() {
    let stage = Stage::new(&[
        (
            "preset/autoloops.toml",
            "event_loop.max_iterations = 7\nbackend.command = 'claude'\ncore.state_dir = 'no'",
        ),
        ("preset/harness.md", "from the preset"),
        ("loop/autoloops.toml", "event_loop.max_iterations = 9\nbackend.command = 'pi'"),
        ("loop/harness.md", "from the project"),
    ]);
    let project = Project::with_preset(&stage.path("loop"), &stage.path("preset")).unwrap();
    assert_eq!(project.preset, "preset");
    let loaded = project.load(&RealDisk).unwrap();
    assert_eq!(loaded.plan.max_iterations, 7);
    assert_eq!(loaded.settings.origin(Key::MaxIterations), Origin::Preset);
    assert_eq!(loaded.plan.backend.command, "pi");
    assert_eq!(loaded.harness.as_deref(), Some("from the preset"));
    assert_eq!(
        *loaded.files.state_dir,
        *stage.path("loop/.autoloop"),
        "a preset has no say in this"
    );
}

#[test]
fn where_things_are_kept_is_known_before_a_preset_is_in_place() {
    let stage = Stage::new(&[
        ("loop/autoloops.toml", "core.state_dir = 'state'\nevent_loop.max_iterations = 0"),
        ("loop/topology.toml", "not TOML"),
        ("user/overrides/mine.toml", "core.run_id_format = 'counter'"),
    ]);
    let mut project = Project::before_preset(&stage.path("loop"), "mine");
    project.env.user_file = Some(stage.path("user/config.toml"));
    let outline = project.outline(&Sources::new(&RealDisk)).unwrap();
    assert_eq!(*outline.files.state_dir, *stage.path("loop/state"));
    assert_eq!(outline.files.journal, stage.path("loop/state/journal.jsonl"));
    assert_eq!(outline.settings.value(Key::RunIdFormat), &Value::Text("counter".into()));

    // The preset that is put in place then keeps things there too.
    stage.write("preset/autoloops.toml", "core.state_dir = 'elsewhere'");
    project.loop_dir = stage.path("preset");
    assert_eq!(project.load(&RealDisk).unwrap().files, outline.files);
    project.dir = stage.path("nowhere");
    let refused = stage.shown(project.outline(&Sources::new(&RealDisk)).unwrap_err().to_string());
    assert_eq!(refused, "no such directory: ROOT/nowhere");
}

#[test]
fn the_usual_files_need_not_exist_even_when_they_are_named() {
    let text = "harness.instructions_file = 'harness.md'\nreview.prompt_file = 'metareview.md'";
    let loaded = Stage::new(&[("loop/autoloops.toml", text)]).load();
    assert_eq!((loaded.harness, loaded.review_prompt), (None, None));
    assert_eq!(loaded.warnings, []);
}

#[test]
fn what_is_wrong_is_told() {
    let stage = Stage::new(&[("loop/autoloops.toml", "backend.timeout_ms = -1\nx = 1")]);
    insta::assert_snapshot!(stage.refusal(), @r#"ROOT/loop/autoloops.toml: line 1, column 22: backend.timeout_ms is -1; expected a whole number of milliseconds, at least 1, or a duration like "90s" or "1.5h""#);
    stage.write("loop/autoloops.toml", "harness.instructions_file = 'rules.md'");
    insta::assert_snapshot!(stage.refusal(), @"ROOT/loop/autoloops.toml: line 1, column 29: harness.instructions_file names a missing file: ROOT/loop/rules.md");
    stage.write("loop/autoloops.toml", "event_loop.prompt_file = 'TASK.md'");
    insta::assert_snapshot!(stage.refusal(), @"ROOT/loop/autoloops.toml: line 1, column 26: event_loop.prompt_file names a missing file: ROOT/loop/TASK.md");
    stage.write("loop/autoloops.toml", "");
    stage.write("loop/topology.toml", "[[role]]\nid = 'a'\nprompt_file = 'roles/a.md'");
    insta::assert_snapshot!(stage.refusal(), @"ROOT/loop/topology.toml: line 3, column 15: prompt_file of role 'a' is 'roles/a.md'; there is no ROOT/loop/roles/a.md");
    stage.write("loop/topology.toml", "[[role]]\nid = 'a'\nbackend_kind = 'mcp'");
    insta::assert_snapshot!(stage.refusal(), @r#"ROOT/loop/topology.toml: line 3, column 16: backend_kind of role 'a' is "mcp"; expected "command", "claude", "codex", "gemini", "opencode", "pi", "acp", "script" or "replay" (write "acp")"#);
    stage.write("loop/topology.toml", "[[role]]\n");
    insta::assert_snapshot!(stage.refusal(), @"ROOT/loop/topology.toml: line 1, column 1: missing field `id`, in `role`");
    stage.write("loop/topology.toml", &"#".repeat(1024 * 1024 + 1));
    insta::assert_snapshot!(stage.refusal(), @"cannot read ROOT/loop/topology.toml: it has 1048577 bytes; the limit is 1048576");
    fs::write(stage.path("loop/autoloops.toml"), b"\xff").unwrap();
    insta::assert_snapshot!(stage.refusal(), @"cannot read ROOT/loop/autoloops.toml: it is not UTF-8");
    fs::remove_file(stage.path("loop/autoloops.toml")).unwrap();
    fs::create_dir(stage.path("loop/autoloops.toml")).unwrap();
    insta::assert_snapshot!(stage.refusal(), @"cannot read ROOT/loop/autoloops.toml: it is not a regular file");
    fs::remove_dir_all(stage.path("loop")).unwrap();
    insta::assert_snapshot!(stage.refusal(), @"no such directory: ROOT/loop");
}

#[test]
fn what_cannot_be_read_is_not_taken_for_missing() {
    let stage = Stage::new(&[("loop/autoloops.toml", "")]);
    let file = stage.path("loop/autoloops.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    // Who may read everything cannot see this.
    if fs::read(&file).is_err() {
        insta::assert_snapshot!(stage.refusal(), @"cannot read ROOT/loop/autoloops.toml: Permission denied (os error 13)");
    }
}

#[test]
fn a_named_file_of_the_person_has_to_exist() {
    let stage = Stage::new(&[]);
    let mut project = stage.project();
    project.env.is_named = true;
    let error = project.load(&RealDisk).unwrap_err().to_string();
    insta::assert_snapshot!(stage.shown(error), @"AUTOLOOP_CONFIG names a missing file: ROOT/user/config.toml");
    project.preset = "../x".into();
    insta::assert_snapshot!(project.load(&RealDisk).unwrap_err(), @"invalid preset name '../x': it must be usable in the path of a file");
}

#[test]
fn what_is_odd_is_told_and_holds() {
    let stage = Stage::new(&[
        ("loop/autoloops.toml", "zzz = 1\nreview.prompt_file = 'none.md'"),
        ("loop/harness.md", "{{STATEDIR}} {{ other }} {{lower}}"),
        ("loop/topology.toml", "[[role]]\nid = 'a'\nprompt = \"{{X}}\"\nemit = []\n[[stage]]"),
    ]);
    insta::assert_snapshot!(stage.warnings(), @"
    ROOT/loop/autoloops.toml: line 1, column 1: unknown key zzz; no such key (run `autoloop config show` to list all keys)
    ROOT/loop/topology.toml: line 4, column 1: unknown key role.emit; did you mean emits?
    ROOT/loop/topology.toml: line 5, column 3: unknown key stage; no such key
    ROOT/loop/topology.toml, prompt of role a: line 1, column 1: unknown placeholder X; left as it is (the placeholders are STATE_DIR, TOOL_PATH and PRESET_DIR)
    ROOT/loop/harness.md: line 1, column 1: unknown placeholder STATEDIR; left as it is (the placeholders are STATE_DIR, TOOL_PATH and PRESET_DIR)
    ROOT/loop/autoloops.toml: line 2, column 22: review.prompt_file names a missing file: ROOT/loop/none.md
    ");
    assert_eq!(stage.load().harness.as_deref(), Some("{{STATEDIR}} {{ other }} {{lower}}"));
}

#[test]
fn the_objective_may_stand_in_prompt_md_at_the_top_of_the_repository() {
    let stage = Stage::new(&[("PROMPT.md", "make it so\n")]);
    assert_eq!(stage.load().objective, None, "there is no repository");
    fs::create_dir(stage.path(".git")).unwrap();
    assert_eq!(stage.load().objective.as_deref(), Some("make it so\n"));
    stage.write("loop/autoloops.toml", "event_loop.prompt = 'something else'");
    assert_eq!(
        stage.load().objective.as_deref(),
        Some("something else"),
        "what is set comes first"
    );
    stage.write("loop/autoloops.toml", "core.state_dir = 'state'");
    stage.write("loop/state/plan.md", "1. make it so");
    assert_eq!(stage.load().objective, None, "there is a plan by now");
    fs::remove_file(stage.path("loop/state/plan.md")).unwrap();
    stage.write("PROMPT.md", " \n");
    assert_eq!(stage.load().objective, None, "nothing stands in it");
}
