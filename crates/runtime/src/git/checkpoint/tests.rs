use std::fs;

use super::super::scene::Scene;
use super::*;

/// A project in which the user has changes of all sorts, and a checkpoint of it.
fn busy() -> (Scene, Repository, String) {
    let scene = Scene::new();
    scene.write("staged", "s\n").write("other", "1\n2\n3\n4\n5\n6\n7\n").commit("more");
    scene.write("staged", "mine, staged\n");
    scene.git(&["add", "staged"]);
    scene.write("other", "mine\n2\n3\n4\n5\n6\n7\n").write("untracked", "mine\n");
    scene.write("ignored", "secret\n");
    let repository = scene.repository();
    let checkpoint = repository.checkpoint("run", &[]).unwrap();
    (scene, repository, checkpoint)
}

const BUSY: &str = " M other\nM  staged\n?? untracked";

fn state(scene: &Scene) -> String {
    let names = ["file", "staged", "other", "untracked", "ignored", "made"];
    let files = names.map(|name| format!("{name}: {}", scene.read(name)));
    let git = |args: &[&str]| scene.git(args);
    let all =
        [git(&["status", "--porcelain"]), git(&["rev-parse", "HEAD"]), git(&["diff", "--cached"])];
    [all.join("\n"), git(&["branch", "--show-current"]), files.join("\n")].join("\n")
}

fn work(scene: &Scene, repository: &Repository, checkpoint: &str) -> String {
    let _ = scene;
    repository.worktree(repository.top()).unwrap().capture(checkpoint, &[]).unwrap().tree
}

fn set_aside(
    repository: &Repository,
    checkpoint: &str,
    message: &str,
) -> Result<Vec<String>, GitError> {
    let branch = WorkBranch { name: "autoloop/x", base: checkpoint, message };
    repository.set_aside(&branch, &[])
}

#[test]
fn work_is_committed_without_what_was_there_before() {
    let (scene, repository, checkpoint) = busy();
    assert_eq!(scene.git(&["status", "--porcelain"]), BUSY);
    scene.write("made", "work\n").write("other", "mine\n2\n3\n4\n5\n6\nwork\n");
    // An agent may stage and commit by itself.
    scene.git(&["add", "made"]);
    let tree = work(&scene, &repository, &checkpoint);
    let MergeBack::Merged(commit) = repository.commit_work(&checkpoint, &tree, "t-1: it").unwrap()
    else {
        panic!("nothing is in the way")
    };
    assert_eq!(scene.git(&["rev-parse", "HEAD"]), commit);
    assert_eq!(
        scene.git(&["show", "--name-status", "--format=%s"]),
        "t-1: it\n\nA\tmade\nM\tother"
    );
    assert_eq!(scene.git(&["show", "HEAD:other"]), "1\n2\n3\n4\n5\n6\nwork");
    assert_eq!(scene.git(&["status", "--porcelain"]), BUSY, "the user's changes are as they were");
    assert_eq!(scene.read("other"), "mine\n2\n3\n4\n5\n6\nwork\n");
    // Asked again after a crash.
    let again = repository.commit_work(&checkpoint, &tree, "t-1: it").unwrap();
    assert_eq!(again, MergeBack::Merged(commit));
}

#[test]
fn work_on_lines_that_the_user_changed_is_not_committed() {
    let (scene, repository, checkpoint) = busy();
    scene.write("other", "mine and work\n2\n3\n4\n5\n6\n7\n");
    let tree = work(&scene, &repository, &checkpoint);
    let before = state(&scene);
    let brought = repository.commit_work(&checkpoint, &tree, "t-1: it").unwrap();
    assert_eq!(brought, MergeBack::Conflict(vec!["other".into()]));
    assert_eq!(state(&scene), before);
    // It can be moved away all the same.
    assert_eq!(set_aside(&repository, &checkpoint, "it").unwrap(), ["autoloop/x"]);
    assert_eq!(scene.git(&["status", "--porcelain"]), BUSY);
    assert!(scene.git(&["show", "autoloop/x:other"]).starts_with("mine and work\n"));
}

#[test]
fn a_commit_of_the_agents_own_is_completed_to_what_was_reviewed() {
    let scene = Scene::new();
    let repository = scene.repository();
    let checkpoint = repository.checkpoint("run", &[]).unwrap();
    scene.write("made", "evil\n").commit("of the agent");
    scene.write("made", "good\n");
    let tree = work(&scene, &repository, &checkpoint);
    let brought = repository.commit_work(&checkpoint, &tree, "t-1: it").unwrap();
    assert!(matches!(brought, MergeBack::Merged(_)));
    assert_eq!(repository.tree_of("HEAD").unwrap(), tree);
    assert_eq!(scene.git(&["status", "--porcelain"]), "");
    // Not where it made the history anew.
    scene.git(&["commit", "-q", "--amend", "-m", "anew"]);
    let checkpoint = repository.checkpoint("run", &[]).unwrap();
    scene.write("made", "more\n");
    scene.git(&["commit", "-q", "-a", "--amend", "-m", "once more"]);
    let tree = work(&scene, &repository, &checkpoint);
    let refused = repository.commit_work(&checkpoint, &tree, "t-2: it");
    assert!(matches!(refused, Err(GitError::Rewritten { .. })));
}

#[test]
fn what_did_not_pass_is_moved_to_a_branch_and_everything_is_as_it_was() {
    type Way = (&'static str, &'static dyn Fn(&Scene));
    let ways: [Way; 5] = [
        ("files", &|_| {}),
        ("staged", &|scene| drop(scene.git(&["add", "-A"]))),
        ("committed", &|scene| scene.commit("of the agent")),
        ("elsewhere", &|scene| {
            scene.git(&["checkout", "-q", "-b", "away"]);
            scene.commit("of the agent");
        }),
        ("detached", &|scene| {
            scene.git(&["checkout", "-q", "--detach"]);
            scene.git(&["commit", "-q", "-a", "--amend", "-m", "anew"]);
        }),
    ];
    for (way, done) in ways {
        let (scene, repository, checkpoint) = busy();
        let before = state(&scene);
        scene.write("made", "work\n").write("file", "work\n").write("staged", "work\n");
        fs::remove_file(scene.top.join("untracked")).unwrap();
        // What was ignored is neither kept nor removed, although it seems to be new.
        scene.write(".gitignore", "state/\n");
        done(&scene);
        let kept = set_aside(&repository, &checkpoint, "t-1: it").unwrap();
        assert_eq!(kept, ["autoloop/x"], "{way}");
        assert_eq!(state(&scene), before, "{way}");
        assert_eq!(scene.git(&["show", "autoloop/x:made"]), "work", "{way}");
        assert_eq!(scene.git(&["show", "autoloop/x:file"]), "work", "{way}");
        // Asked again after a crash.
        let again = set_aside(&repository, &checkpoint, "t-1: it").unwrap();
        assert_eq!((again, state(&scene)), (kept, before), "{way}");
    }
}

#[test]
fn nothing_is_kept_where_nothing_was_done() {
    let (scene, repository, checkpoint) = busy();
    let before = state(&scene);
    let tree = work(&scene, &repository, &checkpoint);
    assert_eq!(repository.commit_work(&checkpoint, &tree, "m").unwrap(), MergeBack::NoChange);
    assert_eq!(set_aside(&repository, &checkpoint, "m").unwrap(), [""; 0]);
    assert_eq!(state(&scene), before);
    let head = repository.base().unwrap();
    let refused = set_aside(&repository, &head, "m");
    assert!(matches!(refused, Err(GitError::NoCheckpoint(_))));
    assert!(scene.git(&["for-each-ref"]).contains("refs/autoloop/checkpoint/run"));
    repository.forget_checkpoint("run").unwrap();
    assert!(!scene.git(&["for-each-ref"]).contains("autoloop"));
}

/// An agent knows the names that the harness uses. A name that it makes stand for a branch moves no branch, and none
/// goes away with it.
#[test]
fn the_name_of_a_checkpoint_leads_to_no_branch() {
    let (scene, repository, _) = busy();
    let head = scene.git(&["rev-parse", "main"]);
    scene.git(&["symbolic-ref", "refs/autoloop/checkpoint/run", "refs/heads/main"]);
    repository.checkpoint("run", &[]).unwrap();
    assert_eq!(scene.git(&["rev-parse", "main"]), head);
    scene.git(&["symbolic-ref", "refs/autoloop/checkpoint/run", "refs/heads/main"]);
    repository.forget_checkpoint("run").unwrap();
    assert_eq!(scene.git(&["rev-parse", "main"]), head);
    assert!(!scene.git(&["for-each-ref"]).contains("autoloop"));
}

/// A branch that is there already, by an agent or before a crash, does not stand for work that it does not have.
#[test]
fn work_is_kept_on_a_branch_that_is_there_already() {
    let ways: [&[&str]; 2] =
        [&["branch", "autoloop/x"], &["symbolic-ref", "refs/heads/autoloop/x", "refs/heads/main"]];
    for way in ways {
        let (scene, repository, checkpoint) = busy();
        let before = state(&scene);
        scene.git(way);
        let aside = || set_aside(&repository, &checkpoint, "t-1: it").unwrap();
        scene.write("made", "work\n");
        assert_eq!(aside(), ["autoloop/x"], "{way:?}");
        assert_eq!(state(&scene), before, "{way:?}");
        assert_eq!(scene.git(&["show", "autoloop/x:made"]), "work", "{way:?}");
        // Made after a crash in between.
        scene.write("made", "more\n");
        assert_eq!((aside(), state(&scene)), (vec!["autoloop/x".to_owned()], before), "{way:?}");
        assert_eq!(scene.git(&["show", "autoloop/x:made"]), "more", "{way:?}");
        assert_eq!(scene.git(&["show", "autoloop/x~:made"]), "work", "{way:?}");
    }
}

#[test]
fn what_was_ignored_before_is_no_part_of_the_work() {
    let (scene, repository, checkpoint) = busy();
    scene.write(".gitignore", "state/\n").write("made", "work\n");
    scene.git(&["add", "-A"]);
    let tree = repository.work(&checkpoint, &[]).unwrap();
    repository.commit_work(&checkpoint, &tree, "t-1: it").unwrap();
    assert_eq!(scene.git(&["show", "--name-only", "--format="]), ".gitignore\nmade");
    assert_eq!(scene.read("ignored"), "secret\n");
    assert!(scene.git(&["status", "--porcelain"]).contains("?? ignored"));
}

#[test]
fn nothing_is_committed_where_the_index_of_the_user_is_not_merged() {
    let scene = Scene::new();
    scene.git(&["checkout", "-q", "-b", "other"]);
    scene.write("file", "other\n").commit("other");
    scene.git(&["checkout", "-q", "main"]);
    scene.write("file", "main\n").commit("main");
    let mut merge = std::process::Command::new("git");
    let merged = merge.args(["merge", "-q", "other"]).current_dir(&scene.top).output().unwrap();
    assert!(!merged.status.success());
    // As behind `git stash pop`: nothing says that a merge is under way but the index.
    scene.git(&["merge", "--quit"]);
    let repository = scene.repository();
    let checkpoint = repository.checkpoint("run", &[]).unwrap();
    scene.write("made", "work\n");
    let tree = work(&scene, &repository, &checkpoint);
    let brought = repository.commit_work(&checkpoint, &tree, "t-1: it").unwrap();
    assert_eq!(brought, MergeBack::InProgress("a merge"));
    assert_eq!(scene.git(&["status", "--porcelain"]), "UU file\n?? made");
}

#[test]
fn an_object_that_is_not_what_its_name_says_is_not_committed() {
    let (scene, repository, checkpoint) = busy();
    scene.write("made", "good\n");
    let tree = repository.work(&checkpoint, &[]).unwrap();
    scene.forge("good\n", "evil\n");
    let refused = repository.commit_work(&checkpoint, &tree, "t-1: it");
    assert!(matches!(refused, Err(GitError::Forged(_))), "{refused:?}");
    assert_eq!(scene.git(&["log", "--format=%s"]), "more\nbegin");
}
