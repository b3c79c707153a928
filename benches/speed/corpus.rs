//! Big journals that look like real ones, the same every time.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use autoloop_core::record::{
    Amount, BackendFinish, BackendStart, Heading, IterationFinish, IterationStart, LoopComplete,
    LoopStart, LoopStop, Record, print,
};
use autoloop_core::timestamp::Timestamp;
use autoloop_core::topic::Topic;
use autoloop_testkit::{Dice, Seed};

use crate::Fallible;
use crate::prose::Prose;

/// The run that rows emit for.
pub(crate) const RUN: &str = "swift-otter";

const SEED: Seed = Seed(0x0061_7574_6f6c_6f6f);
/// 2026-11-15T00:00:00Z
const FIRST_DAY: i64 = 1_794_700_800_000;

/// A kind of journal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Corpus {
    /// Run after run of whole iterations: prompts of 6 to 20 kB, outputs of 2 to 20 kB written twice,
    /// a few events of agents.
    Mixed,
    /// One endless run of short events; its only `loop.start` is the first record.
    Small,
}

impl Corpus {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Corpus::Mixed => "mixed",
            Corpus::Small => "small",
        }
    }
}

/// Writes at least that many bytes, and waits until they are on the disk: writing them back must
/// not be measured.
pub(crate) fn write(corpus: Corpus, path: &Path, bytes: u64) -> Fallible<()> {
    let mut out = Output {
        file: BufWriter::with_capacity(1 << 20, File::create(path)?),
        line: Vec::new(),
        written: 0,
    };
    let mut writer = Chronicle::new();
    match corpus {
        Corpus::Mixed => {
            while out.written < bytes {
                writer.run(&mut out)?;
            }
        }
        Corpus::Small => writer.endless_run(&mut out, bytes)?,
    }
    out.file.into_inner()?.sync_all()?;
    Ok(())
}

/// A heading in the run that rows emit for.
pub(crate) fn heading(moment: i64) -> Heading {
    Heading {
        run: RUN.to_owned(),
        iteration: "3".to_owned(),
        now: Timestamp::from_millis(FIRST_DAY + moment),
    }
}

struct Output {
    file: BufWriter<File>,
    line: Vec<u8>,
    written: u64,
}

impl Output {
    fn put(&mut self, record: &Record) -> io::Result<()> {
        self.line.clear();
        print(record, &mut self.line);
        self.written += self.line.len() as u64;
        self.file.write_all(&self.line)
    }
}

/// Generates the records.
struct Chronicle {
    dice: Dice,
    prose: Prose,
    runs: u64,
    moment: i64,
}

const ROLES: [(&str, &str); 4] = [
    ("planner", "tasks.ready"),
    ("builder", "review.ready"),
    ("critic", "review.rejected"),
    ("finalizer", "queue.advance"),
];

impl Chronicle {
    fn new() -> Self {
        let mut dice = SEED.dice();
        let prose = Prose::new(&mut dice);
        Chronicle { dice, prose, runs: 0, moment: 0 }
    }

    fn heading(&mut self, iteration: u64) -> Heading {
        self.moment += i64::try_from(self.dice.below(20_000)).unwrap_or(0);
        let run = format!("run-{:04}", self.runs);
        let iteration = if iteration == 0 { String::new() } else { iteration.to_string() };
        Heading { run, iteration, ..heading(self.moment) }
    }

    fn run(&mut self, out: &mut Output) -> io::Result<()> {
        self.runs += 1;
        self.begin(out)?;
        let iterations = 20 + self.dice.below(140);
        for iteration in 1..=iterations {
            self.iteration(iteration, out)?;
        }
        let heading = self.heading(0);
        let end = if self.dice.chance(2, 3) {
            LoopComplete { reason: "completion_event".into() }.record(&heading)
        } else {
            let reason = "max_iterations".into();
            LoopStop { reason, max_iterations: Some(iterations), ..LoopStop::default() }
                .record(&heading)
        };
        out.put(&end)
    }

    fn begin(&mut self, out: &mut Output) -> io::Result<()> {
        let start = LoopStart {
            max_iterations: 160,
            completion_promise: "LOOP_COMPLETE".to_owned(),
            completion_event: "task.complete".to_owned(),
            review_every: 5,
            objective: self.prose.text(&mut self.dice, 400),
            ..LoopStart::default()
        };
        out.put(&start.record(&self.heading(0)))
    }

    fn iteration(&mut self, number: u64, out: &mut Output) -> io::Result<()> {
        let (role, event) = *self.dice.pick(&ROLES);
        let prompt = 6_000 + self.dice.index(14_000);
        let start = IterationStart {
            recent_event: "loop.start".to_owned(),
            suggested_roles: role.to_owned(),
            allowed_events: format!("{event},build.blocked"),
            backpressure: String::new(),
            prompt: self.prose.text(&mut self.dice, prompt).into(),
        };
        out.put(&start.record(&self.heading(number)))?;
        let backend = BackendStart {
            backend_kind: "command".into(),
            command: "agent --print --model large".to_owned(),
            prompt_mode: "stdin".to_owned(),
            timeout_ms: 300_000,
            prompt_detour: None,
        };
        out.put(&backend.record(&self.heading(number)))?;
        for _ in 0..self.dice.below(3) {
            self.event("slice.verified", number, out)?;
        }
        self.event(event, number, out)?;
        let length = 2_000 + self.dice.index(18_000);
        let output = self.prose.text(&mut self.dice, length);
        let (exit_code, timed_out) = (i32::from(self.dice.chance(1, 20)), false);
        let finish = BackendFinish {
            exit_code: exit_code.into(),
            timed_out,
            output: output.clone().into(),
            ..BackendFinish::default()
        };
        out.put(&finish.record(&self.heading(number)))?;
        let elapsed_s = Some(Amount(20 + self.dice.below(400)));
        let end = IterationFinish {
            exit_code: exit_code.into(),
            timed_out: Some(timed_out),
            ..IterationFinish::default()
        };
        let finish = IterationFinish { elapsed_s, output: output.into(), ..end };
        out.put(&finish.record(&self.heading(number)))
    }

    fn event(&mut self, topic: &str, iteration: u64, out: &mut Output) -> io::Result<()> {
        let length = 40 + self.dice.index(300);
        let payload = self.prose.text(&mut self.dice, length);
        out.put(&self.heading(iteration).agent(Topic::new(topic), payload))
    }

    fn endless_run(&mut self, out: &mut Output, bytes: u64) -> io::Result<()> {
        self.begin(out)?;
        for number in 1.. {
            if out.written >= bytes {
                break;
            }
            let heading = self.heading(number);
            let roles = "builder".to_owned();
            let start = IterationStart { suggested_roles: roles, ..IterationStart::default() };
            out.put(&start.record(&heading))?;
            for _ in 0..400 {
                let (_, event) = *self.dice.pick(&ROLES);
                self.event(event, number, out)?;
            }
            let elapsed_s = Some(Amount(self.dice.below(400)));
            out.put(&IterationFinish { elapsed_s, ..IterationFinish::default() }.record(&heading))?;
        }
        Ok(())
    }
}
