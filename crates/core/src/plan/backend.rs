//! The agent of a loop, of a role and of a review.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toml::Spanned;

use crate::agents::Stream;
use crate::config::{
    BackendKind, Key, Leftovers, Origin, Problem, PromptMode, Refusal, Settings, Severity, Value,
    read_text,
};
use crate::topology::Role;

/// How an agent is started and limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendPlan {
    pub kind: BackendKind,
    /// The executable; for a script or a replay, the file that is played.
    pub command: String,
    /// Its arguments before the prompt.
    pub args: Vec<String>,
    pub prompt_mode: PromptMode,
    pub output: Option<Stream>,
    pub timeout: Duration,
    /// The setting of that limit, to be named in messages.
    pub timeout_key: String,
    /// The time from TERM to KILL.
    pub grace: Duration,
    pub leftovers: Leftovers,
    pub output_cap: u64,
}

pub(super) struct BackendKeys {
    kind: Key,
    command: Key,
    args: Key,
    prompt_mode: Key,
    output: Key,
    timeout: Key,
    grace: Key,
    leftovers: Key,
    output_cap: Key,
}

impl BackendKeys {
    pub(super) const LOOP: BackendKeys = BackendKeys {
        kind: Key::BackendKind,
        command: Key::BackendCommand,
        args: Key::BackendArgs,
        prompt_mode: Key::BackendPromptMode,
        output: Key::BackendOutput,
        timeout: Key::BackendTimeout,
        grace: Key::BackendGrace,
        leftovers: Key::BackendLeftovers,
        output_cap: Key::BackendOutputCap,
    };
    /// The agent of metareviews. Its timeout does not follow that of the loop: a long task is no reason for a
    /// long review.
    pub(super) const REVIEW: BackendKeys = BackendKeys {
        kind: Key::ReviewKind,
        command: Key::ReviewCommand,
        args: Key::ReviewArgs,
        prompt_mode: Key::ReviewPromptMode,
        output: Key::ReviewOutput,
        timeout: Key::ReviewTimeout,
        ..BackendKeys::LOOP
    };
    pub(super) const SLOT_REVIEW: BackendKeys = BackendKeys {
        kind: Key::SlotsReviewerKind,
        command: Key::SlotsReviewerCommand,
        args: Key::SlotsReviewerArgs,
        prompt_mode: Key::SlotsReviewerPromptMode,
        output: Key::SlotsReviewerOutput,
        timeout: Key::SlotsReviewerTimeout,
        grace: Key::SlotsReviewerGrace,
        leftovers: Key::SlotsReviewerLeftovers,
        output_cap: Key::SlotsReviewerOutputCap,
    };
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
    pub(super) fn new(settings: &Settings, keys: &BackendKeys) -> BackendPlan {
        let command = settings.text(settings.source(keys.command)).unwrap_or_default();
        // A kind that is set and blank is told by the name of the command, whatever the loop says.
        let kind = match settings.origin(keys.kind) {
            Origin::Default => settings.source(keys.kind),
            _ => keys.kind,
        };
        let timeout = settings.source(keys.timeout);
        let output_cap = settings.number(settings.source(keys.output_cap));
        BackendPlan {
            kind: settings.choice(kind).unwrap_or_else(|| kind_by_name(command)),
            command: command.to_owned(),
            args: settings.list(settings.source(keys.args)).unwrap_or_default().to_vec(),
            prompt_mode: settings.word(settings.source(keys.prompt_mode)),
            output: settings.choice(settings.source(keys.output)),
            timeout: settings.time(timeout),
            timeout_key: timeout.name().to_owned(),
            grace: settings.time(settings.source(keys.grace)),
            leftovers: settings.word(settings.source(keys.leftovers)),
            output_cap: output_cap.unsigned_abs(),
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
        let command = command.unwrap_or_else(|| self.command.clone());
        Ok(BackendPlan {
            kind: kind
                .and_then(|kind| BackendKind::from_word(&kind))
                .or_else(|| settings.choice(Key::BackendKind))
                .unwrap_or_else(|| kind_by_name(&command)),
            command,
            args: args.map_or(&self.args, |args| args.get_ref()).clone(),
            prompt_mode: mode
                .and_then(|mode| PromptMode::from_word(&mode))
                .unwrap_or(self.prompt_mode),
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

    pub fn stream(&self) -> Stream {
        match (self.kind, self.output) {
            // A journal has answers, whatever they were taken out of.
            (BackendKind::Replay, _) => Stream::Plain,
            (_, Some(output)) => output,
            (BackendKind::Pi, None) => Stream::Pi,
            (BackendKind::Command, None) => stream_by_words(&self.command, &self.args),
            (BackendKind::Script, None) => Stream::Plain,
        }
    }
}

/// The kind of a command if none is set.
fn kind_by_name(command: &str) -> BackendKind {
    match Path::new(command).file_name().and_then(|name| name.to_str()) {
        Some("pi") => BackendKind::Pi,
        _ => BackendKind::Command,
    }
}

/// The output of a command if none is set: a known client may have been asked for its stream.
fn stream_by_words(command: &str, args: &[String]) -> Stream {
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let prints = |format: &str| {
        let joined = format!("--output-format={format}");
        let pair = ["--output-format", format];
        has(&joined) || args.windows(2).any(|words| words == pair)
    };
    match Path::new(command).file_name().and_then(|name| name.to_str()) {
        Some("claude") if prints("stream-json") || prints("json") => Stream::Claude,
        Some("codex") if has("exec") && has("--json") => Stream::Codex,
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
    fn the_kind_is_told_by_the_name_of_the_command() {
        for (text, kind) in [
            ("", BackendKind::Command),
            ("backend.command = 'pi'", BackendKind::Pi),
            ("backend.command = '/opt/bin/pi'", BackendKind::Pi),
            ("backend.command = 'pi2'", BackendKind::Command),
            ("backend = { command = 'pi', kind = '' }", BackendKind::Pi),
            ("backend = { command = 'pi', kind = 'command' }", BackendKind::Command),
            ("backend = { command = 'a.toml', kind = 'script' }", BackendKind::Script),
            ("backend = { command = 'j.jsonl', kind = 'replay' }", BackendKind::Replay),
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
    fn the_output_is_told_by_the_kind_or_by_somebody() {
        for (text, stream) in [
            ("", Stream::Plain),
            ("backend.command = 'pi'", Stream::Pi),
            ("backend = { command = 'pi', output = 'plain' }", Stream::Plain),
            ("backend.output = 'claude'", Stream::Claude),
            ("backend.args = ['-p', '--output-format', 'stream-json']", Stream::Claude),
            ("backend.args = ['-p', '--output-format=json']", Stream::Claude),
            ("backend.args = ['-p', '--output-format', 'text', 'json']", Stream::Plain),
            ("backend = { args = ['--output-format=json'], output = 'plain' }", Stream::Plain),
            ("backend = { command = '/x/codex', args = ['exec', '--json', '-'] }", Stream::Codex),
            ("backend = { command = 'codex', args = ['exec', '-'] }", Stream::Plain),
            ("backend = { command = 'sh', args = ['exec', '--json'] }", Stream::Plain),
            ("backend = { command = 'a.toml', kind = 'script', output = 'codex' }", Stream::Codex),
            ("backend = { command = 'j', kind = 'replay', output = 'codex' }", Stream::Plain),
        ] {
            assert_eq!(plan(text, "").unwrap().backend.stream(), stream, "{text}");
            assert_eq!(review(text).stream(), stream, "{text}");
            assert_eq!(role(text, "").stream(), stream, "{text}");
        }
        let claude = "backend.output = 'claude'";
        assert_eq!(role(claude, "backend_output = 'pi'").stream(), Stream::Pi);
        assert_eq!(review(&format!("{claude}\nreview.output = 'codex'")).stream(), Stream::Codex);
        let bad = plan("", "[[role]]\nid = 'odd'\nbackend_output = 'jsonl'").unwrap_err();
        insta::assert_snapshot!(bad[0], @r#"backend_output of role 'odd' is "jsonl"; expected "plain", "claude", "codex" or "pi""#);
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
        topology.toml: line 6, column 16: backend_kind of role 'odd' is "comand"; expected "command", "pi", "script" or "replay" (write "command") <- 'comand'
        topology.toml: line 7, column 23: backend_prompt_mode of role 'odd' is "mail"; expected "arg", "stdin" or "file" <- 'mail'
        topology.toml: line 8, column 22: backend_timeout_ms of role 'odd' is 0; expected a whole number of milliseconds, at least 1, or a duration like "90s" or "1.5h" <- 0
        topology.toml: line 9, column 16: backend_args of role 'odd' is "\0"; a text may not contain a NUL character <- ["\u0000"]
        "#);
        insta::assert_snapshot!(bad[0], @r#"backend_kind of role 'odd' is "comand"; expected "command", "pi", "script" or "replay""#);
    }
}
