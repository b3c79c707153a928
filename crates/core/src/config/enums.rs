//! The settings that are one word out of a few.

use crate::agents::Adapter;
use crate::wire_enum::words;

words! {
    BackendKind {
        Command = "command",
        Claude = "claude",
        Codex = "codex",
        Gemini = "gemini",
        Opencode = "opencode",
        Pi = "pi",
        /// Any program that speaks the Agent Client Protocol.
        Acp = "acp",
        /// The built-in agent that plays a script; the command is the script's file.
        Script = "script",
        /// Replays the answers in an earlier run's journal; the command is the journal's file.
        Replay = "replay",
    }
}

words! {
    /// How much of a squad's work is reviewed, and how often it may be revised (`squad.effort`).
    #[derive(PartialOrd, Ord)]
    Effort {
        Low = "low",
        Medium = "medium",
        High = "high",
        Max = "max",
    }
}

words! {
    /// How an agent receives its prompt (`backend.prompt_mode`).
    PromptMode {
        Arg = "arg",
        Stdin = "stdin",
        /// As a file whose path is the last argument.
        File = "file",
    }
}

words! {
    /// What happens to processes that an agent leaves behind when it ends by itself (`backend.leftovers`). One that is
    /// made to end never leaves any.
    #[derive(Default)]
    Leftovers {
        #[default]
        Kill = "kill",
        /// Names them in a note and keeps them.
        Warn = "warn",
        Keep = "keep",
    }
}

words! {
    Sandbox {
        /// By the kernel if it can, otherwise by a snapshot that is restored.
        Auto = "auto",
        /// By the kernel; without its support, the review is skipped.
        Required = "required",
        /// By a snapshot that is restored.
        Off = "off",
    }
}

words! {
    /// Where parallel branches (`parallel.isolation`) or slots (`slots.isolation`) work.
    Isolation {
        Shared = "shared",
        /// Each in its own git worktree, from which its commits are merged back.
        Worktree = "worktree",
    }
}

words! {
    /// `core.log_level`
    LogLevel {
        None = "none",
        Error = "error",
        Warn = "warn",
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }
}

words! {
    /// When records are synced to the disk (`journal.sync`).
    SyncPolicy {
        /// After every append, before it is acknowledged.
        Always = "always",
        /// After every append of the harness. Events of agents are synced with the next of those, so a loss
        /// of power may lose the events of the current iteration.
        Iteration = "iteration",
        /// Whenever the system does: for tests and temporary runs.
        Never = "never",
    }
}

words! {
    /// Where items come from (`slots.source`).
    ItemSource {
        Builtin = "builtin" | "tasks",
        Beads = "beads",
    }
}

impl BackendKind {
    /// The kind by which another version of this tool starts claude.
    pub const SDK: &'static str = "claude-sdk";
    pub const SDK_LABEL: &'static str = "taken as 'claude', which starts claude itself";

    /// The kind of a command, if none is set.
    pub fn of_command(command: &str) -> BackendKind {
        let client = Adapter::by_program(command);
        client.and_then(|client| Self::from_word(client.program)).unwrap_or(BackendKind::Command)
    }

    pub fn adapter(self) -> Option<&'static Adapter> {
        Adapter::by_program(self.name())
    }
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
