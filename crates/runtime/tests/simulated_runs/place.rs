//! The place of a run in its family, parsed from its name.

/// A run, by its place among the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The requested chains on the way to it, and their steps; 0 where there are none.
    descent: u64,
    /// The step of the outermost chain; 0 outside of one.
    pub(crate) step: u64,
    /// The wave of that run; 0 in the run itself.
    pub(crate) wave: u64,
    /// The branch of the wave.
    pub(crate) branch: u64,
}

impl Place {
    pub(crate) fn of(run: &str) -> Place {
        let after = |mark: &str| -> Vec<u64> {
            let rest = run.split_once(mark).map_or("", |(_, rest)| rest);
            rest.split('-').map_while(|word| word.parse().ok()).collect()
        };
        let (step, wave) = (after("-step-"), after("-wave-"));
        let at = |numbers: &[u64], place: usize| numbers.get(place).copied().unwrap_or_default();
        let descent = run.split("-chain-").skip(1).fold(0, |descent, below| {
            let (chain, step) = below.split_once("-step-").unwrap_or((below, ""));
            let number = |text: &str| text.split('-').next().and_then(|text| text.parse().ok());
            descent << 6 | number(chain).unwrap_or(0_u64) << 3 | number(step).unwrap_or(0)
        });
        Place { descent, step: at(&step, 0), wave: at(&wave, 0), branch: at(&wave, 1) }
    }

    pub(crate) fn is_branch(self) -> bool {
        self.branch > 0
    }

    /// A different number for every place.
    pub(crate) fn number(self) -> u64 {
        ((self.descent << 3 | self.step) * 64 + self.wave) * 64 + self.branch
    }
}

/// The run that a branch belongs to; any other run is its own.
pub(crate) fn parent(run: &str) -> &str {
    run.split_once("-wave-").map_or(run, |(parent, _)| parent)
}
