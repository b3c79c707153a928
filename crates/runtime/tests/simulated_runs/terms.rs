//! Types that the judge, the witness and the play share.

/// Who wrote a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    Harness,
    Agent,
    /// A process that the harness does not know, and that may write at any time.
    Stranger,
}

/// How far a run has progressed, for a resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    New,
    /// Also one that a user interrupted.
    Begun,
    Over,
}

/// Whether the harness reads the files of the loop after a record, or did so before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loads {
    Yes,
    No,
}
