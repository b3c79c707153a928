//! The queue: tasks added, claimed and closed.

use super::table::system_events;

system_events! {
    /// A task was added to the queue.
    QueueAdded = "queue.task.added" {
        /// Its name.
        task: String,
        /// What it is, in a line.
        title: String,
        /// What it is, at length.
        description: Option<String>,
        /// How to tell that it is done.
        acceptance: Option<String>,
        /// How urgent it is: 0 to 4, 0 first. A record without it adds nothing.
        priority: Option<u64>,
        /// The tasks that have to be closed before it, separated by commas.
        after: Option<String>,
        /// Who added it.
        by: Option<String>,
    }

    /// Somebody took a task.
    QueueClaimed = "queue.task.claimed" {
        /// Which task.
        task: String,
        /// Who.
        owner: String,
        /// When the claim expires, unless it is renewed.
        until: String,
        /// The number of the claim.
        fence: u64,
    }

    /// Somebody keeps a task for longer.
    QueueRenewed = "queue.task.renewed" {
        /// Which task.
        task: String,
        /// When the claim expires now.
        until: String,
        /// The number of the claim.
        fence: u64,
    }

    /// A task was given back.
    QueueReleased = "queue.task.released" {
        /// Which task.
        task: String,
        /// Why.
        reason: String,
        /// Who gave it back.
        by: Option<String>,
        /// The number of the claim.
        fence: u64,
    }

    /// A task is done.
    QueueClosed = "queue.task.closed" {
        /// Which task.
        task: String,
        /// How it was done.
        reason: String,
        /// Who closed it.
        by: Option<String>,
        /// The number of the claim on it, if there was one.
        fence: Option<u64>,
    }

    /// A task is not done after all.
    QueueReopened = "queue.task.reopened" {
        /// Which task.
        task: String,
        /// Why.
        reason: String,
        /// Who opened it again.
        by: Option<String>,
    }

    /// A task has to wait for another.
    QueueLinked = "queue.task.linked" {
        /// Which task.
        task: String,
        /// The one that it waits for.
        after: String,
    }

    /// A task does not have to wait for another any more.
    QueueUnlinked = "queue.task.unlinked" {
        /// Which task.
        task: String,
        /// The one that it waited for.
        after: String,
    }
}
