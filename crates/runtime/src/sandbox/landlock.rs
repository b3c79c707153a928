//! Applies the rules with Landlock.
//!
//! Only writing is restricted. Rights on a directory hold for everything beneath it, and cannot be revoked
//! further down; so no right is ever granted on the project's directory itself. `Refer` is granted only
//! where everything is permitted: without it no file can be linked or moved from one directory into
//! another, so no other file gets a name under which it could be written.

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

use super::{SandboxError, Support};
use crate::world::Rules;

/// Covers everything that changes files. Newer versions only add requests to devices, which programs need
/// for their terminal.
const NEWEST: ABI = ABI::V4;

pub(super) fn probe() -> Support {
    // The crate reports the version only to a thread that restricts itself, so this is done by a
    // thread of its own. No other thread is affected.
    let status = std::thread::spawn(|| {
        let rights = AccessFs::from_write(NEWEST);
        let bound = Ruleset::default().handle_access(rights)?.create()?.restrict_self()?;
        Ok::<_, landlock::RulesetError>(bound.landlock)
    });
    match status.join() {
        Ok(Ok(LandlockStatus::Available { effective_abi, kernel_abi })) => {
            let newest = effective_abi as u32;
            Support::Landlock {
                abi: kernel_abi.and_then(|abi| abi.try_into().ok()).unwrap_or(newest),
            }
        }
        Ok(Ok(LandlockStatus::NotEnabled)) => {
            Support::None("Landlock is switched off in this kernel; start it with lsm=landlock,…")
        }
        Ok(Ok(LandlockStatus::NotImplemented)) => {
            Support::None("this kernel has no Landlock; Linux 5.13 and later have")
        }
        Ok(Err(_)) | Err(_) => Support::None("Landlock is not permitted here"),
    }
}

pub(super) fn apply(rules: &Rules) -> Result<(), SandboxError> {
    let refused = |error: landlock::RulesetError| SandboxError::Refused(error.to_string());
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_write(NEWEST))
        .and_then(|ruleset| ruleset.scope(Scope::Signal))
        .and_then(|ruleset| ruleset.scope(Scope::AbstractUnixSocket))
        .and_then(Ruleset::create)
        .map_err(refused)?;
    let in_place = make_bitflags!(AccessFs::{WriteFile | Truncate});
    let files = in_place | make_bitflags!(AccessFs::{MakeReg | RemoveFile | MakeDir | RemoveDir});
    let all = AccessFs::from_write(NEWEST);
    let guarded = rules.files.iter().map(|path| (path, in_place));
    for (path, rights) in guarded.chain(rules.directories.iter().map(|path| (path, files))) {
        ruleset = allow(ruleset, open(path), rights).map_err(refused)?;
    }
    for path in &rules.free {
        ruleset = allow(ruleset, open_linked(path), all).map_err(refused)?;
    }
    let status = ruleset.restrict_self().map_err(refused)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(SandboxError::Refused("nothing is enforced".to_owned())),
        _ => Ok(()),
    }
}

/// Grants rights on what was opened; on nothing if it does not exist.
fn allow(
    ruleset: RulesetCreated,
    opened: Option<OwnedFd>,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let Some(fd) = opened else { return Ok(ruleset) };
    let directory = rustix::fs::fstat(&fd)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    let rights = if directory { rights } else { rights & AccessFs::from_file(NEWEST) };
    ruleset.add_rule(PathBeneath::new(fd, rights))
}

/// Opens a directory that the user named, which may be behind a link.
fn open_linked(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Opens a path whose last two components are no links: agents can create those. The directories above
/// them are the user's choice.
fn open(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let above = path.parent()?;
    let base = above.parent().unwrap_or(above);
    let base = rustix::fs::open(base, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let beneath = path.strip_prefix(above.parent().unwrap_or(above)).ok()?;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let fd = rustix::fs::openat2(&base, beneath, flags, Mode::empty(), resolve).ok()?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&fd).ok()?.st_mode);
    (kind != FileType::Symlink).then_some(fd)
}
