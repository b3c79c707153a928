//! The three processes of an experiment, and what they need.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use autoloop_testkit::{Seed, simulate};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, geteuid, pidfd_open, set_parent_process_death_signal,
};

use crate::Experiment;
use crate::examine::Problem;

/// How long a lab may take. On an idle machine it needs a hundredth of it.
const DEADLINE: Duration = Duration::from_secs(1800);
/// Which stage a process is.
const STAGE: &str = "AUTOLOOP_POWER_CUT_STAGE";
/// Its seed.
const SEED: &str = "AUTOLOOP_POWER_CUT_SEED";
/// The directory it works in.
const DIR: &str = "AUTOLOOP_POWER_CUT_DIR";
/// `required` makes a failure of what would otherwise be skipped.
const WISH: &str = "AUTOLOOP_POWER_CUT";

/// What a process is there for.
pub(crate) enum Stage {
    /// To see to it that everything ends.
    Test,
    /// To serve the disk and to cut the power.
    Lab {
        /// From which everything follows.
        seed: Seed,
        /// Where it works.
        dir: PathBuf,
    },
    /// To write.
    Writer {
        /// From which the records follow.
        seed: Seed,
        /// The directory of its lab.
        dir: PathBuf,
    },
}

impl Stage {
    /// The stage that this process was started for.
    pub(crate) fn of_this_process() -> Stage {
        let Ok(stage) = env::var(STAGE) else { return Stage::Test };
        let variable = |name| env::var(name).expect("it is set together with the stage");
        let seed = Seed(variable(SEED).parse().expect("a seed is a number"));
        let dir = PathBuf::from(variable(DIR));
        match stage.as_str() {
            "lab" => Stage::Lab { seed, dir },
            "writer" => Stage::Writer { seed, dir },
            _ => panic!("{STAGE} is for the test itself to set"),
        }
    }

    /// Has a command that starts this executable run the same test for this stage.
    fn enter(&self, command: &mut Command, experiment: &Experiment) {
        let (stage, seed, dir) = match self {
            Stage::Test => return,
            Stage::Lab { seed, dir } => ("lab", seed, dir),
            Stage::Writer { seed, dir } => ("writer", seed, dir),
        };
        command.args(["--exact", experiment.test, "--nocapture"]);
        command.env(STAGE, stage).env(SEED, seed.0.to_string()).env(DIR, dir);
    }
}

/// Starts a lab for each seed, or says why there can be none.
pub(crate) fn start_labs(experiment: &Experiment) {
    match obstacle() {
        None => simulate(experiment.test, 1, |seed, _| start_lab(experiment, seed)),
        Some(why) if env::var(WISH).is_ok_and(|wish| wish == "required") => {
            panic!("{WISH}=required, but {why}")
        }
        Some(why) => say(&format!("SKIPPED {}: {why}\n", experiment.test)),
    }
}

fn start_lab(experiment: &Experiment, seed: Seed) {
    let dir = tempfile::tempdir().expect("there is a directory for temporary files");
    let said = tempfile::tempfile().expect("there is a directory for temporary files");
    let errors = said.try_clone().expect("a file can be opened twice");
    let mut lab = Command::new("unshare");
    lab.args(["--mount", "--propagation", "private"]).arg(this_executable());
    Stage::Lab { seed, dir: dir.path().to_owned() }.enter(&mut lab, experiment);
    lab.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let status = wait(lab.spawn().expect("unshare has just been tried"));
    let said = read_back(said);
    assert!(status.success(), "the lab, which has {DEADLINE:?}, ended with {status}:\n{said}");
    say(&said);
}

/// Has the records written, in the namespace of the lab.
pub(crate) fn run_writer(experiment: &Experiment, seed: Seed, dir: &Path) {
    let mut writer = Command::new(this_executable());
    Stage::Writer { seed, dir: dir.to_owned() }.enter(&mut writer, experiment);
    run(&mut writer);
}

fn this_executable() -> PathBuf {
    env::current_exe().expect("a running test has an executable")
}

/// Ends this process together with the one that started it, because no other process would end it.
pub(crate) fn die_with_parent() {
    set_parent_process_death_signal(Some(Signal::KILL)).expect("the signal is one");
}

/// Waits for a process, and kills it when it takes too long.
fn wait(mut child: Child) -> ExitStatus {
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
        .expect("a child that was not waited for is there");
    let limit = Timespec::try_from(DEADLINE).expect("it is short");
    let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit));
    if ended != Ok(1) {
        child.kill().expect("a child can be killed");
    }
    child.wait().expect("a child can be waited for")
}

/// Runs a command that has to succeed.
pub(crate) fn run(command: &mut Command) {
    if let Err(why) = attempt(command) {
        panic!("{why}");
    }
}

/// Runs a command, and says what went wrong.
pub(crate) fn attempt(command: &mut Command) -> Result<(), Problem> {
    let name = command.get_program().display().to_string();
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(format!("{name} ended with {}: {}", output.status, in_one_line(&errors)))
        }
    }
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What stands in the way of an experiment on this machine, found by trying.
fn obstacle() -> Option<String> {
    if !geteuid().is_root() {
        return Some("only root may mount".to_owned());
    }
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        return Some(format!("/dev/fuse: {error}"));
    }
    let dir = tempfile::tempdir().expect("there is a directory for temporary files");
    let image = dir.path().join("image");
    let mounted = dir.path().join("mounted");
    File::create(&image).and_then(|file| file.set_len(1 << 20)).expect("the directory is ours");
    std::fs::create_dir(&mounted).expect("the directory is ours");
    // The mount goes away with the namespace of the command.
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "--propagation", "private", "mount", "-n", "-o", "loop"])
        .args([&image, &mounted]);
    attempt(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))
        .and_then(|()| attempt(&mut unshare))
        .err()
}

/// Prints to the terminal past the capture of the test harness.
pub(crate) fn say(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).expect("standard error is open");
}

fn read_back(mut file: File) -> String {
    use std::io::{Read, Seek};

    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("it is a file of ours");
    text
}
