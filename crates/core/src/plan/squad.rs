//! The agents of a squad, and how much they are reviewed: `squad.*`, resolved.

use super::{BackendPlan, count};
use crate::config::{AgentKeys, Key, Sandbox, Settings};
use crate::squad::Effort;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SquadPlan {
    pub effort: Effort,
    pub max_loops: u64,
    /// Of each loop.
    pub max_iterations: u64,
    pub builder: BackendPlan,
    pub reviewer: BackendPlan,
    /// Writes the tasks and the plan.
    pub planner: BackendPlan,
    /// Of reviewers.
    pub sandbox: Sandbox,
}

impl SquadPlan {
    pub(super) fn resolve(settings: &Settings) -> SquadPlan {
        SquadPlan {
            effort: settings.word(Key::SquadEffort),
            max_loops: count(settings, Key::SquadMaxLoops),
            max_iterations: count(settings, Key::SquadMaxIterations),
            builder: BackendPlan::new(settings, &AgentKeys::SQUAD_BUILDER),
            reviewer: BackendPlan::new(settings, &AgentKeys::SQUAD_REVIEWER),
            planner: BackendPlan::new(settings, &AgentKeys::SQUAD_PLANNER),
            sandbox: settings.word(Key::ReviewSandbox),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Layer, Origin};
    use crate::plan::Plan;
    use crate::topology::Topology;

    fn plan(text: &str) -> Plan {
        let reading = Settings::resolve(&[Layer::file(Origin::Project, "autoloops.toml", text)]);
        assert_eq!(reading.problems, [], "{text}");
        Plan::resolve(&reading.settings, &Topology::default()).unwrap()
    }

    #[test]
    fn the_agents_of_a_squad_are_like_the_loop_but_for_what_is_set() {
        let like = plan("backend = { command = 'x', args = ['-a'], timeout_ms = 7 }");
        for agent in [&like.squad.builder, &like.squad.reviewer, &like.squad.planner] {
            assert_eq!(*agent, like.backend);
        }
        assert_eq!(
            (like.squad.effort, like.squad.max_loops, like.squad.max_iterations),
            (Effort::Medium, 4, 20)
        );

        let own = plan(
            "backend.args = ['-p']\n[squad]\neffort = 'max'\nmax_loops = 2\nmax_iterations = 3\n\
             builder = 'gemini --yolo'\nreviewer = 'codex:gpt-5.5'\nplanner = { model = 'opus', timeout_ms = '9s' }\n",
        )
        .squad;
        let line = |agent: &BackendPlan| {
            let model = agent.model.as_deref().unwrap_or("-");
            format!(
                "{} {:?} {model} {:?} {}",
                agent.command, agent.args, agent.timeout, agent.timeout_key
            )
        };
        let lines = [&own.builder, &own.reviewer, &own.planner].map(line).join("\n");
        insta::assert_snapshot!(lines, @r#"
        gemini ["--yolo"] - 1800s backend.timeout_ms
        codex [] gpt-5.5 1800s backend.timeout_ms
        claude ["-p"] opus 9s squad.planner.timeout_ms
        "#);
        assert_eq!((own.effort, own.max_loops, own.max_iterations), (Effort::Max, 2, 3));
    }

    #[test]
    fn invalid_settings_of_a_squad_are_refused() {
        let text = "[squad]\neffort = 'huge'\nmax_loops = 0\nreviewer = ''\nbuilder.kind = 'x'\nreviwer = 'codex'\n";
        let reading = Settings::resolve(&[Layer::file(Origin::Project, "autoloops.toml", text)]);
        let lines: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        autoloops.toml: line 2, column 10: squad.effort is "huge"; expected "low", "medium", "high" or "max"
        autoloops.toml: line 3, column 13: squad.max_loops is 0; expected a whole number from 1 to 1000
        autoloops.toml: line 4, column 12: missing command; expected a client like 'claude' or 'codex:MODEL', or a command line
        autoloops.toml: line 5, column 16: squad.builder.kind is "x"; expected "command", "claude", "codex", "gemini", "opencode", "pi", "acp", "script" or "replay"
        autoloops.toml: line 6, column 1: unknown key squad.reviwer; no such key (run `autoloop config show` to list all keys)
        "#);
    }
}
