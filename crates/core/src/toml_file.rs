//! TOML files read by serde, with the place of every mistake and of every unknown key.

use std::fmt;
use std::ops::Range;

use serde::de::value::Error as NoValue;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;
use serde_ignored::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::suggest::suggest;
use crate::unenforced::is_unenforced;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    pub span: Range<usize>,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKey {
    pub span: Range<usize>,
    /// With its table.
    pub path: String,
    /// The key that was probably meant.
    pub near: Option<&'static str>,
    /// Whether it sets a limit in another version of this tool that this version does not enforce.
    pub is_unenforced: bool,
}

impl UnknownKey {
    pub fn advice(&self) -> String {
        match self.near {
            Some(near) => format!("did you mean {near}?"),
            None => "no such key".to_owned(),
        }
    }
}

impl fmt::Display for UnknownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown key {}", self.path.escape_debug())
    }
}

/// Puts a message of the parser on one line. It may quote the text, so control characters are escaped.
pub(crate) fn one_line(message: &str) -> String {
    let visible = |character: char| match character {
        '\'' | '"' | '\\' => character.to_string(),
        _ => character.escape_debug().to_string(),
    };
    message.lines().collect::<Vec<_>>().join(", ").chars().map(visible).collect()
}

type Fields = &'static [&'static str];

pub(crate) struct TomlFile<'t>(Spanned<DeValue<'t>>);

pub(crate) struct Located<'f, 't> {
    /// The keys of the path, without the indexes of lists.
    names: Vec<&'f str>,
    /// The position of the last key.
    pub(crate) key: Range<usize>,
    value: &'f Spanned<DeValue<'t>>,
}

impl Located<'_, '_> {
    pub(crate) fn invalid(self, message: impl fmt::Display) -> Invalid {
        Invalid { span: self.value.span(), message: message.to_string() }
    }
}

impl<'t> TomlFile<'t> {
    pub(crate) fn parse(text: &'t str) -> Result<Self, Invalid> {
        match DeTable::parse(text) {
            Ok(root) => Ok(TomlFile(Spanned::new(root.span(), DeValue::Table(root.into_inner())))),
            Err(error) => Err(Invalid {
                span: error.span().unwrap_or_default(),
                message: format!("invalid TOML: {}", one_line(error.message())),
            }),
        }
    }

    /// Reads the file and finds its unknown keys in the order of the text. `tables` has the fields of its
    /// tables, for suggestions.
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        tables: &[(&str, Fields)],
    ) -> Result<(T, Vec<UnknownKey>), Invalid> {
        let mut unknown = Vec::new();
        let root = ValueDeserializer::from(self.0.clone());
        let read = serde_ignored::deserialize(root, |path| {
            let Located { names, key, value } = self.locate(&parts(&path));
            let (name, table) = names.split_last().unwrap_or((&"", &[]));
            let table = table.join(".");
            let inner = tables.iter().find(|(path, _)| *path == table);
            unknown.push(UnknownKey {
                span: key,
                path: names.join("."),
                near: suggest(
                    name,
                    inner.map_or_else(fields::<T>, |inner| inner.1).iter().copied(),
                ),
                is_unenforced: is_unenforced(&names.join("."), value.get_ref()),
            });
        });
        // The parser sorts keys by name; people read from top to bottom.
        unknown.sort_by_key(|key| key.span.start);
        // The second line of such an error is the path of the key.
        read.map(|read| (read, unknown)).map_err(|error: toml::de::Error| Invalid {
            span: error.span().unwrap_or_default(),
            message: one_line(&error.to_string()),
        })
    }

    /// Follows a path of keys and indexes as far as it exists.
    pub(crate) fn locate(&self, path: &[impl AsRef<str>]) -> Located<'_, 't> {
        let mut found = Located { names: Vec::new(), key: 0..0, value: &self.0 };
        for part in path.iter().map(AsRef::as_ref) {
            match found.value.get_ref() {
                DeValue::Table(table) => {
                    let Some((key, value)) = table.get_key_value(part) else { break };
                    found.names.push(key.get_ref());
                    (found.key, found.value) = (key.span(), value);
                }
                DeValue::Array(values) => {
                    let Some(value) = part.parse().ok().and_then(|index: usize| values.get(index))
                    else {
                        break;
                    };
                    found.value = value;
                }
                _ => break,
            }
        }
        found
    }
}

fn parts(path: &Path<'_>) -> Vec<String> {
    let (parent, part) = match path {
        Path::Root => return Vec::new(),
        Path::Seq { parent, index } => (parent, Some(index.to_string())),
        Path::Map { parent, key } => (parent, Some(key.clone())),
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => (parent, None),
    };
    parts(parent).into_iter().chain(part).collect()
}

/// The names of the fields of a struct.
pub(crate) fn fields<T: DeserializeOwned>() -> Fields {
    struct Names<'n>(&'n mut Fields);

    impl<'de> Deserializer<'de> for Names<'_> {
        type Error = NoValue;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NoValue> {
            Err(NoValue::custom("only the names of fields are asked for"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: Fields,
            visitor: V,
        ) -> Result<V::Value, NoValue> {
            *self.0 = fields;
            self.deserialize_any(visitor)
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
            unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut fields: Fields = &[];
    // Nothing can be read here but the names.
    let _ = T::deserialize(Names(&mut fields));
    fields
}
