//! How a prompt gets to an agent.

/// The longest prompt that is passed as an argument. Linux ends at 128 KiB for one argument, and the
/// agent may pass it on with something added.
pub const LONGEST_ARGUMENT: usize = 100_000;

/// The ways for a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptMode {
    /// As the last argument.
    Argument,
    /// On standard input.
    Stdin,
    /// In a file, whose path is in the environment.
    File,
}

/// Which way a prompt takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The way.
    pub mode: PromptMode,
    /// Why it is not the way that was asked for. To be told in the journal.
    pub detour: Option<Detour>,
}

/// Why a prompt cannot be an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Detour {
    /// Longer than [`LONGEST_ARGUMENT`].
    #[error("a prompt of {0} bytes is too long for an argument")]
    TooLong(usize),
    /// It holds a NUL, which ends an argument.
    #[error("a prompt with a NUL byte cannot be an argument")]
    Nul,
    /// It begins with a character that makes something else of it.
    #[error("a prompt that begins with '{}' would be taken for something else", char::from(*.0))]
    Marked(u8),
}

/// Decides which way a prompt takes: the one that was asked for, or standard input where a prompt
/// cannot be an argument. `markers` are what an argument of the agent begins with that is no prompt.
#[must_use]
pub fn delivery(asked_for: PromptMode, markers: &[u8], prompt: &[u8]) -> Delivery {
    let marker = prompt.first().filter(|first| markers.contains(first));
    let detour = match asked_for {
        PromptMode::Argument if prompt.len() > LONGEST_ARGUMENT => {
            Some(Detour::TooLong(prompt.len()))
        }
        PromptMode::Argument if prompt.contains(&0) => Some(Detour::Nul),
        PromptMode::Argument if marker.is_some() => marker.copied().map(Detour::Marked),
        PromptMode::Argument | PromptMode::Stdin | PromptMode::File => None,
    };
    Delivery { mode: detour.map_or(asked_for, |_| PromptMode::Stdin), detour }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_goes_as_asked_unless_it_cannot_be_an_argument() {
        let long = vec![b'x'; LONGEST_ARGUMENT + 1];
        let cases: [(PromptMode, &[u8], PromptMode, Option<Detour>); 9] = [
            (PromptMode::Argument, b"hi", PromptMode::Argument, None),
            (PromptMode::Argument, &long[1..], PromptMode::Argument, None),
            (PromptMode::Argument, &long, PromptMode::Stdin, Some(Detour::TooLong(100_001))),
            (PromptMode::Argument, b"a\0b", PromptMode::Stdin, Some(Detour::Nul)),
            (PromptMode::Stdin, &long, PromptMode::Stdin, None),
            (PromptMode::File, b"a\0b", PromptMode::File, None),
            (PromptMode::Argument, b"-v", PromptMode::Stdin, Some(Detour::Marked(b'-'))),
            (PromptMode::Argument, b"", PromptMode::Argument, None),
            (PromptMode::File, b"-v", PromptMode::File, None),
        ];
        for (asked_for, prompt, mode, detour) in cases {
            assert_eq!(delivery(asked_for, b"-@", prompt), Delivery { mode, detour });
        }
        let unmarked = delivery(PromptMode::Argument, b"", b"-v");
        assert_eq!(unmarked, Delivery { mode: PromptMode::Argument, detour: None });
        insta::assert_snapshot!(Detour::Marked(b'@'), @"a prompt that begins with '@' would be taken for something else");
    }
}
