//! Where the memory files of a process are.

use std::path::PathBuf;

use crate::coordinator::Kind;
use crate::env::Env;
use crate::layout::StateDir;

/// The files of the two tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Read by every run of the project.
    pub project: PathBuf,
    /// `None` outside of a run.
    pub run: Option<PathBuf>,
}

impl Places {
    /// Reads the environment. The project tier is `memory.jsonl` in the state directory. The run tier is the
    /// file in `AUTOLOOP_MEMORY_FILE`, or `runs/<run>/memory.jsonl` if the environment has a state directory
    /// and a run.
    pub fn of(env: &Env) -> Places {
        let state = match &env.state_dir {
            Some(dir) => StateDir::new(dir),
            None => StateDir::of_project(env.project_dir.as_deref()),
        };
        let project = state.memory();
        let named_by_run = || {
            let run = env.run_id.as_deref().filter(|_| env.state_dir.is_some())?;
            Places::of_run(&state, run).run
        };
        let run = env.memory_file.clone().or_else(named_by_run).filter(|file| *file != project);
        Places { project, run }
    }

    /// The files of a project and of one of its runs. An invalid run id has none.
    pub fn of_run(state_dir: &StateDir, run: &str) -> Places {
        let id = run.parse().ok();
        let run = id.map(|id| state_dir.run(Kind::Loop, &id).memory());
        Places { project: state_dir.memory(), run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_where_memory_is() {
        let places = |memory: &str, state: &str, project: &str, run: &str| {
            let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
            let env = Env {
                memory_file: path(memory),
                state_dir: path(state),
                project_dir: path(project),
                run_id: (!run.is_empty()).then(|| run.to_owned()),
                ..Env::default()
            };
            let Places { project, run } = Places::of(&env);
            (project.display().to_string(), run.map(|run| run.display().to_string()))
        };
        for (memory, state, project, run, expected) in [
            ("", "", "", "", (".autoloop/memory.jsonl", None)),
            ("", "", "/p", "", ("/p/.autoloop/memory.jsonl", None)),
            ("", "", "/p", "r", ("/p/.autoloop/memory.jsonl", None)),
            ("", "/s", "/p", "r", ("/s/memory.jsonl", Some("/s/runs/r/memory.jsonl"))),
            ("/m", "/s", "/p", "r", ("/s/memory.jsonl", Some("/m"))),
            ("/s/memory.jsonl", "/s", "/p", "r", ("/s/memory.jsonl", None)),
            ("", "/s", "", "../../etc", ("/s/memory.jsonl", None)),
            ("", "/s", "", "a/b", ("/s/memory.jsonl", None)),
            ("", "/s", "", "..", ("/s/memory.jsonl", None)),
            ("", "/s", "", "/etc", ("/s/memory.jsonl", None)),
        ] {
            let expected = (expected.0.to_owned(), expected.1.map(str::to_owned));
            assert_eq!(places(memory, state, project, run), expected);
        }
    }
}
