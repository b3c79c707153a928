//! What the tests of both prompts begin with.

use super::*;
use crate::memory::Memory;

/// A loop of three roles in which the builder acts.
pub(super) fn routing() -> Routing {
    let role = |id: &str, emits: &[&str], prompt: &str| RoleText {
        id: id.to_owned(),
        emits: emits.iter().map(|&event| event.to_owned()).collect(),
        prompt: prompt.to_owned(),
    };
    Routing {
        recent_event: "tasks.ready".to_owned(),
        route: Route {
            roles: vec!["builder".to_owned()],
            events: vec!["review.ready".to_owned(), "build.blocked".to_owned()],
        },
        roles: vec![
            role("planner", &["tasks.ready"], "# Planner\n\nCut the work into slices."),
            role(
                "builder",
                &["review.ready", "build.blocked"],
                "You build one slice.\n\nRun the tests before you say that it is ready.\n",
            ),
            role(
                "critic",
                &["review.passed", "review.rejected"],
                "\nYou look for what is wrong.\n",
            ),
        ],
    }
}

/// A memory of three entries.
pub(super) fn memory() -> Block {
    let mut memory = Memory::default();
    for line in [
        r#"{"id": "mem-1", "type": "preference", "category": "style", "text": "small commits", "created": "2026-11-15T21:12:06.031Z"}"#,
        r#"{"id": "mem-2", "type": "learning", "text": "the tests need a network", "created": "2026-11-15T21:13:06.031Z"}"#,
        r#"{"id": "meta-3", "type": "meta", "key": "branch", "value": "main", "created": "2026-11-15T21:14:06.031Z"}"#,
    ] {
        memory.apply(line.as_bytes());
    }
    Block::new(&memory, &Memory::default(), 8_000)
}

/// Where the wrapper is.
pub(super) fn tools() -> Tools {
    Tools {
        bin: "/p/.autoloop/autoloops".to_owned(),
        state_dir: "/p/.autoloop".to_owned(),
        loop_dir: String::new(),
    }
}
