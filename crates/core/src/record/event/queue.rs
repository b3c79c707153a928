//! The queue: tasks added, claimed and closed.

use super::wire::system_events;

system_events! {
    QueueAdded = "queue.task.added" {
        task: String,
        title: String,
        description: Option<String>,
        acceptance: Option<String>,
        /// 0 (most urgent) to 4. A record without it adds nothing.
        priority: Option<u64>,
        /// The tasks that must be closed first, separated by commas.
        after: Option<String>,
        by: Option<String>,
    }

    QueueClaimed = "queue.task.claimed" {
        task: String,
        owner: String,
        /// When the claim expires, unless it is renewed.
        until: String,
        /// The number of the claim.
        fence: u64,
    }

    QueueRenewed = "queue.task.renewed" {
        task: String,
        until: String,
        fence: u64,
    }

    QueueReleased = "queue.task.released" {
        task: String,
        reason: String,
        by: Option<String>,
        fence: u64,
    }

    QueueClosed = "queue.task.closed" {
        task: String,
        reason: String,
        by: Option<String>,
        /// The number of the claim on it, if it was claimed.
        fence: Option<u64>,
    }

    QueueReopened = "queue.task.reopened" {
        task: String,
        reason: String,
        by: Option<String>,
    }

    QueueLinked = "queue.task.linked" {
        task: String,
        after: String,
    }

    QueueUnlinked = "queue.task.unlinked" {
        task: String,
        after: String,
    }
}
