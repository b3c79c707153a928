//! The agents of the loop and others on PATH: their programs and their credentials.

use std::path::Path;

use autoloop_core::agents::Adapter;
use autoloop_core::config::BackendKind;
use autoloop_core::plan::BackendPlan;
use autoloop_core::script::Script;
use autoloop_runtime::clients::{Machine, Obstacle, ObstacleKind};
use autoloop_runtime::launch::NO_ACP_PROGRAM;
use autoloop_runtime::project::Loaded;
use autoloop_runtime::which::{Found, within};
use autoloop_runtime::world::{RealDisk, World};

use super::{Finding, Verdict};
use crate::commands::script::read_script;

pub(super) fn check(dir: &Path, loaded: Option<&Loaded>, world: &World) -> Vec<Finding> {
    let machine = Machine { variables: std::env::vars_os().collect(), dir, world };
    let wanted = loaded.map(wanted).unwrap_or_default();
    let mut findings: Vec<Finding> =
        wanted.iter().map(|(user, backend)| agent(user, backend, &machine).of("agent")).collect();
    let is_usable = |finding: &Finding| finding.verdict == Verdict::Ok;
    let has_agent = findings.iter().any(is_usable);
    let found = wanted.iter().zip(&findings).filter(|(_, it)| is_usable(it));
    let lacks: Vec<Finding> =
        found.flat_map(|((_, backend), _)| lacks(backend, &machine)).collect();
    findings.extend(lacks);
    findings.push(others(&machine, has_agent).of("agents"));
    findings
}

/// What an installed agent lacks.
fn lacks(backend: &BackendPlan, machine: &Machine<'_>) -> Vec<Finding> {
    let client = Adapter::by_program(&backend.command);
    let obstacles = client.map(|client| machine.obstacles(client, &backend.args));
    let finding = |it: Obstacle| match it.kind {
        ObstacleKind::Root => Finding::problem(it.found, it.advice).of("root"),
        _ => Finding::warning(it.found, it.advice).of("login"),
    };
    obstacles.unwrap_or_default().into_iter().map(finding).collect()
}

/// The agents of the loop, each once, with the setting or the role that names it. The default is left out where every
/// role names another.
fn wanted(loaded: &Loaded) -> Vec<(String, BackendPlan)> {
    let plan = &loaded.plan;
    let is_same = |a: &BackendPlan, b: &BackendPlan| (a.kind, &a.command) == (b.kind, &b.command);
    let roles = &loaded.topology.roles;
    let of_roles = roles.iter().map(|role| match plan.backend_for(role) {
        backend if is_same(backend, &plan.backend) => ("backend.command".to_owned(), backend),
        backend => (format!("role '{}'", role.id), backend),
    });
    let default = roles.is_empty().then(|| ("backend.command".to_owned(), &plan.backend));
    let review = plan.review.as_ref().map(|review| ("review.command".to_owned(), &review.backend));
    let mut wanted: Vec<(String, BackendPlan)> = Vec::new();
    for (user, backend) in default.into_iter().chain(of_roles).chain(review) {
        if !wanted.iter().any(|(_, known)| is_same(known, backend)) {
            wanted.push((user, backend.clone()));
        }
    }
    wanted
}

fn agent(user: &str, backend: &BackendPlan, machine: &Machine<'_>) -> Finding {
    let (command, dir) = (&backend.command, machine.dir);
    if matches!(backend.kind, BackendKind::Script | BackendKind::Replay) {
        return scripted(user, backend, dir);
    }
    if backend.kind == BackendKind::Acp && command.is_empty() {
        return Finding::problem(format!("{user}: {NO_ACP_PROGRAM}"), "name the program");
    }
    match machine.find(command) {
        Found::At(file) => Finding::ok(format!("{user}: {command} is {}", file.display())),
        Found::NotExecutable(file) => Finding::problem(
            format!("{user}: {} is not executable", file.display()),
            format!("make it executable: chmod +x {}", file.display()),
        ),
        Found::Nowhere if command.contains('/') => Finding::problem(
            format!("{user}: {} does not exist", within(dir, command).display()),
            "write the path of the agent relative to the project, or its name if it is on PATH",
        ),
        Found::Nowhere => Finding::problem(
            format!("{user}: '{command}' is not on PATH"),
            "install it, add its directory to PATH, or configure another agent",
        ),
    }
}

fn scripted(user: &str, backend: &BackendPlan, dir: &Path) -> Finding {
    let file = within(dir, &backend.command);
    let found = |what: &str| format!("{user}: {} {what}", file.display());
    if !file.exists() {
        let advice = format!("write it, or choose another backend.kind than {}", backend.kind);
        return Finding::problem(found("does not exist"), advice);
    }
    if backend.kind == BackendKind::Script {
        let script = read_script(&file, &RealDisk);
        let script = script.and_then(|text| Script::parse(&text).map_err(|bad| bad.to_string()));
        if let Err(why) = script {
            let found = found(&format!("is not a valid script: {why}"));
            return Finding::problem(found, "correct the script; docs/loop.md shows one");
        }
    }
    Finding::ok(found(&format!("is used ({})", backend.kind)))
}

/// The known agents on PATH.
fn others(machine: &Machine<'_>, has_agent: bool) -> Finding {
    let found = Adapter::ALL.into_iter().filter_map(|client| match machine.find(client.program) {
        Found::At(file) => {
            let lack = if machine.lacks_credentials(client) { " not logged in" } else { "" };
            Some(format!("{} ({}){lack}", client.program, file.display()))
        }
        Found::NotExecutable(_) | Found::Nowhere => None,
    });
    let found: Vec<String> = found.collect();
    let names = Adapter::ALL.map(|client| client.program).join(", ");
    let none = format!("none of {names} is on PATH");
    match (found.is_empty(), has_agent) {
        (false, _) => Finding::ok(format!("on PATH: {}", found.join(", "))),
        (true, true) => Finding::ok(none),
        (true, false) => {
            Finding::warning(none, "install one, or set backend.command to your agent")
        }
    }
}
