//! Something about each of the runs that were heard of last.

use serde::{Deserialize, Serialize};

/// How many runs are remembered. A journal may hold thousands; prompts and people ask about the last
/// few, and for an older one the journal is read again.
pub const REMEMBERED: usize = 32;

/// One `T` a run, for the runs that were heard of last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentRuns<T> {
    /// The run that was heard of last stands last.
    entries: Vec<(String, T)>,
}

impl<T> Default for RecentRuns<T> {
    fn default() -> Self {
        RecentRuns { entries: Vec::new() }
    }
}

impl<T: Default> RecentRuns<T> {
    /// What there is about a run.
    pub fn get(&self, run: &str) -> Option<&T> {
        self.entries.iter().find(|(name, _)| name == run).map(|(_, entry)| entry)
    }

    /// Every run that is remembered; the one that was heard of last comes last.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.entries.iter().map(|(run, entry)| (run.as_str(), entry))
    }

    /// A run that something is heard of now. The one that was silent for longest may be forgotten.
    pub fn heard(&mut self, run: &str) -> &mut T {
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
            *runs.heard(&run.to_string()) += 1;
        }
        *runs.heard("0") += 1;
        *runs.heard("new") += 1;
        assert_eq!(runs.get("0"), Some(&2));
        assert_eq!(runs.get("1"), None);
        assert_eq!(runs.get("2"), Some(&1));
        assert_eq!(runs.iter().last(), Some(("new", &1)));
        assert_eq!(runs.iter().count(), REMEMBERED);
    }
}
