//! The command line of an agent, by the kind of its client.

#![expect(
    clippy::disallowed_methods,
    reason = "adds to the settings of a client that a variable of the harness has"
)]

use std::ffi::{OsStr, OsString};
use std::path::Path;

use autoloop_core::agents::{Adapter, Options};
use autoloop_core::config::{BackendKind, PromptMode};
use autoloop_core::plan::BackendPlan;

use super::Place;
use super::prompt_delivery::{Delivery, delivery};
use crate::world::{Job, Limits};

/// The hidden command of this program that plays a script.
pub const PLAY_SCRIPT: &str = "__script";
/// The hidden command of this program that speaks the Agent Client Protocol with an agent.
const ACP: &str = "__acp";
/// The hidden command of this program that answers out of a journal.
pub const REPLAY: &str = "__replay";

/// The job of an agent that works in a directory without being part of a run.
pub(crate) fn job_without_run(backend: &BackendPlan, dir: &Path, prompt: &str) -> Job {
    let place = Place::Worktree { dir, project: dir };
    let (job, _) = job(backend, Path::new(""), place, None, prompt, Path::new(""));
    Job { dir: Some(dir.to_owned()), ..job }
}

/// The job of an agent, and how the prompt reaches it. Its client is given the `server` of tools, if it can be.
pub(super) fn job(
    backend: &BackendPlan,
    program: &Path,
    place: Place<'_>,
    server: Option<&Path>,
    prompt: &str,
    prompt_path: &Path,
) -> (Job, Delivery) {
    let delivery = delivery(backend.prompt_mode, markers(backend.kind), prompt.as_bytes());
    let tools = server.and_then(|server| tools(backend, server)).unwrap_or_default();
    let (program, mut args) = command(backend, program, place, &tools.args);
    let mut stdin = Vec::new();
    match delivery.mode {
        PromptMode::Arg => args.push(prompt.into()),
        PromptMode::Stdin => {
            let last = backend.kind.adapter().and_then(Adapter::stdin_argument);
            args.extend(last.map(OsString::from));
            stdin.extend_from_slice(prompt.as_bytes());
        }
        PromptMode::File => args.push(prompt_argument(backend.kind, prompt_path)),
    }
    let env = backend.variables().map(|(name, value)| (name.into(), value.into()));
    let of_tools = tools.env.into_iter().map(|(name, value)| (name.into(), value.into()));
    let job = Job {
        program,
        args,
        inherits: backend.inherits(),
        env: env.chain(of_tools).collect(),
        stdin,
        limits: Limits {
            deadline: Some(backend.timeout),
            grace: backend.grace,
            spooled: backend.output_cap,
            ..Limits::default()
        },
        stream: backend.stream(),
        leftovers: backend.leftovers,
        ..Job::default()
    };
    (job, delivery)
}

/// What gives the client of an agent the tools that `server mcp` serves.
fn tools(backend: &BackendPlan, server: &Path) -> Option<Options> {
    let server = std::path::absolute(server).ok()?.into_os_string().into_string().ok()?;
    if backend.kind == BackendKind::Acp {
        return Some(Options { args: vec![format!("--mcp={server}")], env: Vec::new() });
    }
    let variable = |name: &str| {
        let set = backend.variables().filter(|(known, _)| *known == name).last();
        set.map(|(_, value)| value.to_owned()).or_else(|| std::env::var(name).ok())
    };
    backend.kind.adapter()?.tools(&server, variable)
}

/// The program and the arguments before the prompt, with those for its tools.
fn command(
    backend: &BackendPlan,
    ourselves: &Path,
    place: Place<'_>,
    tools: &[String],
) -> (OsString, Vec<OsString>) {
    // Arguments that a client does not take are refused before the run begins.
    let given = backend.arguments().unwrap_or_else(|_| backend.args.clone());
    let args = || given.iter().map(|arg| argument(OsStr::new(arg), place));
    let tools = || tools.iter().map(OsString::from);
    let file = |name: &str| match place {
        Place::Worktree { project, .. } => absolute(project, OsStr::new(name)),
        Place::Project(_) => OsString::from(name),
    };
    let program = || match backend.command.contains('/') {
        true => file(&backend.command),
        false => OsString::from(&backend.command),
    };
    match backend.kind {
        BackendKind::Script => {
            let play = [OsString::from(PLAY_SCRIPT), file(&backend.command)];
            (ourselves.into(), play.into_iter().chain(args()).collect())
        }
        BackendKind::Replay => {
            let runs = backend.args.iter().map(|run| format!("--run={run}").into());
            let journal = ["--".into(), file(&backend.command)];
            let words = [OsString::from(REPLAY)].into_iter().chain(runs).chain(journal);
            (ourselves.into(), words.collect())
        }
        BackendKind::Acp => {
            let model = backend.model.iter().map(|model| format!("--model={model}").into());
            let words = [OsString::from(ACP)].into_iter().chain(model).chain(tools());
            (ourselves.into(), words.chain(["--".into(), program()]).chain(args()).collect())
        }
        _ => (program(), args().chain(tools()).collect()),
    }
}

/// An argument as the agent needs it. In a worktree, a relative path that exists only in the project becomes absolute:
/// scripts of agents are often not committed.
fn argument(arg: &OsStr, place: Place<'_>) -> OsString {
    let Place::Worktree { dir, project } = place else { return arg.to_owned() };
    let is_path = arg.as_encoded_bytes().iter().any(|byte| b"./".contains(byte));
    match is_path && !dir.join(arg).exists() && project.join(arg).is_file() {
        true => absolute(project, arg),
        false => arg.to_owned(),
    }
}

fn absolute(project: &Path, name: &OsStr) -> OsString {
    std::path::absolute(project.join(name)).map_or_else(|_| name.to_owned(), OsString::from)
}

/// Characters that a prompt argument may not begin with: a client reads them as an option or a file name.
fn markers(kind: BackendKind) -> &'static [u8] {
    match kind {
        BackendKind::Pi => b"-@",
        kind if kind.adapter().is_some() => b"-",
        _ => b"",
    }
}

/// The argument that names the prompt file. Pi would read a plain path as the prompt.
fn prompt_argument(kind: BackendKind, path: &Path) -> OsString {
    match kind {
        BackendKind::Pi => [OsStr::new("@"), path.as_os_str()].into_iter().collect(),
        _ => path.into(),
    }
}

/// How a prompt reached the agent, as the journal says it.
pub(super) fn mode_name(delivery: Delivery) -> String {
    delivery.mode.to_string()
}

#[cfg(test)]
mod tests {
    use autoloop_core::config::{Layer, Origin, Settings};
    use autoloop_core::plan::Plan;
    use autoloop_core::topology::Topology;

    use super::*;

    fn backend(settings: &str) -> BackendPlan {
        let layer = Layer::file(Origin::Project, "autoloops.toml", settings);
        let settings = Settings::resolve(&[layer]).settings;
        Plan::resolve(&settings, &Topology::default()).unwrap().backend
    }

    /// The job of an agent in the project `/p` whose prompt is `prompt`.
    fn job_of(backend: &BackendPlan, server: Option<&Path>) -> Job {
        let (ours, place) = (Path::new("/bin/autoloop"), Place::Project(Path::new("/p")));
        job(backend, ours, place, server, "prompt", Path::new("/p/prompt.md")).0
    }

    fn words(job: &Job) -> String {
        let words = [&job.program].into_iter().chain(&job.args).map(|word| word.to_str().unwrap());
        words.collect::<Vec<_>>().join(" ")
    }

    /// The command line that settings lead to, and the characters that a prompt may not begin with.
    fn line(settings: &str) -> String {
        let backend = BackendPlan { prompt_mode: PromptMode::Stdin, ..backend(settings) };
        let markers = String::from_utf8_lossy(markers(backend.kind));
        format!("{} [{markers}]", words(&job_of(&backend, None)))
    }

    /// The command line of an agent with tools, and the variables that are set for them.
    fn with_tools(settings: &str) -> String {
        let backend = backend(settings);
        let server = Path::new("/p/.autoloop/autoloop");
        let (with, without) = (job_of(&backend, Some(server)), job_of(&backend, None));
        let added = with.env.iter().filter(|set| !without.env.contains(set));
        let added =
            added.map(|(name, value)| format!("\n  {}={}", name.display(), value.display()));
        format!("{}{}", words(&with), added.collect::<String>())
    }

    #[test]
    fn a_client_is_given_the_tools_before_the_prompt() {
        let lines = [
            "backend.prompt_mode = 'arg'",
            "backend = { command = 'codex', model = 'm' }",
            "backend = { kind = 'opencode', env = ['OPENCODE_CONFIG_CONTENT={\"share\": \"disabled\"}'] }",
            "backend = { command = 'opencode', kind = 'acp', args = ['acp'], model = 'm' }",
            "backend.command = 'gemini'",
            "backend = { command = 'claude', kind = 'command' }",
            "backend = { command = 'a.toml', kind = 'script' }",
        ];
        insta::assert_snapshot!(lines.map(with_tools).join("\n"), @r#"
        claude -p --dangerously-skip-permissions --output-format stream-json --verbose --mcp-config={"mcpServers":{"autoloop":{"command":"/p/.autoloop/autoloop","args":["mcp"]}}} --strict-mcp-config --allowedTools=mcp__autoloop prompt
          ENABLE_TOOL_SEARCH=false
        codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --config=allow_login_shell=false --json -m m --config=mcp_servers.autoloop.command="/p/.autoloop/autoloop" --config=mcp_servers.autoloop.args=["mcp"] --config=mcp_servers.autoloop.env_vars=["AUTOLOOP_DOOR","AUTOLOOP_TICKET"] --config=mcp_servers.autoloop.default_tools_approval_mode="approve" -
        opencode run --auto --format json
          OPENCODE_CONFIG_CONTENT={"share":"disabled","mcp":{"autoloop":{"type":"local","command":["/p/.autoloop/autoloop","mcp"],"enabled":true}}}
        /bin/autoloop __acp --model=m --mcp=/p/.autoloop/autoloop -- opencode acp
        gemini --approval-mode yolo -o stream-json
        claude prompt
        /bin/autoloop __script a.toml prompt
        "#);
    }

    #[test]
    fn each_kind_has_its_command_line() {
        let lines = [
            "",
            "backend.args = ['-p']",
            "backend.output = 'claude'",
            "backend = { command = 'pi', args = ['--model', 'm'] }",
            "backend = { command = 'pi', kind = 'command' }",
            "backend = { command = 'a.toml', kind = 'script' }",
            "backend = { command = '-j', kind = 'replay' }",
            "backend = { command = 'j', kind = 'replay', args = ['-r', 's'] }",
            "backend = { command = 'gemini', kind = 'acp', args = ['--acp'], model = 'm' }",
        ];
        insta::assert_snapshot!(lines.map(line).join("\n"), @r"
        claude -p --dangerously-skip-permissions --output-format stream-json --verbose [-]
        claude --dangerously-skip-permissions --output-format stream-json --verbose -p [-]
        claude -p --dangerously-skip-permissions --output-format stream-json --verbose [-]
        pi -p --mode json --model m [-@]
        pi []
        /bin/autoloop __script a.toml []
        /bin/autoloop __replay -- -j []
        /bin/autoloop __replay --run=-r --run=s -- j []
        /bin/autoloop __acp --model=m -- gemini --acp []
        ");
    }
    #[test]
    fn a_file_that_only_the_project_has_is_found_from_a_tree() {
        let dir = tempfile::tempdir().unwrap();
        let (home, tree) = (dir.path().join("home"), dir.path().join("tree"));
        for (place, name) in
            [(&home, "agent.sh"), (&home, "exec"), (&home, "both.py"), (&tree, "both.py")]
        {
            std::fs::create_dir_all(place).unwrap();
            std::fs::write(place.join(name), "").unwrap();
        }
        let place = Place::Worktree { dir: &tree, project: &home };
        let found = |arg: &str| argument(OsStr::new(arg), place);
        assert_eq!(found("agent.sh"), home.join("agent.sh"));
        for as_it_is in ["exec", "both.py", "missing.sh", "--x=1.5", ".", &"a.".repeat(9_000)] {
            assert_eq!(found(as_it_is), as_it_is);
        }
    }
}
