//! The simulated world and the sandbox that the tests of autoloop run in.
//!
//! Everything here is decided by a [`Seed`]: the clock is a number that moves when a process
//! sleeps, the disk loses unsynced data, crashes at a chosen byte and lets other writers act
//! between two calls, and processes play a [`Script`]. The same seed gives the same bytes every
//! time, so a failure that [`simulate`] found can be reproduced.
//!
//! ```
//! use std::path::Path;
//!
//! use autoloop_runtime::world::Access;
//! use autoloop_testkit::{Faults, SimWorld, simulate};
//!
//! simulate("a torn line", 20, |seed, dice| {
//!     let sim = SimWorld::new(seed);
//!     let world = sim.world();
//!     let file = world.disk.open(Path::new("/journal"), Access::Append).unwrap();
//!     sim.disk.set_faults(Faults::none().die_after_bytes(3));
//!     assert!(file.append(b"a line\n").is_err());
//!     assert_eq!(sim.disk.contents("/journal"), b"a l");
//!
//!     let disk = sim.disk.crash(dice);
//!     assert_eq!(disk.durable_contents("/never-made"), None);
//! });
//! ```

pub mod clock;
pub mod disk;
pub mod entropy;
pub mod model_server;
pub mod records;
pub mod sandbox;
pub mod seed;
pub mod shorthand;
pub mod slots;
pub mod spawner;
pub mod squads;
pub mod terminal;
pub mod world;

pub use clock::SimClock;
pub use disk::{Calls, Faults, Moment, Op, SimDisk};
pub use entropy::SimEntropy;
pub use sandbox::Sandbox;
pub use seed::{Dice, Seed, all_seeds_run, simulate, simulate_at_once};
pub use spawner::{Script, SimSpawner};
pub use terminal::Terminal;
pub use world::SimWorld;
