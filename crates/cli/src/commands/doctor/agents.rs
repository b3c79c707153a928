//! The agents of the loop and others on PATH: their programs and their credentials.
//!
//! Credentials are looked for in files and variables. No request is sent to a provider.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use autoloop_core::config::BackendKind;
use autoloop_core::plan::BackendPlan;
use autoloop_core::script::Script;
use autoloop_runtime::launch::KNOWN_CLIENTS;
use autoloop_runtime::project::{Loaded, read_text};
use autoloop_runtime::which::{Found, find, within};
use autoloop_runtime::world::{RealDisk, World};

use super::{Finding, Verdict};
use crate::commands::script::read_script;

pub(super) fn check(dir: &Path, loaded: Option<&Loaded>, world: &World) -> Vec<Finding> {
    let around = Surroundings { variables: std::env::vars_os().collect(), world };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let wanted = loaded.map(wanted).unwrap_or_default();
    let mut findings: Vec<Finding> =
        wanted.iter().map(|(user, backend)| agent(user, backend, dir, &path).of("agent")).collect();
    let is_usable = |finding: &Finding| finding.verdict == Verdict::Ok;
    let has_agent = findings.iter().any(is_usable);
    let found = wanted.iter().zip(&findings).filter(|(_, it)| is_usable(it));
    let lacks: Vec<Finding> = found.flat_map(|((_, backend), _)| lacks(backend, &around)).collect();
    findings.extend(lacks);
    findings.push(others(dir, &path, has_agent, &around).of("agents"));
    findings
}

/// What an installed agent lacks.
fn lacks(backend: &BackendPlan, around: &Surroundings<'_>) -> Vec<Finding> {
    let command = &backend.command;
    let mut lacks = Vec::new();
    if rustix::process::geteuid().is_root() && refuses_root(command, &backend.args, around) {
        let finding = Finding::problem(
            format!("{command} does not run unattended as root"),
            "set IS_SANDBOX=1 if this is a container, or run autoloop as another user",
        );
        lacks.push(finding.of("root"));
    }
    if let Some(advice) = missing(command, around) {
        let found = format!("{command} has no credentials in its files or in the environment");
        lacks.push(Finding::warning(found, advice).of("login"));
    }
    lacks
}

/// The agents of the loop, each once, with the setting or the role that names it. The default is left out where every
/// role names another.
fn wanted(loaded: &Loaded) -> Vec<(String, BackendPlan)> {
    let plan = &loaded.plan;
    let is_same = |a: &BackendPlan, b: &BackendPlan| (a.kind, &a.command) == (b.kind, &b.command);
    let roles = &loaded.topology.roles;
    let of_roles = roles.iter().map(|role| match plan.backend_for(role) {
        backend if is_same(backend, &plan.backend) => ("backend.command".to_owned(), backend),
        backend => (format!("role '{}'", role.id), backend),
    });
    let default = roles.is_empty().then(|| ("backend.command".to_owned(), &plan.backend));
    let review = plan.review.as_ref().map(|review| ("review.command".to_owned(), &review.backend));
    let mut wanted: Vec<(String, BackendPlan)> = Vec::new();
    for (user, backend) in default.into_iter().chain(of_roles).chain(review) {
        if !wanted.iter().any(|(_, known)| is_same(known, backend)) {
            wanted.push((user, backend.clone()));
        }
    }
    wanted
}

fn agent(user: &str, backend: &BackendPlan, dir: &Path, path: &OsStr) -> Finding {
    let command = &backend.command;
    if matches!(backend.kind, BackendKind::Script | BackendKind::Replay) {
        return scripted(user, backend, dir);
    }
    match find(command.as_ref(), path, dir) {
        Found::At(file) => Finding::ok(format!("{user}: {command} is {}", file.display())),
        Found::NotExecutable(file) => Finding::problem(
            format!("{user}: {} is not executable", file.display()),
            format!("make it executable: chmod +x {}", file.display()),
        ),
        Found::Nowhere if command.contains('/') => Finding::problem(
            format!("{user}: {} does not exist", within(dir, command).display()),
            "write the path of the agent relative to the project, or its name if it is on PATH",
        ),
        Found::Nowhere => Finding::problem(
            format!("{user}: '{command}' is not on PATH"),
            "install it, add its directory to PATH, or configure another agent",
        ),
    }
}

fn scripted(user: &str, backend: &BackendPlan, dir: &Path) -> Finding {
    let file = within(dir, &backend.command);
    let found = |what: &str| format!("{user}: {} {what}", file.display());
    if !file.exists() {
        let advice = format!("write it, or choose another backend.kind than {}", backend.kind);
        return Finding::problem(found("does not exist"), advice);
    }
    if backend.kind == BackendKind::Script {
        let script = read_script(&file, &RealDisk);
        let script = script.and_then(|text| Script::parse(&text).map_err(|bad| bad.to_string()));
        if let Err(why) = script {
            let found = found(&format!("is not a valid script: {why}"));
            return Finding::problem(found, "correct the script; docs/loop.md shows one");
        }
    }
    Finding::ok(found(&format!("is used ({})", backend.kind)))
}

/// The known agents on PATH.
fn others(dir: &Path, path: &OsStr, has_agent: bool, around: &Surroundings<'_>) -> Finding {
    let found = KNOWN_CLIENTS.iter().filter_map(|name| match find(name.as_ref(), path, dir) {
        Found::At(file) => {
            let lack = missing(name, around).map_or("", |_| " not logged in");
            Some(format!("{name} ({}){lack}", file.display()))
        }
        Found::NotExecutable(_) | Found::Nowhere => None,
    });
    let found: Vec<String> = found.collect();
    let none = format!("none of {} is on PATH", KNOWN_CLIENTS.join(", "));
    match (found.is_empty(), has_agent) {
        (false, _) => Finding::ok(format!("on PATH: {}", found.join(", "))),
        (true, true) => Finding::ok(none),
        (true, false) => {
            Finding::warning(none, "install one, or set backend.command to your agent")
        }
    }
}

/// Largest credentials file that is read, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// Where a client finds its credentials.
struct Client {
    name: &'static str,
    /// Variables, each of which is a credential or selects another provider.
    variables: &'static [&'static str],
    keys: Keys,
    home: Home,
    /// Files below its home, each with words of which one has to occur; without words, any content but an empty object
    /// counts.
    files: &'static [(&'static str, &'static [&'static str])],
    advice: &'static str,
}

enum Keys {
    /// Those in `variables` only.
    Listed,
    /// Any variable whose name ends in `_API_KEY`.
    Any,
}

/// The directory of a client: `below` the directory in `variable`, or else `usual` below HOME.
struct Home {
    variable: &'static str,
    below: &'static str,
    usual: &'static str,
}

const CLIENTS: [Client; 5] = [
    Client {
        name: "claude",
        variables: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CODE_USE_FOUNDRY",
        ],
        keys: Keys::Listed,
        home: Home { variable: "CLAUDE_CONFIG_DIR", below: "", usual: ".claude" },
        files: &[
            (".credentials.json", &[]),
            ("settings.json", &["apiKeyHelper", "ANTHROPIC_", "CLAUDE_CODE_USE_"]),
            (".claude.json", &["oauthAccount", "primaryApiKey"]),
            ("../.claude.json", &["oauthAccount", "primaryApiKey"]),
        ],
        advice: "start `claude` and type /login, or set ANTHROPIC_API_KEY",
    },
    Client {
        name: "codex",
        variables: &["OPENAI_API_KEY", "CODEX_API_KEY"],
        keys: Keys::Listed,
        home: Home { variable: "CODEX_HOME", below: "", usual: ".codex" },
        files: &[
            ("auth.json", &[]),
            ("config.toml", &["model_provider", "cli_auth_credentials_store"]),
        ],
        advice: "log in with `codex login`, or set OPENAI_API_KEY",
    },
    Client {
        name: "gemini",
        variables: &[
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_GENAI_USE_VERTEXAI",
            "GOOGLE_GENAI_USE_GCA",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ],
        keys: Keys::Listed,
        home: Home { variable: "GEMINI_CLI_HOME", below: ".gemini", usual: ".gemini" },
        files: &[("oauth_creds.json", &[]), (".env", &["GEMINI_API_KEY", "GOOGLE_"])],
        advice: "start `gemini` and log in, or set GEMINI_API_KEY",
    },
    Client {
        name: "opencode",
        variables: &["OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "AWS_PROFILE"],
        keys: Keys::Any,
        home: Home { variable: "XDG_DATA_HOME", below: "opencode", usual: ".local/share/opencode" },
        files: &[("auth.json", &[])],
        advice: "log in with `opencode auth login`, or set the API key of a provider",
    },
    Client {
        name: "pi",
        variables: &["ANTHROPIC_OAUTH_TOKEN", "AWS_PROFILE"],
        keys: Keys::Any,
        home: Home { variable: "PI_CODING_AGENT_DIR", below: "", usual: ".pi/agent" },
        files: &[("auth.json", &[]), ("models.json", &["apiKey"])],
        advice: "start `pi` and type /login, or set the API key of a provider",
    },
];

struct Surroundings<'a> {
    variables: Vec<(OsString, OsString)>,
    world: &'a World,
}

/// Advice for a client without credentials; `None` where it has some, or where that is not known.
fn missing(command: &str, around: &Surroundings<'_>) -> Option<&'static str> {
    let name = Path::new(command).file_name()?;
    let client = CLIENTS.iter().find(|client| name == client.name)?;
    // Elsewhere clients use the keychain of the system, which is not read.
    let can_be_seen = cfg!(target_os = "linux");
    let is_logged_in = client.has_variable(around) || client.has_file(around)?;
    (can_be_seen && !is_logged_in).then_some(client.advice)
}

impl Client {
    fn has_variable(&self, around: &Surroundings<'_>) -> bool {
        around.variables.iter().filter(|(_, value)| !value.is_empty()).any(|(name, _)| {
            let Some(name) = name.to_str() else { return false };
            let is_key = matches!(self.keys, Keys::Any) && name.ends_with("_API_KEY");
            is_key || self.variables.contains(&name)
        })
    }

    /// `None` where there is no home directory.
    fn has_file(&self, around: &Surroundings<'_>) -> Option<bool> {
        let home = self.home(around)?;
        Some(self.files.iter().any(|(file, words)| {
            // The directory itself need not exist for a file beside it.
            let path = match file.strip_prefix("../") {
                Some(name) => home.with_file_name(name),
                None => home.join(file),
            };
            match read_text(&*around.world.disk, &path, LONGEST) {
                Ok(Some(text)) if words.is_empty() => !matches!(text.trim(), "" | "{}"),
                Ok(Some(text)) => words.iter().any(|word| text.contains(word)),
                Ok(None) => false,
                // The client may be able to read a file that we cannot.
                Err(_) => true,
            }
        }))
    }

    fn home(&self, around: &Surroundings<'_>) -> Option<PathBuf> {
        let lookup = |name: &str| {
            let found = around.variables.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| PathBuf::from(value)).filter(|dir| !dir.as_os_str().is_empty())
        };
        let moved = lookup(self.home.variable).map(|dir| dir.join(self.home.below));
        moved.or_else(|| Some(lookup("HOME")?.join(self.home.usual)))
    }
}

/// Whether `claude` refuses to start: as root it does not skip its permission prompts outside of a sandbox.
fn refuses_root(command: &str, args: &[String], around: &Surroundings<'_>) -> bool {
    let is_claude = Path::new(command).file_name().is_some_and(|name| name == "claude");
    let skips =
        |arg: &String| arg == "--dangerously-skip-permissions" || arg.contains("bypassPermissions");
    let in_sandbox =
        around.variables.iter().any(|(name, value)| name == "IS_SANDBOX" && value == "1");
    // Without arguments it is started with that flag.
    is_claude && (args.is_empty() || args.iter().any(skips)) && !in_sandbox
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn around(variables: &[(&str, &str)], world: &World) -> Option<&'static str> {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        missing("claude", &Surroundings { variables, world })
    }

    #[test]
    fn without_a_home_directory_nothing_is_said() {
        let world = World::real();
        assert_eq!(around(&[], &world), None);
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().to_str().unwrap();
        assert!(around(&[("HOME", home)], &world).is_some());
        assert!(around(&[("HOME", home), ("ANTHROPIC_API_KEY", "")], &world).is_some());
        assert_eq!(around(&[("HOME", home), ("ANTHROPIC_API_KEY", "x")], &world), None);
        fs::write(temp.path().join(".claude.json"), "{\"oauthAccount\": {}}").unwrap();
        assert_eq!(around(&[("HOME", home)], &world), None);
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
            let around = Surroundings { variables, world: &world };
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            assert_eq!(refuses_root("/opt/claude", &args, &around), expected, "{args:?} {sandbox}");
            assert!(!refuses_root("codex", &args, &around));
        }
    }
}
