//! Whether a client is logged in, as far as files and variables show it. Nothing is requested from a
//! provider.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use autoloop_runtime::project::read_text;
use autoloop_runtime::world::World;

/// A credentials file is far smaller.
const LONGEST: u64 = 1024 * 1024;

/// What a client looks for when it needs credentials.
struct Client {
    name: &'static str,
    /// Variables, each of which gives it credentials or another provider.
    variables: &'static [&'static str],
    /// Whether a key of any provider is enough.
    keys: Keys,
    home: Home,
    /// Files below its home, each with words of which one has to occur; without words any content
    /// counts but an empty object.
    files: &'static [(&'static str, &'static [&'static str])],
    advice: &'static str,
}

/// Which keys a client takes from the environment.
enum Keys {
    Listed,
    /// Any variable whose name ends in `_API_KEY`.
    Any,
}

/// Where a client keeps its files.
struct Home {
    /// The variable that moves it.
    variable: &'static str,
    /// Where it is below that variable's directory.
    below: &'static str,
    /// Where it is below the home directory otherwise.
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

/// The environment of this process.
pub(super) struct Surroundings<'a> {
    pub(super) variables: Vec<(OsString, OsString)>,
    pub(super) world: &'a World,
}

/// What to do about a client without credentials; `None` where it has some, is not known, or cannot be
/// judged.
pub(super) fn missing(command: &str, around: &Surroundings<'_>) -> Option<&'static str> {
    let name = Path::new(command).file_name()?;
    let client = CLIENTS.iter().find(|client| name == client.name)?;
    // Elsewhere clients use the keychain of the system, which is not asked.
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

    /// `None` where there is no home directory to look in.
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
                // What cannot be read by us may be read by the client.
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

/// Whether `claude` refuses to start: as root it does not skip its permission prompts unless it is told
/// that it is in a sandbox.
pub(super) fn refuses_root(command: &str, args: &[String], around: &Surroundings<'_>) -> bool {
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
