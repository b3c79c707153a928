//! Squads through the binary: scripted agents, real git, and tools by the command that needs no MCP client.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "squad/answers.rs"]
mod answers;
#[path = "squad/checkpoints.rs"]
mod checkpoints;
#[path = "squad/commands.rs"]
mod commands;
#[path = "squad/evidence.rs"]
mod evidence;
#[path = "squad/groups.rs"]
mod groups;
#[path = "squad/merging.rs"]
mod merging;
#[path = "squad/phases.rs"]
mod phases;
#[path = "squad/resume.rs"]
mod resume;
#[path = "squad/revisions.rs"]
mod revisions;
#[path = "squad/scene.rs"]
mod scene;
