//! One step of the built-in queue, as a record and back.

use crate::record::{
    Glance, Heading, QueueAdded, QueueClaimed, QueueClosed, QueueLinked, QueueReleased,
    QueueRenewed, QueueReopened, QueueUnlinked, Record,
};
use crate::stamp::Stamp;

/// The family of these records.
const FAMILY: &str = "queue.task.";

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A task was added.
    Added(QueueAdded),
    /// Somebody took a task.
    Claimed(QueueClaimed),
    /// Somebody keeps a task for longer.
    Renewed(QueueRenewed),
    /// A task was given back.
    Released(QueueReleased),
    /// A task is done.
    Closed(QueueClosed),
    /// A task is not done after all.
    Reopened(QueueReopened),
    /// A task has to wait for another.
    Linked(QueueLinked),
    /// It does not have to any more.
    Unlinked(QueueUnlinked),
}

impl Change {
    /// The task that it is about.
    pub fn task(&self) -> &str {
        match self {
            Change::Added(QueueAdded { task, .. })
            | Change::Claimed(QueueClaimed { task, .. })
            | Change::Renewed(QueueRenewed { task, .. })
            | Change::Released(QueueReleased { task, .. })
            | Change::Closed(QueueClosed { task, .. })
            | Change::Reopened(QueueReopened { task, .. })
            | Change::Linked(QueueLinked { task, .. })
            | Change::Unlinked(QueueUnlinked { task, .. }) => task,
        }
    }

    /// The record that says so. It belongs to no run: a queue outlives them.
    pub fn record(&self, now: Stamp) -> Record {
        let heading = Heading { run: String::new(), iteration: String::new(), now };
        match self {
            Change::Added(added) => added.record(&heading),
            Change::Claimed(claimed) => claimed.record(&heading),
            Change::Renewed(renewed) => renewed.record(&heading),
            Change::Released(released) => released.record(&heading),
            Change::Closed(closed) => closed.record(&heading),
            Change::Reopened(reopened) => reopened.record(&heading),
            Change::Linked(linked) => linked.record(&heading),
            Change::Unlinked(unlinked) => unlinked.record(&heading),
        }
    }

    /// What a record says about the queue, and when. What an agent emitted says nothing about it,
    /// whatever its topic, and neither does a record that belongs to a run.
    pub(super) fn read(record: &Glance<'_>) -> Option<(Change, Stamp)> {
        let topic = record.topic();
        if !topic.starts_with(FAMILY) || record.has_payload() || !record.run().is_empty() {
            return None;
        }
        let may = |name| record.field(name).map(std::borrow::Cow::into_owned);
        let text = |name| may(name).unwrap_or_default();
        let number = |name| record.field(name)?.parse().ok();
        let task = may("task")?;
        let change = match &*topic {
            QueueAdded::TOPIC => Change::Added(QueueAdded {
                task,
                title: text("title"),
                description: may("description"),
                acceptance: may("acceptance"),
                priority: number("priority")?,
                after: may("after"),
                by: may("by"),
            }),
            QueueClaimed::TOPIC => Change::Claimed(QueueClaimed {
                task,
                owner: text("owner"),
                until: text("until"),
                fence: number("fence")?,
            }),
            QueueRenewed::TOPIC => Change::Renewed(QueueRenewed {
                task,
                until: text("until"),
                fence: number("fence")?,
            }),
            QueueReleased::TOPIC => Change::Released(QueueReleased {
                task,
                reason: text("reason"),
                by: may("by"),
                fence: number("fence")?,
            }),
            QueueClosed::TOPIC => Change::Closed(QueueClosed {
                task,
                reason: text("reason"),
                by: may("by"),
                fence: number("fence"),
            }),
            QueueReopened::TOPIC => {
                Change::Reopened(QueueReopened { task, reason: text("reason"), by: may("by") })
            }
            QueueLinked::TOPIC => Change::Linked(QueueLinked { task, after: text("after") }),
            QueueUnlinked::TOPIC => Change::Unlinked(QueueUnlinked { task, after: text("after") }),
            _ => return None,
        };
        Some((change, record.ts()?.parse().ok()?))
    }
}
