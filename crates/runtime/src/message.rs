//! Messages between two processes of this program, over a pipe or a socket.
//!
//! A message is the length of its encoding in four bytes, and a value encoded by postcard. Both sides are the
//! same executable, so there are no versions.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(message, vec![0; 4]).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - 4).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "a message is larger than 4 GB")
    })?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

pub(crate) fn write(pipe: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    pipe.write_all(&encode(message)?)
}

/// Reads one message whose encoding has at most `most` bytes; `None` when the other side closed before it was
/// complete.
pub(crate) fn read<T: DeserializeOwned>(pipe: &mut impl Read, most: u32) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match pipe.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let length = u32::from_le_bytes(length);
    if length > most {
        return Err(malformed());
    }
    // Memory is taken as bytes arrive: a forged length does not reserve 4 GB.
    let mut bytes = Vec::new();
    pipe.take(length.into()).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != u64::from(length) {
        return Ok(None);
    }
    match postcard::take_from_bytes(&bytes) {
        Ok((message, [])) => Ok(Some(message)),
        _ => Err(malformed()),
    }
}

pub(crate) fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed internal message")
}

/// Serde for paths and output: their bytes as they are, whether or not they are UTF-8.
pub(crate) mod bytes {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// A value that is serialized as a list of bytes, and deserialized with one copy of them.
    pub(crate) trait Bytes: Sized {
        fn raw(&self) -> Vec<&[u8]>;
        fn from_raw(raw: &[&[u8]]) -> Self;
    }

    pub(crate) fn serialize<T: Bytes, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        value.raw().serialize(to)
    }

    pub(crate) fn deserialize<'a, T: Bytes, D: Deserializer<'a>>(from: D) -> Result<T, D::Error> {
        Vec::deserialize(from).map(|raw| T::from_raw(&raw))
    }

    impl Bytes for Vec<u8> {
        fn raw(&self) -> Vec<&[u8]> {
            vec![self]
        }

        fn from_raw(raw: &[&[u8]]) -> Self {
            raw.concat()
        }
    }

    impl Bytes for PathBuf {
        fn raw(&self) -> Vec<&[u8]> {
            vec![self.as_os_str().as_bytes()]
        }

        fn from_raw(raw: &[&[u8]]) -> Self {
            OsString::from_vec(raw.concat()).into()
        }
    }

    impl Bytes for Option<PathBuf> {
        fn raw(&self) -> Vec<&[u8]> {
            self.iter().flat_map(Bytes::raw).collect()
        }

        fn from_raw(raw: &[&[u8]]) -> Self {
            (!raw.is_empty()).then(|| PathBuf::from_raw(raw))
        }
    }

    impl Bytes for Vec<PathBuf> {
        fn raw(&self) -> Vec<&[u8]> {
            self.iter().flat_map(Bytes::raw).collect()
        }

        fn from_raw(raw: &[&[u8]]) -> Self {
            raw.iter().map(|raw| PathBuf::from_raw(&[raw])).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_too_long_is_refused_before_it_is_read() {
        let bytes = encode(&"four").unwrap();
        assert_eq!(read(&mut &bytes[..], 5).unwrap(), Some("four".to_owned()));
        assert_eq!(read::<String>(&mut &bytes[..8], 5).unwrap(), None);
        // Refused without its body.
        let refused = read::<String>(&mut &bytes[..4], 4).unwrap_err();
        insta::assert_snapshot!(refused, @"malformed internal message");
        // Another value, and one with bytes behind it.
        assert!(read::<u64>(&mut &bytes[..], 5).is_err());
        assert!(read::<bool>(&mut &bytes[..], 5).is_err());
    }
}
