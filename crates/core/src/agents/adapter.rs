//! What the harness knows about a client: the command line for unattended use, its state and its credentials.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::Stream;
use super::{claude, codex, gemini, opencode, pi};

/// A client, as data.
#[derive(Debug, PartialEq, Eq)]
pub struct Adapter {
    pub stream: Stream,
    /// Its name for people.
    pub title: &'static str,
    pub program: &'static str,
    /// The version that the tests run.
    pub tested: &'static str,
    /// What it can do, besides working.
    pub offers: &'static [&'static str],
    /// The subcommand that runs one prompt.
    pub(super) subcommand: Option<&'static str>,
    /// Without these it asks for permissions or opens a window.
    pub(super) unattended: &'static [Flag],
    /// With these it prints the stream that is decoded.
    pub(super) streaming: &'static [Flag],
    pub(super) model: Flag,
    /// The flag that limits how often the model is asked.
    pub turn_limit: Option<&'static str>,
    /// The last argument if the prompt is on standard input.
    pub(super) stdin: Option<&'static str>,
    pub(super) refused: &'static [Refused],
    /// The variables that it inherits besides its credentials and state directories, as patterns.
    pub inherits: &'static [&'static str],
    /// Variables that select a provider, each with the pattern of variables that it then inherits.
    pub providers: &'static [(&'static str, &'static str)],
    /// Added to its environment.
    pub env: &'static [(&'static str, &'static str)],
    /// How it is given an MCP server; `None` if only a person can do that, in its settings.
    pub(super) mcp: Option<McpOption>,
    /// How a reviewer is kept from changing files where no sandbox does that.
    pub(super) read_only: Option<ReadOnly>,
    /// Its own sandbox, if it has one that works unattended.
    pub(super) sandbox: Option<OwnSandbox>,
    /// What it writes for itself outside of the project.
    pub state: &'static [StateDir],
    /// What it writes for itself in the project.
    pub bookkeeping: &'static [&'static str],
    pub credentials: Credentials,
}

/// Arguments that are added unless the user decides the same thing with another flag.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flag {
    pub(super) add: &'static [&'static str],
    /// Flags that make it superfluous, besides its own first word.
    pub(super) unless: &'static [&'static str],
}

/// The arguments and variables that give a client the MCP server of the harness. Where [`SERVER`] occurs, they have its
/// path as a string of JSON. Arguments are visible to every user of the machine and variables are not, so the server
/// finds its ticket in the environment, which it gets from the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct McpOption {
    pub(super) args: &'static [&'static str],
    pub(super) env: &'static [(&'static str, &'static str)],
    /// A variable that contains settings as JSON, and what is added to them.
    pub(super) settings: Option<(&'static str, &'static str)>,
}

/// Stands for the path of the program that serves the tools of an agent.
const SERVER: &str = "SERVER";

/// What keeps the tools of a client from changing files. Its shell still can, and stays: reviewers run tests with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadOnly {
    Flag(Flag),
    Variable(&'static str, &'static str),
    /// Arguments in which [`POLICY`] stands for the path of a file with this content.
    Policy {
        args: &'static [&'static str],
        content: &'static str,
    },
}

/// Stands for the path of a file that forbids tools.
const POLICY: &str = "POLICY";

/// Arguments and variables that are added to those of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub args: Vec<String>,
    pub env: Vec<(&'static str, String)>,
}

/// The sandbox of a client. It does not work inside of that of the harness.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OwnSandbox {
    /// The flags that select its mode, each with a value.
    pub(super) flags: &'static [&'static str],
    /// The mode in which a tool may write in the working directory.
    pub(super) mode: &'static str,
    /// Begins the argument that lists what else may be written.
    pub(super) writable: &'static str,
}

/// A flag that does not work unattended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) flags: &'static [&'static str],
    /// Only with these values; empty means with any.
    pub(super) values: &'static [&'static str],
    pub(super) why: &'static str,
}

/// A directory or a file: `below` the directory in `variable`, or else `usual` below the home directory.
#[derive(Debug, PartialEq, Eq)]
pub struct StateDir {
    pub variable: &'static str,
    pub below: &'static str,
    pub usual: &'static str,
}

/// Where a client finds its credentials.
#[derive(Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Variables, each of which is a credential or selects another provider.
    pub variables: &'static [&'static str],
    /// Whether any variable whose name ends in `_API_KEY` is one too.
    pub any_api_key: bool,
    /// Files in its first state directory, each with words of which one has to occur; without words, any content but
    /// an empty object counts.
    pub files: &'static [(&'static str, &'static [&'static str])],
    pub advice: &'static str,
}

/// Arguments with which a client cannot run unattended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{program} cannot run unattended with '{argument}': {why}")]
pub struct BadArgument {
    pub program: &'static str,
    pub argument: String,
    pub why: String,
}

impl StateDir {
    /// Its path, where the environment names one.
    pub fn path(&self, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let dir = |name: &str| variable(name).filter(|value| !value.is_empty());
        match dir(self.variable) {
            Some(moved) => Some(Path::new(&moved).join(self.below)),
            None => Some(Path::new(&dir("HOME")?).join(self.usual)),
        }
    }

    /// Whether it is a file, not a directory.
    pub fn is_file(&self) -> bool {
        Path::new(self.usual).extension().is_some()
    }
}

impl Adapter {
    pub const ALL: [&'static Adapter; 5] =
        [&claude::ADAPTER, &codex::ADAPTER, &gemini::ADAPTER, &opencode::ADAPTER, &pi::ADAPTER];

    pub fn of(stream: Stream) -> Option<&'static Adapter> {
        Adapter::ALL.into_iter().find(|adapter| adapter.stream == stream)
    }

    /// The adapter of a program by its name or path.
    pub fn by_program(program: &str) -> Option<&'static Adapter> {
        let name = program.rsplit('/').next().unwrap_or(program);
        Adapter::ALL.into_iter().find(|adapter| adapter.program == name)
    }

    /// What the client prints with these arguments: its stream, unless they ask for another format.
    pub fn prints(&self, given: &[String]) -> Stream {
        let is_other = self.streaming.iter().any(|flag| {
            let [name, format, ..] = flag.add else { return false };
            let names = [name].into_iter().chain(flag.unless);
            let chosen = names.filter_map(|name| value_of(name, given)).next_back();
            chosen.is_some_and(|chosen| chosen != *format && chosen != "json")
        });
        if is_other { Stream::Plain } else { self.stream }
    }

    /// Whether these arguments ask for the stream.
    pub fn is_asked_to_stream(&self, given: &[String]) -> bool {
        self.streaming.first().is_some_and(|flag| flag.is_in(given))
    }

    /// The whole command line: what the user gave, and what is missing in it.
    pub fn arguments(
        &self,
        given: &[String],
        model: Option<&str>,
        output: Stream,
    ) -> Result<Vec<String>, BadArgument> {
        self.check(given)?;
        let streaming = if output == self.stream { self.streaming } else { &[] };
        let missing = self.unattended.iter().chain(streaming).filter(|flag| !flag.is_in(given));
        let mut arguments: Vec<String> = self.subcommand.map(str::to_owned).into_iter().collect();
        arguments.extend(missing.flat_map(|flag| flag.add).map(|word| (*word).to_owned()));
        if let Some(model) = model.filter(|_| !self.model.is_in(given)) {
            arguments.extend(self.model.add.iter().map(|word| (*word).to_owned()));
            arguments.push(model.to_owned());
        }
        let is_own = |word: &&String| {
            Some(word.as_str()) != self.subcommand && Some(word.as_str()) != self.stdin
        };
        arguments.extend(given.iter().filter(is_own).cloned());
        Ok(arguments)
    }

    /// Whether a variable is a credential of the client, or selects its provider.
    pub fn is_credential(&self, variable: &str) -> bool {
        let Credentials { variables, any_api_key, .. } = self.credentials;
        variables.contains(&variable) || any_api_key && variable.ends_with("_API_KEY")
    }

    /// The arguments of a reviewer around which the harness has a sandbox: without that of the client.
    pub fn without_sandbox(&self, given: &[String]) -> Vec<String> {
        let flags = self.sandbox.as_ref().map_or(&[][..], |sandbox| sandbox.flags);
        let mut words = given.iter();
        let mut kept = Vec::new();
        while let Some(word) = words.next() {
            match word.split_once('=').map_or(word.as_str(), |(flag, _)| flag) {
                flag if !flags.contains(&flag) => kept.push(word.clone()),
                flag if flag == word => drop(words.next()),
                _ => {}
            }
        }
        kept
    }

    /// The arguments of a reviewer around which the harness has no sandbox: with that of the client, if it has one and
    /// the user decided nothing about it.
    pub fn with_sandbox(&self, given: &[String], state_dir: &str) -> Vec<String> {
        let mut arguments = given.to_vec();
        let is_decided = |sandbox: &OwnSandbox| {
            let opened = self
                .unattended
                .iter()
                .filter(|flag| flag.unless.iter().any(|flag| sandbox.flags.contains(flag)));
            opened.into_iter().any(|flag| flag.is_in(given))
        };
        if let Some(sandbox) = self.sandbox.as_ref().filter(|sandbox| !is_decided(sandbox)) {
            let [flag, ..] = sandbox.flags else { return arguments };
            let writable = format!("{}[{state_dir:?}]", sandbox.writable);
            arguments.extend([(*flag).to_owned(), sandbox.mode.to_owned(), writable]);
        }
        arguments
    }

    /// The content of the file that [`Adapter::read_only`] is given, if the client needs one.
    pub fn policy(&self) -> Option<&'static str> {
        match self.read_only {
            Some(ReadOnly::Policy { content, .. }) => Some(content),
            _ => None,
        }
    }

    /// Keeps the tools of a reviewer from changing files, as far as its client can.
    pub fn read_only(&self, given: &[String], policy: &str) -> Options {
        let mut options = Options::default();
        match &self.read_only {
            Some(ReadOnly::Flag(flag)) if !flag.is_in(given) => {
                options.args.extend(flag.add.iter().map(|word| (*word).to_owned()));
            }
            Some(ReadOnly::Variable(name, value)) => options.env.push((name, (*value).to_owned())),
            Some(ReadOnly::Policy { args, .. }) => {
                options.args.extend(args.iter().map(|word| word.replace(POLICY, policy)));
            }
            Some(ReadOnly::Flag(_)) | None => {}
        }
        options
    }

    /// Gives the client the MCP server `program mcp`; `None` if that is not possible. Settings that a variable has are
    /// kept.
    pub fn tools(
        &self,
        program: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Option<Options> {
        let McpOption { args, env, settings } = self.mcp.as_ref()?;
        let program = Value::from(program).to_string();
        let filled = |text: &&str| text.replace(SERVER, &program);
        let settings = settings.map(|(name, added)| {
            let given = variable(name).filter(|given| !given.is_empty());
            (name, with_settings(given, &filled(&added)))
        });
        let env = env.iter().map(|(name, value)| (*name, (*value).to_owned()));
        Some(Options {
            args: args.iter().map(filled).collect(),
            env: env.chain(settings).collect(),
        })
    }

    /// The last argument if the prompt is on standard input.
    pub fn stdin_argument(&self) -> Option<&'static str> {
        self.stdin
    }

    fn check(&self, given: &[String]) -> Result<(), BadArgument> {
        let bad = |argument: String, why: String| {
            Err(BadArgument { program: self.program, argument, why })
        };
        if let (Some(subcommand), Some(first)) = (self.subcommand, given.first())
            && !first.starts_with('-')
            && first != subcommand
        {
            let why = format!("only `{} {subcommand}` runs a prompt", self.program);
            return bad(first.clone(), why);
        }
        for Refused { flags, values, why } in self.refused {
            for flag in *flags {
                let Some(value) = value_of(flag, given) else { continue };
                if values.is_empty() {
                    return bad((*flag).to_owned(), (*why).to_owned());
                }
                if values.contains(&value) {
                    return bad(format!("{flag} {value}"), (*why).to_owned());
                }
            }
        }
        Ok(())
    }
}

impl Flag {
    fn is_in(&self, given: &[String]) -> bool {
        let names = self.add.first().into_iter().chain(self.unless);
        names.into_iter().any(|name| value_of(name, given).is_some())
    }
}

/// The value of a flag, as in `--flag value` or `--flag=value`; empty if it is the last word, `None` if it is not given.
fn value_of<'g>(flag: &str, given: &'g [String]) -> Option<&'g str> {
    given.iter().enumerate().find_map(|(at, word)| match word.strip_prefix(flag)? {
        "" => Some(given.get(at + 1).map_or("", String::as_str)),
        rest => rest.strip_prefix('='),
    })
}

/// Settings as JSON with others added to them. Where the given ones are no JSON, they stay as they are: without them
/// the client may not reach its provider, without the others its agent calls its tools by a command.
fn with_settings(given: Option<String>, added: &str) -> String {
    let Some(given) = given else { return added.to_owned() };
    match (serde_json::from_str(&given), serde_json::from_str(added)) {
        (Ok(Value::Object(mut all)), Ok(Value::Object(added))) => {
            add(&mut all, added);
            Value::Object(all).to_string()
        }
        _ => given,
    }
}

fn add(all: &mut Map<String, Value>, added: Map<String, Value>) {
    for (key, value) in added {
        match (all.get_mut(&key), value) {
            (Some(Value::Object(all)), Value::Object(added)) => add(all, added),
            (_, value) => drop(all.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command line for arguments, with the output that they lead to.
    fn line(command: &str, model: Option<&str>) -> String {
        let mut words = command.split(' ').map(str::to_owned);
        let adapter = Adapter::by_program(&words.next().unwrap()).unwrap();
        let given: Vec<String> = words.collect();
        let output = adapter.prints(&given);
        match adapter.arguments(&given, model, output) {
            Ok(arguments) => format!("{} {} -> {output}", adapter.program, arguments.join(" ")),
            Err(bad) => bad.to_string(),
        }
    }

    #[test]
    fn what_is_missing_is_added_and_what_the_user_gave_is_kept() {
        let lines = [
            "claude",
            "claude --model opus",
            "claude -p --output-format json",
            "claude --output-format=text",
            "claude --permission-mode dontAsk --allowedTools Bash",
            "/opt/bin/codex",
            "codex -m gpt-5.5 exec --json -",
            "codex -s workspace-write",
            "gemini -y",
            "gemini --output-format text",
            "opencode run --agent build",
            "opencode --format default",
            "pi --provider x",
            "pi --mode text",
        ];
        insta::assert_snapshot!(lines.map(|command| line(command, None)).join("\n"), @r"
        claude -p --dangerously-skip-permissions --output-format stream-json --verbose -> claude
        claude -p --dangerously-skip-permissions --output-format stream-json --verbose --model opus -> claude
        claude --dangerously-skip-permissions --verbose -p --output-format json -> claude
        claude -p --dangerously-skip-permissions --output-format=text -> plain
        claude -p --output-format stream-json --verbose --permission-mode dontAsk --allowedTools Bash -> claude
        codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --config=allow_login_shell=false --json -> codex
        codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --config=allow_login_shell=false -m gpt-5.5 --json -> codex
        codex exec --skip-git-repo-check --config=allow_login_shell=false --json -s workspace-write -> codex
        gemini -o stream-json -y -> gemini
        gemini --approval-mode yolo --output-format text -> plain
        opencode run --auto --format json --agent build -> opencode
        opencode run --auto --format default -> plain
        pi -p --mode json --provider x -> pi
        pi -p --mode text -> plain
        ");
    }

    #[test]
    fn a_model_is_passed_unless_the_user_gave_one() {
        let lines = ["claude", "claude --model=opus", "codex", "gemini", "opencode", "pi"];
        insta::assert_snapshot!(lines.map(|command| line(command, Some("m"))).join("\n"), @r"
        claude -p --dangerously-skip-permissions --output-format stream-json --verbose --model m -> claude
        claude -p --dangerously-skip-permissions --output-format stream-json --verbose --model=opus -> claude
        codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --config=allow_login_shell=false --json -m m -> codex
        gemini --approval-mode yolo -o stream-json -m m -> gemini
        opencode run --auto --format json -m m -> opencode
        pi -p --mode json --model m -> pi
        ");
    }

    #[test]
    fn a_client_is_given_the_tools_of_its_agent() {
        let tools = |client: &&Adapter| {
            let tools = client.tools("/p/.autoloop/bin \"x\"", |_| None);
            let lines = tools.map(|Options { args, env }| {
                let env = env.into_iter().map(|(name, value)| format!("{name}={value}"));
                env.chain(args).collect::<Vec<_>>().join("\n  ")
            });
            format!("{}: {}", client.program, lines.unwrap_or_else(|| "-".to_owned()))
        };
        insta::assert_snapshot!(Adapter::ALL.iter().map(tools).collect::<Vec<_>>().join("\n"), @r#"
        claude: ENABLE_TOOL_SEARCH=false
          --mcp-config={"mcpServers":{"autoloop":{"command":"/p/.autoloop/bin \"x\"","args":["mcp"]}}}
          --strict-mcp-config
          --allowedTools=mcp__autoloop
        codex: --config=mcp_servers.autoloop.command="/p/.autoloop/bin \"x\""
          --config=mcp_servers.autoloop.args=["mcp"]
          --config=mcp_servers.autoloop.env_vars=["AUTOLOOP_DOOR","AUTOLOOP_TICKET"]
          --config=mcp_servers.autoloop.default_tools_approval_mode="approve"
        gemini: -
        opencode: OPENCODE_CONFIG_CONTENT={"mcp":{"autoloop":{"type":"local","command":["/p/.autoloop/bin \"x\"","mcp"],"enabled":true}}}
        pi: -
        "#);
    }

    #[test]
    fn settings_that_a_variable_has_are_kept() {
        let opencode = Adapter::by_program("opencode").unwrap();
        let settings = |given: &str| {
            let variable = |name: &str| (name == "OPENCODE_CONFIG_CONTENT").then(|| given.into());
            let tools = opencode.tools("/t", variable).unwrap();
            tools.env.into_iter().map(|(_, value)| value).collect::<String>()
        };
        let given = [
            "",
            "{}",
            r#"{"model": "a/b", "mcp": {"other": {"type": "local"}, "autoloop": {"enabled": false}}}"#,
            r#"{"mcp": 1}"#,
            "{ // a comment",
            "[]",
        ];
        insta::assert_snapshot!(given.map(settings).join("\n"), @r#"
        {"mcp":{"autoloop":{"type":"local","command":["/t","mcp"],"enabled":true}}}
        {"mcp":{"autoloop":{"type":"local","command":["/t","mcp"],"enabled":true}}}
        {"model":"a/b","mcp":{"other":{"type":"local"},"autoloop":{"enabled":true,"type":"local","command":["/t","mcp"]}}}
        {"mcp":{"autoloop":{"type":"local","command":["/t","mcp"],"enabled":true}}}
        { // a comment
        []
        "#);
    }

    #[test]
    fn exactly_one_sandbox_is_around_a_reviewer() {
        let codex = Adapter::by_program("codex").unwrap();
        let words = |text: &str| -> Vec<String> {
            text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        let line =
            |given: Vec<String>| codex.arguments(&given, None, Stream::Codex).unwrap().join(" ");
        for given in ["", "-s read-only", "--sandbox=workspace-write", "--yolo"] {
            let ours = line(codex.without_sandbox(&words(given)));
            assert!(ours.contains("--dangerously-bypass") || ours.contains("--yolo"), "{ours}");
            assert!(!ours.contains("-s ") && !ours.contains("--sandbox="), "{ours}");
        }
        insta::assert_snapshot!(
            ["", "-m m", "-s read-only", "--yolo"]
                .map(|given| line(codex.with_sandbox(&words(given), "/p/.autoloop")))
                .join("\n"),
            @r#"
        exec --skip-git-repo-check --config=allow_login_shell=false --json -s workspace-write --config=sandbox_workspace_write.writable_roots=["/p/.autoloop"]
        exec --skip-git-repo-check --config=allow_login_shell=false --json -m m -s workspace-write --config=sandbox_workspace_write.writable_roots=["/p/.autoloop"]
        exec --skip-git-repo-check --config=allow_login_shell=false --json -s read-only
        exec --skip-git-repo-check --config=allow_login_shell=false --json --yolo
        "#
        );
        let pi = Adapter::by_program("pi").unwrap();
        assert_eq!(pi.with_sandbox(&words("-s x"), "/p"), words("-s x"));
        assert_eq!(pi.without_sandbox(&words("-s x")), words("-s x"));
    }

    #[test]
    fn the_tools_of_a_reviewer_change_no_files() {
        let lines = ["claude", "codex", "gemini -y", "opencode", "pi", "pi -t read"];
        let line = |command: &str| {
            let mut words = command.split(' ').map(str::to_owned);
            let client = Adapter::by_program(&words.next().unwrap()).unwrap();
            let given: Vec<String> = words.collect();
            let Options { args, env } = client.read_only(&given, "/p/policy.toml");
            let env = env.into_iter().map(|(name, value)| format!("{name}={value} "));
            let args = if args.is_empty() { "-".to_owned() } else { args.join(" ") };
            format!("{}{command} {args}", env.collect::<String>())
        };
        insta::assert_snapshot!(lines.map(line).join("\n"), @r#"
        claude --disallowedTools=Edit,Write,NotebookEdit
        codex -
        gemini -y --policy=/p/policy.toml --skip-trust
        OPENCODE_PERMISSION={"edit":"deny"} opencode -
        pi --tools read,bash,grep,find,ls
        pi -t read -
        "#);
        let policies = Adapter::ALL.into_iter().filter(|client| client.policy().is_some());
        assert_eq!(policies.map(|client| client.program).collect::<Vec<_>>(), ["gemini"]);
    }

    #[test]
    fn the_state_of_a_client_is_where_its_variables_say() {
        let places = |set: &[(&str, &str)]| {
            let variable = |name: &str| {
                let (_, value) = set.iter().find(|(known, _)| *known == name)?;
                Some(OsString::from(value))
            };
            let dirs = Adapter::ALL.into_iter().flat_map(|client| client.state);
            let paths = dirs.filter_map(|dir| Some(dir.path(variable)?.display().to_string()));
            paths.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(places(&[]), "");
        insta::assert_snapshot!(places(&[("HOME", "/h"), ("CODEX_HOME", "")]).replace(' ', "\n"), @r"
        /h/.claude
        /h/.claude.json
        /h/.codex
        /h/.gemini
        /h/.local/share/opencode
        /h/.config/opencode
        /h/.local/state/opencode
        /h/.cache/opencode
        /h/.pi/agent
        ");
        let moved = [
            ("CLAUDE_CONFIG_DIR", "/a"),
            ("CODEX_HOME", "/b"),
            ("GEMINI_CLI_HOME", "/c"),
            ("XDG_DATA_HOME", "/d"),
            ("PI_CODING_AGENT_DIR", "/e"),
        ];
        assert_eq!(places(&moved), "/a/ /a/.claude.json /b/ /c/.gemini /d/opencode /e/");
    }

    #[test]
    fn flags_that_need_a_person_are_refused() {
        let lines = [
            "claude --permission-mode plan",
            "claude --input-format stream-json",
            "codex login",
            "codex -a on-request",
            "gemini -i hello",
            "gemini --approval-mode=default",
            "opencode serve",
            "pi --mode rpc",
        ];
        insta::assert_snapshot!(lines.map(|command| line(command, None)).join("\n"), @r"
        claude cannot run unattended with '--permission-mode plan': it would deny the tools that the agent needs; use dontAsk with --allowedTools
        claude cannot run unattended with '--input-format stream-json': the prompt is plain text on standard input
        codex cannot run unattended with 'login': only `codex exec` runs a prompt
        codex cannot run unattended with '-a on-request': it would wait for an approval
        gemini cannot run unattended with '-i': it would wait for more input
        gemini cannot run unattended with '--approval-mode default': it would have no shell, so it could not report events
        opencode cannot run unattended with 'serve': only `opencode run` runs a prompt
        pi cannot run unattended with '--mode rpc': it would wait for requests on standard input
        ");
    }
}
