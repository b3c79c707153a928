//! The directory that everything is written to, for as long as the program runs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Fallible;

const PREFIX: &str = "autoloop-bench-";

/// A directory that is removed with the value.
pub(crate) struct Place {
    path: PathBuf,
}

impl Place {
    /// Creates a directory in `AUTOLOOP_BENCH_DIR`, else in `/var/tmp`. The build directory is
    /// usually inside a git repository, where a slot calls git as well, and `/tmp` is often in
    /// memory, where a sync costs nothing.
    pub(crate) fn new() -> Fallible<Place> {
        let base = env::var_os("AUTOLOOP_BENCH_DIR").map_or_else(default_base, PathBuf::from);
        fs::create_dir_all(&base)?;
        let base = base.canonicalize()?;
        remove_leftovers(&base)?;
        let path = base.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Place { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What remains is removed by the next run.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// `/var/tmp`, or the temporary directory of a system without one.
fn default_base() -> PathBuf {
    let kept = PathBuf::from("/var/tmp");
    if kept.is_dir() { kept } else { env::temp_dir() }
}

/// Removes what an interrupted run left: gigabytes, possibly.
fn remove_leftovers(base: &Path) -> Fallible<()> {
    for entry in fs::read_dir(base)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        let is_process = process.bytes().all(|byte| byte.is_ascii_digit());
        if is_process
            && Path::new("/proc/self").exists()
            && !Path::new("/proc").join(process).exists()
        {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
