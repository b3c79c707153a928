use proptest::prelude::*;

use super::*;

fn told(repaired: &Repaired) -> Vec<String> {
    repaired.put_back.iter().map(ToString::to_string).collect()
}

fn repaired(old: &str, new: &str) -> Repaired {
    repair_settings(old, new, &[]).unwrap()
}

#[test]
fn protected_keys_come_back_and_everything_else_stays() {
    let old = "# mine\nbackend.command = \"pi\" # cheap\nevent_loop.max_iterations = 9\nevent_loop.prompt = \"old\"\n\n[review]\nevery_iterations = 3\nsandbox = \"required\"\n[unheard]\nof = 1\n";
    let new = "# theirs\nbackend.command = \"sh\" # dear\nbackend.args = [\"-c\"]\nevent_loop.max_iterations = 5\nevent_loop.prompt = \"new\"\nevent_loop.completion_promise = \"x\"\n\n[review]\n# never\nevery_iterations = 300\n\n[memory]\nprompt_budget_chars = 4000\nunheard = 2\n[unheard]\nof = 2\n";
    let repaired = repaired(old, new);
    insta::assert_snapshot!(repaired.text, @r#"
    # theirs
    backend.command = "pi" # dear
    event_loop.max_iterations = 5
    event_loop.prompt = "new"

    [review]
    # never
    every_iterations = 3
    sandbox = "required"

    [memory]
    prompt_budget_chars = 4000
    unheard = 2
    [unheard]
    of = 1
    "#);
    assert_eq!(
        told(&repaired),
        [
            r#"backend.args = ["-c"] added"#,
            r#"backend.command changed from "pi" to "sh""#,
            r#"event_loop.completion_promise = "x" added"#,
            "review.every_iterations changed from 3 to 300",
            r#"review.sandbox = "required" removed"#,
            "unheard.of changed from 1 to 2",
        ]
    );
}

#[test]
fn limits_are_tightened_and_never_loosened() {
    let user = Layer::file(
        Origin::User,
        "config.toml",
        "event_loop.max_iterations = 20\nevent_loop.required_events = ['a.b']",
    );
    let old = "event_loop.max_iterations = 9\nevent_loop.required_events = ['a.b', 'c.d']\n";
    for (old, new, stays) in [
        (
            old,
            "event_loop.max_iterations = 9\nevent_loop.required_events = ['c.d', 'e.f', 'a.b']",
            true,
        ),
        (old, "[event_loop]\nmax_iterations = \"1\"\nrequired_events = 'a.b, c.d'", true),
        (old, "event_loop = { max_iterations = 0x2, required_events = ['a.b', 'c.d'] }", true),
        // What the layer beneath says counts where the file says nothing.
        ("", "event_loop.max_iterations = 20", true),
        ("", "event_loop.max_iterations = 21", false),
        ("", "event_loop.required_events = ['a.b', 'x.y']", true),
        ("", "event_loop.required_events = ['x.y']", false),
        ("", "event_loop.required_events = []", false),
        ("event_loop.required_events = ['a.b']", "", true),
        (old, "", false),
        (old, "event_loop.max_iterations = 10\nevent_loop.required_events = ['a.b', 'c.d']", false),
        (old, "event_loop.max_iterations = 0\nevent_loop.required_events = ['a.b', 'c.d']", false),
        (
            old,
            "event_loop.max_iterations = 'x'\nevent_loop.required_events = ['a.b', 'c.d']",
            false,
        ),
        (old, "event_loop.max_iterations = {}\nevent_loop.required_events = ['a.b', 'c.d']", false),
        (old, "event_loop.max_iterations = 9\nevent_loop.required_events = ['a.b']", false),
        (old, "event_loop.max_iterations = 9\nevent_loop.required_events = ''", false),
        (old, "event_loop.max_iterations = 9\n[[event_loop.required_events]]\nx = 1", false),
        (
            old,
            "\"event_loop.max_iterations\" = 99\nevent_loop.max_iterations = 9\nevent_loop.required_events = ['a.b', 'c.d']",
            false,
        ),
        (
            old,
            "\"event_loop.required_events\" = []\nevent_loop.max_iterations = 9\nevent_loop.required_events = ['a.b', 'c.d']",
            false,
        ),
    ] {
        let beneath = std::slice::from_ref(&user);
        let repaired = repair_settings(old, new, beneath).unwrap();
        assert_eq!(repaired.put_back.is_empty(), stays, "{new}: {:?}", told(&repaired));
        let (was, now) = (read(old, beneath), read(&repaired.text, beneath));
        for key in [Key::MaxIterations, Key::RequiredEvents] {
            assert!(may_become(key, &was.settings, &now.settings), "{new}: {}", repaired.text);
        }
    }
}

#[test]
fn two_spellings_of_one_setting_do_not_change_places() {
    let old = "[slots]\nreview_enabled = false\nreviewEnabled = true\n";
    let new = "[slots]\nreviewEnabled = true\nreview_enabled = false\n";
    let swapped = repaired(old, new);
    assert_eq!(swapped.text, old);
    assert_eq!(told(&swapped), ["slots.reviewEnabled changed from true to false"]);
    for new in [
        "reviewEnabled = false\n[slots]\nreview_enabled = false\nreviewEnabled = true\n",
        "\"slots.reviewEnabled\" = false\n[slots]\nreview_enabled = false\nreviewEnabled = true\n",
        "[slots]\nreview_enabled = false\nreviewEnabled = true\n\"reviewer.command\" = 'sh'\n",
    ] {
        assert_eq!(repaired(old, new).text, old, "{new}");
    }
}

#[test]
fn settings_that_cannot_be_used_are_told() {
    let told = |new| repair_settings("memory.prompt_budget_chars = 1", new, &[]).unwrap_err();
    insta::assert_snapshot!(told("memory.prompt_budget_chars = 'x'"), @r#"cannot be used: line 1, column 30: memory.prompt_budget_chars is "x"; expected a whole number; 0 or less is no limit"#);
    insta::assert_snapshot!(told("event_loop.prompt = {}"), @"cannot be used: line 1, column 21: event_loop.prompt is a table; expected a text in quotes");
}

#[test]
fn another_spelling_of_the_same_settings_is_no_change() {
    let old = "backend.command = \"pi\"\nbackend.args = [\"-p\"]\n";
    for new in [
        "[backend]\nargs = ['-p',]\ncommand = '''pi'''\n",
        "backend = { command = \"\\u0070i\", args = [ \"-p\" ] }\n",
        "\"backend\".'args' = [\"-p\"]\nbackend.command='pi'",
    ] {
        let repaired = repaired(old, new);
        assert_eq!((repaired.text.as_str(), told(&repaired)), (new, vec![]));
    }
}

#[test]
fn no_way_of_writing_gets_a_protected_key_through() {
    let old = "[backend]\ncommand = \"pi\"\n[backend.env]\nA = \"1\"\n[limits]\ncost = 3\n";
    for new in [
        "",
        "backend = { command = \"sh\" }",
        "backend = 3",
        "[[backend]]\ncommand = \"sh\"",
        "[backend]\ncommand = [\"sh\"]\nenv.A = \"2\"",
        "[backend.command]\nx = 1",
        "\"limits\".cost = 99\n[\"backend\"]\n\"comm\\u0061nd\" = \"sh\"",
        "slots.parallelAgents = 9\nparallel = { enabled = true }\njournal.sync = 'never'\n[backend]\ncommand = \"pi\"\nenv.A = \"1\"\n[limits]\ncost = 3\n",
        "memory = 3\nevent_loop = 4",
        "[[memory]]\n[[event_loop]]\nprompt = 'x'",
        "core.state_dir = \"/\"\n[checks]\nx = 1\n[backend]\ncommand = \"pi\"\nenv = { A = \"1\", B = \"2\" }",
    ] {
        let repaired = repaired(old, new);
        assert!(!repaired.put_back.is_empty(), "{new}");
        let again = self::repaired(old, &repaired.text);
        assert_eq!(told(&again), Vec::<String>::new(), "{new} became {}", repaired.text);
    }
}

#[test]
fn a_text_that_does_not_parse_is_told() {
    let told = |old, new| repair_settings(old, new, &[]).unwrap_err().to_string();
    assert!(told("", "a = 1\nb = \n").starts_with("does not parse: line 2: "));
    assert!(told("a = ", "").starts_with("did not parse before the review: line 1: "));
    assert_eq!(
        told("", &" ".repeat(LONGEST + 1)),
        "has 1048577 bytes: the limit is 1048576 (1 MiB)"
    );
}

#[test]
fn a_role_keeps_its_program() {
    let old =
        "[[role]]\nid = \"a\"\nprompt = \"x\"\nbackend_command = \"pi\"\n[[role]]\nid = \"b\"\n";
    let new = "[[role]]\nid = \"b\"\nbackend_command = \"sh\"\n[[role]]\nid = \"a\"\nprompt = \"y\"\n[[role]]\nid = \"c\"\nbackend_args = [\"-c\"]\nemits = [\"x.y\"]\n";
    let repaired = repair_topology(old, new).unwrap();
    insta::assert_snapshot!(repaired.text, @r#"
    [[role]]
    id = "b"
    [[role]]
    id = "a"
    prompt = "y"
    backend_command = "pi"
    [[role]]
    id = "c"
    emits = ["x.y"]
    "#);
    assert_eq!(
        told(&repaired),
        [
            r#"role.b.backend_command = "sh" added"#,
            r#"role.a.backend_command = "pi" removed"#,
            r#"role.c.backend_args = ["-c"] added"#,
        ]
    );
    assert!(matches!(repair_topology(old, "[[role]]\nid = 3"), Err(Unreadable::After(_))));
}

/// A text of settings, written in one of several ways.
fn settings() -> impl Strategy<Value = String> {
    let tables = vec!["backend", "slots", "memory", "event_loop", "unheard"];
    let keys = vec!["a", "prompt", "max_iterations", "required_events"];
    let value = prop::sample::select(vec!["1", "7", "\"x\"", "['e.a']", "['e.a', 'e.b']", "true"]);
    let table = (prop::collection::btree_map(prop::sample::select(keys), value, 0..4), 0..3);
    prop::collection::btree_map(prop::sample::select(tables), table, 0..5).prop_map(|tables| {
        let (mut root, mut rest) = (String::new(), String::new());
        for (name, (keys, style)) in tables {
            let pairs: Vec<String> =
                keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            match style {
                0 => pairs.iter().for_each(|pair| root.push_str(&format!("{name}.{pair}\n"))),
                1 => root.push_str(&format!("{name} = {{ {} }}\n", pairs.join(", "))),
                _ => rest.push_str(&format!("[{name}] # {name}\n{}\n", pairs.join("\n"))),
            }
        }
        root + &rest
    })
}

/// The keys of a text with their tables: those that a metareview may change, or all others.
fn part(text: &str, free: bool) -> Vec<(String, toml::Value)> {
    let table: toml::Table = text.parse().unwrap();
    let inside = table.into_iter().flat_map(|(name, value)| {
        let keys = value.as_table().cloned().unwrap();
        keys.into_iter().map(move |(key, value)| (format!("{name}.{key}"), value))
    });
    let is_free = |key: &str| key.starts_with("memory.") || key == "event_loop.prompt";
    let is_checked =
        |key: &str| ["event_loop.max_iterations", "event_loop.required_events"].contains(&key);
    inside.filter(|(key, _)| !is_checked(key) && is_free(key) == free).collect()
}

proptest! {
    #[test]
    fn what_is_free_is_the_new_text_and_the_rest_the_old(old in settings(), new in settings()) {
        // A text that cannot be used is restored whole.
        if let Ok(repaired) = repair_settings(&old, &new, &[]) {
            prop_assert_eq!(part(&repaired.text, false), part(&old, false), "{}", repaired.text);
            let (was, now) = (read(&old, &[]), read(&repaired.text, &[]));
            for key in Key::ALL {
                prop_assert!(may_become(*key, &was.settings, &now.settings), "{}", repaired.text);
            }
            if repaired.text != old {
                prop_assert_eq!(part(&repaired.text, true), part(&new, true), "{}", repaired.text);
            }
        }
    }
}
