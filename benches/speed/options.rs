//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use crate::Fallible;

/// What to do.
pub(crate) enum Wish {
    /// Measure, and print the table.
    Measure(Options),
    /// Print the names of the rows.
    List,
    /// Run as one of the processes that a row starts.
    Write(Writer),
    /// Do nothing, for this reason.
    Nothing(&'static str),
}

/// How to measure.
pub(crate) struct Options {
    names: Vec<String>,
    /// How much effort to spend.
    pub(crate) effort: Effort,
}

/// How much effort to spend.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// A gigabyte, and enough samples for a stable figure on a busy machine.
    Full,
    /// A check whether everything works.
    Quick,
}

/// A process that appends for a while.
pub(crate) struct Writer {
    pub(crate) journal: PathBuf,
    pub(crate) protocol: Protocol,
    pub(crate) time: Duration,
}

/// When a writer syncs, and how it waits for its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The journal's own way: after the lock was released.
    Journal,
    /// While holding the lock, which is polled as the journal does.
    SyncUnderLock,
    /// While holding the lock, for which the kernel waits.
    SyncUnderBlockingLock,
}

impl Protocol {
    const ALL: [(&str, Protocol); 3] = [
        ("journal", Protocol::Journal),
        ("under-lock", Protocol::SyncUnderLock),
        ("under-blocking-lock", Protocol::SyncUnderBlockingLock),
    ];

    pub(crate) fn name(self) -> &'static str {
        Protocol::ALL.iter().find(|(_, protocol)| *protocol == self).map_or("", |(name, _)| name)
    }

    fn named(text: &str) -> Option<Protocol> {
        Protocol::ALL.iter().find(|(name, _)| *name == text).map(|(_, protocol)| *protocol)
    }
}

impl Options {
    /// Whether a row is selected.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|part| name.contains(part.as_str()))
    }
}

impl Wish {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Fallible<Wish> {
        let arguments: Vec<String> = arguments.collect();
        if let [flag, journal, protocol, millis] = arguments.as_slice()
            && flag == "--write"
        {
            return Ok(Wish::Write(Writer {
                journal: journal.into(),
                protocol: Protocol::named(protocol).ok_or("no such protocol")?,
                time: Duration::from_millis(millis.parse()?),
            }));
        }
        let mut options = Options { names: Vec::new(), effort: Effort::Full };
        let mut is_bench = false;
        for argument in arguments {
            match argument.as_str() {
                // `cargo bench` adds it; `cargo test --all-targets` does not.
                "--bench" => is_bench = true,
                "--list" => return Ok(Wish::List),
                "--quick" => options.effort = Effort::Quick,
                flag if flag.starts_with('-') => {
                    return Err(format!("{flag}: the options are --quick and --list").into());
                }
                _ => options.names.push(argument),
            }
        }
        if is_bench {
            Ok(Wish::Measure(options))
        } else {
            Ok(Wish::Nothing("nothing is measured outside of `cargo bench`"))
        }
    }
}
