use super::super::Repository;
use super::super::scene::Scene;
use super::*;

fn tree(scene: &Scene) -> (Repository, Worktree, String) {
    let repository = scene.repository();
    let base = repository.base().unwrap();
    let tree = repository.add_worktree(&scene.place("tree"), "autoloop/x", &base).unwrap();
    (repository, tree, base)
}

fn work_branch(base: &str) -> WorkBranch<'_> {
    WorkBranch { name: "autoloop/x", base, message: "left" }
}

#[test]
fn a_failing_hook_a_missing_name_and_a_stale_lock_change_nothing() {
    let scene = Scene::new();
    let (_, tree, base) = tree(&scene);
    scene.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    scene.git(&["config", "core.hooksPath", &format!("{}/.git/hooks", scene.top.display())]);
    let made_executable = std::process::Command::new("chmod")
        .args(["+x", ".git/hooks/pre-commit"])
        .current_dir(&scene.top)
        .status();
    assert!(made_executable.unwrap().success());
    scene.git(&["config", "commit.gpgSign", "true"]);
    scene.git(&["config", "user.name", ""]);
    scene.write("state/tree/new", "x");
    fs::write(tree.git_dir.join("index.lock"), "").unwrap();
    let committed = tree.commit_all(&work_branch(&base), &[]).unwrap();
    assert_eq!(committed.unfinished, None);
    assert_eq!(scene.git(&["log", "-1", "--format=%s %an", &committed.tip]), "left autoloop");
}

#[test]
fn work_is_found_on_any_branch() {
    let scene = Scene::new();
    let (repository, tree, base) = tree(&scene);
    let git = |args: &[&str]| scene.git_in(tree.dir(), args);
    let commit = || tree.commit_all(&work_branch(&base), &[]).unwrap();
    let subjects = |name: &str| scene.git(&["log", "--format=%s", name]);
    // On to another branch: the one of the tree goes along.
    git(&["checkout", "-q", "-b", "elsewhere"]);
    scene.write("state/tree/first", "1");
    let first = commit();
    assert_eq!(repository.tip("autoloop/x").unwrap(), Some(first.tip.clone()));
    assert_eq!(subjects("autoloop/x"), "left\nbegin");
    // Back, only to look.
    git(&["reset", "-q"]);
    git(&["checkout", "-q", "--detach", &base]);
    let back = commit();
    let told = "work on its branch that its files do not have".to_owned();
    assert_eq!((&back.tip, back.unfinished), (&first.tip, Some(told)));
    // Back, and on in another direction: both are kept.
    scene.write("state/tree/second", "2");
    let told = "work beside its branch (kept on autoloop/x-beside)".to_owned();
    for _ in 0..2 {
        let committed = commit();
        assert_eq!((committed.tip, committed.unfinished), (first.tip.clone(), Some(told.clone())));
    }
    let names = |name| scene.git(&["ls-tree", "--name-only", name]);
    assert_eq!(names("autoloop/x"), ".gitignore\nfile\nfirst");
    assert_eq!(names("autoloop/x-beside"), ".gitignore\nfile\nsecond");
}

#[test]
fn a_tree_is_put_back_to_where_it_stood() {
    let scene = Scene::new();
    let (repository, tree, base) = tree(&scene);
    let stood = tree.head_state().unwrap();
    scene.write("state/tree/new", "x");
    scene.git_in(tree.dir(), &["add", "-A"]);
    scene.git_in(tree.dir(), &["commit", "-q", "-m", "sneaked in"]);
    scene.git_in(tree.dir(), &["checkout", "-q", "--detach"]);
    assert_ne!(tree.head_state().unwrap(), stood);
    tree.restore_head(&stood).unwrap();
    assert_eq!(tree.head_state().unwrap(), stood);
    assert_eq!(repository.tip("autoloop/x").unwrap(), Some(base));
    assert_eq!(scene.git_in(tree.dir(), &["status", "--porcelain"]), "?? new");
}

#[test]
fn an_unfinished_merge_is_told_and_kept() {
    let scene = Scene::new();
    let (_, tree, base) = tree(&scene);
    scene.git(&["branch", "other", &base]);
    scene.write("file", "their\ntwo\nthree\n").commit("theirs");
    scene.write("state/tree/file", "our\ntwo\nthree\n");
    scene.git_in(tree.dir(), &["commit", "-q", "-a", "-m", "ours"]);
    let merging = std::process::Command::new("git")
        .args(["merge", "-q", "main"])
        .current_dir(tree.dir())
        .output();
    assert!(!merging.unwrap().status.success());
    let committed = tree.commit_all(&work_branch(&base), &[]).unwrap();
    assert_eq!(committed.unfinished.as_deref(), Some("a merge"));
    assert!(scene.git(&["show", &format!("{}:file", committed.tip)]).contains("<<<<<<<"));
}

#[test]
fn repositories_in_a_tree_are_no_part_of_it() {
    let scene = Scene::new();
    let (_, tree, base) = tree(&scene);
    scene.write("state/tree/new", "n").write("state/tree/state/x", "s");
    for name in ["empty", "deep/full"] {
        scene.git_in(tree.dir(), &["init", "-q", name]);
    }
    let full = tree.dir().join("deep/full");
    scene.write("state/tree/deep/full/file", "f").write("state/tree/deep/beside", "b");
    scene.git_in(&full, &["add", "-A"]);
    let who = ["-c", "user.name=a", "-c", "user.email=b"];
    scene.git_in(&full, &[&who[..], &["commit", "-q", "-m", "f"]].concat());
    let committed = tree.commit_all(&work_branch(&base), &[]).unwrap();
    let names = scene.git(&["diff", "--name-only", &base, &committed.tip]);
    assert_eq!(names, "deep/beside\nnew");
    let left = tree.uncommitted(&[]).unwrap();
    assert_eq!(left, [Path::new("deep/full"), Path::new("empty")]);
    assert_eq!(tree.uncommitted(&[Path::new("deep"), Path::new("empty")]).unwrap().len(), 0);
}

#[test]
fn a_tree_without_its_link_is_not_taken_for_the_one_around_it() {
    let scene = Scene::new();
    let (repository, tree, _) = tree(&scene);
    fs::remove_file(tree.dir().join(".git")).unwrap();
    assert!(matches!(repository.worktree(tree.dir()), Err(GitError::NotATree(_))));
}

#[test]
fn a_setting_leads_nobody_to_another_tree() {
    let scene = Scene::new();
    let (repository, tree, base) = tree(&scene);
    scene.write("elsewhere/secret", "s").write("state/tree/new", "n\n");
    scene.git(&["config", "extensions.worktreeConfig", "true"]);
    let elsewhere = scene.top.join("elsewhere").display().to_string();
    scene.git_in(tree.dir(), &["config", "--worktree", "core.worktree", &elsewhere]);
    let tree = repository.worktree(tree.dir()).unwrap();
    let captured = tree.capture(&base, &[]).unwrap();
    let diff = repository.diff(&base, &captured.tree, 100_000).unwrap();
    assert!(diff.contains("+++ b/new") && !diff.contains("secret"), "{diff}");
    let committed = tree.commit_all(&work_branch(&base), &[]).unwrap();
    assert_eq!(scene.git(&["ls-tree", "--name-only", &committed.tip]), ".gitignore\nfile\nnew");
}

#[test]
fn a_tree_without_a_head_is_none() {
    let scene = Scene::new();
    let (repository, tree, base) = tree(&scene);
    fs::write(tree.git_dir.join("HEAD"), "").unwrap();
    assert!(matches!(repository.worktree(tree.dir()), Err(GitError::NotATree(_))));
    repository.add_worktree(tree.dir(), "autoloop/x", &base).unwrap();
    assert_eq!(scene.git_in(tree.dir(), &["status", "--porcelain"]), "");
}

/// What an agent may have done to the link by which git finds its way from a tree.
#[test]
fn a_tree_that_claims_to_be_another_is_not_believed() {
    let scene = Scene::new();
    let (repository, tree, _) = tree(&scene);
    let (head, link) = (repository.base().unwrap(), tree.dir().join(".git"));
    let own = fs::read_to_string(&link).unwrap();
    let sibling = repository.add_worktree(&scene.place("sibling"), "autoloop/y", &head).unwrap();
    scene.git(&["init", "-q", "state/hostile"]);
    let forged = scene.top.join(".git/worktrees/forged");
    scene.write(".git/worktrees/forged/gitdir", &format!("{}\n", link.display()));
    scene.write(".git/worktrees/forged/commondir", "../../../state/hostile/.git\n");
    scene.write(".git/worktrees/forged/HEAD", "ref: refs/heads/main\n");
    let elsewhere =
        [scene.top.join(".git"), sibling.git_dir, scene.place("hostile/.git"), forged.clone()];
    for elsewhere in elsewhere {
        fs::write(&link, format!("gitdir: {}\n", elsewhere.display())).unwrap();
        let found = repository.worktree(tree.dir());
        assert!(matches!(found, Err(GitError::NotATree(_))), "{}", elsewhere.display());
    }
    fs::remove_dir_all(forged).unwrap();
    fs::write(&link, own).unwrap();
    assert!(repository.worktree(tree.dir()).is_ok());
    // And one that is a link as a whole.
    fs::rename(tree.dir(), scene.place("aside")).unwrap();
    for elsewhere in [&scene.place("hostile"), sibling.git.dir(), &scene.top] {
        std::os::unix::fs::symlink(elsewhere, tree.dir()).unwrap();
        let found = repository.worktree(tree.dir());
        assert!(matches!(found, Err(GitError::NotATree(_))), "{}", elsewhere.display());
        fs::remove_file(tree.dir()).unwrap();
    }
}

#[test]
fn the_branch_of_the_project_does_not_move_with_a_tree() {
    let scene = Scene::new();
    let (repository, tree, base) = tree(&scene);
    let git = |args: &[&str]| scene.git_in(tree.dir(), args);
    git(&["checkout", "-q", "--ignore-other-worktrees", "main"]);
    scene.write("state/tree/first", "1");
    let committed = tree.commit_all(&work_branch(&base), &[]).unwrap();
    assert_eq!(repository.tip("autoloop/x").unwrap(), Some(committed.tip));
    assert_eq!(scene.git(&["rev-parse", "main"]), base);
    // Its own branch is a name for that of the project.
    git(&["symbolic-ref", "HEAD", "refs/heads/autoloop/x"]);
    git(&["symbolic-ref", "refs/heads/autoloop/x", "refs/heads/main"]);
    scene.write("state/tree/second", "2");
    let committed = tree.commit_all(&work_branch(&base), &[]).unwrap();
    assert_eq!(repository.tip("autoloop/x").unwrap(), Some(committed.tip));
    assert_eq!(scene.git(&["rev-parse", "main"]), base);
    git(&["symbolic-ref", "refs/heads/autoloop/x", "refs/heads/main"]);
    assert!(repository.delete_branch("autoloop/x", &base).unwrap());
    assert_eq!(scene.git(&["rev-parse", "main"]), base);
    assert_eq!(scene.git(&["status", "--porcelain"]), "");
}

#[test]
fn submodules_are_not_thrown_away_with_a_tree() {
    let scene = Scene::new();
    scene.git(&["init", "-q", "state/source"]);
    let source = scene.place("source");
    let commit = ["-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "-m", "x"];
    scene.git_in(&source, &[&commit[..], &["--allow-empty"]].concat());
    let (allowed, path) = ("protocol.file.allow=always", source.display().to_string());
    scene.git(&["-c", allowed, "submodule", "--quiet", "add", &path, "sub"]);
    scene.commit("with a submodule");
    let (_, tree, _) = tree(&scene);
    let git = |args: &[&str]| scene.git_in(tree.dir(), args);
    assert_eq!(tree.uncommitted(&[]).unwrap().len(), 0, "it is not there");
    git(&["-c", allowed, "submodule", "--quiet", "update", "--init"]);
    assert_eq!(tree.uncommitted(&[]).unwrap(), [Path::new("sub")]);
    // Its history stays when its files go.
    git(&["submodule", "--quiet", "deinit", "sub"]);
    assert_eq!(tree.uncommitted(&[]).unwrap(), [Path::new("sub")]);
    fs::remove_dir_all(tree.git_dir.join("modules")).unwrap();
    git(&["clone", "-q", &path, "sub"]);
    assert_eq!(tree.uncommitted(&[]).unwrap(), [Path::new("sub")]);
}

#[test]
fn what_is_left_becomes_one_commit() {
    let scene = Scene::new();
    let (repository, tree, base) = tree(&scene);
    let commit = || tree.commit_all(&work_branch(&base), &[Path::new("kept")]).unwrap();
    assert_eq!(commit().tip, base);
    scene.write("state/tree/file", "changed").write("state/tree/new", "untracked");
    scene.write("state/tree/ignored", "no").write("state/tree/kept/out", "no");
    scene.git_in(tree.dir(), &["rm", "-q", "--cached", ".gitignore"]);
    let committed = commit();
    assert_eq!(scene.git(&["diff", "--name-status", &base, &committed.tip]), "M\tfile\nA\tnew");
    assert_eq!(scene.git(&["log", "-1", "--format=%s %an", &committed.tip]), "left A Person");
    assert_eq!(repository.tree_of(&committed.tip).unwrap(), committed.tree);
    assert_eq!(commit(), committed, "once");
}

#[test]
fn a_diff_is_a_summary_and_a_patch_and_its_middle_can_be_left_out() {
    let scene = Scene::new();
    let (repository, tree, base) = tree(&scene);
    scene.write("state/tree/file", "one\n2\nthree\n").write("state/tree/new", "u\n");
    fs::write(tree.dir().join("binary"), b"\0\x01\xff").unwrap();
    // The work of others is not part of it.
    scene.write("foreign", "f\n").commit("foreign");
    let captured = tree.capture(&base, &[]).unwrap();
    let diff = repository.diff(&base, &captured.tree, 100_000).unwrap();
    let diff: Vec<&str> = diff.lines().filter(|line| !line.starts_with("index ")).collect();
    insta::assert_snapshot!(diff.join("\n"), @r"
     binary | Bin 0 -> 3 bytes
     file   |   2 +-
     new    |   1 +
     3 files changed, 2 insertions(+), 1 deletion(-)

    diff --git a/binary b/binary
    new file mode 100644
    Binary files /dev/null and b/binary differ
    diff --git a/file b/file
    --- a/file
    +++ b/file
    @@ -1,3 +1,3 @@
     one
    -two
    +2
     three
    diff --git a/new b/new
    new file mode 100644
    --- /dev/null
    +++ b/new
    @@ -0,0 +1 @@
    +u
    ");
    let short = repository.diff(&base, &captured.tree, 200).unwrap();
    assert!(short.len() < 260 && short.contains("bytes left out"), "{short}");
}
