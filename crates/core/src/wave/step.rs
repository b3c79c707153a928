//! The decisions of a wave, from the fold and the rules only.

use super::state::{Request, Wave, Waves, branch_id};
use super::{DISABLED, EXPLORE, base_of, joined_topic, objectives};
use crate::record::{
    StopReason, WaveBranchStart, WaveFailed, WaveInvalid, WaveJoinFinish, WaveJoinStart, WaveStart,
    WaveTimeout,
};
use crate::topology::{Route, Topology};
use crate::wire_enum::Word;

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum WaveStep {
    Refuse(WaveInvalid),
    /// Start it, and record the commit that its branches begin at where they have worktrees.
    Open(WaveStart),
    /// Run the branches that have not ended.
    Branches(Vec<BranchOrder>),
    /// All have ended: merge back the worktree of one.
    Merge(MergeOrder),
    /// All have ended: record the outcomes and continue the run.
    Join(Box<Join>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchOrder {
    pub start: WaveBranchStart,
    /// Whether `start` is already recorded.
    pub is_begun: bool,
    pub run: String,
    /// The commit that its worktree begins at; `None` without one.
    pub base: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeOrder {
    pub wave_id: String,
    pub branch_id: String,
    pub objective: String,
    /// The commit that it began at.
    pub base: String,
    /// The tree object of its worktree; empty where it is not recorded.
    pub tree: String,
    /// Why it failed: its work is kept and not merged.
    pub failure: Option<Word<StopReason>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    pub start: Option<WaveJoinStart>,
    pub timeout: Option<WaveTimeout>,
    pub failed: Option<WaveFailed>,
    /// Without the elapsed time.
    pub finish: Option<WaveJoinFinish>,
    pub joined_topic: String,
}

/// Decides what the waves of a run need next: the open one, or the one that is requested. `opening_event`
/// routed the iteration that made the requests; at most `most` branches are allowed, or no wave at all.
pub fn next(
    waves: &Waves,
    run: &str,
    opening_event: &str,
    most: Option<u64>,
    topology: &Topology,
) -> Option<WaveStep> {
    match (&waves.open, waves.requests.as_slice()) {
        (None, []) => None,
        (None, [request, ..]) => {
            let id = format!("{run}-wave-{}", waves.count + 1);
            Some(open(id, request, opening_event, most, topology))
        }
        // One at a time.
        (Some(wave), [request, ..]) => {
            Some(WaveStep::Refuse(refusal(request, "active_wave_exists", &wave.id, opening_event)))
        }
        (Some(wave), []) => {
            let open: Vec<BranchOrder> = branches(wave, topology);
            Some(match (open.is_empty(), merge(wave)) {
                (false, _) => WaveStep::Branches(open),
                (true, Some(order)) => WaveStep::Merge(order),
                (true, None) => WaveStep::Join(Box::new(join(wave, topology))),
            })
        }
    }
}

fn open(
    wave_id: String,
    request: &Request,
    opening_event: &str,
    most: Option<u64>,
    topology: &Topology,
) -> WaveStep {
    let Some(most) = most else {
        return WaveStep::Refuse(refusal(request, DISABLED, "", opening_event));
    };
    let objectives = match objectives(&request.payload, most) {
        Ok(objectives) => objectives,
        Err(bad) => {
            return WaveStep::Refuse(refusal(request, bad.name(), "", opening_event));
        }
    };
    let route = topology.route(opening_event);
    WaveStep::Open(WaveStart {
        wave_id,
        trigger_topic: request.topic.clone(),
        branch_count: objectives.len() as u64,
        opening_recent_event: opening_event.to_owned(),
        opening_roles: route.roles.join(","),
        opening_events: route.events.join(","),
        objectives: objectives.iter().map(|objective| format!("- {objective}\n")).collect(),
        base: None,
    })
}

fn refusal(request: &Request, reason: &str, active: &str, opening_event: &str) -> WaveInvalid {
    WaveInvalid {
        trigger_topic: request.topic.clone(),
        reason: reason.to_owned(),
        active_wave_id: active.to_owned(),
        opening_recent_event: opening_event.to_owned(),
    }
}

fn branches(wave: &Wave, topology: &Topology) -> Vec<BranchOrder> {
    let routing_event = match base_of(&wave.trigger) {
        None | Some(EXPLORE) => &wave.opening_event,
        Some(base) => base,
    };
    let route = topology.route(routing_event);
    let unfinished =
        wave.branches.iter().enumerate().filter(|(_, branch)| branch.outcome.is_none());
    unfinished
        .map(|(place, branch)| BranchOrder {
            start: WaveBranchStart {
                wave_id: wave.id.clone(),
                branch_id: branch_id(place),
                objective: branch.objective.clone(),
                routing_event: routing_event.to_owned(),
                branch_roles: route.roles.join(","),
                branch_events: route.events.join(","),
            },
            is_begun: branch.is_begun,
            run: format!("{}-{}", wave.id, place + 1),
            base: Some(wave.base.clone()).filter(|base| !base.is_empty()),
        })
        .collect()
}

/// The first branch whose work is not merged.
fn merge(wave: &Wave) -> Option<MergeOrder> {
    let base = Some(&wave.base).filter(|base| !base.is_empty())?;
    let mut branches = wave.branches.iter().enumerate();
    let (place, branch) = branches.find(|(_, branch)| branch.merge.is_none())?;
    let failed = branch.outcome.as_ref().filter(|outcome| !outcome.is_success());
    Some(MergeOrder {
        wave_id: wave.id.clone(),
        branch_id: branch_id(place),
        objective: branch.objective.clone(),
        base: base.clone(),
        tree: branch.outcome.as_ref().map(|outcome| outcome.tree.clone()).unwrap_or_default(),
        failure: failed.map(|outcome| outcome.stop_reason.clone()),
    })
}

fn join(wave: &Wave, topology: &Topology) -> Join {
    let ended = || {
        wave.branches
            .iter()
            .enumerate()
            .filter_map(|(place, branch)| Some((branch_id(place), branch.outcome.as_ref()?)))
    };
    let listed = |names: Vec<String>| (!names.is_empty()).then(|| names.join(","));
    let timed_out = ended().filter(|(_, outcome)| outcome.is_timeout()).map(|(id, _)| id).collect();
    let failed = ended()
        .filter(|(_, outcome)| !outcome.is_success() && !outcome.is_timeout())
        .map(|(id, _)| id)
        .collect();
    let outcomes: Vec<String> =
        ended().map(|(id, outcome)| format!("{id}:{}", outcome.stop_reason)).collect();
    let joined = joined_topic(&wave.trigger);
    let (basis, resume_event) = match base_of(&wave.trigger) {
        None | Some(EXPLORE) => ("opening_context", wave.opening_event.clone()),
        Some(_) => ("joined_event", joined.clone()),
    };
    let Route { roles, events } = topology.route(&resume_event);
    let told = wave.told;
    let wave_id = || wave.id.clone();
    let is_finished = !wave.resume_event.is_empty();
    Join {
        start: (!told.start).then(|| WaveJoinStart {
            wave_id: wave_id(),
            trigger_topic: wave.trigger.clone(),
            branch_count: wave.branches.len() as u64,
            elapsed_ms: ended().map(|(_, outcome)| outcome.elapsed_ms).max(),
            branch_outcomes: outcomes.join(","),
        }),
        timeout: listed(timed_out)
            .filter(|_| !told.timeout && !is_finished)
            .map(|timed_out_branches| WaveTimeout { wave_id: wave_id(), timed_out_branches }),
        failed: listed(failed)
            .filter(|_| !told.failed && !is_finished)
            .map(|failed_branches| WaveFailed { wave_id: wave_id(), failed_branches }),
        finish: (!is_finished).then(|| WaveJoinFinish {
            wave_id: wave_id(),
            trigger_topic: wave.trigger.clone(),
            joined_topic: joined.clone(),
            routing_basis: basis.to_owned(),
            resume_recent_event: resume_event.clone(),
            resume_roles: roles.join(","),
            resume_events: events.join(","),
            elapsed_ms: 0,
        }),
        joined_topic: joined.clone(),
    }
}
