//! The table "What stops what" in docs/review-permissions.md, cell by cell.
//!
//! Each row of the page has a probe, which makes the attempt of that row, and each probe has a row.
//! A probe is tried under every layer, by the reviewer of a loop and by that of a slot. The
//! observed outcome is the word that the cell must begin with.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use autoloop_runtime::sandbox::{Support, probe};
use autoloop_testkit::sandbox::{Output, skip};
use autoloop_testkit::slots::PASS;
use rustix::fs::XattrFlags;
use rustix::process::{Pid, Signal};
use tempfile::NamedTempFile;

use super::{Layer, Project, everything, project_of, violations};

/// An attempt of a reviewer.
struct Probe {
    /// The row of the table.
    attempt: &'static str,
    /// The commands, one per line, run in the reviewed worktree. `$SIDE` is the sibling worktree,
    /// `$G` the git directory, `$S` the state directory, `$P` the project; `act` does what a shell
    /// cannot.
    commands: &'static str,
    scene: Scene,
}

/// The setup that an attempt needs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scene {
    Plain,
    /// A file system with extended attributes.
    Attributes,
    /// A second name of `src/main.rs` beside the sibling.
    SecondName(&'static str),
    /// The project, also mounted at a second path.
    SecondMount,
    /// A program outside the sandbox that does what it is asked to.
    Daemon,
    /// A kernel that confines signals to a sandbox.
    Signals,
}

const PROBES: [Probe; 20] = [
    plain(
        "write, truncate, delete, rename over, link a source file, tracked or not",
        "echo x >> src/main.rs\nrm src/new.rs\nln src/main.rs src/second\nmv .gitignore src/main.rs",
    ),
    plain("replace a directory by a link, delete it", "rm -r src && ln -s /etc src"),
    plain(
        "change git's hooks and settings",
        "echo x > $G/hooks/pre-commit\ngit config core.pager evil",
    ),
    plain("move the branch that is checked out", "git commit -q --allow-empty -m evil"),
    plain("move another branch", "git update-ref refs/heads/other HEAD"),
    plain(
        "add git objects, write `.git/opencode`",
        "echo x | git hash-object -w --stdin\necho x > $G/opencode",
    ),
    plain("write to a sibling working tree", "echo x >> $SIDE/src/main.rs"),
    plain("write anywhere else on the machine", "echo x > $SIDE/../elsewhere"),
    plain(
        "truncate, edit, replace, delete the journal",
        "truncate -s 9 $S/journal.jsonl\nrm $S/journal.jsonl",
    ),
    plain("make an owned file executable", "chmod 755 src/main.rs"),
    plain("change other permission bits of an owned file", "chmod 666 src/main.rs"),
    Probe {
        attempt: "change extended attributes or an ACL of an owned file",
        commands: "act attribute\nact acl",
        scene: Scene::Attributes,
    },
    Probe {
        attempt: "write a source file through a hard link elsewhere",
        commands: "echo x >> $SIDE/../name",
        scene: Scene::SecondName("name"),
    },
    Probe {
        attempt: "write a source file through a hard link in the state directory of an agent",
        commands: "echo x >> $HOME/.claude/name",
        scene: Scene::SecondName("home/.claude/name"),
    },
    Probe {
        attempt: "write a source file through a second mount",
        commands: "echo x >> $SIDE/../mount${PWD#$P}/src/main.rs",
        scene: Scene::SecondMount,
    },
    plain(
        "create a file in `roles/` or `docs/` that is not `*.md`",
        "mkdir -p roles; echo x > roles/x.sh",
    ),
    plain(
        "change protected settings, write a settings file that does not parse",
        "echo 'slots.iterations = 9' >> autoloops.toml",
    ),
    plain("leave an orphan that writes later", LATE),
    Probe {
        attempt: "make a daemon (docker, systemd) write through its socket",
        commands: "act ask 'echo asked >> src/main.rs'",
        scene: Scene::Daemon,
    },
    Probe { attempt: "kill the harness", commands: KILL, scene: Scene::Signals },
];

/// A process that leaves the session and the environment of the reviewer.
const LATE: &str = "env -i PATH=\"$PATH\" setsid sh -c 'sleep 671; echo late >> src/main.rs' > /dev/null 2>&1 & echo \"late=$!\"";
/// The parent of the reviewer is the shim, and the parent of that the harness.
const KILL: &str = "kill -9 $(sed -n 's/^PPid:[[:space:]]*//p' /proc/$PPID/status)";

const fn plain(attempt: &'static str, commands: &'static str) -> Probe {
    Probe { attempt, commands, scene: Scene::Plain }
}

/// The review in which an attempt is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reviewed {
    Loop,
    /// One slot, in the project.
    Slot,
    /// One slot, in its own worktree.
    Worktree,
    /// The first of two slots, in the project.
    Shared,
}

impl Reviewed {
    pub(super) const ALL: [Reviewed; 4] =
        [Reviewed::Loop, Reviewed::Slot, Reviewed::Worktree, Reviewed::Shared];

    pub(super) fn args(self) -> &'static [&'static str] {
        match self {
            Reviewed::Loop => &["run", ".", "-i", "2"],
            Reviewed::Slot => &["slots", "--review", "--iterations=1"],
            Reviewed::Worktree => {
                &["slots", "--review", "--iterations=1", "--isolation", "worktree"]
            }
            Reviewed::Shared => &[
                "slots",
                "--review",
                "--iterations=1",
                "--isolation=shared",
                "--parallel-agents=2",
            ],
        }
    }

    /// The output of the reviewer, in all its turns.
    pub(super) fn said(self, project: &Project) -> String {
        let topic = if self == Reviewed::Loop { "review.finish" } else { "slot.review" };
        project.sandbox.fields(topic, "output").concat()
    }

    /// The layer that confined it in its first turn.
    pub(super) fn held_by(self, project: &Project) -> String {
        let topic = if self == Reviewed::Loop { "review.start" } else { "slot.review" };
        project.sandbox.fields(topic, "enforcement").remove(0)
    }

    /// Everything that an attempt could change. The work of a slot is merged by git, which changes
    /// its own files.
    fn state(self, project: &Project) -> BTreeMap<PathBuf, String> {
        let mut state = everything(project);
        if self == Reviewed::Loop {
            return state;
        }
        let sandbox = &project.sandbox;
        let git = sandbox.path(".git");
        let own = ["index", "logs", "refs", "worktrees", "ORIG_HEAD", "COMMIT_EDITMSG"];
        for gits in own.iter().chain(&["autoloop.lock", "autoloop-worktrees.lock"]) {
            state.retain(|path, _| !path.starts_with(git.join(gits)));
        }
        state.remove(&sandbox.path("made"));
        state.remove(&git);
        state.remove(&sandbox.path(""));
        let log = ["log", "--branches", "--format=%s", "--invert-grep", "--grep=^t-1"];
        for args in [&log[..], &["branch", "--format=%(refname)"]] {
            let mut command = sandbox.at_home("git");
            command.args(args);
            state.insert(args[0].into(), sandbox.finish(command).stdout);
        }
        state
    }
}

impl Probe {
    fn agent(&self) -> String {
        let tries: String =
            self.commands.lines().map(|line| format!("( {line} ) && N=$((N+1))\n")).collect();
        let name = match self.scene {
            // A slot's worktree is created during the run.
            Scene::SecondName(name) => {
                format!("[ -e $SIDE/../{name} ] || ln src/main.rs $SIDE/../{name}")
            }
            _ => "true".to_owned(),
        };
        let act = act_function();
        format!(
            "P=$AUTOLOOP_PROJECT_DIR S=$AUTOLOOP_STATE_DIR N=0\n\
            G=$(git rev-parse --path-format=absolute --git-common-dir)\n\
            {act}\n\
            [ \"$AUTOLOOP_SLOT_PHASE\" != implement ] || {{ echo made > made; {name}; }}\n\
            [ -n \"$AUTOLOOP_REVIEW_MODE\" ] || [ \"$AUTOLOOP_SLOT_PHASE\" = review ] || exit 0\n\
            export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x\n\
            {tries}echo \"attempts=$N\"\n{PASS}\n"
        )
    }

    fn project(&self, layer: Layer, reviewed: Reviewed) -> Project {
        let mut project = layer.hold(project_of(&self.agent(), layer.settings()));
        project.sandbox.write("roles/a.md", "Act.\n");
        let (source, beside) = (project.sandbox.path("src/main.rs"), project.sibling.path());
        match self.scene {
            Scene::Plain | Scene::Attributes | Scene::Signals => {}
            Scene::SecondName(name) => {
                let home = beside.join("home");
                fs::create_dir_all(home.join(".claude")).unwrap();
                if reviewed != Reviewed::Worktree {
                    fs::hard_link(source, beside.join(name)).unwrap();
                }
                project.sandbox = project.sandbox.env("HOME", home);
            }
            Scene::SecondMount => fs::create_dir(beside.join("mount")).unwrap(),
            Scene::Daemon => start_daemon(beside),
        }
        project
    }

    fn run(&self, project: &Project, reviewed: Reviewed) -> Output {
        let sandbox = &project.sandbox;
        if reviewed != Reviewed::Loop {
            assert_eq!(sandbox.run(&["tasks", "add", "work"]).code, Some(0));
        }
        if self.scene != Scene::SecondMount {
            return sandbox.run(reviewed.args());
        }
        let mut command = sandbox.at_home("unshare");
        command.args(["-m", "sh", "-c", MOUNTED, "-"]);
        command.args([sandbox.path(""), project.sibling.path().join("mount")]);
        command.arg(sandbox.binary()).args(reviewed.args());
        sandbox.finish(command)
    }

    /// Everything that the attempt could change. Other names of a file are not restored: only the
    /// project is compared.
    fn state(&self, project: &Project, reviewed: Reviewed) -> BTreeMap<PathBuf, String> {
        let mut state = reviewed.state(project);
        if let Scene::SecondName(_) = self.scene {
            state.retain(|path, _| path.starts_with(project.sandbox.path("")));
            let source = project.sandbox.read("src/main.rs");
            state.insert(project.sandbox.path("src/main.rs"), String::from_utf8(source).unwrap());
        }
        state
    }

    /// Why the attempt cannot be tried here.
    fn obstacle(&self, layer: Layer) -> Option<&'static str> {
        match (self.scene, probe()) {
            (Scene::Attributes, _) => {
                let file = NamedTempFile::new().unwrap();
                let set = |name, value| {
                    rustix::fs::setxattr(file.path(), name, value, XattrFlags::empty())
                };
                let both =
                    set("user.autoloop", b"x").and_then(|()| set("system.posix_acl_access", ACL));
                both.err().map(|_| "the file system has no extended attributes or ACLs")
            }
            (Scene::SecondMount, _) => {
                let tried = Command::new("unshare").args(["-m", "true"]).status();
                (!tried.is_ok_and(|status| status.success()))
                    .then_some("nothing can be mounted here")
            }
            (Scene::Signals, Support::Landlock { abi }) if layer != Layer::Snapshot && abi < 6 => {
                Some("this kernel does not keep signals in a sandbox")
            }
            _ => None,
        }
    }

    /// The outcome of the attempt; an error says why it was not made.
    fn outcome(&self, layer: Layer, reviewed: Reviewed) -> Result<(String, String), &'static str> {
        if let Some(obstacle) = self.obstacle(layer) {
            return Err(obstacle);
        }
        let project = self.project(layer, reviewed);
        let before = self.state(&project, reviewed);
        let output = self.run(&project, reviewed);
        let said = reviewed.said(&project);
        let told = violations(&project);
        let found = |outcome: &str| Ok((outcome.to_owned(), format!("{said}\n{told}\n{output}")));
        if self.scene == Scene::Signals && output.code.is_none() {
            return found("possible");
        }
        let number = |name: &str| -> Option<u32> {
            let rest = said.split_once(name)?.1;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        let Some(attempts) = number("attempts=") else {
            return found("no review");
        };
        let held_by = reviewed.held_by(&project);
        match layer {
            Layer::Overlay if Layer::Landlock.is_named_in(&held_by) => {
                return Err("no overlay can be mounted here");
            }
            _ => assert!(layer.is_named_in(&held_by), "{layer:?}, {reviewed:?}: {held_by}"),
        }
        if said.matches("attempts=").count() > 1 {
            return found("reviewed again");
        }
        let is_verified = project.sandbox.run(&["journal", "verify"]).code == Some(0);
        let is_same = before == self.state(&project, reviewed) && is_verified;
        if let Some(late) = number("late=") {
            let lives = Path::new(&format!("/proc/{late}")).exists();
            if let Some(group) = Pid::from_raw(late.cast_signed()).filter(|_| lives) {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            return found(if lives || !is_same { "not noticed" } else { "ended" });
        }
        let mut outcomes: Vec<&str> =
            told.lines().filter_map(|line| Some(line.rsplit_once(": ")?.1)).collect();
        outcomes.dedup();
        let is_kept = project.sandbox.path(".git/opencode").exists();
        match (&outcomes[..], is_same) {
            ([], true) if is_kept => found("stays"),
            ([], true) if attempts == 0 => found("refused"),
            ([], true) => found("discarded"),
            ([], false) => found("not noticed"),
            (["not put back"], _) => found("noticed"),
            ([outcome], true) => found(outcome),
            _ => found("in part"),
        }
    }
}

/// Runs its remaining arguments with the first path also mounted at the second.
const MOUNTED: &str = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";

/// Starts the program outside the sandbox.
pub(super) fn start_daemon(beside: &Path) {
    let listener = UnixListener::bind(beside.join("socket")).unwrap();
    thread::spawn(move || listener.incoming().flatten().for_each(serve));
}

/// Does what a client of the socket asks for.
fn serve(mut visitor: UnixStream) {
    let mut asked = String::new();
    BufReader::new(&visitor).read_line(&mut asked).unwrap();
    assert!(Command::new("sh").args(["-c", &asked]).status().unwrap().success(), "{asked}");
    visitor.write_all(b".").unwrap();
}

/// The function of a reviewer's script that does what a shell cannot.
pub(super) fn act_function() -> String {
    let program = env::current_exe().unwrap();
    let program = program.display();
    format!(
        "act() {{ DEED=\"$1\" ASKED=\"$2\" SIDE=\"$SIDE\" '{program}' --exact table::act --ignored > /dev/null; }}"
    )
}

/// Does what a shell cannot, for a reviewer.
#[test]
#[ignore = "reviewers of the other tests start it"]
fn act() {
    let (file, none) = ("src/main.rs", XattrFlags::empty());
    match env::var("DEED").as_deref() {
        Ok("attribute") => rustix::fs::setxattr(file, "user.autoloop", b"x", none).unwrap(),
        Ok("acl") => rustix::fs::setxattr(file, "system.posix_acl_access", ACL, none).unwrap(),
        Ok("ask") => {
            let socket = Path::new(&env::var("SIDE").unwrap()).with_file_name("socket");
            let mut daemon = UnixStream::connect(socket).unwrap();
            let dir = env::current_dir().unwrap();
            let asked = env::var("ASKED").unwrap();
            writeln!(daemon, "cd '{}'; {asked}", dir.display()).unwrap();
            daemon.read_exact(&mut [0]).unwrap();
        }
        _ => {}
    }
}

/// `u::rw-,u:65534:r--,g::r--,m::r--,o::r--`: the permission bits stay the same.
const ACL: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\xfe\xff\0\0\x04\0\x04\0\xff\xff\xff\xff\x10\0\x04\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";

/// The rows of the table: the attempt and the cell of each layer.
fn rows() -> Vec<(&'static str, [&'static str; 3])> {
    let page =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/review-permissions.md"));
    let (_, table) = page.split_once("| attempt | ").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [attempt, rest @ ..] = &cells[..] else { panic!("{row}") };
        (*attempt, <[&str; 3]>::try_from(rest).unwrap_or_else(|_| panic!("{row}")))
    });
    cells.collect()
}

/// What a cell says about a kind of review: the most specific of its parts.
fn promise(cell: &str, reviewed: Reviewed) -> String {
    let cell = cell.replace('*', "");
    let mut parts = cell.split("; ");
    let mut promise = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (whose, what) = part.split_once(": ").unwrap_or_else(|| panic!("{cell}"));
        let counts = match whose {
            "slot" => reviewed != Reviewed::Loop,
            "worktree" => reviewed == Reviewed::Worktree,
            _ => panic!("{cell}: {whose}"),
        };
        if counts {
            what.clone_into(&mut promise);
        }
    }
    promise
}

#[test]
fn every_row_has_a_probe_and_every_probe_a_row() {
    let rows: Vec<&str> = rows().into_iter().map(|(attempt, _)| attempt).collect();
    assert_eq!(rows, PROBES.map(|probe| probe.attempt));
}

/// Tries every cell with the reviewers of one kind of review.
fn try_all(reviewed: Reviewed) {
    let mut wrong = String::new();
    for (probe, (attempt, cells)) in PROBES.iter().zip(rows()) {
        for layer in Layer::all() {
            let cell = cells[layer as usize];
            let what = format!("{attempt} | {layer:?} | {reviewed:?}");
            match probe.outcome(layer, reviewed) {
                Err(obstacle) => skip(&what, obstacle),
                Ok((found, _)) if promise(cell, reviewed) == found => {}
                Ok((found, told)) => wrong += &format!("{what}: {found}, not '{cell}':\n{told}\n"),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_cell_holds_for_the_reviewers_of_loops() {
    try_all(Reviewed::Loop);
}

#[test]
fn every_cell_holds_for_the_reviewers_of_slots() {
    try_all(Reviewed::Slot);
}

#[test]
fn every_cell_holds_for_the_reviewers_of_slots_with_working_trees() {
    try_all(Reviewed::Worktree);
}
