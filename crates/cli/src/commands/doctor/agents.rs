//! The agents: those that the loop asks for, and those that there are.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use autoloop_core::config::BackendKind;
use autoloop_core::plan::BackendPlan;
use autoloop_core::script::Script;
use autoloop_runtime::project::Loaded;

use super::finding::{Finding, Verdict};

/// Agents that are run from a command line.
const KNOWN: [&str; 10] = [
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
pub(super) fn check(dir: &Path, loaded: Option<&Loaded>) -> Vec<Finding> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let wanted = loaded.map(wanted).unwrap_or_default();
    let mut findings: Vec<Finding> =
        wanted.iter().map(|(who, backend)| of_loop(who, backend, dir, &path)).collect();
    let has_agent = findings.iter().any(|finding| finding.verdict == Verdict::Ok);
    findings.push(others(dir, &path, has_agent));
    findings
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
    match find(command, path, dir) {
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
        let script = fs::read_to_string(&file).map_err(|error| error.to_string());
        let script = script.and_then(|text| Script::parse(&text).map_err(|bad| bad.to_string()));
        if let Err(why) = script {
            let found = told(&format!("cannot be played: {why}"));
            return Finding::problem(NAME, found, "mend the script; docs/loop.md shows one");
        }
    }
    Finding::ok(NAME, told(&format!("is played ({})", backend.kind)))
}

/// The agents that there are, wanted or not.
fn others(dir: &Path, path: &OsStr, has_agent: bool) -> Finding {
    const NAME: &str = "agents";
    let found = KNOWN.iter().filter_map(|name| match find(name, path, dir) {
        Found::At(file) => Some(format!("{name} ({})", file.display())),
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

/// Where a program is.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    At(PathBuf),
    NotExecutable(PathBuf),
    Nowhere,
}

/// Looks for a program as it is looked for when it is started: a path from the directory of the
/// project, a name on PATH.
fn find(command: &str, path: &OsStr, dir: &Path) -> Found {
    if command.is_empty() {
        return Found::Nowhere;
    }
    let places: Vec<PathBuf> = match command.contains('/') {
        true => vec![within(dir, command)],
        false => std::env::split_paths(path).map(|place| dir.join(place).join(command)).collect(),
    };
    let files: Vec<&PathBuf> = places.iter().filter(|file| file.is_file()).collect();
    let is_executable =
        |file: &Path| fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
    match files.iter().find(|file| is_executable(file)) {
        Some(file) => Found::At((*file).clone()),
        None => files.first().map_or(Found::Nowhere, |file| Found::NotExecutable((*file).clone())),
    }
}

/// A file of the project, named as a person would.
fn within(dir: &Path, name: &str) -> PathBuf {
    if dir == Path::new(".") { PathBuf::from(name) } else { dir.join(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_it_would_be_started() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, mode: u32| {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            file
        };
        let (plain, good) = (write("one/agent", 0o644), write("two/agent", 0o755));
        let own = write("own.sh", 0o755);
        let path = std::env::join_paths([dir.path().join("one"), dir.path().join("two")]).unwrap();
        let find = |command: &str| find(command, &path, dir.path());
        assert_eq!(find("agent"), Found::At(good));
        assert_eq!(find("one/agent"), Found::NotExecutable(plain));
        assert_eq!(find("./own.sh"), Found::At(dir.path().join("./own.sh")));
        assert_eq!(find("own.sh"), Found::Nowhere, "a name is looked for on PATH alone");
        assert_eq!(find(""), Found::Nowhere);
        assert_eq!(find("two"), Found::Nowhere);
        drop(own);
    }
}
