//! Runs with the real clients, against a model on loopback that answers as the test says.
//!
//! The clients are looked for in the directory that `AUTOLOOP_CLIENTS` names, where `.ci/clients` installs them. Without
//! it these tests are skipped. A start of a client costs up to eight seconds of a processor, so every run here shows as
//! much as it can.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "real_clients/ends.rs"]
mod ends;
#[path = "real_clients/exchange.rs"]
mod exchange;
#[path = "real_clients/lab.rs"]
mod lab;
#[path = "real_clients/loops.rs"]
mod loops;
#[path = "real_clients/outages.rs"]
mod outages;
#[path = "real_clients/slots.rs"]
mod slots;
#[path = "real_clients/squad.rs"]
mod squad;
#[path = "real_clients/tools.rs"]
mod tools;

use lab::{by_acp, by_name};

macro_rules! for_each_client {
    ($($name:ident: $client:literal;)+) => { $(
        mod $name {
            const CLIENT: &str = $client;

            #[test]
            fn a_preset_completes_with_a_review() {
                crate::loops::a_preset_completes_with_a_review(CLIENT);
            }

            #[test]
            fn any_user_can_run_it() {
                crate::slots::any_user_can_run_it(CLIENT);
            }

            #[test]
            fn slots_review_fix_and_merge() {
                crate::slots::slots_review_fix_and_merge(CLIENT);
            }

            #[test]
            fn outages_are_waited_out() {
                crate::outages::outages_are_waited_out(CLIENT);
            }

            #[test]
            fn a_refused_key_ends_the_run() {
                crate::outages::a_refused_key_ends_the_run(CLIENT, crate::by_name(CLIENT));
            }

            #[test]
            fn a_hang_ends_at_the_deadline() {
                crate::ends::a_hang_ends_at_the_deadline(CLIENT);
            }

            #[test]
            fn no_process_is_left_after_a_signal() {
                crate::ends::no_process_is_left_after_a_signal(CLIENT);
            }
        }
    )+ };
}

for_each_client! {
    claude: "claude";
    codex: "codex";
    gemini: "gemini";
    opencode: "opencode";
    pi: "pi";
}

#[test]
fn claude_reviews_what_codex_authors() {
    exchange::claude_reviews_what_codex_authors();
}

mod squads {
    use crate::squad::one_builds_and_the_other_reviews;

    #[test]
    fn claude_builds_and_codex_reviews() {
        one_builds_and_the_other_reviews("claude", "codex");
    }

    #[test]
    fn codex_builds_and_claude_reviews() {
        one_builds_and_the_other_reviews("codex", "claude");
    }

    #[test]
    fn claude_builds_and_opencode_reviews() {
        one_builds_and_the_other_reviews("claude", "opencode");
    }

    #[test]
    fn pi_builds_and_claude_reviews() {
        one_builds_and_the_other_reviews("pi", "claude");
    }
}

mod read_only {
    use crate::slots::a_reviewer_without_a_sandbox_is_read_only;

    #[test]
    fn claude_reviews_without_tools_that_change_files() {
        a_reviewer_without_a_sandbox_is_read_only("claude", ["Edit", "Write"]);
    }

    #[test]
    fn gemini_reviews_without_tools_that_change_files() {
        a_reviewer_without_a_sandbox_is_read_only("gemini", ["replace", "write_file"]);
    }

    #[test]
    fn opencode_reviews_without_tools_that_change_files() {
        a_reviewer_without_a_sandbox_is_read_only("opencode", ["edit", "write"]);
    }

    #[test]
    fn pi_reviews_without_tools_that_change_files() {
        a_reviewer_without_a_sandbox_is_read_only("pi", ["edit", "write"]);
    }
}

mod mcp {
    #[test]
    fn claude_calls_the_tools_of_its_agent() {
        crate::tools::a_client_calls_the_tools_of_its_agent("claude");
    }

    #[test]
    fn codex_calls_the_tools_of_its_agent() {
        crate::tools::a_client_calls_the_tools_of_its_agent("codex");
    }

    #[test]
    fn opencode_calls_the_tools_of_its_agent() {
        crate::tools::a_client_calls_the_tools_of_its_agent("opencode");
    }
}

mod acp {
    #[test]
    fn gemini_calls_the_tools_of_its_agent() {
        crate::tools::a_program_calls_the_tools_of_its_agent("gemini", "--acp");
    }

    #[test]
    fn gemini_completes_a_preset() {
        crate::loops::a_preset_completes("gemini", crate::by_acp("gemini"));
    }

    #[test]
    fn opencode_completes_a_preset() {
        crate::loops::a_preset_completes("opencode", crate::by_acp("opencode"));
    }

    #[test]
    fn a_refused_key_ends_the_run() {
        for client in ["gemini", "opencode"] {
            crate::outages::a_refused_key_ends_the_run(client, crate::by_acp(client));
        }
    }
}
