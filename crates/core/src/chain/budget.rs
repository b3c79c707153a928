//! How far chains may go.

use serde::{Deserialize, Serialize};

/// How far chains may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a table: [budget]")]
pub struct Budget {
    /// How deep chains may be nested.
    pub max_depth: u64,
    /// The most steps of a chain, with those of the chains in it and of those that its steps ask for.
    pub max_steps: u64,
    /// No step begins once the steps took so long.
    pub max_runtime_ms: u64,
    /// The most chains that one run may ask for; with 0, none can.
    pub max_children: u64,
    /// After so many chains of a run that failed, one after another, it gets no more.
    pub max_consecutive_failures: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            max_depth: 5,
            max_steps: 50,
            max_runtime_ms: 3_600_000,
            max_children: 10,
            max_consecutive_failures: 3,
        }
    }
}

impl Budget {
    /// The stricter of two, limit by limit.
    #[must_use]
    pub fn within(self, other: Budget) -> Budget {
        Budget {
            max_depth: self.max_depth.min(other.max_depth),
            max_steps: self.max_steps.min(other.max_steps),
            max_runtime_ms: self.max_runtime_ms.min(other.max_runtime_ms),
            max_children: self.max_children.min(other.max_children),
            max_consecutive_failures: self
                .max_consecutive_failures
                .min(other.max_consecutive_failures),
        }
    }
}
