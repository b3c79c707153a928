//! The program that agents call: a small script in the state directory.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use autoloop_core::plan::Files;

use crate::files::{self, Links};
use crate::{layout, private_files};

/// Writes the script. It names the project, so it works from any directory; variables that the harness set
/// for an agent take precedence.
pub(super) fn install(places: &Files, project: &Path, program: &Path) -> io::Result<()> {
    let text = script(places, project, program);
    layout::prepare(&places.state_dir, project)?;
    let path = places.state_dir.tool();
    if let Ok(mut file) = files::open_here(&path, Links::Refuse, text.len() as u64) {
        let mut present = Vec::new();
        file.read_to_end(&mut present)?;
        if present == text && file.metadata()?.mode() & 0o777 == 0o700 {
            return Ok(());
        }
    }
    // Another run may be calling it, so it is replaced in one step.
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file = private_files::create_file(&temporary, private_files::Use::Program)?;
    let written = file.write_all(&text).and_then(|()| {
        drop(file);
        fs::rename(&temporary, &path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn script(files: &Files, project: &Path, program: &Path) -> Vec<u8> {
    let mut text = b"#!/bin/sh\n# Written by autoloop: the command that agents call.\n".to_vec();
    for (name, value) in [
        ("AUTOLOOP_PROJECT_DIR", project),
        ("AUTOLOOP_STATE_DIR", &*files.state_dir),
        ("AUTOLOOP_JOURNAL_FILE", files.journal.as_path()),
    ] {
        text.extend_from_slice(format!(": \"${{{name}:=").as_bytes());
        text.extend(in_double_quotes(value.as_os_str().as_bytes()));
        text.extend_from_slice(format!("}}\"; export {name}\n").as_bytes());
    }
    text.extend_from_slice(b"exec '");
    text.extend(in_single_quotes(program.as_os_str().as_bytes()));
    text.extend_from_slice(b"' \"$@\"\n");
    text
}

fn in_single_quotes(bytes: &[u8]) -> Vec<u8> {
    bytes.split(|byte| *byte == b'\'').collect::<Vec<_>>().join(&b"'\\''"[..])
}

/// Escapes bytes for double quotes inside of `${…:=…}`.
fn in_double_quotes(bytes: &[u8]) -> Vec<u8> {
    let escaped = bytes.iter().flat_map(|&byte| match byte {
        b'"' | b'\\' | b'$' | b'`' | b'}' => vec![b'\\', byte],
        _ => vec![byte],
    });
    escaped.collect()
}
