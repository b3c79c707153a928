//! What happens in the demo, scene by scene.

use std::fs::OpenOptions;
use std::io::Write;

use autoloop_core::record::{
    IterationFinish, IterationStart, LoopComplete, LoopStart, Seconds, print,
};
use autoloop_core::topic::Topic;
use autoloop_runtime::world::Exit;

use super::{Stage, finish};
use crate::failure::Failure;

/// How many agents emit at the same time.
const CROWD: usize = 8;

pub(super) fn tell(stage: &Stage<'_>) -> Result<(), Failure> {
    open(stage)?;
    emit_together(stage)?;
    emit_what_is_not_allowed(stage)?;
    die_in_the_middle(stage)?;
    close(stage)
}

fn open(stage: &Stage<'_>) -> Result<(), Failure> {
    stage.say(&format!(
        "1. Run {} begins; its records are on the disk, not only in a cache.",
        stage.run
    ))?;
    let begin = LoopStart {
        max_iterations: 2,
        completion_promise: "LOOP_COMPLETE".into(),
        completion_event: "task.complete".into(),
        review_every: 0,
        objective: "write a parser".into(),
        ..LoopStart::default()
    };
    let plan = IterationStart {
        recent_event: "loop.start".into(),
        suggested_roles: "planner".into(),
        allowed_events: "tasks.ready".into(),
        ..IterationStart::default()
    };
    stage.append(vec![begin.record(&stage.heading(0)), plan.record(&stage.heading(1))])
}

fn emit_together(stage: &Stage<'_>) -> Result<(), Failure> {
    stage
        .say(&format!("2. {CROWD} agents, each a process of its own, emit at the same moment."))?;
    let agents: Vec<_> = (1..=CROWD)
        .map(|number| {
            let payload = format!("id=slice-{number}; description=part {number} of the parser;");
            stage.start_agent(1, &["tasks.ready"], &["slice.started", &payload])
        })
        .collect::<Result<_, _>>()?;
    for agent in &agents {
        expect_code(finish(agent), 0)?;
    }
    Ok(())
}

fn emit_what_is_not_allowed(stage: &Stage<'_>) -> Result<(), Failure> {
    let agent =
        stage.start_agent(1, &["tasks.ready"], &["task.complete", "I am done, trust me"])?;
    let told = expect_code(finish(&agent), 3)?;
    stage.say(&format!(
        "3. One of them declares itself done. It is refused, and told why:\n   {told}"
    ))?;
    let agent = stage.start_agent(1, &["tasks.ready"], &["tasks.ready", "eight slices"])?;
    expect_code(finish(&agent), 0)?;
    Ok(())
}

fn die_in_the_middle(stage: &Stage<'_>) -> Result<(), Failure> {
    stage.say("4. A writer is killed in the middle of a record: half a line is left behind.")?;
    let mut line = Vec::new();
    print(&stage.heading(1).agent(Topic::new("slice.verified"), "id=slice-1;"), &mut line);
    OpenOptions::new()
        .append(true)
        .open(stage.journal.path())
        .and_then(|mut file| file.write_all(&line[..line.len() / 2]))
        .map_err(|error| Failure::failed(format!("cannot play the victim: {error}")))?;

    stage.say("5. The next writer ends that line, says so on record, and nothing else is lost.")?;
    let finish_plan = IterationFinish { elapsed_s: Seconds(1), ..IterationFinish::default() };
    let build = IterationStart {
        recent_event: "tasks.ready".into(),
        suggested_roles: "builder".into(),
        allowed_events: "task.complete".into(),
        ..IterationStart::default()
    };
    stage.append(vec![finish_plan.record(&stage.heading(1)), build.record(&stage.heading(2))])
}

fn close(stage: &Stage<'_>) -> Result<(), Failure> {
    stage.say("6. The builder finishes, and the run is complete.")?;
    let agent =
        stage.start_agent(2, &["task.complete"], &["task.complete", "the parser parses"])?;
    expect_code(finish(&agent), 0)?;
    let finish_build = IterationFinish { elapsed_s: Seconds(2), ..IterationFinish::default() };
    let complete = LoopComplete { reason: "completion_event".into() };
    stage.append(vec![finish_build.record(&stage.heading(2)), complete.record(&stage.heading(2))])
}

/// A demo that goes wrong says so. Returns what the agent was told.
fn expect_code((told, exit): (String, Exit), expected: i32) -> Result<String, Failure> {
    match exit {
        Exit::Code(code) if code == expected => Ok(told),
        other => Err(Failure::failed(format!(
            "an agent of the demo ended with {other:?} instead of {expected}: {told}"
        ))),
    }
}
