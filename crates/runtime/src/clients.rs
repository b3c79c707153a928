//! The known clients on this machine: where they are, what they lack, and one turn that proves that they work.
//!
//! Credentials are looked for in files and variables; only [`Machine::prove`] sends a request to a provider.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use autoloop_core::agents::Adapter;
use autoloop_core::failure::last_line;
use autoloop_core::plan::BackendPlan;

use crate::process::{self, Interrupts};
use crate::project::read_text;
use crate::turn::job_without_run;
use crate::which::{Found, find};
use crate::world::{Ending, Exit, Finished, Job, Limits, World};

/// Largest credentials file that is read, in bytes.
const LONGEST: u64 = 1024 * 1024;
/// How long a client may take to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may take for the turn that proves it.
const TURN_TIMEOUT: Duration = Duration::from_secs(180);
const PROMPT: &str = "Reply with the single word: ready\n";

/// What clients are looked for in.
pub struct Machine<'a> {
    pub variables: Vec<(OsString, OsString)>,
    /// The directory that they would work in.
    pub dir: &'a Path,
    pub world: &'a World,
}

/// Something that keeps a client from working, with advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    pub kind: ObstacleKind,
    pub found: String,
    pub advice: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObstacleKind {
    /// It refuses to run unattended as root.
    Root,
    /// It has no credentials.
    Login,
    /// It is older than the version that is tested.
    Version,
}

impl Machine<'_> {
    fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
    }

    pub fn find(&self, program: &str) -> Found {
        find(program.as_ref(), self.variable("PATH").unwrap_or_default(), self.dir)
    }

    /// What a client lacks when it is started with these arguments.
    pub fn obstacles(&self, client: &Adapter, args: &[String]) -> Vec<Obstacle> {
        let program = client.program;
        let is_root = rustix::process::geteuid().is_root();
        let root = (is_root && self.refuses_root(client, args)).then(|| Obstacle {
            kind: ObstacleKind::Root,
            found: format!("{program} does not run unattended as root"),
            advice: "set IS_SANDBOX=1 if this is a container, or run autoloop as another user"
                .to_owned(),
        });
        let login = self.lacks_credentials(client).then(|| Obstacle {
            kind: ObstacleKind::Login,
            found: format!("{program} has no credentials in its files or in the environment"),
            advice: client.credentials.advice.to_owned(),
        });
        root.into_iter().chain(login).collect()
    }

    /// Whether claude refuses to start: as root it skips its permission prompts only in a sandbox.
    pub fn refuses_root(&self, client: &Adapter, args: &[String]) -> bool {
        let skips = |arg: &String| {
            arg == "--dangerously-skip-permissions" || arg.contains("bypassPermissions")
        };
        let arguments = client.arguments(args, None, client.stream).unwrap_or_default();
        client.program == "claude"
            && self.variable("IS_SANDBOX").is_none_or(|value| value != "1")
            && arguments.iter().any(skips)
    }

    /// Whether a client is known to have no credentials.
    pub fn lacks_credentials(&self, client: &Adapter) -> bool {
        // Elsewhere clients use the keychain of the system, which is not read.
        cfg!(target_os = "linux")
            && !self.has_variable(client)
            && self.has_file(client) == Some(false)
    }

    fn has_variable(&self, client: &Adapter) -> bool {
        self.variables
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .any(|(name, _)| name.to_str().is_some_and(|name| client.is_credential(name)))
    }

    /// `None` where there is no home directory.
    fn has_file(&self, client: &Adapter) -> Option<bool> {
        let variable = |name: &str| self.variable(name).map(OsStr::to_owned);
        let home = client.state.first()?.path(variable)?;
        Some(client.credentials.files.iter().any(|(file, words)| {
            // The directory itself need not exist for a file beside it.
            let path = match file.strip_prefix("../") {
                Some(name) => home.with_file_name(name),
                None => home.join(file),
            };
            match read_text(&*self.world.disk, &path, LONGEST) {
                Ok(Some(text)) if words.is_empty() => !matches!(text.trim(), "" | "{}"),
                Ok(Some(text)) => words.iter().any(|word| text.contains(word)),
                Ok(None) => false,
                // The client may be able to read a file that we cannot.
                Err(_) => true,
            }
        }))
    }

    /// The version that a program prints.
    pub fn version(&self, program: &Path) -> Option<String> {
        let limits = Limits { deadline: Some(VERSION_TIMEOUT), ..Limits::default() };
        let job = Job {
            program: program.into(),
            args: vec!["--version".into()],
            dir: Some(self.dir.to_owned()),
            limits,
            ..Job::default()
        };
        let finished = process::run(job, self.world, &Interrupts::default());
        // pi prints it on standard error.
        let printed = [finished.stdout.text(), finished.stderr.text()].concat();
        let words = printed.split_whitespace();
        let version = words.map(|word| word.trim_start_matches('v')).find(|word| {
            word.contains('.') && word.chars().next().is_some_and(|first| first.is_ascii_digit())
        });
        let is_printed = finished.ending == Ending::Exited(Exit::Code(0));
        version.filter(|_| is_printed).map(str::to_owned)
    }

    /// Asks an agent for one short answer.
    pub fn prove(&self, backend: &BackendPlan, interrupts: &Interrupts) -> Finished {
        let job = job_without_run(backend, self.dir, PROMPT);
        let limits = Limits { deadline: Some(TURN_TIMEOUT), ..job.limits };
        process::run(Job { limits, ..job }, self.world, interrupts)
    }
}

/// An obstacle where a version is older than the tested one.
pub fn too_old(client: &Adapter, version: &str) -> Option<Obstacle> {
    let numbers = |version: &str| -> Vec<u64> {
        version.split(['.', '-']).map_while(|part| part.parse().ok()).collect()
    };
    (numbers(version) < numbers(client.tested)).then(|| Obstacle {
        kind: ObstacleKind::Version,
        found: format!("{version} is older than {}, which is tested", client.tested),
        advice: format!("update {}", client.program),
    })
}

/// Why a turn failed, in one line.
pub fn why_failed(finished: &Finished, backend: &BackendPlan) -> Option<String> {
    let failure = crate::turn::failure(finished, backend)?;
    Some(last_line(&failure.to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use autoloop_core::agents::Stream;

    use super::*;

    fn lacks(variables: &[(&str, &str)]) -> bool {
        let world = World::real();
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let machine = Machine { variables, dir: Path::new("."), world: &world };
        machine.lacks_credentials(Adapter::of(Stream::Claude).unwrap())
    }

    #[test]
    fn credentials_are_in_a_variable_or_in_a_file() {
        assert!(!lacks(&[]), "without a home directory nothing is known");
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().to_str().unwrap();
        assert!(lacks(&[("HOME", home)]));
        assert!(lacks(&[("HOME", home), ("ANTHROPIC_API_KEY", "")]));
        assert!(!lacks(&[("HOME", home), ("ANTHROPIC_API_KEY", "x")]));
        fs::write(temp.path().join(".claude.json"), "{\"oauthAccount\": {}}").unwrap();
        assert!(!lacks(&[("HOME", home)]));
    }

    #[test]
    fn claude_skips_its_prompts_as_root_only_in_a_sandbox() {
        let world = World::real();
        for (args, sandbox, expected) in [
            (&[][..], "", true),
            (&["-p", "--dangerously-skip-permissions"], "0", true),
            (&["--permission-mode=bypassPermissions"], "", true),
            (&["-p", "--allowedTools", "Bash"], "", false),
            (&[], "1", false),
        ] {
            let variables = vec![("IS_SANDBOX".into(), sandbox.into())];
            let machine = Machine { variables, dir: Path::new("."), world: &world };
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            let claude = Adapter::of(Stream::Claude).unwrap();
            assert_eq!(machine.refuses_root(claude, &args), expected, "{args:?} {sandbox}");
            assert!(!machine.refuses_root(Adapter::of(Stream::Codex).unwrap(), &args));
        }
    }

    #[test]
    fn an_older_version_is_noticed() {
        let codex = Adapter::of(Stream::Codex).unwrap();
        for (version, is_old) in
            [("0.1.0", true), (codex.tested, false), ("99.0.0", false), ("0.165.9-alpha", true)]
        {
            assert_eq!(too_old(codex, version).is_some(), is_old, "{version}");
        }
    }
}
