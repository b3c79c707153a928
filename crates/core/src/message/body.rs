//! The bodies of messages: the four of a review and the two of a handoff, each with all its fields.
//!
//! A body is text that is YAML itself. Unknown keys are kept: other versions of the protocol have more.

use super::envelope::{AgentName, Type};
use super::fields::{self, Fields, Ruled};
use super::problem::{Place, Problem, Problems};
use super::write::Map;
use super::yaml::{self, Entry, Node, Value};
use crate::review::Severity;
use crate::timestamp::Timestamp;
use crate::wire_enum::words;

/// The rounds of a review, unless the request or the settings say otherwise.
pub const USUAL_ROUNDS: u64 = 2;
pub const MAX_ROUNDS: u64 = 3;
pub const USUAL_TURNS: u64 = 8;
pub const USUAL_RUNTIME_S: u64 = 600;
const MAX_BUDGET: u64 = 1_000_000;
const MAX_TEXT: usize = super::envelope::MAX_BODY;
const MAX_LINE: usize = 500;

pub const MAX_ROUNDS_EXCEEDED: &str = "max_rounds_exceeded";
pub const REVIEWER_BUDGET_EXCEEDED: &str = "reviewer_budget_exceeded";

words! {
    GateResult {
        Pass = "pass",
        Fail = "fail",
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Request(Request),
    Feedback(Feedback),
    Addressed(Addressed),
    Lgtm(Lgtm),
    /// Of another type, as it is.
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub pr: u64,
    pub branch: String,
    pub diff_summary: String,
    pub handoff_ref: Option<String>,
    pub max_turns_reviewer: u64,
    pub max_runtime_s_reviewer: u64,
    pub round: Option<u64>,
    pub max_rounds: Option<u64>,
    /// The commit to review.
    pub declared_head: Option<String>,
    pub rest: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Feedback {
    /// Relative to the workspace.
    pub findings_packet: String,
    pub round: u64,
    pub blocking_count: u64,
    pub escalation: Option<String>,
    /// The commit that was reviewed.
    pub validated_head: Option<String>,
    pub rest: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Addressed {
    pub commit_sha: String,
    pub changes_summary: String,
    pub round: u64,
    pub touched_files: Vec<String>,
    pub addressed_finding_ids: Vec<String>,
    pub rest: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Lgtm {
    pub quality_gate_result: GateResult,
    pub merge_ready: bool,
    pub nits: Vec<Nit>,
    /// The commit that was approved.
    pub validated_head: Option<String>,
    /// The packet of this round, relative to the workspace.
    pub findings_packet: Option<String>,
    pub rest: Vec<Entry>,
}

/// A finding that is deferred.
#[derive(Clone, Debug, PartialEq)]
pub struct Nit {
    pub id: String,
    pub tier: Severity,
    pub summary: String,
    pub owner: String,
    pub next_action: String,
    /// The id of the finding, or where it is from.
    pub source: Option<String>,
    pub tracking_ref: Option<String>,
    pub expires_at: Option<Timestamp>,
    pub rest: Vec<Entry>,
}

impl Body {
    /// Reads the body `node` of a message of this type, which is in the file `file`.
    pub(super) fn read(
        kind: Type,
        node: &Node,
        file: &str,
        problems: &mut Problems,
    ) -> Option<Body> {
        let is_read = kind.is_review() || matches!(kind, Type::Handoff | Type::HandoffComplete);
        if !is_read {
            return Some(Body::Other);
        }
        let mut inner = Problems::default();
        let text = node.as_text().unwrap_or_default();
        let root = yaml::read_text(text, &mut inner);
        let body = root.and_then(|root| {
            let fields = Fields::of(format!("the body of a {kind}"), root, &mut inner)?;
            fields.read_body(kind)
        });
        let places = BodyPlaces { node, text, file };
        let moved = |problem: &Problem| places.moved(problem);
        inner.errors.iter().map(moved).for_each(|problem| problems.push(problem));
        inner.warnings.iter().map(moved).for_each(|problem| problems.warnings.push(problem));
        body
    }

    /// The text of the body.
    pub fn print(&self) -> String {
        let mut map = Map::default();
        match self {
            Body::Request(request) => request.print(&mut map),
            Body::Feedback(feedback) => feedback.print(&mut map),
            Body::Addressed(addressed) => addressed.print(&mut map),
            Body::Lgtm(lgtm) => lgtm.print(&mut map),
            Body::Other => {}
        }
        map.finish()
    }

    pub fn kind(&self) -> Option<Type> {
        match self {
            Body::Request(_) => Some(Type::ReviewRequest),
            Body::Feedback(_) => Some(Type::ReviewFeedback),
            Body::Addressed(_) => Some(Type::ReviewAddressed),
            Body::Lgtm(_) => Some(Type::ReviewLgtm),
            Body::Other => None,
        }
    }
}

/// Where the lines of a body are in its file.
struct BodyPlaces<'b> {
    node: &'b Node,
    text: &'b str,
    file: &'b str,
}

impl BodyPlaces<'_> {
    fn moved(&self, problem: &Problem) -> Problem {
        let exact = self.line_in_file(problem.line).filter(|_| fields::is_literal(self.node));
        match exact {
            Some(place) => Problem {
                message: problem.message.clone(),
                line: place.line,
                column: place.column + problem.column - 1,
            },
            None => Problem::new(
                self.node.at,
                format!("line {} of the body: {}", problem.line, problem.message),
            ),
        }
    }

    /// The place of a line of a literal block, whose lines follow the line of its header.
    fn line_in_file(&self, line: usize) -> Option<Place> {
        let text = self.text.split('\n').nth(line - 1)?.trim_end_matches('\r');
        // The place of a block is its first line with text.
        let blank = self.text.bytes().take_while(|byte| *byte == b'\n').count();
        let header = self.node.at.line.checked_sub(blank + 1)?;
        let in_file = self.file.split('\n').nth(header + line - 1)?.trim_end_matches('\r');
        let indent = in_file.strip_suffix(text)?;
        Some(Place { line: header + line, column: indent.chars().count() + 1 })
    }
}

impl Fields<'_> {
    fn read_body(mut self, kind: Type) -> Option<Body> {
        match kind {
            Type::ReviewRequest => self.read_request().map(Body::Request),
            Type::ReviewFeedback => self.read_feedback().map(Body::Feedback),
            Type::ReviewAddressed => self.read_addressed().map(Body::Addressed),
            Type::ReviewLgtm => self.read_lgtm().map(Body::Lgtm),
            Type::Handoff => {
                self.check_handoff();
                Some(Body::Other)
            }
            Type::HandoffComplete => {
                self.check_handoff_complete();
                Some(Body::Other)
            }
            _ => Some(Body::Other),
        }
    }

    fn read_request(mut self) -> Option<Request> {
        let pr = self.required("pr", fields::number(1, u64::MAX));
        let branch = self.required("branch", fields::branch);
        let diff_summary = self.required("diff_summary", fields::text(MAX_TEXT));
        let handoff_ref = self.optional("handoff_ref", fields::line(MAX_LINE));
        let turns = self.optional("max_turns_reviewer", fields::number(1, MAX_BUDGET));
        let runtime = self.optional("max_runtime_s_reviewer", fields::number(1, MAX_BUDGET));
        let round = self.optional("round", fields::number(1, MAX_ROUNDS));
        let max_rounds = self.optional("max_rounds", fields::number(1, MAX_ROUNDS));
        let declared_head = self.optional("declared_head", fields::commit);
        Some(Request {
            pr: pr?,
            branch: branch?,
            diff_summary: diff_summary?,
            handoff_ref,
            max_turns_reviewer: turns.unwrap_or(USUAL_TURNS),
            max_runtime_s_reviewer: runtime.unwrap_or(USUAL_RUNTIME_S),
            round,
            max_rounds,
            declared_head,
            rest: self.rest(),
        })
    }

    fn read_feedback(mut self) -> Option<Feedback> {
        let packet_place = self.place("findings_packet");
        let findings_packet = self.required("findings_packet", fields::relative_path);
        let round_place = self.place("round");
        let round = self.required("round", fields::number(1, MAX_ROUNDS));
        let count_place = self.place("blocking_count");
        let blocking_count = self.required("blocking_count", fields::number(0, u64::MAX));
        let escalation_place = self.place("escalation");
        let escalation = self.optional("escalation", fields::line(MAX_LINE));
        let validated_head = self.optional("validated_head", fields::commit);
        let is_usual =
            |path: &String| path.starts_with("packets/findings/") && path.ends_with(".yaml");
        if findings_packet.as_ref().is_some_and(|path| !is_usual(path)) {
            self.warning(packet_place, "findings packets are usually packets/findings/….yaml");
        }
        match (escalation.as_deref(), blocking_count, round) {
            (None, Some(1..), Some(MAX_ROUNDS)) => self.error(
                round_place,
                format!(
                    "round {MAX_ROUNDS} is the last one: blocking findings are left, so add \
                     'escalation: {MAX_ROUNDS_EXCEEDED}'"
                ),
            ),
            (None, Some(0), _) => self.warning(
                count_place,
                "without blocking findings and escalation, the answer is a review_lgtm",
            ),
            (Some(MAX_ROUNDS_EXCEEDED), Some(0), _) => {
                self.warning(
                    escalation_place,
                    "no blocking finding is left, so send a review_lgtm",
                );
            }
            (Some(MAX_ROUNDS_EXCEEDED | REVIEWER_BUDGET_EXCEEDED) | None, _, _) => {}
            (Some(other), _, _) => {
                let message = format!(
                    "unknown escalation '{}': expected {MAX_ROUNDS_EXCEEDED} or {REVIEWER_BUDGET_EXCEEDED}",
                    other.escape_debug()
                );
                self.warning(escalation_place, message);
            }
        }
        Some(Feedback {
            findings_packet: findings_packet?,
            round: round?,
            blocking_count: blocking_count?,
            escalation,
            validated_head,
            rest: self.rest(),
        })
    }

    fn read_addressed(mut self) -> Option<Addressed> {
        let commit_sha = self.required("commit_sha", fields::commit);
        let changes_summary = self.required("changes_summary", fields::text(MAX_TEXT));
        let round = self.required("round", fields::number(1, MAX_ROUNDS));
        let touched_files = self.items("touched_files", fields::relative_path);
        let addressed_finding_ids = self.items("addressed_finding_ids", fields::numbered("F"));
        Some(Addressed {
            commit_sha: commit_sha?,
            changes_summary: changes_summary?,
            round: round?,
            touched_files,
            addressed_finding_ids,
            rest: self.rest(),
        })
    }

    fn read_lgtm(mut self) -> Option<Lgtm> {
        let result_place = self.place("quality_gate_result");
        let result = self.required("quality_gate_result", fields::word(GateResult::WORDS));
        let merge_ready = self.required("merge_ready", fields::boolean);
        let nits_place = self.place("nits");
        let nits: Vec<Nit> =
            self.maps("nits", |nit| nit.read_nit()).into_iter().flatten().collect();
        let validated_head = self.optional("validated_head", fields::commit);
        let findings_packet = self.optional("findings_packet", fields::relative_path);
        match (result, merge_ready) {
            (Some(GateResult::Fail), Some(true)) => {
                self.error(result_place, "the gate failed, so merge_ready cannot be true");
            }
            (Some(GateResult::Fail), _) => {
                self.warning(result_place, "a failed gate does not approve; send review_feedback");
            }
            _ => {}
        }
        if let Some((_, nit)) = nits
            .iter()
            .enumerate()
            .find(|(at, nit)| nits[..*at].iter().any(|other| other.id == nit.id))
        {
            self.error(nits_place, format!("two nits have the id {}", nit.id));
        }
        Some(Lgtm {
            quality_gate_result: result?,
            merge_ready: merge_ready?,
            nits,
            validated_head,
            findings_packet,
            rest: self.rest(),
        })
    }

    fn read_nit(&mut self) -> Option<Nit> {
        let id = self.required("nit_id", fields::numbered("NIT"));
        let tier = self.required("tier", deferrable);
        let summary = self.required("summary", fields::text(MAX_TEXT));
        let owner = self.required("owner", fields::line(MAX_LINE));
        let next_action = self.required("next_action", fields::text(MAX_TEXT));
        let source = self.optional("source", source);
        let tracking_ref = self.optional("tracking_ref", fields::line(MAX_LINE));
        let expires_at = self.optional("expires_at_utc", fields::moment);
        Some(Nit {
            id: id?,
            tier: tier?,
            summary: summary?,
            owner: owner?,
            next_action: next_action?,
            source,
            tracking_ref,
            expires_at,
            rest: self.take_rest(),
        })
    }

    fn check_handoff(&mut self) {
        let source = self.required("source_agent", AgentName::of);
        let target_place = self.place("target_agent");
        let target = self.required("target_agent", AgentName::of);
        if source.is_some() && source == target {
            self.error(target_place, "field 'target_agent' is the same as source_agent");
        }
        self.required("intent", fields::text(MAX_TEXT));
        self.required("artifacts_to_review", not_empty);
        self.required("definition_of_done", not_empty);
        let bundle_place = self.place("context_bundle");
        if !self.has("context_bundle") {
            self.error(bundle_place, "missing field 'context_bundle' in the body of a handoff");
        } else if let Some(mut bundle) = self.map("context_bundle") {
            for key in ["files_touched", "decisions_made", "blockers_hit", "suggested_next_steps"] {
                bundle.required(key, not_empty);
            }
        } else {
            self.error(bundle_place, "field 'context_bundle' must be a mapping with entries");
        }
    }

    fn check_handoff_complete(&mut self) {
        self.required("issue", fields::line(MAX_LINE));
        self.required("pr", |node| {
            let digits = node.as_text().unwrap_or_default().trim();
            let digits = digits.strip_prefix('#').unwrap_or(digits);
            match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                true => Ok(()),
                false => Err(format!("expected the number of a PR, found {}", node.describe())),
            }
        });
        self.required("branch", fields::branch);
        self.required("tests_run", not_empty);
        self.required("next_owner", AgentName::of);
    }
}

/// A severity that may be deferred: what blocks cannot be a nit.
fn deferrable(node: &Node) -> Ruled<Severity> {
    let tier: Severity = fields::word(Severity::WORDS)(node)?;
    match tier {
        Severity::P2 | Severity::P3 => Ok(tier),
        Severity::P0 | Severity::P1 => {
            Err(format!("a {tier} finding blocks and cannot be deferred"))
        }
    }
}

/// A finding id, a path, or a mapping that names the finding.
fn source(node: &Node) -> Ruled<String> {
    match &node.value {
        Value::Map(entries) => {
            let named = |key: &str| entries.iter().find(|entry| entry.key == key);
            let entry = ["finding_id", "finding", "id"].into_iter().find_map(named);
            entry.map_or(Ok(String::new()), |entry| fields::line(MAX_LINE)(&entry.node))
        }
        _ => fields::line(MAX_LINE)(node),
    }
}

fn not_empty(node: &Node) -> Ruled<()> {
    match &node.value {
        Value::List(items) if items.is_empty() => Err("the list is empty".to_owned()),
        Value::Map(entries) if entries.is_empty() => Err("the mapping is empty".to_owned()),
        _ => Ok(()),
    }
}

impl Request {
    fn print(&self, map: &mut Map) {
        map.literal("pr", self.pr).text("branch", &self.branch);
        map.text("diff_summary", &self.diff_summary);
        optional_text(map, "handoff_ref", self.handoff_ref.as_deref());
        map.literal("max_turns_reviewer", self.max_turns_reviewer);
        map.literal("max_runtime_s_reviewer", self.max_runtime_s_reviewer);
        for (key, number) in [("round", self.round), ("max_rounds", self.max_rounds)] {
            if let Some(number) = number {
                map.literal(key, number);
            }
        }
        optional_text(map, "declared_head", self.declared_head.as_deref());
        map.entries(&self.rest);
    }
}

impl Feedback {
    fn print(&self, map: &mut Map) {
        map.text("findings_packet", &self.findings_packet);
        map.literal("round", self.round).literal("blocking_count", self.blocking_count);
        optional_text(map, "escalation", self.escalation.as_deref());
        optional_text(map, "validated_head", self.validated_head.as_deref());
        map.entries(&self.rest);
    }
}

impl Addressed {
    fn print(&self, map: &mut Map) {
        map.text("commit_sha", &self.commit_sha).text("changes_summary", &self.changes_summary);
        map.literal("round", self.round);
        for (key, texts) in [
            ("touched_files", &self.touched_files),
            ("addressed_finding_ids", &self.addressed_finding_ids),
        ] {
            if !texts.is_empty() {
                map.texts(key, texts.iter().map(String::as_str));
            }
        }
        map.entries(&self.rest);
    }
}

impl Lgtm {
    fn print(&self, map: &mut Map) {
        map.text("quality_gate_result", self.quality_gate_result.name());
        map.literal("merge_ready", self.merge_ready);
        if !self.nits.is_empty() {
            map.maps("nits", &self.nits, Nit::print);
        }
        optional_text(map, "validated_head", self.validated_head.as_deref());
        optional_text(map, "findings_packet", self.findings_packet.as_deref());
        map.entries(&self.rest);
    }
}

impl Nit {
    fn print(&self, map: &mut Map) {
        map.text("nit_id", &self.id).text("tier", self.tier.name());
        map.text("summary", &self.summary).text("owner", &self.owner);
        map.text("next_action", &self.next_action);
        optional_text(map, "source", self.source.as_deref());
        optional_text(map, "tracking_ref", self.tracking_ref.as_deref());
        let expires = self.expires_at.map(fields::print_moment);
        optional_text(map, "expires_at_utc", expires.as_deref());
        map.entries(&self.rest);
    }
}

fn optional_text(map: &mut Map, key: &str, text: Option<&str>) {
    if let Some(text) = text {
        map.text(key, text);
    }
}
