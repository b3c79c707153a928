//! The prompts of slots: those for developers and for reviewers.
//!
//! A prompt that the settings name has to exist. Otherwise it is looked for in `.ai_agents` of the project and of
//! its parents, up to the top of the repository, then beside the settings of the user; else the built-in one is used.

use std::path::{Path, PathBuf};

use autoloop_core::config::{Key, LONGEST, Severity};
use autoloop_core::plan::PromptPath;
use autoloop_core::prompt::slot::{DEVELOPER, REVIEWER};

use super::places::git_root;
use super::{LoadError, Loaded, Project, read_text};
use crate::world::Disk;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotPrompts {
    /// For implementers and fixers.
    pub developer: SlotPrompt,
    /// `None` where the settings name an empty path.
    pub reviewer: Option<SlotPrompt>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotPrompt {
    pub text: String,
    /// `None` for the built-in one.
    pub path: Option<PathBuf>,
}

pub const DEVELOPER_FILES: [&str; 2] = [".ai_agents/prompts/developer.md", ".ai_agents/prompt.md"];
pub const REVIEWER_FILES: [&str; 1] = [".ai_agents/prompts/reviewer.md"];

impl Project {
    pub fn slot_prompts(&self, loaded: &Loaded, disk: &dyn Disk) -> Result<SlotPrompts, LoadError> {
        let plan = &loaded.plan.slots;
        let finder = Finder { project: self, loaded, disk };
        let developer = match &plan.developer_prompt {
            PromptPath::Named(path) => finder.named(Key::SlotsDeveloperPrompt, path)?,
            PromptPath::Usual | PromptPath::Nothing => {
                finder.usual(&DEVELOPER_FILES, "developer.md", DEVELOPER)?
            }
        };
        let reviewer = match &plan.reviewer_prompt {
            PromptPath::Named(path) => Some(finder.named(Key::SlotsReviewerPrompt, path)?),
            PromptPath::Usual => Some(finder.usual(&REVIEWER_FILES, "reviewer.md", REVIEWER)?),
            PromptPath::Nothing => None,
        };
        Ok(SlotPrompts { developer, reviewer })
    }
}

struct Finder<'a> {
    project: &'a Project,
    loaded: &'a Loaded,
    disk: &'a dyn Disk,
}

impl Finder<'_> {
    fn named(&self, key: Key, path: &Path) -> Result<SlotPrompt, LoadError> {
        let path = self.project.dir.join(path);
        if let Some(found) = self.read(&path)? {
            return Ok(found);
        }
        let message = format!("{key} names a missing file: {}", path.display());
        match self.loaded.settings.problem(key, Severity::Error, message) {
            Some(problem) => Err(LoadError::Problems(vec![problem])),
            None => Err(LoadError::Missing { what: key.to_string(), path }),
        }
    }

    fn usual(
        &self,
        names: &[&str],
        personal: &str,
        built_in: &str,
    ) -> Result<SlotPrompt, LoadError> {
        let dir = &self.project.dir;
        let dir = dir.canonicalize().or_else(|_| std::path::absolute(dir));
        let dir = dir.unwrap_or_else(|_| self.project.dir.clone());
        let top = git_root(self.disk, &self.project.dir).unwrap_or_else(|| dir.clone());
        let above = dir.ancestors().take_while(|above| above.starts_with(&top));
        let in_project = above.flat_map(|dir| names.iter().map(move |name| dir.join(name)));
        let user_dir = self.project.env.user_file.as_deref().and_then(Path::parent);
        let own = user_dir.map(|dir| [dir.join("prompts").join(personal), dir.join(personal)]);
        for path in in_project.chain(own.into_iter().flatten()) {
            if let Some(found) = self.read(&path)? {
                return Ok(found);
            }
        }
        Ok(SlotPrompt { text: built_in.to_owned(), path: None })
    }

    fn read(&self, path: &Path) -> Result<Option<SlotPrompt>, LoadError> {
        let text = read_text(self.disk, path, LONGEST as u64)
            .map_err(|why| LoadError::Unreadable { path: path.to_owned(), why })?;
        Ok(text.map(|text| SlotPrompt { text, path: Some(path.to_owned()) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::RealDisk;
    use std::fs;

    /// Where the two prompts of a project are found.
    fn found(project: &Project, root: &Path) -> String {
        let shown = |prompt: &SlotPrompt| match &prompt.path {
            Some(path) => path.strip_prefix(root).unwrap().display().to_string(),
            None => "built in".to_owned(),
        };
        let loaded = project.load(&RealDisk).unwrap();
        match project.slot_prompts(&loaded, &RealDisk) {
            Ok(prompts) => format!(
                "{}, {}",
                shown(&prompts.developer),
                prompts.reviewer.as_ref().map_or("none".to_owned(), shown)
            ),
            Err(error) => error.to_string().replace(&root.display().to_string(), "ROOT"),
        }
    }

    #[test]
    fn prompts_are_looked_for_in_order() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let write = |path: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), path).unwrap();
        };
        write("repo/.git/HEAD");
        write("repo/sub/autoloops.toml");
        fs::write(root.join("repo/sub/autoloops.toml"), "").unwrap();
        write(".ai_agents/prompts/developer.md");
        let mut project = Project::new(&root.join("repo/sub")).unwrap();
        project.env.user_file = Some(root.join("user/config.toml"));
        let found = |project: &Project| found(project, &root);
        assert_eq!(found(&project), "built in, built in");
        write("user/reviewer.md");
        assert_eq!(found(&project), "built in, user/reviewer.md");
        write("user/prompts/developer.md");
        write("user/prompts/reviewer.md");
        assert_eq!(found(&project), "user/prompts/developer.md, user/prompts/reviewer.md");
        write("repo/.ai_agents/prompt.md");
        write("repo/.ai_agents/prompts/reviewer.md");
        assert_eq!(
            found(&project),
            "repo/.ai_agents/prompt.md, repo/.ai_agents/prompts/reviewer.md"
        );
        write("repo/.ai_agents/prompts/developer.md");
        write("repo/sub/.ai_agents/prompts/reviewer.md");
        assert_eq!(
            found(&project),
            "repo/.ai_agents/prompts/developer.md, repo/sub/.ai_agents/prompts/reviewer.md"
        );
        let named = "[slots]\ndeveloperPromptPath = 'd.md'\nreviewerPromptPath = ''\n";
        fs::write(root.join("repo/sub/autoloops.toml"), named).unwrap();
        insta::assert_snapshot!(found(&project), @"ROOT/repo/sub/autoloops.toml: line 2, column 23: slots.developerPromptPath names a missing file: ROOT/repo/sub/d.md");
        write("repo/sub/d.md");
        assert_eq!(found(&project), "repo/sub/d.md, none");
        project.overrides.set = vec!["slots.reviewerPromptPath=d.md".to_owned()];
        assert_eq!(found(&project), "repo/sub/d.md, repo/sub/d.md");
    }
}
