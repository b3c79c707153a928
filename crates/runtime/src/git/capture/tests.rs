use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::super::Repository;
use super::super::scene::Scene;
use super::*;

fn tree(scene: &Scene) -> (Repository, Worktree, String) {
    let repository = scene.repository();
    let base = repository.base().unwrap();
    let tree = repository.add_worktree(&scene.place("tree"), "autoloop/x", &base).unwrap();
    (repository, tree, base)
}

/// What a tree object has that a commit does not.
fn news(scene: &Scene, base: &str, captured: &Captured) -> String {
    scene.git(&["diff", "--name-status", "--no-renames", base, &captured.tree])
}

#[test]
fn a_tree_has_commits_staged_and_other_files_and_nothing_is_changed() {
    let scene = Scene::new();
    let (repository, tree, base) = tree(&scene);
    let git = |args: &[&str]| scene.git_in(tree.dir(), args);
    assert_eq!(tree.capture(&base, &[]).unwrap().tree, repository.tree_of(&base).unwrap());
    scene.write("state/tree/committed", "c\n");
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "c"]);
    scene
        .write("state/tree/staged", "s\n")
        .write("state/tree/ignored", "i")
        .write("state/tree/kept/x", "k");
    git(&["add", "staged"]);
    git(&["add", "-f", "kept/x"]);
    scene.write("state/tree/staged", "later\n").write("state/tree/new", "n\n");
    fs::remove_file(tree.dir().join("file")).unwrap();
    symlink("new", tree.dir().join("link")).unwrap();
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(tree.dir().join("new"), executable).unwrap();
    let before = git(&["status", "--porcelain"]);
    let captured = tree.capture(&base, &[Path::new("kept")]).unwrap();
    assert_eq!(news(&scene, &base, &captured), "A\tcommitted\nD\tfile\nA\tlink\nA\tnew\nA\tstaged");
    let listed = scene.git(&["ls-tree", &captured.tree, "new", "link"]);
    assert!(listed.contains("120000 blob") && listed.contains("100755 blob"), "{listed}");
    assert_eq!(scene.git(&["show", &format!("{}:staged", captured.tree)]), "later");
    assert_eq!(git(&["status", "--porcelain"]), before);
    // A file that was added although it is ignored counts.
    git(&["add", "-f", "ignored"]);
    let captured = tree.capture(&base, &[Path::new("kept")]).unwrap();
    assert!(news(&scene, &base, &captured).contains("A\tignored"));
}

#[test]
fn what_is_excepted_is_as_it_was() {
    let scene = Scene::new();
    scene.write("kept/one", "1").write("kept/two", "2").commit("with what is kept");
    let (_, tree, base) = tree(&scene);
    scene.write("state/tree/kept/one", "changed").write("state/tree/kept/three", "3");
    scene.git_in(tree.dir(), &["add", "-A"]);
    scene.git_in(tree.dir(), &["rm", "-q", "-f", "--cached", "kept/two"]);
    let captured = tree.capture(&base, &[Path::new("kept")]).unwrap();
    assert_eq!(news(&scene, &base, &captured), "");
}

/// Whatever an agent sets up, the tree has what is in the files.
#[test]
fn nothing_decides_over_the_tree_but_the_files() {
    let scene = Scene::new();
    scene.git(&["config", "user.name", "a"]);
    let (_, tree, base) = tree(&scene);
    let common = scene.top.join(".git");
    let git = |args: &[&str]| scene.git_in(tree.dir(), args);
    git(&["update-index", "--assume-unchanged", "file"]);
    git(&["update-index", "--skip-worktree", ".gitignore"]);
    git(&["config", "filter.x.clean", "sed s/true/false/"]);
    git(&["config", "filter.x.required", "true"]);
    git(&["config", "core.autocrlf", "true"]);
    scene.write("state/tree/file", "true\r\n").write("state/tree/.gitignore", "true\n");
    scene.write("state/tree/.gitattributes", "* filter=x text eol=lf\n");
    fs::create_dir_all(common.join("info")).unwrap();
    fs::write(common.join("info/attributes"), "* filter=x ident -diff\n").unwrap();
    let captured = tree.capture(&base, &[]).unwrap();
    for (name, text) in [("file", "true\r\n"), (".gitignore", "true\n")] {
        let object = scene.git(&["rev-parse", &format!("{}:{name}", captured.tree)]);
        fs::write(scene.place("expected"), text).unwrap();
        assert_eq!(scene.git(&["hash-object", "--no-filters", "state/expected"]), object, "{name}");
    }
    let diff = scene.repository().diff(&base, &captured.tree, 100_000).unwrap();
    assert!(diff.contains("+true\r\n") && !diff.contains("Binary"), "{diff}");
    // A broken index is no obstacle.
    fs::write(tree.git.run(["rev-parse", "--git-path", "index"]).unwrap().line(), "x").unwrap();
    assert_eq!(tree.capture(&base, &[]).unwrap(), captured);
    let index = tree.git_dir.join("index");
    fs::remove_file(&index).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&index).status().unwrap().success());
    assert_eq!(tree.capture(&base, &[]).unwrap(), captured);
}

/// Filters that the commit names from which the work began, as they were defined then.
#[test]
fn a_filter_of_the_project_is_used_as_it_was_defined() {
    let scene = Scene::new();
    scene.git(&["config", "filter.x.clean", "sed s/plain/stored/"]);
    scene.write(".gitattributes", "*.x filter=x\n").write("a.x", "plain 1\n").commit("filtered");
    let (repository, tree, base) = tree(&scene);
    assert_eq!(scene.git(&["show", "HEAD:a.x"]), "stored 1");
    scene.git(&["config", "filter.x.clean", "sed s/plain/hostile/"]);
    scene.write("state/tree/b.x", "plain 2\n").write("state/tree/a.x", "plain 1\n");
    let captured = tree.capture(&base, &[]).unwrap();
    assert_eq!(news(&scene, &base, &captured), "A\tb.x");
    assert_eq!(scene.git(&["show", &format!("{}:b.x", captured.tree)]), "stored 2");
    drop(repository);
}

#[test]
fn what_a_sparse_checkout_leaves_out_is_not_missing_and_can_be_written() {
    let scene = Scene::new();
    scene.write("in/file", "i").write("out/file", "o").commit("two directories");
    scene.git(&["sparse-checkout", "set", "in"]);
    let (_, tree, base) = tree(&scene);
    assert!(!tree.dir().join("out").exists());
    assert_eq!(news(&scene, &base, &tree.capture(&base, &[]).unwrap()), "");
    scene.write("state/tree/in/new", "i").write("state/tree/out/new", "o");
    let captured = tree.capture(&base, &[]).unwrap();
    assert_eq!(news(&scene, &base, &captured), "A\tin/new\nA\tout/new");
    scene.write("state/tree/out/file", "changed");
    let captured = tree.capture(&base, &[]).unwrap();
    assert_eq!(news(&scene, &base, &captured), "A\tin/new\nM\tout/file\nA\tout/new");
}

#[test]
fn repositories_are_no_part_and_pointers_to_submodules_stay() {
    let scene = Scene::new();
    scene.git(&["init", "-q", "state/source"]);
    let source = scene.place("source");
    let commit = ["-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "-m", "x"];
    scene.git_in(&source, &[&commit[..], &["--allow-empty"]].concat());
    let (allowed, path) = ("protocol.file.allow=always", source.display().to_string());
    scene.git(&["-c", allowed, "submodule", "--quiet", "add", &path, "sub"]);
    scene.commit("with a submodule");
    let (_, tree, base) = tree(&scene);
    scene.git_in(tree.dir(), &["clone", "-q", &path, "deep/clone"]);
    scene.git_in(tree.dir(), &["init", "-q", "empty"]);
    assert_eq!(news(&scene, &base, &tree.capture(&base, &[]).unwrap()), "");
    scene.git_in(tree.dir(), &["-c", allowed, "submodule", "--quiet", "update", "--init"]);
    let sub = tree.dir().join("sub");
    scene.git_in(&sub, &[&commit[..], &["--allow-empty"]].concat());
    assert_eq!(news(&scene, &base, &tree.capture(&base, &[]).unwrap()), "M\tsub");
}

#[test]
fn any_name_can_be_left_out() {
    let scene = Scene::new();
    let odd = ["state", "ign*", "we[i]rd", "back\\slash", "!not", "plain"];
    scene.write(".gitignore", "state/\nign\\*\n");
    let except = odd.map(Path::new);
    for dir in except {
        scene.write(dir.join("file"), "x");
    }
    scene.write("weird/file", "x").write("ignored/file", "x").write("name\nwith a line", "");
    let repository = scene.repository();
    let (top, base) = (repository.worktree(&scene.top).unwrap(), repository.base().unwrap());
    let captured = top.capture(&base, &except).unwrap();
    let told = news(&scene, &base, &captured);
    assert_eq!(told, "M\t.gitignore\nA\tignored/file\nA\t\"name\\nwith a line\"\nA\tweird/file");
}

#[test]
fn a_repository_with_longer_names_of_objects_is_as_good() {
    let scene = Scene::empty();
    fs::remove_dir_all(scene.top.join(".git")).unwrap();
    scene.git(&["init", "-q", "-b", "main", "--object-format=sha256"]);
    scene.git(&["config", "user.name", "A"]);
    scene.git(&["config", "user.email", "a@b"]);
    scene.write(".gitignore", "state/\n").commit("first");
    let (repository, tree, base) = tree(&scene);
    scene.write("state/tree/new", "n\n");
    let captured = tree.capture(&base, &[]).unwrap();
    assert_eq!((captured.tree.len(), news(&scene, &base, &captured)), (64, "A\tnew".to_owned()));
    assert!(repository.diff(&base, &captured.tree, 1000).unwrap().ends_with("+n\n"));
}
