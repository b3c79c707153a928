//! The `AUTOLOOP_*` variables, both ways.
//!
//! The harness says with them where a run is and what may come next; `emit` and the other commands that
//! an agent starts read them back. They are a courtesy to the agent, never the defence: an agent can
//! set them to anything.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::layout::StateDir;

const RUN_ID: &str = "AUTOLOOP_RUN_ID";
const ITERATION: &str = "AUTOLOOP_ITERATION";
const PROJECT_DIR: &str = "AUTOLOOP_PROJECT_DIR";
const STATE_DIR: &str = "AUTOLOOP_STATE_DIR";
const JOURNAL_FILE: &str = "AUTOLOOP_JOURNAL_FILE";
const MEMORY_FILE: &str = "AUTOLOOP_MEMORY_FILE";
const BIN: &str = "AUTOLOOP_BIN";
const PROMPT_PATH: &str = "AUTOLOOP_PROMPT_PATH";
const PROMPT: &str = "AUTOLOOP_PROMPT";
const RECENT_EVENT: &str = "AUTOLOOP_RECENT_EVENT";
const ALLOWED_ROLES: &str = "AUTOLOOP_ALLOWED_ROLES";
const ALLOWED_EVENTS: &str = "AUTOLOOP_ALLOWED_EVENTS";
const REQUIRED_EVENTS: &str = "AUTOLOOP_REQUIRED_EVENTS";
const COMPLETION_EVENT: &str = "AUTOLOOP_COMPLETION_EVENT";
const COMPLETION_PROMISE: &str = "AUTOLOOP_COMPLETION_PROMISE";
const LOG_LEVEL: &str = "AUTOLOOP_LOG_LEVEL";
const REVIEW_MODE: &str = "AUTOLOOP_REVIEW_MODE";
const PARALLEL: &str = "AUTOLOOP_PARALLEL";
const SLOT_PHASE: &str = "AUTOLOOP_SLOT_PHASE";
const SLOT: &str = "AUTOLOOP_SLOT";
const ITEM_ID: &str = "AUTOLOOP_ITEM_ID";
const FIX_ATTEMPT: &str = "AUTOLOOP_FIX_ATTEMPT";
/// The socket of the harness, for a process that may not write the journal.
pub const DOOR: &str = "AUTOLOOP_DOOR";
/// Proves to the harness that such a process belongs to the run.
pub const TICKET: &str = "AUTOLOOP_TICKET";

/// The variables of autoloop. An empty variable counts as unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Env {
    pub run_id: Option<String>,
    /// As in records.
    pub iteration: Option<String>,
    pub project_dir: Option<PathBuf>,
    pub state_dir: Option<PathBuf>,
    pub journal_file: Option<PathBuf>,
    pub memory_file: Option<PathBuf>,
    pub bin: Option<PathBuf>,
    /// The file with the prompt of this iteration.
    pub prompt_path: Option<PathBuf>,
    /// The prompt itself, if it is short enough for a variable.
    pub prompt: Option<String>,
    /// The event that this iteration answers.
    pub recent_event: Option<String>,
    pub allowed_roles: Vec<String>,
    /// Empty means any.
    pub allowed_events: Vec<String>,
    pub required_events: Vec<String>,
    pub completion_event: Option<String>,
    /// The text in the output that completes the run.
    pub completion_promise: Option<String>,
    pub log_level: Option<String>,
    /// The kind of review that this process was started for.
    pub review_mode: Option<String>,
    /// The socket of the harness, if this process may not write the journal.
    pub door: Option<PathBuf>,
    /// `on` if waves of parallel branches are enabled.
    pub parallel: Option<String>,
    /// Proves to the harness that this process belongs to the run.
    pub ticket: Option<String>,
    /// In a slot: `implement`, `review` or `fix`.
    pub slot_phase: Option<String>,
    /// Counted from 1.
    pub slot: Option<String>,
    pub item_id: Option<String>,
    /// The number of fixes, including the current one.
    pub fix_attempt: Option<String>,
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
    /// Reads the variables with `lookup`. Texts have to be UTF-8, paths may be any bytes.
    pub fn read(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Env, BadVariable> {
        let set = |name| lookup(name).filter(|value| !value.is_empty());
        let path = |name| set(name).map(PathBuf::from);
        let text = |name| {
            let value = set(name).map(OsString::into_string).transpose();
            value.map_err(|value| BadVariable { name, value })
        };
        let list = |name| text(name).map(|value| split(&value.unwrap_or_default()));
        Ok(Env {
            run_id: text(RUN_ID)?,
            iteration: text(ITERATION)?,
            project_dir: path(PROJECT_DIR),
            state_dir: path(STATE_DIR),
            journal_file: path(JOURNAL_FILE),
            memory_file: path(MEMORY_FILE),
            bin: path(BIN),
            prompt_path: path(PROMPT_PATH),
            // For agents only: no command of ours reads it, so nothing is refused because of it.
            prompt: set(PROMPT).and_then(|prompt| prompt.into_string().ok()),
            recent_event: text(RECENT_EVENT)?,
            allowed_roles: list(ALLOWED_ROLES)?,
            allowed_events: list(ALLOWED_EVENTS)?,
            required_events: list(REQUIRED_EVENTS)?,
            completion_event: text(COMPLETION_EVENT)?,
            completion_promise: text(COMPLETION_PROMISE)?,
            log_level: text(LOG_LEVEL)?,
            review_mode: text(REVIEW_MODE)?,
            door: path(DOOR),
            parallel: text(PARALLEL)?,
            ticket: text(TICKET)?,
            slot_phase: text(SLOT_PHASE)?,
            slot: text(SLOT)?,
            item_id: text(ITEM_ID)?,
            fix_attempt: text(FIX_ATTEMPT)?,
        })
    }

    /// All variables in a fixed order, for the environment of a process. Unset ones are empty strings:
    /// otherwise a loop inside of a loop would inherit the values of the outer one.
    pub fn vars(&self) -> Vec<(&'static str, OsString)> {
        let text = |value: &Option<String>| OsString::from(value.clone().unwrap_or_default());
        let path = |value: &Option<PathBuf>| value.clone().unwrap_or_default().into_os_string();
        let list = |value: &[String]| OsString::from(value.join(","));
        vec![
            (RUN_ID, text(&self.run_id)),
            (ITERATION, text(&self.iteration)),
            (PROJECT_DIR, path(&self.project_dir)),
            (STATE_DIR, path(&self.state_dir)),
            (JOURNAL_FILE, path(&self.journal_file)),
            (MEMORY_FILE, path(&self.memory_file)),
            (BIN, path(&self.bin)),
            (PROMPT_PATH, path(&self.prompt_path)),
            (PROMPT, text(&self.prompt)),
            (RECENT_EVENT, text(&self.recent_event)),
            (ALLOWED_ROLES, list(&self.allowed_roles)),
            (ALLOWED_EVENTS, list(&self.allowed_events)),
            (REQUIRED_EVENTS, list(&self.required_events)),
            (COMPLETION_EVENT, text(&self.completion_event)),
            (COMPLETION_PROMISE, text(&self.completion_promise)),
            (LOG_LEVEL, text(&self.log_level)),
            (REVIEW_MODE, text(&self.review_mode)),
            (DOOR, path(&self.door)),
            (PARALLEL, text(&self.parallel)),
            (TICKET, text(&self.ticket)),
            (SLOT_PHASE, text(&self.slot_phase)),
            (SLOT, text(&self.slot)),
            (ITEM_ID, text(&self.item_id)),
            (FIX_ATTEMPT, text(&self.fix_attempt)),
        ]
    }

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

/// Splits a list of roles or events, whose names contain no comma.
fn split(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
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
            let env = read(&[(ALLOWED_EVENTS, written)]);
            assert_eq!(env.allowed_events, events, "{written:?}");
        }
    }

    #[test]
    fn text_is_not_trimmed() {
        assert_eq!(
            read(&[(COMPLETION_PROMISE, " LOOP, COMPLETE ")]).completion_promise.as_deref(),
            Some(" LOOP, COMPLETE ")
        );
    }

    #[test]
    fn every_variable_is_written_even_when_unset() {
        let vars = Env::default().vars();
        assert_eq!(vars.len(), 24);
        assert!(vars.iter().all(|(_, value)| value.is_empty()));
        assert_eq!(vars.iter().map(|(name, _)| name).collect::<HashSet<_>>().len(), 24);
    }

    #[test]
    fn finds_the_journal() {
        let (file, state, project) = ((JOURNAL_FILE, "/j"), (STATE_DIR, "/s"), (PROJECT_DIR, "/p"));
        for (vars, path) in [
            (&[file, state, project][..], "/j"),
            (&[state, project], "/s/journal.jsonl"),
            (&[project], "/p/.autoloop/journal.jsonl"),
            (&[], ".autoloop/journal.jsonl"),
            (&[(JOURNAL_FILE, ""), project], "/p/.autoloop/journal.jsonl"),
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

        const PATHS: [&str; 7] =
            [PROJECT_DIR, STATE_DIR, JOURNAL_FILE, MEMORY_FILE, BIN, PROMPT_PATH, DOOR];

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
            let error = Env::read(|name| (name == RUN_ID).then(bytes)).unwrap_err();
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
            let texts = [(); 14].map(|()| any_text());
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
