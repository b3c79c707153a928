//! What agents say about their work, in the topics that bypass routing.

use crate::payload::Payload;

/// Declares the coordination events, whose fields stand in the payload as `key=value;`.
macro_rules! coordination_events {
    ($( $(#[$doc:meta])* $name:ident = $topic:literal { $( $(#[$field_doc:meta])* $field:ident, )* } )*) => {
        /// Bookkeeping by an agent. These are claims: nothing in the harness takes them for evidence.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Coordination {
            $( $(#[$doc])* $name { $( $(#[$field_doc])* $field: String, )* }, )*
        }

        impl Coordination {
            /// The topic of such records.
            pub fn topic(&self) -> &'static str {
                match self { $( Coordination::$name { .. } => $topic, )* }
            }

            /// The payload that says so.
            pub fn payload(&self) -> Payload {
                match self {
                    $( Coordination::$name { $( $field, )* } => {
                        [$( (stringify!($field), $field) ),*]
                            .into_iter()
                            .try_fold(Payload::new(), |payload, (key, value)| {
                                payload.with(key, value.as_str())
                            })
                            .expect("a Rust identifier is a valid key")
                    } )*
                }
            }

            pub(super) fn read(topic: &str, payload: &Payload) -> Option<Self> {
                let text = |key| payload.get(key).unwrap_or_default().to_owned();
                match topic {
                    $( $topic => Some(Coordination::$name { $( $field: text(stringify!($field)), )* }), )*
                    _ => None,
                }
            }
        }
    };
}

coordination_events! {
    /// An issue was found.
    IssueDiscovered = "issue.discovered" {
        /// Which issue.
        id,
        /// What it is.
        summary,
        /// `open`, `deferred` and the like.
        disposition,
        /// Who is to see to it.
        owner,
    }
    /// An issue was resolved.
    IssueResolved = "issue.resolved" {
        /// Which issue.
        id,
        /// How.
        resolution,
    }
    /// A unit of work began.
    SliceStarted = "slice.started" {
        /// Which slice.
        id,
        /// What it is.
        description,
    }
    /// A unit of work is said to have passed verification.
    SliceVerified = "slice.verified" {
        /// Which slice.
        id,
    }
    /// A unit of work is said to have been committed.
    SliceCommitted = "slice.committed" {
        /// Which slice.
        id,
        /// The commit.
        commit_hash,
    }
    /// Stale context was moved out of a working file.
    ContextArchived = "context.archived" {
        /// From where.
        source_file,
        /// To where.
        dest_file,
        /// Why.
        reason,
    }
    /// A chain was started from within a loop.
    ChainSpawn = "chain.spawn" {
        /// Which chain.
        chain_id,
        /// The chain or run that it comes from.
        parent_id,
        /// Its steps, separated by commas.
        steps,
        /// Why.
        justification,
    }
}
