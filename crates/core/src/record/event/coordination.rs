//! What agents say about their work, in the topics that bypass routing.

use crate::payload::Payload;
use crate::record::Glance;

/// Declares the coordination events, whose fields stand in the payload as `key=value;`. Words without a key
/// are the value of the field that is declared with `or words`.
macro_rules! coordination_events {
    ($( $(#[$doc:meta])* $name:ident = $topic:literal { $( $(#[$field_doc:meta])* $field:ident $(or $words:ident)?, )* } )*) => {
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

            /// What a record says, in its payload or in fields.
            pub(super) fn read(topic: &str, record: &Glance<'_>) -> Option<Self> {
                let said = Said { record, payload: record.payload().map(|text| Payload::parse(&text)) };
                match topic {
                    $( $topic => Some(Coordination::$name { $(
                        $field: said.value(stringify!($field))
                            $( .or_else(|| said.$words()) )?
                            .unwrap_or_default(),
                    )* }), )*
                    _ => None,
                }
            }
        }
    };
}

/// What an agent said.
struct Said<'r, 'l> {
    record: &'r Glance<'l>,
    payload: Option<Payload>,
}

impl Said<'_, '_> {
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
    /// An issue was found.
    IssueDiscovered = "issue.discovered" {
        /// Which issue.
        id,
        /// What it is.
        summary or words,
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
        resolution or words,
    }
    /// A unit of work began.
    SliceStarted = "slice.started" {
        /// Which slice.
        id,
        /// What it is.
        description or words,
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
        commit_hash or words,
    }
    /// Stale context was moved out of a working file.
    ContextArchived = "context.archived" {
        /// From where.
        source_file or words,
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
        justification or words,
    }
}
