//! What goes wrong with a memory file, in words. It is kept with the care of a journal, and is none.

use std::path::Path;

use crate::complaint::Complaint;
use crate::journal::{AppendError, ReadError, Unsuitable};

/// Why something was not remembered.
pub(super) fn not_stored(error: AppendError) -> Complaint {
    match error {
        AppendError::Unsuitable { path, why } => unsuitable("not stored: ", &path, why),
        AppendError::Locked { holder: None, .. } => {
            Complaint::failed(format!("not stored: {error}"))
                .hint("`lsof` on the file shows who has it open")
        }
        error => error.into(),
    }
}

/// Why what is remembered cannot be told.
pub(super) fn not_read(error: ReadError) -> Complaint {
    match error {
        ReadError::Unsuitable { path, why } => unsuitable("", &path, why),
        error => error.into(),
    }
}

fn unsuitable(what: &str, path: &Path, why: Unsuitable) -> Complaint {
    let complaint =
        Complaint::failed(format!("{what}{} {}", path.display(), why.told_of("memory file")));
    complaint.hint(match why {
        Unsuitable::HardLinks(_) => "`find -samefile` shows the other names; remove them",
        Unsuitable::Directory
        | Unsuitable::Symlink
        | Unsuitable::Special
        | Unsuitable::Hole { .. } => "move it away, or name another file in core.memory_file",
    })
}
