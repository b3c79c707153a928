//! git: what reviews compare by, and what working trees are made with.

use std::path::Path;
use std::time::Duration;

use autoloop_core::config::Isolation;
use autoloop_runtime::git::{GitError, Repository};
use autoloop_runtime::layout::StateDir;
use autoloop_runtime::process::{Interrupts, run};
use autoloop_runtime::project::Loaded;
use autoloop_runtime::sandbox::quiet_git;
use autoloop_runtime::world::{Finished, Job, Limits, World};

use super::finding::Finding;
use crate::commands::settings::Located;

/// Nothing that is asked takes long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Looks at git and at the repository of a project, and at whether branches can have working trees
/// where the settings want them to.
pub(super) fn check(located: &Located, loaded: Option<&Loaded>, world: &World) -> Vec<Finding> {
    let dir = &located.dir;
    let parallel = loaded.and_then(|loaded| loaded.plan.parallel);
    let lack = match parallel.map(|parallel| parallel.isolation) {
        Some(Isolation::Worktree) => lack_of_trees(dir, world),
        _ => None,
    };
    let state = is_ignored(located, world);
    general(dir, world).into_iter().chain(lack).chain(state).collect()
}

/// Why branches cannot have working trees of their own: a run would not begin.
fn lack_of_trees(dir: &Path, world: &World) -> Option<Finding> {
    let found = Repository::find(dir, world);
    let found = found.and_then(|found| found.ok_or_else(|| GitError::Outside(dir.to_owned())));
    let error = found.and_then(|repository| repository.base()).err()?;
    Some(Finding::problem(
        "isolation",
        format!("parallel.isolation = \"worktree\": {error}"),
        "or set parallel.isolation = \"shared\": branches work in the tree of the project then",
    ))
}

/// Whether git leaves the state directory alone. Before the first run there is none; it ignores itself
/// when it is made.
fn is_ignored(located: &Located, world: &World) -> Option<Finding> {
    const NAME: &str = "ignored";
    let Located { dir, files, .. } = located;
    let state = std::path::absolute(&files.state_dir).ok().filter(|state| state.is_dir())?;
    let shown = files.state_dir.display();
    let path = state.to_string_lossy();
    let committed = ask(&["ls-files", "-z", "--", &path], dir, world);
    let count = match committed.exit_code() {
        0 => committed.stdout.text().split_terminator('\0').count(),
        // There is no repository, or the directory is outside of it.
        _ => return None,
    };
    if count > 0 {
        return Some(Finding::warning(
            NAME,
            match count {
                1 => format!("git tracks 1 file of {shown}"),
                count => format!("git tracks {count} files of {shown}"),
            },
            format!("remove them from the index: git rm -r -q --cached {shown}"),
        ));
    }
    let journal = StateDir::new(state).journal();
    match ask(&["check-ignore", "-q", "--", &journal.to_string_lossy()], dir, world).exit_code() {
        0 => Some(Finding::ok(NAME, format!("git ignores {shown}"))),
        1 => Some(Finding::warning(
            NAME,
            format!(
                "git does not ignore {shown}: `git clean -fd` deletes it, `git add -A` commits it"
            ),
            format!("make it ignore itself: echo '*' > {shown}/.gitignore"),
        )),
        _ => None,
    }
}

fn general(dir: &Path, world: &World) -> Vec<Finding> {
    let version = ask(&["--version"], dir, world);
    if version.exit_code() == 127 {
        let found = "git is not on PATH";
        return vec![Finding::warning(
            "git",
            found,
            "install it: loops run without, but nothing can be compared with what was committed",
        )];
    }
    if version.exit_code() != 0 {
        let found = format!("git does not run: {}", told(&version));
        return vec![Finding::warning("git", found, "see what `git --version` says")];
    }
    let top = ask(&["rev-parse", "--show-toplevel"], dir, world);
    let version = version.stdout.text();
    let version = version.trim();
    if top.exit_code() != 0 {
        let found = format!("{version}; {}: {}", dir.display(), told(&top));
        return vec![Finding::warning("git", found, advice(&told(&top)))];
    }
    let place = top.stdout.text();
    vec![
        Finding::ok("git", format!("{version}; the repository is {}", place.trim())),
        trees(dir, world),
    ]
}

/// What to do about what git says of a directory.
fn advice(said: &str) -> &'static str {
    if said.contains("dubious ownership") {
        "make the directory yours, or trust it: git config --global --add safe.directory DIR"
    } else if said.contains("not a git repository") {
        "`git init` there, and commit what there is: what an agent spoils can then be had back"
    } else {
        "see what `git status` says there"
    }
}

/// Whether working trees can be made.
fn trees(dir: &Path, world: &World) -> Finding {
    const NAME: &str = "worktrees";
    if ask(&["rev-parse", "--verify", "--quiet", "HEAD"], dir, world).exit_code() != 0 {
        let advice = "make a first commit: a working tree is made from one";
        return Finding::warning(NAME, "there is no commit yet", advice);
    }
    let list = ask(&["worktree", "list", "--porcelain"], dir, world);
    if list.exit_code() != 0 {
        let found = format!("git cannot list them: {}", told(&list));
        return Finding::warning(NAME, found, "use git 2.38 or later");
    }
    let list = list.stdout.text();
    let count = |word: &str| list.lines().filter(|line| line.starts_with(word)).count();
    match (count("worktree "), count("prunable")) {
        (1, 0) => Finding::ok(NAME, "can be made; there is one"),
        (all, 0) => Finding::ok(NAME, format!("can be made; there are {all}")),
        (all, gone) => Finding::warning(
            NAME,
            format!("there are {all}, and the directories of {gone} are gone"),
            "`git worktree prune` forgets them",
        ),
    }
}

/// Asks git something that changes nothing.
fn ask(args: &[&str], dir: &Path, world: &World) -> Finished {
    let (name, value) = quiet_git();
    let job = Job {
        program: "git".into(),
        args: args.iter().map(Into::into).collect(),
        env: vec![(name.into(), value.into()), ("LC_ALL".into(), "C".into())],
        dir: Some(dir.to_owned()),
        limits: Limits { deadline: Some(PATIENCE), ..Limits::default() },
        ..Job::default()
    };
    run(job, world, &Interrupts::default())
}

/// What a program complained about, or how it ended.
fn told(finished: &Finished) -> String {
    let said = finished.stderr.text();
    match said.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => line.trim().trim_start_matches("fatal: ").to_owned(),
        None if finished.timed_out() => "it does not answer".to_owned(),
        None => format!("it exits with {}", finished.exit_code()),
    }
}
