//! Presets: loops that are run by name.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![cfg(target_os = "linux")]

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

use autoloop_core::agents::Adapter;
use autoloop_core::topology::{OPENING_EVENT, Topology};
use autoloop_testkit::Sandbox;
use insta::assert_snapshot;

const SHIPPED: [&str; 6] = ["autocode", "autodoc", "autofix", "autoreview", "autospec", "autotest"];

fn sandbox() -> Sandbox {
    shell("exit 9")
}

/// A project whose agent is a shell script. A preset uses only the agent of these settings.
fn shell(agent: &str) -> Sandbox {
    Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, "")
}

/// A path through a topology: for each turn the role that acts and the event that it emits.
type Walk = Vec<(String, String)>;

fn topology(preset: &str) -> Topology {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets").join(preset);
    Topology::parse(&fs::read_to_string(file.join("topology.toml")).unwrap()).unwrap()
}

/// The shortest path from an event to one that is wanted.
fn shortest(topology: &Topology, from: &str, wanted: &dyn Fn(&str, &str) -> bool) -> Option<Walk> {
    let mut seen = BTreeSet::from([from.to_owned()]);
    let mut left = VecDeque::from([(from.to_owned(), Walk::new())]);
    while let Some((event, walk)) = left.pop_front() {
        let route = topology.route(&event);
        assert_eq!(route.roles.len(), 1, "after {event} it is clear who acts");
        for next in route.events {
            let mut walk = walk.clone();
            walk.push((route.roles[0].clone(), next.clone()));
            if wanted(&event, &next) {
                return Some(walk);
            }
            if next != "task.complete" && seen.insert(next.clone()) {
                left.push_back((next, walk));
            }
        }
    }
    None
}

/// A path on which every role emits every event that it may, the completion last.
fn everywhere(topology: &Topology) -> Walk {
    let mut walk = Walk::new();
    loop {
        let last = walk.last().map_or(OPENING_EVENT.to_owned(), |(_, event)| event.clone());
        let done: BTreeSet<String> = walk.iter().map(|(_, event)| event.clone()).collect();
        let is_new = |_: &str, next: &str| next != "task.complete" && !done.contains(next);
        match shortest(topology, &last, &is_new) {
            Some(more) => walk.extend(more),
            None => break,
        }
    }
    let last = walk.last().map_or(OPENING_EVENT.to_owned(), |(_, event)| event.clone());
    let end = shortest(topology, &last, &|_, next| next == "task.complete");
    walk.extend(end.expect("completion can be reached"));
    walk
}

/// The script of an agent that follows this path.
fn script(walk: &Walk) -> String {
    let turn = |(place, (role, event)): (usize, &(String, String))| {
        let number = place + 1;
        format!(
            "[[turn]]\nrole = '{role}'\niteration = {number}\ndo = [{{ emit = '{event}', payload = 'turn {number}' }}]\n"
        )
    };
    let review = "[[turn]]\nreview = true\ndo = [{ print = 'no problems' }]\n";
    walk.iter().enumerate().map(turn).collect::<String>() + review
}

#[test]
fn each_is_carried_to_its_end_by_every_way_there_is() {
    for preset in SHIPPED {
        let sandbox = sandbox();
        let walk = everywhere(&topology(preset));
        sandbox.write("agents.toml", script(&walk));
        let agents = sandbox.path("agents.toml").display().to_string();
        let output = sandbox.run(&[
            "run",
            preset,
            "--set=backend.kind=script",
            &format!("--set=backend.command={agents}"),
            "--set=backend.args=[]",
            "do what has to be done",
        ]);
        assert_eq!(output.code, Some(0), "{preset}: {output}");
        assert!(!output.stderr.contains("warning"), "{preset}: {output}");
        assert_eq!(sandbox.fields("loop.start", "preset"), [preset]);
        assert_eq!(sandbox.fields("loop.start", "preset_dir"), [""; 0]);
        assert_eq!(sandbox.fields("loop.complete", "reason"), ["completion_event"]);
        assert!(sandbox.fields("event.invalid", "emitted").is_empty(), "{preset}");
        assert!(!sandbox.fields("review.finish", "output").is_empty(), "{preset} was reviewed");
        let acted = sandbox.fields("iteration.start", "suggested_roles");
        let roles: Vec<_> = walk.iter().map(|(role, _)| role.clone()).collect();
        assert_eq!(acted, roles, "{preset}");
    }
}

#[test]
fn each_asks_for_the_evidence_that_leads_to_its_last_role() {
    let sandbox = sandbox();
    for preset in SHIPPED {
        let topology = topology(preset);
        let last = [topology.roles.last().unwrap().id.clone()];
        let evidence = topology.handoff.iter().find(|handoff| handoff.roles == last).unwrap();
        let evidence = evidence.event.exact().unwrap();
        sandbox.run(&["init", preset, "-p", preset]);
        let shown = sandbox.run(&["config", "show", preset]);
        assert_eq!(shown.stderr, "", "{preset}");
        let line = |key: &str| {
            let key = format!("event_loop.{key} = ");
            shown.stdout.lines().find_map(|line| line.strip_prefix(&key)).unwrap().to_owned()
        };
        assert!(line("required_events").contains(&format!("\"{evidence}\"")), "{preset}");
        assert_eq!(line("completion_promise"), "\"\"", "{preset}: words complete nothing");
    }
}

/// The copy of the preset of the latest run.
fn copy(sandbox: &Sandbox) -> std::path::PathBuf {
    let run = sandbox.fields("loop.start", "run").pop().unwrap();
    sandbox.path(format!(".autoloop/runs/{run}/loop"))
}

fn prompts(sandbox: &Sandbox) -> Vec<String> {
    sandbox.fields("iteration.start", "prompt")
}

/// Plans; a review then changes the copy; the builder fails at first.
const REVISED: &str = r#"
if [ -n "$AUTOLOOP_REVIEW_MODE" ]; then
    echo 'Mind the gap.' >> "$AUTOLOOP_STATE_DIR/runs/$AUTOLOOP_RUN_ID/loop/harness.md"
    exit 0
fi
case $AUTOLOOP_ALLOWED_ROLES in
    planner) $T emit tasks.ready ;;
    builder) [ -e works ] || exit 9; $T emit review.ready ;;
    critic) $T emit review.passed ;;
    finalizer) $T emit task.complete ;;
esac
"#;

#[test]
fn a_run_has_a_copy_of_its_own_and_finds_it_again() {
    let sandbox = shell(REVISED);
    let review = "--set=review.every_iterations=1";
    let output = sandbox.run(&["run", "autocode", review, "make", "it"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("begins with autocode"), "{output}");
    assert!(prompts(&sandbox)[1].contains("Mind the gap."), "what the review wrote is read again");
    let reviewed = sandbox.fields("review.start", "prompt").remove(0);
    let harness = copy(&sandbox).join("harness.md").display().to_string();
    assert!(sandbox.filter(&harness).starts_with("[DIR]/.autoloop/runs/"));
    assert!(
        reviewed.contains(&sandbox.filter(&harness)),
        "the reviewer is told where the files are"
    );

    // As if the harness had been killed while the builder was running.
    let journal = String::from_utf8(sandbox.read(".autoloop/journal.jsonl")).unwrap();
    let end = journal.rfind("\"topic\": \"backend.finish\"").unwrap();
    sandbox.write_journal(&journal[..=journal[..end].rfind('\n').unwrap()]);
    sandbox.write("works", "");
    let output = sandbox.run(&["run", "--resume", review]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stderr.contains("resumes at iteration 2 with autocode"), "{output}");
    assert!(prompts(&sandbox)[2].contains("Mind the gap."));
    assert!(prompts(&sandbox)[2].contains("make it"));

    let output = sandbox.run(&["run", "autocode", "again", "--set=review.enabled=false"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(!prompts(&sandbox).pop().unwrap().contains("Mind the gap."), "nor any other run's");
}

#[test]
fn a_preset_ignores_the_settings_of_the_projects_own_loop() {
    let sandbox = shell("exit 9");
    sandbox.write("topology.toml", "invalid TOML");
    let settings = String::from_utf8(sandbox.read("autoloops.toml")).unwrap();
    sandbox.write(
        "autoloops.toml",
        settings + "core.state_dir = 'state'\nevent_loop.max_iterations = 0\n",
    );
    let state = sandbox.path("state");
    assert_eq!(sandbox.run(&["run", "autocode", "build it"]).code, Some(1));
    let journal = fs::read_to_string(state.join("journal.jsonl")).unwrap();
    assert!(journal.contains("\"max_iterations\": \"40\""), "{journal}");
    let run = journal.split('"').nth(3).unwrap();
    assert!(state.join("runs").join(run).join("loop/topology.toml").is_file());
    let again = sandbox.run(&["run", &format!("--resume={run}")]);
    assert!(again.stderr.contains("resumes at iteration 1 with autocode"), "{again}");
    assert!(again.stdout.contains("backend_failed"), "{again}");
}

#[test]
fn overrides_go_by_the_name_of_the_preset() {
    let sandbox = shell("exit 9");
    sandbox.write("home/autoloop/overrides/autocode.toml", "event_loop.max_iterations = 7");
    sandbox.run(&["run", "autocode", "build it"]);
    sandbox.run(&["run", "autofix", "fix it"]);
    let first = sandbox.fields("loop.start", "run").remove(0);
    sandbox.run(&["run", &format!("--resume={first}")]);
    assert_eq!(sandbox.fields("loop.start", "max_iterations"), ["7", "24"]);
    let of = sandbox.run(&["run", &format!("--resume={first}")]).stderr;
    assert!(of.contains("iteration 1/7"), "{of}");
}

/// A loop that prints its own name.
fn write_loop(sandbox: &Sandbox, dir: &str, name: &str) {
    sandbox.write(
        format!("{dir}/topology.toml"),
        "[[role]]\nid = 'one'\nemits = ['task.complete']\n[handoff]\n'loop.start' = 'one'\n",
    );
    sandbox.write(format!("{dir}/harness.md"), format!("This is {name}."));
}

const DONE: &str = "$T emit task.complete";

#[test]
fn a_person_has_presets_too() {
    let sandbox = shell(DONE);
    write_loop(&sandbox, "home/autoloop/presets/autofix", "my own");
    write_loop(&sandbox, "home/autoloop/presets/mine", "mine");
    sandbox.write("home/autoloop/presets/mine/README.md", "# mine: does what I like\n");
    sandbox.write("home/autoloop/presets/empty/notes", "");
    assert_snapshot!(sandbox.run(&["presets"]), @r"
    exit 0
    --- stdout
    autocode    build something new in small slices, each reviewed before the next
    autodoc     documentation that is verified by following it
    autofix     (yours)
    autoreview  review a change, and report only what was checked
    autospec    turn an idea into a specification that can be built
    autotest    write the tests that are missing, and prove that they can fail
    mine        (yours) does what I like
    ");
    assert_snapshot!(sandbox.run(&["presets", "show", "mine"]), @r"
    exit 0
    --- stdout
    ==> README.md <==
    # mine: does what I like

    ==> harness.md <==
    This is mine.

    ==> topology.toml <==
    [[role]]
    id = 'one'
    emits = ['task.complete']
    [handoff]
    'loop.start' = 'one'
    ");
    assert_eq!(sandbox.run(&["run", "autofix", "fix it"]).code, Some(0));
    assert!(prompts(&sandbox)[0].contains("This is my own."));
    assert!(copy(&sandbox).join("harness.md").is_file());
    assert_eq!(sandbox.run(&["run", "-p", "mine", "fix it"]).code, Some(0));
    assert!(prompts(&sandbox)[1].contains("This is mine."));
    assert!(prompts(&sandbox)[1].contains("fix it"));
}

#[test]
fn a_directory_comes_before_a_preset_of_its_name() {
    let sandbox = shell(DONE);
    write_loop(&sandbox, "autofix", "the directory");
    sandbox
        .write("autofix/autoloops.toml", "backend.command = 'sh'\nbackend.args = ['../agent.sh']");
    assert_eq!(sandbox.run(&["run", "autofix", "fix it"]).code, Some(0));
    assert!(sandbox.journal().is_empty(), "the directory is the project");
    assert!(!sandbox.read("autofix/.autoloop/journal.jsonl").is_empty());
}

#[test]
fn a_loop_of_another_directory_is_used_where_it_is() {
    let sandbox = shell("[ -e works ] && $T emit task.complete");
    write_loop(&sandbox, "elsewhere/loop", "elsewhere");
    fs::create_dir(sandbox.path("sub")).unwrap();
    sandbox.write("sub/autoloops.toml", "backend.command = 'sh'\nbackend.args = ['../agent.sh']");
    assert_eq!(sandbox.run(&["run", "sub", "-p", "elsewhere/loop", "do", "it"]).code, Some(1));
    assert!(sandbox.journal().is_empty());
    let journal = String::from_utf8(sandbox.read("sub/.autoloop/journal.jsonl")).unwrap();
    let place = sandbox.path("elsewhere/loop");
    let said = format!("\"preset\": \"loop\", \"preset_dir\": \"{}\"", place.display());
    assert!(journal.contains(&said), "{journal}");
    assert!(journal.contains("This is elsewhere."));

    let run = journal.split('"').nth(3).unwrap();
    sandbox.write("sub/works", "").write("elsewhere/loop/harness.md", "This is changed.");
    let output = sandbox.run(&["run", "sub", &format!("--resume={run}")]);
    assert_eq!(output.code, Some(0), "{output}");
    let journal = String::from_utf8(sandbox.read("sub/.autoloop/journal.jsonl")).unwrap();
    assert!(journal.contains("This is changed."), "it is read where it is");
}

#[test]
fn invalid_requests_are_refused() {
    let sandbox = shell("exit 9");
    assert_snapshot!(sandbox.run(&["run", "autofx", "it"]), @r#"
    exit 2
    --- stderr
    autoloop: 'autofx' is neither a directory nor a preset
      hint: did you mean `autoloop run autofix "it"`?
      hint: list the presets with `autoloop presets`
    "#);
    assert_snapshot!(sandbox.run(&["run", "-p", "zzz"]), @r"
    exit 2
    --- stderr
    autoloop: 'zzz' is neither a directory nor a preset
      hint: list the presets with `autoloop presets`, or name the directory of a loop
    ");
    assert_snapshot!(sandbox.run(&["run", "-p", "home/.."]), @r"
    exit 2
    --- stderr
    autoloop: no such directory: home/..
      hint: name the directory that contains autoloops.toml
    ");
    fs::create_dir(sandbox.path("bare")).unwrap();
    assert_snapshot!(sandbox.run(&["run", "-p", "bare"]), @r"
    exit 2
    --- stderr
    autoloop: no loop in bare: neither autoloops.toml nor topology.toml
      hint: name the directory of a loop, or a preset that `autoloop presets` lists
    ");
    assert_snapshot!(sandbox.run(&["run", "./autofix"]), @r"
    exit 2
    --- stderr
    autoloop: no such directory: ./autofix
      hint: name the directory that contains autoloops.toml
    ");
    assert_snapshot!(sandbox.run(&["presets", "show", "autocod"]), @r"
    exit 2
    --- stderr
    autoloop: 'autocod' is neither a directory nor a preset
      hint: did you mean 'autocode'?
      hint: list the presets with `autoloop presets`, or name the directory of a loop
    ");
    assert!(sandbox.journal().is_empty());
}

#[test]
fn a_run_without_its_files_cannot_go_on() {
    let sandbox = shell("exit 9");
    sandbox.run(&["run", "autocode", "build it"]);
    fs::remove_dir_all(copy(&sandbox)).unwrap();
    let run = sandbox.fields("loop.start", "run").remove(0);
    let shown = sandbox.run(&["run", &format!("--resume={run}")]).to_string();
    assert_snapshot!(shown.replace(&run, "[RUN]"), @r"
    exit 1
    --- stderr
    autoloop: cannot resume run '[RUN]': the files of its preset 'autocode' were removed from [DIR]/.autoloop/runs/[RUN]/loop
      hint: start a new run with `autoloop run -p autocode …`
    ");
}

#[test]
fn a_run_that_cannot_begin_leaves_no_copy() {
    let sandbox = shell("exit 9");
    write_loop(&sandbox, "home/autoloop/presets/broken", "broken");
    sandbox.write("home/autoloop/presets/broken/topology.toml", "not TOML");
    assert_eq!(sandbox.run(&["run", "broken", "mend it"]).code, Some(2));
    assert!(!sandbox.path(".autoloop").exists());
}

#[test]
fn a_copy_left_by_a_killed_run_is_not_reused() {
    let sandbox = shell("exit 9");
    // A harness was killed after it copied the preset and before the run was recorded.
    sandbox.write(".autoloop/runs/run-1/loop/harness.md", "half a preset");
    sandbox.run(&["run", "autocode", "build it", "--set=core.run_id_format=counter"]);
    assert_eq!(sandbox.fields("loop.start", "run"), ["run-2"]);
    assert_eq!(sandbox.read(".autoloop/runs/run-1/loop/harness.md"), b"half a preset");
}

/// The message for a newcomer's mistake; checks that nothing was created.
fn refused(sandbox: &Sandbox, args: &[&str]) -> String {
    let output = sandbox.run(args);
    assert_eq!(output.code, Some(2), "{args:?}: {output}");
    assert!(!sandbox.path(".autoloop").exists(), "{args:?} created something");
    output.stderr
}

#[test]
fn a_preset_needs_an_objective() {
    let sandbox = shell("exit 9");
    assert_snapshot!(refused(&sandbox, &["run", "autofix"]), @r#"
    autoloop: no objective for 'autofix'
      hint: name the objective: `autoloop run autofix "what to do"`
      hint: or set event_loop.prompt or event_loop.prompt_file
    "#);
    for args in [
        &["run", "-p", "autofix"][..],
        &["run", "-p", "autofix", "."],
        &["run", "autofix", " "],
        &["run", "--chain", "autofix,autocode"],
    ] {
        let said = refused(&sandbox, args);
        assert!(said.contains("no objective for 'autofix'"), "{args:?}: {said}");
    }
    sandbox.write("chains.toml", "[[chain]]\nname = 'both'\nsteps = ['autodoc', 'autofix']\n");
    let said = refused(&sandbox, &["chain", "run", "both"]);
    assert!(said.contains("no objective for 'autodoc'"), "{said}");
    assert!(said.contains("autoloop chain run both . \""), "{said}");
}

#[test]
fn an_objective_may_stand_in_a_file() {
    let sandbox = shell(DONE);
    for (preset, settings, file) in [
        ("inline", "event_loop.prompt = 'sweep the yard'", "unused"),
        ("file", "event_loop.prompt_file = 'TODAY.md'", "TODAY.md"),
    ] {
        let dir = format!("home/autoloop/presets/{preset}");
        write_loop(&sandbox, &dir, preset);
        sandbox.write(format!("{dir}/autoloops.toml"), settings);
        sandbox.write(format!("{dir}/{file}"), "sweep the yard");
        let output = sandbox.run(&["run", preset]);
        assert_eq!(output.code, Some(0), "{output}");
    }
    sandbox.write("home/autoloop/overrides/autofix.toml", "event_loop.prompt = 'mend the gate'");
    assert_ne!(sandbox.run(&["run", "autofix", "-i", "1"]).code, Some(2));
    fs::remove_file(sandbox.path("home/autoloop/overrides/autofix.toml")).unwrap();
    assert!(sandbox.at_home("git").args(["init", "-q"]).status().unwrap().success());
    sandbox.write("PROMPT.md", "mend the fence");
    assert_ne!(sandbox.run(&["run", "autofix", "-i", "1"]).code, Some(2));
    let objectives = sandbox.fields("loop.start", "objective");
    assert_eq!(objectives, ["sweep the yard", "sweep the yard", "mend the gate", "mend the fence"]);
}

#[test]
fn a_loop_of_a_known_client_needs_an_objective_too() {
    let sandbox = shell("exit 9");
    write_loop(&sandbox, ".", "mine");
    sandbox.write("autoloops.toml", "backend.command = 'claude'");
    let said = refused(&sandbox, &["run", "."]);
    assert!(said.contains("no objective for the loop in ."), "{said}");
    assert!(said.contains("autoloop run . \""), "{said}");
}

#[test]
fn a_directory_without_a_loop_is_refused() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    sandbox.write("empty/notes", "");
    assert_snapshot!(refused(&sandbox, &["run", ".", "autofix", "it crashes"]), @r#"
    autoloop: no autoloops.toml in .
      hint: run a preset there: `autoloop run autofix "it crashes"`
      hint: or write a loop of your own: `autoloop init .`
    "#);
    assert_snapshot!(refused(&sandbox, &["run", "empty", "it crashes"]), @r#"
    autoloop: no autoloops.toml in empty
      hint: run a preset there: `autoloop run -p autofix empty "it crashes"`
      hint: or write a loop of your own: `autoloop init empty`
    "#);
    assert_snapshot!(refused(&sandbox, &["run", "empty"]), @r#"
    autoloop: no autoloops.toml in empty
      hint: run a preset there: `autoloop run -p autofix empty "what to do"`
      hint: or write a loop of your own: `autoloop init empty`
    "#);
    assert!(!sandbox.path("empty/.autoloop").exists());
}

#[test]
fn words_in_the_wrong_order_are_put_right() {
    let sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
    sandbox.write("src/main.rs", "").write("PLAN.md", "build it");
    for (typed, advice) in [
        (&["run", "fix the bug"][..], "`autoloop run autofix \"fix the bug\"`"),
        (&["run", "fix", "the", "bug"], "`autoloop run autofix \"fix the bug\"`"),
        (&["run", "it crashes", "autofix"], "`autoloop run autofix \"it crashes\"`"),
        (&["run", "it", "crashes", "autofix"], "`autoloop run autofix \"it crashes\"`"),
        (&["run", "autofix", ".", "it crashes"], "`autoloop run -p autofix . \"it crashes\"`"),
        (&["run", "autofix", "src", "it crashes"], "`autoloop run -p autofix src \"it crashes\"`"),
        (&["run", "src", "autofix", "it crashes"], "`autoloop run -p autofix src \"it crashes\"`"),
        (&["run", "autofix", "it crashes", "src"], "`autoloop run -p autofix src \"it crashes\"`"),
        (
            &["run", "-p", "autofix", "it crashes", "src"],
            "`autoloop run -p autofix src \"it crashes\"`",
        ),
        (&["run", "autofx", "it crashes"], "`autoloop run autofix \"it crashes\"`"),
        (&["run", "autofix,autodoc", "it"], "`autoloop run --chain autofix,autodoc \"it\"`"),
        (&["run", "PLAN.md"], "`autoloop run autocode \"$(cat PLAN.md)\"`"),
        (&["run", "./PLAN.md"], "`autoloop run autocode \"$(cat ./PLAN.md)\"`"),
        (&["run", "costs $5 \"now\""], "`autoloop run autofix 'costs $5 \"now\"'`"),
        (&["run"], "`autoloop run autofix \"what to do\"`"),
        (&["autofix", "it crashes"], "autoloop run autofix \"it crashes\""),
        (&["fix the bug"], "autoloop run autofix \"fix the bug\""),
    ] {
        let said = refused(&sandbox, typed);
        assert!(said.contains(advice), "{typed:?}: {said}");
    }
    // A directory with a loop takes precedence over a preset.
    sandbox.write("autoloops.toml", "");
    for (typed, advice) in [
        (&["run", "fix the bug"][..], "`autoloop run . \"fix the bug\"`"),
        (&["run", ".", "autofix", "it crashes"], "`autoloop run autofix \"it crashes\"`"),
        (&["run"], "`autoloop run . \"what to do\"`"),
    ] {
        let said = refused(&sandbox, typed);
        assert!(said.contains(advice), "{typed:?}: {said}");
    }
}

#[test]
fn no_preset_names_a_client() {
    let mut places = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets")];
    let mut files = 0;
    while let Some(place) = places.pop() {
        if place.is_dir() {
            places.extend(fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        files += 1;
        let text = fs::read_to_string(&place).unwrap().to_lowercase();
        let is_named =
            |name: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
        for client in Adapter::ALL {
            assert!(!is_named(client.program), "{} names {}", place.display(), client.program);
        }
    }
    assert!(files > SHIPPED.len(), "{files}");
}
