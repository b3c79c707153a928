//! Random numbers determined by a seed.

use std::sync::{Arc, Mutex, PoisonError};

use autoloop_runtime::world::Entropy;

use crate::seed::Dice;

/// The entropy of a simulated world. Clones draw from the same dice.
#[derive(Clone, Debug)]
pub struct SimEntropy(Arc<Mutex<Dice>>);

impl SimEntropy {
    /// Entropy from these dice.
    pub fn new(dice: Dice) -> Self {
        SimEntropy(Arc::new(Mutex::new(dice)))
    }
}

impl Entropy for SimEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    #[test]
    fn a_seed_foretells_it_and_no_two_draws_are_alike() {
        let one = SimEntropy::new(Seed(1).dice());
        let same = SimEntropy::new(Seed(1).dice());
        let first = one.number();
        assert_eq!(first, same.number());
        assert_ne!(first, one.clone().number());
    }
}
