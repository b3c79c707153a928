//! Reading a project.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use autoloop_core::config::{
    self, BackendKind, Key, Layer, Origin, Problem, Reading, Settings, Severity,
};
use autoloop_core::plan::{BadRole, Files, Plan, PromptSource};
use autoloop_core::toml_file::UnknownKey;
use autoloop_core::topology::{Role, RolePrompt, Topology};
use autoloop_core::unenforced;

use super::commands::{resolve_roles, resolve_settings};
use super::places::{git_root, within};
use super::{LayerFile, LoadError, Loaded, Project, read_text};
use crate::world::Disk;

const LONGEST: u64 = config::LONGEST as u64;

/// The files of a loop, each of which is read once: all that is decided before a run begins is decided from the text
/// that it begins with.
pub struct Sources<'d> {
    pub(crate) disk: &'d dyn Disk,
    texts: RefCell<HashMap<PathBuf, Option<String>>>,
}

impl<'d> Sources<'d> {
    pub fn new(disk: &'d dyn Disk) -> Self {
        Sources { disk, texts: RefCell::default() }
    }

    fn read(&self, path: &Path) -> Result<Option<String>, LoadError> {
        if let Some(text) = self.texts.borrow().get(path) {
            return Ok(text.clone());
        }
        let text = read_text(self.disk, path, LONGEST)
            .map_err(|why| LoadError::Unreadable { path: path.to_owned(), why })?;
        self.texts.borrow_mut().insert(path.to_owned(), text.clone());
        Ok(text)
    }
}

impl Project {
    pub fn load(&self, disk: &dyn Disk) -> Result<Loaded, LoadError> {
        self.load_from(&Sources::new(disk))
    }

    pub(crate) fn load_from(&self, sources: &Sources<'_>) -> Result<Loaded, LoadError> {
        for dir in [&self.dir, &self.loop_dir] {
            if !dir.as_os_str().is_empty() && sources.disk.stat(dir).is_err() {
                return Err(LoadError::NoDirectory(dir.clone()));
            }
        }
        let layers = self.layers(self.layer_files(sources.disk)?, sources)?;
        let (settings, mut warnings) =
            Settings::resolve(&layers).checked().map_err(LoadError::Problems)?;
        let (topology, topology_file) = self.topology(sources, &mut warnings)?;
        warnings = self.overrides.unenforced.judge(warnings).map_err(LoadError::Problems)?;
        let topology = known_kinds(topology, &topology_file, &mut warnings);
        let topology = resolve_roles(topology, &self.loop_dir, &self.dir);
        let (settings, ignored) = match &topology.completion {
            Some(event) => settings.with_completion(event, &topology_file.name),
            None => (settings, None),
        };
        warnings.extend(ignored);
        let settings = resolve_settings(settings, &self.dir);
        let plan = Plan::resolve(&settings, &topology).map_err(|bad| {
            let shown = bad.iter().map(|bad| bad.problem(&topology_file.name, &topology_file.text));
            LoadError::Problems(warnings.iter().cloned().chain(shown).collect())
        })?;
        let mut reader = Reader {
            sources,
            project: self,
            settings: &settings,
            files: self.absolute(&plan.files),
            warnings: Vec::new(),
        };
        let role_prompts = topology
            .roles
            .iter()
            .map(|role| Ok((role.id.clone(), reader.role(role, &topology_file)?)))
            .collect::<Result<_, LoadError>>()?;
        let objective = reader.objective(&plan)?;
        let harness = reader.harness(&plan)?;
        let review_prompt = reader.review_prompt(&plan)?;
        let Reader { files, warnings: more, .. } = reader;
        warnings.extend(more);
        Ok(Loaded {
            topology,
            plan,
            files,
            objective,
            harness,
            review_prompt,
            warnings,
            role_prompts,
            settings,
        })
    }

    /// Reads the settings alone. The reading contains the problems with them and everything that is valid.
    pub fn settings(&self, disk: &dyn Disk) -> Result<Reading, LoadError> {
        Ok(Settings::resolve(&self.layers(self.layer_files(disk)?, &Sources::new(disk))?))
    }

    /// Reads what is known before the files of a preset are in place: the settings of all layers but the
    /// preset's, without roles and prompts.
    pub fn outline(&self, sources: &Sources<'_>) -> Result<Loaded, LoadError> {
        if sources.disk.stat(&self.dir).is_err() {
            return Err(LoadError::NoDirectory(self.dir.clone()));
        }
        let mut files = self.layer_files(sources.disk)?;
        files.retain(|file| file.origin != Origin::Preset);
        let reading = Settings::resolve(&self.layers(files, sources)?);
        // Warnings are reported when the loop itself is read.
        let (settings, _) = reading.checked().map_err(LoadError::Problems)?;
        let settings = resolve_settings(settings, &self.dir);
        let plan = Plan::resolve(&settings, &Topology::default()).map_err(|bad| {
            LoadError::Problems(bad.iter().map(|bad| bad.problem("", &"".into())).collect())
        })?;
        let files = self.absolute(&plan.files);
        // A file that cannot be read is reported when the loop itself is read.
        let objective = self.usual_objective(sources, &files).unwrap_or_default();
        Ok(Loaded {
            settings,
            topology: Topology::default(),
            plan,
            files,
            objective,
            harness: None,
            review_prompt: None,
            warnings: Vec::new(),
            role_prompts: Vec::new(),
        })
    }

    /// The objective in `PROMPT.md` at the top of the repository, for a run whose settings and command
    /// line name none. It is ignored when the state directory contains a plan.
    fn usual_objective(
        &self,
        sources: &Sources<'_>,
        files: &Files,
    ) -> Result<Option<String>, LoadError> {
        let Some(root) = git_root(sources.disk, &self.dir) else { return Ok(None) };
        if sources.disk.stat(&files.state_dir.plan()).is_ok() {
            return Ok(None);
        }
        let text = sources.read(&root.join("PROMPT.md"))?;
        Ok(text.filter(|text| !text.trim().is_empty()))
    }

    /// The layers of settings beneath those of the loop: they apply where the loop sets nothing.
    pub fn settings_beneath(&self, disk: &dyn Disk) -> Result<Vec<Layer>, LoadError> {
        let mut files = self.layer_files(disk)?;
        files.retain(|file| file.origin < self.loop_origin());
        let mut layers = self.layers(files, &Sources::new(disk))?;
        layers.retain(|layer| layer.origin < self.loop_origin());
        Ok(layers)
    }

    fn layers(
        &self,
        files: Vec<LayerFile>,
        sources: &Sources<'_>,
    ) -> Result<Vec<Layer>, LoadError> {
        let mut layers = Vec::new();
        for file in files {
            match sources.read(&file.path)? {
                Some(text) => {
                    let layer = Layer::file(file.origin, shown(&file.path), text);
                    layers.push(layer.with(file.tables));
                }
                None if file.origin == Origin::User && self.env.is_named => {
                    let what = "AUTOLOOP_CONFIG".to_owned();
                    return Err(LoadError::Missing { what, path: file.path });
                }
                None => {}
            }
        }
        let flags = &self.overrides;
        layers.extend(self.env.set.as_deref().map(Layer::variable));
        layers.extend(flags.backend.as_deref().map(Layer::backend));
        layers.extend(flags.max_iterations.as_deref().map(Layer::max_iterations));
        layers.extend(flags.set.iter().map(|text| Layer::set(text)));
        if !flags.more_args.is_empty() {
            layers.push(Layer::more_args(flags.more_args.iter().map(String::as_str)));
        }
        Ok(layers)
    }

    fn topology(
        &self,
        sources: &Sources<'_>,
        warnings: &mut Vec<Problem>,
    ) -> Result<(Topology, Text), LoadError> {
        let path = within(&self.loop_dir, "topology.toml");
        let text = sources.read(&path)?.unwrap_or_default();
        let file = Text { name: shown(&path), text: text.into() };
        match Topology::read(&file.text) {
            Ok((topology, unknown)) => {
                let (limits, rest): (Vec<_>, Vec<_>) =
                    unknown.into_iter().partition(|key| key.is_unenforced);
                warnings.extend(file.unknown([limits, rest].concat()));
                Ok((topology, file))
            }
            Err(bad) => {
                let message = bad.to_string();
                let problem = file.problem(Severity::Error, bad.span, message, String::new());
                Err(LoadError::Problems(vec![problem]))
            }
        }
    }

    fn absolute(&self, files: &Files) -> Files {
        // Without a current directory nothing that is relative can be found anyway.
        let dir = std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone());
        files.under(&dir)
    }
}

pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) text: Arc<str>,
}

impl Text {
    pub(crate) fn problem(
        &self,
        severity: Severity,
        span: Range<usize>,
        message: String,
        label: String,
    ) -> Problem {
        let (name, text) = (self.name.clone(), Arc::clone(&self.text));
        Problem { severity, name, text, span, message, label, hint: None }
    }

    pub(crate) fn unknown(&self, keys: Vec<UnknownKey>) -> impl Iterator<Item = Problem> {
        keys.into_iter().take(MAX_REPORTED).map(|key| match key.is_unenforced {
            true => {
                let (message, label) = (unenforced::message(&key.path), unenforced::LABEL.into());
                let problem = self.problem(Severity::Unenforced, key.span, message, label);
                Problem { hint: Some(unenforced::HINT.to_owned()), ..problem }
            }
            false => {
                let (message, label) = (key.to_string(), key.advice());
                self.problem(Severity::Warning, key.span, message, label)
            }
        })
    }
}

struct Reader<'a> {
    sources: &'a Sources<'a>,
    project: &'a Project,
    settings: &'a Settings,
    files: Files,
    warnings: Vec<Problem>,
}

impl Reader<'_> {
    fn role(&mut self, role: &Role, topology: &Text) -> Result<String, LoadError> {
        match role.prompt() {
            RolePrompt::None => Ok(String::new()),
            RolePrompt::Inline(text) => {
                let name = format!("{}, prompt of role {}", topology.name, role.id);
                Ok(self.fill(name, text.to_owned()))
            }
            RolePrompt::File(name) => {
                let path = within(&self.project.loop_dir, name.get_ref());
                match self.sources.read(&path)? {
                    Some(text) => Ok(self.fill(shown(&path), text)),
                    None => {
                        let bad = BadRole {
                            role: role.id.clone(),
                            key: "prompt_file",
                            span: name.span(),
                            found: format!("'{}'", name.get_ref().escape_debug()),
                            label: format!("there is no {}", shown(&path).escape_debug()),
                            hint: None,
                        };
                        let problem = bad.problem(&topology.name, &topology.text);
                        Err(LoadError::Problems(vec![problem]))
                    }
                }
            }
        }
    }

    fn objective(&mut self, plan: &Plan) -> Result<Option<String>, LoadError> {
        match &plan.objective {
            PromptSource::None => self.project.usual_objective(self.sources, &self.files),
            // The objective is passed on verbatim.
            PromptSource::Inline(text) => Ok(Some(text.clone())),
            PromptSource::File(name) => {
                let path = self.in_loop(name);
                let text = self.sources.read(&path)?;
                text.map(Some).ok_or_else(|| self.missing(Key::PromptFile, path))
            }
        }
    }

    fn harness(&mut self, plan: &Plan) -> Result<Option<String>, LoadError> {
        let Some(name) = &plan.harness else { return Ok(None) };
        match self.instructions(name)? {
            None if !self.is_usual(Key::HarnessFile) => {
                Err(self.missing(Key::HarnessFile, self.in_loop(name)))
            }
            text => Ok(text),
        }
    }

    /// A metareview runs without these instructions too, so a missing file is only a warning.
    fn review_prompt(&mut self, plan: &Plan) -> Result<Option<String>, LoadError> {
        const KEY: Key = Key::ReviewPromptFile;
        match plan.review.as_ref().map(|review| &review.prompt) {
            None | Some(PromptSource::None) => Ok(None),
            Some(PromptSource::Inline(text)) => {
                Ok(Some(self.fill(Key::ReviewPrompt.to_string(), text.clone())))
            }
            Some(PromptSource::File(name)) => {
                let text = self.instructions(name)?;
                if text.is_none() && !self.is_usual(KEY) {
                    let message = no_such_file(KEY, &self.in_loop(name));
                    let warning = self.settings.problem(KEY, Severity::Warning, message);
                    self.warnings.extend(warning);
                }
                Ok(text)
            }
        }
    }

    fn instructions(&mut self, name: &Path) -> Result<Option<String>, LoadError> {
        let path = self.in_loop(name);
        let text = self.sources.read(&path)?;
        Ok(text.map(|text| self.fill(shown(&path), text)))
    }

    /// Whether a setting has its default value, even if a file sets it.
    fn is_usual(&self, key: Key) -> bool {
        self.settings.value(key) == Settings::default().value(key)
    }

    fn in_loop(&self, name: &Path) -> PathBuf {
        let dir = &self.project.loop_dir;
        if dir == Path::new(".") { name.to_owned() } else { dir.join(name) }
    }

    /// The error for a file that a setting names, shown where it is set.
    fn missing(&self, key: Key, path: PathBuf) -> LoadError {
        match self.settings.problem(key, Severity::Error, no_such_file(key, &path)) {
            Some(problem) => LoadError::Problems(vec![problem]),
            None => LoadError::Missing { what: key.to_string(), path },
        }
    }

    fn fill(&mut self, name: String, text: String) -> String {
        let loop_dir = std::path::absolute(&self.project.loop_dir);
        let loop_dir = loop_dir.unwrap_or_else(|_| self.project.loop_dir.clone());
        let tool = self.files.state_dir.tool();
        let values = [
            ("STATE_DIR", &*self.files.state_dir.to_string_lossy()),
            ("TOOL_PATH", &*tool.to_string_lossy()),
            ("PRESET_DIR", &*loop_dir.to_string_lossy()),
        ];
        let filled = config::fill(&text, &values);
        if filled.unknown.is_empty() {
            return filled.text;
        }
        let file = Text { name, text: text.into() };
        for unknown in filled.unknown.into_iter().take(MAX_REPORTED) {
            let message = format!("unknown placeholder {}", unknown.name);
            let label = "left as it is".to_owned();
            let problem = file.problem(Severity::Warning, unknown.span, message, label);
            let hint = "the placeholders are STATE_DIR, TOOL_PATH and PRESET_DIR".to_owned();
            self.warnings.push(Problem { hint: Some(hint), ..problem });
        }
        filled.text
    }
}

/// The maximum number of unknown placeholders or keys of one file that are reported.
const MAX_REPORTED: usize = 5;

/// Replaces the backend kind of another version of this tool by the one that starts the same agent.
fn known_kinds(mut topology: Topology, file: &Text, warnings: &mut Vec<Problem>) -> Topology {
    for role in &mut topology.roles {
        let kind = role.backend_kind.as_mut();
        let Some(kind) = kind.filter(|kind| kind.get_ref() == BackendKind::SDK) else { continue };
        *kind.get_mut() = BackendKind::Claude.name().to_owned();
        let note = BadRole {
            role: role.id.clone(),
            key: "backend_kind",
            span: kind.span(),
            found: format!("'{}', which this version does not support", BackendKind::SDK),
            label: BackendKind::SDK_LABEL.to_owned(),
            hint: None,
        };
        let problem = note.problem(&file.name, &file.text);
        warnings.push(Problem { severity: Severity::Warning, ..problem });
    }
    topology
}

fn no_such_file(key: Key, path: &Path) -> String {
    let path = path.to_string_lossy();
    format!("{key} names a missing file: {}", path.escape_debug())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
