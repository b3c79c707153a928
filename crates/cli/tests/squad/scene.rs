//! Projects with a plan and scripted agents, and what a squad left there.

use std::collections::BTreeMap;

use autoloop_testkit::Sandbox;
use autoloop_testkit::slots::git;

/// The scripts of the agents, by the phase that they are started for. `$T` is the task, and `$N` how often its builder
/// has worked, by the lines of its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agents<'a> {
    pub(crate) build: &'a str,
    pub(crate) revise: &'a str,
    /// Of the completed work of a loop.
    pub(crate) review: &'a str,
    pub(crate) checkpoint: &'a str,
    /// Of the tasks, the plan and the merged work.
    pub(crate) judge: &'a str,
    pub(crate) conflict: &'a str,
    pub(crate) enumerate: &'a str,
    pub(crate) plan: &'a str,
}

/// Agents that succeed.
pub(crate) const GOOD: Agents<'_> = Agents {
    build: "work; complete",
    revise: "work; complete",
    review: "answer true",
    checkpoint: "answer true",
    judge: "judge true",
    conflict: "exit 1",
    enumerate: "exit 1",
    plan: "exit 1",
};

const WORDS: &str = r#"
call() { "$AUTOLOOP_BIN" mcp call "$@"; }
work() { grep -qx "$AUTOLOOP_PHASE $AUTOLOOP_ITERATION" "$T.txt" 2>/dev/null || echo "$AUTOLOOP_PHASE $AUTOLOOP_ITERATION" >> "$T.txt"; }
complete() { call complete_task "{\"taskId\":\"$T\"}"; }
answer() { call set_loop_review_result "{\"loopId\":\"$L\",\"passed\":$1${2:+,$2}}"; }
judge() { call set_review_result "{\"passed\":$1${2:+,$2}}"; }
T=$AUTOLOOP_TASK_ID L=$AUTOLOOP_LOOP_ID
N=$(cat "$T.txt" 2>/dev/null | wc -l)
"#;

/// A repository with these groups of tasks as `plan.toml`, and these agents.
pub(crate) fn project(agents: Agents<'_>, groups: &[&[&str]], settings: &str) -> Sandbox {
    let Agents { build, revise, review, checkpoint, judge, conflict, enumerate, plan } = agents;
    let phases = [
        ("build", build),
        ("revise", revise),
        ("checkpoint", checkpoint),
        ("conflict", conflict),
        ("enumerate", enumerate),
        ("plan", plan),
    ];
    let cases: String =
        phases.iter().map(|(phase, script)| format!("{phase})\n{script}\n;;\n")).collect();
    let agent = format!(
        "{WORDS}\ncase \"$AUTOLOOP_PHASE\" in\n{cases}review)\nif [ -n \"$L\" ]; then\n{review}\nelse\n{judge}\nfi;;\nesac\n"
    );
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), &agent, settings);
    let script = sandbox.path("agent.sh").display().to_string();
    let text = String::from_utf8_lossy(&sandbox.read("autoloops.toml")).into_owned();
    // The agent is found from any worktree.
    sandbox.write("autoloops.toml", text.replace("'agent.sh'", &format!("'{script}'")));
    sandbox.write("plan.toml", plan_text(groups));
    sandbox.write(".gitignore", "home/\n").write("README.md", "one\ntwo\nthree\n");
    for args in
        [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]]
    {
        git(&sandbox, args);
    }
    sandbox
}

fn plan_text(groups: &[&[&str]]) -> String {
    let task = |id: &&str| {
        format!(
            "[[task]]\nid = \"{id}\"\ntitle = \"write {id}\"\ndescription = \"write {id}.txt\"\n"
        )
    };
    let tasks: String = groups.iter().copied().flatten().map(task).collect();
    let group = |ids: &&[&str]| format!("[[group]]\ntasks = {ids:?}\n");
    tasks + &groups.iter().map(group).collect::<String>()
}

/// Runs a squad with the plan, and returns what it prints without its id.
pub(crate) fn squad(sandbox: &Sandbox, flags: &str) -> String {
    let words = ["squad", "--plan", "plan.toml", "--no-watch"];
    let words: Vec<&str> = words.into_iter().chain(flags.split_whitespace()).collect();
    told(sandbox, &words)
}

/// The same, where it reaches its goal.
pub(crate) fn completes(sandbox: &Sandbox, flags: &str) {
    let said = squad(sandbox, flags);
    assert!(said.starts_with("exit 0\n"), "{said}");
}

/// Runs `autoloop …` and returns its output, without the squad's id.
pub(crate) fn told(sandbox: &Sandbox, args: &[&str]) -> String {
    hidden(sandbox, &sandbox.run(args).to_string())
}

/// A text without the ids of squads.
pub(crate) fn hidden(sandbox: &Sandbox, text: &str) -> String {
    let runs = sandbox.fields("squad.start", "run");
    runs.iter().fold(text.to_owned(), |text, run| text.replace(run, "[RUN]"))
}

/// The records of a topic, as their named fields; an absent field is `-`.
pub(crate) fn rows(sandbox: &Sandbox, topic: &str, names: &[&str]) -> Vec<String> {
    let journal = sandbox.journal();
    let records = journal.lines().filter_map(|line| {
        let record: BTreeMap<String, serde_json::Value> = serde_json::from_str(line).ok()?;
        (record.get("topic")? == topic).then_some(record)
    });
    let row = |record: BTreeMap<String, serde_json::Value>| {
        let fields = record.get("fields").cloned().unwrap_or_default();
        let value = |name: &&str| match fields.get(*name).or(record.get(*name)) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => "-".to_owned(),
        };
        names.iter().map(value).collect::<Vec<_>>().join(" ")
    };
    records.map(row).map(|row| hidden(sandbox, &row)).collect()
}

/// What agents did, in order: the phase, the task and the attempt.
pub(crate) fn turns(sandbox: &Sandbox) -> Vec<String> {
    rows(sandbox, "squad.turn", &["phase", "loop_id", "attempt"])
}

/// How often agents were started in a phase.
pub(crate) fn count(sandbox: &Sandbox, phase: &str) -> usize {
    sandbox.fields("squad.turn", "phase").iter().filter(|found| *found == phase).count()
}

/// The files that the commit checked out in the project has, but for those of the scene.
pub(crate) fn files(sandbox: &Sandbox) -> Vec<String> {
    let ours = ["README.md", "agent.sh", "autoloops.toml", "plan.toml", ".gitignore"];
    let found = git(sandbox, &["ls-tree", "-r", "--name-only", "HEAD"]);
    found.lines().filter(|name| !ours.contains(name)).map(str::to_owned).collect()
}

/// The subjects of the commits in the project, the latest first, without merges.
pub(crate) fn subjects(sandbox: &Sandbox) -> Vec<String> {
    git(sandbox, &["log", "--no-merges", "--format=%s"]).lines().map(str::to_owned).collect()
}

/// What `autoloop store sql` prints.
pub(crate) fn sql(sandbox: &Sandbox, query: &str) -> String {
    let done = sandbox.run(&["store", "sql", query]);
    assert_eq!(done.code, Some(0), "{done}");
    hidden(sandbox, done.stdout.trim_end())
}
