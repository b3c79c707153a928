//! Presets that ship in the binary are sound, and copies of presets are complete.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use autoloop_core::topology::{RolePrompt, Topology};

use super::*;

fn written(dir: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
        fs::write(dir.join(path), text).unwrap();
    }
}

#[test]
fn a_copy_is_like_the_original_without_what_is_no_part_of_it() {
    let temp = tempfile::tempdir().unwrap();
    let (from, to) = (temp.path().join("from"), temp.path().join("a/b/to"));
    written(&from, &[("topology.toml", "x"), ("roles/a.md", "y"), (".git/config", "z")]);
    written(&from, &[("tools/check", "#!/bin/sh")]);
    fs::set_permissions(from.join("tools/check"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(&from, from.join("circle")).unwrap();
    std::os::unix::fs::symlink("roles/a.md", from.join("link.md")).unwrap();
    let files = read_files(&from).unwrap();
    let paths: Vec<_> = files.iter().map(|file| file.path.display().to_string()).collect();
    assert_eq!(paths, ["link.md", "roles/a.md", "tools/check", "topology.toml"]);
    place(&files, &to).unwrap();
    let private = files.iter().cloned().map(|file| LoopFile { mode: file.mode & 0o700, ..file });
    assert_eq!(read_files(&to).unwrap(), private.collect::<Vec<_>>());
    let again = place(&files, &to).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn what_is_no_preset_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    File::create(temp.path().join("film")).unwrap().set_len(MAX_BYTES as u64 + 1).unwrap();
    let shown = read_files(temp.path()).unwrap_err().to_string();
    insta::assert_snapshot!(shown.replace(&temp.path().display().to_string(), "DIR"), @"DIR exceeds the limits of a preset: 1000 files, 16 MB, 8 levels of directories");
}

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
        .flat_map(|preset| preset.texts.iter().map(|(path, _)| Path::new(preset.name).join(path)))
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
        assert!(readme.contains(&format!("autoloop run {} ", shipped.name)), "{}", shipped.name);
        let topology = topology(shipped);
        for place in 0..topology.roles.len() {
            for event in events(&topology, place) {
                assert!(readme.contains(&format!("| `{event}` |")), "{}: {event}", shipped.name);
            }
        }
    }
}
