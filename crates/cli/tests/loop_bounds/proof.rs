//! The proof of every mode: what changes during a review although every layer should prevent it.
//!
//! A program outside of the sandbox carries out what the reviewer asks for, so no layer stops it.

use autoloop_testkit::slots::PASS;

use super::table::{Reviewed, act_function, start_daemon};
use super::*;

/// Changes, and for each of them the paths that a violation may have which names it.
const CHANGES: [(&str, &[&[&str]]); 2] = [
    (
        "echo asked >> src/main.rs; git config core.pager evil; \
        echo x > $(git rev-parse --git-common-dir)/hooks/pre-commit; \
        git update-ref HEAD $(git commit-tree -m x -p HEAD HEAD:)",
        &[&["src/main.rs: "], &["/config: "], &["/hooks/pre-commit: "], &["HEAD: ", "refs/heads/"]],
    ),
    ("git symbolic-ref HEAD refs/heads/evil", &[&["HEAD: "]]),
];

/// What other worktrees and clients do at the same time.
const OF_OTHERS: &str = "git hash-object -w src/main.rs; echo x > $(git rev-parse --git-common-dir)/opencode; \
    git -C $SIDE commit -q --allow-empty -m theirs; git -C $SIDE config branch.side.remote x; git -C $SIDE pack-refs --all";

/// A project whose reviewer asks a program outside to run a command in the reviewed tree. The first of two slots
/// does so while the other waits for it in its own review.
fn asking(layer: Layer, reviewed: Reviewed, command: &str) -> Project {
    let identity =
        "GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x";
    let shared = if reviewed == Reviewed::Shared { "yes" } else { "" };
    let agent = format!(
        "{act}\n\
        waits() {{ until grep -q \"$1\" \"$AUTOLOOP_JOURNAL_FILE\"; do sleep 0.02; done; }}\n\
        case \"{shared}$AUTOLOOP_SLOT_PHASE$AUTOLOOP_SLOT\" in\n\
        yesimplement1) waits '\"phase\": \"review\"';;\n\
        yesreview2) waits '\"topic\": \"slot.review\"'; {PASS}; exit;;\n\
        esac\n\
        [ \"$AUTOLOOP_SLOT_PHASE\" != implement ] || echo made > made\n\
        [ -n \"$AUTOLOOP_REVIEW_MODE\" ] || [ \"$AUTOLOOP_SLOT_PHASE\" = review ] || exit 0\n\
        act ask \"export {identity} SIDE=$SIDE; \"'{command}' && echo attempts=1\n{PASS}\n",
        act = act_function(),
    );
    let project = layer.hold(project_of(&agent, layer.settings()));
    start_daemon(project.sibling.path());
    if reviewed != Reviewed::Loop {
        for title in ["one", "two"] {
            assert_eq!(project.sandbox.run(&["tasks", "add", title]).code, Some(0));
        }
    }
    project
}

/// The violations of a review during which a program outside runs a command; `None` where the layer is missing.
fn noticed(layer: Layer, reviewed: Reviewed, command: &str) -> Option<String> {
    let project = asking(layer, reviewed, command);
    let sandbox = &project.sandbox;
    let output = sandbox.run(reviewed.args());
    let held_by = reviewed.held_by(&project);
    if layer == Layer::Overlay && !held_by.contains("overlay") {
        return None;
    }
    assert!(reviewed.said(&project).contains("attempts=1"), "{output}\n{}", sandbox.story());
    let fields = ["path", "what", "outcome"].map(|field| sandbox.fields("review.violation", field));
    let [paths, whats, outcomes] = fields;
    let told = paths.iter().zip(&whats).zip(&outcomes);
    Some(told.map(|((path, what), outcome)| format!("{path}: {what}: {outcome}\n")).collect())
}

/// Collects what is wrong in any layer and any kind of review.
fn each_mode(test: impl Fn(Layer, Reviewed) -> String) {
    let modes = Layer::all().into_iter().flat_map(|layer| Reviewed::ALL.map(|it| (layer, it)));
    let wrong: String = modes.map(|(layer, reviewed)| test(layer, reviewed)).collect();
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn whatever_changes_during_a_review_is_noticed_in_every_mode() {
    each_mode(|layer, reviewed| {
        let mut wrong = String::new();
        for (command, changes) in CHANGES {
            let Some(told) = noticed(layer, reviewed, command) else { break };
            for paths in changes.iter().filter(|paths| !paths.iter().any(|it| told.contains(it))) {
                wrong += &format!("{layer:?}, {reviewed:?}: not {paths:?}\n{told}\n");
            }
        }
        wrong
    });
}

#[test]
fn what_other_worktrees_and_clients_do_is_no_violation_in_any_mode() {
    each_mode(|layer, reviewed| {
        let told = match (layer, reviewed) {
            (Layer::Overlay, _) | (_, Reviewed::Slot | Reviewed::Worktree | Reviewed::Shared) => {
                noticed(layer, reviewed, OF_OTHERS)
            }
            // A snapshot restores the files of the repository.
            (Layer::Landlock | Layer::Snapshot, Reviewed::Loop) => None,
        };
        told.filter(|told| !told.is_empty())
            .map_or(String::new(), |told| format!("{layer:?}, {reviewed:?}: {told}\n"))
    });
}
