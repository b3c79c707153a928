//! What the harness adds to parallel branches.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use autoloop_core::timestamp::Timestamp;

use crate::Fallible;
use crate::bench::{Bench, Case, Project};
use crate::options::Effort;
use crate::peak::peak_now;
use crate::table::{Finding, Quantity, Reach};
use crate::timing::{alternate, process};

/// A run that uses all its iterations is stopped, not completed.
const STOPPED: i32 = 1;
/// How often a harness is sampled.
const GLANCE: Duration = Duration::from_millis(5);

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "wave-32",
        what: "32 branches that sleep 1 s, to the join",
        against: "sh: 32 shells that sleep 1 s, at once",
        reach: Reach::Above(Duration::from_millis(1_300)),
        measure: at_once,
    },
    Case {
        name: "wave-200-memory",
        what: "peak memory of the harness, 200 branches",
        against: "–",
        reach: Reach::Inside(64_000_000),
        measure: |bench| Ok(Finding::alone(Quantity::Bytes(many(bench)?.memory))),
    },
    Case {
        name: "wave-200-files",
        what: "open files of the harness, 200 branches",
        against: "–",
        reach: Reach::AsMany(1_000),
        measure: |bench| Ok(Finding::alone(Quantity::Count(many(bench)?.files))),
    },
];

fn at_once(bench: &Bench) -> Fallible<Finding> {
    const BRANCHES: u32 = 32;
    let project = Waves::new(bench, "wave-32", BRANCHES)?;
    let mut floor = Command::new("sh");
    let script = format!(
        "i=0; while [ $i -lt {BRANCHES} ]; do sh -c 'sleep 1; true' & i=$((i+1)); done; wait"
    );
    floor.args(["-c", &script]);
    let rounds = bench.rounds();
    let [ours, theirs] = alternate(rounds, || project.time_to_join(), || process(&mut floor))?;
    Ok(Finding { ours: Quantity::Time(ours), theirs: Some(Quantity::Time(theirs)) })
}

/// Watches a wave of many branches.
fn many(bench: &Bench) -> Fallible<Peak> {
    let branches = match bench.effort {
        Effort::Full => 200,
        Effort::Quick => 20,
    };
    Waves::new(bench, "wave-200", branches)?.watch()
}

/// A project whose agent requests a wave of sleeping branches.
struct Waves {
    project: Project,
}

/// The peak values of a harness.
#[derive(Clone, Copy, Default)]
struct Peak {
    memory: u64,
    files: u64,
}

impl Waves {
    fn new(bench: &Bench, name: &str, branches: u32) -> Fallible<Waves> {
        let project = bench.project(name)?;
        let list: String = (1..=branches).map(|number| format!("- part {number}\n")).collect();
        let file = |name: &str, text: &str| fs::write(project.dir().join(name), text);
        file("list", &list)?;
        file(
            "agent.sh",
            "case $AUTOLOOP_RUN_ID in *-wave-*) exec sleep 1;; esac\n\
             [ $AUTOLOOP_ITERATION != 1 ] || \"$AUTOLOOP_BIN\" emit explore.parallel --file list\n",
        )?;
        let settings = format!(
            "[backend]\nkind = \"command\"\ncommand = \"sh\"\nargs = [\"agent.sh\"]\n\
             prompt_mode = \"stdin\"\n\
             [parallel]\nenabled = true\nmax_branches = {branches}\n[review]\nenabled = false\n"
        );
        file("autoloops.toml", &settings)?;
        Ok(Waves { project })
    }

    fn start(&self) -> io::Result<Child> {
        Command::new(env!("CARGO_BIN_EXE_autoloop"))
            .args(["run", ".", "-i", "2", "look into it"])
            .current_dir(self.project.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }

    /// The time of a wave by its own records: from its start until all branches have ended.
    fn time_to_join(&self) -> Fallible<Duration> {
        remove_if_there(self.project.journal())?;
        ended(self.start()?.wait()?.code())?;
        let journal = fs::read_to_string(self.project.journal())?;
        let [begin, end] = ["wave.start", "wave.join.start"].map(|topic| moment(&journal, topic));
        let millis = u64::try_from(end?.millis() - begin?.millis())?;
        Ok(Duration::from_millis(millis))
    }

    fn watch(&self) -> Fallible<Peak> {
        let mut child = self.start()?;
        let mut peak = Peak::default();
        loop {
            if let Some(status) = child.try_wait()? {
                ended(status.code())?;
                return Ok(peak);
            }
            // It may end between two samples.
            if let (Ok(memory), Ok(open)) = (peak_now(child.id()), open_files(child.id())) {
                peak = Peak { memory: peak.memory.max(memory), files: peak.files.max(open) };
            }
            std::thread::sleep(GLANCE);
        }
    }
}

fn ended(code: Option<i32>) -> Fallible<()> {
    match code {
        Some(STOPPED) => Ok(()),
        code => Err(format!("the run ended with {code:?}").into()),
    }
}

fn remove_if_there(path: PathBuf) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn open_files(process: u32) -> io::Result<u64> {
    Ok(fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64)
}

/// When the first record of a topic was written.
fn moment(journal: &str, topic: &str) -> Fallible<Timestamp> {
    let wanted = format!("\"topic\": \"{topic}\"");
    let line = journal.lines().find(|line| line.contains(&wanted));
    let stamp = line.and_then(|line| line.split_once("\"ts\": \"")?.1.split('"').next());
    Ok(stamp.ok_or_else(|| format!("there is no {topic}"))?.parse()?)
}
