//! Words that the judge, the witness and the play have in common.

/// Who wrote a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    Harness,
    Agent,
    /// Somebody who is not known to the harness, and may write at any time.
    Stranger,
}

/// How far a run is, for whoever wants to take it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    New,
    /// Also one that a person interrupted.
    Begun,
    Over,
}

/// Whether the harness reads the files of the loop after a record, or did so before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loads {
    Yes,
    No,
}
