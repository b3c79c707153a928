//! Runs with the real clients, against a model on loopback that answers as the test says.
//!
//! The clients are looked for in the directory that `AUTOLOOP_CLIENTS` names, where `.ci/clients` installs them. Without
//! it these tests are skipped.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use autoloop_testkit::Sandbox;
use autoloop_testkit::model_server::{ModelServer, Reply, Request};
use autoloop_testkit::sandbox::{Output, skip};
use tempfile::TempDir;

/// A project with one real client whose model is ours.
struct Lab {
    sandbox: Sandbox,
    model: ModelServer,
    /// Not below the project, and not below the system's directory for temporary files, where codex warns.
    _home: TempDir,
}

impl Lab {
    /// `None` where the client is not installed.
    fn new(
        client: &'static str,
        model: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Option<Lab> {
        let clients = std::env::var_os("AUTOLOOP_CLIENTS").map(PathBuf::from);
        let bin = clients.map(|dir| dir.join(client).join("node_modules/.bin"));
        let Some(bin) = bin.filter(|bin| bin.join(client).exists()) else {
            skip(client, "the client is not installed; .ci/clients installs it");
            return None;
        };
        let model = ModelServer::start(model).unwrap();
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
        let mut path = OsString::from(&bin);
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let home_dir = home.path().to_owned();
        for (name, value) in environment(client, &model.url(), &home_dir) {
            sandbox = sandbox.env(name, value);
        }
        sandbox = sandbox.env("PATH", path).env("HOME", &home_dir);
        for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"] {
            sandbox = sandbox.env(name, home_dir.join(name));
        }
        git(&sandbox, &["init", "-q", "-b", "main"]);
        git(&sandbox, &["config", "user.name", "A"]);
        git(&sandbox, &["config", "user.email", "a@example.org"]);
        sandbox.write("README.md", "a project\n");
        git(&sandbox, &["add", "README.md"]);
        git(&sandbox, &["commit", "-q", "-m", "begin"]);
        Some(Lab { sandbox, model, _home: home })
    }

    fn run(&self, objective: &str, flags: &[String]) -> Output {
        let mut command = self.sandbox.command();
        // A directory of the user's shell that is not the one to work in.
        command.args(["run", "autofix", objective]).args(flags).env("PWD", "/");
        self.sandbox.finish(command)
    }
}

fn git(sandbox: &Sandbox, args: &[&str]) -> String {
    let mut command: Command = sandbox.at_home("git");
    command.args(args);
    let output = sandbox.finish(command);
    assert_eq!(output.code, Some(0), "git {args:?}: {}", output.stderr);
    output.stdout
}

/// Leads a client to our model and keeps it from all other traffic. Files that it needs are written to `home`.
fn environment(client: &str, url: &str, home: &std::path::Path) -> Vec<(&'static str, OsString)> {
    let write = |name: &str, text: String| {
        let path = home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let variables: Vec<(&'static str, String)> = match client {
        "claude" => vec![
            ("ANTHROPIC_BASE_URL", url.to_owned()),
            ("ANTHROPIC_API_KEY", "test-key".to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("CLAUDE_CODE_MAX_RETRIES", "0".to_owned()),
            ("IS_SANDBOX", "1".to_owned()),
        ],
        "codex" => {
            let config = format!(
                "model = \"gpt-5.5\"\nmodel_provider = \"fake\"\ncheck_for_update_on_startup = false\n\
                 [analytics]\nenabled = false\n[features]\nplugins = false\napps = false\n\
                 [model_providers.fake]\nname = \"fake\"\nbase_url = \"{url}/v1\"\n\
                 env_key = \"CODEX_FAKE_API_KEY\"\nwire_api = \"responses\"\n\
                 request_max_retries = 0\nstream_max_retries = 0\n"
            );
            write(".codex/config.toml", config);
            vec![("CODEX_FAKE_API_KEY", "test-key".to_owned())]
        }
        "gemini" => {
            let settings = r#"{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false,"maxAttempts":1},"model":{"name":"gemini-2.5-pro"}}"#;
            write(".gemini/settings.json", settings.to_owned());
            vec![
                ("GOOGLE_GEMINI_BASE_URL", url.to_owned()),
                ("GEMINI_API_KEY", "test-key".to_owned()),
            ]
        }
        "opencode" => {
            let config = format!(
                r#"{{"autoupdate":false,"share":"disabled","model":"fake/fake-model","small_model":"fake/fake-model","enabled_providers":["fake"],"provider":{{"fake":{{"npm":"@ai-sdk/openai-compatible","name":"Fake","options":{{"baseURL":"{url}/v1","apiKey":"test-key"}},"models":{{"fake-model":{{"name":"Fake","limit":{{"context":100000,"output":8000}},"cost":{{"input":1,"output":2}}}}}}}}}}}}"#
            );
            vec![
                ("OPENCODE_CONFIG_CONTENT", config),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
                ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1".to_owned()),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".to_owned()),
                ("npm_config_offline", "true".to_owned()),
            ]
        }
        _ => {
            let models = format!(
                r#"{{"providers":{{"fake":{{"baseUrl":"{url}/v1","api":"openai-completions","apiKey":"FAKE_API_KEY","models":[{{"id":"fake-model","name":"Fake","reasoning":false,"input":["text"],"contextWindow":100000,"maxTokens":8000,"cost":{{"input":1,"output":2,"cacheRead":0.1,"cacheWrite":0.2}}}}]}}}}}}"#
            );
            write(".pi/agent/models.json", models);
            let settings = r#"{"defaultProvider":"fake","defaultModel":"fake-model","enableInstallTelemetry":false,"retry":{"enabled":false,"maxRetries":0,"provider":{"maxRetries":0}}}"#;
            write(".pi/agent/settings.json", settings.to_owned());
            vec![
                ("FAKE_API_KEY", "test-key".to_owned()),
                ("PI_OFFLINE", "1".to_owned()),
                ("PI_TELEMETRY", "0".to_owned()),
            ]
        }
    };
    variables.into_iter().map(|(name, value)| (name, value.into())).collect()
}

/// A model that emits the first event that its prompt allows, by the shell tool of its client, and then ends its turn.
fn emits_the_first_event(request: &Request) -> Reply {
    if !request.tool_results().is_empty() {
        return Reply::text("It is reported.");
    }
    let prompt = request.text();
    let between = |from: &str, to: &str| {
        let (_, rest) = prompt.split_once(from)?;
        Some(rest.split_once(to)?.0.trim().to_owned())
    };
    let events =
        between("Emit one of these events before you end your turn:", ". Any other").unwrap_or_default();
    let event = events.split(',').next().unwrap_or_default().trim().trim_matches('`').to_owned();
    Reply::shell(format!("\"$AUTOLOOP_BIN\" emit {event} \"done\""))
}

/// The flags that select the client, by its own output or by the Agent Client Protocol.
fn by_name(client: &'static str) -> Vec<String> {
    vec!["-b".to_owned(), client.to_owned()]
}

fn by_acp(client: &'static str) -> Vec<String> {
    let args = if client == "gemini" { "--acp" } else { "acp" };
    let settings = [("kind", "acp"), ("command", client), ("args", args)];
    let set = |(key, value): (&str, &str)| ["--set".to_owned(), format!("backend.{key}={value}")];
    settings.into_iter().flat_map(set).collect()
}

fn a_preset_completes(client: &'static str, flags: Vec<String>) {
    let Some(lab) = Lab::new(client, emits_the_first_event) else { return };
    let output = lab.run("the importer crashes", &flags);
    assert_eq!(output.code, Some(0), "{output}\n{}", lab.sandbox.journal());
    assert_eq!(lab.sandbox.fields("loop.complete", "reason"), ["completion_event"]);
    assert_eq!(lab.sandbox.fields("iteration.finish", "exit_code"), ["0"; 4]);
    assert_eq!(lab.sandbox.fields("backend.usage", "input_tokens").len(), 4);
    assert_eq!(lab.model.requests().len(), 8);
    assert_eq!(lab.sandbox.survivors(), "");
}

fn a_refused_key_ends_the_run_with_the_words_of_the_client(
    client: &'static str,
    flags: Vec<String>,
) {
    let model = |_: &Request| Reply::error(401, "this key is unknown");
    let Some(lab) = Lab::new(client, model) else { return };
    let output = lab.run("the importer crashes", &flags);
    assert_eq!(output.code, Some(1), "{output}\n{}", lab.sandbox.journal());
    assert!(!output.stderr.contains("exit code 0"), "{output}");
    assert_eq!(lab.sandbox.fields("iteration.start", "iteration").len(), 1);
}

macro_rules! for_each_client {
    ($($name:ident: $client:literal $flags:ident,)+) => { $(
        mod $name {
            const CLIENT: &str = $client;

            #[test]
            fn a_preset_completes() {
                super::a_preset_completes(CLIENT, super::$flags(CLIENT));
            }

            #[test]
            fn a_refused_key_ends_the_run_with_the_words_of_the_client() {
                let flags = super::$flags(CLIENT);
                super::a_refused_key_ends_the_run_with_the_words_of_the_client(CLIENT, flags);
            }
        }
    )+ };
}

for_each_client! {
    claude: "claude" by_name,
    codex: "codex" by_name,
    gemini: "gemini" by_name,
    opencode: "opencode" by_name,
    pi: "pi" by_name,
    gemini_acp: "gemini" by_acp,
    opencode_acp: "opencode" by_acp,
}
