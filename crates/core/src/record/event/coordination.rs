//! The bookkeeping of agents, in the topics that bypass routing.

use crate::payload::Payload;
use crate::record::Glance;

/// Declares the coordination events, whose fields are in the payload as `key=value;`. Text without a key is
/// the value of the field that is declared with `or words`.
macro_rules! coordination_events {
    ($( $(#[$doc:meta])* $name:ident = $topic:literal { $( $(#[$field_doc:meta])* $field:ident $(or $words:ident)?, )* } )*) => {
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Coordination {
            $( $(#[$doc])* $name { $( $(#[$field_doc])* $field: String, )* }, )*
        }

        impl Coordination {
            /// Reads the payload or the fields of a record.
            pub(super) fn read(topic: &str, record: &Glance<'_>) -> Option<Self> {
                match topic {
                    $( $topic => {
                        let said = Said::of(record);
                        Some(Coordination::$name { $(
                            $field: said.value(stringify!($field))
                                $( .or_else(|| said.$words()) )?
                                .unwrap_or_default(),
                        )* })
                    } )*
                    _ => None,
                }
            }
        }
    };
}

struct Said<'r, 'l> {
    record: &'r Glance<'l>,
    payload: Option<Payload>,
}

impl<'r, 'l> Said<'r, 'l> {
    fn of(record: &'r Glance<'l>) -> Self {
        Said { record, payload: record.payload().map(|text| Payload::parse(&text)) }
    }

    fn value(&self, key: &str) -> Option<String> {
        let value = match &self.payload {
            Some(payload) => payload.get(key).map(str::to_owned),
            None => self.record.field(key).map(Into::into),
        };
        value.filter(|value| !value.is_empty())
    }

    fn words(&self) -> Option<String> {
        self.payload.as_ref()?.text().map(|words| words.trim().to_owned())
    }
}

coordination_events! {
    IssueDiscovered = "issue.discovered" {
        id,
        summary or words,
        /// Such as `open` or `deferred`.
        disposition,
        owner,
    }
    IssueResolved = "issue.resolved" {
        id,
        resolution or words,
    }
    /// A unit of work.
    SliceStarted = "slice.started" {
        id,
        description or words,
    }
    SliceVerified = "slice.verified" {
        id,
    }
    SliceCommitted = "slice.committed" {
        id,
        commit_hash or words,
    }
    /// Stale context was moved out of a working file.
    ContextArchived = "context.archived" {
        source_file or words,
        dest_file,
        reason,
    }
    ChainSpawn = "chain.spawn" {
        chain_id,
        parent_id,
        /// Separated by commas.
        steps,
        justification or words,
    }
}
