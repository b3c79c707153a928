//! Colours of output.

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Yes,
    No,
}

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
    /// Only a terminal gets colours, unless `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR` or `TERM=dumb` change that.
    pub(crate) fn of(stream: &impl RawStream) -> Color {
        match AutoStream::choice(stream) {
            ColorChoice::Never => Color::No,
            _ => Color::Yes,
        }
    }

    /// Colours a text, which must not contain control characters.
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
