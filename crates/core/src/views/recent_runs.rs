//! A value per run for the most recent runs.

use serde::{Deserialize, Serialize};

/// How many runs are kept. Prompts and people ask about the last few; for an older run the journal is read
/// again.
pub const REMEMBERED: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentRuns<T> {
    /// The most recent run comes last.
    entries: Vec<(String, T)>,
}

impl<T: Default> RecentRuns<T> {
    pub fn of(&self, run: &str) -> Option<&T> {
        self.entries.iter().find(|(name, _)| name == run).map(|(_, entry)| entry)
    }

    /// The most recent run comes last.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.entries.iter().map(|(run, entry)| (run.as_str(), entry))
    }

    /// The value of a run that has a new record. The least recent run may be dropped for it.
    pub fn touch(&mut self, run: &str) -> &mut T {
        match self.entries.iter().position(|(name, _)| name == run) {
            Some(at) => self.entries[at..].rotate_left(1),
            None => {
                if self.entries.len() >= REMEMBERED {
                    self.entries.remove(0);
                }
                self.entries.push((run.to_owned(), T::default()));
            }
        }
        let last = self.entries.len() - 1;
        &mut self.entries[last].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_that_was_silent_for_longest_is_forgotten() {
        let mut runs: RecentRuns<u32> = RecentRuns::default();
        for run in 0..REMEMBERED {
            *runs.touch(&run.to_string()) += 1;
        }
        *runs.touch("0") += 1;
        *runs.touch("new") += 1;
        assert_eq!(runs.of("0"), Some(&2));
        assert_eq!(runs.of("1"), None);
        assert_eq!(runs.of("2"), Some(&1));
        assert_eq!(runs.iter().last(), Some(("new", &1)));
        assert_eq!(runs.iter().count(), REMEMBERED);
    }
}
