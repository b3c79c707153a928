//! The harness dies, the shim dies, or both do.

use super::*;

/// Not a test of its own: another test runs it in a second process, which is then the harness. It
/// writes down how its job ended, and then stays until its input is closed.
#[test]
fn harness_for_another_test() {
    let Some(dir) = std::env::var_os("NASTY_DIR").map(PathBuf::from) else { return };
    let job = Job {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), std::env::var_os("NASTY_SCRIPT").unwrap()],
        dir: Some(dir.clone()),
        notes: Some(notes_dir(&dir)),
        token: std::env::var("NASTY_TOKEN").unwrap(),
        limits: Limits {
            grace: PATIENT,
            crash_grace: Duration::from_millis(
                std::env::var("NASTY_CRASH_GRACE").unwrap().parse().unwrap(),
            ),
            ..Limits::default()
        },
        ..Job::default()
    };
    let interrupts = Interrupts::default();
    signals::listen(&interrupts).unwrap();
    let finished = process::run(job, &world(), &interrupts);
    let told = format!("{:?} by {:?} {:?}", finished.ending, finished.cause, interrupts.first());
    fs::write(dir.join("told.new"), told).unwrap();
    fs::rename(dir.join("told.new"), dir.join("told")).unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Starts a harness in another process, and waits until its job is ready. The job has `crash_grace`
/// to end after its harness died.
fn start_harness(trial: &Trial, script: &str, crash_grace: Duration) -> std::process::Child {
    let harness = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "deaths::harness_for_another_test"])
        .env("NASTY_DIR", trial.dir.path())
        .env("NASTY_TOKEN", &trial.token)
        .env("NASTY_SCRIPT", script)
        .env("NASTY_CRASH_GRACE", crash_grace.as_millis().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    trial.wait_for("ready");
    harness
}

/// An agent with a child and a second child that escaped. All ignore requests to end, and none
/// calls exec once they are ready: during exec a process shows no token.
const ESCAPE: &str = "trap '' TERM HUP; mkfifo never; (read x < never) & \
    setsid sh -c 'echo > ready; read x < never' & wait";

#[test]
fn signals_to_the_harness_reach_the_job() {
    let trial = Trial::new();
    let script = "trap 'echo > asked' TERM; echo > ready; while :; do sleep 0.02; done";
    let mut harness = start_harness(&trial, script, PATIENT);
    kill(harness.id(), Unix::INT);
    trial.wait_for("asked");
    kill(harness.id(), Unix::TERM);
    trial.wait_for("told");
    let told = fs::read_to_string(trial.path("told")).unwrap();
    assert_eq!(told, "Exited(Signal(9)) by Interrupt Some(2)");
    // It is still running and ignores the first two: the third signal ends it at once. `wait` would
    // close its input, and that would end it too.
    let _open = harness.stdin.take();
    // Not SIGHUP, which is ignored where the tests run under `nohup`.
    kill(harness.id(), Unix::TERM);
    assert_eq!(harness.wait().unwrap().signal(), Some(15));
    trial.no_process_is_left();
}

#[test]
fn a_killed_harness_takes_its_agents_with_it() {
    if !has("setsid") {
        return;
    }
    let trial = Trial::new();
    let mut harness = start_harness(&trial, ESCAPE, Duration::ZERO);
    let all = trial.marked();
    assert_eq!(all.len(), 4, "the shim, the agent and its children: {}", trial.names());
    kill(harness.id(), Unix::KILL);
    all_die(&all);
    harness.wait().unwrap();
    assert_eq!(trial.marked(), []);
    // The note is still there, and is now empty.
    let swept = sweep(&notes_dir(trial.dir.path()), Duration::ZERO).unwrap();
    assert_eq!((swept.jobs, swept.killed), (1, Vec::new()));
    trial.no_process_is_left();
}

/// Like git, it takes a moment to remove its locks when it is asked to end. A shell loop, because a
/// child process would be asked to end as well.
const TIDY: &str =
    "trap 'i=0; while [ $i -lt 50000 ]; do i=$((i + 1)); done; echo > tidy; exit' TERM
    echo > ready; while :; do sleep 0.02; done";

#[test]
fn agents_of_a_killed_harness_can_tidy_up() {
    let trial = Trial::new();
    let mut harness = start_harness(&trial, TIDY, PATIENT);
    let all = trial.marked();
    kill(harness.id(), Unix::KILL);
    harness.wait().unwrap();
    all_die(&all);
    assert!(trial.path("tidy").exists());
}

#[test]
fn a_sweep_asks_before_it_kills() {
    let trial = Trial::new();
    let mut harness = start_harness(&trial, TIDY, PATIENT);
    kill(harness.id(), Unix::KILL);
    harness.wait().unwrap();
    // The next harness starts while the agents of the last one are exiting.
    sweep(&notes_dir(trial.dir.path()), PATIENT).unwrap();
    assert_eq!(trial.marked(), []);
    assert!(trial.path("tidy").exists());
}

/// The kernel signals the death of a harness to its shim once per thread, and the control pipe
/// closes when all threads have ended; then the sweep of the next harness asks too. Together they
/// count as one request, not as a repeated one.
#[test]
fn death_signals_and_a_sweep_are_one_request() {
    let trial = Trial::new();
    let script =
        "trap 'echo > asked; while ! [ -e let_go ]; do sleep 0.02; done; echo > tidy; exit' TERM
        echo > ready; while :; do sleep 0.02; done";
    let mut harness = start_harness(&trial, script, PATIENT);
    let is_shim = |one: &Pid| parent_of(*one) == harness.id();
    let shim = number(trial.marked().into_iter().find(is_shim).unwrap());
    // The death signals of the kernel, while the control pipe is still open.
    kill(shim, Unix::USR1);
    trial.wait_for("asked");
    kill(shim, Unix::USR1);
    // Both arrive before the shim can handle either. A harness wakes its shims, so it is stopped as
    // well.
    kill(harness.id(), Unix::STOP);
    kill(shim, Unix::STOP);
    kill(harness.id(), Unix::KILL);
    harness.wait().unwrap();
    kill(shim, Unix::TERM);
    kill(shim, Unix::CONT);
    fs::write(trial.path("let_go"), "").unwrap();
    all_die(&[pid(shim)]);
    assert!(trial.path("tidy").exists(), "it was killed at once");
}

#[test]
fn a_killed_shim_is_noticed_and_its_job_swept_at_once() {
    if !has("setsid") {
        return;
    }
    let trial = Trial::new();
    let script = "mkfifo never; setsid sh -c 'echo > ready; read x < never' & read x < never";
    let running = trial.start(trial.sh(script));
    trial.wait_for("ready");
    kill(running.id, Unix::KILL);
    let finished = end(&running);
    let Ending::Lost(why) = &finished.ending else { panic!("{finished:?}") };
    assert!(why.contains("its supervisor was killed by signal 9"), "{why}");
    assert_eq!(finished.exit_code(), 125);
    trial.no_process_is_left();
}

#[test]
fn orphans_of_harness_and_shim_are_swept_at_the_next_start() {
    if !has("setsid") {
        return;
    }
    let trial = Trial::new();
    let mut harness = start_harness(&trial, ESCAPE, Duration::ZERO);
    let shim = parent_of(parent_of_escaped(&trial));
    // Stopped, the harness cannot sweep when it sees the shim die.
    kill(harness.id(), Unix::STOP);
    waitid(WaitId::Pid(pid(harness.id())), WaitIdOptions::STOPPED).unwrap();
    let agent: Vec<Pid> = trial.marked().into_iter().filter(|pid| leads(*pid, shim)).collect();
    assert_eq!(agent.len(), 1, "{}", trial.names());
    kill(shim, Unix::KILL);
    kill(harness.id(), Unix::KILL);
    harness.wait().unwrap();
    all_die(&agent);
    assert!(!trial.marked().is_empty(), "processes are left to be swept");
    // A sweep with the notes of another project leaves them alone.
    let other = Trial::new();
    assert_eq!(sweep(&notes_dir(other.dir.path()), Duration::ZERO).unwrap(), Default::default());
    assert!(!trial.marked().is_empty());

    let swept = sweep(&notes_dir(trial.dir.path()), Duration::ZERO).unwrap();
    assert_eq!(swept.jobs, 1);
    assert!(!swept.killed.is_empty());
    trial.no_process_is_left();
}

#[test]
fn a_sweep_leaves_the_jobs_of_a_living_harness_alone() {
    let trial = Trial::new();
    // It stops itself: during exec a process shows no variables.
    let running = trial.start(trial.sh("echo > ready; kill -STOP $$"));
    trial.wait_for("ready");
    let before = trial.marked();
    assert_eq!(sweep(&notes_dir(trial.dir.path()), Duration::ZERO).unwrap(), Default::default());
    assert_eq!(trial.marked(), before);
    running.signals.send(Signal::Kill).unwrap();
    assert_eq!(end(&running).ending, ended_by(SIGKILL));
    trial.no_process_is_left();
}

#[test]
fn a_shim_typed_by_hand_without_an_order_just_ends() {
    let status = Command::new(env!("CARGO_BIN_EXE_autoloop"))
        .arg("__shim")
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn an_agent_that_stops_its_shim_gains_no_time() {
    let trial = Trial::new();
    let job = trial.sh("kill -STOP $PPID; sleep 590");
    let finished = trial.run(short_grace(deadline(job, 500)));
    assert!(finished.timed_out());
    assert!(finished.elapsed < Duration::from_secs(300), "{:?}", finished.elapsed);
}
