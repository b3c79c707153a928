//! Loops whose agents are shell scripts.

use std::fs;
use std::path::{Path, PathBuf};

use super::Sandbox;

impl Sandbox {
    /// A loop whose agent is a shell script, in which `$T` is the command that agents call and `$N`
    /// the iteration. There are no metareviews unless the settings enable them.
    pub fn with_agent(binary: impl Into<PathBuf>, agent: &str, settings: &str) -> Self {
        let sandbox = Sandbox::new(binary);
        let is_about_reviews = settings.lines().any(|line| line.starts_with("review."));
        let review = if is_about_reviews { "" } else { "review.enabled = false\n" };
        let settings = format!(
            "backend.command = 'sh'\nbackend.args = ['agent.sh']\nbackend.grace_ms = 300\n{review}{settings}\n"
        );
        let agent = format!("T=\"$AUTOLOOP_BIN\"\nN=$AUTOLOOP_ITERATION\n{agent}\n");
        sandbox.write("autoloops.toml", settings).write("agent.sh", agent);
        sandbox
    }

    /// The command lines of all processes that work for a run in this project.
    ///
    /// # Panics
    ///
    /// When the system does not tell which processes there are.
    pub fn survivors(&self) -> String {
        let mark = format!("AUTOLOOP_PROJECT_DIR={}", self.path("").display()).into_bytes();
        let processes = fs::read_dir("/proc").expect("tests of processes need /proc");
        let is_ours = |path: &Path| {
            fs::read(path.join("environ"))
                .is_ok_and(|vars| vars.split(|byte| *byte == 0).any(|var| var == mark))
        };
        let line = |path: &Path| fs::read_to_string(path.join("cmdline")).ok();
        let processes = processes.flatten().map(|entry| entry.path());
        let ours = processes.filter(|path| is_ours(path)).filter_map(|path| line(&path));
        ours.collect::<Vec<_>>().join("; ").replace('\0', " ")
    }
}
