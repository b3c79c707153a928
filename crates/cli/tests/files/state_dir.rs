//! The state directory: ignored by git, private to its owner.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use autoloop_testkit::Sandbox;
use autoloop_testkit::slots::{self, Agents, GOOD, git};

/// Completes in its second turn, so that there can be a metareview before it.
const COMPLETES: &str =
    "echo text; $T memory add learning x; [ \"$N\" = 1 ] || $T emit task.complete";

/// Everything that creates a state directory, each by one command.
const COMMANDS: [&[&str]; 6] = [
    &["emit", "note.made", "x"],
    &["tasks", "add", "a task"],
    &["memory", "add", "learning", "--project", "x"],
    &["run", ".", "do it"],
    &["slots", "--review"],
    &["chain", "run", "one", ".", "do it"],
];

fn project(settings: &str) -> Sandbox {
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), COMPLETES, settings);
    sandbox.write("chains.toml", "[[chain]]\nname = 'one'\nsteps = ['.']\n");
    sandbox.write("home/.gitkeep", "").write("file", "one\n");
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        git(&sandbox, args);
    }
    sandbox
}

fn run(sandbox: &Sandbox, args: &[&str]) {
    let output = sandbox.run(args);
    // A queue without items is no failure of this test.
    assert!(matches!(output.code, Some(0 | 1)), "{args:?}: {output}");
}

/// The untracked files, without those committed by the test itself or by a run with slots.
fn untracked(sandbox: &Sandbox) -> String {
    git(sandbox, &["status", "--porcelain", "--untracked-files=all"])
}

#[test]
fn git_leaves_the_state_directory_alone() {
    for args in COMMANDS {
        for (settings, state) in [("", ".autoloop"), ("core.state_dir = 'var/state'", "var/state")]
        {
            let sandbox = project(settings);
            run(&sandbox, args);
            let ignored = sandbox.path(state).join(".gitignore");
            assert_eq!(fs::read_to_string(ignored).unwrap_or_default(), "*\n", "{args:?} {state}");
            assert_eq!(untracked(&sandbox), "", "{args:?} {state}");
            let before = files_in(&sandbox.path(state));
            sandbox.write("file", "two\n").write("new", "x\n");
            git(&sandbox, &["stash", "-q", "-u"]);
            git(&sandbox, &["clean", "-q", "-f", "-d"]);
            git(&sandbox, &["add", "-A"]);
            assert_eq!(files_in(&sandbox.path(state)), before, "{args:?} {state}");
            assert_eq!(git(&sandbox, &["diff", "--cached", "--name-only"]), "", "{args:?}");
        }
    }
}

#[test]
fn an_existing_state_directory_is_ignored_from_the_next_start_on() {
    for args in COMMANDS {
        for content in [None, Some("")] {
            let sandbox = project("");
            sandbox.write(".autoloop/old", "x");
            if let Some(content) = content {
                sandbox.write(".autoloop/.gitignore", content);
            }
            run(&sandbox, args);
            assert_eq!(untracked(&sandbox), "", "{args:?} {content:?}");
        }
    }
}

#[test]
fn a_list_of_the_user_stays_as_it_is() {
    let sandbox = project("");
    sandbox.write(".autoloop/.gitignore", "*\n!overrides/\n");
    run(&sandbox, &["run", ".", "do it"]);
    assert_eq!(sandbox.read(".autoloop/.gitignore"), b"*\n!overrides/\n");
    let linked = project("");
    fs::create_dir(linked.path(".autoloop")).unwrap();
    symlink(linked.path("file"), linked.path(".autoloop/.gitignore")).unwrap();
    run(&linked, &["run", ".", "do it"]);
    assert_eq!(linked.read("file"), b"one\n");
}

#[test]
fn a_project_inside_of_its_state_directory_is_not_ignored() {
    let sandbox = project("core.state_dir = '.'");
    fs::set_permissions(sandbox.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    run(&sandbox, &["run", ".", "do it"]);
    assert!(sandbox.path("journal.jsonl").exists());
    assert!(!sandbox.path(".gitignore").exists());
    assert_eq!(mode(&sandbox.path("")), 0o755, "the project stays as open as it was");
}

#[test]
fn an_agent_that_cleans_up_with_git_loses_no_record() {
    let agent = "git clean -q -f -d; git stash -q -u; git add -A; echo $N >> file; git -c user.name=A \
        -c user.email=a@b commit -q -a -m $N; [ $N = 2 ] && $T emit task.complete; true";
    let sandbox = Sandbox::with_agent(env!("CARGO_BIN_EXE_autoloop"), agent, "");
    sandbox.write("file", "one\n");
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        git(&sandbox, args);
    }
    let output = sandbox.run(&["run", ".", "do it"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(!git(&sandbox, &["ls-files"]).contains(".autoloop"));
}

#[test]
fn worktrees_in_it_show_all_files() {
    let sandbox =
        slots::repository(env!("CARGO_BIN_EXE_autoloop"), GOOD, (2, "slots.parallelAgents = 2"));
    let output = sandbox.run(&["slots", "--review"]);
    assert_eq!(output.code, Some(0), "{output}");
    for item in ["made-t-1", "made-t-2"] {
        assert!(git(&sandbox, &["ls-files"]).contains(item), "{item} was merged");
    }
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            found.extend(files_in(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

/// Paths that others may read, write or enter, and paths that the owner may not.
fn open_to_others(dir: &Path) -> Vec<String> {
    let all = files_in(dir).into_iter().chain([dir.to_owned()]);
    let is_wrong = |path: &PathBuf| {
        let own = if path.is_dir() { 0o700 } else { 0o600 };
        mode(path) & 0o077 != 0 || mode(path) & own != own
    };
    all.filter(|path| !path.is_symlink())
        .filter(is_wrong)
        .map(|path| format!("{:o} {}", mode(&path), path.display()))
        .collect()
}

/// The command under a umask.
fn run_under(umask: &str, sandbox: &Sandbox, args: &[&str]) {
    let mut command = sandbox.at_home("sh");
    command.args(["-c", "umask \"$1\"; shift; exec \"$@\"", "sh", umask]).arg(sandbox.binary());
    let output = sandbox.finish({
        command.args(args);
        command
    });
    assert!(matches!(output.code, Some(0 | 1)), "{umask} {args:?}: {output}");
}

#[test]
fn everything_in_it_is_private_whatever_the_umask() {
    for umask in ["0000", "0022", "0277", "0777"] {
        for args in COMMANDS {
            // Agents inherit the umask and must be able to use the files that they create.
            if umask > "0022" && !["emit", "tasks", "memory"].contains(&args[0]) {
                continue;
            }
            let sandbox = project("review.enabled = true\nreview.every_iterations = 1");
            run_under(umask, &sandbox, args);
            // The second time every file exists already.
            run_under(umask, &sandbox, args);
            let open = open_to_others(&sandbox.path(".autoloop"));
            assert!(open.is_empty(), "{umask} {args:?}: {open:#?}");
        }
    }
}

#[test]
fn files_of_slots_are_private_except_checked_out_ones() {
    // The work of one item is rejected, so that its worktree or branch stays.
    let review = "v=pass; [ \"$AUTOLOOP_ITEM_ID\" = t-1 ] && v=drift; echo '{\"verdict\": \"'$v'\", \"followUpPrompt\": \"x\"}'";
    let agents = Agents { review, ..GOOD };
    let settings = "slots.parallelAgents = 2\nslots.reviewMaxFixAttempts = 0";
    let sandbox = slots::repository(env!("CARGO_BIN_EXE_autoloop"), agents, (2, settings));
    run_under("0000", &sandbox, &["slots", "--review"]);
    assert_eq!(sandbox.fields("slot.review", "verdict").len(), 2);
    let mut open = open_to_others(&sandbox.path(".autoloop"));
    open.retain(|line| !line.contains("/tree"));
    assert!(open.is_empty(), "{open:#?}");
}

#[test]
fn a_copy_of_a_preset_is_private() {
    let sandbox = project("");
    for (name, bits) in [("harness.md", 0o666), ("tools/check", 0o777)] {
        let file = format!("home/autoloop/presets/mine/{name}");
        sandbox.write(&file, "x");
        fs::set_permissions(sandbox.path(&file), fs::Permissions::from_mode(bits)).unwrap();
    }
    sandbox.write("home/autoloop/presets/mine/autoloops.toml", "review.enabled = false");
    run_under("0000", &sandbox, &["run", "mine", "do it"]);
    let open = open_to_others(&sandbox.path(".autoloop"));
    assert!(open.is_empty(), "{open:#?}");
    let copied = files_in(&sandbox.path(".autoloop"));
    let tool = copied.iter().find(|path| path.ends_with("tools/check")).unwrap();
    assert_eq!(mode(tool), 0o700, "what could be executed still can");
}

#[test]
fn an_open_state_directory_is_closed_at_the_next_start() {
    for args in COMMANDS {
        let sandbox = project("");
        fs::create_dir_all(sandbox.path(".autoloop/shims")).unwrap();
        for name in [".autoloop", ".autoloop/shims"] {
            fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(0o777)).unwrap();
        }
        run_under("0000", &sandbox, args);
        assert_eq!(mode(&sandbox.path(".autoloop")), 0o700, "{args:?}");
    }
}

#[test]
fn nothing_behind_a_link_is_closed() {
    let sandbox = project("");
    fs::create_dir(sandbox.path("elsewhere")).unwrap();
    fs::set_permissions(sandbox.path("elsewhere"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink(sandbox.path("elsewhere"), sandbox.path(".autoloop")).unwrap();
    for args in COMMANDS {
        sandbox.run(args);
        assert_eq!(mode(&sandbox.path("elsewhere")), 0o755, "{args:?}");
        assert!(!sandbox.path("elsewhere/.gitignore").exists(), "{args:?}");
    }
}
