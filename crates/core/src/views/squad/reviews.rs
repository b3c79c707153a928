//! The reviews of a squad: what was reviewed, by which turn, and what it amounts to.

use std::fmt::Write;

use serde::Serialize;

use super::review_name;
use crate::format::{Format, json_text};
use crate::record::{SquadReview, Support};
use crate::review::Verdict;
use crate::squad::{Feedback, Issue, Squad, Turn, TurnState};
use crate::{table, text};

pub fn render(squad: &Squad, format: Format) -> String {
    match format {
        Format::Markdown => markdown(squad),
        Format::Terminal => terminal(squad),
        Format::Json => {
            let found = reviews(squad);
            let reviews = found.iter().map(Review::facts).collect();
            json_text(&Facts { run: &squad.id, reviews })
        }
    }
}

/// A review, decided or not.
struct Review<'s> {
    turn: &'s Turn,
    decision: Option<&'s SquadReview>,
    feedback: Feedback,
}

/// In the order of their turns: those that were decided, and those that are under way. A turn whose question was
/// asked again is no review.
fn reviews(squad: &Squad) -> Vec<Review<'_>> {
    let turns = squad.turns.iter().filter(|turn| turn.start.subject.is_some());
    let found = turns.filter_map(|turn| {
        let decision = squad.reviews.iter().rfind(|review| review.turn == turn.number());
        let is_it = decision.is_some() || turn.state == TurnState::Open;
        let feedback = decision.map(|review| squad.feedback(review)).unwrap_or_default();
        is_it.then_some(Review { turn, decision, feedback })
    });
    found.collect()
}

impl Review<'_> {
    fn cells(&self) -> [String; 6] {
        let start = &self.turn.start;
        let or_dash = |text: &Option<String>| text.as_deref().map_or("-".into(), text::one_line);
        let verdict = match self.decision {
            None => "in progress".to_owned(),
            Some(review) => text::one_line(review.verdict.as_str()),
        };
        // Only a pass needs support.
        let support = self.decision.filter(|_| self.is_pass());
        [
            start.turn.to_string(),
            review_name(start.subject.as_ref().and_then(|subject| subject.known())),
            or_dash(&start.loop_id),
            or_dash(&start.task_id),
            verdict,
            support.map(|review| text::one_line(review.support.as_str())).unwrap_or_default(),
        ]
    }

    fn is_pass(&self) -> bool {
        self.decision.is_some_and(|review| review.verdict == Verdict::Pass)
    }

    /// Why it is no pass, and the issues; empty for a pass without any.
    fn findings(&self) -> String {
        let is_told = match self.is_pass() {
            true => !self.feedback.issues.is_empty(),
            false => self.decision.is_some(),
        };
        if is_told { self.feedback.render() } else { String::new() }
    }

    fn facts(&self) -> ReviewFacts<'_> {
        let start = &self.turn.start;
        let answer = self.turn.answer();
        ReviewFacts {
            id: self.decision.map(|review| &*review.review_id),
            turn: start.turn,
            subject: start.subject.as_ref().map(|subject| subject.as_str()),
            loop_id: start.loop_id.as_deref(),
            task_id: start.task_id.as_deref(),
            commit: start.commit.as_deref(),
            verdict: self.decision.map(|review| review.verdict.as_str()),
            verified: self.decision.map(|review| review.support == Support::Verified),
            reason: Some(&*self.feedback.reason).filter(|reason| !reason.is_empty()),
            passed: answer.map(|answer| answer.passed),
            interpreted_intent: answer.and_then(|answer| answer.interpreted_intent.as_deref()),
            intent_satisfied: answer.and_then(|answer| answer.intent_satisfied),
            issues: &self.feedback.issues,
        }
    }
}

fn terminal(squad: &Squad) -> String {
    let found = reviews(squad);
    let mut out = format!("squad {}: {}\n", squad.id, count(&found));
    let mut rows: Vec<[String; 6]> = found.iter().map(Review::cells).collect();
    table::pad(&mut rows);
    for (review, row) in found.iter().zip(&rows) {
        let _ = write!(out, "  {}", table::line(row));
        for line in review.findings().lines().filter(|line| !line.trim().is_empty()) {
            let _ = writeln!(out, "      {line}");
        }
    }
    out
}

fn markdown(squad: &Squad) -> String {
    let found = reviews(squad);
    let mut out = format!("# Reviews of squad {}\n\n{}\n", squad.id, count(&found));
    for review in &found {
        let [turn, what, loop_id, task, verdict, support] = review.cells();
        let about = [loop_id, task].into_iter().filter(|it| it != "-").collect::<Vec<_>>();
        let about =
            if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
        let support = if support.is_empty() { support } else { format!(", {support}") };
        let _ = writeln!(out, "\n## Turn {turn}: {what}{about}: {verdict}{support}");
        match review.findings() {
            findings if findings.is_empty() => {}
            findings => _ = writeln!(out, "\n{findings}"),
        }
    }
    out
}

fn count(reviews: &[Review<'_>]) -> String {
    let passed = reviews.iter().filter(|review| review.is_pass()).count();
    let noun = if reviews.len() == 1 { "review" } else { "reviews" };
    format!("{passed} of {} {noun} passed", reviews.len())
}

#[derive(Serialize)]
struct Facts<'s> {
    run: &'s str,
    reviews: Vec<ReviewFacts<'s>>,
}

#[derive(Serialize)]
struct ReviewFacts<'s> {
    id: Option<&'s str>,
    turn: u64,
    subject: Option<&'s str>,
    loop_id: Option<&'s str>,
    task_id: Option<&'s str>,
    commit: Option<&'s str>,
    verdict: Option<&'s str>,
    verified: Option<bool>,
    reason: Option<&'s str>,
    passed: Option<bool>,
    interpreted_intent: Option<&'s str>,
    intent_satisfied: Option<bool>,
    issues: &'s [Issue],
}
