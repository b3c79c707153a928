//! Relative paths of agents: resolved relative to the file that names them, or to where they were typed.

use std::path::Path;

use autoloop_core::config::shell_words::{join, split};
use autoloop_core::config::{AgentKeys, BackendKind, Key, Origin, Settings, Value};
use autoloop_core::topology::Topology;

use super::Overrides;

/// Resolves the agents of settings that are named by a relative path in a file outside of the project
/// directory. In the project directory they stay as they are: that is where agents are started from.
pub(super) fn resolve_settings(settings: Settings, project: &Path) -> Settings {
    AgentKeys::ALL.into_iter().fold(settings, |settings, keys| {
        let (command, kind) = (keys.command, keys.kind);
        let from = settings.provenance(command);
        let is_in_file =
            !matches!(from.origin, Origin::Default | Origin::Environment | Origin::Flag);
        let file = from.name.filter(|_| is_in_file).map(Path::new);
        let Some(dir) = file.and_then(Path::parent) else { return settings };
        let own = kind_of(settings.value(kind));
        let kind = own.or_else(|| kind_of(settings.value(Key::BackendKind)));
        match settings.value(command) {
            Value::Text(text) => match resolved(text, kind, Base { dir, project: Some(project) }) {
                Some(path) => settings.with_text(command, path),
                None => settings,
            },
            _ => settings,
        }
    })
}

/// Resolves the agents of roles in the same way.
pub(super) fn resolve_roles(mut topology: Topology, dir: &Path, project: &Path) -> Topology {
    for role in &mut topology.roles {
        let kind = role.backend_kind.as_ref();
        let kind = kind.and_then(|kind| BackendKind::from_word(kind.get_ref()));
        if let Some(command) = role.backend_command.as_mut().map(|command| command.get_mut())
            && let Some(path) = resolved(command, kind, Base { dir, project: Some(project) })
        {
            *command = path;
        }
    }
    topology
}

impl Overrides {
    /// Resolves agents that are named by a relative path from `dir`, where they were typed.
    #[must_use]
    pub fn typed_in(mut self, dir: &Path) -> Self {
        let anywhere = Base { dir, project: None };
        let said = |key: Key| {
            let prefix = format!("{key}=");
            self.set.iter().rev().find_map(|pair| pair.strip_prefix(&prefix))
        };
        let kinds = AgentKeys::ALL.map(|keys| said(keys.kind).and_then(BackendKind::from_word));
        let [kind, ..] = kinds;
        if let Some(words) = self.backend.as_deref().and_then(|line| split(line).ok())
            && let Some((command, args)) = words.split_first()
            && let Some(path) = resolved(command, kind, anywhere)
        {
            self.backend =
                Some(join([path.as_str()].into_iter().chain(args.iter().map(String::as_str))));
        }
        for pair in &mut self.set {
            let Some((name, command)) = pair.split_once('=') else { continue };
            let place = AgentKeys::ALL.iter().position(|keys| keys.command.name() == name);
            let Some(place) = place else { continue };
            if let Some(path) = resolved(command, kinds[place].or(kind), anywhere) {
                *pair = format!("{name}={path}");
            }
        }
        self
    }
}

#[derive(Clone, Copy)]
struct Base<'b> {
    dir: &'b Path,
    /// Paths in this directory need not be resolved.
    project: Option<&'b Path>,
}

/// The absolute path of a command that is named by a relative one. A name without a slash is looked up in
/// `PATH`, unless the agent is a script or a replay.
fn resolved(command: &str, kind: Option<BackendKind>, base: Base<'_>) -> Option<String> {
    let is_file = matches!(kind, Some(BackendKind::Script | BackendKind::Replay));
    let is_path = command.contains('/') || is_file && !command.is_empty();
    if !is_path || Path::new(command).is_absolute() {
        return None;
    }
    // An empty path is the current directory.
    let absolute = |path: &Path| std::path::absolute(Path::new(".").join(path)).ok();
    let dir = absolute(base.dir)?;
    if base.project.is_some_and(|project| absolute(project).as_ref() == Some(&dir)) {
        return None;
    }
    // A path that is not UTF-8 stays as it is, and is looked up in the project.
    std::path::absolute(dir.join(command)).ok()?.into_os_string().into_string().ok()
}

fn kind_of(value: &Value) -> Option<BackendKind> {
    match value {
        Value::Text(word) => BackendKind::from_word(word),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_resolved_where_it_was_typed() {
        let typed = |line: &str| {
            Overrides::read(line).typed_in(Path::new("/home/ann")).line().unwrap_or_default()
        };
        for (line, expected) in [
            ("--backend './agent.sh --fast'", "--backend '/home/ann/agent.sh --fast'\n"),
            ("--backend ../agent", "--backend /home/ann/../agent\n"),
            ("--backend 'bin/an\\ agent'", "--backend ''\\''/home/ann/bin/an agent'\\'''\n"),
            ("--backend /opt/agent", "--backend /opt/agent\n"),
            ("--backend 'sh agent.sh'", "--backend 'sh agent.sh'\n"),
            (
                "--set backend.command=./a --set core.state_dir=./s",
                "--set backend.command=/home/ann/a --set core.state_dir=./s\n",
            ),
            (
                "--backend a.toml --set backend.kind=script --set review.command=r.toml",
                "--backend /home/ann/a.toml --set backend.kind=script --set review.command=/home/ann/r.toml\n",
            ),
            ("--set slots.reviewer.command=./r", "--set slots.reviewer.command=/home/ann/r\n"),
        ] {
            assert_eq!(typed(line), expected, "{line}");
        }
    }
}
