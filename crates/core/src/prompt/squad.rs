//! What the agents of a squad are told.

use std::fmt::Write as _;

use super::Budgets;
use super::section::{section, whole};
use super::slot::{Diff, changes};
use crate::evidence;
use crate::record::{SquadPhase, SquadSubject};
use crate::squad::{Depth, Loop, LoopState, Squad, Task, Turn};
use crate::text::{fenced, first_line};

/// The prompt of the agent that writes the tasks.
pub fn enumerate(squad: &Squad) -> String {
    let mut out = "# ENUMERATE PHASE\n\nRead the specification and the project in your working directory, and write the \
        list of tasks that build it. You change no file.\n\n"
        .to_owned();
    specification(&mut out, squad);
    let rules = "- A task is one piece of work that a builder completes and a reviewer judges by itself.\n\
        - Tasks that are built in parallel must not change the same lines: prefer tasks with files of their own.\n\
        - Write for each task how to tell that it is done (acceptance).\n\
        - The list is empty now: write all tasks, in the order in which they are best built.";
    section(&mut out, "## Tasks", rules);
    before(&mut out, squad, SquadPhase::Enumerate, SquadSubject::Enumerate);
    let example =
        r#"{"taskId": "t1", "title": "Parse the header", "description": "…", "acceptance": "…"}"#;
    section(&mut out, "## Your tools", &tool("write_task", "for each task", example));
    out
}

/// The prompt of the agent that writes the plan.
pub fn plan(squad: &Squad) -> String {
    let mut out = "# PLAN PHASE\n\nPut the tasks into groups. The tasks of a group are built in parallel, each in its own \
        copy of the project; the groups follow one another, and each begins with the merged work of those before it. You \
        change no file.\n\n"
        .to_owned();
    specification(&mut out, squad);
    let tasks: String = squad.tasks.iter().map(listed).collect();
    section(&mut out, "## Tasks", &fenced(&tasks));
    let rules = "- Every task is in exactly one group.\n\
        - A task that needs the work of another one is in a later group.\n\
        - Tasks that change the same lines are in different groups.\n\
        - The plan is empty now: add all groups, in order.";
    section(&mut out, "## Rules", rules);
    before(&mut out, squad, SquadPhase::Plan, SquadSubject::Plan);
    let example = r#"{"taskIds": ["t1", "t2"]}"#;
    section(&mut out, "## Your tools", &tool("add_plan_group", "for each group", example));
    out
}

/// The prompt of the builder of a loop.
pub fn build(squad: &Squad, it: &Loop) -> String {
    let title = match it.phase() {
        SquadPhase::Revise => "REVISE PHASE",
        _ => "BUILD PHASE",
    };
    let mut out = format!(
        "# {title}\n\nYou build one task, as loop {}, in iteration {}. Your working directory is your own git worktree: \
         change files only there. You may commit, but need not. Other loops build other tasks at the same time; your \
         work is reviewed, and merged when all tasks of its group have passed.\n\n",
        it.id,
        it.iteration + 1,
    );
    specification(&mut out, squad);
    task_section(&mut out, "## Your Task", squad, it);
    let others = other_loops(squad, it);
    section(&mut out, "## Other Loops (for context)", &others);
    if let Some(feedback) = &it.feedback {
        let about = format!(
            "Your work was not accepted. This is revision {} of at most {}: fix all of the following.\n\n{}",
            it.revisions,
            squad.effort().revisions(),
            fenced(&shortened(&feedback.render()))
        );
        section(&mut out, "## Feedback", &about);
        if let Some(work) = &it.work {
            let failed: Vec<_> =
                squad.checks_of(&work.commit).into_iter().filter(|check| !check.passed()).collect();
            section(&mut out, "## Failed Checks", &evidence::render(&failed));
        }
    }
    if let Some(advice) = &it.advice {
        let about = format!(
            "A reviewer looked at your unfinished work:\n\n{}",
            fenced(&shortened(&advice.render()))
        );
        section(&mut out, "## Checkpoint", &about);
    }
    let before = squad.turns.iter().rfind(|turn| turn.is_of(&it.id) && turn.is_builder());
    if let Some(reason) = before.and_then(Turn::end).and_then(|end| end.reason.as_ref()) {
        section(&mut out, "## Your Last Turn", &format!("It failed: {}", first_line(reason, 500)));
    }
    context(&mut out, squad);
    let complete = tool(
        "complete_task",
        "when the task is complete",
        &format!(r#"{{"taskId": "{}"}}"#, it.task_id),
    );
    let fail = tool(
        "fail_task",
        "if it cannot be completed",
        &format!(r#"{{"taskId": "{}", "reason": "…"}}"#, it.task_id),
    );
    let about = format!(
        "{complete}\n\n{fail}\n\nA turn that ends without either of them is one more iteration: you are started again."
    );
    section(&mut out, "## How to Finish", &about);
    out
}

/// The prompt of the agent that resolves a conflict.
pub fn conflict(squad: &Squad, it: &Loop, files: &str) -> String {
    let mut out = format!(
        "# CONFLICT PHASE\n\nThe work of loop {} passed its review, and conflicts with work that was merged before. Your \
         working directory has the merge, unfinished, with conflict markers in these files:\n\n{}\n",
        it.id,
        fenced(&files.split(',').collect::<Vec<_>>().join("\n"))
    );
    task_section(&mut out, "## The Task of the Loop", squad, it);
    section(&mut out, "## Other Loops (for context)", &other_loops(squad, it));
    let about = "Resolve the conflicts so that the contributions of both sides are kept, remove all markers, and stage \
        the files with `git add`. You may commit the merge, but need not. Change no other file, and do not abort the \
        merge. The harness looks at the files and the index only: with a marker, an unmerged file or a missing side, \
        nothing of it is used.";
    section(&mut out, "## What to Do", about);
    out
}

/// What a reviewer is shown.
#[derive(Clone, Debug)]
pub struct ReviewOrder<'o> {
    pub squad: &'o Squad,
    pub subject: SquadSubject,
    pub it: Option<&'o Loop>,
    /// The directory with a checkout of what is reviewed.
    pub dir: &'o str,
    pub commit: &'o str,
    pub diff: Diff,
    /// Counted from 0.
    pub attempt: u64,
}

/// The prompt of a reviewer.
pub fn review(order: &ReviewOrder<'_>) -> String {
    let ReviewOrder { squad, subject, it, dir, commit, diff, attempt } = order;
    let depth = squad.effort().depth();
    let mut out = heading(*subject, *it);
    match it {
        Some(it) => {
            task_section(&mut out, "## Task Under Review", squad, it);
            section(&mut out, "## Other Loops (for context)", &other_loops(squad, it));
            let about = format!(
                "This loop's worktree: {dir}\n\nIt is a checkout of the commit `{commit}`; what you change there is discarded."
            );
            section(&mut out, "## Working Directory", &about);
        }
        None => {
            specification(&mut out, squad);
            section(&mut out, "## Under Review", &run_subject(squad, *subject));
            let about = format!("A checkout of the commit `{commit}`: {dir}");
            section(&mut out, "## Working Directory", &about);
        }
    }
    if !matches!(subject, SquadSubject::Enumerate | SquadSubject::Plan) {
        section(&mut out, "## Changes", &changes(diff));
    }
    section(&mut out, "## Checks Run by the Harness", &evidence::render(&squad.checks_of(commit)));
    if let Some(feedback) = it.and_then(|it| it.feedback.as_ref()) {
        let about = format!(
            "This was found before; see whether it is fixed:\n\n{}",
            fenced(&shortened(&feedback.render()))
        );
        section(&mut out, "## The Review Before", &about);
    }
    if depth >= Depth::Standard {
        section(&mut out, "## Intent Analysis (Do This First)", INTENT);
    }
    section(&mut out, "## The Iron Law: Evidence Before Claims", &iron_law(*it));
    if depth >= Depth::Standard {
        section(&mut out, "## Quality Checks", QUALITY);
    }
    if depth >= Depth::Deep {
        section(&mut out, "## Edge Cases", EDGE_CASES);
    }
    if depth >= Depth::Comprehensive {
        section(&mut out, "## The Whole", WHOLE);
    }
    context(&mut out, squad);
    if *attempt > 0 {
        let about =
            "You ended your last turn without an answer. Without one the review counts as failed.";
        section(&mut out, "## Once More", about);
    }
    section(&mut out, "## How to Report Results", &report(*subject, *it));
    out.push_str("When done, output: REVIEW_COMPLETE\n");
    out
}

const INTENT: &str = "Before examining implementation details, step back:\n\n\
    1. **What was this trying to accomplish?** Not just literally, but what goal it serves.\n\
    2. **What would a reasonable user expect?** Error handling, edge cases, consistent patterns.\n\
    3. **Does the implementation serve the goal?** Code can satisfy literal requirements while missing the point.\n\n\
    Write down your interpretation before reviewing code. This prevents rationalization.";

const QUALITY: &str = "- Unnecessary abstractions: classes/functions used only once\n\
    - Missing error handling: unhandled rejections, unchecked operations\n\
    - Pattern violations: code that doesn't match codebase conventions\n\
    - Dead code: unused imports, unreachable branches";

const EDGE_CASES: &str = "- Empty, huge and malformed input, and input in an unexpected order\n\
    - What happens when a file, the network or a program fails half way\n\
    - Tests: would each of them fail if the code were wrong?";

const WHOLE: &str = "- Read every changed file from its first line to its last, and its callers.\n\
    - Compare the work with the specification line by line; name what is missing.\n\
    - Look for contradictions with the work of the other loops, with the documentation, and with security.";

fn heading(subject: SquadSubject, it: Option<&Loop>) -> String {
    let (title, about) = match (subject, it) {
        (SquadSubject::Progress, Some(it)) => (
            "LOOP CHECKPOINT REVIEW PHASE",
            format!(
                "You are reviewing the unfinished work of Loop {} after {} iterations: is it making progress, in the right \
                 direction? What is simply not done yet is no issue.",
                it.id, it.iteration
            ),
        ),
        (_, Some(it)) => {
            ("LOOP REVIEW PHASE", format!("You are reviewing work completed by Loop {}.", it.id))
        }
        (SquadSubject::Enumerate, None) => (
            "REVIEW PHASE: TASKS",
            "You are reviewing the list of tasks before it is planned: is it complete, and can each task be built and \
             judged by itself?"
                .to_owned(),
        ),
        (SquadSubject::Plan, None) => (
            "REVIEW PHASE: PLAN",
            "You are reviewing the plan before it is built: does the order fit, and can the tasks of each group be built \
             in parallel?"
                .to_owned(),
        ),
        (_, None) => (
            "REVIEW PHASE: BUILD",
            "You are reviewing the merged work of all loops: does the whole do what the specification asks for?"
                .to_owned(),
        ),
    };
    format!("# {title}\n\n{about}\n\n")
}

fn iron_law(it: Option<&Loop>) -> String {
    let name = verdict_tool(it);
    format!(
        "**NO REVIEW CLAIMS WITHOUT VERIFICATION EVIDENCE**\n\n\
         Before calling {name}, you MUST:\n\
         1. Actually RUN relevant tests and show output\n\
         2. Actually READ the implementation files\n\
         3. Show evidence before making any claim\n\n\
         | Claim | Requires | NOT Sufficient |\n\
         |-------|----------|----------------|\n\
         | \"Tests pass\" | Test command output | \"Should pass\", assumption |\n\
         | \"Code correct\" | Read actual file contents | Task description, memory |\n\
         | \"Task satisfied\" | Line-by-line check | \"Looks complete\" |\n\n\
         Name each command that shows that the work is right with `cite_command` ({}). The harness runs it again on a \
         clean checkout, and a pass while one of them fails is not a pass.",
        call("cite_command", r#"{"command": "make test"}"#)
    )
}

fn verdict_tool(it: Option<&Loop>) -> &'static str {
    match it {
        Some(_) => "set_loop_review_result",
        None => "set_review_result",
    }
}

fn report(subject: SquadSubject, it: Option<&Loop>) -> String {
    let name = verdict_tool(it);
    let about = match (it, subject) {
        (Some(it), SquadSubject::Progress) => format!("\n  loopId: \"{}\",", it.id),
        (Some(it), _) => format!("\n  loopId: \"{}\",\n  taskId: \"{}\",", it.id, it.task_id),
        (None, _) => String::new(),
    };
    let issue = match it {
        Some(_) => "{ file, line, type, description, suggestion }",
        None => "{ taskId, file, line, type, description, suggestion }",
    };
    let reopened = match (it, subject) {
        (None, SquadSubject::Build) => {
            "\n\nThe tasks that issues name (taskId) are built again; if none is named, all of them."
        }
        _ => "",
    };
    format!(
        "Use `{name}` when finished:\n\n```\n{name}({{{about}\n  passed: true/false,\n  \
         interpretedIntent: \"What this was really trying to accomplish\",\n  intentSatisfied: true/false,\n  \
         issues: [{issue}]\n}})\n```\n\n\
         Issue types: over-engineering, missing-error-handling, pattern-violation, dead-code, spec-intent-mismatch{reopened}\n\n\
         It is a tool of the MCP server `autoloop`. Without MCP: `\"$AUTOLOOP_BIN\" mcp call {name} 'JSON'`. The last call \
         counts; without a call the review counts as failed."
    )
}

fn run_subject(squad: &Squad, subject: SquadSubject) -> String {
    let tasks: String = squad.tasks.iter().map(listed).collect();
    let groups = squad.groups.iter().enumerate();
    let groups: String =
        groups.map(|(at, group)| format!("group {}: {}\n", at + 1, group.join(", "))).collect();
    match subject {
        SquadSubject::Enumerate => fenced(&tasks),
        _ => fenced(&format!("{tasks}\n{groups}")),
    }
}

fn listed(task: &Task) -> String {
    let acceptance = task.acceptance.as_ref().map(|text| format!("  Acceptance: {text}\n"));
    format!(
        "{}: {}\n  {}\n{}",
        task.id,
        task.title,
        task.description,
        acceptance.unwrap_or_default()
    )
}

fn specification(out: &mut String, squad: &Squad) {
    let spec = squad.start.as_ref().map(|start| start.spec.as_str()).unwrap_or_default();
    section(out, "## Specification", &whole(spec, Budgets::default().instructions));
}

fn task_section(out: &mut String, heading: &str, squad: &Squad, it: &Loop) {
    let Some(task) = squad.task(&it.task_id) else { return };
    let acceptance = task.acceptance.as_ref().map(|text| format!("\n\nAcceptance: {text}"));
    let about = format!(
        "**{}** ({})\n{}{}",
        task.title,
        task.id,
        task.description,
        acceptance.unwrap_or_default()
    );
    section(out, heading, &whole(&about, Budgets::default().instructions));
}

/// The other loops, a line each.
fn other_loops(squad: &Squad, it: &Loop) -> String {
    let others = squad.loops.iter().filter(|other| other.id != it.id && other.group <= it.group);
    let line = |other: &Loop| {
        let title = squad.task(&other.task_id).map(|task| first_line(&task.title, 120));
        let title = title.unwrap_or_default();
        let state = match other.state {
            LoopState::Passed | LoopState::Merged => "completed",
            state if state.is_blocked() => state.name(),
            LoopState::Skipped => LoopState::Skipped.name(),
            _ => "in_progress",
        };
        match state {
            "in_progress" => {
                let iteration = other.iteration + 1;
                format!(
                    "- Loop {} ({state}): Working on {title}, iteration {iteration}\n",
                    other.id
                )
            }
            _ => format!("- Loop {} ({state}): {title}\n", other.id),
        }
    };
    let lines: String = others.map(line).collect();
    if lines.is_empty() { "(none)".to_owned() } else { lines }
}

/// What is wrong with the last list of a phase of the run.
fn before(out: &mut String, squad: &Squad, phase: SquadPhase, subject: SquadSubject) {
    let problem = squad.phase_problem(phase);
    let feedback = squad.phase_review(subject).map(|review| squad.feedback(review).render());
    if let Some(problem) = problem.or(feedback) {
        let about = format!("The list before this one was not accepted:\n\n{}", fenced(&problem));
        section(out, "## Feedback", &about);
    }
}

fn context(out: &mut String, squad: &Squad) {
    let mut about = String::new();
    for (key, text) in &squad.context {
        // A failed write to a string does not exist.
        let _ = write!(about, "### {}\n\n{}\n", first_line(key, 120), fenced(&shortened(text)));
    }
    section(out, "## Notes of Other Agents", &about);
}

/// A tool, when to call it, and how.
fn tool(name: &str, when: &str, example: &str) -> String {
    format!("Call `{name}` {when}: {}.", call(name, example))
}

/// A call of a tool, with MCP and without.
fn call(name: &str, example: &str) -> String {
    format!(
        "`{name}({example})` of the MCP server `autoloop`, or `\"$AUTOLOOP_BIN\" mcp call {name} '{example}'` in a shell"
    )
}

fn shortened(text: &str) -> String {
    whole(text, Budgets::default().instructions)
}
