//! The `AUTOLOOP_*` variables, written by the harness and read by the commands that an agent starts.
//!
//! They tell an agent where its run is and what may come next. Nothing relies on them, because an agent can
//! set them to anything.

mod inherits;

use std::ffi::OsString;
use std::path::PathBuf;

use crate::layout::StateDir;

pub use inherits::Inherits;

/// The socket of the harness, for a process that may not write the journal.
pub const DOOR: &str = "AUTOLOOP_DOOR";
/// Proves to the harness that such a process belongs to the run.
pub const TICKET: &str = "AUTOLOOP_TICKET";

/// The value of a variable; an empty one counts as unset.
trait Variable: Sized {
    fn read(name: &'static str, value: OsString) -> Result<Self, BadVariable>;
    fn print(&self) -> OsString;
}

impl Variable for Option<String> {
    fn read(name: &'static str, value: OsString) -> Result<Self, BadVariable> {
        let text = value.into_string().map_err(|value| BadVariable { name, value })?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn print(&self) -> OsString {
        self.clone().unwrap_or_default().into()
    }
}

impl Variable for Option<PathBuf> {
    fn read(_: &'static str, value: OsString) -> Result<Self, BadVariable> {
        Ok(Some(value).filter(|path| !path.is_empty()).map(PathBuf::from))
    }

    fn print(&self) -> OsString {
        self.clone().unwrap_or_default().into()
    }
}

/// Names of roles or events, which contain no comma.
impl Variable for Vec<String> {
    fn read(name: &'static str, value: OsString) -> Result<Self, BadVariable> {
        let list = Option::<String>::read(name, value)?.unwrap_or_default();
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        Ok(names.map(str::to_owned).collect())
    }

    fn print(&self) -> OsString {
        self.join(",").into()
    }
}

/// Declares each variable once: its field, type and name.
macro_rules! variables {
    ($($(#[$about:meta])* $field:ident: $type:ty = $name:expr,)+) => {
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Env { $($(#[$about])* pub $field: $type,)+ }

        impl Env {
            /// Reads the variables with `lookup`. Texts have to be UTF-8, paths may be any bytes.
            pub fn read(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Env, BadVariable> {
                let value = |name| match lookup(name).unwrap_or_default() {
                    // No command of ours reads the prompt, so none is refused because of it.
                    prompt if name == PROMPT && prompt.to_str().is_none() => OsString::new(),
                    value => value,
                };
                Ok(Env { $($field: Variable::read($name, value($name))?,)+ })
            }

            /// All variables in a fixed order, for the environment of a process. Unset ones are empty
            /// strings: otherwise a loop inside of a loop would inherit the values of the outer one.
            pub fn vars(&self) -> Vec<(&'static str, OsString)> {
                vec![$(($name, self.$field.print()),)+]
            }
        }
    };
}

const PROMPT: &str = "AUTOLOOP_PROMPT";

variables! {
    run_id: Option<String> = "AUTOLOOP_RUN_ID",
    /// As in records.
    iteration: Option<String> = "AUTOLOOP_ITERATION",
    project_dir: Option<PathBuf> = "AUTOLOOP_PROJECT_DIR",
    state_dir: Option<PathBuf> = "AUTOLOOP_STATE_DIR",
    journal_file: Option<PathBuf> = "AUTOLOOP_JOURNAL_FILE",
    memory_file: Option<PathBuf> = "AUTOLOOP_MEMORY_FILE",
    bin: Option<PathBuf> = "AUTOLOOP_BIN",
    prompt_path: Option<PathBuf> = "AUTOLOOP_PROMPT_PATH",
    /// The prompt itself, if it is short enough for a variable.
    prompt: Option<String> = PROMPT,
    recent_event: Option<String> = "AUTOLOOP_RECENT_EVENT",
    allowed_roles: Vec<String> = "AUTOLOOP_ALLOWED_ROLES",
    /// Empty means any.
    allowed_events: Vec<String> = "AUTOLOOP_ALLOWED_EVENTS",
    required_events: Vec<String> = "AUTOLOOP_REQUIRED_EVENTS",
    completion_event: Option<String> = "AUTOLOOP_COMPLETION_EVENT",
    completion_promise: Option<String> = "AUTOLOOP_COMPLETION_PROMISE",
    log_level: Option<String> = "AUTOLOOP_LOG_LEVEL",
    /// The kind of review that this process was started for.
    review_mode: Option<String> = "AUTOLOOP_REVIEW_MODE",
    door: Option<PathBuf> = DOOR,
    /// `on` if waves of parallel branches are enabled.
    parallel: Option<String> = "AUTOLOOP_PARALLEL",
    ticket: Option<String> = TICKET,
    /// In a slot: `implement`, `review` or `fix`.
    slot_phase: Option<String> = "AUTOLOOP_SLOT_PHASE",
    /// Counted from 1.
    slot: Option<String> = "AUTOLOOP_SLOT",
    item_id: Option<String> = "AUTOLOOP_ITEM_ID",
    /// The number of fixes, including the current one.
    fix_attempt: Option<String> = "AUTOLOOP_FIX_ATTEMPT",
    /// In a squad: `enumerate`, `plan`, `build`, `review`, `checkpoint`, `revise` or `conflict`.
    phase: Option<String> = "AUTOLOOP_PHASE",
    /// Empty for an agent of the whole squad.
    loop_id: Option<String> = "AUTOLOOP_LOOP_ID",
    /// Empty for a checkpoint.
    task_id: Option<String> = "AUTOLOOP_TASK_ID",
}

/// A text variable that is not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name} is not valid UTF-8 (it reads '{}'); set it to plain text, or unset it",
    .value.to_string_lossy().escape_debug()
)]
pub struct BadVariable {
    pub name: &'static str,
    pub value: OsString,
}

impl Env {
    /// The journal file as named, or in the state directory, or in the project.
    pub fn journal_path(&self) -> PathBuf {
        match (&self.journal_file, &self.state_dir, &self.project_dir) {
            (Some(file), _, _) => file.clone(),
            (None, Some(state), _) => StateDir::new(state).journal(),
            (None, None, project) => StateDir::of_project(project.as_deref()).journal(),
        }
    }

    pub fn project_dir_or_here(&self) -> PathBuf {
        self.project_dir.clone().unwrap_or_else(|| PathBuf::from("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    fn read(vars: &[(&str, &str)]) -> Env {
        Env::read(|name| {
            vars.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
        .unwrap()
    }

    #[test]
    fn nothing_set_says_nothing() {
        assert_eq!(read(&[]), Env::default());
        let empty = Env::read(|_| Some(OsString::new()));
        assert_eq!(empty, Ok(Env::default()));
    }

    #[test]
    fn each_field_has_the_documented_variable() {
        let field = |name, set: fn(&mut Env)| {
            let mut expected = Env::default();
            set(&mut expected);
            assert_eq!(read(&[(name, "x")]), expected, "{name}");
        };
        field("AUTOLOOP_RUN_ID", |env| env.run_id = Some("x".into()));
        field("AUTOLOOP_ITERATION", |env| env.iteration = Some("x".into()));
        field("AUTOLOOP_PROJECT_DIR", |env| env.project_dir = Some("x".into()));
        field("AUTOLOOP_STATE_DIR", |env| env.state_dir = Some("x".into()));
        field("AUTOLOOP_JOURNAL_FILE", |env| env.journal_file = Some("x".into()));
        field("AUTOLOOP_MEMORY_FILE", |env| env.memory_file = Some("x".into()));
        field("AUTOLOOP_BIN", |env| env.bin = Some("x".into()));
        field("AUTOLOOP_PROMPT_PATH", |env| env.prompt_path = Some("x".into()));
        field("AUTOLOOP_PROMPT", |env| env.prompt = Some("x".into()));
        field("AUTOLOOP_RECENT_EVENT", |env| env.recent_event = Some("x".into()));
        field("AUTOLOOP_ALLOWED_ROLES", |env| env.allowed_roles = vec!["x".into()]);
        field("AUTOLOOP_ALLOWED_EVENTS", |env| env.allowed_events = vec!["x".into()]);
        field("AUTOLOOP_REQUIRED_EVENTS", |env| env.required_events = vec!["x".into()]);
        field("AUTOLOOP_COMPLETION_EVENT", |env| env.completion_event = Some("x".into()));
        field("AUTOLOOP_COMPLETION_PROMISE", |env| env.completion_promise = Some("x".into()));
        field("AUTOLOOP_LOG_LEVEL", |env| env.log_level = Some("x".into()));
        field("AUTOLOOP_REVIEW_MODE", |env| env.review_mode = Some("x".into()));
        field("AUTOLOOP_DOOR", |env| env.door = Some("x".into()));
        field("AUTOLOOP_PARALLEL", |env| env.parallel = Some("x".into()));
        field("AUTOLOOP_TICKET", |env| env.ticket = Some("x".into()));
        field("AUTOLOOP_SLOT_PHASE", |env| env.slot_phase = Some("x".into()));
        field("AUTOLOOP_SLOT", |env| env.slot = Some("x".into()));
        field("AUTOLOOP_ITEM_ID", |env| env.item_id = Some("x".into()));
        field("AUTOLOOP_FIX_ATTEMPT", |env| env.fix_attempt = Some("x".into()));
    }

    #[test]
    fn lists_are_split_and_trimmed() {
        for (written, events) in [
            ("review.ready,build.blocked", &["review.ready", "build.blocked"][..]),
            (" review.ready ,\tbuild.blocked\n", &["review.ready", "build.blocked"]),
            (",a,,b,", &["a", "b"]),
            (" , ,", &[]),
        ] {
            let env = read(&[("AUTOLOOP_ALLOWED_EVENTS", written)]);
            assert_eq!(env.allowed_events, events, "{written:?}");
        }
    }

    #[test]
    fn text_is_not_trimmed() {
        assert_eq!(
            read(&[("AUTOLOOP_COMPLETION_PROMISE", " LOOP, COMPLETE ")])
                .completion_promise
                .as_deref(),
            Some(" LOOP, COMPLETE ")
        );
    }

    #[test]
    fn every_variable_is_written_even_when_unset() {
        let vars = Env::default().vars();
        assert_eq!(vars.len(), 27);
        assert!(vars.iter().all(|(_, value)| value.is_empty()));
        assert_eq!(vars.iter().map(|(name, _)| name).collect::<HashSet<_>>().len(), 27);
    }

    #[test]
    fn finds_the_journal() {
        let (file, state, project) = (
            ("AUTOLOOP_JOURNAL_FILE", "/j"),
            ("AUTOLOOP_STATE_DIR", "/s"),
            ("AUTOLOOP_PROJECT_DIR", "/p"),
        );
        for (vars, path) in [
            (&[file, state, project][..], "/j"),
            (&[state, project], "/s/journal.jsonl"),
            (&[project], "/p/.autoloop/journal.jsonl"),
            (&[], ".autoloop/journal.jsonl"),
            (&[("AUTOLOOP_JOURNAL_FILE", ""), project], "/p/.autoloop/journal.jsonl"),
        ] {
            assert_eq!(read(vars).journal_path(), PathBuf::from(path), "{vars:?}");
        }
        assert_eq!(read(&[project]).project_dir_or_here(), PathBuf::from("/p"));
        assert_eq!(read(&[]).project_dir_or_here(), PathBuf::from("."));
    }

    #[cfg(unix)]
    mod bytes {
        use super::*;
        use std::os::unix::ffi::OsStringExt;

        const PATHS: [&str; 7] = [
            "AUTOLOOP_PROJECT_DIR",
            "AUTOLOOP_STATE_DIR",
            "AUTOLOOP_JOURNAL_FILE",
            "AUTOLOOP_MEMORY_FILE",
            "AUTOLOOP_BIN",
            "AUTOLOOP_PROMPT_PATH",
            DOOR,
        ];

        #[test]
        fn only_paths_may_be_any_bytes() {
            let bytes = || OsString::from_vec(b"caf\xe9\x1b".to_vec());
            // A prompt may be any text, and is left out where it is not.
            for (name, _) in Env::default().vars().into_iter().filter(|(name, _)| *name != PROMPT) {
                let read = Env::read(|asked| (asked == name).then(bytes));
                if PATHS.contains(&name) {
                    assert!(read.unwrap().vars().contains(&(name, bytes())), "{name}");
                } else {
                    assert_eq!(read, Err(BadVariable { name, value: bytes() }));
                }
            }
            let error = Env::read(|name| (name == "AUTOLOOP_RUN_ID").then(bytes)).unwrap_err();
            insta::assert_snapshot!(error, @r"AUTOLOOP_RUN_ID is not valid UTF-8 (it reads 'caf�\u{1b}'); set it to plain text, or unset it");
        }

        fn any_path() -> impl Strategy<Value = Option<PathBuf>> {
            let bytes = prop::collection::vec(1_u8.., 1..12);
            prop::option::of(bytes.prop_map(|bytes| OsString::from_vec(bytes).into()))
        }

        fn any_text() -> impl Strategy<Value = Option<String>> {
            let characters = prop::collection::vec(any::<char>(), 1..8);
            prop::option::of(characters.prop_map(String::from_iter))
        }

        fn any_list() -> impl Strategy<Value = Vec<String>> {
            prop::collection::vec("[a-zé.]{1,4}( [a-z]{1,3})?", 0..4)
        }

        fn any_env() -> impl Strategy<Value = Env> {
            let paths = [(); 7].map(|()| any_path());
            let texts = [(); 17].map(|()| any_text());
            let lists = [(); 3].map(|()| any_list());
            (paths, texts, lists).prop_map(|(paths, texts, lists)| {
                let [project_dir, state_dir, journal_file, memory_file, bin, prompt_path, door] =
                    paths;
                let [allowed_roles, allowed_events, required_events] = lists;
                let [
                    run_id,
                    iteration,
                    recent_event,
                    event,
                    promise,
                    log_level,
                    review,
                    ticket,
                    parallel,
                    slot_phase,
                    slot,
                    item_id,
                    fix_attempt,
                    prompt,
                    phase,
                    loop_id,
                    task_id,
                ] = texts;
                Env {
                    run_id,
                    iteration,
                    project_dir,
                    state_dir,
                    journal_file,
                    memory_file,
                    bin,
                    prompt_path,
                    prompt,
                    recent_event,
                    allowed_roles,
                    allowed_events,
                    required_events,
                    completion_event: event,
                    completion_promise: promise,
                    log_level,
                    review_mode: review,
                    door,
                    parallel,
                    ticket,
                    slot_phase,
                    slot,
                    item_id,
                    fix_attempt,
                    phase,
                    loop_id,
                    task_id,
                }
            })
        }

        proptest! {
            #[test]
            fn what_is_written_is_read(env in any_env()) {
                let vars: HashMap<_, _> = env.vars().into_iter().collect();
                prop_assert_eq!(Env::read(|name| vars.get(name).cloned()), Ok(env));
            }

            #[test]
            fn reading_settles(value in "[a-c, \n]{0,12}") {
                let once = Env::read(|_| Some(OsString::from(&value))).unwrap();
                let vars: HashMap<_, _> = once.vars().into_iter().collect();
                prop_assert_eq!(Env::read(|name| vars.get(name).cloned()), Ok(once));
            }
        }
    }
}
