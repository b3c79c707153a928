//! The tables: their migrations, and the changes of their rows.

use autoloop_core::squad::Task;
use rusqlite::types::{self, ToSql, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Result, Transaction, TransactionBehavior};
use serde_json::Value;

use super::Table;
use super::rows::{Change, CostRow, IssueRow, LoopRow, ReviewRow, RunRow};
use crate::journal::Position;

/// Each continues the tables of the one before. `PRAGMA user_version` counts those that were applied.
const MIGRATIONS: [(u32, &str); 2] = [(1, include_str!("1.sql")), (2, include_str!("2.sql"))];
pub(super) const VERSION: u32 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// All tables with rows of runs, in an order in which rows can be deleted.
const OF_RUNS: [&str; 6] =
    ["review_issues", "loop_reviews", "loops", "costs", "plan_groups", "tasks"];

pub(super) fn version(connection: &Connection) -> Result<u32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Makes a connection ready for folding.
pub(super) fn prepare(connection: &mut Connection) -> Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Rows that a power cut takes are folded again.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    migrate(connection)
}

/// Applies the migrations that are missing.
fn migrate(connection: &mut Connection) -> Result<()> {
    if version(connection)? >= VERSION {
        return Ok(());
    }
    let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    let applied = version(&step)?;
    for (_, migration) in MIGRATIONS.iter().filter(|(version, _)| *version > applied) {
        step.execute_batch(migration)?;
    }
    if applied > 0 && applied < VERSION {
        // Their rows lack what the new columns and tables hold.
        clear(&step)?;
    }
    step.pragma_update(None, "user_version", VERSION.max(applied))?;
    step.commit()
}

/// How far a journal, by the identity of its file, is in the tables; the start for another one.
pub(super) fn position(connection: &Connection, file: &str) -> Result<Position> {
    let row = connection
        .query_row("SELECT position FROM journal WHERE file = ?1", [file], |row| row.get(0))
        .optional()?;
    Ok(row.map_or(Position::START, Position::from_bytes))
}

pub(super) fn set_position(step: &Transaction<'_>, file: &str, position: Position) -> Result<()> {
    step.execute("DELETE FROM journal", [])?;
    let row = "INSERT INTO journal (file, position) VALUES (?1, ?2)";
    step.execute(row, (file, position.to_bytes())).map(drop)
}

/// Removes all rows.
pub(super) fn clear(step: &Transaction<'_>) -> Result<()> {
    for table in OF_RUNS.into_iter().chain(["runs", "journal"]) {
        step.execute(&format!("DELETE FROM {table}"), [])?;
    }
    Ok(())
}

pub(super) fn runs(connection: &Connection) -> Result<Vec<String>> {
    connection.prepare("SELECT id FROM runs")?.query_map([], |row| row.get(0))?.collect()
}

/// Whether SQLite finds nothing wrong with the file.
pub(super) fn is_sound(connection: &Connection) -> Result<bool> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(found == "ok")
}

pub(super) fn apply(step: &Transaction<'_>, run: &str, change: &Change) -> Result<()> {
    match change {
        Change::Begin => begin(step, run),
        Change::Run(row) => set_run(step, run, row),
        Change::Tasks(tasks) => set_tasks(step, run, tasks),
        Change::Groups(groups) => set_groups(step, run, groups),
        Change::Loop(row) => set_loop(step, run, row),
        Change::Review(row) => add_review(step, run, row),
        Change::Issue(row) => add_issue(step, run, row),
        Change::Cost(row) => add_cost(step, run, row),
        Change::ReviewCost { reviews, cost } => reviews.iter().try_for_each(|review| {
            let update = "UPDATE loop_reviews SET cost_usd = ?2 WHERE id = ?1";
            step.execute(update, (review, cost.amount())).map(drop)
        }),
    }
}

fn begin(step: &Transaction<'_>, run: &str) -> Result<()> {
    for table in OF_RUNS {
        step.execute(&format!("DELETE FROM {table} WHERE run_id = ?1"), [run])?;
    }
    step.execute("DELETE FROM runs WHERE id = ?1", [run]).map(drop)
}

fn set_run(step: &Transaction<'_>, id: &str, row: &RunRow) -> Result<()> {
    let RunRow { spec, effort, max_loops, base, planned, .. } = row;
    let RunRow { status, reason, started_at, finished_at, .. } = row;
    let upsert = "
        INSERT INTO runs
            (id, spec, effort, max_loops, base, planned, status, reason, started_at, finished_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
        ON CONFLICT (id) DO UPDATE SET
            status = excluded.status, reason = excluded.reason, finished_at = excluded.finished_at";
    let max_loops = number(*max_loops);
    let values: [&dyn ToSql; 10] =
        [&id, spec, effort, &max_loops, base, planned, status, reason, started_at, finished_at];
    step.execute(upsert, values).map(drop)
}

fn set_tasks(step: &Transaction<'_>, run: &str, tasks: &[Task]) -> Result<()> {
    step.execute("DELETE FROM tasks WHERE run_id = ?1", [run])?;
    let insert = "
        INSERT OR REPLACE INTO tasks (run_id, id, title, description, acceptance)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut insert = step.prepare(insert)?;
    for Task { id, title, description, acceptance } in tasks {
        insert.execute((run, id, title, description, acceptance))?;
    }
    Ok(())
}

fn set_groups(step: &Transaction<'_>, run: &str, groups: &[Vec<String>]) -> Result<()> {
    step.execute("DELETE FROM plan_groups WHERE run_id = ?1", [run])?;
    let insert = "
        INSERT OR REPLACE INTO plan_groups (run_id, group_number, task_id) VALUES (?1, ?2, ?3)";
    let mut insert = step.prepare(insert)?;
    for (group, tasks) in (1_i64..).zip(groups) {
        for task in tasks {
            insert.execute((run, group, task))?;
        }
    }
    Ok(())
}

fn set_loop(step: &Transaction<'_>, run: &str, row: &LoopRow) -> Result<()> {
    let LoopRow { id, task_id, branch, worktree, base, status, review_status, .. } = row;
    let upsert = "
        INSERT INTO loops
            (id, run_id, task_id, group_number, branch, worktree, base, status, reason,
             iteration, review_status, last_review_id, revision_attempts, last_checkpoint_review_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
        ON CONFLICT (id) DO UPDATE SET
            task_id = excluded.task_id, group_number = excluded.group_number,
            branch = excluded.branch, worktree = excluded.worktree, base = excluded.base,
            status = excluded.status, reason = excluded.reason, iteration = excluded.iteration,
            review_status = excluded.review_status, last_review_id = excluded.last_review_id,
            revision_attempts = excluded.revision_attempts,
            last_checkpoint_review_at = excluded.last_checkpoint_review_at";
    let numbers = [row.group, row.iteration, row.revision_attempts, row.last_checkpoint_review_at];
    let [group, iteration, revisions, checkpoint] = numbers.map(number);
    let values: [&dyn ToSql; 14] = [
        id,
        &run,
        task_id,
        &group,
        branch,
        worktree,
        base,
        status,
        &row.reason,
        &iteration,
        review_status,
        &row.last_review_id,
        &revisions,
        &checkpoint,
    ];
    step.execute(upsert, values).map(drop)
}

fn add_review(step: &Transaction<'_>, run: &str, row: &ReviewRow) -> Result<()> {
    let insert = "
        INSERT INTO loop_reviews
            (id, run_id, loop_id, task_id, passed, interpreted_intent, intent_satisfied,
             reviewed_at, cost_usd)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (id) DO NOTHING";
    let ReviewRow { id, loop_id, task_id, passed, interpreted_intent, .. } = row;
    let cost = row.cost.amount();
    let values: [&dyn ToSql; 9] = [
        id,
        &run,
        loop_id,
        task_id,
        passed,
        interpreted_intent,
        &row.intent_satisfied,
        &row.reviewed_at,
        &cost,
    ];
    step.execute(insert, values).map(drop)
}

fn add_issue(step: &Transaction<'_>, run: &str, row: &IssueRow) -> Result<()> {
    let insert = "
        INSERT INTO review_issues
            (id, run_id, task_id, file, line, type, description, suggestion, loop_id,
             loop_review_id)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
        ON CONFLICT (id) DO NOTHING";
    let IssueRow { id, task_id, loop_id, review_id, issue } = row;
    let line = issue.line.as_ref().map(|line| match line.as_i64() {
        Some(line) => types::Value::Integer(line),
        None => types::Value::Real(line.as_f64().unwrap_or_default()),
    });
    let values: [&dyn ToSql; 10] = [
        id,
        &run,
        task_id,
        &issue.file,
        &line,
        &issue.kind,
        &issue.description,
        &issue.suggestion,
        loop_id,
        review_id,
    ];
    step.execute(insert, values).map(drop)
}

fn add_cost(step: &Transaction<'_>, run: &str, row: &CostRow) -> Result<()> {
    let insert = "
        INSERT INTO costs
            (run_id, turn, number, loop_id, task_id, phase, model, cost_usd, tokens, what, at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let CostRow { loop_id, task_id, phase, model, what, at, .. } = row;
    let (turn, count) = (row.turn.map(number), number(row.number));
    let (cost, tokens) = (row.cost.map(|cost| cost.amount()), row.tokens.map(number));
    let values: [&dyn ToSql; 11] =
        [&run, &turn, &count, loop_id, task_id, phase, model, &cost, &tokens, what, at];
    step.execute(insert, values).map(drop)
}

/// SQLite has no larger ones.
fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The rows of a statement that changes nothing.
pub(super) fn query(connection: &Connection, sql: &str) -> Result<Table> {
    let mut statement = connection.prepare(sql)?;
    // A connection that only reads may still write other files.
    if !statement.readonly() {
        return Err(rusqlite::Error::InvalidQuery);
    }
    if statement.column_count() == 0 {
        return Ok(Table::default());
    }
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut table = Table { rows: Vec::new(), columns };
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let values = (0..table.columns.len()).map(|at| row.get_ref(at).map(json));
        table.rows.push(values.collect::<Result<_>>()?);
    }
    Ok(table)
}

/// Bytes that are no text are shown in hexadecimal digits.
fn json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        // JSON has no infinite ones.
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
        }
    }
}
