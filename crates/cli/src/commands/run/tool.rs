//! The program that agents call: a small script in the state directory.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use autoloop_core::plan::Files;
use autoloop_runtime::files::{self, Links};
use autoloop_runtime::layout;
use autoloop_runtime::private_files;

use crate::failure::Failure;

/// Puts the tool in its place. It finds the project by itself, so it works from any directory, and
/// what the harness set for an agent comes first.
pub(in crate::commands) fn install(
    files: &Files,
    project: &Path,
    program: &Path,
) -> Result<(), Failure> {
    let path = files.state_dir.tool();
    let text = script(files, project, program);
    write(files, project, &text).map_err(|error| {
        Failure::failed(format!("cannot write {}: {error}", path.display()))
            .hint("agents call it; the state directory has to be writable")
    })
}

fn write(places: &Files, project: &Path, text: &[u8]) -> io::Result<()> {
    layout::prepare(&places.state_dir, project)?;
    let path = places.state_dir.tool();
    let found = files::open_here(&path, Links::Refuse, text.len() as u64);
    if let Ok(file) = found
        && is_program(&file, text)?
    {
        return Ok(());
    }
    // Beside it and then in its place: another run may be calling it at this moment.
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file = private_files::create_file(&beside, private_files::Use::Program)?;
    let written = file.write_all(text).and_then(|()| {
        drop(file);
        fs::rename(&beside, &path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Whether a file is this program already, and private.
fn is_program(mut file: &File, text: &[u8]) -> io::Result<bool> {
    let mut there = Vec::new();
    file.read_to_end(&mut there)?;
    Ok(there == text && file.metadata()?.mode() & 0o777 == 0o700)
}

fn script(files: &Files, project: &Path, program: &Path) -> Vec<u8> {
    let mut text = b"#!/bin/sh\n# Written by autoloop: the command that agents call.\n".to_vec();
    for (name, value) in [
        ("AUTOLOOP_PROJECT_DIR", project),
        ("AUTOLOOP_STATE_DIR", &*files.state_dir),
        ("AUTOLOOP_JOURNAL_FILE", files.journal.as_path()),
    ] {
        text.extend_from_slice(format!(": \"${{{name}:=").as_bytes());
        text.extend_from_slice(&in_double_quotes(value.as_os_str().as_bytes()));
        text.extend_from_slice(format!("}}\"; export {name}\n").as_bytes());
    }
    text.extend_from_slice(b"exec '");
    text.extend_from_slice(&in_single_quotes(program.as_os_str().as_bytes()));
    text.extend_from_slice(b"' \"$@\"\n");
    text
}

/// Bytes that stand for themselves between single quotes.
fn in_single_quotes(bytes: &[u8]) -> Vec<u8> {
    bytes.split(|byte| *byte == b'\'').collect::<Vec<_>>().join(&b"'\\''"[..])
}

/// Bytes that stand for themselves between double quotes, inside of `${…:=…}`.
fn in_double_quotes(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .flat_map(|&byte| match byte {
            b'"' | b'\\' | b'$' | b'`' | b'}' => vec![b'\\', byte],
            _ => vec![byte],
        })
        .collect()
}
