//! git: its version, the repository, worktrees, and the state directory in it.

use std::path::Path;
use std::time::Duration;

use autoloop_core::config::Isolation;
use autoloop_runtime::git::{GitError, Repository};
use autoloop_runtime::layout::StateDir;
use autoloop_runtime::process::{Interrupts, run};
use autoloop_runtime::project::Loaded;
use autoloop_runtime::sandbox::QUIET_GIT;
use autoloop_runtime::world::{Finished, Job, Limits, World};

use super::Finding;
use crate::commands::settings::Located;

const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn check(located: &Located, loaded: Option<&Loaded>, world: &World) -> Vec<Finding> {
    let dir = &located.dir;
    let git = Git { dir, world };
    let mut findings = Vec::new();
    match git.repository() {
        Ok(finding) => findings.extend([finding.of("git"), git.worktrees().of("worktrees")]),
        Err(finding) => findings.push(finding.of("git")),
    }
    let parallel = loaded.and_then(|loaded| loaded.plan.parallel);
    if parallel.is_some_and(|parallel| parallel.isolation == Isolation::Worktree) {
        findings.extend(isolation(dir, world).map(|finding| finding.of("isolation")));
    }
    findings.extend(git.ignores_state(&located.files.state_dir).map(|it| it.of("ignored")));
    findings
}

/// Why a run with branches in worktrees would not start.
fn isolation(dir: &Path, world: &World) -> Option<Finding> {
    let found = Repository::find(dir, world);
    let found = found.and_then(|found| found.ok_or_else(|| GitError::Outside(dir.to_owned())));
    let error = found.and_then(|repository| repository.base()).err()?;
    Some(Finding::problem(
        format!("parallel.isolation = \"worktree\": {error}"),
        "or set parallel.isolation = \"shared\" to run branches in the project's own worktree",
    ))
}

struct Git<'a> {
    dir: &'a Path,
    world: &'a World,
}

impl Git<'_> {
    /// The version and the repository; an error ends the checks of git.
    fn repository(&self) -> Result<Finding, Finding> {
        let version = self.ask(&["--version"]);
        if version.exit_code() == 127 {
            let advice =
                "install it: loops run without, but changes cannot be compared with commits";
            return Err(Finding::warning("git is not on PATH", advice));
        }
        if version.exit_code() != 0 {
            let found = format!("git does not run: {}", complaint(&version));
            return Err(Finding::warning(found, "run `git --version`"));
        }
        let top = self.ask(&["rev-parse", "--show-toplevel"]);
        let version = version.stdout.text();
        let version = version.trim();
        if top.exit_code() == 0 {
            let top = top.stdout.text();
            return Ok(Finding::ok(format!("{version}; the repository is {}", top.trim())));
        }
        let said = complaint(&top);
        let advice = if said.contains("dubious ownership") {
            "make the directory yours, or trust it: git config --global --add safe.directory DIR"
        } else if said.contains("not a git repository") {
            "run `git init` there and commit the files, so that changes of agents can be reverted"
        } else {
            "run `git status` there"
        };
        Err(Finding::warning(format!("{version}; {}: {said}", self.dir.display()), advice))
    }

    fn worktrees(&self) -> Finding {
        if self.ask(&["rev-parse", "--verify", "--quiet", "HEAD"]).exit_code() != 0 {
            let advice = "make a first commit: a worktree is created from one";
            return Finding::warning("the repository has no commit", advice);
        }
        let list = self.ask(&["worktree", "list", "--porcelain"]);
        if list.exit_code() != 0 {
            let found = format!("git cannot list worktrees: {}", complaint(&list));
            return Finding::warning(found, "use git 2.38 or later");
        }
        let list = list.stdout.text();
        let count = |word: &str| list.lines().filter(|line| line.starts_with(word)).count();
        match (count("worktree "), count("prunable")) {
            (all, 0) => Finding::ok(format!("can be created; {all} in use")),
            (all, gone) => Finding::warning(
                format!("{all} in use; the directories of {gone} are missing"),
                "run `git worktree prune`",
            ),
        }
    }

    /// Whether git ignores the state directory; `None` where it does not exist or is outside of the repository. It
    /// ignores itself from the first run on.
    fn ignores_state(&self, state_dir: &Path) -> Option<Finding> {
        let state = std::path::absolute(state_dir).ok().filter(|state| state.is_dir())?;
        let shown = state_dir.display();
        let tracked = self.ask(&["ls-files", "-z", "--", &state.to_string_lossy()]);
        let tracked = match tracked.exit_code() {
            0 => tracked.stdout.text().split_terminator('\0').count(),
            _ => return None,
        };
        if tracked > 0 {
            let files = if tracked == 1 { "file" } else { "files" };
            return Some(Finding::warning(
                format!("git tracks {tracked} {files} of {shown}"),
                format!("remove them from the index: git rm -r -q --cached {shown}"),
            ));
        }
        let journal = StateDir::new(state).journal();
        let ignored = self.ask(&["check-ignore", "-q", "--", &journal.to_string_lossy()]);
        match ignored.exit_code() {
            0 => Some(Finding::ok(format!("git ignores {shown}"))),
            1 => Some(Finding::warning(
                format!(
                    "git does not ignore {shown}: `git clean -fd` deletes it, `git add -A` commits it"
                ),
                format!("ignore it: echo '*' > {shown}/.gitignore"),
            )),
            _ => None,
        }
    }

    /// Runs a git command that changes nothing.
    fn ask(&self, args: &[&str]) -> Finished {
        let (name, value) = QUIET_GIT;
        let job = Job {
            program: "git".into(),
            args: args.iter().map(Into::into).collect(),
            env: vec![(name.into(), value.into()), ("LC_ALL".into(), "C".into())],
            dir: Some(self.dir.to_owned()),
            limits: Limits { deadline: Some(TIMEOUT), ..Limits::default() },
            ..Job::default()
        };
        run(job, self.world, &Interrupts::default())
    }
}

/// The error message of a program, or how it ended.
fn complaint(finished: &Finished) -> String {
    let said = finished.stderr.text();
    match said.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => line.trim().trim_start_matches("fatal: ").to_owned(),
        None if finished.timed_out() => "it timed out".to_owned(),
        None => format!("it exits with {}", finished.exit_code()),
    }
}
