//! The four simulated parts as one world.

use std::sync::Arc;

use autoloop_runtime::world::{Job, Secret, World};

use crate::clock::SimClock;
use crate::disk::SimDisk;
use crate::entropy::SimEntropy;
use crate::seed::Seed;
use crate::spawner::{Script, SimSpawner};

/// A whole world that follows from a seed. The parts are for the test, [`SimWorld::world`] is for
/// the code under test; both are the same.
#[derive(Clone)]
pub struct SimWorld {
    /// Virtual time.
    pub clock: SimClock,
    /// Files. To start the machine again put what [`SimDisk::crash`] returns in its place.
    pub disk: SimDisk,
    /// Foretold randomness.
    pub entropy: SimEntropy,
    /// Scripted processes.
    pub spawner: SimSpawner,
}

impl SimWorld {
    /// A world with an empty disk, in which no program can be started.
    pub fn new(seed: Seed) -> Self {
        let clock = SimClock::default();
        SimWorld {
            disk: SimDisk::new(clock.clone()),
            clock,
            entropy: SimEntropy::new(seed.dice().fork()),
            spawner: SimSpawner::default(),
        }
    }

    /// The same world with programs that play this script.
    #[must_use]
    pub fn with_script(self, script: impl Fn(&Job) -> Script + Send + Sync + 'static) -> Self {
        SimWorld { spawner: SimSpawner::new(script), ..self }
    }

    /// The world as the code under test gets it.
    pub fn world(&self) -> World {
        let spawner = self.spawner.clone().on_stage(self.clock.clone(), self.disk.clone());
        World {
            clock: Arc::new(self.clock.clone()),
            disk: Arc::new(self.disk.clone()),
            entropy: Arc::new(self.entropy.clone()),
            spawner: Arc::new(spawner),
            secret: Arc::new(Secret::fixed([7; 32])),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use autoloop_runtime::world::{Access, Ending, Exit, Finished};

    #[test]
    fn the_code_and_the_test_see_one_world() {
        let sim = SimWorld::new(Seed(9)).with_script(|_| Script::exits(0));
        let world = sim.world();
        world.clock.sleep(Duration::from_secs(2));
        world.disk.open(Path::new("/f"), Access::Append).unwrap().append(b"x").unwrap();
        let running = world.spawner.spawn(Job::default()).unwrap();
        let finished = Finished::new(Ending::Exited(Exit::Code(0)));
        assert_eq!(running.finished.iter().last(), Some(finished));
        assert_eq!(sim.world().clock.elapsed(), Duration::from_secs(2));
        assert_eq!(sim.disk.contents("/f"), b"x");
        assert_eq!(sim.spawner.jobs().len(), 1);
    }

    #[test]
    fn worlds_of_one_seed_are_alike() {
        let number = |seed| SimWorld::new(seed).world().entropy.number();
        assert_eq!(number(Seed(9)), number(Seed(9)));
        assert_ne!(number(Seed(9)), number(Seed(10)));
    }
}
