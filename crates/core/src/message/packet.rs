//! A findings packet: what one reviewer found in one round, and which validation commands passed.

use std::collections::HashSet;

use super::envelope::AgentName;
use super::fields::{self, Fields, Ruled};
use super::problem::Problems;
use super::write::Map;
use super::yaml::{self, Entry, Node};
use super::{Checked, MAX_ROUNDS};
use crate::review::{FindingStatus, Severity};
use crate::timestamp::Timestamp;
use crate::wire_enum::words;

const MAX_TEXT: usize = super::envelope::MAX_BODY;
const MAX_LINE: usize = 500;
const AREAS: [&str; 8] =
    ["code", "test", "docs", "config", "infra", "security", "performance", "other"];

words! {
    Outcome {
        Pass = "pass",
        Warn = "warn",
        Fail = "fail",
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    pub id: String,
    pub source_review_packet: Option<String>,
    pub reviewer: AgentName,
    pub round: u64,
    pub created_at: Timestamp,
    /// The reviewer's own words; the counts of the summary are computed.
    pub verdict: String,
    pub findings: Vec<Finding>,
    pub validations: Vec<Validation>,
    /// Unknown keys of the packet, and those of `qa_validation`.
    pub rest: Vec<Entry>,
    pub qa_rest: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub id: String,
    pub severity: Severity,
    pub blocking: bool,
    pub status: FindingStatus,
    pub area: String,
    pub file: String,
    pub line: Option<u64>,
    pub description: String,
    pub repro: String,
    pub expected: String,
    pub evidence: String,
    pub recommendation: String,
    /// Unknown keys and attachments.
    pub rest: Vec<Entry>,
}

/// A command that was run to validate the change, and what it returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    pub command: String,
    pub result: Outcome,
    pub notes: String,
    /// What the harness observed when it ran the command itself.
    pub exit_code: Option<u64>,
    pub duration_ms: Option<u64>,
    pub output_digest: Option<String>,
    pub rest: Vec<Entry>,
}

impl Finding {
    /// Whether it has to be resolved before a merge: P0 and P1 always, P2 when the reviewer says so, P3 never.
    pub fn blocks(&self) -> bool {
        match self.severity {
            Severity::P0 | Severity::P1 => true,
            Severity::P2 => self.blocking,
            Severity::P3 => false,
        }
    }

    /// `wont_fix` does not resolve a P0.
    pub fn is_resolved(&self) -> bool {
        match self.status {
            FindingStatus::Fixed => true,
            FindingStatus::WontFix => self.severity != Severity::P0,
            FindingStatus::Open | FindingStatus::NotFixed | FindingStatus::NeedsClarification => {
                false
            }
        }
    }
}

impl Packet {
    pub fn read(bytes: &[u8]) -> Checked<Packet> {
        let mut problems = Problems::default();
        let root = yaml::read(bytes, &mut problems);
        let value = root.and_then(|root| read_packet(root, &mut problems));
        Checked { value: value.filter(|_| problems.is_accepted()), problems }
    }

    /// The blocking findings that are not resolved.
    pub fn unresolved_blockers(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.blocks() && !finding.is_resolved())
    }

    /// The middle of the id: topic and owner.
    pub(super) fn topic(&self) -> &str {
        let middle = self.id.split_once('_').and_then(|(_, rest)| rest.rsplit_once('_'));
        middle.map_or("", |(topic, _)| topic)
    }

    /// The id after the last one.
    pub fn next_finding_id(&self) -> String {
        let numbers =
            self.findings.iter().filter_map(|finding| finding.id[2..].parse::<u64>().ok());
        format!("F-{:03}", numbers.max().unwrap_or(0) + 1)
    }

    /// The name of its file.
    pub fn file_name(&self) -> String {
        format!("{}.yaml", self.id)
    }

    pub fn print(&self) -> String {
        let mut map = Map::default();
        map.text("packet_id", &self.id);
        map.text("source_review_packet", self.source_review_packet.as_deref().unwrap_or_default());
        map.text("reviewer", self.reviewer.as_str()).literal("round", self.round);
        map.text("created_at_utc", &fields::print_moment(self.created_at));
        let blocking = self.findings.iter().filter(|finding| finding.blocking).count();
        map.map("summary", |map| {
            map.text("verdict", &self.verdict).literal("blocking_count", blocking);
            map.literal("non_blocking_count", self.findings.len() - blocking);
        });
        map.maps("findings", &self.findings, Finding::print);
        map.map("qa_validation", |map| {
            map.maps("commands_run", &self.validations, Validation::print).entries(&self.qa_rest);
        });
        map.entries(&self.rest).finish()
    }
}

impl Finding {
    fn print(&self, map: &mut Map) {
        map.text("id", &self.id).text("severity", self.severity.name());
        map.literal("blocking", self.blocking).text("status", self.status.name());
        map.text("area", &self.area).text("file", &self.file);
        match self.line {
            Some(line) => map.literal("line", line),
            None => map.literal("line", "null"),
        };
        for (key, text) in [
            ("description", &self.description),
            ("repro", &self.repro),
            ("expected", &self.expected),
            ("evidence", &self.evidence),
            ("recommendation", &self.recommendation),
        ] {
            map.text(key, text);
        }
        map.entries(&self.rest);
    }
}

impl Validation {
    fn print(&self, map: &mut Map) {
        map.text("command", &self.command).text("result", self.result.name());
        map.text("notes", &self.notes);
        for (key, number) in [("exit_code", self.exit_code), ("duration_ms", self.duration_ms)] {
            if let Some(number) = number {
                map.literal(key, number);
            }
        }
        if let Some(digest) = &self.output_digest {
            map.text("output_digest", digest);
        }
        map.entries(&self.rest);
    }
}

fn read_packet(root: Node, problems: &mut Problems) -> Option<Packet> {
    let mut fields = Fields::of("the findings packet", root, problems)?;
    let id_place = fields.place("packet_id");
    let id = fields.required("packet_id", packet_id);
    let source_review_packet = fields.optional("source_review_packet", fields::relative_path);
    let reviewer = fields.required("reviewer", AgentName::of);
    let round = fields.required("round", fields::number(1, MAX_ROUNDS));
    let created_at = fields.required("created_at_utc", fields::moment);
    if let (Some(id), Some(round)) = (&id, round)
        && !id.ends_with(&format!("_r{round}"))
    {
        fields
            .warning(id_place, format!("packet_id '{id}' does not end with _r{round}, its round"));
    }
    let findings_place = fields.place("findings");
    if !fields.has("findings") || fields.peek("findings").is_some_and(Node::is_blank) {
        fields.error(findings_place, "missing list 'findings'; a clean review has 'findings: []'");
    }
    let findings = fields.maps("findings", |finding| finding.read_finding());
    let mut ids = HashSet::new();
    let is_complete = findings.iter().all(Option::is_some);
    let findings: Vec<Finding> = findings.into_iter().flatten().collect();
    for twice in findings.iter().filter(|finding| !ids.insert(finding.id.as_str())) {
        fields.error(findings_place, format!("two findings have the id {}", twice.id));
    }
    let verdict = fields.summary(Some(&*findings).filter(|_| is_complete));
    let qa = fields.map("qa_validation").map(|mut qa| {
        let validations = qa.maps("commands_run", |command| command.read_validation());
        (validations.into_iter().flatten().collect(), qa.take_rest())
    });
    let (validations, qa_rest) = qa.unwrap_or_default();
    Some(Packet {
        id: id?,
        source_review_packet,
        reviewer: reviewer?,
        round: round?,
        created_at: created_at?,
        verdict,
        findings,
        validations,
        rest: fields.rest(),
        qa_rest,
    })
}

impl Fields<'_> {
    fn read_finding(&mut self) -> Option<Finding> {
        let id = self.required("id", fields::numbered("F"));
        let severity = self.required("severity", fields::word::<Severity>(Severity::WORDS));
        let blocking_place = self.place("blocking");
        let blocking = self.required("blocking", fields::boolean);
        let status = self.required("status", fields::word::<FindingStatus>(FindingStatus::WORDS));
        let area_place = self.place("area");
        let area = self.optional("area", fields::line(MAX_LINE)).unwrap_or_default();
        if !area.is_empty() && !AREAS.contains(&area.as_str()) {
            self.warning(area_place, format!("unknown area: expected one of {}", AREAS.join(", ")));
        }
        let file = self.optional("file", fields::relative_path).unwrap_or_default();
        let line = self.optional("line", fields::number(1, u64::MAX));
        let mut text = |key| self.optional(key, fields::text(MAX_TEXT)).unwrap_or_default();
        let (description, repro) = (text("description"), text("repro"));
        let (expected, evidence) = (text("expected"), text("evidence"));
        let recommendation = text("recommendation");
        self.check_attachments();
        let finding = Finding {
            id: id?,
            severity: severity?,
            blocking: blocking?,
            status: status?,
            area,
            file,
            line,
            description,
            repro,
            expected,
            evidence,
            recommendation,
            rest: self.take_rest(),
        };
        if finding.blocking != finding.blocks() {
            let (id, severity) = (&finding.id, finding.severity);
            let message = format!("{id} is {severity}, so 'blocking' must be {}", finding.blocks());
            match finding.is_resolved() {
                true => self.warning(blocking_place, message),
                false => self.error(blocking_place, message),
            }
        }
        Some(finding)
    }

    /// Attachments are kept as they are; only where their paths lead is checked.
    fn check_attachments(&mut self) {
        let Some(node) = self.peek("evidence_attachments").cloned() else { return };
        self.maps("evidence_attachments", |attachment| {
            attachment.optional("path", fields::relative_path);
        });
        self.put_back("evidence_attachments", node);
    }

    fn read_validation(&mut self) -> Option<Validation> {
        let command = self.required("command", fields::text(MAX_TEXT));
        let result_place = self.place("result");
        let result = self.required("result", fields::word::<Outcome>(Outcome::WORDS));
        let notes = self.optional("notes", fields::text(MAX_TEXT)).unwrap_or_default();
        let exit_code = self.optional("exit_code", fields::number(0, 255));
        let duration_ms = self.optional("duration_ms", fields::number(0, u64::MAX));
        let output_digest = self.optional("output_digest", fields::line(MAX_LINE));
        if let (Some(Outcome::Pass), Some(code @ 1..)) = (result, exit_code) {
            self.error(result_place, format!("exit code {code} is no pass"));
        }
        Some(Validation {
            command: command?,
            result: result?,
            notes,
            exit_code,
            duration_ms,
            output_digest,
            rest: self.take_rest(),
        })
    }

    /// Reads the summary, and compares its counts with the findings, if all of them could be read.
    fn summary(&mut self, findings: Option<&[Finding]>) -> String {
        let at = self.place("summary");
        if !self.has("summary") {
            self.warning(at, "missing field 'summary' with blocking_count and non_blocking_count");
        }
        let Some(mut summary) = self.map("summary") else { return String::new() };
        let verdict = summary.optional("verdict", fields::text(MAX_TEXT)).unwrap_or_default();
        for (key, blocking) in [("blocking_count", true), ("non_blocking_count", false)] {
            let place = summary.place(key);
            let count = summary.required(key, fields::number(0, u64::MAX));
            let (Some(count), Some(findings)) = (count, findings) else { continue };
            let all = findings.iter().filter(|finding| finding.blocking == blocking);
            let open = all.clone().filter(|finding| !finding.is_resolved()).count() as u64;
            let all = all.count() as u64;
            // The number of all of them and the number of those that are left are both in use.
            if count != all && count != open {
                summary
                    .error(place, format!("field '{key}' is {count}, but the findings have {all}"));
            }
        }
        verdict
    }
}

/// `<8 digits>_<topic>_<owner>_r<round>`, which is also the name of the file.
fn packet_id(node: &Node) -> Ruled<String> {
    let id = fields::id(node)?;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = id.split('_').collect();
    let is_valid = match &*parts {
        [date, middle @ .., round] => {
            date.len() == 8
                && is_digits(date)
                && middle.len() >= 2
                && round.strip_prefix('r').is_some_and(is_digits)
        }
        _ => false,
    };
    match is_valid {
        true => Ok(id),
        false => Err(format!(
            "expected an id like 20260213_topic_reviewer_r1, found {}",
            node.describe()
        )),
    }
}
