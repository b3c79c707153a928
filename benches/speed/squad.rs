//! What the harness of a squad takes for itself: a hundred loops whose agents do nothing.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Fallible;
use crate::bench::{Bench, Case};
use crate::peak::{Taken, taken};
use crate::table::{Finding, Quantity, Reach};
use crate::timing::process;

const LOOPS: u32 = 100;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "squad-cpu",
        what: "CPU of the harness of a squad of 100 loops, for one of them",
        against: "–",
        reach: Reach::Within(Duration::from_millis(10)),
        measure: |bench| {
            let Taken { cpu, .. } = squad(bench)?;
            Ok(Finding::alone(Quantity::Time(cpu / LOOPS)))
        },
    },
    Case {
        name: "squad-memory",
        what: "peak memory of the same harness",
        against: "–",
        reach: Reach::Inside(150_000_000),
        measure: |bench| Ok(Finding::alone(Quantity::Bytes(squad(bench)?.peak))),
    },
];

/// Completes and passes everything.
const AGENT: &str = r#"case "$AUTOLOOP_PHASE $AUTOLOOP_LOOP_ID" in
build*) "$AUTOLOOP_BIN" mcp call complete_task ;;
"review ") "$AUTOLOOP_BIN" mcp call set_review_result '{"passed":true}' ;;
*) "$AUTOLOOP_BIN" mcp call set_loop_review_result "{\"loopId\":\"$AUTOLOOP_LOOP_ID\",\"passed\":true}" ;;
esac
"#;

fn squad(bench: &Bench) -> Fallible<Taken> {
    let dir = project(bench)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_autoloop"));
    command.args(["squad", "--plan", "plan.toml", "--effort", "low", "--no-watch"]);
    command.current_dir(&dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let taken = taken(&mut command);
    fs::remove_dir_all(dir)?;
    taken
}

/// A repository with a plan of one group.
fn project(bench: &Bench) -> Fallible<PathBuf> {
    let dir = bench.project("squad")?.dir().to_owned();
    let mut plan = String::new();
    for number in 0..LOOPS {
        writeln!(plan, "[[task]]\nid = \"t{number}\"\ntitle = \"task {number}\"")?;
    }
    let ids: Vec<String> = (0..LOOPS).map(|number| format!("t{number}")).collect();
    writeln!(plan, "[[group]]\ntasks = {ids:?}")?;
    fs::write(dir.join("plan.toml"), plan)?;
    let agent = dir.join("agent.sh");
    fs::write(&agent, AGENT)?;
    let settings = format!("[backend]\ncommand = \"sh\"\nargs = [{agent:?}]\n");
    fs::write(dir.join("autoloops.toml"), settings)?;
    let who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
    let commit = ["commit", "-q", "-m", "begin"];
    for words in [&["init", "-q"][..], &["add", "."], &[&who[..], &commit].concat()] {
        process(Command::new("git").args(words).current_dir(&dir))?;
    }
    for (key, value) in [("user.name", "bench"), ("user.email", "bench@localhost")] {
        process(Command::new("git").args(["config", key, value]).current_dir(&dir))?;
    }
    Ok(dir)
}
