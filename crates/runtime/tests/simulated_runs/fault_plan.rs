//! The faults of a run.

use autoloop_testkit::{Calls, Dice, Faults, Moment, Op, Seed};

/// All faults of one run.
#[derive(Clone, Debug)]
pub(crate) struct FaultPlan {
    /// One for every harness, until there are no more.
    pub(crate) faults: Vec<Fault>,
    /// Whether writes take fewer bytes than they are given.
    pub(crate) short_writes: Option<Dice>,
    /// Whether other processes write to the journal meanwhile.
    pub(crate) strangers: Option<Dice>,
    /// Decides what a crashed machine leaves.
    pub(crate) dice: Dice,
}

/// The fault of one harness.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The machine crashes at this call.
    Call(u64),
    /// At this byte.
    Byte(u64),
    /// At this sync.
    Sync(u64, Moment),
    /// The disk has room for so many bytes.
    Full(u64),
    /// Some calls fail.
    Failing(Vec<(Op, u64, i32)>),
    /// A user asks it to stop while this agent runs.
    Interrupt(u64),
}

/// What an undisturbed run needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    pub(crate) calls: Calls,
    pub(crate) bytes: u64,
    pub(crate) agents: u64,
}

/// The behaviour of agents that decides which faults are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    Good,
    /// They edit the files of the loop.
    Editing,
    /// They forge reserved records.
    Forging,
    Both,
}

pub(crate) const EIO: i32 = 5;
const EINTR: i32 = 4;

impl FaultPlan {
    /// Nothing.
    pub(crate) fn none(seed: Seed) -> FaultPlan {
        FaultPlan { faults: Vec::new(), short_writes: None, strangers: None, dice: seed.dice() }
    }

    /// Faults within reach of a run that needs this much.
    pub(crate) fn any(dice: &mut Dice, manners: Manners, needs: &Needs) -> FaultPlan {
        let edits = matches!(manners, Manners::Editing | Manners::Both);
        let forges = matches!(manners, Manners::Forging | Manners::Both);
        let fault = |_| match dice.below(20) {
            0..5 => Fault::Call(1 + dice.below(needs.calls.total())),
            5..11 => Fault::Byte(dice.below(needs.bytes)),
            11..15 => Fault::Sync(
                1 + dice.below(needs.calls.syncs().max(1)),
                *dice.pick(&[Moment::BeforeEffect, Moment::AfterEffect]),
            ),
            15 | 16 => Fault::Full(dice.below(3 * needs.bytes)),
            17 => Fault::Interrupt(1 + dice.below(needs.agents)),
            // Where files change, it would be unknown which version was read.
            _ if edits => Fault::Byte(dice.below(needs.bytes)),
            _ => Fault::Failing((0..3).map(|_| failing(dice, |op| needs.calls.of(op))).collect()),
        };
        let faults = (0..4).map(fault).collect::<Vec<_>>();
        let count = 1 + dice.index(faults.len());
        FaultPlan {
            faults: faults.into_iter().take(count).collect(),
            short_writes: dice.chance(1, 4).then(|| dice.fork()),
            strangers: dice.chance(if forges { 3 } else { 1 }, 4).then(|| dice.fork()),
            dice: dice.fork(),
        }
    }

    /// The faults of the disk under a harness.
    pub(crate) fn faults(&self, fault: Option<&Fault>) -> Faults {
        let faults = Faults::none();
        let faults = match fault {
            Some(Fault::Call(k)) => faults.die_at_call(*k),
            Some(Fault::Byte(n)) => faults.die_after_bytes(*n),
            Some(Fault::Sync(k, moment)) => faults.die_at_sync(*k, *moment),
            Some(Fault::Full(bytes)) => faults.capacity(*bytes),
            Some(Fault::Failing(calls)) => {
                calls.iter().fold(faults, |faults, &(op, k, errno)| faults.fail_call(op, k, errno))
            }
            Some(Fault::Interrupt(_)) | None => faults,
        };
        match &self.short_writes {
            Some(dice) => faults.short_writes(dice.clone()),
            None => faults,
        }
    }
}

/// A call that fails, of the first so many of its kind.
pub(crate) fn failing(dice: &mut Dice, most: impl Fn(Op) -> u64) -> (Op, u64, i32) {
    let op = *dice.pick(&[
        Op::Open,
        Op::Stat,
        Op::Lock,
        Op::Unlock,
        Op::Read,
        Op::Append,
        Op::Cut,
        Op::Sync,
        Op::SyncDir,
        Op::CreateDir,
        Op::Replace,
    ]);
    let errno = if op == Op::Append && dice.chance(1, 3) { EINTR } else { EIO };
    (op, 1 + dice.below(most(op).max(1)), errno)
}
