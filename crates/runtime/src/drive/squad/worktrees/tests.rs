use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;
use crate::git::scene::Scene;

const RUN: &str = "calm-heron";

/// A project with a run of a squad.
struct Squad {
    scene: Scene,
    trees: SquadWorktrees,
    base: String,
}

impl Squad {
    fn new() -> Squad {
        let scene = Scene::new();
        scene.write("other", "kept\nas\nit\nis\n").commit("more");
        Squad::of(scene)
    }

    fn of(scene: Scene) -> Squad {
        let trees = found(&scene);
        let base = trees.head().unwrap();
        Squad { scene, trees, base }
    }

    fn work<'l>(&'l self, id: &'l str) -> LoopSpec<'l> {
        LoopSpec { id, base: &self.base, subject: "t1: do it" }
    }

    /// The directory of a loop that is prepared.
    fn dir(&self, id: &str) -> PathBuf {
        self.trees.register(&self.work(id)).unwrap();
        self.trees.prepare(&self.work(id)).unwrap()
    }

    /// Captures a loop that changed a file.
    fn changed(&self, id: &str, name: &str, text: &str) -> String {
        put(&self.dir(id).join(name), text);
        self.captured(id).commit
    }

    fn captured(&self, id: &str) -> CapturedWork {
        self.trees.capture(&self.work(id)).unwrap()
    }

    fn prepared(&self, id: &str, commit: &str) -> Prepared {
        self.trees.merge(&self.work(id), commit, &self.base).unwrap()
    }

    /// Merges a commit of a loop into the project.
    fn merge(&self, id: &str, commit: &str) -> String {
        let Prepared::Merge { head, commit } = self.prepared(id, commit) else {
            panic!("{:?}", self.prepared(id, commit));
        };
        assert_eq!(self.trees.advance(&head, &commit).unwrap(), Advanced::Done);
        commit
    }

    fn git(&self, args: &[&str]) -> String {
        self.scene.git(args)
    }

    fn show(&self, commit: &str, format: &str) -> String {
        self.git(&["show", "-s", &format!("--format={format}"), commit])
    }

    /// What must not change while nothing is merged.
    fn project(&self) -> [String; 3] {
        let git = |args: &[&str]| self.git(args);
        [git(&["rev-parse", "HEAD"]), git(&["status", "--porcelain"]), self.scene.read("file")]
    }
}

fn found(scene: &Scene) -> SquadWorktrees {
    found_in(scene, &scene.top)
}

fn found_in(scene: &Scene, dir: &Path) -> SquadWorktrees {
    let project = Project::new(dir).unwrap();
    let loaded = project.load(&*scene.world.disk).unwrap();
    SquadWorktrees::find(&project, &loaded, &scene.world, &RUN.parse().unwrap()).unwrap()
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Runs git as an agent does.
fn agent(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git").args(args).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

#[test]
fn the_same_state_is_the_same_commit_on_top_of_the_base() {
    let scene = Scene::new();
    let mut old = Command::new("git");
    old.env("GIT_COMMITTER_DATE", "@1000000000 +0000").current_dir(&scene.top);
    assert!(old.args(["commit", "-q", "--amend", "--no-edit"]).status().unwrap().success());
    let squad = Squad::of(scene);
    let dir = squad.dir("1");
    assert_eq!(
        squad.trees.place("1"),
        Place { branch: format!("autoloop/{RUN}/1"), dir: dir.clone() }
    );
    put(&dir.join("new/file"), "n\n");
    let first = squad.captured("1");
    assert_eq!(first.tree, squad.show(&first.commit, "%T"));
    assert_eq!(
        squad.show(&first.commit, "%P %s, %an"),
        format!("{} t1: do it, A Person", squad.base)
    );
    assert_eq!(squad.show(&first.commit, "%at %ct"), "1000000000 1000000000");
    // However it came about, and whatever is configured by now.
    squad.git(&["config", "user.name", "An Agent"]);
    agent(&dir, &["checkout", "-q", "-b", "elsewhere"]);
    agent(&dir, &["add", "-A"]);
    agent(&dir, &["commit", "-q", "-m", "of an agent"]);
    assert_eq!(squad.captured("1"), first);
    put(&dir.join("new/file"), "changed\n");
    let second = squad.captured("1");
    assert_ne!(second, first);
    // Both outlive a collection of garbage.
    squad.git(&["reflog", "expire", "--expire=now", "--all"]);
    squad.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(squad.git(&["show", &format!("{}:new/file", first.commit)]), "n");
    assert_eq!(squad.git(&["show", &format!("{}:new/file", second.commit)]), "changed");
    let Diff::Text(diff) = squad.trees.diff(&squad.base, &first.commit) else { panic!() };
    assert!(diff.contains("new/file") && diff.contains("+n"), "{diff}");
    assert_eq!(squad.trees.diff(&squad.base, &squad.base), Diff::Empty);
}

/// A harness was killed before it recorded that the loop began, and the user committed meanwhile.
#[test]
fn a_loop_without_a_record_begins_at_what_the_project_has_by_now() {
    let squad = Squad::new();
    for prepared in [false, true] {
        let id = if prepared { "2" } else { "1" };
        squad.trees.begin(&squad.work(id)).unwrap();
        if prepared {
            squad.trees.prepare(&squad.work(id)).unwrap();
        }
        squad.scene.write(format!("of-the-user-{id}"), "x\n").commit("by the user");
        let base = squad.trees.head().unwrap();
        let work = LoopSpec { base: &base, ..squad.work(id) };
        squad.trees.begin(&work).unwrap();
        let dir = squad.trees.prepare(&work).unwrap();
        assert!(dir.join(format!("of-the-user-{id}")).exists());
        put(&dir.join(format!("of-the-loop-{id}")), "y\n");
        let captured = squad.trees.capture(&work).unwrap();
        let changed = squad.git(&["diff", "--name-status", &base, &captured.commit]);
        assert_eq!(changed, format!("A\tof-the-loop-{id}"));
    }
}

#[test]
fn a_project_below_the_top_of_its_repository_has_its_place_in_a_worktree() {
    let scene = Scene::new();
    scene.write("sub/file", "");
    let trees = found_in(&scene, &scene.top.join("sub"));
    let base = trees.head().unwrap();
    let work = LoopSpec { id: "1", base: &base, subject: "t1" };
    let dir = trees.prepare(&work).unwrap();
    assert_eq!(dir, scene.top.join(format!("sub/.autoloop/squads/{RUN}/loops/1/tree/sub")));
    assert_eq!(trees.place("1").dir, dir);
    put(&dir.join("new"), "n");
    // What an agent writes there is not part of its work.
    put(&dir.join(".autoloop/journal.jsonl"), "x");
    let commit = trees.capture(&work).unwrap().commit;
    assert_eq!(scene.git(&["diff", "--name-only", &base, &commit]), "sub/new");
    assert_eq!(scene.git(&["status", "--porcelain"]), "?? sub/");
}

#[test]
fn files_are_captured_while_an_agent_changes_them() {
    let squad = Squad::new();
    let dir = squad.dir("1");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let agent = scope.spawn(|| {
            let mut rounds = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for name in ["a", "b", "c"] {
                    put(&dir.join(name), &"text\n".repeat(rounds % 50 + 1));
                }
                agent(&dir, &["add", "a"]);
                rounds += 1;
            }
        });
        for _ in 0..5 {
            let captured = squad.captured("1");
            assert_eq!(squad.show(&captured.commit, "%P"), squad.base);
            assert!(!agent.is_finished());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(squad.captured("1"), squad.captured("1"));
}

#[test]
fn what_an_agent_does_to_its_worktree_does_not_hide_its_files() {
    let squad = Squad::new();
    let dir = squad.dir("1");
    put(&dir.join("new"), "n\n");
    let expected = squad.captured("1");
    let assert_same = |what: &str| assert_eq!(squad.captured("1"), expected, "{what}");
    fs::remove_file(dir.join(".git")).unwrap();
    assert_same("no link");
    // It is restored, and nothing else is touched.
    assert_eq!(squad.dir("1"), dir);
    assert_eq!(agent(&dir, &["branch", "--show-current"]), format!("autoloop/{RUN}/1"));
    assert_same("restored");
    for place in [dir.join("pipe"), dir.join("deep/down/pipe")] {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        pipe(&place);
    }
    assert_same("pipes");
    agent(&dir, &["init", "-q", "nested"]);
    put(&dir.join("nested/file"), "x");
    assert_same("a repository");
    let index = agent(&dir, &["rev-parse", "--git-path", "index"]);
    fs::remove_file(dir.join(&index)).unwrap();
    pipe(&dir.join(&index));
    assert_same("a pipe in place of the index");
    fs::remove_file(dir.join(".git")).unwrap();
    fs::write(dir.join(".git"), format!("gitdir: {}/.git\n", squad.scene.top.display())).unwrap();
    assert_same("the link of another checkout");
    fs::remove_file(dir.join(".git")).unwrap();
    let hooks = ["-c", "core.hooksPath=/dev/null", "init", "-q"];
    assert!(Command::new("git").args(hooks).current_dir(&dir).status().unwrap().success());
    assert_same("a repository of its own");
    // It may have commits, so it stays.
    let refused = squad.trees.prepare(&squad.work("1"));
    assert!(matches!(refused, Err(GitError::NotATree(_))), "{refused:?}");
    assert!(dir.join(".git/HEAD").exists());
    squad.git(&["worktree", "prune"]);
    assert_same("unknown to git");
}

#[test]
fn a_pipe_in_place_of_a_file_is_a_file_that_is_gone() {
    let squad = Squad::new();
    let dir = squad.dir("1");
    fs::remove_file(dir.join("file")).unwrap();
    pipe(&dir.join("file"));
    let captured = squad.captured("1");
    let changed = ["diff", "--name-status", &squad.base, &captured.commit];
    assert_eq!(squad.git(&changed), "D\tfile");
    fs::create_dir(dir.join("sub")).unwrap();
    pipe(&dir.join("sub/.gitignore"));
    let refused = squad.trees.capture(&squad.work("1"));
    assert!(matches!(refused, Err(GitError::Pipe(_))), "{refused:?}");
}

#[test]
fn a_link_in_place_of_a_worktree_is_not_followed() {
    let squad = Squad::new();
    let dir = squad.dir("1");
    let moved = squad.scene.top.with_file_name("moved");
    fs::rename(&dir, &moved).unwrap();
    symlink(&moved, &dir).unwrap();
    for refused in [
        squad.trees.capture(&squad.work("1")).map(drop),
        squad.trees.prepare(&squad.work("1")).map(drop),
        squad.trees.register(&squad.work("1")),
    ] {
        assert!(matches!(refused, Err(GitError::Link(_))), "{refused:?}");
    }
    let cleaned = squad.trees.clean().unwrap();
    assert!(cleaned.kept.iter().any(|kept| kept.reason.contains("symbolic link")), "{cleaned:?}");
    // To begin again there, only the link is removed.
    let commit = squad.show(&squad.base, "%H");
    squad.trees.reopen(&squad.work("1"), &commit, &squad.base).unwrap();
    assert!(dir.join("file").exists() && !dir.is_symlink());
    assert!(moved.join("file").exists());
}

#[test]
fn eight_loops_are_merged_one_after_another() {
    let squad = Squad::new();
    let ids: Vec<String> = (1..=8).map(|number| number.to_string()).collect();
    ids.iter().for_each(|id| squad.trees.register(&squad.work(id)).unwrap());
    let commits: Vec<String> =
        ids.iter().map(|id| squad.changed(id, &format!("new-{id}"), "n\n")).collect();
    for (id, commit) in ids.iter().zip(&commits) {
        let merged = squad.merge(id, commit);
        assert_eq!(squad.prepared(id, commit), Prepared::Already(merged));
    }
    assert_eq!(squad.git(&["ls-files", "new-*"]).lines().count(), 8);
    assert_eq!(squad.git(&["status", "--porcelain"]), "");
    assert_eq!(squad.git(&["log", "--merges", "-1", "--format=%s"]), "Merge t1: do it");
    let cleaned = squad.trees.clean().unwrap();
    assert_eq!((cleaned.kept, cleaned.removed.len()), (Vec::new(), 18));
    assert_eq!(squad.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    assert_eq!(squad.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(squad.trees.clean().unwrap(), Cleaned::default());
}

/// Each of two loops makes the same change: the commit of the second is reachable too.
#[test]
fn the_same_change_is_merged_twice() {
    let squad = Squad::new();
    let [one, two] = ["1", "2"].map(|id| (id, squad.changed(id, "file", "same\n")));
    // Only their worktrees differ.
    assert_eq!(one.1, two.1);
    squad.git(&["config", "user.name", "An Agent"]);
    squad.merge(one.0, &one.1);
    put(&squad.trees.place("2").dir.join("file"), "same\n");
    let other = LoopSpec { subject: "t2: do it too", ..squad.work("2") };
    let commit = squad.trees.capture(&other).unwrap().commit;
    let merged = squad.merge("2", &commit);
    assert_eq!(squad.show(&merged, "%P"), format!("{} {commit}", one.1));
    assert_eq!(squad.show(&merged, "%an, %cn"), "A Person, A Person");
}

#[test]
fn uncommitted_changes_are_in_the_way_and_stay() {
    let squad = Squad::new();
    let commit = squad.changed("1", "file", "changed\n");
    squad.scene.write("file", "of the user\n");
    let before = squad.project();
    let Prepared::Merge { head, commit } = squad.prepared("1", &commit) else { panic!() };
    let files = vec!["file".into()];
    assert_eq!(squad.trees.advance(&head, &commit).unwrap(), Advanced::Uncommitted(files));
    assert_eq!(squad.project(), before);
    squad.git(&["checkout", "-q", "file"]);
    squad.scene.write("mine", "m").commit("of the user");
    assert_eq!(squad.trees.advance(&head, &commit).unwrap(), Advanced::Moved);
    fs::write(squad.scene.top.join(".git/MERGE_HEAD"), &head).unwrap();
    assert_eq!(squad.prepared("1", &commit), Prepared::InProgress("a merge"));
    assert_eq!(squad.trees.advance(&head, &commit).unwrap(), Advanced::InProgress("a merge"));
    fs::remove_file(squad.scene.top.join(".git/MERGE_HEAD")).unwrap();
    squad.merge("1", &commit);
    assert_eq!(squad.trees.advance(&head, &commit).unwrap(), Advanced::Done, "it was done");
}

#[test]
fn nothing_and_a_rewritten_history_are_told() {
    let squad = Squad::new();
    squad.dir("1");
    let nothing = squad.captured("1").commit;
    assert_eq!(squad.prepared("1", &nothing), Prepared::NoChange);
    let commit = squad.changed("1", "new", "n");
    squad.git(&["commit", "-q", "--amend", "-m", "another"]);
    let refused = squad.trees.merge(&squad.work("1"), &commit, &squad.base);
    assert!(matches!(refused, Err(GitError::Rewritten { .. })), "{refused:?}");
}

#[test]
fn an_object_that_is_not_what_its_name_says_is_not_merged() {
    let squad = Squad::new();
    let commit = squad.changed("1", "new", "good\n");
    squad.scene.forge("good\n", "evil\n");
    let before = squad.project();
    let refused = squad.trees.merge(&squad.work("1"), &commit, &squad.base);
    assert!(matches!(refused, Err(GitError::Forged(_))), "{refused:?}");
    assert_eq!(squad.project(), before);
}

/// A loop whose change is in conflict with one that was merged before.
struct Conflicting {
    squad: Squad,
    head: String,
    commit: String,
    dir: PathBuf,
}

/// What an agent does before it ends.
type Leave<T> = fn(&T);

const RESOLVED: &str = "one\nmine and yours\nthree\n";

impl Conflicting {
    /// Both change the same line of `file`; the first changes `first` too, and the second `second`.
    fn new() -> Conflicting {
        let scene = Scene::new();
        scene.write("first", "1\n").write("second", "2\n").write("neither", "0\n");
        scene.commit("more");
        let squad = Squad::of(scene);
        put(&squad.dir("1").join("first"), "yours too\n");
        let yours = squad.changed("1", "file", "one\nyours\nthree\n");
        put(&squad.dir("2").join("second"), "mine too\n");
        let commit = squad.changed("2", "file", "one\nmine\nthree\n");
        let head = squad.merge("1", &yours);
        let files = vec!["file".into()];
        assert_eq!(squad.prepared("2", &commit), Prepared::Conflict { head: head.clone(), files });
        let dir = squad.trees.open_conflict(&head, &commit).unwrap();
        Conflicting { squad, head, commit, dir }
    }

    fn close(&self) -> Resolution {
        let before = self.squad.project();
        let Conflicting { squad, head, commit, dir } = self;
        let resolution = squad.trees.close_conflict(&squad.work("2"), head, commit).unwrap();
        assert_eq!(squad.project(), before);
        assert_eq!(agent(dir, &["status", "--porcelain", "--ignored"]), "");
        assert_eq!(operation(dir), None);
        resolution
    }

    fn reason(&self) -> String {
        let Resolution::Refused(reason) = self.close() else { panic!("it was accepted") };
        assert_eq!(agent(&self.dir, &["rev-parse", "HEAD"]), self.head);
        reason
    }

    fn resolved(&self) -> String {
        let Resolution::Resolved(commit) = self.close() else { panic!("{:?}", self.close()) };
        let parents = format!("{} {}", self.head, self.commit);
        assert_eq!(self.squad.show(&commit, "%P"), parents);
        commit
    }
}

fn operation(dir: &Path) -> Option<String> {
    let status = agent(dir, &["status"]);
    status
        .lines()
        .find(|line| line.contains("You have") || line.contains("progress"))
        .map(str::to_owned)
}

#[test]
fn a_conflict_that_is_resolved_brings_both_sides() {
    let conflicting = Conflicting::new();
    let Conflicting { squad, dir, head, .. } = &conflicting;
    // Git knows the merge, and can complete it.
    assert_eq!(agent(dir, &["status", "--porcelain"]), "UU file\nM  second");
    assert!(fs::read_to_string(dir.join("file")).unwrap().contains("<<<<<<< "));
    assert_eq!(agent(dir, &["show", ":2:file"]), "one\nyours\nthree");
    assert_eq!(agent(dir, &["show", ":3:file"]), "one\nmine\nthree");
    put(&dir.join("file"), RESOLVED);
    agent(dir, &["commit", "-q", "-a", "--no-edit"]);
    assert_eq!(agent(dir, &["show", "-s", "--format=%p"]).split(' ').count(), 2);
    let resolved = conflicting.resolved();
    assert_eq!(conflicting.resolved(), resolved, "after a crash");
    let work = LoopSpec { subject: "x", ..squad.work("2") };
    let prepared = squad.trees.merge(&work, &resolved, head).unwrap();
    assert_eq!(prepared, Prepared::Merge { head: head.clone(), commit: resolved.clone() });
    assert_eq!(squad.merge("2", &resolved), resolved);
    assert_eq!(squad.scene.read("file"), RESOLVED);
    assert_eq!(squad.scene.read("second") + &squad.scene.read("first"), "mine too\nyours too\n");
    let cleaned = squad.trees.clean().unwrap();
    // The conflict branch has the commit of the agent once more.
    assert_eq!(cleaned.kept, Vec::new());
    assert_eq!(squad.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
}

#[test]
fn a_resolution_counts_however_git_was_left() {
    let all: [(&str, Leave<Path>); 5] = [
        ("staged", |dir| drop(agent(dir, &["add", "file"]))),
        ("without its link", |dir| {
            agent(dir, &["add", "file"]);
            fs::remove_file(dir.join(".git")).unwrap();
        }),
        ("on another branch", |dir| {
            agent(dir, &["commit", "-q", "-a", "-m", "m"]);
            agent(dir, &["checkout", "-q", "-b", "elsewhere"]);
        }),
        ("with more files", |dir| {
            put(&dir.join("notes"), "n");
            agent(dir, &["add", "-A"]);
        }),
        ("with a pipe", |dir| {
            agent(dir, &["add", "-A"]);
            pipe(&dir.join("pipe"));
        }),
    ];
    for (what, leave) in all {
        let conflicting = Conflicting::new();
        put(&conflicting.dir.join("file"), RESOLVED);
        leave(&conflicting.dir);
        let Resolution::Resolved(commit) = conflicting.close() else { panic!("{what}") };
        let text = conflicting.squad.git(&["show", &format!("{commit}:file")]);
        assert_eq!(text, RESOLVED.trim_end(), "{what}");
    }
}

#[test]
fn what_is_no_resolution_is_refused_with_the_reason() {
    let all: [(Leave<Conflicting>, &str); 17] = [
        (|_| {}, "not merged in the index (file); conflict markers left (file)"),
        (|it| drop(agent(&it.dir, &["add", "-A"])), "conflict markers left (file)"),
        (
            |it| drop(agent(&it.dir, &["commit", "-q", "-a", "-m", "m"])),
            "conflict markers left (file)",
        ),
        (|it| put(&it.dir.join("file"), RESOLVED), "not merged in the index (file)"),
        (
            |it| drop(agent(&it.dir, &["merge", "--abort"])),
            "the merge was given up: its files are those of the project",
        ),
        (
            |it| drop(agent(&it.dir, &["reset", "-q", "--hard", &it.commit])),
            "the merge was given up: its files are those of the work",
        ),
        (
            |it| drop(agent(&it.dir, &["checkout", "-q", "--ours", "file"])),
            "not merged in the index (file); the changes of the work are missing (file)",
        ),
        (
            |it| {
                agent(&it.dir, &["checkout", "-q", "--theirs", "file"]);
                agent(&it.dir, &["add", "file"]);
            },
            "the changes in the project are missing (file)",
        ),
        (
            |it| {
                put(&it.dir.join("file"), "one\nyours\nthree\n\n# resolved\n");
                agent(&it.dir, &["add", "file"]);
            },
            "the changes of the work are missing (file)",
        ),
        (
            |it| {
                put(&it.dir.join("file"), "one\nthree\n");
                agent(&it.dir, &["add", "file"]);
            },
            "the changes of the work are missing (file); the changes in the project are missing (file)",
        ),
        (
            |it| drop(agent(&it.dir, &["rm", "-q", "-f", "file"])),
            "deleted, although both sides changed it (file)",
        ),
        (
            |it| {
                put(&it.dir.join("file"), RESOLVED);
                put(&it.dir.join("first"), "1\n");
                put(&it.dir.join("second"), "2\n");
                put(&it.dir.join("neither"), "weakened\n");
                agent(&it.dir, &["add", "-A"]);
            },
            "the changes of the work are missing (second); the changes in the project are missing (first); changed, but not in conflict (neither)",
        ),
        (
            |it| {
                put(&it.dir.join("file"), RESOLVED);
                agent(&it.dir, &["add", "-A"]);
                agent(&it.dir, &["rm", "-q", "neither"]);
            },
            "changed, but not in conflict (neither)",
        ),
        (
            |it| {
                put(&it.dir.join("file"), RESOLVED);
                put(&it.dir.join("sub/x"), "x");
                pipe(&it.dir.join("sub/.gitignore"));
            },
            "[tree]/sub/.gitignore is not a file, and git would wait for it; remove it and resume",
        ),
        (
            |it| {
                let moved = it.squad.scene.top.with_file_name("moved");
                fs::rename(&it.dir, &moved).unwrap();
                symlink(moved, &it.dir).unwrap();
            },
            "[tree] is a symbolic link, which is not followed; remove it and resume",
        ),
        (
            |it| {
                let (above, moved) = (it.dir.parent().unwrap(), it.squad.scene.place("moved"));
                fs::create_dir_all(moved.parent().unwrap()).unwrap();
                fs::rename(above, &moved).unwrap();
                symlink(moved, above).unwrap();
            },
            "[above] is a symbolic link, which is not followed; remove it and resume",
        ),
        (
            |it| fs::remove_dir_all(it.dir.parent().unwrap()).unwrap(),
            "[tree] is no longer a git worktree; its files were not changed",
        ),
    ];
    for (leave, expected) in all {
        let conflicting = Conflicting::new();
        leave(&conflicting);
        let shown = |dir: &Path| dir.display().to_string();
        let told = conflicting.reason().replace(&shown(&conflicting.dir), "[tree]");
        let told = told.replace(&shown(conflicting.dir.parent().unwrap()), "[above]");
        assert_eq!(told, expected);
    }
}

#[test]
fn a_file_that_one_side_removed_needs_a_decision_that_keeps_both() {
    let squad = Squad::new();
    let dir = squad.dir("1");
    fs::remove_file(dir.join("file")).unwrap();
    let yours = squad.changed("1", "new", "n");
    put(&squad.dir("2").join("newer"), "n");
    let commit = squad.changed("2", "file", "one\nmine\nthree\n");
    let head = squad.merge("1", &yours);
    let close = |leave: &dyn Fn(&Path)| {
        let dir = squad.trees.open_conflict(&head, &commit).unwrap();
        assert_eq!(agent(&dir, &["status", "--porcelain"]), "DU file\nA  newer");
        leave(&dir);
        agent(&dir, &["add", "-A"]);
        squad.trees.close_conflict(&squad.work("2"), &head, &commit).unwrap()
    };
    let refused = |why: &str| Resolution::Refused(why.to_owned());
    assert_eq!(close(&|_| {}), refused("the changes in the project are missing (file)"));
    assert_eq!(
        close(&|dir| fs::remove_file(dir.join("file")).unwrap()),
        refused("the changes of the work are missing (file)")
    );
    let both = close(&|dir| put(&dir.join("file"), "mine\n"));
    assert!(matches!(both, Resolution::Resolved(_)), "{both:?}");
}

#[test]
fn a_file_that_was_renamed_is_compared_with_the_content_of_both_sides() {
    let squad = Squad::new();
    let dir = squad.dir("1");
    fs::rename(dir.join("other"), dir.join("renamed")).unwrap();
    let yours = squad.changed("1", "renamed", "kept\nas\nyours\nis\n");
    let commit = squad.changed("2", "other", "kept\nas\nmine\nis\n");
    let head = squad.merge("1", &yours);
    let close = |text: &str| {
        let dir = squad.trees.open_conflict(&head, &commit).unwrap();
        assert_eq!(agent(&dir, &["status", "--porcelain"]), "UU renamed");
        put(&dir.join("renamed"), text);
        agent(&dir, &["add", "-A"]);
        squad.trees.close_conflict(&squad.work("2"), &head, &commit).unwrap()
    };
    let refused = |why: &str| Resolution::Refused(why.to_owned());
    assert_eq!(
        close("kept\nas\nmine\nis\n"),
        refused("the changes in the project are missing (renamed)")
    );
    let both = close("kept\nas\nmine and yours\nis\n");
    assert!(matches!(both, Resolution::Resolved(_)), "{both:?}");
    // Each side gave it another name.
    fs::rename(squad.dir("3").join("file"), squad.dir("3").join("three")).unwrap();
    fs::rename(squad.dir("4").join("file"), squad.dir("4").join("four")).unwrap();
    let [three, four] = ["3", "4"].map(|id| squad.captured(id).commit);
    let head = squad.merge("3", &three);
    let dir = squad.trees.open_conflict(&head, &four).unwrap();
    agent(&dir, &["add", "-A"]);
    let closed = squad.trees.close_conflict(&squad.work("4"), &head, &four).unwrap();
    assert!(matches!(closed, Resolution::Refused(_)), "{closed:?}");
}

#[test]
fn files_without_words_need_both_sides_too() {
    let scene = Scene::new();
    scene.write("name with\ttab", "\0\u{1}").commit("more");
    let squad = Squad::of(scene);
    let yours = squad.changed("1", "name with\ttab", "\0\u{2}");
    let commit = squad.changed("2", "name with\ttab", "\0\u{3}");
    let head = squad.merge("1", &yours);
    let close = |text: &str| {
        let dir = squad.trees.open_conflict(&head, &commit).unwrap();
        put(&dir.join("name with\ttab"), text);
        agent(&dir, &["add", "-A"]);
        let closed = squad.trees.close_conflict(&squad.work("2"), &head, &commit).unwrap();
        matches!(closed, Resolution::Resolved(_))
    };
    assert_eq!(
        ["\0\u{1}", "\0\u{2}", "\0\u{3}", "\0\u{4}"].map(close),
        [false, false, false, true]
    );
}

/// Neither settings nor attributes of an agent decide how the merge is computed, and nothing of it is run.
#[test]
fn a_conflict_stays_one_whatever_is_configured() {
    let conflicting = Conflicting::new();
    let Conflicting { squad, head, commit, dir } = &conflicting;
    let ran = squad.scene.top.with_file_name("ran");
    let run = format!("touch {}; cat", ran.display());
    for (key, value) in
        [("filter.x.smudge", &*run), ("merge.x.driver", &run), ("rerere.enabled", "true")]
    {
        agent(dir, &["config", key, value]);
    }
    let common = squad.scene.top.join(".git");
    put(&common.join("info/attributes"), "* merge=x filter=x\n");
    put(&dir.join("file"), RESOLVED);
    put(&dir.join("leftover/file"), "x");
    let hook = common.join("hooks/post-checkout");
    put(&hook, &format!("#!/bin/sh\ntouch {}\n", ran.display()));
    assert!(Command::new("chmod").arg("+x").arg(&hook).status().unwrap().success());
    let again = squad.trees.open_conflict(head, commit).unwrap();
    assert_eq!(&again, dir);
    assert!(fs::read_to_string(dir.join("file")).unwrap().contains("<<<<<<< "));
    assert!(!dir.join("leftover").exists());
    assert_eq!(agent(dir, &["status", "--porcelain"]), "UU file\nM  second");
    assert_eq!(
        conflicting.reason(),
        "not merged in the index (file); conflict markers left (file)"
    );
    assert!(!ran.exists());
}

#[test]
fn what_was_cut_off_is_done_again() {
    let conflicting = Conflicting::new();
    let Conflicting { squad, head, commit, dir } = &conflicting;
    put(&dir.join("file"), RESOLVED);
    agent(dir, &["add", "file"]);
    let resolved = conflicting.resolved();
    // The resolution was being checked out.
    let own = agent(dir, &["rev-parse", "--absolute-git-dir"]);
    fs::write(Path::new(&own).join("locked"), "initializing").unwrap();
    fs::remove_file(dir.join("file")).unwrap();
    assert_eq!(conflicting.resolved(), resolved);
    // The worktree was being removed.
    fs::rename(dir, dir.with_extension("removed")).unwrap();
    squad.trees.open_conflict(head, commit).unwrap();
    put(&dir.join("file"), RESOLVED);
    agent(dir, &["add", "file"]);
    assert_eq!(conflicting.resolved(), resolved);
    // A loop was registered only: its files were never removed.
    squad.trees.register(&squad.work("3")).unwrap();
    let captured = squad.captured("3");
    assert_eq!(captured.tree, squad.show(&squad.base, "%T"));
    // The merge was checked out, and not recorded.
    let merged = squad.merge("2", &resolved);
    assert_eq!(squad.prepared("2", &resolved), Prepared::Already(merged.clone()));
    assert_eq!(squad.prepared("2", commit), Prepared::Already(merged));
}

#[test]
fn a_loop_begins_again_and_its_earlier_work_stays() {
    let squad = Squad::new();
    let head = {
        let commit = squad.changed("1", "first", "1");
        squad.merge("1", &commit)
    };
    let dir = squad.dir("2");
    agent(&dir, &["checkout", "-q", "--detach"]);
    put(&dir.join("own"), "o");
    agent(&dir, &["add", "-A"]);
    agent(&dir, &["commit", "-q", "-m", "of an agent"]);
    let of_agent = agent(&dir, &["rev-parse", "HEAD"]);
    let reviewed = squad.captured("2").commit;
    put(&dir.join("later"), "l");
    pipe(&dir.join("pipe"));
    put(&dir.join("ignored"), "i");
    let own = PathBuf::from(agent(&dir, &["rev-parse", "--absolute-git-dir"]));
    put(&own.join("MERGE_HEAD"), &head);
    put(&own.join("rebase-merge/onto"), &head);
    let reopen = || squad.trees.reopen(&squad.work("2"), &reviewed, &head).unwrap();
    let branch = reopen();
    assert_eq!(branch, format!("autoloop/{RUN}/2-earlier-{}", &reviewed[..12]));
    let tip = squad.git(&["rev-parse", &branch]);
    assert_eq!(reopen(), branch, "it can be repeated");
    assert_eq!(squad.git(&["rev-parse", &branch]), tip);
    assert_eq!(squad.git(&["ls-tree", "--name-only", &tip, "own"]), "own");
    let later = squad.git(&["log", "--format=%H", "--full-history", &branch, "--", "later"]);
    for commit in [&*reviewed, &of_agent, later.lines().last().unwrap()] {
        squad.git(&["merge-base", "--is-ancestor", commit, &branch]);
    }
    // It begins anew.
    assert_eq!(agent(&dir, &["rev-parse", "HEAD"]), head);
    assert_eq!(agent(&dir, &["branch", "--show-current"]), format!("autoloop/{RUN}/2"));
    assert_eq!(agent(&dir, &["status", "--porcelain", "--ignored"]), "");
    assert_eq!(operation(&dir), None);
    assert!(!own.join("rebase-merge").exists());
    put(&dir.join("own"), "again");
    let work = LoopSpec { base: &head, ..squad.work("2") };
    assert_eq!(squad.trees.prepare(&work).unwrap(), dir);
    let commit = squad.trees.capture(&work).unwrap().commit;
    assert_eq!(squad.show(&commit, "%P"), head);
    squad.merge("2", &commit);
    let cleaned = squad.trees.clean().unwrap();
    let kept = KeptWork { name: branch, reason: unreachable(&tip) };
    assert_eq!(cleaned.kept, [kept]);
    assert!(!dir.exists());
}

#[test]
fn a_loop_that_left_no_worktree_begins_again() {
    let squad = Squad::new();
    let commit = squad.changed("1", "new", "n");
    let dir = squad.trees.place("1").dir;
    fs::remove_dir_all(&dir).unwrap();
    squad.git(&["worktree", "prune"]);
    let branch = squad.trees.reopen(&squad.work("1"), &commit, &squad.base).unwrap();
    assert_eq!(squad.git(&["rev-parse", &branch]), commit);
    assert_eq!(agent(&dir, &["status", "--porcelain"]), "");
}

#[test]
fn nothing_is_cleaned_but_what_is_merged() {
    let squad = Squad::new();
    let name = |id: &str| squad.trees.place(id).dir.display().to_string();
    // Merged, after an earlier state.
    squad.changed("1", "new", "draft");
    let merged = squad.changed("1", "new", "n");
    // Merged, and changed since.
    let changed = squad.changed("2", "other", "o\n");
    // Never merged.
    let unmerged = squad.changed("3", "file", "mine\n");
    // Merged, with a repository that is no part of it, and with a commit of its own.
    let nested = squad.changed("4", "fourth", "4");
    for (id, commit) in [("1", &merged), ("2", &changed), ("4", &nested)] {
        squad.merge(id, commit);
    }
    put(&Path::new(&name("2")).join("other"), "later\n");
    agent(Path::new(&name("4")), &["init", "-q", "clone"]);
    put(&Path::new(&name("4")).join("clone/file"), "x");
    agent(Path::new(&name("1")), &["add", "-A"]);
    agent(Path::new(&name("1")), &["commit", "-q", "-m", "of an agent"]);
    let of_agent = squad.git(&["rev-parse", &format!("autoloop/{RUN}/1")]);
    squad.git(&["branch", &format!("autoloop/{RUN}/made-by-an-agent")]);
    let before = squad.project();
    let cleaned = squad.trees.clean().unwrap();
    assert_eq!(squad.project(), before);
    let (conflict, branch) = (squad.trees.conflict(""), |id: &str| format!("autoloop/{RUN}/{id}"));
    assert_eq!(
        cleaned.removed,
        [
            name("1"),
            conflict.top().display().to_string(),
            branch(CONFLICT),
            branch("made-by-an-agent")
        ]
    );
    let told: Vec<String> =
        cleaned.kept.iter().map(|kept| format!("{}: {}", kept.name, kept.reason)).collect();
    let checked_out = |id: &str| format!("{}: it is checked out in {}", branch(id), name(id));
    let files = "its files are not those of a commit that was merged";
    assert_eq!(
        told,
        [
            format!("{}: {files}", name("2")),
            format!("{}: {files}", name("3")),
            format!(
                "{}: clone/ in {} exists nowhere else; save what you need and remove the worktree",
                name("4"),
                name("4")
            ),
            format!("{}: {}", branch("1"), unreachable(&of_agent)),
            checked_out("2"),
            checked_out("3"),
            checked_out("4"),
        ]
    );
    assert_eq!(fs::read_to_string(Path::new(&name("2")).join("other")).unwrap(), "later\n");
    squad.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(squad.show(&unmerged, "%T"), squad.captured("3").tree);
    // A worktree that a user removed: its commit stays, and is named.
    squad.git(&["worktree", "remove", "--force", &name("3")]);
    let kept = squad.trees.clean().unwrap().kept;
    let reference = format!("refs/autoloop/kept/{RUN}/3/{unmerged}");
    assert!(
        kept.contains(&KeptWork { name: reference, reason: unreachable(&unmerged) }),
        "{kept:?}"
    );
}

/// Whatever became of its worktree.
#[test]
fn captured_work_that_was_not_merged_is_kept() {
    let squad = Squad::new();
    let [gone, reset] = ["1", "2"].map(|id| squad.changed(id, "file", &format!("{id}\n")));
    squad.dir("3");
    let nothing = squad.captured("3").commit;
    fs::remove_dir_all(squad.trees.place("1").dir).unwrap();
    agent(&squad.trees.place("2").dir, &["reset", "-q", "--hard"]);
    let cleaned = squad.trees.clean().unwrap();
    let reference = |id: &str, commit: &str| format!("refs/autoloop/kept/{RUN}/{id}/{commit}");
    let expected = [("1", &gone), ("2", &reset)]
        .map(|(id, commit)| KeptWork { name: reference(id, commit), reason: unreachable(commit) });
    assert_eq!(cleaned.kept, expected);
    assert!(squad.git(&["for-each-ref", &reference("3", &nothing)]).is_empty());
    assert_eq!(squad.git(&["worktree", "list"]).lines().count(), 1);
    // A branch is as good.
    squad.git(&["branch", "saved", &gone]);
    assert_eq!(squad.trees.clean().unwrap().kept, expected[1..]);
}

#[test]
fn a_commit_on_no_branch_keeps_its_worktree() {
    let squad = Squad::new();
    let commit = squad.changed("1", "new", "n");
    let dir = squad.trees.place("1").dir;
    agent(&dir, &["checkout", "-q", "--detach"]);
    agent(&dir, &["add", "-A"]);
    agent(&dir, &["commit", "-q", "-m", "of an agent"]);
    let of_agent = agent(&dir, &["rev-parse", "HEAD"]);
    squad.merge("1", &commit);
    let kept = squad.trees.clean().unwrap().kept;
    let expected = KeptWork { name: dir.display().to_string(), reason: unreachable(&of_agent) };
    assert_eq!(kept, [expected]);
    agent(&dir, &["branch", "saved"]);
    assert_eq!(squad.trees.clean().unwrap().kept, []);
    assert_eq!(squad.git(&["rev-parse", "saved"]), of_agent);
}
