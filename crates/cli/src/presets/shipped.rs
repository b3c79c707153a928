//! The presets that are part of this program.

use super::LoopFile;

/// A preset and its files, as they were when the program was built.
#[derive(Debug)]
pub(crate) struct Shipped {
    pub(crate) name: &'static str,
    /// Paths relative to the directory of the loop, and what is in them.
    texts: &'static [(&'static str, &'static str)],
}

impl Shipped {
    pub(super) fn readme(&self) -> &'static str {
        self.texts.iter().find(|(path, _)| *path == "README.md").map_or("", |(_, text)| text)
    }

    pub(super) fn files(&self) -> Vec<LoopFile> {
        self.texts.iter().map(|(path, text)| LoopFile::text(path, text)).collect()
    }
}

/// Takes presets in, each by its name and its roles.
macro_rules! shipped {
    ($($name:literal: $($role:literal),+;)+) => {
        /// All of them, by name.
        pub(crate) const SHIPPED: &[Shipped] = &[$(Shipped {
            name: $name,
            texts: &[
                ("README.md", shipped!(@text $name, "README.md")),
                ("autoloops.toml", shipped!(@text $name, "autoloops.toml")),
                ("topology.toml", shipped!(@text $name, "topology.toml")),
                ("harness.md", shipped!(@text $name, "harness.md")),
                $((concat!("roles/", $role, ".md"), shipped!(@text $name, "roles/", $role, ".md")),)+
            ],
        },)+];
    };
    (@text $name:literal, $($path:literal),+) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/presets/", $name, "/", $($path),+))
    };
}

shipped! {
    "autocode": "planner", "builder", "critic", "finalizer";
    "autodoc": "auditor", "writer", "checker", "publisher";
    "autofix": "diagnoser", "fixer", "verifier", "closer";
    "autoreview": "reader", "checker", "reporter";
    "autospec": "researcher", "author", "challenger", "planner";
    "autotest": "surveyor", "writer", "breaker", "finisher";
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoloop_core::topology::{RolePrompt, Topology};
    use std::path::{Path, PathBuf};

    fn text(shipped: &Shipped, path: &str) -> &'static str {
        let found = shipped.texts.iter().find(|(known, _)| *known == path);
        found.unwrap_or_else(|| panic!("{}: no {path}", shipped.name)).1
    }

    fn topology(shipped: &Shipped) -> Topology {
        Topology::parse(text(shipped, "topology.toml")).unwrap()
    }

    fn events(topology: &Topology, role: usize) -> Vec<&str> {
        topology.roles[role].emits.iter().filter_map(|pattern| pattern.exact()).collect()
    }

    /// `run` checks objective and agents of these presets without reading their files.
    #[test]
    fn none_has_an_objective_or_an_agent_of_its_own() {
        for shipped in SHIPPED {
            let settings = text(shipped, "autoloops.toml");
            for key in ["event_loop.prompt", "backend.command", "backend.kind"] {
                assert!(!settings.contains(key), "{}: {key}", shipped.name);
            }
            assert!(!text(shipped, "topology.toml").contains("backend_"), "{}", shipped.name);
        }
    }

    #[test]
    fn nothing_on_the_disk_is_left_out_of_the_program() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("presets");
        let mut found: Vec<PathBuf> = Vec::new();
        let mut left = vec![root.clone()];
        while let Some(dir) = left.pop() {
            for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
                match entry.path().is_dir() {
                    true => left.push(entry.path()),
                    false => found.push(entry.path().strip_prefix(&root).unwrap().to_owned()),
                }
            }
        }
        found.sort();
        let mut known: Vec<PathBuf> = SHIPPED
            .iter()
            .flat_map(|preset| {
                preset.texts.iter().map(|(path, _)| Path::new(preset.name).join(path))
            })
            .collect();
        known.sort();
        assert_eq!(found, known);
    }

    #[test]
    fn every_topology_is_sound() {
        for shipped in SHIPPED {
            let topology = topology(shipped);
            assert_eq!(topology.completion.as_deref(), Some("task.complete"), "{}", shipped.name);
            assert_eq!(topology.warnings("task.complete"), [], "{}", shipped.name);
        }
    }

    #[test]
    fn every_prompt_is_there_and_names_the_events_of_its_role() {
        for shipped in SHIPPED {
            let topology = topology(shipped);
            for (place, role) in topology.roles.iter().enumerate() {
                let RolePrompt::File(file) = role.prompt() else { panic!("{}", role.id) };
                let file = file.get_ref();
                assert_eq!(*file, format!("roles/{}.md", role.id), "{}", shipped.name);
                let prompt = text(shipped, file);
                // The other roles see the first line only, so it says what the role does.
                let title = prompt.lines().next().unwrap().to_lowercase();
                assert!(title.starts_with(&format!("# {}: ", role.id)), "{title}");
                let (_, listed) = prompt.split_once("\n## Events\n").unwrap();
                let listed: Vec<_> = listed
                    .lines()
                    .filter_map(|line| line.strip_prefix("- `")?.split_once("`: "))
                    .map(|(event, _)| event)
                    .collect();
                let mut expected = events(&topology, place);
                let mut found = listed.clone();
                expected.sort_unstable();
                found.sort_unstable();
                assert_eq!(found, expected, "{}/{}", shipped.name, role.id);
            }
        }
    }

    #[test]
    fn every_readme_lists_every_event() {
        for shipped in SHIPPED {
            let readme = shipped.readme();
            assert!(readme.starts_with(&format!("# {}: ", shipped.name)), "{}", shipped.name);
            assert!(
                readme.contains(&format!("autoloop run {} ", shipped.name)),
                "{}",
                shipped.name
            );
            let topology = topology(shipped);
            for place in 0..topology.roles.len() {
                for event in events(&topology, place) {
                    assert!(
                        readme.contains(&format!("| `{event}` |")),
                        "{}: {event}",
                        shipped.name
                    );
                }
            }
        }
    }
}
