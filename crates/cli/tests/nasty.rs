//! Agents that misbehave, each as a real process below a real shim.
//!
//! After each of them no process with the job's token may be left. The tests read the kernel's list
//! of processes right after the job, without waiting: the shim guarantees it.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "all of this is a test")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use autoloop_core::config::Leftovers;
use autoloop_runtime::layout::StateDir;
use autoloop_runtime::process::{self, Interrupts, TOKEN, sweep, token};
use autoloop_runtime::shim::OsSpawner;
use autoloop_runtime::signals;
use autoloop_runtime::world::{
    Cause, Clock, Disk, Ending, Exit, Finished, Job, Limits, OsEntropy, RealDisk, Running, Signal,
    Spool, SystemClock, World,
};
use autoloop_testkit::sandbox::{meet_a_limit, until, write_program};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal as Unix, WaitId, WaitIdOptions, kill_process,
    pidfd_open, prlimit, waitid,
};
use tempfile::TempDir;

#[path = "nasty/again.rs"]
mod again;
#[path = "nasty/deaths.rs"]
mod deaths;
#[path = "nasty/trial.rs"]
mod trial;

use trial::*;

fn notes_dir(state_dir: &Path) -> PathBuf {
    StateDir::new(state_dir).shims()
}

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
const SIGPIPE: i32 = 13;

#[test]
fn a_quick_success_is_always_a_success() {
    let trial = Trial::new();
    for _ in 0..200 {
        let finished = trial.run(trial.job("true"));
        assert_eq!(code(&finished), 0);
        assert_eq!(finished.cause, Cause::Itself);
    }
}

#[test]
fn a_status_and_both_outputs_are_returned() {
    let trial = Trial::new();
    let finished = trial.run(trial.sh("echo out; echo err >&2; exit 3"));
    assert_eq!(code(&finished), 3);
    assert_eq!((finished.stdout.text(), finished.stderr.text()), ("out\n".into(), "err\n".into()));
    assert_eq!(fs::read(trial.path("out")).unwrap(), b"out\n");
    assert_eq!(fs::read(trial.path("err")).unwrap(), b"err\n");
    assert_eq!(finished.orphans, Default::default());
}

#[test]
fn the_job_gets_its_directory_its_environment_and_its_token() {
    let trial = Trial::new();
    let job = Job {
        env: vec![("SAID".into(), "hello".into())],
        env_removed: vec!["CARGO_MANIFEST_DIR".into()],
        ..trial
            .sh("pwd -P; echo $SAID; echo ${CARGO_MANIFEST_DIR-unset}; echo $AUTOLOOP_SLOT_TOKEN")
    };
    let finished = trial.run(job);
    let dir = trial.dir.path().canonicalize().unwrap();
    let expected = format!("{}\nhello\nunset\n{}\n", dir.display(), trial.token);
    assert_eq!(finished.stdout.text(), expected);
}

#[test]
fn the_agent_leads_its_own_group_and_has_nothing_of_ours() {
    let trial = Trial::new();
    let script =
        "cut -d' ' -f5 /proc/$$/stat; echo $$; grep SigIgn /proc/$$/status; ls /proc/$$/fd";
    let finished = trial.run(trial.sh(script));
    let text = finished.stdout.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], lines[1], "the group is the agent's own");
    let ignored = u64::from_str_radix(lines[2].trim_start_matches("SigIgn:\t"), 16).unwrap();
    assert_eq!(ignored & (1 << (SIGPIPE - 1)), 0, "a closed pipe ends it, as everywhere");
    assert!(!lines[3..].iter().any(|fd| ["3", "4", "5"].contains(fd)), "only three pipes: {text}");
}

#[test]
fn a_program_that_cannot_be_started_is_a_clear_error() {
    let trial = Trial::new();
    fs::write(trial.path("plain"), "not a program").unwrap();
    write_program(trial.path("orphan"), "#!/no/such/interpreter\n");
    let cases = [
        ("no-such-program".into(), 127, "cannot start 'no-such-program': not found in PATH".into()),
        (
            trial.path("gone"),
            127,
            "there is no such file, or its interpreter is missing".to_owned(),
        ),
        (trial.path("orphan"), 127, "there is no such file, or its interpreter is missing".into()),
        (trial.path("plain"), 126, "it is not an executable file, or permission is denied".into()),
        (
            trial.dir.path().to_owned(),
            126,
            "it is not an executable file, or permission is denied".into(),
        ),
    ];
    for (program, exit_code, message) in cases {
        let finished = trial.run(trial.job(&program));
        assert!(never_started(&finished).contains(&message), "{finished:?}");
        assert_eq!(finished.exit_code(), exit_code, "{}", program.display());
    }
    let finished = trial.run(Job { dir: Some(trial.path("nowhere")), ..trial.job("true") });
    assert!(never_started(&finished).contains("cannot start in "), "{finished:?}");
    let spool = Spool { stdout: "/no/such/dir/out".into(), stderr: trial.path("err") };
    let finished = trial.run(Job { spool: Some(spool), ..trial.job("true") });
    assert!(never_started(&finished).contains("cannot write the output to /no/such/dir/out"));
}

/// The superuser may read every directory; other users get a permission error.
#[test]
fn a_directory_of_the_path_that_is_closed_changes_no_reason() {
    let trial = Trial::new();
    let closed = trial.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let path = format!("{}:/usr/bin:/bin", closed.display());
    let job = Job { env: vec![("PATH".into(), path.into())], ..trial.job("no-such-program") };
    let finished = trial.run(job);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(never_started(&finished).ends_with(": not found in PATH"), "{finished:?}");
    assert_eq!(finished.exit_code(), 127);
}

#[test]
fn an_argument_that_is_too_long_is_a_clear_error() {
    let trial = Trial::new();
    let finished = trial.run(Job { args: vec!["x".repeat(200_000).into()], ..trial.job("true") });
    assert!(never_started(&finished).contains("too long for the system"), "{finished:?}");
}

// Deadlines and signals.

#[test]
fn a_deadline_ends_a_job_without_waiting_for_its_grace() {
    let finished = run_late(|trial| {
        let job = trial.sh("echo begun; echo > ready; sleep 300; echo never");
        Job { limits: Limits { grace: Duration::from_secs(600), ..job.limits }, ..job }
    });
    assert_eq!(finished.ending, ended_by(SIGTERM));
    assert!(finished.elapsed < Duration::from_secs(300), "{:?}", finished.elapsed);
    assert_eq!(finished.stdout.text(), "begun\n");
}

#[test]
fn one_that_ignores_the_request_is_killed() {
    let script = "trap '' TERM; echo > ready; while :; do sleep 0.05; done";
    let finished = run_late(|trial| short_grace(trial.sh(script)));
    assert_eq!(finished.ending, ended_by(SIGKILL));
    assert!(finished.elapsed >= Duration::from_millis(600), "it had its grace");
}

#[test]
fn last_words_are_kept() {
    let trial = Trial::new();
    let script = "trap 'echo bye; exit 9' TERM; echo > ready; while :; do sleep 0.02; done";
    let running = trial.start(trial.sh(script));
    trial.wait_for("ready");
    running.signals.send(Signal::Terminate).unwrap();
    let finished = end(&running);
    assert_eq!((code(&finished), finished.stdout.text()), (9, "bye\n".into()));
    assert_eq!(finished.cause, Cause::Interrupt);
    trial.no_process_is_left();
}

#[test]
fn a_child_of_a_wrapper_has_its_grace_although_the_wrapper_is_gone() {
    let child = "trap 'sleep 0.1; echo saved > saved; exit' TERM; echo > ready; while :; do sleep 0.02; done";
    let trial = Trial::new();
    fs::write(trial.path("child"), child).unwrap();
    let running = trial.start(trial.sh("sh child & wait"));
    trial.wait_for("ready");
    running.signals.send(Signal::Terminate).unwrap();
    end(&running);
    trial.no_process_is_left();
    assert!(trial.path("saved").exists());
}

#[test]
fn the_second_interrupt_kills_at_once() {
    let trial = Trial::new();
    let job = trial.sh("trap '' TERM; echo > ready; while :; do sleep 0.05; done");
    let limits = Limits { grace: Duration::from_secs(600), ..job.limits };
    let interrupts = Interrupts::default();
    let finished = std::thread::scope(|scope| {
        let job = Job { limits, ..job };
        let run = scope.spawn(|| process::run(job, &world(), &interrupts));
        trial.wait_for("ready");
        interrupts.raise(2);
        interrupts.raise(2);
        run.join().unwrap()
    });
    assert_eq!(finished.ending, ended_by(SIGKILL));
    assert_eq!(finished.cause, Cause::Interrupt);
    assert!(finished.elapsed < Duration::from_secs(300), "{:?}", finished.elapsed);
    trial.no_process_is_left();
}

#[test]
fn a_shim_that_is_asked_to_end_ends_its_job() {
    let trial = Trial::new();
    let running = trial.start(trial.sh("echo > ready; exec sleep 300"));
    trial.wait_for("ready");
    kill(running.id, Unix::TERM);
    let finished = end(&running);
    assert_eq!(finished.ending, ended_by(SIGTERM));
    assert_eq!(finished.cause, Cause::Interrupt);
    trial.no_process_is_left();
}

// Processes that escape.

#[test]
fn a_grandchild_in_its_own_session_dies() {
    if !has("setsid") {
        return;
    }
    let trial = Trial::new();
    let escape = "setsid sh -c 'echo > ready; exec sleep 300' & while ! [ -e ready ]; do :; done;";
    let finished = trial.run(trial.sh(&format!("{escape} exit 0")));
    assert_eq!(code(&finished), 0);
    assert_eq!(finished.orphans.ended, 1);

    run_late(|trial| trial.sh(&format!("{escape} sleep 300")));
}

#[test]
fn a_daemon_dies_also_when_it_ignores_requests() {
    if !has("setsid") {
        return;
    }
    let trial = Trial::new();
    fs::write(trial.path("daemon"), "trap '' TERM; echo > ready; while :; do sleep 0.05; done")
        .unwrap();
    let script = "(setsid sh -c 'sh daemon & exit' &); while ! [ -e ready ]; do :; done";
    let finished = trial.run(short_grace(trial.sh(script)));
    assert_eq!(code(&finished), 0);
    assert!(finished.orphans.ended >= 1);
    assert_eq!(finished.orphans.survivors, Vec::<u32>::new());
}

#[test]
fn a_pipe_held_open_delays_nothing() {
    let trial = Trial::new();
    let clock = SystemClock::default();
    let finished = trial.run(trial.sh("sleep 590 & echo done"));
    assert_eq!((code(&finished), finished.stdout.text()), (0, "done\n".into()));
    if has("setsid") {
        let finished = trial.run(trial.sh("setsid sleep 590 & echo done"));
        assert_eq!((code(&finished), finished.stdout.text()), (0, "done\n".into()));
    }
    assert!(clock.elapsed() < Duration::from_secs(300), "{:?}", clock.elapsed());
}

#[test]
fn orphans_may_be_kept_and_are_reported() {
    for leftovers in [Leftovers::Keep, Leftovers::Warn] {
        let trial = Trial::new();
        let job = Job { leftovers, ..trial.sh("sleep 300 & echo $!") };
        let finished = process::run(job, &world(), &Interrupts::default());
        assert_eq!(code(&finished), 0);
        let kept: u32 = finished.stdout.text().trim().parse().unwrap();
        // During exec a process shows no variables.
        until("it to be seen", || (trial.marked() == [pid(kept)]).then_some(()));
        let told = if leftovers == Leftovers::Warn { vec![kept] } else { Vec::new() };
        assert_eq!(finished.orphans.kept, told, "{leftovers:?}");
        // No sweep ends a process that is to be kept.
        assert_eq!(
            sweep(&notes_dir(trial.dir.path()), Duration::ZERO).unwrap(),
            Default::default()
        );
        assert_eq!(trial.marked(), [pid(kept)]);
        kill(kept, Unix::KILL);
    }
}

#[test]
fn leftovers_do_not_outlive_a_deadline_whatever_the_policy() {
    let script = "sleep 300 & trap '' TERM; echo > ready; while :; do sleep 0.05; done";
    run_late(|trial| Job { leftovers: Leftovers::Keep, ..short_grace(trial.sh(script)) });
}

#[test]
fn a_chain_of_forks_is_caught() {
    if !has("setsid") {
        return;
    }
    let link = "[ $1 = 0 ] && echo > end && exit; echo > ready; sleep 0.02; setsid sh link $(($1 - 1)) & exit";
    let wait = "while ! [ -e ready ]; do :; done";
    for script in [format!("sh link 9999 & {wait}"), format!("sh link 9999 & {wait}; sleep 300")] {
        let trial = Trial::new();
        fs::write(trial.path("link"), link).unwrap();
        let finished = trial.run(short_grace(deadline(trial.sh(&script), 200)));
        assert_eq!(finished.orphans.survivors, Vec::<u32>::new());
        assert!(!trial.path("end").exists(), "the chain ended by itself");
    }
}

#[test]
fn the_dead_of_others_are_not_leftovers() {
    let trial = Trial::new();
    // A grandchild that exits first and is never waited for.
    let script = "(sh -c 'exit 1' & echo $! > child); while grep -qs '^State:[^ZX]*$' /proc/$(cat child)/status; do :; done";
    let finished = trial.run(trial.sh(script));
    assert_eq!(finished.orphans, Default::default());
}

// Output and input.

#[test]
fn a_gigabyte_is_drained_in_little_memory() {
    const GIGABYTE: u64 = 1_000_000_000;
    let trial = Trial::new();
    let script =
        "head -c 1000000000 /dev/zero; echo > written; while ! [ -e go ]; do sleep 0.02; done";
    let job = trial.sh(script);
    let limits = Limits { spooled: 10_000_000, ..job.limits };
    let running = trial.start(Job { limits, ..job });
    trial.wait_for("written");
    let peak = peak_of_memory(running.id);
    fs::write(trial.path("go"), "").unwrap();
    let finished = end(&running);
    assert_eq!(code(&finished), 0);
    assert_eq!((finished.stdout.bytes, finished.stdout.spooled), (GIGABYTE, 10_000_000));
    assert_eq!(fs::metadata(trial.path("out")).unwrap().len(), 10_000_000);
    assert_eq!(finished.stdout.left_out(), GIGABYTE - 2 * 1024 * 1024);
    eprintln!("1 GB in {:?}, {peak} kB at most", finished.elapsed);
    assert!(peak <= 32 * 1024, "{peak} kB");
    trial.no_process_is_left();
}

#[test]
fn bytes_are_spooled_exactly_and_decoded_as_a_whole() {
    let trial = Trial::new();
    // The character crosses the boundary of a full pipe.
    let script = "head -c 65535 /dev/zero | tr '\\0' a; printf '\\303\\251\\377\\000'";
    let finished = trial.run(trial.sh(script));
    let exact = [&vec![b'a'; 65535][..], b"\xC3\xA9\xFF\0"].concat();
    assert_eq!(fs::read(trial.path("out")).unwrap(), exact);
    assert!(finished.stdout.text().ends_with("aaa\u{e9}\u{fffd}\0"));
}

#[test]
fn a_promise_is_found_wherever_it_is() {
    let trial = Trial::new();
    let look = |script: &str| {
        let job = Job { look_for: b"LOOP_COMPLETE".to_vec(), ..trial.sh(script) };
        trial.run(job).found_at.is_some()
    };
    assert!(look("printf LOOP_; sleep 0.1; printf COMPLETE"));
    assert!(look("head -c 3000000 /dev/zero; echo LOOP_COMPLETE; head -c 3000000 /dev/zero"));
    assert!(!look("echo LOOP_COMPLET"));
    assert!(!look("echo LOOP_COMPLETE >&2"));
}

#[test]
fn unread_input_delays_nothing() {
    let trial = Trial::new();
    let stdin = vec![b'x'; 5_000_000];
    let finished = trial.run(Job { stdin: stdin.clone(), ..trial.sh("exit 7") });
    assert_eq!(code(&finished), 7);
    let finished = trial.run(Job { stdin: stdin.clone(), ..trial.sh("head -c 5000000 /dev/zero") });
    assert_eq!((code(&finished), finished.stdout.bytes), (0, 5_000_000));
    let finished = trial.run(Job { stdin: stdin.clone(), ..trial.job("cat") });
    assert_eq!(finished.stdout.bytes, 5_000_000);
    assert_eq!(fs::read(trial.path("out")).unwrap(), stdin);
    let finished = trial.run(trial.job("cat"));
    assert_eq!((code(&finished), finished.stdout.bytes), (0, 0), "no input is an end at once");
}

#[test]
fn a_job_may_close_its_outputs_and_go_on() {
    let trial = Trial::new();
    let finished = trial.run(trial.sh("echo hi; exec >&- 2>&-; sleep 0.2; exit 5"));
    assert_eq!((code(&finished), finished.stdout.text()), (5, "hi\n".into()));
    assert!(finished.elapsed >= Duration::from_millis(200));
}

#[test]
fn a_job_may_delete_the_state_dir() {
    let trial = Trial::new();
    let finished = trial.run(trial.sh("rm -rf shims out err; echo gone"));
    assert_eq!((code(&finished), finished.stdout.text()), (0, "gone\n".into()));
}

#[test]
fn a_limit_on_file_sizes_stops_the_spooling_only() {
    let trial = Trial::new();
    let script = "echo > ready; while ! [ -e go ]; do sleep 0.02; done; head -c 5000 /dev/zero";
    let running = trial.start(trial.sh(script));
    trial.wait_for("ready");
    let limit = Rlimit { current: Some(1000), maximum: Some(1000) };
    prlimit(Some(pid(running.id)), Resource::Fsize, limit).unwrap();
    fs::write(trial.path("go"), "").unwrap();
    let finished = end(&running);
    assert_eq!(code(&finished), 0);
    assert_eq!((finished.stdout.bytes, finished.stdout.spooled), (5000, 1000));
    trial.no_process_is_left();
}
