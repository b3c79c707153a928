//! The process with its own mounts: creates the disk, has it written to, cuts the power.

use std::path::{Path, PathBuf};
use std::process::Command;

use autoloop_runtime::journal::Durability;
use autoloop_runtime::world::{Clock, SystemClock};
use autoloop_testkit::Seed;

use crate::Experiment;
use crate::disk::{DISK, Disk};
use crate::examine::{Findings, Problem, examine};
use crate::recording::{Cut, Event, Recording};
use crate::stage::{self, attempt, run};
use crate::workload::Workload;

/// Small, because every state is a copy of it; ext4 wants a few megabytes for a journal.
const DISK_SIZE: u64 = 16 * 1024 * 1024;
/// Where the disk is served.
pub(crate) const SERVED: &str = "served";
/// Where it is mounted while it is written to.
pub(crate) const LIVE: &str = "live";
/// Where a disk is mounted after a cut.
const AFTER: &str = "after";

/// Does one experiment, in an empty directory.
pub(crate) fn experiment(experiment: &Experiment, seed: Seed, dir: &Path) {
    stage::die_with_parent();
    let clock = SystemClock::default();
    // In memory, so that a hundred small disks cost no time on a large one.
    run(Command::new("mount").args(["-n", "-t", "tmpfs", "tmpfs"]).arg(dir));
    for name in [SERVED, LIVE, AFTER] {
        std::fs::create_dir(dir.join(name)).expect("the directory is empty and ours");
    }
    let recording = record(experiment, seed, dir);
    let cuts = recording.cuts(experiment.states, &mut seed.dice());
    assert_eq!(cuts.len(), experiment.states, "the recording is too short for that many cuts");

    let lab = Lab { experiment, dir, recording, workload: Workload::new(seed) };
    let mut states = Vec::new();
    for cut in &cuts {
        match lab.look_after(cut) {
            Ok(findings) => states.push(findings),
            Err(problem) => {
                let kept = lab.keep(cut);
                panic!("{problem}\nseed {seed}, {cut:?}\nthe disk is kept: {}", kept.display());
            }
        }
    }
    let seconds = clock.elapsed().as_secs_f32();
    let summary = summary(&lab.recording, &states);
    stage::say(&format!(
        "power cut: {} (seed {seed}, {seconds:.1} s): {summary}\n",
        experiment.test
    ));
    if experiment.durability == Durability::Cached {
        assert!(states.iter().any(|state| state.lost > 0), "nothing was lost without syncs");
    }
}

/// What all cuts have in common.
struct Lab<'a> {
    experiment: &'a Experiment,
    dir: &'a Path,
    recording: Recording,
    workload: Workload,
}

impl Lab<'_> {
    /// Mounts the disk that a cut left, and looks at the journal on it.
    fn look_after(&self, cut: &Cut) -> Result<Findings, Problem> {
        let image = self.dir.join("image");
        std::fs::write(&image, self.recording.disk(cut)).expect("there is room for it");
        let acknowledged = self.recording.acknowledged(cut);
        let mounted = Mounted::mount(&image, &self.dir.join(AFTER), self.experiment.mount)?;
        let findings = examine(&mounted.0, &self.workload, &acknowledged)?;
        match self.experiment.durability {
            Durability::Synced if findings.lost > 0 => {
                let count = acknowledged.len();
                Err(format!("{} of {count} acknowledged records are lost", findings.lost))
            }
            Durability::Synced | Durability::Cached => Ok(findings),
        }
    }

    /// Puts the disk that a cut left where it outlives the test.
    fn keep(&self, cut: &Cut) -> PathBuf {
        let name = format!("power-cut-{}.img", self.experiment.test);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, self.recording.disk(cut)).expect("the target directory is ours");
        path
    }
}

/// Has the disk written to, and returns all that happened to it.
fn record(experiment: &Experiment, seed: Seed, dir: &Path) -> Recording {
    let image = dir.join("image");
    let file = std::fs::File::create(&image).expect("the directory is ours");
    file.set_len(DISK_SIZE).expect("a file of holes takes no room");
    // Everything is initialised at once: what the kernel does later would be noise in the recording.
    run(Command::new("mkfs.ext4")
        .args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
        .args(experiment.mkfs)
        .arg(&image));
    let base = std::fs::read(&image).expect("it was just made");
    let disk =
        Disk::serve(base, &dir.join(SERVED)).expect("who may mount a loop device may mount this");
    {
        let served = dir.join(SERVED).join(DISK);
        let _mounted = Mounted::mount(&served, &dir.join(LIVE), experiment.mount)
            .expect("a new file system can be mounted");
        stage::run_writer(experiment, seed, dir);
    }
    disk.finish()
}

/// A mounted image.
struct Mounted(PathBuf);

impl Mounted {
    fn mount(image: &Path, at: &Path, options: &str) -> Result<Mounted, Problem> {
        let options = format!("loop,{options}");
        let mut mount = Command::new("mount");
        mount.args(["-n", "-t", "ext4", "-o", &options]).arg(image).arg(at);
        attempt(&mut mount).map(|()| Mounted(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let mut umount = Command::new("umount");
        umount.arg("-n").arg(&self.0);
        let outcome = attempt(&mut umount);
        // After a panic the namespace is about to end, and the mount with it.
        assert!(outcome.is_ok() || std::thread::panicking(), "{outcome:?}");
    }
}

fn summary(recording: &Recording, states: &[Findings]) -> String {
    let count = |is_so: fn(&Findings) -> bool| states.iter().filter(|state| is_so(state)).count();
    format!(
        "{} states out of {} writes, {} flushes and {} acknowledgements: {} lost acknowledged \
         records, {} held others, {} had a torn line, {} junk, {} a view that was kept",
        states.len(),
        recording.count(|event| matches!(event, Event::Write { .. })),
        recording.count(|event| matches!(event, Event::Flush)),
        recording.count(|event| matches!(event, Event::Acknowledged(_))),
        count(|state| state.lost > 0),
        count(|state| state.unacknowledged > 0),
        count(|state| state.torn),
        count(|state| state.junk),
        count(|state| state.kept_view),
    )
}
