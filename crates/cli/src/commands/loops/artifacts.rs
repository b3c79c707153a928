//! `autoloop loops artifacts`: the files of a run.

#![expect(clippy::disallowed_methods, reason = "lists real files of a run")]

use std::fs;
use std::io;
use std::path::Path;

use autoloop_core::format::json_text;
use autoloop_core::table;
use autoloop_runtime::world::World;
use serde::Serialize;

use super::{Project, RunArgs};
use crate::failure::Failure;
use crate::terminal;

/// Depth of the directories that are listed.
const DEPTH: usize = 4;

#[derive(Serialize)]
struct Artifact {
    kind: &'static str,
    bytes: u64,
    path: String,
}

pub(super) fn run(args: &RunArgs, world: &World) -> Result<(), Failure> {
    let project = Project::of(args.project_dir.as_deref(), world)?;
    let run = project.list.find(&args.run)?;
    let files = &project.located.files;
    let mut artifacts: Vec<Artifact> = [("journal", &files.journal), ("memory", &files.memory)]
        .into_iter()
        .filter_map(|(kind, path)| artifact(kind, path))
        .collect();
    // A run with an unsafe id has no directory.
    if let Some(dir) = project.list.dir(run) {
        let mut own = Vec::new();
        collect(&dir, DEPTH, &mut own)
            .map_err(|error| Failure::failed(format!("cannot read {}: {error}", dir.display())))?;
        own.sort_by_cached_key(|artifact| sort_key(&artifact.path));
        artifacts.extend(own);
    }
    let cells = |Artifact { kind, bytes, path }: &Artifact| {
        [(*kind).to_owned(), format!("{bytes:>12}"), path.clone()]
    };
    let text = match args.json {
        true => json_text(&artifacts),
        false => table::print(artifacts.iter().map(cells).collect()),
    };
    Ok(terminal::print(&text)?)
}

fn artifact(kind: &'static str, path: &Path) -> Option<Artifact> {
    let found = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some(Artifact { kind, bytes: found.len(), path: path.display().to_string() })
}

/// Collects the files of a directory, which may not exist.
fn collect(dir: &Path, depth: usize, found: &mut Vec<Artifact>) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() && depth > 0 {
            collect(&path, depth - 1, found)?;
        } else {
            found.extend(artifact(kind_of(&entry.file_name().to_string_lossy()), &path));
        }
    }
    Ok(())
}

fn kind_of(name: &str) -> &'static str {
    match name {
        "lock" => "lock",
        "memory.jsonl" => "memory",
        "own-records" => "notes",
        "flags" | "request" => "flags",
        _ if name.ends_with(".prompt.md") => "prompt",
        _ if name.ends_with(".out") || name.ends_with(".excerpt") => "output",
        _ if name.ends_with(".err") => "errors",
        _ if name.ends_with(".jsonl") => "stream",
        _ => "file",
    }
}

/// A sort key that puts iteration 2 before iteration 10: all parts up to a character that is not a digit have one length.
fn sort_key(path: &str) -> String {
    let parts = path.split_inclusive(|c: char| !c.is_ascii_digit());
    parts.map(|part| format!("{part:0>20}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names_and_come_in_the_order_of_iterations() {
        let mut names = [
            "iteration-10.prompt.md",
            "iteration-2.prompt.md",
            "iteration-2.out",
            "memory.jsonl",
            "lock",
            "pi-1.jsonl",
            "iteration-2.err",
            "notes",
        ];
        names.sort_by_cached_key(|name| sort_key(name));
        let told: Vec<String> =
            names.iter().map(|name| format!("{} {name}", kind_of(name))).collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        errors iteration-2.err
        output iteration-2.out
        prompt iteration-2.prompt.md
        prompt iteration-10.prompt.md
        lock lock
        memory memory.jsonl
        file notes
        stream pi-1.jsonl
        ");
    }
}
