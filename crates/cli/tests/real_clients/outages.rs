//! Providers that refuse: for a while, or for good.

use std::sync::atomic::{AtomicUsize, Ordering};

use autoloop_testkit::model_server::{Reply, Request};

use crate::lab::{EMIT, Lab, User, by_name, seen};

/// How often a client asks before it gives up by itself. That of claude is set by its adapter, opencode has no setting.
fn requests_per_start(client: &str) -> usize {
    match client {
        "claude" => 3,
        "opencode" => 6,
        _ => 1,
    }
}

pub(crate) fn outages_are_waited_out(client: &'static str) {
    const OUTAGES: [(u16, &str); 4] = [
        (429, "too many requests"),
        (429, "too many requests"),
        (500, "internal server error"),
        (529, "overloaded"),
    ];
    let asked = AtomicUsize::new(0);
    let model = move |request: &Request| {
        let number = asked.fetch_add(1, Ordering::SeqCst) / requests_per_start(client);
        match (OUTAGES.get(number), seen(request)) {
            (Some((status, message)), _) => Reply::error(*status, message),
            (None, None) => Reply::shell(EMIT),
            (None, Some(_)) => Reply::text("It is reported."),
        }
    };
    let Some(lab) = Lab::new(client, User::Ours, model) else { return };
    let settings = "event_loop.max_iterations = 1\nevent_loop.completion_event = 'task.complete'\n\
        event_loop.prompt = 'finish it'\nbackend.first_wait = '50ms'\n";
    lab.sandbox.write("autoloops.toml", settings);
    lab.sandbox.write(
        "topology.toml",
        "[[role]]\nid = 'a'\nemits = ['task.complete']\n[handoff]\n'loop.start' = ['a']\n",
    );
    let output = lab.run(&[&["run", "."].map(str::to_owned)[..], &by_name(client)].concat());
    assert_eq!(output.code, Some(0), "{output}\n{}", lab.sandbox.journal());
    let classes = lab.sandbox.fields("backend.parked", "class");
    assert_eq!(classes[..2], ["rate_limit", "rate_limit"], "{output}");
    // The words of codex for a failing server are those for a busy one.
    assert!(["server", "overloaded"].contains(&&*classes[2]), "{output}");
    assert_eq!(classes[3..], ["overloaded"], "{output}");
    assert_eq!(lab.sandbox.fields("backend.resumed", "client"), [client; 4]);
    assert_eq!(lab.sandbox.fields("iteration.finish", "exit_code"), ["0"]);
    assert!(output.stderr.contains(&format!("{client} is unavailable (rate_limit)")), "{output}");
}

pub(crate) fn a_refused_key_ends_the_run(client: &'static str, flags: Vec<String>) {
    let model = |_: &Request| Reply::error(401, "this key is unknown");
    let Some(lab) = Lab::new(client, User::Ours, model) else { return };
    let objective = ["run", "autofix", "the importer crashes"].map(str::to_owned);
    let output = lab.run(&[&objective[..], &flags].concat());
    assert_eq!(output.code, Some(1), "{output}\n{}", lab.sandbox.journal());
    assert!(!output.stderr.contains("exit code 0"), "{output}");
    assert_eq!(lab.sandbox.fields("iteration.start", "iteration").len(), 1);
    assert_eq!(lab.sandbox.fields("backend.parked", "class").len(), 0, "{output}");
}
