//! A project with one real client whose model is ours.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use autoloop_testkit::Sandbox;
use autoloop_testkit::model_server::{ModelServer, Reply, Request};
use autoloop_testkit::sandbox::{Output, skip};
use autoloop_testkit::slots::git;
use tempfile::TempDir;

/// The variables of the harness, as a tool sees them. A model that calls this first knows what it is asked for.
pub(crate) const LOOK: &str = "pwd -P; env | grep ^AUTOLOOP_ | sort; ";
/// Emits the first allowed event.
pub(crate) const EMIT: &str = "\"$AUTOLOOP_BIN\" emit \"${AUTOLOOP_ALLOWED_EVENTS%%,*}\" done";

/// Who runs the harness and the client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Ours,
    /// Without privileges, where the tests have those of root.
    Nobody,
}

pub(crate) struct Lab {
    pub(crate) sandbox: Sandbox,
    pub(crate) model: ModelServer,
    user: User,
    clients: PathBuf,
    /// Not below the project, and not below the system's directory for temporary files, where codex warns.
    home: TempDir,
}

impl Lab {
    /// `None` where the client is not installed.
    pub(crate) fn new(
        client: &'static str,
        user: User,
        model: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Option<Lab> {
        let clients = std::env::var_os("AUTOLOOP_CLIENTS").map(PathBuf::from);
        let bin = Path::new(client).join("node_modules/.bin");
        let Some(clients) = clients.filter(|dir| dir.join(&bin).join(client).exists()) else {
            skip(client, "the client is not installed; .ci/clients installs it");
            return None;
        };
        let model = ModelServer::start(model).unwrap();
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let dir = home.path().to_owned();
        let mut sandbox = Sandbox::new(env!("CARGO_BIN_EXE_autoloop"));
        for (name, value) in environment(client, &model.url(), &dir) {
            sandbox = sandbox.env(name, value);
        }
        let seen = match user {
            User::Ours => clients.clone(),
            User::Nobody => dir.join("clients"),
        };
        let mut path = seen.join(&bin).into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        sandbox = sandbox.env("PATH", path).env("HOME", &dir);
        if user == User::Nobody {
            sandbox = sandbox.env("XDG_STATE_HOME", dir.join("XDG_STATE_HOME"));
            fs::create_dir(seen).unwrap();
        }
        for args in [
            &["init", "-q", "-b", "main"][..],
            &["config", "user.name", "A"],
            &["config", "user.email", "a@example.org"],
        ] {
            git(&sandbox, args);
        }
        sandbox.write("README.md", "a project\n").write(".gitignore", ".autoloop/\nwhere\n");
        git(&sandbox, &["add", "-A"]);
        git(&sandbox, &["commit", "-q", "-m", "begin"]);
        Some(Lab { sandbox, model, user, clients, home })
    }

    /// The same project with another client too, whose model is the same; `None` where that client is not installed.
    pub(crate) fn and(self, client: &'static str) -> Option<Lab> {
        let bin = self.clients.join(client).join("node_modules/.bin");
        if !bin.join(client).exists() {
            skip(client, "the client is not installed; .ci/clients installs it");
            return None;
        }
        let Lab { mut sandbox, model, user, clients, home } = self;
        for (name, value) in environment(client, &model.url(), home.path()) {
            sandbox = sandbox.env(name, value);
        }
        let names = ["claude", client].map(|name| clients.join(name).join("node_modules/.bin"));
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths(names.into_iter().chain(std::env::split_paths(&path)));
        sandbox = sandbox.env("PATH", path.unwrap());
        Some(Lab { sandbox, model, user, clients, home })
    }

    /// Runs `autoloop …` in a shell whose directory is not the one to work in.
    #[expect(clippy::print_stdout, reason = "`--nocapture` shows it, for the documentation")]
    pub(crate) fn run(&self, args: &[impl AsRef<OsStr>]) -> Output {
        let output = self.sandbox.finish(self.command(args));
        let args: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
        println!("$ autoloop {}\n{output}", args.join(" "));
        output
    }

    pub(crate) fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = match self.user {
            User::Ours => self.sandbox.command(),
            User::Nobody => self.as_nobody(),
        };
        command.args(args).env("PWD", "/");
        command
    }

    /// The binary as a user who cannot read the files of ours: only the clients are made visible.
    fn as_nobody(&self) -> Command {
        const ENTER: &str = "mount --bind \"$0\" \"$1\" && shift && \
            exec setpriv --reuid=65534 --regid=65534 --clear-groups -- \"$@\"";
        let mut chown = Command::new("chown");
        chown.args(["-R", "65534:65534"]).arg(self.sandbox.path("")).arg(self.home.path());
        // Without the privileges of root neither this nor what follows is possible.
        let _ = chown.status();
        let mut command = self.sandbox.at_home("unshare");
        command.args(["--mount", "sh", "-c", ENTER]).arg(&self.clients);
        command.arg(self.home.path().join("clients")).arg(self.sandbox.binary());
        command
    }

    /// A file in the home directory.
    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Whether another user can be taken, and can start the binary.
    pub(crate) fn has_other_users(&self) -> bool {
        let mut command = self.command(&["--version"]);
        command.output().is_ok_and(|output| output.status.success())
    }
}

/// Leads a client to our model and keeps it from all other traffic. Its state is where its variables say, not where it
/// usually is.
fn environment(client: &str, url: &str, home: &Path) -> Vec<(&'static str, OsString)> {
    let write = |name: &str, text: String| {
        let path = home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let place = |name: &str| home.join(name).into_os_string();
    let variables: Vec<(&'static str, OsString)> = match client {
        "claude" => vec![
            ("CLAUDE_CONFIG_DIR", place("state-of-claude")),
            ("ANTHROPIC_BASE_URL", url.into()),
            ("ANTHROPIC_API_KEY", "test-key".into()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
            ("IS_SANDBOX", "1".into()),
        ],
        "codex" => {
            let config = format!(
                "model = \"gpt-5.5\"\nmodel_provider = \"fake\"\ncheck_for_update_on_startup = false\n\
                 [analytics]\nenabled = false\n[features]\nplugins = false\napps = false\n\
                 [model_providers.fake]\nname = \"fake\"\nbase_url = \"{url}/v1\"\n\
                 env_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n\
                 request_max_retries = 0\nstream_max_retries = 0\n"
            );
            write("state-of-codex/config.toml", config);
            vec![("CODEX_HOME", place("state-of-codex")), ("OPENAI_API_KEY", "test-key".into())]
        }
        "gemini" => {
            let settings = r#"{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false,"maxAttempts":1},"model":{"name":"gemini-2.5-pro"}}"#;
            write("state-of-gemini/.gemini/settings.json", settings.to_owned());
            vec![
                ("GEMINI_CLI_HOME", place("state-of-gemini")),
                ("GOOGLE_GEMINI_BASE_URL", url.into()),
                ("GEMINI_API_KEY", "test-key".into()),
            ]
        }
        "opencode" => {
            let config = format!(
                r#"{{"autoupdate":false,"share":"disabled","model":"fake/fake-model","small_model":"fake/fake-model","enabled_providers":["fake"],"provider":{{"fake":{{"npm":"@ai-sdk/openai-compatible","name":"Fake","options":{{"baseURL":"{url}/v1","apiKey":"test-key"}},"models":{{"fake-model":{{"name":"Fake","limit":{{"context":100000,"output":8000}},"cost":{{"input":1,"output":2}}}}}}}}}}}}"#
            );
            write("XDG_CONFIG_HOME/opencode/opencode.json", config);
            let places = ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"];
            let places = places.map(|name| (name, place(name)));
            let switches = [
                "OPENCODE_DISABLE_MODELS_FETCH",
                "OPENCODE_DISABLE_DEFAULT_PLUGINS",
                "OPENCODE_DISABLE_LSP_DOWNLOAD",
                "npm_config_offline",
            ];
            let switches = switches.map(|name| (name, "true".into()));
            places.into_iter().chain(switches).collect()
        }
        _ => {
            let models = format!(
                r#"{{"providers":{{"fake":{{"baseUrl":"{url}/v1","api":"openai-completions","apiKey":"FAKE_API_KEY","models":[{{"id":"fake-model","name":"Fake","reasoning":false,"input":["text"],"contextWindow":100000,"maxTokens":8000,"cost":{{"input":1,"output":2,"cacheRead":0.1,"cacheWrite":0.2}}}}]}}}}}}"#
            );
            write("state-of-pi/models.json", models);
            let settings = r#"{"defaultProvider":"fake","defaultModel":"fake-model","enableInstallTelemetry":false,"retry":{"enabled":false,"maxRetries":0,"provider":{"maxRetries":0}}}"#;
            write("state-of-pi/settings.json", settings.to_owned());
            vec![
                ("PI_CODING_AGENT_DIR", place("state-of-pi")),
                ("FAKE_API_KEY", "test-key".into()),
                ("PI_OFFLINE", "1".into()),
                ("PI_TELEMETRY", "0".into()),
            ]
        }
    };
    variables
}

/// The flags that select the client, by its own output.
pub(crate) fn by_name(client: &str) -> Vec<String> {
    vec!["-b".to_owned(), client.to_owned()]
}

/// The same, by the Agent Client Protocol.
pub(crate) fn by_acp(client: &str) -> Vec<String> {
    let args = if client == "gemini" { "--acp" } else { "acp" };
    let settings = [("kind", "acp"), ("command", client), ("args", args)];
    let set = |(key, value): (&str, &str)| ["--set".to_owned(), format!("backend.{key}={value}")];
    settings.into_iter().flat_map(set).collect()
}

/// What the shell tool printed for [`LOOK`]; `None` before it was called.
pub(crate) fn seen(request: &Request) -> Option<String> {
    let results = request.tool_results();
    (!results.is_empty()).then(|| results.join("\n"))
}
