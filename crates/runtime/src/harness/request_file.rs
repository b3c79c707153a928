//! What a run was asked to do, kept as sealed text in its directory.
//!
//! The file `flags` is for people to read and for the harness to use, so it is sealed: an edited one is not used. The
//! same text is in the file `request`.

use std::path::Path;

use super::{DriveError, RunPlace, Trust, notes};
use crate::project::read_text;

/// No command line is longer on any known system.
const LONGEST: u64 = 8 * 1024 * 1024;
/// The beginning of the last line.
const SEAL: &str = "seal ";

pub(crate) enum RequestText {
    Intact(String),
    /// `flags` was edited, damaged or removed; this is its copy.
    Restored(String),
    Unproven,
}

pub(crate) fn keep_request(place: &RunPlace<'_>, text: &str) -> Result<(), DriveError> {
    let seal = place.world.key().map_or(0, |key| key.seal("request", &parts(place, text)));
    let sealed = format!("{text}{SEAL}{seal:032x}\n");
    place.write(place.dir.flags(), &sealed)?;
    place.write(place.dir.request(), &sealed)
}

/// Reads it. A user who trusts the journal trusts `flags` as it stands.
pub(crate) fn read_request(place: &RunPlace<'_>, trust: Trust) -> RequestText {
    if let Some(text) = read_sealed(place, &place.dir.flags()) {
        return RequestText::Intact(text);
    }
    let of_notes = || {
        let notes = notes::read(place).unwrap_or_default();
        notes.requests.iter().rev().find_map(|sealed| unsealed(place, sealed).map(str::to_owned))
    };
    if let Some(text) = read_sealed(place, &place.dir.request()).or_else(of_notes) {
        return RequestText::Restored(text);
    }
    if trust == Trust::Proven {
        return RequestText::Unproven;
    }
    let text = read(place, &place.dir.flags()).unwrap_or_default();
    RequestText::Intact(split_seal(&text).map_or(text.as_str(), |(text, _)| text).to_owned())
}

/// Whether a harness of this program kept a request.
pub(super) fn is_sealed(place: &RunPlace<'_>) -> bool {
    matches!(read_request(place, Trust::Proven), RequestText::Intact(_) | RequestText::Restored(_))
}

fn read(place: &RunPlace<'_>, path: &Path) -> Option<String> {
    read_text(&*place.world.disk, path, LONGEST).ok()?
}

fn read_sealed(place: &RunPlace<'_>, path: &Path) -> Option<String> {
    unsealed(place, &read(place, path)?).map(str::to_owned)
}

/// The text before a seal that fits.
fn unsealed<'t>(place: &RunPlace<'_>, sealed: &'t str) -> Option<&'t str> {
    let (text, seal) = split_seal(sealed)?;
    let key = place.world.key()?;
    (seal == key.seal("request", &parts(place, text))).then_some(text)
}

fn parts<'a>(place: &RunPlace<'a>, text: &'a str) -> [&'a [u8]; 2] {
    [place.run.as_bytes(), text.as_bytes()]
}

/// The text before the last line, and the seal in it.
fn split_seal(sealed: &str) -> Option<(&str, u128)> {
    let body = sealed.strip_suffix('\n')?;
    let start = body.rfind('\n').map_or(0, |newline| newline + 1);
    let (text, line) = body.split_at(start);
    let seal = line.strip_prefix(SEAL).filter(|seal| seal.len() == 32)?;
    Some((text, u128::from_str_radix(seal, 16).ok()?))
}
