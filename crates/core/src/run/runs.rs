//! Every run of a journal, as a view that can be kept.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::Run;
use crate::record::Glance;
use crate::view::View;

/// The runs of a journal, in the order in which they began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Run>")]
pub struct Runs {
    runs: Vec<Run>,
    #[serde(skip)]
    places: HashMap<String, usize>,
}

impl Runs {
    /// All of them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Run> {
        self.runs.iter()
    }

    /// A run by its id.
    pub fn get(&self, id: &str) -> Option<&Run> {
        self.places.get(id).map(|&place| &self.runs[place])
    }

    fn run(&mut self, id: &str) -> &mut Run {
        let place = match self.places.get(id) {
            Some(&place) => place,
            None => {
                self.places.insert(id.to_owned(), self.runs.len());
                self.runs.push(Run::new(id));
                self.runs.len() - 1
            }
        };
        &mut self.runs[place]
    }
}

impl From<Vec<Run>> for Runs {
    fn from(runs: Vec<Run>) -> Self {
        let places = runs.iter().enumerate().map(|(place, run)| (run.id.clone(), place)).collect();
        Runs { runs, places }
    }
}

impl View for Runs {
    const NAME: &'static str = "runs";
    const VERSION: u32 = 11;

    fn apply(&mut self, record: &Glance<'_>) {
        let id = record.run();
        // What concerns the journal as a whole belongs to no run.
        if !id.is_empty() && (self.places.contains_key(&*id) || !is_of_a_chain(record)) {
            self.run(&id).apply(record);
        }
    }
}

/// A chain has an id of its own, which is not the id of a run.
fn is_of_a_chain(record: &Glance<'_>) -> bool {
    !record.has_payload() && record.topic().starts_with("chain.")
}
