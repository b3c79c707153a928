//! The settings of each agent.

use super::key::Key;

/// The settings that say how an agent is started and limited.
#[derive(Debug)]
pub struct AgentKeys {
    /// The table or key that may also be a text which names the agent.
    pub name: &'static str,
    pub kind: Key,
    pub command: Key,
    pub args: Key,
    pub model: Key,
    pub env: Key,
    pub prompt_mode: Key,
    pub output: Key,
    pub timeout: Key,
    pub grace: Key,
    pub leftovers: Key,
    pub output_cap: Key,
}

impl AgentKeys {
    pub const ALL: [&'static AgentKeys; 6] = [
        &AgentKeys::LOOP,
        &AgentKeys::REVIEW,
        &AgentKeys::SLOT_REVIEWER,
        &AgentKeys::SQUAD_BUILDER,
        &AgentKeys::SQUAD_REVIEWER,
        &AgentKeys::SQUAD_PLANNER,
    ];
    pub const LOOP: AgentKeys = AgentKeys {
        name: "backend",
        kind: Key::BackendKind,
        command: Key::BackendCommand,
        args: Key::BackendArgs,
        model: Key::BackendModel,
        env: Key::BackendEnv,
        prompt_mode: Key::BackendPromptMode,
        output: Key::BackendOutput,
        timeout: Key::BackendTimeout,
        grace: Key::BackendGrace,
        leftovers: Key::BackendLeftovers,
        output_cap: Key::BackendOutputCap,
    };
    /// The agent of metareviews. Its timeout does not follow that of the loop: a long task is no reason for a
    /// long review.
    pub const REVIEW: AgentKeys = AgentKeys {
        name: "review.backend",
        kind: Key::ReviewKind,
        command: Key::ReviewCommand,
        args: Key::ReviewArgs,
        model: Key::ReviewModel,
        env: Key::ReviewEnv,
        prompt_mode: Key::ReviewPromptMode,
        output: Key::ReviewOutput,
        timeout: Key::ReviewTimeout,
        ..AgentKeys::LOOP
    };
    pub const SLOT_REVIEWER: AgentKeys = AgentKeys {
        name: "slots.reviewer",
        kind: Key::SlotsReviewerKind,
        command: Key::SlotsReviewerCommand,
        args: Key::SlotsReviewerArgs,
        model: Key::SlotsReviewerModel,
        env: Key::SlotsReviewerEnv,
        prompt_mode: Key::SlotsReviewerPromptMode,
        output: Key::SlotsReviewerOutput,
        timeout: Key::SlotsReviewerTimeout,
        grace: Key::SlotsReviewerGrace,
        leftovers: Key::SlotsReviewerLeftovers,
        output_cap: Key::SlotsReviewerOutputCap,
    };
    pub const SQUAD_BUILDER: AgentKeys = AgentKeys {
        name: "squad.builder",
        kind: Key::SquadBuilderKind,
        command: Key::SquadBuilderCommand,
        args: Key::SquadBuilderArgs,
        model: Key::SquadBuilderModel,
        env: Key::SquadBuilderEnv,
        prompt_mode: Key::SquadBuilderPromptMode,
        output: Key::SquadBuilderOutput,
        timeout: Key::SquadBuilderTimeout,
        grace: Key::SquadBuilderGrace,
        leftovers: Key::SquadBuilderLeftovers,
        output_cap: Key::SquadBuilderOutputCap,
    };
    pub const SQUAD_REVIEWER: AgentKeys = AgentKeys {
        name: "squad.reviewer",
        kind: Key::SquadReviewerKind,
        command: Key::SquadReviewerCommand,
        args: Key::SquadReviewerArgs,
        model: Key::SquadReviewerModel,
        env: Key::SquadReviewerEnv,
        prompt_mode: Key::SquadReviewerPromptMode,
        output: Key::SquadReviewerOutput,
        timeout: Key::SquadReviewerTimeout,
        grace: Key::SquadReviewerGrace,
        leftovers: Key::SquadReviewerLeftovers,
        output_cap: Key::SquadReviewerOutputCap,
    };
    pub const SQUAD_PLANNER: AgentKeys = AgentKeys {
        name: "squad.planner",
        kind: Key::SquadPlannerKind,
        command: Key::SquadPlannerCommand,
        args: Key::SquadPlannerArgs,
        model: Key::SquadPlannerModel,
        env: Key::SquadPlannerEnv,
        prompt_mode: Key::SquadPlannerPromptMode,
        output: Key::SquadPlannerOutput,
        timeout: Key::SquadPlannerTimeout,
        grace: Key::SquadPlannerGrace,
        leftovers: Key::SquadPlannerLeftovers,
        output_cap: Key::SquadPlannerOutputCap,
    };

    pub fn named(name: &str) -> Option<&'static AgentKeys> {
        AgentKeys::ALL.into_iter().find(|keys| keys.name == name)
    }
}
