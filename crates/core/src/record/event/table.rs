//! How the events of the harness are declared.

/// Declares events of the harness: a struct each, how it is written and how it is read. An event with a
/// lifetime has a long [`Text`](crate::record::Text), which is read when it is asked for.
macro_rules! system_events {
    ($( $(#[$doc:meta])* $name:ident $(<$long:lifetime>)? = $topic:literal {
        $( $(#[$field_doc:meta])* $field:ident: $kind:ty, )*
    } )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, Eq)]
            pub struct $name $(<$long>)? {
                $( $(#[$field_doc])* pub $field: $kind, )*
            }

            impl<'a> $name $(<$long>)? {
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

                /// The event that a record holds; `None` for a record of another topic or of an agent.
                pub fn of(record: &'a $crate::record::Glance<'_>) -> Option<Self> {
                    let is_it = record.topic() == Self::TOPIC && !record.has_payload();
                    is_it.then(|| Self::read(record))
                }

                /// Reads the fields of a record. What is missing or cannot be read has its default.
                pub(super) fn read(record: &'a $crate::record::Glance<'_>) -> Self {
                    use $crate::record::event::wire::Wire;
                    let mut event = $name { $( $field: Wire::missing(), )* };
                    for (name, field) in record.fields() {
                        $( if name == stringify!($field).as_bytes() {
                            if let Some(value) = Wire::read(field) {
                                event.$field = value;
                            }
                            continue;
                        } )*
                    }
                    event
                }
            }
        )*
    };
}

pub(super) use system_events;
