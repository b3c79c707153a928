//! The job of a backend: what is started, with which environment, and where its output goes.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use autoloop_core::agents::Stream;
use autoloop_core::config::{BackendKind, Leftovers, PromptMode};
use autoloop_core::env::Env;
use autoloop_core::plan::BackendPlan;
use autoloop_core::topology::Route;

use super::{Drive, DriveError};
use crate::git::LOCATING_VARIABLES;
use crate::harness::create_dirs;
use crate::layout::RunDir;
use crate::process::{self, Delivery, LONGEST_ARGUMENT, delivery};
use crate::world::{self, Job, Limits, Spool};

/// The hidden command of this program that plays a script.
pub const PLAY_SCRIPT: &str = "__script";
/// The hidden command of this program that answers out of a journal.
pub const REPLAY: &str = "__replay";

/// What a backend is started for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn<'t> {
    /// The iteration, or the one that a review comes before.
    pub(super) iteration: u64,
    /// The event that routes it.
    pub(super) recent_event: &'t str,
    /// Who is to act, and what may be said.
    pub(super) route: &'t Route,
    /// Which sort of review it is; empty in an iteration.
    pub(super) review: &'t str,
    /// What the agent is told.
    pub(super) prompt: &'t str,
}

impl Turn<'_> {
    /// The names of its files begin with this.
    fn name(&self) -> String {
        match self.review {
            "" => format!("iteration-{}", self.iteration),
            review => format!("{review}-{}", self.iteration),
        }
    }

    /// Where its output goes.
    fn spool(&self, dir: &RunDir, stream: Stream) -> Spool {
        let stdout = match (stream, self.review) {
            (Stream::Plain, _) => dir.stdout(&self.name()),
            (client, "") => dir.join(format!("{client}-stream.{}.jsonl", self.iteration)),
            (client, _) => dir.join(format!("{client}-review.{}.jsonl", self.iteration)),
        };
        Spool { stdout, stderr: dir.stderr(&self.name()) }
    }
}

/// A job, and how its prompt reaches it.
pub(super) struct Launch {
    pub(super) job: Job,
    pub(super) delivery: Delivery,
}

impl Drive<'_> {
    /// Prepares the job of a backend.
    pub(super) fn launch(
        &self,
        backend: &BackendPlan,
        turn: &Turn<'_>,
    ) -> Result<Launch, DriveError> {
        create_dirs(&self.dir, self.world)?;
        let prompt_path = self.dir.prompt(&turn.name());
        self.world
            .disk
            .replace(&prompt_path, turn.prompt.as_bytes())
            .map_err(|source| DriveError::Write { path: prompt_path.clone(), source })?;

        let home = self.own_tree().map(|_| self.project.dir.as_path());
        let (job, delivery) =
            addressed(backend, (&self.program, home), (turn.prompt, &prompt_path));
        let env = self.environment(turn, prompt_path, backend.kind);
        let job = Job {
            env: env.vars().into_iter().map(|(name, value)| (name.into(), value)).collect(),
            dir: Some(match self.own_tree() {
                Some(tree) => PathBuf::from(&tree.dir),
                None => self.project.dir.clone(),
            }),
            env_removed: match self.own_tree() {
                Some(_) => LOCATING_VARIABLES.map(OsString::from).into(),
                None => Vec::new(),
            },
            notes: Some(self.loaded.files.state_dir.shims()),
            spool: Some(turn.spool(&self.dir, backend.stream())),
            look_for: self.loaded.plan.completion.promise.clone().unwrap_or_default().into_bytes(),
            ..job
        };
        Ok(Launch { job, delivery })
    }

    /// Whether waves may be asked for in this turn.
    fn offers_waves(&self, turn: &Turn<'_>) -> bool {
        self.loaded.plan.parallel.is_some() && turn.review.is_empty()
    }

    fn environment(&self, turn: &Turn<'_>, prompt_path: PathBuf, kind: BackendKind) -> Env {
        let plan = &self.loaded.plan;
        let files = &self.loaded.files;
        let run = self.harness.run();
        Env {
            run_id: Some(run.id.clone()),
            iteration: Some(turn.iteration.to_string()),
            project_dir: Some(self.project.dir.clone()),
            state_dir: Some(files.state_dir.to_path_buf()),
            journal_file: Some(files.journal.clone()),
            memory_file: self.memory_places().run,
            bin: Some(files.state_dir.tool()),
            prompt_path: Some(prompt_path),
            prompt: prompt_variable(turn.prompt, kind),
            recent_event: Some(turn.recent_event.to_owned()),
            allowed_roles: turn.route.roles.clone(),
            allowed_events: turn.route.events.clone(),
            required_events: plan.completion.required.clone(),
            completion_event: Some(plan.completion.event.clone()),
            completion_promise: plan.completion.promise.clone(),
            log_level: Some(plan.log_level.to_string()),
            review_mode: Some(turn.review.to_owned()),
            parallel: self.offers_waves(turn).then(|| "on".to_owned()),
            ..Env::default()
        }
    }
}

/// The prompt as a variable, for commands that take it from there. One that is too long for an argument,
/// or contains a NUL, is too long or impossible for a variable as well: it is in its file.
pub(super) fn prompt_variable(prompt: &str, kind: BackendKind) -> Option<String> {
    let fits = prompt.len() <= LONGEST_ARGUMENT && !prompt.contains('\0');
    (kind == BackendKind::Command && fits).then(|| prompt.to_owned())
}

/// The job of an agent that is given a prompt, which is in a file too, and how it gets it. Files that
/// the settings name are those of the project, also where the agent is started elsewhere: then `home`
/// is the project.
pub(super) fn addressed(
    backend: &BackendPlan,
    (ourselves, home): (&Path, Option<&Path>),
    (prompt, path): (&str, &Path),
) -> (Job, Delivery) {
    let mode = asked_for(backend.prompt_mode);
    let delivery = delivery(mode, markers(backend.kind), prompt.as_bytes());
    let (program, mut args) = command(backend, ourselves, home);
    let mut stdin = Vec::new();
    match delivery.mode {
        process::PromptMode::Argument => args.push(prompt.into()),
        process::PromptMode::Stdin => stdin.extend_from_slice(prompt.as_bytes()),
        process::PromptMode::File => args.push(prompt_argument(backend.kind, path)),
    }
    let job = Job {
        program,
        args,
        stdin,
        limits: Limits {
            deadline: Some(backend.timeout),
            grace: backend.grace,
            spooled: backend.output_cap,
            ..Limits::default()
        },
        stream: backend.stream(),
        leftovers: match backend.leftovers {
            Leftovers::Kill => world::Leftovers::Kill,
            Leftovers::Warn => world::Leftovers::Warn,
            Leftovers::Keep => world::Leftovers::Keep,
        },
        ..Job::default()
    };
    (job, delivery)
}

/// The program and the arguments in front of the prompt.
fn command(
    backend: &BackendPlan,
    ourselves: &Path,
    home: Option<&Path>,
) -> (OsString, Vec<OsString>) {
    let args = || backend.args.iter().map(OsString::from);
    let file = |name: &str| match home.map(|home| std::path::absolute(home.join(name))) {
        Some(Ok(path)) => path.into_os_string(),
        _ => OsString::from(name),
    };
    let program = match backend.command.contains('/') {
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
        BackendKind::Pi => {
            let alone = ["-p", "--mode", "json"].map(OsString::from);
            (program, alone.into_iter().chain(args()).collect())
        }
        BackendKind::Command => (program, usual_arguments(backend).chain(args()).collect()),
    }
}

/// What a prompt may not begin with, because the agent would take it for something else: pi has
/// options and the names of files among its arguments.
fn markers(kind: BackendKind) -> &'static [u8] {
    match kind {
        BackendKind::Pi => b"-@",
        BackendKind::Command | BackendKind::Script | BackendKind::Replay => b"",
    }
}

/// The argument that stands for the file with the prompt. To pi a mere path would be a prompt itself.
fn prompt_argument(kind: BackendKind, path: &Path) -> OsString {
    match kind {
        BackendKind::Pi => [OsStr::new("@"), path.as_os_str()].into_iter().collect(),
        BackendKind::Command | BackendKind::Script | BackendKind::Replay => path.into(),
    }
}

/// What a well-known agent needs to be run without a person, where nobody said otherwise.
fn usual_arguments(backend: &BackendPlan) -> impl Iterator<Item = OsString> {
    let is_claude = Path::new(&backend.command).file_name().is_some_and(|name| name == "claude");
    let usual: &[&str] = match (is_claude && backend.args.is_empty(), backend.stream()) {
        (false, _) => &[],
        (true, Stream::Claude) => {
            &["-p", "--dangerously-skip-permissions", "--output-format", "stream-json", "--verbose"]
        }
        (true, _) => &["-p", "--dangerously-skip-permissions"],
    };
    usual.iter().map(OsString::from)
}

fn asked_for(mode: PromptMode) -> process::PromptMode {
    match mode {
        PromptMode::Arg => process::PromptMode::Argument,
        PromptMode::Stdin => process::PromptMode::Stdin,
        PromptMode::File => process::PromptMode::File,
    }
}

/// How a prompt reached the agent, as the journal says it.
pub(super) fn mode_name(delivery: Delivery) -> String {
    let mode = match delivery.mode {
        process::PromptMode::Argument => PromptMode::Arg,
        process::PromptMode::Stdin => PromptMode::Stdin,
        process::PromptMode::File => PromptMode::File,
    };
    mode.to_string()
}

#[cfg(test)]
mod tests {
    use autoloop_core::config::{Layer, Origin, Settings};
    use autoloop_core::plan::Plan;
    use autoloop_core::topology::Topology;

    use super::*;

    /// The command line that settings lead to, and the characters that a prompt may not begin with.
    fn line(settings: &str) -> String {
        let layer = Layer::file(Origin::Project, "autoloops.toml", settings);
        let settings = Settings::resolve(&[layer]).settings;
        let plan = Plan::resolve(&settings, &Topology::default()).unwrap();
        let (program, args) = command(&plan.backend, Path::new("/bin/autoloop"), None);
        let words = [program].into_iter().chain(args).map(|word| word.into_string().unwrap());
        let markers = String::from_utf8_lossy(markers(plan.backend.kind));
        format!("{} [{markers}]", words.collect::<Vec<_>>().join(" "))
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
        ];
        insta::assert_snapshot!(lines.map(line).join("\n"), @r"
        claude -p --dangerously-skip-permissions []
        claude -p []
        claude -p --dangerously-skip-permissions --output-format stream-json --verbose []
        pi -p --mode json --model m [-@]
        pi []
        /bin/autoloop __script a.toml []
        /bin/autoloop __replay -- -j []
        /bin/autoloop __replay --run=-r --run=s -- j []
        ");
    }
}
