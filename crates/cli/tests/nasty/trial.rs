//! One job in a temporary directory, and what the system reports about its processes.

use super::*;

pub(crate) fn world() -> World {
    let spawner = OsSpawner::through(env!("CARGO_BIN_EXE_autoloop"));
    World { spawner: Arc::new(spawner), ..World::real() }
}

/// Long enough for anything an agent does before it ends, on any machine.
pub(crate) const PATIENT: Duration = Duration::from_secs(60);

/// A directory for one job, and the parts of its job.
pub(crate) struct Trial {
    pub(crate) dir: TempDir,
    pub(crate) token: String,
}

impl Trial {
    pub(crate) fn new() -> Self {
        Trial { dir: tempfile::tempdir().unwrap(), token: token(&OsEntropy) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn job(&self, program: impl AsRef<Path>) -> Job {
        Job {
            program: program.as_ref().into(),
            dir: Some(self.dir.path().to_owned()),
            token: self.token.clone(),
            notes: Some(notes_dir(self.dir.path())),
            spool: Some(Spool { stdout: self.path("out"), stderr: self.path("err") }),
            // A healthy job never reaches either, however busy the machine is.
            limits: Limits {
                deadline: Some(Duration::from_secs(600)),
                grace: PATIENT,
                orphan_grace: PATIENT,
                crash_grace: PATIENT,
                ..Limits::default()
            },
            ..Job::default()
        }
    }

    pub(crate) fn sh(&self, script: &str) -> Job {
        Job { args: vec!["-c".into(), script.into()], ..self.job("/bin/sh") }
    }

    /// Runs a job to its end, and checks that no process is left.
    pub(crate) fn run(&self, job: Job) -> Finished {
        let finished = process::run(job, &world(), &Interrupts::default());
        self.no_process_is_left();
        finished
    }

    pub(crate) fn start(&self, job: Job) -> Running {
        world().spawner.spawn(job).unwrap()
    }

    pub(crate) fn no_process_is_left(&self) {
        assert_eq!(self.marked(), [], "still there: {}", self.names());
        let notes = fs::read_dir(notes_dir(self.dir.path())).into_iter().flatten().count();
        assert_eq!(notes, 0, "a note is left");
    }

    /// All processes that carry the token, including shims.
    pub(crate) fn marked(&self) -> Vec<Pid> {
        let mark = format!("{TOKEN}={}", self.token).into_bytes();
        let ids = fs::read_dir("/proc").unwrap().flatten();
        let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id: &i32| {
            fs::read(format!("/proc/{id}/environ"))
                .is_ok_and(|vars| vars.split(|byte| *byte == 0).any(|var| var == mark))
        })
        .filter_map(Pid::from_raw)
        .collect()
    }

    pub(crate) fn names(&self) -> String {
        let line = |pid: Pid| fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
        self.marked().into_iter().filter_map(|pid| line(pid).ok()).collect::<Vec<_>>().join("; ")
    }

    /// Waits until a file exists.
    pub(crate) fn wait_for(&self, name: &str) {
        let path = self.path(name);
        let mut watch = RealDisk.watch(&path).unwrap();
        let clock = SystemClock::default();
        while !path.exists() {
            assert!(clock.elapsed() < Duration::from_secs(300), "{name} never came");
            watch.changed(Duration::from_secs(1)).unwrap();
        }
    }
}

pub(crate) fn end(running: &Running) -> Finished {
    running.finished.iter().last().expect("the end is reported")
}

pub(crate) fn code(finished: &Finished) -> i32 {
    match finished.ending {
        Ending::Exited(Exit::Code(code)) => code,
        ref other => panic!("ended by {other:?}, said {}", finished.stderr.text()),
    }
}

pub(crate) fn ended_by(signal: i32) -> Ending {
    Ending::Exited(Exit::Signal(signal))
}

pub(crate) fn never_started(finished: &Finished) -> &str {
    match &finished.ending {
        Ending::NeverStarted(why) => &why.message,
        other => panic!("ended by {other:?}"),
    }
}

/// Whether a program is installed; a test that needs it prints that it is missing and passes.
pub(crate) fn has(program: &str) -> bool {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|dir| dir.join(program).exists());
    if !found {
        eprintln!("SKIPPED: this machine has no {program}");
    }
    found
}

pub(crate) fn deadline(job: Job, millis: u64) -> Job {
    let limits = Limits { deadline: Some(Duration::from_millis(millis)), ..job.limits };
    Job { limits, ..job }
}

/// For jobs that do not end before they are killed.
pub(crate) fn short_grace(job: Job) -> Job {
    let limits = Limits { grace: Duration::from_millis(300), ..job.limits };
    Job { limits, ..job }
}

/// Runs a job whose deadline passes as soon as the job is ready.
pub(crate) fn run_late(job: impl Fn(&Trial) -> Job) -> Finished {
    meet_a_limit(|millis| {
        let trial = Trial::new();
        let finished = trial.run(deadline(job(&trial), millis));
        assert!(finished.timed_out(), "{finished:?}");
        trial.path("ready").exists().then_some(finished)
    })
}

// How jobs end.

pub(crate) fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
}

pub(crate) fn kill(id: u32, signal: Unix) {
    kill_process(pid(id), signal).unwrap();
}

/// Waits for processes to end, all of which would run for longer than the wait.
pub(crate) fn all_die(all: &[Pid]) {
    let within = Timespec::try_from(Duration::from_secs(120)).unwrap();
    for one in all {
        let Ok(held) = pidfd_open(*one, PidfdFlags::empty()) else { continue };
        let ended = poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&within)).unwrap();
        assert_eq!(ended, 1, "process {one:?} is still there");
    }
}

pub(crate) fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().cast_unsigned()
}

/// One field of `/proc/<pid>/stat`, counted after the name. A group or session led from outside our
/// process namespace (a container's) is numbered 0 there, so these are not all process ids.
pub(crate) fn stat(pid: Pid, field: usize) -> u32 {
    let text = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    let (_, fields) = text.rsplit_once(')').unwrap();
    fields.split_whitespace().nth(field).unwrap().parse().unwrap()
}

pub(crate) fn parent_of(child: Pid) -> u32 {
    stat(child, 1)
}

/// Whether a process is a child of the shim and leads a group.
pub(crate) fn leads(candidate: Pid, shim: u32) -> bool {
    parent_of(candidate) == shim && stat(candidate, 2) == number(candidate)
}

/// The agent: the parent of the process that leads its own session.
pub(crate) fn parent_of_escaped(trial: &Trial) -> Pid {
    let escaped = |one: &Pid| stat(*one, 3) == number(*one);
    let escaped = trial.marked().into_iter().find(escaped).expect("a process has escaped");
    pid(parent_of(escaped))
}

pub(crate) fn peak_of_memory(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
