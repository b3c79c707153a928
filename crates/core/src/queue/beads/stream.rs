//! Issues out of JSON, one after another.
//!
//! A tracker may list hundreds of thousands. So a list is never held as a tree of values: its text is
//! walked once, and of each issue only the fields that are of use are taken out of it.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{DEEPEST, ENVELOPES, Issue, Parts};

/// How many elements a list has, and how many of them are issues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) elements: usize,
    pub(super) issues: usize,
}

/// Takes the issues out of a value: a list, an issue, or an envelope around either; `None` where it is
/// none of them.
pub(super) fn listed(raw: &RawValue, depth: usize, keep: &mut dyn FnMut(Issue)) -> Option<Counted> {
    match raw.get().as_bytes().first()? {
        b'[' => {
            let mut reader = serde_json::Deserializer::from_str(raw.get());
            List { keep }.deserialize(&mut reader).ok()
        }
        b'n' if depth < DEEPEST => Some(Counted::default()),
        b'{' => {
            let object: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).ok()?;
            if object.contains_key("id") {
                let mut reader = serde_json::Deserializer::from_str(raw.get());
                let issue = reader.deserialize_any(Element).ok()?;
                let issues = usize::from(issue.is_some());
                issue.into_iter().for_each(keep);
                return Some(Counted { elements: 1, issues });
            }
            let inside = ENVELOPES.iter().find_map(|name| object.get(*name));
            listed(inside.filter(|_| depth > 0)?, depth - 1, keep)
        }
        _ => None,
    }
}

/// A list of issues among other things.
struct List<'k> {
    keep: &'k mut dyn FnMut(Issue),
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = Counted;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Counted, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = Counted;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Counted, A::Error> {
        let mut counted = Counted::default();
        while let Some(issue) = list.next_element_seed(Element)? {
            counted.elements += 1;
            if let Some(issue) = issue {
                counted.issues += 1;
                (self.keep)(issue);
            }
        }
        Ok(counted)
    }
}

/// Implements the methods for everything that a visitor takes no notice of.
macro_rules! nothing_else {
    ($value:expr) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("anything")
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($value)
        }
    };
}

/// Passes over the rest of a list or of an object.
fn rest_of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<(), A::Error> {
    while list.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

fn rest_of_object<'de, A: MapAccess<'de>>(mut object: A) -> Result<(), A::Error> {
    while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

/// An element of a list: an issue, or something else.
struct Element;

impl<'de> DeserializeSeed<'de> for Element {
    type Value = Option<Issue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element {
    type Value = Option<Issue>;

    nothing_else!(None);

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        rest_of_list(list).map(|()| None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut parts = Parts::default();
        while let Some(key) = object.next_key::<String>()? {
            match key.as_str() {
                "id" => parts.id = object.next_value_seed(Text)?,
                "status" => parts.status = object.next_value_seed(Text)?,
                "title" => parts.title = object.next_value_seed(Text)?,
                "description" => parts.description = object.next_value_seed(Text)?,
                "acceptance_criteria" => parts.criteria = object.next_value_seed(Text)?,
                "acceptance" => parts.acceptance = object.next_value_seed(Text)?,
                "assignee" => parts.assignee = object.next_value_seed(Text)?,
                "created_at" => parts.created = object.next_value_seed(Text)?,
                "priority" => parts.priority = object.next_value_seed(Count)?,
                "dependencies" => parts.dependencies = object.next_value_seed(Dependencies)?,
                _ => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        Ok(parts.issue())
    }
}

/// A text; `None` where something else stands there.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Option<String>;

    nothing_else!(None);

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        rest_of_list(list).map(|()| None)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        rest_of_object(object).map(|()| None)
    }
}

/// A number that is not negative; `None` where something else stands there.
struct Count;

impl<'de> DeserializeSeed<'de> for Count {
    type Value = Option<u64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count {
    type Value = Option<u64>;

    nothing_else!(None);

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        rest_of_list(list).map(|()| None)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        rest_of_object(object).map(|()| None)
    }
}

/// The relations of an issue, as far as they can be read.
struct Dependencies;

impl<'de> DeserializeSeed<'de> for Dependencies {
    type Value = Vec<super::Dependency>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Dependencies {
    type Value = Vec<super::Dependency>;

    nothing_else!(Vec::new());

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        // One is a reference, or at most a whole issue.
        while let Some(value) = list.next_element::<serde_json::Value>()? {
            found.extend(value.as_object().and_then(super::dependency));
        }
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        rest_of_object(object).map(|()| Vec::new())
    }
}
