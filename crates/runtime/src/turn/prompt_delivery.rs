//! How a prompt is passed to an agent.

use autoloop_core::config::PromptMode;

/// The longest prompt that is passed as an argument. Linux allows 128 KiB for one argument, and the agent may pass it
/// on with something added.
pub(crate) const LONGEST_ARGUMENT: usize = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) mode: PromptMode,
    /// Why it is not the mode that was asked for. It is recorded in the journal.
    pub(crate) fallback: Option<Fallback>,
}

/// Why a prompt cannot be an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fallback {
    #[error("a prompt of {0} bytes is too long for an argument")]
    TooLong(usize),
    #[error("a prompt with a NUL byte cannot be an argument")]
    Nul,
    /// It begins with a character that marks something else than a prompt.
    #[error("a prompt that begins with '{}' would be read as an option", char::from(*.0))]
    Marked(u8),
}

/// The mode that was asked for, or standard input where a prompt cannot be an argument. An argument of the agent that
/// begins with one of `markers` is no prompt.
#[must_use]
pub(crate) fn delivery(asked_for: PromptMode, markers: &[u8], prompt: &[u8]) -> Delivery {
    let marker = prompt.first().filter(|first| markers.contains(first));
    let fallback = match asked_for {
        PromptMode::Arg if prompt.len() > LONGEST_ARGUMENT => Some(Fallback::TooLong(prompt.len())),
        PromptMode::Arg if prompt.contains(&0) => Some(Fallback::Nul),
        PromptMode::Arg if marker.is_some() => marker.copied().map(Fallback::Marked),
        PromptMode::Arg | PromptMode::Stdin | PromptMode::File => None,
    };
    Delivery { mode: fallback.map_or(asked_for, |_| PromptMode::Stdin), fallback }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_goes_as_asked_unless_it_cannot_be_an_argument() {
        let long = vec![b'x'; LONGEST_ARGUMENT + 1];
        let cases: [(PromptMode, &[u8], PromptMode, Option<Fallback>); 9] = [
            (PromptMode::Arg, b"hi", PromptMode::Arg, None),
            (PromptMode::Arg, &long[1..], PromptMode::Arg, None),
            (PromptMode::Arg, &long, PromptMode::Stdin, Some(Fallback::TooLong(100_001))),
            (PromptMode::Arg, b"a\0b", PromptMode::Stdin, Some(Fallback::Nul)),
            (PromptMode::Stdin, &long, PromptMode::Stdin, None),
            (PromptMode::File, b"a\0b", PromptMode::File, None),
            (PromptMode::Arg, b"-v", PromptMode::Stdin, Some(Fallback::Marked(b'-'))),
            (PromptMode::Arg, b"", PromptMode::Arg, None),
            (PromptMode::File, b"-v", PromptMode::File, None),
        ];
        for (asked_for, prompt, mode, fallback) in cases {
            assert_eq!(delivery(asked_for, b"-@", prompt), Delivery { mode, fallback });
        }
        let unmarked = delivery(PromptMode::Arg, b"", b"-v");
        assert_eq!(unmarked, Delivery { mode: PromptMode::Arg, fallback: None });
        insta::assert_snapshot!(Fallback::Marked(b'@'), @"a prompt that begins with '@' would be read as an option");
    }
}
