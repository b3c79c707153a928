//! Why a run could not be carried on.

use std::path::PathBuf;

use autoloop_core::config::ItemSource;
use autoloop_core::run_id::BadRunId;
use autoloop_core::wire_enum::Word;

use crate::git::GitError;
use crate::journal::{AppendError, ReadError};
use crate::project::LoadError;
use crate::queue::QueueError;
use crate::sandbox::SandboxError;
use crate::turn::PromptError;

/// Why a run could not be carried on.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// Another process drives it.
    #[error("run '{run}' is being driven by another process{}", holder.map(|pid| format!(" ({pid})")).unwrap_or_default())]
    Busy {
        /// The run.
        run: String,
        /// The process, where the system can tell.
        holder: Option<u32>,
    },
    /// Another process drives the chain.
    #[error("chain '{chain}' is being driven by another process{}", holder.map(|pid| format!(" ({pid})")).unwrap_or_default())]
    BusyChain {
        /// The chain.
        chain: String,
        /// The process, where the system can tell.
        holder: Option<u32>,
    },
    /// A run id that would lead out of the state directory.
    #[error(transparent)]
    BadRunId(#[from] BadRunId),
    /// The files of the loop cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Something could not be put on record.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The journal could not be read, or is not the one that it was.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file of chains cannot be used for a chain that goes on.
    #[error("chains.toml cannot be used: {0}")]
    Chains(String),
    /// A step of a chain that the run asked for could not be carried on.
    #[error("{0}")]
    Step(Box<dyn std::error::Error + Send + Sync>),
    /// Reviewers cannot be held to their bounds as the settings require.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Branches cannot have working trees of their own, as the settings want it.
    #[error("parallel.isolation = \"worktree\": {0}")]
    NoTrees(GitError),
    /// There cannot be working trees for slots, and somebody asked for them.
    #[error("slots cannot have working trees of their own: {0}")]
    NoWorktrees(String),
    /// There is no program for an agent. Nobody's work has failed.
    #[error("{why}; {setting} names it")]
    NoAgent {
        /// What is not there, or may not be executed.
        why: String,
        /// The setting that names it, and where that stands.
        setting: String,
    },
    /// A run over a queue is to go on with another queue.
    #[error("run '{run}' takes its items from {}, and the settings say {now}", .began.to_string().escape_debug())]
    OtherSource {
        /// The run.
        run: String,
        /// Where its items come from.
        began: Word<ItemSource>,
        /// What the settings say.
        now: ItemSource,
    },
    /// Git could not do what trees of their own need.
    #[error(transparent)]
    Git(#[from] GitError),
    /// Nothing can be done before there is room on the disk.
    #[error("there is no room left on the disk that holds {}", .0.display())]
    NoRoom(PathBuf),
    /// The queue did not do what was asked of it.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A file of the run could not be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl DriveError {
    /// Whether nothing is wrong but that the disk is full.
    pub fn is_full_disk(&self) -> bool {
        match self {
            DriveError::NoRoom(_) => true,
            DriveError::Git(_) | DriveError::Write { .. } => says_full(&self.to_string()),
            _ => false,
        }
    }
}

impl From<PromptError> for DriveError {
    fn from(PromptError { path, source }: PromptError) -> Self {
        DriveError::Write { path, source }
    }
}

/// Whether a message of a program or of the system says that the disk is full.
pub(crate) fn says_full(message: &str) -> bool {
    ["No space left on device", "Disk quota exceeded"].iter().any(|words| message.contains(words))
}
