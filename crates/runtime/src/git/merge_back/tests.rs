use super::super::scene::Scene;
use super::super::{WorkBranch, Worktree};
use super::*;

/// A project and a branch beside it.
struct Beside {
    scene: Scene,
    repository: Repository,
    tree: Worktree,
    base: String,
}

const BRANCH: &str = "autoloop/x";
const MINE: &str = "one\nmine\nthree\n";

fn change<'c>(base: &'c str, tree: &'c str) -> Change<'c> {
    Change { base, tree, message: "left", merge: "Merge what was left" }
}

impl Beside {
    fn new() -> Beside {
        let scene = Scene::new();
        let repository = scene.repository();
        let base = repository.base().unwrap();
        let tree = repository.add_worktree(&scene.place("tree"), BRANCH, &base).unwrap();
        Beside { scene, repository, tree, base }
    }

    /// Leaves a file on the branch.
    fn left(self, name: &str, text: &str) -> Beside {
        self.scene.write(Path::new("state/tree").join(name), text);
        let branch = WorkBranch { name: BRANCH, base: &self.base, message: "left" };
        self.tree.commit_all(&branch, &[]).unwrap();
        self
    }

    fn bring(&self) -> MergeBack {
        let tip = self.repository.tip(BRANCH).unwrap().unwrap();
        let tree = self.repository.tree_of(&tip).unwrap();
        self.repository.merge_back(&change(&self.base, &tree)).unwrap()
    }

    /// Everything that must not change when something cannot be brought back.
    fn look(&self) -> String {
        let git = |args| self.scene.git(args);
        let all = [
            git(&["rev-parse", "HEAD"]),
            git(&["status", "--porcelain"]),
            git(&["diff"]),
            git(&["diff", "--cached"]),
            git(&["for-each-ref"]),
            git(&["stash", "list"]),
            format!("{:?}", operation_in_progress(&self.scene.top.join(".git"))),
        ];
        all.join("\n")
    }

    /// Asserts that it is brought back, once, and everything can be cleaned up.
    fn assert_merged(&self) {
        let MergeBack::Merged(commit) = self.bring() else { panic!("{:?}", self.bring()) };
        assert_eq!(self.repository.base().unwrap(), commit);
        assert_eq!(self.bring(), MergeBack::Merged(commit.clone()), "again");
        self.repository.remove_worktree(self.tree.dir()).unwrap();
        let tip = self.repository.tip(BRANCH).unwrap().unwrap();
        let tree = self.repository.tree_of(&tip).unwrap();
        self.repository
            .delete_merged(BRANCH, &self.repository.tree_of(&self.base).unwrap())
            .unwrap();
        assert_eq!(self.repository.tip(BRANCH).unwrap(), Some(tip), "it has other files");
        self.repository.delete_merged(BRANCH, &tree).unwrap();
        assert_eq!(self.repository.tip(BRANCH).unwrap(), None);
        assert!(!self.scene.top.join(".git/autoloop-bringing").exists());
    }
}

#[test]
fn nothing_is_nothing() {
    assert_eq!(Beside::new().bring(), MergeBack::NoChange);
}

#[test]
fn a_branch_that_is_ahead_needs_no_merge_commit() {
    let beside = Beside::new().left("new", "n");
    beside.assert_merged();
    assert_eq!(beside.scene.git(&["log", "--format=%s"]), "left\nbegin");
    assert_eq!(beside.scene.read("new"), "n");
    assert_eq!(beside.scene.git(&["status", "--porcelain"]), "");
}

#[test]
fn two_sides_become_one() {
    let beside = Beside::new().left("file", "one\ntwo\n3\n");
    beside.scene.write("file", "1\ntwo\nthree\n").commit("meanwhile");
    beside.assert_merged();
    assert_eq!(beside.scene.read("file"), "1\ntwo\n3\n");
    let log = beside.scene.git(&["log", "-1", "--format=%s by %an, %P"]);
    assert!(log.starts_with("Merge what was left by A Person, "), "{log}");
}

#[test]
fn a_detached_head_goes_on_too() {
    let beside = Beside::new();
    beside.scene.git(&["checkout", "-q", "--detach"]);
    let beside = beside.left("new", "n");
    beside.assert_merged();
    assert_eq!(beside.scene.git(&["branch", "--show-current"]), "");
}

#[test]
fn a_conflict_changes_nothing() {
    let beside = Beside::new().left("file", MINE);
    beside.scene.write("file", "one\nyours\nthree\n").commit("meanwhile");
    beside.scene.write("dirty", "d");
    let before = beside.look();
    assert_eq!(beside.bring(), MergeBack::Conflict(vec!["file".into()]));
    assert_eq!(beside.look(), before);
}

#[test]
fn changes_of_a_person_survive() {
    let beside = Beside::new().left("file", MINE).left("new", "theirs");
    beside.scene.write("other", "o\n").write("file", "one\ntwo\nmy own\n");
    beside.scene.git(&["add", "other"]);
    let before = beside.look();
    assert_eq!(beside.bring(), MergeBack::Uncommitted(vec!["file".into()]));
    assert_eq!(beside.look(), before);
    // A new file in the way is as good as a changed one, an ignored one too.
    beside.scene.git(&["checkout", "-q", "file"]);
    beside.scene.write("new", "my own");
    assert_eq!(beside.bring(), MergeBack::Uncommitted(vec!["new".into()]));
    std::fs::write(beside.scene.top.join(".git/info/exclude"), "new\n").unwrap();
    assert_eq!(beside.bring(), MergeBack::Uncommitted(vec!["new".into()]));
    assert_eq!(beside.scene.read("new"), "my own");
    // What does not conflict stays, staged as it is.
    std::fs::remove_file(beside.scene.top.join("new")).unwrap();
    beside.scene.write("file", "one\ntwo\nthree\n");
    beside.assert_merged();
    assert_eq!(beside.scene.git(&["status", "--porcelain"]), "A  other");
}

#[test]
fn a_file_that_is_already_so_is_in_nobodys_way() {
    let beside = Beside::new().left("file", MINE).left("new", "same");
    beside.scene.write("file", MINE).write("new", "same");
    beside.assert_merged();
    assert_eq!(beside.scene.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_merge_of_the_user_is_left_alone() {
    let beside = Beside::new().left("new", "n");
    let head = beside.base.clone();
    std::fs::write(beside.scene.top.join(".git/MERGE_HEAD"), head).unwrap();
    let before = beside.look();
    assert_eq!(beside.bring(), MergeBack::InProgress("a merge"));
    assert_eq!(beside.look(), before);
}

/// What a git leaves that is killed while it checks out a merge: some files, one of them in part, and
/// then the index, and then the branch.
#[test]
fn a_checkout_that_was_cut_off_is_finished() {
    for cut in 0..6 {
        let beside = Beside::new().left("file", MINE).left("new", "a new file\n");
        beside.scene.write("meanwhile", "m").commit("meanwhile");
        let head = beside.repository.base().unwrap();
        let tip = beside.repository.tip(BRANCH).unwrap().unwrap();
        let git = &beside.repository.git;
        let made = match git.merge(&head, &tip).unwrap() {
            Merge::Tree(tree) => git.commit_tree(&tree, &[&head, &tip], "m").unwrap(),
            Merge::FastForward | Merge::Conflict(_) => tip,
        };
        PendingMerge(beside.scene.top.join(".git/autoloop-bringing")).write(&head, &made).unwrap();
        let file = beside.scene.top.join("file");
        match cut {
            0 => {}
            1 => std::fs::remove_file(&file).unwrap(),
            2 => drop(beside.scene.write("file", "one\nmi")),
            3 => drop(beside.scene.write("file", MINE)),
            4 => drop(beside.scene.write("file", MINE).write("new", "a n")),
            _ => drop(beside.scene.git(&["read-tree", "-m", "-u", &head, &made])),
        }
        beside.assert_merged();
        assert_eq!(beside.repository.base().unwrap(), made, "{cut}: the same merge");
        assert_eq!(beside.scene.git(&["status", "--porcelain"]), "", "{cut}");
        assert_eq!(beside.scene.read("new"), "a new file\n");
    }
}

#[test]
fn an_edit_after_a_cut_survives() {
    let beside = Beside::new().left("file", MINE);
    let tip = beside.repository.tip(BRANCH).unwrap().unwrap();
    PendingMerge(beside.scene.top.join(".git/autoloop-bringing"))
        .write(&beside.base, &tip)
        .unwrap();
    beside.scene.write("file", "one\nmine\nand more");
    assert_eq!(beside.bring(), MergeBack::Uncommitted(vec!["file".into()]));
    assert_eq!(beside.scene.read("file"), "one\nmine\nand more");
}

#[test]
fn the_lock_of_another_git_is_waited_for() {
    let beside = Beside::new().left("new", "n");
    let lock = beside.scene.top.join(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    std::thread::scope(|scope| {
        let brought = scope.spawn(|| beside.bring());
        let note = beside.scene.top.join(".git/autoloop-bringing");
        while !note.exists() {
            assert!(!brought.is_finished(), "it does not wait");
            std::thread::yield_now();
        }
        std::fs::remove_file(&lock).unwrap();
        assert!(matches!(brought.join().unwrap(), MergeBack::Merged(_)));
    });
}

#[test]
fn one_after_another() {
    let scene = Scene::new();
    let repository = scene.repository();
    let base = repository.base().unwrap();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (repository, base, scene) = (scene.repository(), &base, &scene);
            scope.spawn(move || {
                let branch = format!("autoloop/{number}");
                let dir = scene.place(&format!("{number}/tree"));
                let tree = repository.add_worktree(&dir, &branch, base).unwrap();
                std::fs::write(dir.join(format!("new-{number}")), "n").unwrap();
                let work = WorkBranch { name: &branch, base, message: "left" };
                let left = tree.commit_all(&work, &[]).unwrap();
                let brought = repository.merge_back(&change(base, &left.tree)).unwrap();
                assert!(matches!(brought, MergeBack::Merged(_)), "nothing is in its way");
                repository.remove_worktree(&dir).unwrap();
                repository.delete_merged(&branch, &left.tree).unwrap();
            });
        }
    });
    assert_eq!(scene.git(&["ls-files", "new-*"]).lines().count(), 6);
    assert_eq!(scene.git(&["log", "--no-merges", "--format=%s"]).matches("left").count(), 6);
    assert_eq!(scene.git(&["status", "--porcelain"]), "");
    assert_eq!(scene.git(&["branch", "--list"]), "* main");
}

#[test]
fn nothing_is_written_through_a_link() {
    let beside = Beside::new().left("new", "x");
    beside.scene.write("state/mine", "mine");
    let note = beside.scene.top.join(".git/autoloop-bringing");
    std::os::unix::fs::symlink(beside.scene.place("mine"), &note).unwrap();
    beside.assert_merged();
    assert_eq!(beside.scene.read("state/mine"), "mine");
}

#[test]
fn an_object_that_is_not_what_its_name_says_is_not_merged() {
    let beside = Beside::new().left("new", "good\n");
    beside.scene.forge("good\n", "evil\n");
    let before = beside.look();
    let tip = beside.repository.tip(BRANCH).unwrap().unwrap();
    let tree = beside.repository.tree_of(&tip).unwrap();
    let refused = beside.repository.merge_back(&change(&beside.base, &tree));
    assert!(matches!(refused, Err(GitError::Forged(_))), "{refused:?}");
    assert_eq!(beside.look(), before);
    assert!(!beside.scene.top.join("new").exists());
}

#[test]
fn work_comes_back_into_a_clone_without_its_whole_history() {
    let scene = Scene::new();
    scene.write("file", "more\n").commit("more");
    let (from, clone) = (format!("file://{}", scene.top.display()), scene.place("clone"));
    scene.git(&["clone", "-q", "--depth=1", &from, &clone.display().to_string()]);
    let repository = Repository::find(&clone, &scene.world).unwrap().unwrap();
    let base = repository.base().unwrap();
    let tree = repository.add_worktree(&scene.place("tree"), BRANCH, &base).unwrap();
    scene.write("state/tree/new", "work\n");
    let work = tree.capture(&base, &[]).unwrap().tree;
    for name in ["mine", "again"] {
        let brought = repository.merge_back(&change(&base, &work)).unwrap();
        assert!(matches!(brought, MergeBack::Merged(_)), "{brought:?}");
        assert_eq!(scene.read("state/clone/new"), "work\n");
        // The second time it has to be merged with something else.
        scene.git_in(&clone, &["reset", "-q", "--hard", &base]);
        scene.write(format!("state/clone/{name}"), "");
        scene.git_in(&clone, &["add", "-A"]);
        let named = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", name];
        scene.git_in(&clone, &named);
    }
}
