//! The agents: those that the loop asks for, and those that there are.

use std::ffi::OsStr;
use std::path::Path;

use autoloop_core::config::BackendKind;
use autoloop_core::plan::BackendPlan;
use autoloop_core::script::Script;
use autoloop_runtime::project::Loaded;
use autoloop_runtime::which::{Found, find, within};
use autoloop_runtime::world::{RealDisk, World};

use super::finding::{Finding, Verdict};
use super::login::{Surroundings, missing, refuses_root};
use crate::commands::script::read_script;

/// Clients of language models that are run from a command line.
pub(crate) const KNOWN: [&str; 10] = [
    "claude",
    "codex",
    "pi",
    "gemini",
    "opencode",
    "copilot",
    "cursor-agent",
    "amp",
    "aider",
    "goose",
];

/// Looks for the agents of the loop, and for others.
pub(super) fn check(dir: &Path, loaded: Option<&Loaded>, world: &World) -> Vec<Finding> {
    let around = Surroundings { variables: std::env::vars_os().collect(), world };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let wanted = loaded.map(wanted).unwrap_or_default();
    let mut findings: Vec<Finding> =
        wanted.iter().map(|(who, backend)| of_loop(who, backend, dir, &path)).collect();
    let has_agent = findings.iter().any(|finding| finding.verdict == Verdict::Ok);
    let found = wanted.iter().zip(&findings).filter(|(_, it)| it.verdict == Verdict::Ok);
    let lacks: Vec<Finding> = found.flat_map(|((_, backend), _)| lacks(backend, &around)).collect();
    findings.extend(lacks);
    findings.push(others(dir, &path, (has_agent, &around)));
    findings
}

/// What an agent that is installed still lacks.
fn lacks(backend: &BackendPlan, around: &Surroundings<'_>) -> Vec<Finding> {
    let command = &backend.command;
    let mut lacks = Vec::new();
    if rustix::process::geteuid().is_root() && refuses_root(command, &backend.args, around) {
        lacks.push(Finding::problem(
            "root",
            format!("{command} does not run unattended as root"),
            "set IS_SANDBOX=1 if this is a container, or run autoloop as another user",
        ));
    }
    if let Some(advice) = missing(command, around) {
        let found = format!("{command} has no credentials in its files or in the environment");
        lacks.push(Finding::warning("login", found, advice));
    }
    lacks
}

/// The agents that the loop asks for, each once, with who asks for it. Where every role has one of its
/// own, nobody asks for the one that roles have by default.
fn wanted(loaded: &Loaded) -> Vec<(String, BackendPlan)> {
    let plan = &loaded.plan;
    let is_same = |a: &BackendPlan, b: &BackendPlan| (a.kind, &a.command) == (b.kind, &b.command);
    let roles = &loaded.topology.roles;
    let of_roles = roles.iter().map(|role| match plan.backend_for(role) {
        backend if is_same(backend, &plan.backend) => ("backend.command".to_owned(), backend),
        backend => (format!("role '{}'", role.id), backend),
    });
    let nobodys = roles.is_empty().then(|| ("backend.command".to_owned(), &plan.backend));
    let review = plan.review.as_ref().map(|review| ("review.command".to_owned(), &review.backend));
    let mut wanted: Vec<(String, BackendPlan)> = Vec::new();
    for (who, backend) in nobodys.into_iter().chain(of_roles).chain(review) {
        if !wanted.iter().any(|(_, known)| is_same(known, backend)) {
            wanted.push((who, backend.clone()));
        }
    }
    wanted
}

fn of_loop(who: &str, backend: &BackendPlan, dir: &Path, path: &OsStr) -> Finding {
    const NAME: &str = "agent";
    let command = &backend.command;
    if matches!(backend.kind, BackendKind::Script | BackendKind::Replay) {
        return played(who, backend, dir);
    }
    match find(command.as_ref(), path, dir) {
        Found::At(file) => Finding::ok(NAME, format!("{who}: {command} is {}", file.display())),
        Found::NotExecutable(file) => Finding::problem(
            NAME,
            format!("{who}: {} cannot be executed", file.display()),
            format!("make it executable: chmod +x {}", file.display()),
        ),
        Found::Nowhere if command.contains('/') => Finding::problem(
            NAME,
            format!("{who}: there is no {}", within(dir, command).display()),
            "write the path of the agent as seen from the project, or its name if it is on PATH",
        ),
        Found::Nowhere => Finding::problem(
            NAME,
            format!("{who}: '{command}' is not on PATH"),
            "install it, put its directory on PATH, or name another agent",
        ),
    }
}

/// A file that plays the agent.
fn played(who: &str, backend: &BackendPlan, dir: &Path) -> Finding {
    const NAME: &str = "agent";
    let file = within(dir, &backend.command);
    let told = |what: &str| format!("{who}: {} {what}", file.display());
    if !file.exists() {
        let advice = format!("write it, or choose another backend.kind than {}", backend.kind);
        return Finding::problem(NAME, told("is not there"), advice);
    }
    if backend.kind == BackendKind::Script {
        let script = read_script(&file, &RealDisk);
        let script = script.and_then(|text| Script::parse(&text).map_err(|bad| bad.to_string()));
        if let Err(why) = script {
            let found = told(&format!("cannot be played: {why}"));
            return Finding::problem(NAME, found, "mend the script; docs/loop.md shows one");
        }
    }
    Finding::ok(NAME, told(&format!("is played ({})", backend.kind)))
}

/// The agents that there are, wanted or not.
fn others(dir: &Path, path: &OsStr, (has_agent, around): (bool, &Surroundings<'_>)) -> Finding {
    const NAME: &str = "agents";
    let found = KNOWN.iter().filter_map(|name| match find(name.as_ref(), path, dir) {
        Found::At(file) => {
            let lack = missing(name, around).map_or("", |_| " not logged in");
            Some(format!("{name} ({}){lack}", file.display()))
        }
        Found::NotExecutable(_) | Found::Nowhere => None,
    });
    let found: Vec<String> = found.collect();
    let none = format!("none of {} is on PATH", KNOWN.join(", "));
    match (found.is_empty(), has_agent) {
        (false, _) => Finding::ok(NAME, format!("on PATH: {}", found.join(", "))),
        (true, true) => Finding::ok(NAME, none),
        (true, false) => {
            Finding::warning(NAME, none, "install one, or name yours in backend.command")
        }
    }
}
