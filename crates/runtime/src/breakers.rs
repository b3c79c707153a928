//! The circuit breakers of the clients that a harness starts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use autoloop_core::agents::Breaker;

/// The breakers of all clients that a harness starts. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Breakers(Arc<Mutex<HashMap<String, Breaker>>>);

impl Breakers {
    pub(crate) fn with<T>(&self, client: &str, change: impl FnOnce(&mut Breaker) -> T) -> T {
        let mut breakers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(breakers.entry(client.to_owned()).or_default())
    }
}
