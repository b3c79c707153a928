//! The agent of a loop, of a role and of a review.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use toml::Spanned;

use crate::agents::{Adapter, BadArgument, Stream, Waits};
use crate::config::{
    AgentKeys, BackendKind, Key, Leftovers, Origin, Problem, PromptMode, Refusal, Settings,
    Severity, Value, read_text,
};
use crate::env::Inherits;
use crate::limits::TimeLeft;
use crate::topology::Role;

/// How an agent is started and limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendPlan {
    pub kind: BackendKind,
    /// The executable; for a script or a replay, the file that is played.
    pub command: String,
    /// Its arguments before the prompt.
    pub args: Vec<String>,
    pub model: Option<String>,
    /// What it gets of the environment besides the usual: names, patterns and assignments.
    pub env: Vec<String>,
    pub prompt_mode: PromptMode,
    pub output: Option<Stream>,
    pub timeout: Duration,
    /// The setting of that limit, to be named in messages.
    pub timeout_key: String,
    /// The time from TERM to KILL.
    pub grace: Duration,
    pub leftovers: Leftovers,
    pub output_cap: u64,
    /// How long it is waited for a client that is unavailable.
    pub waits: Waits,
    /// For a turn with all its waits, where a limit of the run is shorter than the timeout.
    pub time_left: Option<Duration>,
}

/// A role with an invalid backend setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} of role '{}' is {found}; {label}", .role.escape_debug())]
pub struct BadRole {
    pub role: String,
    /// The key in `topology.toml`.
    pub key: &'static str,
    /// The bytes of its value in `topology.toml`.
    pub span: Range<usize>,
    pub found: String,
    pub label: String,
    pub hint: Option<String>,
}

impl BackendPlan {
    pub(super) fn new(settings: &Settings, keys: &AgentKeys) -> BackendPlan {
        let command_key = settings.source(keys.command);
        // A kind that is set and blank is derived from the command, whatever the loop has.
        let kind = match settings.origin(keys.kind) {
            Origin::Default => settings.source(keys.kind),
            _ => keys.kind,
        };
        let named: Option<BackendKind> = settings.choice(kind);
        let is_default = settings.origin(command_key) == Origin::Default;
        // The command of another kind of agent does not speak the protocol.
        let is_foreign = command_key != keys.command
            && settings.choice(AgentKeys::LOOP.kind) != Some(BackendKind::Acp);
        let command = match (named, named.and_then(BackendKind::adapter)) {
            (_, Some(client)) if is_default => client.program,
            (Some(BackendKind::Acp), _) if is_default || is_foreign => "",
            _ => settings.text(command_key).unwrap_or_default(),
        };
        let kind = named.unwrap_or_else(|| BackendKind::of_command(command));
        let of_loop = settings.text(AgentKeys::LOOP.command).unwrap_or_default();
        // Arguments and models of one client mean nothing to another.
        let own = |key: Key| {
            Some(settings.source(key)).filter(|source| *source == key || command == of_loop)
        };
        let timeout = settings.source(keys.timeout);
        let output_cap = settings.number(settings.source(keys.output_cap));
        BackendPlan {
            kind,
            command: command.to_owned(),
            args: own(keys.args).and_then(|key| settings.list(key)).unwrap_or_default().to_vec(),
            model: own(keys.model).and_then(|key| settings.text(key)).map(str::to_owned),
            env: settings.list(settings.source(keys.env)).unwrap_or_default().to_vec(),
            prompt_mode: prompt_mode(kind, settings.choice(settings.source(keys.prompt_mode))),
            output: settings.choice(settings.source(keys.output)),
            timeout: settings.time(timeout),
            timeout_key: timeout.name().to_owned(),
            grace: settings.time(settings.source(keys.grace)),
            leftovers: settings.word(settings.source(keys.leftovers)),
            output_cap: output_cap.unsigned_abs(),
            waits: Waits {
                first: settings.time(Key::BackendFirstWait),
                most: settings.time(Key::BackendMaxWait),
            },
            time_left: None,
        }
    }

    /// The agent of a role; what the role does not set is taken from this one.
    pub(super) fn for_role(
        &self,
        settings: &Settings,
        role: &Role,
    ) -> Result<BackendPlan, Vec<BadRole>> {
        let mut bad = Vec::new();
        let mut read = |key: Key, name: &'static str, written: Option<&Spanned<String>>| {
            let written = written?;
            let refuse = |Refusal { found, label, hint, .. }| {
                let (role, span) = (role.id.clone(), written.span());
                bad.push(BadRole { role, key: name, span, found, label, hint });
            };
            read_text(key.kind(), written.get_ref()).map_err(refuse).ok()
        };
        let word = |value: Option<Value>| match value {
            Some(Value::Text(word)) => Some(word),
            _ => None,
        };
        let kind = word(read(Key::BackendKind, "backend_kind", role.backend_kind.as_ref()));
        // A blank one is none, as everywhere.
        let command = role.backend_command.as_ref();
        let command = word(read(Key::ReviewCommand, "backend_command", command));
        let model = word(read(Key::BackendModel, "backend_model", role.backend_model.as_ref()));
        let mode = role.backend_prompt_mode.as_ref();
        let mode = word(read(Key::ReviewPromptMode, "backend_prompt_mode", mode));
        let output = word(read(Key::BackendOutput, "backend_output", role.backend_output.as_ref()));
        let millis = role.backend_timeout_ms.as_ref();
        let millis = millis.map(|millis| Spanned::new(millis.span(), millis.get_ref().to_string()));
        let timeout = read(Key::BackendTimeout, "backend_timeout_ms", millis.as_ref());
        let args = role.backend_args.as_ref();
        let nul = args.filter(|args| args.get_ref().iter().any(|arg| arg.contains('\0')));
        let nul = nul.map(|args| Spanned::new(args.span(), "\0".to_owned()));
        read(Key::BackendArgs, "backend_args", nul.as_ref());
        if !bad.is_empty() {
            return Err(bad);
        }
        let kind = kind.and_then(|kind| BackendKind::from_word(&kind));
        let is_other = |client: &&Adapter| {
            Adapter::by_program(&self.command).is_none_or(|own| own.program != client.program)
        };
        let client = kind.and_then(BackendKind::adapter).filter(is_other);
        let of_kind = client.map(|client| client.program.to_owned());
        let has_command = command.is_some();
        let is_foreign = kind == Some(BackendKind::Acp) && self.kind != BackendKind::Acp;
        let inherited = || if is_foreign { String::new() } else { self.command.clone() };
        let command = command.or(of_kind).unwrap_or_else(inherited);
        let of_loop = settings.choice(Key::BackendKind).filter(|_| !has_command);
        let kind = kind.or(of_loop).unwrap_or_else(|| BackendKind::of_command(&command));
        let is_same = command == self.command;
        Ok(BackendPlan {
            kind,
            args: match args {
                Some(args) => args.get_ref().clone(),
                None if is_same => self.args.clone(),
                None => Vec::new(),
            },
            model: model.or_else(|| self.model.clone().filter(|_| is_same)),
            prompt_mode: prompt_mode(
                kind,
                mode.and_then(|mode| PromptMode::from_word(&mode))
                    .or_else(|| settings.choice(Key::BackendPromptMode)),
            ),
            command,
            output: output.and_then(|output| Stream::from_word(&output)).or(self.output),
            timeout_key: match timeout {
                Some(_) => format!("backend_timeout_ms of role '{}'", role.id.escape_debug()),
                None => self.timeout_key.clone(),
            },
            timeout: match timeout {
                Some(Value::Time(timeout)) => timeout,
                _ => self.timeout,
            },
            ..self.clone()
        })
    }

    /// The same with at most this time for a turn, in which it also waits for its client.
    #[must_use]
    pub fn within(mut self, left: Option<TimeLeft>) -> BackendPlan {
        let Some(TimeLeft { time, key }) = left else { return self };
        self.waits.most = self.waits.most.min(time);
        self.time_left = Some(self.time_left.map_or(time, |earlier| earlier.min(time)));
        if time < self.timeout {
            self.timeout = time;
            key.name().clone_into(&mut self.timeout_key);
        }
        self
    }

    pub fn stream(&self) -> Stream {
        match (self.kind, self.output) {
            // A journal has answers, whatever they were taken out of.
            (BackendKind::Replay, _) => Stream::Plain,
            (BackendKind::Acp, _) => Stream::Acp,
            (_, Some(output)) => output,
            (BackendKind::Script, None) => Stream::Plain,
            (kind, None) => match kind.adapter() {
                Some(client) => client.prints(&self.args),
                None => asked_stream(&self.command, &self.args),
            },
        }
    }

    /// What the harness knows about the program, by the kind of agent or by the name of an ACP program.
    pub fn client(&self) -> Option<&'static Adapter> {
        match self.kind {
            BackendKind::Acp => Adapter::by_program(&self.command),
            kind => kind.adapter(),
        }
    }

    /// What it inherits of the harness's environment. A client that is started as a plain command, or through a
    /// program like `codex-acp`, is that client all the same.
    pub fn inherits(&self) -> Inherits {
        let more = self.env.iter().filter(|entry| !entry.contains('=')).cloned().collect();
        let program = match (self.kind, self.command.split_once('-')) {
            (BackendKind::Acp, Some((client, _))) => client,
            _ => &self.command,
        };
        Inherits::Agent { client: Adapter::by_program(program).or(self.client()), more }
    }

    /// The variables that are set for it: those that its client needs, and those of its settings.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let of_client = self.client().map_or(&[][..], |client| client.env).iter().copied();
        of_client.chain(self.env.iter().filter_map(|entry| entry.split_once('=')))
    }

    /// The name that its command lines, paths and protocols have in common; turns of one client wait together.
    pub fn client_name(&self) -> &str {
        self.client().map_or(&self.command, |client| client.program)
    }

    /// The arguments before the prompt: those that are set, and those that a known client needs.
    pub fn arguments(&self) -> Result<Vec<String>, BadArgument> {
        match self.kind.adapter() {
            Some(client) => client.arguments(&self.args, self.model.as_deref(), self.stream()),
            None => Ok(self.args.clone()),
        }
    }
}

/// How the prompt reaches an agent: as it is set, or on standard input for known clients, which read prompts of any
/// length and any beginning from there. An ACP program gets it in a message.
fn prompt_mode(kind: BackendKind, set: Option<PromptMode>) -> PromptMode {
    match (kind, set) {
        (BackendKind::Acp, _) => PromptMode::Stdin,
        (_, Some(mode)) => mode,
        (kind, None) if kind.adapter().is_some() => PromptMode::Stdin,
        _ => PromptMode::Arg,
    }
}

/// The output of a client that is started like any command: its stream, if its arguments ask for it.
fn asked_stream(command: &str, args: &[String]) -> Stream {
    match Adapter::by_program(command) {
        Some(client) if client.is_asked_to_stream(args) => client.prints(args),
        _ => Stream::Plain,
    }
}

impl BadRole {
    /// The problem, with its position in the topology.
    pub fn problem(&self, name: &str, text: &Arc<str>) -> Problem {
        Problem {
            severity: Severity::Error,
            name: name.to_owned(),
            text: Arc::clone(text),
            span: self.span.clone(),
            message: format!(
                "{} of role '{}' is {}",
                self.key,
                self.role.escape_debug(),
                self.found
            ),
            label: self.label.clone(),
            hint: self.hint.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Layer, Origin};
    use crate::plan::Plan;
    use crate::topology::Topology;

    fn plan(text: &str, topology: &str) -> Result<Plan, Vec<BadRole>> {
        let reading = Settings::resolve(&[Layer::file(Origin::Project, "autoloops.toml", text)]);
        assert_eq!(reading.problems, []);
        Plan::resolve(&reading.settings, &Topology::parse(topology).unwrap())
    }

    fn review(text: &str) -> BackendPlan {
        plan(text, "").unwrap().review.unwrap().backend
    }

    fn role(text: &str, role: &str) -> BackendPlan {
        let topology = format!("[[role]]\nid = 'a'\n{role}");
        let plan = plan(text, &topology).unwrap();
        let topology = Topology::parse(&topology).unwrap();
        plan.backend_for(topology.role("a").unwrap()).clone()
    }

    #[test]
    fn the_kind_is_derived_from_the_name_of_the_command() {
        for (text, kind) in [
            ("", BackendKind::Claude),
            ("backend.command = 'codex'", BackendKind::Codex),
            ("backend.kind = 'gemini'", BackendKind::Gemini),
            ("backend.command = 'sh'", BackendKind::Command),
            ("backend.command = 'pi'", BackendKind::Pi),
            ("backend.command = '/opt/bin/pi'", BackendKind::Pi),
            ("backend.command = 'pi2'", BackendKind::Command),
            ("backend = { command = 'pi', kind = '' }", BackendKind::Pi),
            ("backend = { command = 'pi', kind = 'command' }", BackendKind::Command),
            ("backend = { command = 'a.toml', kind = 'script' }", BackendKind::Script),
            ("backend = { command = 'j.jsonl', kind = 'replay' }", BackendKind::Replay),
            ("backend = { command = 'gemini', kind = 'acp' }", BackendKind::Acp),
        ] {
            assert_eq!(plan(text, "").unwrap().backend.kind, kind, "{text}");
        }
    }

    #[test]
    fn a_review_is_like_the_loop_but_for_its_time() {
        let all = "backend = { kind = 'command', command = 'x', args = ['-a'], prompt_mode = 'stdin', timeout_ms = 7, grace_ms = 8, leftovers = 'warn', output_cap = 9 }\n";
        let like = review(all);
        assert_eq!(like.timeout, Duration::from_secs(300), "not that of the backend");
        let loops = plan(all, "").unwrap().backend;
        assert_eq!(like.timeout_key, "review.timeout_ms");
        let BackendPlan { timeout, timeout_key, .. } = loops.clone();
        assert_eq!(BackendPlan { timeout, timeout_key, ..like }, loops);

        let own = review(&format!(
            "{all}review = {{ kind = 'pi', command = 'y', args = [], prompt_mode = 'file', timeout_ms = '90s' }}"
        ));
        assert_eq!(own.kind, BackendKind::Pi);
        assert_eq!((&own.command[..], own.args.len()), ("y", 0));
        assert_eq!((own.prompt_mode, own.timeout), (PromptMode::File, Duration::from_secs(90)));
        assert_eq!((own.grace, own.leftovers, own.output_cap), (loops.grace, loops.leftovers, 9));

        // The kind that was told by a name follows the name; blank is not set.
        assert_eq!(review("review.command = 'pi'").kind, BackendKind::Pi);
        let loop_kind = "backend = { kind = 'command', command = 'x' }\nreview.command = 'pi'";
        assert_eq!(review(loop_kind).kind, BackendKind::Command);
        let blank = format!("{loop_kind}\nreview.kind = ''");
        assert_eq!(review(&blank).kind, BackendKind::Pi, "a blank kind is detected");
        assert_eq!(
            review("backend.command = 'pi'\nreview.command = 'z'").kind,
            BackendKind::Command
        );
        assert_eq!(review("review = { command = '', args = '', kind = '' }").command, "claude");
        assert_eq!(review("backend.args = ['-p']\nreview.args = ''").args, ["-p"]);
    }

    #[test]
    fn a_role_is_like_the_loop_but_for_what_it_says() {
        let text = "backend = { args = ['-p'], timeout_ms = 7 }";
        assert_eq!(role(text, ""), plan(text, "").unwrap().backend);
        assert_eq!(role(text, "backend_command = ''"), plan(text, "").unwrap().backend);
        let own = role(text, "backend_command = 'pi'\nbackend_timeout_ms = 9\nbackend_args = []");
        assert_eq!((own.kind, &own.command[..]), (BackendKind::Pi, "pi"));
        assert_eq!((own.args.len(), own.timeout), (0, Duration::from_millis(9)));
        let own = role(text, "backend_prompt_mode = 'stdin'\nbackend_kind = 'script'");
        assert_eq!((own.prompt_mode, own.kind), (PromptMode::Stdin, BackendKind::Script));
        assert_eq!((&own.command[..], &own.args[..]), ("claude", &["-p".to_owned()][..]));
    }

    #[test]
    fn an_agent_is_named_in_one_text_like_on_the_command_line() {
        let line = |backend: &BackendPlan| {
            let model = backend.model.as_deref().unwrap_or("-");
            format!("{} {} {:?} {model}", backend.kind, backend.command, backend.args)
        };
        let resolved = |text: &str, flags: &[Layer]| {
            let mut layers = vec![Layer::file(Origin::Project, "autoloops.toml", text)];
            layers.extend_from_slice(flags);
            let reading = Settings::resolve(&layers);
            assert_eq!(reading.problems, [], "{text}");
            let plan = Plan::resolve(&reading.settings, &Topology::default()).unwrap();
            let agents = [&plan.backend, &plan.review.unwrap().backend, &plan.slots.reviewer];
            format!("{text}: {}", agents.map(line).join("; "))
        };
        let cases = [
            resolved("backend = 'codex:gpt-5.5'", &[]),
            resolved("backend = 'codex --full'", &[]),
            resolved("backend = 'claude:opus'\nreview.backend = 'codex:m'", &[]),
            resolved("review.backend = 'codex'\nslots.reviewer = 'gemini:m'", &[]),
            resolved("review.backend = 'codex'\nreview.model = 'm'", &[Layer::backend("pi")]),
            resolved("", &[Layer::set("slots.reviewer=codex:m"), Layer::set("review.backend=pi")]),
            resolved("", &[Layer::variable("slots.reviewer=codex; backend=pi:m")]),
            resolved(
                "slots.reviewer.command = 'x'\nslots.reviewer.args = 'a'",
                &[Layer::set("slots.reviewer=codex")],
            ),
            resolved("slots.reviewer = 'codex:m'", &[Layer::set("slots.reviewer.model=n")]),
            resolved("backend.model = 'm'", &[Layer::backend("codex --flag")]),
        ];
        insta::assert_snapshot!(cases.join("\n"), @r#"
        backend = 'codex:gpt-5.5': codex codex [] gpt-5.5; codex codex [] gpt-5.5; codex codex [] gpt-5.5
        backend = 'codex --full': codex codex ["--full"] -; codex codex ["--full"] -; codex codex ["--full"] -
        backend = 'claude:opus'
        review.backend = 'codex:m': claude claude [] opus; codex codex [] m; claude claude [] opus
        review.backend = 'codex'
        slots.reviewer = 'gemini:m': claude claude [] -; codex codex [] -; gemini gemini [] m
        review.backend = 'codex'
        review.model = 'm': pi pi [] -; codex codex [] m; pi pi [] -
        : claude claude [] -; pi pi [] -; codex codex [] m
        : pi pi [] m; pi pi [] m; codex codex [] -
        slots.reviewer.command = 'x'
        slots.reviewer.args = 'a': claude claude [] -; claude claude [] -; codex codex [] -
        slots.reviewer = 'codex:m': claude claude [] -; claude claude [] -; codex codex [] n
        backend.model = 'm': codex codex ["--flag"] -; codex codex ["--flag"] -; codex codex ["--flag"] -
        "#);
        let bad =
            Settings::resolve(&[Layer::file(Origin::Project, "a.toml", "slots.reviewer = ''")]);
        assert_eq!(bad.problems[0].message, "missing command");
    }

    #[test]
    fn the_output_is_that_of_the_client_or_as_set() {
        for (text, stream) in [
            ("", Stream::Claude),
            ("backend.kind = 'command'", Stream::Plain),
            ("backend.command = 'pi'", Stream::Pi),
            ("backend = { command = 'pi', output = 'plain' }", Stream::Plain),
            ("backend.output = 'claude'", Stream::Claude),
            ("backend.args = ['-p', '--output-format', 'stream-json']", Stream::Claude),
            ("backend.args = ['-p', '--output-format=json']", Stream::Claude),
            ("backend.args = ['-p', '--output-format', 'text', 'json']", Stream::Plain),
            ("backend = { args = ['--output-format=json'], output = 'plain' }", Stream::Plain),
            ("backend = { command = '/x/codex', args = ['exec', '--json', '-'] }", Stream::Codex),
            ("backend = { command = 'codex', args = ['exec', '-'] }", Stream::Codex),
            (
                "backend = { command = 'codex', args = ['exec', '-'], kind = 'command' }",
                Stream::Plain,
            ),
            ("backend = { command = 'codex', args = ['--json'], kind = 'command' }", Stream::Codex),
            ("backend = { command = 'sh', args = ['exec', '--json'] }", Stream::Plain),
            ("backend = { command = 'a.toml', kind = 'script', output = 'codex' }", Stream::Codex),
            ("backend = { command = 'j', kind = 'replay', output = 'codex' }", Stream::Plain),
            ("backend = { command = 'gemini', kind = 'acp', output = 'gemini' }", Stream::Acp),
        ] {
            assert_eq!(plan(text, "").unwrap().backend.stream(), stream, "{text}");
            assert_eq!(review(text).stream(), stream, "{text}");
            assert_eq!(role(text, "").stream(), stream, "{text}");
        }
        let claude = "backend.output = 'claude'";
        assert_eq!(role(claude, "backend_output = 'pi'").stream(), Stream::Pi);
        assert_eq!(review(&format!("{claude}\nreview.output = 'codex'")).stream(), Stream::Codex);
        let bad = plan("", "[[role]]\nid = 'odd'\nbackend_output = 'jsonl'").unwrap_err();
        insta::assert_snapshot!(bad[0], @r#"backend_output of role 'odd' is "jsonl"; expected "plain", "claude", "codex", "gemini", "opencode", "pi" or "acp""#);
    }

    #[test]
    fn an_acp_program_is_named_where_its_kind_is() {
        let acp =
            "backend = { kind = 'acp', command = 'gemini', args = ['--acp'], prompt_mode = 'arg' }";
        let loops = plan(acp, "").unwrap().backend;
        assert_eq!((&loops.command[..], loops.prompt_mode), ("gemini", PromptMode::Stdin));
        assert_eq!(loops.client().map(|client| client.program), Some("gemini"));
        assert_eq!(loops.arguments().unwrap(), ["--acp"]);
        for like in [
            review(acp),
            review(&format!("{acp}\nreview.kind = 'acp'")),
            role(acp, "backend_kind = 'acp'"),
        ] {
            assert_eq!((like.kind, &like.command[..]), (BackendKind::Acp, "gemini"));
            assert_eq!((&like.args[..], like.prompt_mode), (&loops.args[..], PromptMode::Stdin));
        }
        // Without a command of its own there is none: that of the loop is another kind of agent.
        assert_eq!(plan("backend.kind = 'acp'", "").unwrap().backend.command, "");
        for text in ["", "backend.command = 'codex'\n"] {
            assert_eq!(review(&format!("{text}review.kind = 'acp'")).command, "", "{text}");
            assert_eq!(role(text, "backend_kind = 'acp'").command, "", "{text}");
        }
        let own =
            role("", "backend_kind = 'acp'\nbackend_command = 'opencode'\nbackend_args = ['acp']");
        assert_eq!((own.kind, &own.command[..]), (BackendKind::Acp, "opencode"));
    }

    #[test]
    fn a_role_that_cannot_be_is_shown_where_it_stands() {
        let text: Arc<str> = "[[role]]\nid = 'fine'\nbackend_kind = 'pi'\n[[role]]\nid = 'odd'\nbackend_kind = 'comand'\nbackend_prompt_mode = 'mail'\nbackend_timeout_ms = 0\nbackend_args = [\"\\u0000\"]\n".into();
        let bad = plan("", &text).unwrap_err();
        let shown: Vec<_> = bad
            .iter()
            .map(|bad| {
                let problem = bad.problem("topology.toml", &text);
                format!("{problem} <- {}", &text[problem.span.clone()])
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        topology.toml: line 6, column 16: backend_kind of role 'odd' is "comand"; expected "command", "claude", "codex", "gemini", "opencode", "pi", "acp", "script" or "replay" (write "command") <- 'comand'
        topology.toml: line 7, column 23: backend_prompt_mode of role 'odd' is "mail"; expected "arg", "stdin" or "file" <- 'mail'
        topology.toml: line 8, column 22: backend_timeout_ms of role 'odd' is 0; expected a whole number of milliseconds, at least 1, or a duration like "90s" or "1.5h" <- 0
        topology.toml: line 9, column 16: backend_args of role 'odd' is "\0"; a text may not contain a NUL character <- ["\u0000"]
        "#);
        insta::assert_snapshot!(bad[0], @r#"backend_kind of role 'odd' is "comand"; expected "command", "claude", "codex", "gemini", "opencode", "pi", "acp", "script" or "replay""#);
    }
}
