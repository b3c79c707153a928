//! How the events of the harness are declared.

/// Declares events of the harness: a struct each, how it is written and how it is read.
macro_rules! system_events {
    ($( $(#[$doc:meta])* $name:ident = $topic:literal {
        $( $(#[$field_doc:meta])* $field:ident: $kind:ty, )*
    } )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, Eq)]
            pub struct $name {
                $( $(#[$field_doc])* pub $field: $kind, )*
            }

            impl $name {
                /// The topic of such records.
                pub const TOPIC: &'static str = $topic;

                /// The record that says so.
                pub fn record(&self, heading: &$crate::record::Heading) -> $crate::record::Record {
                    use $crate::record::event::wire::Wire as _;
                    let mut fields = $crate::record::Object::new();
                    $( fields.extend(
                        self.$field.write().map(|value| (stringify!($field).to_owned(), value)),
                    ); )*
                    heading.system(Self::TOPIC, fields)
                }

                pub(super) fn read(record: &$crate::record::Record) -> Option<Self> {
                    use $crate::record::event::wire::Wire;
                    Some($name {
                        $( $field: Wire::read(record.field(stringify!($field)))?, )*
                    })
                }
            }
        )*
    };
}

pub(super) use system_events;
