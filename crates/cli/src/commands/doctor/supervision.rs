//! Whether agents can be watched over, and whether somebody was left unwatched.

use std::path::Path;
use std::time::Duration;

use autoloop_runtime::layout::StateDir;
use autoloop_runtime::process::{Interrupts, LeftOver, left_over as find_left_over, run};
use autoloop_runtime::world::{Ending, Exit, Finished, Job, Limits, World};

use super::finding::Finding;

/// An agent that prints something, leaves a process behind that has gone its own way, and ends.
const AGENT: &str = "(sleep 60 </dev/null >/dev/null 2>&1 &); echo watched";

/// Runs a small job under a supervisor, and sees that nothing of it is left.
pub(super) fn check(world: &World) -> Finding {
    let job = Job {
        program: "sh".into(),
        args: vec!["-c".into(), AGENT.into()],
        limits: Limits {
            deadline: Some(Duration::from_secs(20)),
            grace: Duration::ZERO,
            ..Limits::default()
        },
        ..Job::default()
    };
    verdict(&run(job, world, &Interrupts::default()))
}

fn verdict(finished: &Finished) -> Finding {
    const NAME: &str = "supervision";
    let advice =
        "run a shell here with `sh -c true`; a container may limit processes (pids, seccomp)";
    match &finished.ending {
        Ending::NeverStarted(why) => Finding::problem(NAME, why.message.clone(), advice),
        Ending::Lost(why) => Finding::problem(NAME, why.clone(), advice),
        Ending::Exited(Exit::Code(0)) if finished.stdout.text() == "watched\n" => {
            match finished.left.ended {
                0 => Finding::warning(
                    NAME,
                    "processes can be started, but those that an agent leaves behind are not found",
                    "use Linux with /proc mounted; else end such processes yourself after a run",
                ),
                _ => Finding::ok(
                    NAME,
                    "processes are started, watched, and ended with all that they leave behind",
                ),
            }
        }
        Ending::Exited(_) => {
            let found = format!("a small job ended with {}", finished.exit_code());
            Finding::problem(NAME, found, advice)
        }
    }
}

/// Looks for processes of harnesses that were killed.
pub(super) fn left_over(state_dir: &Path) -> Finding {
    const NAME: &str = "left over";
    let notes = StateDir::new(state_dir).shims();
    match find_left_over(&notes) {
        Err(error) => Finding::warning(
            NAME,
            format!("cannot look into {}: {error}", notes.display()),
            "make it readable for you: it says which processes a killed run left behind",
        ),
        Ok(left) => of_jobs(&left),
    }
}

fn of_jobs(left: &[LeftOver]) -> Finding {
    const NAME: &str = "left over";
    let processes: Vec<String> =
        left.iter().flat_map(|job| &job.processes).map(ToString::to_string).collect();
    match (left.len(), processes.as_slice()) {
        (0, _) => Finding::ok(NAME, "nothing runs on of a harness that was killed"),
        (_, []) => Finding::ok(NAME, "a harness was killed, and nothing of it runs on"),
        (_, [pid]) => Finding::warning(
            NAME,
            format!("process {pid} runs on, whose harness was killed"),
            "the next `autoloop run` here ends it",
        ),
        (_, several) => Finding::warning(
            NAME,
            format!("processes {} run on, whose harness was killed", several.join(", ")),
            "the next `autoloop run` here ends them",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoloop_runtime::world::{NeverStarted, Obstacle, Output};

    fn finished(ending: Ending, said: &str, ended: u64) -> Finding {
        let mut finished = Finished::new(ending);
        finished.stdout = Output::whole(said);
        finished.left.ended = ended;
        verdict(&finished)
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
        insta::assert_snapshot!(super::super::finding::report(&findings, crate::style::Color::No), @r"
        ok       supervision  processes are started, watched, and ended with all that they leave behind
        warning  supervision  processes can be started, but those that an agent leaves behind are not found
                              -> use Linux with /proc mounted; else end such processes yourself after a run
        problem  supervision  a small job ended with 3
                              -> run a shell here with `sh -c true`; a container may limit processes (pids, seccomp)
        problem  supervision  cannot start 'sh': no processes
                              -> run a shell here with `sh -c true`; a container may limit processes (pids, seccomp)
        problem  supervision  the supervisor was killed
                              -> run a shell here with `sh -c true`; a container may limit processes (pids, seccomp)
        ");
    }

    #[test]
    fn what_was_left_over_is_named() {
        let job = |processes: &[u32]| LeftOver { note: "n".into(), processes: processes.into() };
        let findings = [
            of_jobs(&[]),
            of_jobs(&[job(&[])]),
            of_jobs(&[job(&[7])]),
            of_jobs(&[job(&[7]), job(&[8, 9])]),
        ];
        insta::assert_snapshot!(super::super::finding::report(&findings, crate::style::Color::No), @r"
        ok       left over  nothing runs on of a harness that was killed
        ok       left over  a harness was killed, and nothing of it runs on
        warning  left over  process 7 runs on, whose harness was killed
                            -> the next `autoloop run` here ends it
        warning  left over  processes 7, 8, 9 run on, whose harness was killed
                            -> the next `autoloop run` here ends them
        ");
    }
}
