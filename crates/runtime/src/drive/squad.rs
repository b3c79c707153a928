//! Carries a squad out.

#[cfg_attr(not(test), expect(dead_code, reason = "the driver calls it"))]
mod worktrees;
