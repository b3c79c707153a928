//! The lines of a squad.

use autoloop_core::evidence::in_code;
use autoloop_core::merge::MergeOutcome;
use autoloop_core::record::{SquadMerge, SquadReview, SquadSubject, Support};
use autoloop_core::review::Verdict;
use autoloop_core::squad::Squad;
use autoloop_core::text;
use autoloop_core::views::squad::{review_name, turn_name};
use autoloop_runtime::site::SquadProgress;

use super::{MAX_ANSWER, with_reason};
use crate::style::Tone;
use crate::terminal;

/// The number of issues in a line; further ones are counted.
const ISSUES: usize = 2;

pub(super) fn line(progress: SquadProgress<'_>) -> Option<String> {
    Some(match progress {
        SquadProgress::Began(squad) => began(squad, "begins"),
        SquadProgress::Resumed(squad) => began(squad, "resumes"),
        SquadProgress::Planned { tasks, groups } => {
            let tasks = terminal::counted(tasks as u64, "task");
            match groups {
                0 => format!("  {tasks}"),
                groups => format!("  {tasks} in {}", terminal::counted(groups as u64, "group")),
            }
        }
        SquadProgress::Loop { record, title } => {
            let title = text::first_line(title, MAX_ANSWER);
            of_loop(Some(&record.loop_id), &format!("{}: {title}", record.task_id))
        }
        SquadProgress::Turn(turn) => of_loop(turn.loop_id.as_deref(), &turn_name(turn)),
        SquadProgress::TurnFinished(turn, finish) => {
            let reason = finish.reason.as_deref()?;
            let reason = text::first_line(reason, MAX_ANSWER);
            of_loop(turn.loop_id.as_deref(), &format!("{}: {reason}", turn_name(turn)))
        }
        SquadProgress::Checked { loop_id, check } => {
            let command = in_code(&text::first_line(&check.command, MAX_ANSWER));
            let result = text::first_line(&check.result(), MAX_ANSWER);
            of_loop(loop_id, &format!("check {command}: {result}"))
        }
        SquadProgress::Reviewed { record, issues } => {
            of_loop(record.loop_id.as_deref(), &reviewed(record, issues))
        }
        SquadProgress::Merged(merge) => of_loop(Some(&merge.loop_id), &merged(merge)),
        SquadProgress::Blocked { loop_id, how, reason } => {
            let reason = text::first_line(reason, MAX_ANSWER);
            of_loop(Some(loop_id), &with_reason(how.to_owned(), &reason))
        }
    })
}

pub(super) fn tone(progress: SquadProgress<'_>) -> Option<Tone> {
    Some(match progress {
        SquadProgress::Began(_) => Tone::Strong,
        SquadProgress::Turn(turn) if turn.loop_id.is_none() => Tone::Strong,
        SquadProgress::TurnFinished(..) | SquadProgress::Blocked { .. } => Tone::Bad,
        SquadProgress::Checked { check, .. } if !check.passed() => Tone::Bad,
        SquadProgress::Reviewed { record, .. } if record.verdict == Verdict::Pass => Tone::Good,
        SquadProgress::Reviewed { .. } => Tone::Warning,
        SquadProgress::Merged(merge) if merge.outcome == MergeOutcome::Merged => Tone::Good,
        SquadProgress::Merged(_) => Tone::Warning,
        _ => return None,
    })
}

fn began(squad: &Squad, verb: &str) -> String {
    let rules = squad.start.as_ref().map(|start| {
        let loops = terminal::counted(start.max_loops, "loop");
        format!(": {} effort, at most {loops} at once", start.effort)
    });
    format!("squad {} {verb}{}", squad.id, rules.unwrap_or_default())
}

/// Lines without a loop are about the run.
fn of_loop(loop_id: Option<&str>, what: &str) -> String {
    match loop_id {
        Some(id) => format!("  {}  {what}", text::first_line(id, MAX_ANSWER)),
        None => what.to_owned(),
    }
}

fn reviewed(review: &SquadReview, issues: &[String]) -> String {
    let name = review_name(review.subject.known());
    let reason = text::first_line(&review.reason, MAX_ANSWER);
    let shown = issues.iter().take(ISSUES).map(|issue| text::first_line(issue, MAX_ANSWER));
    let more = issues.len().saturating_sub(ISSUES);
    let more = (more > 0).then(|| format!("{more} more"));
    let reason = Some(reason).filter(|reason| !reason.is_empty());
    let why: Vec<String> = reason.into_iter().chain(shown).chain(more).collect();
    let is_of_code =
        matches!(review.subject.known(), Some(SquadSubject::Task | SquadSubject::Build));
    let is_pass = review.verdict == Verdict::Pass;
    let note = match review.support.known() {
        Some(Support::Unverified) if is_pass && is_of_code => " (unverified: no check ran)",
        _ => "",
    };
    with_reason(format!("{name}: {}{note}", review.verdict), &why.join("; "))
}

fn merged(merge: &SquadMerge) -> String {
    let by_agent = if merge.resolved_by.is_some() { " (conflict resolved)" } else { "" };
    match merge.outcome.known() {
        Some(MergeOutcome::Merged) => format!("merged{by_agent}"),
        Some(MergeOutcome::Nothing) => "nothing to merge".to_owned(),
        Some(MergeOutcome::Conflict) => {
            let files = text::first_line(&merge.files, MAX_ANSWER);
            with_reason("conflict".to_owned(), &files)
        }
        _ => {
            let detail = merge.detail.as_deref().unwrap_or_default();
            let why = [&*merge.files, detail].join(" ");
            with_reason(
                format!("merge: {}", merge.outcome),
                &text::first_line(why.trim(), MAX_ANSWER),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use autoloop_core::record::{CheckFinish, SquadLoop, SquadPhase, SquadTurn, SquadTurnFinish};

    use super::*;

    fn turn(phase: SquadPhase, subject: Option<SquadSubject>, attempt: u64) -> SquadTurn {
        let is_of_loop = subject.is_none_or(|subject| subject == SquadSubject::Task);
        SquadTurn {
            phase: phase.into(),
            subject: subject.map(Into::into),
            loop_id: is_of_loop.then(|| "crow-1".to_owned()),
            attempt,
            ..SquadTurn::default()
        }
    }

    #[test]
    fn everything_that_people_wait_for_has_a_line() {
        let squad = Squad { id: "crow".to_owned(), ..Squad::default() };
        let (plan, build) = (Some(SquadSubject::Plan), turn(SquadPhase::Build, None, 0));
        let failed = SquadTurnFinish {
            reason: Some("the agent timed out\nat last".to_owned()),
            ..SquadTurnFinish::default()
        };
        let check = CheckFinish {
            command: "make test".to_owned(),
            exit_code: 2.into(),
            elapsed_ms: 3_000,
            ..CheckFinish::default()
        };
        let review = |verdict: Verdict, subject: SquadSubject, loop_id: Option<&str>| SquadReview {
            verdict: verdict.into(),
            subject: subject.into(),
            loop_id: loop_id.map(str::to_owned),
            ..SquadReview::default()
        };
        let drift = review(Verdict::Drift, SquadSubject::Task, Some("crow-1"));
        let plan_passed = review(Verdict::Pass, SquadSubject::Plan, None);
        let failing = review(Verdict::Failed, SquadSubject::Progress, Some("crow-1"));
        let failing = SquadReview { reason: "no answer".to_owned(), ..failing };
        let issues = ["no test", "no docs", "typo"].map(str::to_owned);
        let merge = |outcome: MergeOutcome, resolved_by: Option<u64>| SquadMerge {
            loop_id: "crow-1".to_owned(),
            outcome: outcome.into(),
            files: "a.txt,b.txt".to_owned(),
            detail: Some("a.txt is not committed".to_owned()),
            resolved_by,
            ..SquadMerge::default()
        };
        let merges = [
            merge(MergeOutcome::Conflict, None),
            merge(MergeOutcome::Merged, Some(9)),
            merge(MergeOutcome::Uncommitted, None),
        ];
        let turns = [
            turn(SquadPhase::Enumerate, Some(SquadSubject::Enumerate), 0),
            turn(SquadPhase::Review, plan, 0),
            turn(SquadPhase::Review, Some(SquadSubject::Task), 1),
            turn(SquadPhase::Revise, None, 2),
            turn(SquadPhase::Checkpoint, None, 0),
            turn(SquadPhase::Conflict, None, 0),
            turn(SquadPhase::Review, Some(SquadSubject::Build), 0),
        ];
        let record = SquadLoop {
            loop_id: "crow-1".to_owned(),
            task_id: "t1".to_owned(),
            ..SquadLoop::default()
        };
        let mut lines = vec![
            SquadProgress::Began(&squad),
            SquadProgress::Planned { tasks: 1, groups: 0 },
            SquadProgress::Planned { tasks: 3, groups: 2 },
            SquadProgress::Loop { record: &record, title: "parse the header" },
            SquadProgress::TurnFinished(&build, &failed),
            SquadProgress::Checked { loop_id: Some("crow-1"), check: &check },
            SquadProgress::Reviewed { record: &drift, issues: &issues },
            SquadProgress::Reviewed { record: &failing, issues: &[] },
            SquadProgress::Reviewed { record: &plan_passed, issues: &[] },
            SquadProgress::Blocked { loop_id: "crow-2", how: "stuck", reason: "3 revisions" },
        ];
        lines.extend(turns.iter().map(SquadProgress::Turn));
        lines.extend(merges.iter().map(SquadProgress::Merged));
        let text: Vec<String> = lines.into_iter().filter_map(line).collect();
        insta::assert_snapshot!(text.join("\n"), @r"
        squad crow begins
          1 task
          3 tasks in 2 groups
          crow-1  t1: parse the header
          crow-1  build: the agent timed out
          crow-1  check `make test`: exit code 2 after 3s
          crow-1  review: drift: no test; no docs; 1 more
          crow-1  checkpoint: failed: no answer
        review of the plan: pass
          crow-2  stuck: 3 revisions
        enumerate
        review of the plan
          crow-1  review again
          crow-1  revision 2
          crow-1  checkpoint
          crow-1  conflict resolution
        review of the merged work
          crow-1  conflict: a.txt,b.txt
          crow-1  merged (conflict resolved)
          crow-1  merge: uncommitted_changes: a.txt,b.txt a.txt is not committed
        ");
    }
}
