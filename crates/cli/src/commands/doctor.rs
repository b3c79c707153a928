//! `autoloop doctor`: checks of the environment, each with advice.

#![expect(clippy::disallowed_methods, reason = "reports on the real machine")]

mod agents;
mod git;
mod state;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoloop_core::config::Sandbox;
use autoloop_core::format::json_text;
use autoloop_core::table;
use autoloop_runtime::layout::StateDir;
use autoloop_runtime::process::{CrashedJob, Interrupts, crashed_jobs, run as run_job};
use autoloop_runtime::project::Loaded;
use autoloop_runtime::sandbox::{Support, probe};
use autoloop_runtime::world::{Ending, Exit, Finished, Job, Limits, World};
use serde::Serialize;

use super::settings::{self, Located};
use crate::failure::Failure;
use crate::style::{Color, Tone};
use crate::terminal;

/// Check whether loops can run here.
///
/// Checks the settings, the agents and their logins, git, the state directory and its journal, the supervision of
/// processes, orphans of killed harnesses, and the sandbox of the kernel. Prints what to do about each problem.
/// Changes nothing, and sends no request to a provider.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Project directory [default: the current project]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    let (located, _) = settings::look_for(args.dir.as_deref(), world)?;
    let findings = check(&located, world);
    match args.json {
        true => terminal::print(&json(&findings))?,
        false => {
            let color = Color::of(&io::stdout());
            terminal::print_painted(&report(&findings, color), color)?;
        }
    }
    match findings.iter().filter(|finding| finding.verdict == Verdict::Problem).count() {
        0 => Ok(()),
        1 => Err(Failure::failed("found 1 problem")),
        many => Err(Failure::failed(format!("found {many} problems"))),
    }
}

fn check(located: &Located, world: &World) -> Vec<Finding> {
    let Located { dir, files, .. } = located;
    let loaded = settings::project(dir).and_then(|project| project.load(&*world.disk));
    let settings = match &loaded {
        Ok(loaded) => loop_files(dir, loaded),
        Err(error) => Finding::problem(
            error.to_string().lines().next().unwrap_or_default(),
            "correct it; list every error with `autoloop config show`",
        ),
    };
    let loaded = loaded.ok();
    let mut findings = vec![settings.of("settings")];
    findings.extend(agents::check(dir, loaded.as_ref(), world));
    findings.push(supervision(world).of("supervision"));
    findings.push(orphans(&files.state_dir).of("left over"));
    findings.extend(git::check(located, loaded.as_ref(), world));
    findings.push(state::directory(&files.state_dir).of("state"));
    findings.push(state::journal(&*located.journal(world)).of("journal"));
    let review = loaded.as_ref().and_then(|loaded| loaded.plan.review.as_ref());
    findings.push(sandbox(probe(), review.map(|review| review.sandbox)).of("sandbox"));
    findings.push(namespaces(&NamespaceLimits::read()).of("namespaces"));
    findings
}

/// The result of a check. It has the name of its check, and advice if it found a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    found: String,
    advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    /// A loop can run, but something is missing or may go wrong.
    Warning,
    /// A loop cannot run.
    Problem,
}

impl Finding {
    fn ok(found: impl Into<String>) -> Finding {
        Finding { check: "", verdict: Verdict::Ok, found: found.into(), advice: None }
    }

    fn warning(found: impl Into<String>, advice: impl Into<String>) -> Finding {
        let advice = Some(advice.into());
        Finding { verdict: Verdict::Warning, advice, ..Finding::ok(found) }
    }

    fn problem(found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { verdict: Verdict::Problem, ..Finding::warning(found, advice) }
    }

    fn of(self, check: &'static str) -> Finding {
        Finding { check, ..self }
    }
}

fn json(findings: &[Finding]) -> String {
    #[derive(Serialize)]
    struct Report<'a> {
        ok: bool,
        checks: &'a [Finding],
    }
    let ok = findings.iter().all(|finding| finding.verdict != Verdict::Problem);
    json_text(&Report { ok, checks: findings })
}

fn report(findings: &[Finding], color: Color) -> String {
    let (mut words, mut rows) = (Vec::new(), Vec::new());
    for Finding { check, verdict, found, advice } in findings {
        let (word, tone) = match verdict {
            Verdict::Ok => ("ok     ", Tone::Good),
            Verdict::Warning => ("warning", Tone::Warning),
            Verdict::Problem => ("problem", Tone::Bad),
        };
        words.push(color.paint(tone, word));
        rows.push([(*check).to_owned(), one_line(found, color)]);
        if let Some(advice) = advice {
            words.push(" ".repeat(word.len()));
            rows.push([String::new(), format!("-> {}", one_line(advice, color))]);
        }
    }
    table::pad(&mut rows);
    words.iter().zip(&rows).map(|(word, row)| format!("{word}  {}", table::line(row))).collect()
}

/// Messages of programs and of users may have several lines.
fn one_line(text: &str, color: Color) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match color {
        Color::Yes => terminal::harmless(&line).into_owned(),
        Color::No => line,
    }
}

fn loop_files(dir: &Path, loaded: &Loaded) -> Finding {
    let files = format!("the files of the loop in {} are valid", dir.display());
    if let [first, ..] = loaded.warnings.as_slice() {
        let advice = "`autoloop config show` prints every warning with its place";
        return Finding::warning(format!("{files}, with a warning: {first}"), advice);
    }
    let roles = match loaded.topology.roles.len() {
        0 => "no roles".to_owned(),
        1 => "1 role".to_owned(),
        many => format!("{many} roles"),
    };
    Finding::ok(format!("{files}; the loop has {roles}"))
}

/// Runs a small job under a supervisor, which has to end the orphan that the job leaves.
fn supervision(world: &World) -> Finding {
    const SCRIPT: &str = "(sleep 60 </dev/null >/dev/null 2>&1 &); echo watched";
    let deadline = Some(Duration::from_secs(20));
    let job = Job {
        program: "sh".into(),
        args: vec!["-c".into(), SCRIPT.into()],
        limits: Limits { deadline, grace: Duration::ZERO, ..Limits::default() },
        ..Job::default()
    };
    supervised(&run_job(job, world, &Interrupts::default()))
}

fn supervised(finished: &Finished) -> Finding {
    let advice =
        "run `sh -c true` in a shell here; a container may limit processes (pids, seccomp)";
    match &finished.ending {
        Ending::NeverStarted(why) => Finding::problem(why.message.clone(), advice),
        Ending::Lost(why) => Finding::problem(why.clone(), advice),
        Ending::Exited(Exit::Code(0)) if finished.stdout.text() == "watched\n" => {
            match finished.orphans.ended {
                0 => Finding::warning(
                    "processes can be started, but their orphans are not found",
                    "use Linux with /proc mounted, or end orphans yourself after a run",
                ),
                _ => Finding::ok("processes are started, watched, and ended with their orphans"),
            }
        }
        Ending::Exited(_) => {
            Finding::problem(format!("a small job ended with {}", finished.exit_code()), advice)
        }
    }
}

fn orphans(state_dir: &Path) -> Finding {
    let notes = StateDir::new(state_dir).shims();
    match crashed_jobs(&notes) {
        Err(error) => Finding::warning(
            format!("cannot read {}: {error}", notes.display()),
            "make it readable: it lists the processes of killed runs",
        ),
        Ok(left) => orphans_of(&left),
    }
}

fn orphans_of(left: &[CrashedJob]) -> Finding {
    let processes: Vec<String> =
        left.iter().flat_map(|job| &job.processes).map(ToString::to_string).collect();
    match (left.len(), processes.as_slice()) {
        (0, _) => Finding::ok("no orphans of a killed harness"),
        (_, []) => Finding::ok("a harness was killed; it left no orphans"),
        (_, [pid]) => Finding::warning(
            format!("process {pid} is an orphan of a killed harness"),
            "the next `autoloop run` here ends it",
        ),
        (_, several) => Finding::warning(
            format!("processes {} are orphans of a killed harness", several.join(", ")),
            "the next `autoloop run` here ends them",
        ),
    }
}

fn sandbox(support: Support, wanted: Option<Sandbox>) -> Finding {
    let advice =
        "use Linux 5.13 or later with `landlock` in the kernel's list of security modules (lsm=)";
    match (support, wanted) {
        (Support::Landlock { abi }, _) => Finding::ok(format!("Landlock, ABI version {abi}")),
        (Support::None(why), Some(Sandbox::Required)) => Finding::problem(
            format!("review.sandbox is \"required\", but no sandbox is available: {why}"),
            format!("{advice}, or set review.sandbox to \"auto\""),
        ),
        (Support::None(why), _) => Finding::warning(
            format!(
                "not available ({why}): forbidden changes of a metareview are restored afterwards"
            ),
            advice,
        ),
    }
}

/// The kernel's limits of user namespaces; `None` where it has no such setting.
struct NamespaceLimits {
    most: Option<u64>,
    clone: Option<u64>,
    apparmor: Option<u64>,
}

impl NamespaceLimits {
    fn read() -> Self {
        let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
        NamespaceLimits {
            most: number("/proc/sys/user/max_user_namespaces"),
            clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        }
    }
}

fn namespaces(limits: &NamespaceLimits) -> Finding {
    let setting = match limits {
        NamespaceLimits { most: None, .. } => {
            return Finding::ok("the kernel has no setting for user namespaces");
        }
        NamespaceLimits { most: Some(0), .. } => "user.max_user_namespaces",
        NamespaceLimits { clone: Some(0), .. } => "kernel.unprivileged_userns_clone",
        NamespaceLimits { apparmor: Some(1..), .. } => {
            "kernel.apparmor_restrict_unprivileged_userns"
        }
        NamespaceLimits { most: Some(_), .. } => {
            return Finding::ok("users may create namespaces, as sandboxes of agents do");
        }
    };
    Finding::warning(
        format!(
            "{setting} forbids user namespaces; agents with a sandbox of their own may refuse to start"
        ),
        format!("change it with `sysctl {setting}` if your agent needs it; autoloop does not"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoloop_runtime::world::{NeverStarted, Obstacle, Output};

    #[test]
    fn a_report_has_a_line_for_what_was_found_and_one_for_what_to_do() {
        let findings = [
            Finding::ok("git 2.43").of("git"),
            Finding::warning("none here", "use another kernel").of("sandbox"),
            Finding::problem("'x' is not\non PATH", "install it").of("backend"),
        ];
        insta::assert_snapshot!(report(&findings, Color::No), @r"
        ok       git      git 2.43
        warning  sandbox  none here
                          -> use another kernel
        problem  backend  'x' is not on PATH
                          -> install it
        ");
    }

    #[test]
    fn a_sandbox_that_is_missing_is_a_problem_only_where_it_is_required() {
        let none = Support::None("the kernel has no Landlock");
        let findings = [
            sandbox(Support::Landlock { abi: 4 }, Some(Sandbox::Required)),
            sandbox(none, Some(Sandbox::Auto)),
            sandbox(none, Some(Sandbox::Required)),
        ]
        .map(|finding| finding.of("sandbox"));
        insta::assert_snapshot!(report(&findings, Color::No), @r#"
        ok       sandbox  Landlock, ABI version 4
        warning  sandbox  not available (the kernel has no Landlock): forbidden changes of a metareview are restored afterwards
                          -> use Linux 5.13 or later with `landlock` in the kernel's list of security modules (lsm=)
        problem  sandbox  review.sandbox is "required", but no sandbox is available: the kernel has no Landlock
                          -> use Linux 5.13 or later with `landlock` in the kernel's list of security modules (lsm=), or set review.sandbox to "auto"
        "#);
    }

    #[test]
    fn each_way_to_forbid_namespaces_is_named() {
        let told =
            |most, clone, apparmor| namespaces(&NamespaceLimits { most, clone, apparmor }).found;
        assert!(told(Some(0), None, None).starts_with("user.max_user_namespaces"));
        assert!(told(Some(9), Some(0), None).starts_with("kernel.unprivileged_userns_clone"));
        assert!(told(Some(9), Some(1), Some(1)).starts_with("kernel.apparmor"));
        assert!(told(Some(9), Some(1), Some(0)).starts_with("users may"));
        assert!(told(None, None, None).starts_with("the kernel has no setting"));
    }

    fn finished(ending: Ending, said: &str, ended: u64) -> Finding {
        let mut finished = Finished::new(ending);
        finished.stdout = Output::whole(said);
        finished.orphans.ended = ended;
        supervised(&finished).of("supervision")
    }

    #[test]
    fn a_job_that_did_not_end_as_it_should_is_a_problem() {
        let exited = |code| Ending::Exited(Exit::Code(code));
        let never = NeverStarted {
            errno: 11,
            message: "cannot start 'sh': no processes".into(),
            obstacle: Obstacle::Surroundings,
        };
        let findings = [
            finished(exited(0), "watched\n", 1),
            finished(exited(0), "watched\n", 0),
            finished(exited(3), "", 0),
            finished(Ending::NeverStarted(never), "", 0),
            finished(Ending::Lost("the supervisor was killed".into()), "", 0),
        ];
        insta::assert_snapshot!(report(&findings, Color::No), @"
        ok       supervision  processes are started, watched, and ended with their orphans
        warning  supervision  processes can be started, but their orphans are not found
                              -> use Linux with /proc mounted, or end orphans yourself after a run
        problem  supervision  a small job ended with 3
                              -> run `sh -c true` in a shell here; a container may limit processes (pids, seccomp)
        problem  supervision  cannot start 'sh': no processes
                              -> run `sh -c true` in a shell here; a container may limit processes (pids, seccomp)
        problem  supervision  the supervisor was killed
                              -> run `sh -c true` in a shell here; a container may limit processes (pids, seccomp)
        ");
    }

    #[test]
    fn what_was_left_over_is_named() {
        let job = |processes: &[u32]| CrashedJob { note: "n".into(), processes: processes.into() };
        let findings = [
            orphans_of(&[]),
            orphans_of(&[job(&[])]),
            orphans_of(&[job(&[7])]),
            orphans_of(&[job(&[7]), job(&[8, 9])]),
        ]
        .map(|finding| finding.of("left over"));
        insta::assert_snapshot!(report(&findings, Color::No), @"
        ok       left over  no orphans of a killed harness
        ok       left over  a harness was killed; it left no orphans
        warning  left over  process 7 is an orphan of a killed harness
                            -> the next `autoloop run` here ends it
        warning  left over  processes 7, 8, 9 are orphans of a killed harness
                            -> the next `autoloop run` here ends them
        ");
    }
}
