//! The squads of a state directory as tables, in a SQLite database.
//!
//! The database is an index: it holds what follows from the journal and nothing else, so nothing is lost with it.
//! Whoever reads it folds the rest of the journal into it first. Only records count that are proven to be written by
//! the harness of their run.
//!
//! One step of the fold is one transaction, which also stores the position in the journal that it reached. Several
//! processes may fold at once: each goes on from the position that it finds. A process that has not folded a run from
//! its beginning reads the records of that run again, without changing its rows.

#![expect(clippy::disallowed_methods, reason = "SQLite opens, and replaces, files by itself")]

mod follower;
mod rows;
mod tables;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoloop_core::coordinator::Kind;
use autoloop_core::record::Glance;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags, Transaction, TransactionBehavior};
use serde_json::Value;

use self::rows::RunRows;
use crate::journal::{Journal, Position, ReadError};
use crate::layout::StateDir;
use crate::world::{Access, Key, World};

pub use follower::Follower;

/// How long a command waits for another process that holds the database.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct Store {
    path: PathBuf,
    connection: Connection,
    world: World,
    /// The runs whose records are folded up to `position`, by their ids.
    runs: HashMap<String, RunRows>,
    position: Position,
}

/// What a query found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<String>,
    /// Nulls, numbers and texts.
    pub rows: Vec<Vec<Value>>,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{} is locked by another process", .0.display())]
    Locked(PathBuf),
    #[error("{} is damaged: {source}", .path.display())]
    Damaged { path: PathBuf, source: Error },
    #[error("{} has version {found} of the tables, and this program knows versions up to {}", .path.display(), tables::VERSION)]
    Newer { path: PathBuf, found: u32 },
    #[error("cannot use {}: {source}", .path.display())]
    Failed { path: PathBuf, source: Error },
    /// A query of the user is invalid.
    #[error("{0}")]
    Query(String),
    #[error("cannot write {}: {source}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl StoreError {
    fn of(path: &Path, source: Error) -> StoreError {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(path),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                StoreError::Damaged { path, source }
            }
            _ => StoreError::Failed { path, source },
        }
    }
}

impl Store {
    /// Opens the database of a state directory, which must exist. A missing database is created.
    pub fn open(state_dir: &StateDir, world: &World) -> Result<Store, StoreError> {
        Store::open_waiting(state_dir, world, PATIENCE)
    }

    fn open_waiting(
        state_dir: &StateDir,
        world: &World,
        patience: Duration,
    ) -> Result<Store, StoreError> {
        let path = state_dir.store();
        // Created for its owner only, and never through a link.
        world
            .disk
            .open(&path, Access::Append)
            .map_err(|source| StoreError::Write { path: path.clone(), source })?;
        Store::at(path, world, patience)
    }

    fn at(path: PathBuf, world: &World, patience: Duration) -> Result<Store, StoreError> {
        let connection = connect(&path, patience)?;
        Ok(Store {
            path,
            connection,
            world: world.clone(),
            runs: HashMap::new(),
            position: Position::START,
        })
    }

    /// Folds what was appended to the journal since the last step. If the journal was replaced or cut, all of it is
    /// folded.
    pub fn update(&mut self, journal: &dyn Journal) -> Result<(), StoreError> {
        match self.step(journal, Reach::Rest) {
            Err(StoreError::Read(ReadError::Changed { .. })) => self.step(journal, Reach::All),
            done => done,
        }
    }

    fn update_waiting(
        &mut self,
        journal: &dyn Journal,
        patience: Duration,
    ) -> Result<(), StoreError> {
        let waiting = self.connection.busy_timeout(patience);
        waiting.map_err(|source| StoreError::of(&self.path, source))?;
        self.update(journal)
    }

    fn step(&mut self, journal: &dyn Journal, reach: Reach) -> Result<(), StoreError> {
        let failed = |source| StoreError::of(&self.path, source);
        let file = identity(journal, &self.world);
        let found = tables::position(&self.connection, &file).map_err(failed)?;
        if reach == Reach::Rest && found != Position::START && journal.head()? == found {
            return Ok(());
        }
        let behavior = TransactionBehavior::Immediate;
        let step = self.connection.transaction_with_behavior(behavior).map_err(failed)?;
        // Another process may have folded on.
        let from = match reach {
            Reach::Rest => tables::position(&step, &file).map_err(failed)?,
            Reach::All => Position::START,
        };
        let mut folding =
            Folding { step, runs: std::mem::take(&mut self.runs), key: self.world.key() };
        if from != self.position {
            folding.runs.clear();
        }
        match from {
            Position::START => tables::clear(&folding.step).map_err(failed)?,
            from => folding.load(journal, from, tables::runs(&folding.step).map_err(failed)?)?,
        }
        let position = folding.fold(journal, from, &failed)?;
        tables::set_position(&folding.step, &file, position).map_err(failed)?;
        folding.step.commit().map_err(failed)?;
        (self.runs, self.position) = (folding.runs, position);
        Ok(())
    }
}

/// How much of the journal is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Rest,
    All,
}

/// One step of the fold.
struct Folding<'c> {
    step: Transaction<'c>,
    runs: HashMap<String, RunRows>,
    key: Option<Key>,
}

impl Folding<'_> {
    fn run<'r>(
        runs: &'r mut HashMap<String, RunRows>,
        run: &str,
        key: Option<Key>,
    ) -> &'r mut RunRows {
        runs.entry(run.to_owned())
            .or_insert_with(|| RunRows::new(run, key.map(|key| key.of_run(run))))
    }

    /// Folds the runs that the journal mentions behind a position up to there, if that was not done. Their rows are
    /// in the tables, as are `known`.
    fn load(
        &mut self,
        journal: &dyn Journal,
        from: Position,
        known: Vec<String>,
    ) -> Result<(), ReadError> {
        let known: HashSet<String> = known.into_iter().collect();
        let mut missing = HashSet::new();
        journal.read(from, &mut |line| {
            line.records(|record| {
                let run = record.run();
                if !self.runs.contains_key(&*run) && known.contains(&*run) {
                    missing.insert(run.into_owned());
                }
            });
            ControlFlow::Continue(())
        })?;
        if missing.is_empty() {
            return Ok(());
        }
        journal.read(Position::START, &mut |line| {
            line.records(|record| {
                let run = record.run();
                if missing.contains(&*run) {
                    Folding::run(&mut self.runs, &run, self.key).take(record);
                }
            });
            if line.position() == from { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(())
    }

    fn fold(
        &mut self,
        journal: &dyn Journal,
        from: Position,
        failed: &dyn Fn(Error) -> StoreError,
    ) -> Result<Position, StoreError> {
        let mut outcome = Ok(());
        let position = journal.read(from, &mut |line| {
            line.records(|record| {
                if outcome.is_ok() {
                    outcome = self.take(record);
                }
            });
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome.map_err(failed)?;
        Ok(position)
    }

    fn take(&mut self, record: &Glance<'_>) -> rusqlite::Result<()> {
        let run = record.run();
        if !self.runs.contains_key(&*run) && !Kind::Squad.begins(record) {
            return Ok(());
        }
        let rows = Folding::run(&mut self.runs, &run, self.key);
        rows.take(record).iter().try_for_each(|change| tables::apply(&self.step, &run, change))
    }
}

/// Runs a query on the tables as they are, and fails if it would change them.
pub fn query(state_dir: &StateDir, sql: &str) -> Result<Table, StoreError> {
    let path = state_dir.store();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let found = Connection::open_with_flags(&path, flags).and_then(|connection| {
        connection.busy_timeout(PATIENCE)?;
        tables::query(&connection, sql)
    });
    match found {
        Ok(table) if table.columns.is_empty() => {
            Err(StoreError::Query("the statement is no query".to_owned()))
        }
        Ok(table) => Ok(table),
        Err(error) => Err(match StoreError::of(&path, error) {
            StoreError::Failed { source, .. } => StoreError::Query(query_message(source)),
            error => error,
        }),
    }
}

/// The message of SQLite, without the statement, which the user knows.
fn query_message(error: Error) -> String {
    match error {
        Error::SqlInputError { msg, .. } | Error::SqliteFailure(_, Some(msg)) => msg,
        Error::InvalidQuery => "attempt to write a readonly database".to_owned(),
        Error::MultipleStatement => "more than one statement".to_owned(),
        error => error.to_string(),
    }
}

/// Folds all of the journal into new tables. A database that is damaged is replaced.
pub fn rebuild(
    journal: &dyn Journal,
    state_dir: &StateDir,
    world: &World,
) -> Result<(), StoreError> {
    match refold(journal, state_dir, world) {
        Ok(true) => Ok(()),
        Ok(false) | Err(StoreError::Damaged { .. } | StoreError::Failed { .. }) => {
            replace(journal, state_dir, world)
        }
        Err(error) => Err(error),
    }
}

/// Folds all of the journal again, in one transaction; `false` where SQLite finds something wrong with the file.
fn refold(journal: &dyn Journal, state_dir: &StateDir, world: &World) -> Result<bool, StoreError> {
    let mut store = Store::open(state_dir, world)?;
    let is_sound = tables::is_sound(&store.connection);
    if !is_sound.map_err(|source| StoreError::of(&store.path, source))? {
        return Ok(false);
    }
    store.step(journal, Reach::All)?;
    Ok(true)
}

/// Puts a new database in place of one that nobody can use. One that other processes use is never replaced: its log
/// would be applied to the new one.
fn replace(journal: &dyn Journal, state_dir: &StateDir, world: &World) -> Result<(), StoreError> {
    let path = state_dir.store();
    let failed = |source| StoreError::Write { path: path.clone(), source };
    let new = tempfile::Builder::new().prefix("autoloop.db.").tempfile_in(&**state_dir);
    let new = new.map_err(failed)?.into_temp_path();
    let mut store = Store::at(new.to_path_buf(), world, PATIENCE)?;
    store.update(journal)?;
    // Only with its last connection does SQLite empty and remove the log of the new one.
    store.connection.close().map_err(|(_, source)| StoreError::of(&path, source))?;
    for log in ["-wal", "-shm"] {
        let mut log_of = path.clone().into_os_string();
        log_of.push(log);
        match fs::remove_file(log_of) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    new.persist(&path).map_err(|error| failed(error.error))
}

fn connect(path: &Path, patience: Duration) -> Result<Connection, StoreError> {
    let failed = |source| StoreError::of(path, source);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(patience).map_err(failed)?;
    let found = tables::version(&connection).map_err(failed)?;
    if found > tables::VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found });
    }
    tables::prepare(&mut connection).map_err(failed)?;
    Ok(connection)
}

/// Tells journals apart that are folded into one database after each other.
fn identity(journal: &dyn Journal, world: &World) -> String {
    let stat = world.disk.stat(journal.path());
    stat.map(|stat| format!("{}:{}", stat.device, stat.inode)).unwrap_or_default()
}
