//! The views of the journal, each a fold of its records.

pub mod board;
pub mod coordination;
pub mod iteration_text;
pub mod latest_run;
pub mod metrics;
pub mod recent_runs;
pub mod replay;
pub mod review;
pub mod scratchpad;
pub mod squad;
pub mod usage;
