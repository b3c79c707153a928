//! Why a run could not be started or carried out.

use std::io;
use std::path::PathBuf;

use autoloop_core::agents::{BadArgument, ClientError};
use autoloop_core::chain::Fault;
use autoloop_core::config::ItemSource;
use autoloop_core::coordinator::Kind;
use autoloop_core::run_id::BadRunId;
use autoloop_core::wire_enum::Word;

use crate::git::GitError;
use crate::journal::{AppendError, ReadError};
use crate::mailbox::MailError;
use crate::project::LoadError;
use crate::queue::QueueError;
use crate::sandbox::SandboxError;

#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    #[error("{} '{run}' is running in another process{}", chain_or_run(*.kind), holder.map(|pid| format!(" ({pid})")).unwrap_or_default())]
    Busy {
        kind: Kind,
        run: String,
        /// The process, where the system lists it.
        holder: Option<u32>,
    },
    #[error(transparent)]
    BadRunId(#[from] BadRunId),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("{source}")]
    Step { number: u64, source: Box<DriveError> },
    /// A client refuses to work, or is unavailable for too long. The same would happen to every other turn.
    #[error("{client} cannot work: {error}")]
    Client { client: String, error: ClientError },
    /// The sandbox that the settings require is not available.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("parallel.isolation = \"worktree\": {0}")]
    NoTrees(GitError),
    #[error("slots cannot have worktrees of their own: {0}")]
    NoWorktrees(String),
    #[error("run '{run}' takes its items from {}, but the settings name {now}", .began.to_string().escape_debug())]
    OtherSource { run: String, began: Word<ItemSource>, now: ItemSource },
    #[error(transparent)]
    Git(#[from] GitError),
    /// A squad works in a repository with a commit.
    #[error("{0}")]
    NoRepository(GitError),
    #[error(transparent)]
    Mail(#[from] MailError),
    #[error("no branch is checked out: a review is about a branch")]
    NoBranch,
    #[error("the review is about '{0}', and another branch is checked out")]
    OtherBranch(String),
    #[error("cannot find what to compare '{branch}' with{}", base.as_ref().map(|base| format!(": no commit is named '{base}'")).unwrap_or_default())]
    NoBase { branch: String, base: Option<String> },
    #[error("no commit is named '{}'", .0.escape_debug())]
    NoCommit(String),
    #[error("commit {commit} is not a descendant of {reviewed}, which was reviewed")]
    NotDescendant { commit: String, reviewed: String },
    #[error("the message cannot be written: an agent's name in the exchange is invalid")]
    NoMessage,
    #[error("squad '{0}' ended before its specification was recorded")]
    NotBegun(String),
    /// A thread of the run panicked, which it has said on standard error.
    #[error("a part of the run failed")]
    Panicked,
    #[error("cannot start a thread: {0}")]
    NoThread(io::Error),
    #[error("no space left on the disk that contains {}", .0.display())]
    NoRoom(PathBuf),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error("cannot write {}: {source}", .path.display())]
    Write { path: PathBuf, source: io::Error },
}

#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("cannot find {}: {source}", .path.display())]
    NotFound { path: PathBuf, source: io::Error },
    #[error("'{}' is neither a directory nor a preset", .name.escape_debug())]
    UnknownPreset { name: String, meant: Option<String> },
    #[error("no loop in {0}: neither autoloops.toml nor topology.toml")]
    NoLoop(String),
    #[error("{} exceeds the limits of a preset: 1000 files, 16 MB, 8 levels of directories", .0.display())]
    PresetTooLarge(PathBuf),
    #[error("cannot write the files of preset '{preset}' to {}: {source}", .dir.display())]
    Copy { preset: String, dir: PathBuf, source: io::Error },
    /// The program of an agent does not exist or cannot be executed. `setting` names it.
    #[error("{why}; {setting} names it")]
    NoAgent { why: String, setting: String },
    /// A client cannot work unattended with the arguments that a setting gives it.
    #[error("{bad}; {setting} names it")]
    BadArgument { bad: BadArgument, setting: String },
    #[error("no objective for {0}")]
    NoObjective(String),
    #[error("no chain '{}' in {}", .name.escape_debug(), .file.display())]
    UnknownChain { name: String, file: PathBuf, meant: Option<String> },
    #[error(transparent)]
    Steps(#[from] Fault),
    #[error("the chain has no step {0}")]
    NoStep(u64),
    #[error("this run cannot start chains")]
    ChainsOff,
    #[error(
        "chain '{chain}' started with the steps {recorded}, but chains.toml now contains {now}"
    )]
    StepsChanged { chain: String, recorded: String, now: String },
    #[error("{source}")]
    Lookup { kind: Kind, source: LookupError },
    #[error("'{id}' is {}, not {}", a_run(*.found), a_run(*.wanted))]
    OtherKind { id: String, found: Kind, wanted: Kind },
    #[error("no {} to resume in {}: '{run}' is running in process {process}", run_noun(*.kind), .journal.display())]
    Running { kind: Kind, journal: PathBuf, run: String, process: u32 },
    /// `latest` is the latest run of this kind, which completed.
    #[error("no {} to resume in {}: {}", run_noun(*.kind), .journal.display(), nothing(*.kind, .latest.as_deref()))]
    NothingToResume { kind: Kind, journal: PathBuf, latest: Option<String> },
    #[error("{} '{id}' completed: there is nothing to resume", chain_or_run(*.kind))]
    Completed { kind: Kind, id: String },
    /// `key_dir` is set where the key that would prove them cannot be kept.
    #[error("cannot resume '{run}': its records and flags cannot be proven to be its own")]
    Unproven { kind: Kind, run: String, key_dir: Option<PathBuf> },
    #[error("cannot resume run '{run}': the files of its preset '{preset}' were removed from {}", .dir.display())]
    PresetGone { run: String, preset: String, dir: PathBuf },
    #[error("chain '{chain}' belongs to run '{parent}', which requested it")]
    PartOfRun { chain: String, parent: String },
}

impl LaunchError {
    /// Whether the request or a settings file has to be corrected.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Load(_)
                | Self::BadArgument { .. }
                | Self::NoLoop(_)
                | Self::NoObjective(_)
                | Self::PartOfRun { .. }
                | Self::PresetTooLarge(_)
                | Self::Steps(_)
                | Self::StepsChanged { .. }
                | Self::UnknownChain { .. }
                | Self::UnknownPreset { .. }
        )
    }
}

fn chain_or_run(kind: Kind) -> &'static str {
    if kind == Kind::Chain { "chain" } else { "run" }
}

fn a_run(kind: Kind) -> &'static str {
    match kind {
        Kind::Loop => "a run of a loop",
        Kind::Chain => "a chain",
        Kind::Slots => "a run of slots",
        Kind::Exchange => "a review by message",
        Kind::Squad => "a squad",
    }
}

fn run_noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Loop => "run",
        Kind::Chain => "chain",
        Kind::Slots => "run of slots",
        Kind::Exchange => "review by message",
        Kind::Squad => "squad",
    }
}

fn nothing(kind: Kind, latest: Option<&str>) -> String {
    match latest {
        Some(id) => format!("the latest {}, '{id}', completed", run_noun(kind)),
        None => format!("no {} was started there", run_noun(kind)),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    #[error("no run in {journal} yet")]
    Empty { journal: String },
    #[error("no run '{name}' in {journal}")]
    Unknown {
        name: String,
        journal: String,
        /// The run with the most similar name.
        meant: Option<String>,
    },
    #[error("{} runs begin with '{name}'", .ids.len())]
    Ambiguous { name: String, ids: Vec<String> },
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl DriveError {
    /// Whether a run cannot begin with these settings, or without a program that is missing.
    pub(crate) fn cannot_begin(&self) -> bool {
        match self {
            DriveError::Load(_)
            | DriveError::BadRunId(_)
            | DriveError::Launch(LaunchError::NoAgent { .. }) => true,
            DriveError::Launch(error) => error.is_usage(),
            DriveError::Step { source, .. } => source.cannot_begin(),
            _ => false,
        }
    }

    /// Whether nothing is wrong but that the disk is full.
    pub fn is_full_disk(&self) -> bool {
        match self {
            DriveError::NoRoom(_) => true,
            DriveError::Git(_) | DriveError::Write { .. } => says_full(&self.to_string()),
            _ => false,
        }
    }
}

/// Whether a message of a program or of the system says that the disk is full.
pub(crate) fn says_full(message: &str) -> bool {
    ["No space left on device", "Disk quota exceeded"].iter().any(|words| message.contains(words))
}
