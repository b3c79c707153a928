//! The queue of the issue tracker `bd`, or of a program that is used like it.
//!
//! The tracker decides about claims. Every call has a deadline; its exit code is checked first, and its answer is read
//! in any of the known formats. An option that the program does not know is replaced by the older form.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use autoloop_core::duration;
use autoloop_core::queue::beads::{
    BadAnswer, Issue, complaint, each_issue, is_unknown_option, remark,
};
use autoloop_core::queue::{Claim, Item, Progress, Refusal, Status, Wanted};
use autoloop_core::timestamp::Timestamp;

use super::{Claimed, Queue, QueueError};
use crate::failure::Failure;
use crate::process::{Interrupts, run};
use crate::world::{Ending, Job, Limits, World};

/// How often ready issues are listed when none of them can be claimed.
const ROUNDS: usize = 3;

/// Maximum number of issues of a list that are tried one after another.
const CANDIDATES: usize = 1_000;

/// Half of the maximum size of an answer, in bytes: enough for thousands of issues.
const HELD: usize = 8 * 1024 * 1024;
/// How long the program has to end after its deadline.
const GRACE: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeadsSettings {
    pub program: OsString,
    pub args: Vec<OsString>,
    pub dir: PathBuf,
    pub deadline: Duration,
}

impl BeadsSettings {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        BeadsSettings {
            program: "bd".into(),
            args: Vec::new(),
            dir: dir.into(),
            deadline: Duration::from_secs(60),
        }
    }
}

pub struct Beads {
    settings: BeadsSettings,
    world: World,
    /// Whether it is known that the program cannot find and claim the next issue in one step.
    takes_two_steps: AtomicBool,
}

impl Beads {
    pub fn new(settings: BeadsSettings, world: &World) -> Self {
        Beads { settings, world: world.clone(), takes_two_steps: AtomicBool::new(false) }
    }

    /// Claims the next item in one call; `Err(None)` when the program does not support that.
    fn claim_in_one(&self, actor: &str) -> Result<Option<Issue>, Option<BeadsError>> {
        let answer = match self.ask(&["ready", "--claim"], actor) {
            Err(BeadsError::Failed { complaint, .. }) if is_unknown_option(&complaint) => {
                return Err(None);
            }
            answer => answer.map_err(Some)?,
        };
        match answer.as_slice() {
            [] => Ok(None),
            [issue] if is_of(&issue.item, actor) => Ok(Some(issue.clone())),
            // The answer may contain the issue as it was before.
            [issue] if is_of(&self.look(&issue.item.id).map_err(Some)?, actor) => {
                Ok(Some(issue.clone()))
            }
            // The program ignores `--claim` and lists what is ready.
            _ => Err(None),
        }
    }

    /// Tries to claim ready and wanted issues one after another. An issue that another worker claimed first is not
    /// listed again; the error is returned for one that stays ready and cannot be claimed.
    fn claim_in_two(&self, actor: &str, wanted: &Wanted) -> Result<Option<Issue>, BeadsError> {
        let mark = moment(wanted.held_at.as_deref());
        let mut last = None;
        for _ in 0..ROUNDS {
            let mut ready = Vec::new();
            self.ready(actor, &mut |issue| {
                let is_new = mark.is_some_and(|mark| issue.is_newer_than(mark));
                let is_wanted = !is_new && !wanted.but.contains(&issue.item.id);
                if is_wanted && ready.len() < CANDIDATES {
                    ready.push(issue);
                }
            })?;
            if ready.is_empty() {
                return Ok(None);
            }
            for issue in ready {
                match self.ask(&["update", &issue.item.id, "--claim"], actor) {
                    Ok(_) => return Ok(Some(issue)),
                    // Another worker was probably faster.
                    Err(error @ BeadsError::Failed { .. }) => last = Some(error),
                    Err(error) => return Err(error),
                }
            }
        }
        last.map_or(Ok(None), Err)
    }

    fn ready(&self, actor: &str, keep: &mut dyn FnMut(Issue)) -> Result<(), BeadsError> {
        self.ask_either([&["ready", "--limit", "0"], &["ready"]], actor, keep)
    }

    fn all(&self, keep: &mut dyn FnMut(Issue)) -> Result<(), BeadsError> {
        let everything = ["--readonly", "list", "--all", "--limit", "0"];
        self.ask_either([&everything, &["list", "-a"]], "", keep)
    }

    /// Whether an issue is missing in the list of all. An empty list proves nothing: the tracker may be broken.
    fn lacks(&self, id: &str) -> Result<bool, BeadsError> {
        let (mut is_empty, mut is_there) = (true, false);
        self.all(&mut |issue| {
            is_empty = false;
            is_there |= issue.item.id == id;
        })?;
        Ok(!is_empty && !is_there)
    }

    fn look(&self, id: &str) -> Result<Item, BeadsError> {
        let issues = match self.ask(&["show", id], "") {
            // An issue that cannot be shown may exist all the same.
            Err(error @ BeadsError::Failed { .. }) => match self.lacks(id) {
                Ok(true) => Vec::new(),
                _ => return Err(error),
            },
            shown => shown?,
        };
        // A program may accept a prefix of an id.
        let found = issues.into_iter().find(|issue| issue.item.id == id);
        found.map(|issue| issue.item).ok_or_else(|| BeadsError::Unknown { id: id.to_owned() })
    }

    /// The item, if the claim still holds. An agent may have closed the issue: it stays claimed until the harness
    /// decides whether it is done.
    fn held(&self, claim: &Claim) -> Result<Item, QueueError> {
        let item = self.look(&claim.item)?;
        let is_taken = matches!(item.status, Status::InWork | Status::Closed);
        if is_taken && may_be_of(&item, &claim.owner) {
            return Ok(item);
        }
        if item.status == Status::Closed {
            return Err(Refusal::Closed { id: item.id }.into());
        }
        let (id, fence) = (item.id, claim.fence);
        Err(Refusal::Lost { id, fence, owner: item.owner }.into())
    }

    fn try_to_close(&self, claim: &Claim, reason: &str) -> Result<(), QueueError> {
        match self.held(claim) {
            // The agent closed it, or another user.
            Ok(Item { status: Status::Closed, .. })
            | Err(QueueError::Refused(Refusal::Closed { .. })) => return Ok(()),
            held => held?,
        };
        match self.ask(&["close", &claim.item, "--reason", &remark(reason)], &claim.owner) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.refused(&claim.item).into()),
        }
    }

    /// Reopens an issue for other workers, also where an agent closed it, and adds the reason as a comment.
    fn give_back(&self, id: &str, actor: &str, reason: &str) -> Result<(), BeadsError> {
        self.ask(&["update", id, "--status", "open", "--assignee", ""], actor)?;
        let why = remark(reason);
        if !why.is_empty() {
            // A program may not support comments, and the reason is in the journal too.
            let _ = self.ask(&["comments", "add", id, &format!("released: {why}")], actor);
        }
        Ok(())
    }

    /// Calls the tracker and reads the issues in the answer. An empty actor is not named.
    fn ask(&self, words: &[&str], actor: &str) -> Result<Vec<Issue>, BeadsError> {
        let mut issues = Vec::new();
        self.ask_for_each(words, actor, &mut |issue| issues.push(issue))?;
        Ok(issues)
    }

    /// The same with one issue at a time: there may be very many.
    fn ask_for_each(
        &self,
        words: &[&str],
        actor: &str,
        keep: &mut dyn FnMut(Issue),
    ) -> Result<(), BeadsError> {
        let doing = || self.shown(words);
        // A call is short, and its change is wanted also when the run is asked to stop.
        let finished = run(self.job(words, actor), &self.world, &Interrupts::default());
        if finished.timed_out() {
            return Err(BeadsError::Late { doing: doing(), after: self.settings.deadline });
        }
        if let Ending::NeverStarted(why) = &finished.ending {
            let program = self.settings.program.to_string_lossy().into_owned();
            return Err(BeadsError::NotStarted { program, why: why.message.clone() });
        }
        if finished.stdout.left_out() > 0 {
            return Err(BeadsError::TooMuch { doing: doing(), bytes: finished.stdout.bytes });
        }
        let (stdout, stderr) = (finished.stdout.text(), finished.stderr.text());
        match finished.exit_code() {
            0 => each_issue(&stdout, keep)
                .map_err(|source| BeadsError::BadAnswer { doing: doing(), source }),
            code => {
                let complaint = complaint(&stdout, &stderr);
                Err(BeadsError::Failed { doing: doing(), code, complaint })
            }
        }
    }

    /// Calls with these words, and with the older ones where the program does not know an option.
    fn ask_either(
        &self,
        [words, older]: [&[&str]; 2],
        actor: &str,
        keep: &mut dyn FnMut(Issue),
    ) -> Result<(), BeadsError> {
        match self.ask_for_each(words, actor, keep) {
            Err(BeadsError::Failed { complaint, .. }) if is_unknown_option(&complaint) => {
                self.ask_for_each(older, actor, keep)
            }
            answer => answer,
        }
    }

    fn job(&self, words: &[&str], actor: &str) -> Job {
        let mut args = self.settings.args.clone();
        args.extend(words.iter().map(OsString::from));
        args.push("--json".into());
        let mut env: Vec<(OsString, OsString)> =
            vec![("BD_JSON_ENVELOPE".into(), "1".into()), ("RUST_LOG".into(), "error".into())];
        if !actor.is_empty() {
            args.extend(["--actor".into(), actor.into()]);
            env.extend(["BEADS_ACTOR", "BD_ACTOR"].map(|name| (name.into(), actor.into())));
        }
        Job {
            program: self.settings.program.clone(),
            args,
            env,
            // They change the format of answers, or shorten lists.
            env_removed: [
                "BR_OUTPUT_FORMAT",
                "TOON_DEFAULT_FORMAT",
                "BD_AGENT_MODE",
                "CLAUDE_CODE",
            ]
            .map(OsString::from)
            .to_vec(),
            dir: Some(self.settings.dir.clone()),
            limits: Limits {
                deadline: Some(self.settings.deadline),
                grace: GRACE,
                kept: HELD,
                ..Limits::default()
            },
            ..Job::default()
        }
    }

    fn shown(&self, words: &[&str]) -> String {
        let command = std::iter::once(&self.settings.program).chain(&self.settings.args);
        let mut shown: Vec<_> = command.map(|word| word.to_string_lossy()).collect();
        shown.extend(words.iter().map(|word| Cow::Borrowed(*word)));
        shown.join(" ")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeadsError {
    #[error("cannot query the issue tracker: {why}")]
    NotStarted { program: String, why: String },
    #[error("`{doing}` failed with exit code {code}: {complaint}")]
    Failed { doing: String, code: i32, complaint: String },
    #[error("`{doing}` timed out after {}", duration::print(*.after))]
    Late { doing: String, after: Duration },
    #[error("`{doing}` printed {bytes} bytes, which exceeds the limit")]
    TooMuch { doing: String, bytes: u64 },
    #[error("`{doing}`: {source}")]
    BadAnswer { doing: String, source: BadAnswer },
    #[error("the issue tracker has no issue '{id}'")]
    Unknown { id: String },
    #[error("the issue tracker refused {id}: {complaint}")]
    Refused { id: String, complaint: String },
}

impl BeadsError {
    /// A failure to claim or to close this issue, as a refusal.
    fn refused(self, id: &str) -> Self {
        match self {
            // A signal or a broken program refuses nothing.
            BeadsError::Failed { code: 1..=124, complaint, .. } => {
                BeadsError::Refused { id: id.to_owned(), complaint }
            }
            other => other,
        }
    }
}

impl From<BeadsError> for Failure {
    fn from(error: BeadsError) -> Self {
        let message = error.to_string();
        match error {
            BeadsError::NotStarted { .. } => Failure::failed(message)
                .hint("install it, or name its command in slots.beads.command"),
            BeadsError::Refused { .. } => Failure::refused(message),
            BeadsError::Unknown { .. } => Failure::failed(message),
            BeadsError::Failed { doing, .. }
            | BeadsError::Late { doing, .. }
            | BeadsError::TooMuch { doing, .. }
            | BeadsError::BadAnswer { doing, .. } => {
                Failure::failed(message).hint(format!("try `{doing}` yourself"))
            }
        }
    }
}

fn moment(mark: Option<&str>) -> Option<Timestamp> {
    mark?.parse().ok()
}

/// Whether an issue is in work, by this actor as far as the tracker reports.
fn is_of(item: &Item, actor: &str) -> bool {
    item.status == Status::InWork && may_be_of(item, actor)
}

/// Whether the tracker reports no other owner.
fn may_be_of(item: &Item, actor: &str) -> bool {
    item.owner.as_deref().is_none_or(|owner| owner == actor)
}

/// A claimed issue. The tracker knows neither an end nor a number of a claim.
fn taken(mut item: Item, actor: &str) -> Claimed {
    let claim = Claim { item: item.id.clone(), owner: actor.to_owned(), until: None, fence: 0 };
    item.owner = Some(actor.to_owned());
    item.status = Status::InWork;
    Claimed { item, claim }
}

impl Queue for Beads {
    fn mark(&self) -> Result<String, QueueError> {
        Ok(self.world.clock.now().to_string())
    }

    fn added_since(&self, mark: &str) -> Result<Vec<String>, QueueError> {
        let Some(mark) = moment(Some(mark)) else { return Ok(Vec::new()) };
        let mut added = Vec::new();
        self.ready("", &mut |issue| {
            if issue.is_newer_than(mark) {
                added.push(issue.item.id);
            }
        })?;
        Ok(added)
    }

    fn claim_next_of(&self, actor: &str, wanted: &Wanted) -> Result<Option<Claimed>, QueueError> {
        // In one call the tracker chooses, without regard to what is wanted.
        let in_one = *wanted == Wanted::default() && !self.takes_two_steps.load(Ordering::Relaxed);
        let found = match in_one.then(|| self.claim_in_one(actor)) {
            Some(Ok(found)) => found,
            Some(Err(Some(error))) => return Err(error.into()),
            Some(Err(None)) => {
                self.takes_two_steps.store(true, Ordering::Relaxed);
                self.claim_in_two(actor, wanted)?
            }
            None => self.claim_in_two(actor, wanted)?,
        };
        let Some(issue) = found else { return Ok(None) };
        // Lists are incomplete; where the issue cannot be shown, the claim counts.
        let item = self.look(&issue.item.id).unwrap_or(issue.item);
        Ok(Some(taken(item, actor)))
    }

    fn claim(&self, id: &str, actor: &str) -> Result<Claimed, QueueError> {
        let item = self.look(id)?;
        // The process of the actor ended; its agent may have closed the issue before.
        let is_taken = matches!(item.status, Status::InWork | Status::Closed);
        if is_taken && item.owner.as_deref() == Some(actor) {
            return Ok(taken(item, actor));
        }
        match self.ask(&["update", id, "--claim"], actor) {
            Ok(_) => Ok(taken(item, actor)),
            // An issue that is still ready was not refused: something else is wrong.
            Err(error) => match self.look(id)?.status {
                Status::Ready => Err(error.into()),
                _ => Err(error.refused(id).into()),
            },
        }
    }

    fn renew(&self, claim: &Claim) -> Result<Claim, QueueError> {
        // A claim lasts until it is released.
        self.held(claim).map(|_| claim.clone())
    }

    fn release(&self, claim: &Claim, reason: &str) -> Result<(), QueueError> {
        self.held(claim)?;
        Ok(self.give_back(&claim.item, &claim.owner, reason)?)
    }

    fn close(&self, claim: &Claim, reason: &str) -> Result<(), QueueError> {
        // A call that failed may have succeeded, or may succeed now.
        self.try_to_close(claim, reason).or_else(|_| self.try_to_close(claim, reason))
    }

    fn show(&self, id: &str) -> Result<Item, QueueError> {
        Ok(self.look(id)?)
    }

    fn progress(&self) -> Result<Progress, QueueError> {
        let (mut progress, mut open) = (Progress::default(), BTreeSet::new());
        self.all(&mut |Issue { item, .. }| match item.status {
            Status::Ready => {
                open.insert(item.id);
            }
            status => progress.count(status),
        })?;
        self.ready("", &mut |issue| {
            if open.remove(&issue.item.id) {
                progress.count(Status::Ready);
            }
        })?;
        // A list does not contain why an open issue is not ready.
        open.iter().for_each(|_| progress.count(Status::Blocked));
        Ok(progress)
    }

    fn release_all(
        &self,
        is_dead: &dyn Fn(&str) -> bool,
        reason: &str,
    ) -> Result<Vec<String>, QueueError> {
        let in_work = ["list", "--status", "in_progress"];
        let with_limit = [&in_work[..], &["--limit", "0"]].concat();
        let mut dead = Vec::new();
        self.ask_either([&with_limit, &in_work], "", &mut |Issue { item, .. }| {
            if let (Status::InWork, Some(owner)) = (item.status, item.owner)
                && is_dead(&owner)
            {
                dead.push((item.id, owner));
            }
        })?;
        let mut released = Vec::new();
        for (id, owner) in dead {
            self.give_back(&id, &owner, reason)?;
            released.push(id);
        }
        Ok(released)
    }
}
