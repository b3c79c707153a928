//! The files that settings are read from.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use autoloop_core::config::{Origin, Tables, VARIABLE};

use super::{LoadError, Project};
use crate::layout::StateDir;
use crate::world::Disk;

const CONFIG: &str = "AUTOLOOP_CONFIG";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    pub user_file: Option<PathBuf>,
    /// Whether AUTOLOOP_CONFIG names that file, so that it has to exist.
    pub is_named: bool,
    pub home: Option<PathBuf>,
    pub set: Option<String>,
}

impl Environment {
    /// Reads the variables. AUTOLOOP_SET has to be UTF-8; paths may be any bytes.
    pub fn read(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Environment, LoadError> {
        let set = |name| lookup(name).filter(|value| !value.is_empty());
        let path = |name| set(name).map(PathBuf::from);
        let named = path(CONFIG);
        // By its specification, XDG_CONFIG_HOME counts only when it is absolute.
        let config_home = path("XDG_CONFIG_HOME").filter(|dir| dir.is_absolute());
        let home = || path("HOME").filter(|home| home.is_absolute());
        let usual = || config_home.or_else(|| Some(home()?.join(".config")));
        let text = set(VARIABLE).map(OsString::into_string).transpose();
        Ok(Environment {
            is_named: named.is_some(),
            home: home(),
            user_file: named
                .or_else(|| Some(usual()?.join("autoloop/config.toml")))
                // The conventional name for no file.
                .filter(|file| file != Path::new("/dev/null")),
            set: text.map_err(|value| LoadError::BadVariable { name: VARIABLE, value })?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerFile {
    pub origin: Origin,
    pub path: PathBuf,
    pub tables: Tables,
}

/// The settings files that a run began with. A file that appears later is ignored: otherwise an agent could
/// replace the settings of its run by creating a file of a higher layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsFiles {
    /// The layer and the name of each, which stay the same when the project is moved.
    names: Vec<String>,
}

impl SettingsFiles {
    /// The inverse of [`SettingsFiles::to_text`].
    pub fn from_text(text: &str) -> SettingsFiles {
        SettingsFiles { names: text.lines().map(str::to_owned).collect() }
    }

    pub fn to_text(&self) -> String {
        self.names.iter().map(|name| format!("{name}\n")).collect()
    }

    fn name(origin: Origin, path: &Path) -> String {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        format!("{origin}: {}", name.escape_debug())
    }

    fn contains(&self, origin: Origin, path: &Path) -> bool {
        self.names.contains(&SettingsFiles::name(origin, path))
    }
}

/// What the `autoloops.toml` of a project may set for a preset.
const ABOUT_THE_PROJECT: Tables = Tables::Only(&["backend", "core", "journal", "limits"]);

/// What a preset may set: everything but where the project keeps its files.
const ABOUT_THE_LOOP: Tables = Tables::AllBut("core");

impl Project {
    pub fn layer_files(&self, disk: &dyn Disk) -> Result<Vec<LayerFile>, LoadError> {
        if !self.preset.is_empty() && !is_one_name(&self.preset) {
            return Err(LoadError::BadPreset(self.preset.clone()));
        }
        let file = |origin, path| LayerFile { origin, path, tables: Tables::All };
        let mut files = Vec::new();
        let user = self.env.user_file.as_deref();
        files.extend(user.map(|path| file(Origin::User, path.to_owned())));
        let own = file(Origin::Project, self.settings_file(disk, Origin::Project, &self.dir));
        if self.is_preset() {
            let settings = self.settings_file(disk, Origin::Preset, &self.loop_dir);
            files.push(LayerFile { tables: ABOUT_THE_LOOP, ..file(Origin::Preset, settings) });
            files.push(LayerFile { tables: ABOUT_THE_PROJECT, ..own });
        } else {
            files.push(own);
        }
        if !self.preset.is_empty() {
            let name = format!("{}.toml", self.preset);
            let beside = |dir: &Path| dir.join("overrides").join(&name);
            let user_dir = user.and_then(Path::parent);
            files.extend(user_dir.map(|dir| file(Origin::UserOverride, beside(dir))));
            let root = git_root(disk, &self.dir);
            let overrides = root.map(|root| beside(&root.join(StateDir::NAME)));
            files.extend(overrides.map(|path| file(Origin::RepoOverride, path)));
        }
        files.retain(|file| self.counts(file.origin, &file.path));
        Ok(files)
    }

    pub fn existing_settings(&self, disk: &dyn Disk) -> Result<SettingsFiles, LoadError> {
        let files = self.layer_files(disk)?.into_iter();
        let existing = files.filter(|file| disk.stat(&file.path).is_ok());
        let names = existing.map(|file| SettingsFiles::name(file.origin, &file.path));
        Ok(SettingsFiles { names: names.collect() })
    }

    /// The settings files that exist and are ignored, because the run began without them.
    pub fn ignored_settings(&self, disk: &dyn Disk) -> Result<Vec<PathBuf>, LoadError> {
        if self.settings_files.is_none() {
            return Ok(Vec::new());
        }
        let all = Project { settings_files: None, ..self.clone() }.layer_files(disk)?;
        let ignored = all.into_iter().filter(|file| !self.counts(file.origin, &file.path));
        Ok(ignored.map(|file| file.path).filter(|path| disk.stat(path).is_ok()).collect())
    }

    /// Whether the loop has an `autoloops.toml` that counts.
    pub fn has_settings(&self, disk: &dyn Disk) -> bool {
        let file = within(&self.loop_dir, SETTINGS);
        self.counts(self.loop_origin(), &file) && disk.stat(&file).is_ok()
    }

    pub(super) fn loop_origin(&self) -> Origin {
        if self.is_preset() { Origin::Preset } else { Origin::Project }
    }

    fn counts(&self, origin: Origin, path: &Path) -> bool {
        self.settings_files.as_ref().is_none_or(|files| files.contains(origin, path))
    }

    /// The settings of a directory: `autoloops.toml`, or the older name if there is only that.
    fn settings_file(&self, disk: &dyn Disk, origin: Origin, dir: &Path) -> PathBuf {
        let (file, older) = (within(dir, SETTINGS), within(dir, "autoloops.conf"));
        let is_there = |file: &Path| self.counts(origin, file) && disk.stat(file).is_ok();
        if !is_there(&file) && is_there(&older) { older } else { file }
    }
}

const SETTINGS: &str = "autoloops.toml";

/// A file in a directory, as messages name it: `autoloops.toml`, not `./autoloops.toml`.
pub(super) fn within(dir: &Path, name: &str) -> PathBuf {
    if dir == Path::new(".") { PathBuf::from(name) } else { dir.join(name) }
}

/// The directory that holds `.git`, which may be a file in a worktree.
pub(super) fn git_root(disk: &dyn Disk, dir: &Path) -> Option<PathBuf> {
    // The parents of a link or of `..` are those of the directory it stands for.
    let dir = dir.canonicalize().or_else(|_| std::path::absolute(dir)).ok()?;
    dir.ancestors().find(|dir| disk.stat(&dir.join(".git")).is_ok()).map(Path::to_owned)
}

/// Whether a text is a file name without any directory.
fn is_one_name(text: &str) -> bool {
    let mut parts = Path::new(text).components();
    let is_normal = matches!(parts.next(), Some(Component::Normal(name)) if name == text);
    is_normal && parts.next().is_none() && !text.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::RealDisk;
    use std::fs;

    fn user_file(vars: &[(&str, &str)]) -> Option<String> {
        let lookup = |name: &str| {
            vars.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        };
        let env = Environment::read(lookup).unwrap();
        env.user_file.map(|path| path.display().to_string())
    }

    #[test]
    fn finds_the_settings_of_the_user() {
        let home = ("HOME", "/home/a");
        for (vars, file) in [
            (&[][..], None),
            (&[home], Some("/home/a/.config/autoloop/config.toml")),
            (&[home, ("XDG_CONFIG_HOME", "/x")], Some("/x/autoloop/config.toml")),
            (&[home, ("XDG_CONFIG_HOME", "x")], Some("/home/a/.config/autoloop/config.toml")),
            (&[home, ("XDG_CONFIG_HOME", "")], Some("/home/a/.config/autoloop/config.toml")),
            (&[home, (CONFIG, "mine.toml")], Some("mine.toml")),
            (&[home, (CONFIG, "/dev/null")], None),
            (&[("HOME", "odd")], None),
        ] {
            assert_eq!(user_file(vars).as_deref(), file, "{vars:?}");
        }
    }

    #[test]
    fn a_variable_that_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStringExt;
        let bytes = |name: &str| (name == VARIABLE).then(|| OsString::from_vec(b"\xff".to_vec()));
        let error = Environment::read(bytes).unwrap_err();
        assert_eq!(error.to_string(), "AUTOLOOP_SET is not valid UTF-8 (it reads '\u{fffd}')");
    }

    fn layers(project: &Project) -> Vec<String> {
        let files = project.layer_files(&RealDisk).unwrap();
        files.iter().map(|file| format!("{} {}", file.origin, file.path.display())).collect()
    }

    #[test]
    fn looks_in_every_place_in_order() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        fs::create_dir_all(root.join("repo/sub/loop")).unwrap();
        fs::write(root.join("repo/.git"), "gitdir: elsewhere").unwrap();
        let mut project = Project::new(&root.join("repo/sub/loop")).unwrap();
        project.env.user_file = Some("/u/config.toml".into());
        let shown = |project: &Project| {
            layers(project).join("\n").replace(&root.display().to_string(), "ROOT")
        };
        assert_eq!(
            shown(&project),
            "user /u/config.toml\nproject ROOT/repo/sub/loop/autoloops.toml\n\
             user override /u/overrides/loop.toml\n\
             repo override ROOT/repo/.autoloop/overrides/loop.toml"
        );
        fs::write(root.join("repo/sub/loop/autoloops.conf"), "").unwrap();
        assert!(shown(&project).contains("project ROOT/repo/sub/loop/autoloops.conf"));
        fs::write(root.join("repo/sub/loop/autoloops.toml"), "").unwrap();
        assert!(shown(&project).contains("project ROOT/repo/sub/loop/autoloops.toml"));

        let preset =
            Project::with_preset(&root.join("repo"), Path::new("/presets/autofix")).unwrap();
        assert_eq!(
            shown(&preset),
            "preset /presets/autofix/autoloops.toml\nproject ROOT/repo/autoloops.toml\n\
             repo override ROOT/repo/.autoloop/overrides/autofix.toml"
        );
        assert_eq!(layers(&Project::new(Path::new(".")).unwrap())[0], "project autoloops.toml");
    }

    #[test]
    fn a_preset_cannot_lead_elsewhere() {
        for name in [".", "..", "a/b", "/a", "../a", "a/", "a\0"] {
            let project = Project { preset: name.into(), ..Project::default() };
            assert!(project.layer_files(&RealDisk).is_err(), "{name:?}");
        }
    }
}
