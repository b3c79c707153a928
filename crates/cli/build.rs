//! Links the release binary statically.
//!
//! An agent runs `autoloop emit` for every event, and loading shared libraries is a third of what that
//! costs. The usual switch, `-C target-feature=+crt-static`, cannot be given to one binary only, and
//! procedural macros refuse to be built with it; so the linker is told directly. Wherever the static
//! libraries of glibc are not installed, and on other systems, the binary is linked as usual.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What rustc links to, and the static library that stands in for it.
const LIBRARIES: [(&str, &str); 7] = [
    ("libc.a", "libc.a"),
    ("libdl.a", "libdl.a"),
    ("libgcc_s.a", "libgcc_eh.a"),
    ("libm.a", "libm.a"),
    ("libpthread.a", "libpthread.a"),
    ("librt.a", "librt.a"),
    ("libutil.a", "libutil.a"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_native = env::var("HOST").ok() == env::var("TARGET").ok();
    let is_glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !(is("PROFILE", "release") && is_native && is_glibc) {
        return;
    }
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    if LIBRARIES.iter().all(|(wanted, found)| provide(&out.join(wanted), found).is_some()) {
        link(&out);
    }
}

/// Makes a static library known under a name; `None` where it is not installed.
fn provide(wanted: &Path, library: &str) -> Option<()> {
    let answer = Command::new("cc").arg(format!("-print-file-name={library}")).output().ok()?;
    let found = PathBuf::from(String::from_utf8(answer.stdout).ok()?.trim());
    // A compiler that does not know the library answers with its bare name.
    if !found.is_absolute() {
        return None;
    }
    // The link may be there from an earlier build.
    let _ = fs::remove_file(wanted);
    symlink(found, wanted).ok()
}

/// Puts the directory of static libraries before those of the system, and asks for a static
/// executable at a fixed address, which needs no relocation at start.
fn link(libraries: &Path) {
    let search = format!("-L{}", libraries.display());
    let closing = ["-Wl,--start-group", "-lgcc_eh", "-lgcc", "-lc", "-Wl,--end-group"];
    for argument in [search.as_str(), "-static", "-no-pie"].into_iter().chain(closing) {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
