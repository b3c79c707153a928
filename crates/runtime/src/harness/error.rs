//! Why the harness of a run cannot begin, resume or append.

use std::path::PathBuf;

use autoloop_core::run_id::BadRunId;

use crate::journal::{AppendError, ReadError};
use crate::project::LoadError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum HarnessError {
    /// Another process carries the run out.
    #[error("run '{run}' is being driven by another process{}", holder.map(|pid| format!(" ({pid})")).unwrap_or_default())]
    Busy { run: String, holder: Option<u32> },
    /// A run id that would lead out of the state directory.
    #[error(transparent)]
    BadRunId(#[from] BadRunId),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot write {}: {source}", .path.display())]
    Write { path: PathBuf, source: std::io::Error },
}
