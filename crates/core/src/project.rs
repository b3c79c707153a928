//! Projections: what people ask the journal, each a fold of it.

pub mod latest_run;
pub mod metrics;
