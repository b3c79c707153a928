//! Colours, for a stream whose reader wants them.

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// Whether escape sequences for colours are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Yes,
    No,
}

/// What a colour tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warning,
    Bad,
    /// A heading.
    Strong,
    /// A label.
    Faint,
}

impl Color {
    /// A terminal gets colours, and nothing else does. `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR` and `TERM=dumb`
    /// mean what they mean to other programs.
    pub(crate) fn of(stream: &impl RawStream) -> Color {
        match AutoStream::choice(stream) {
            ColorChoice::Never => Color::No,
            _ => Color::Yes,
        }
    }

    /// The text in the colour of a tone. It must not contain control characters of others.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let style = tone.style();
        match self {
            Color::Yes => format!("{style}{text}{style:#}"),
            Color::No => text.to_owned(),
        }
    }
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Warning => AnsiColor::Yellow.on_default(),
            Tone::Bad => AnsiColor::Red.on_default().bold(),
            Tone::Strong => Style::new().bold(),
            Tone::Faint => Style::new().dimmed(),
        }
    }
}
