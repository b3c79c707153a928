//! The settings that are one word out of a few.

use crate::wire_enum::words;

words! {
    /// What sort of agent a backend is (`backend.kind`).
    BackendKind {
        /// Any executable.
        Command = "command",
        /// The `pi` agent, through its adapter.
        Pi = "pi",
        /// The built-in agent that plays a script; the command is the script's file.
        Script = "script",
        /// Answers out of an earlier run's journal; the command is the journal's file.
        Replay = "replay",
    }
}

words! {
    /// How a prompt reaches an agent (`backend.prompt_mode`).
    PromptMode {
        /// As its last argument.
        Arg = "arg",
        /// On its standard input.
        Stdin = "stdin",
        /// In a file, whose path is its last argument.
        File = "file",
    }
}

words! {
    /// What becomes of processes that a backend leaves behind (`backend.leftovers`).
    Leftovers {
        /// They are ended.
        Kill = "kill",
        /// They live on, and a note names them.
        Warn = "warn",
        /// They live on.
        Keep = "keep",
    }
}

words! {
    /// How a metareview is kept from changing what it may not (`review.sandbox`).
    Sandbox {
        /// By the kernel where it can, and by putting back what was changed anyway.
        Auto = "auto",
        /// By the kernel; where it cannot, there is no review.
        Required = "required",
        /// Only by putting back what was changed.
        Off = "off",
    }
}

words! {
    /// Where those work who work at once: the branches of a wave (`parallel.isolation`), or slots
    /// (`slots.isolation`).
    Isolation {
        /// All of them in the tree of the project.
        Shared = "shared",
        /// Each in a git worktree of its own, from which its commits are brought back.
        Worktree = "worktree",
    }
}

words! {
    /// How much is logged (`core.log_level`).
    LogLevel {
        /// Nothing.
        None = "none",
        /// What went wrong.
        Error = "error",
        /// And what looks wrong.
        Warn = "warn",
        /// And what a person follows a run by.
        Info = "info",
        /// And what helps to find a mistake.
        Debug = "debug",
        /// And everything else.
        Trace = "trace",
    }
}

words! {
    /// When the records of the journal are forced to the disk (`journal.sync`).
    SyncPolicy {
        /// After every append, before it is acknowledged.
        Always = "always",
        /// After every append of the harness. What agents emit is forced to the disk with the next of
        /// those, so a loss of power may cost the events of the iteration under way.
        Iteration = "iteration",
        /// Whenever the system does it: for tests and throw-away runs.
        Never = "never",
    }
}

words! {
    /// Where items come from (`slots.source`).
    ItemSource {
        /// The queue of `autoloop tasks`.
        Builtin = "builtin" | "tasks",
        /// The issue tracker of that name, through its command.
        Beads = "beads",
    }
}

impl BackendKind {
    /// The kind by which another version of this tool starts claude.
    pub const SDK: &'static str = "claude-sdk";
    /// What is said about it.
    pub const SDK_LABEL: &'static str = "taken as 'command', which starts claude itself";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_means_itself() {
        for word in PromptMode::WORDS {
            assert_eq!(PromptMode::from_word(word).map(PromptMode::name), Some(*word));
        }
        assert_eq!(PromptMode::from_word("Arg"), None);
        assert_eq!(ItemSource::from_word("tasks").map(ItemSource::name), Some("builtin"));
        assert_eq!(format!("{:>6}", BackendKind::Pi), "    pi");
    }
}
