//! `autoloop store`: the squads of a project as tables.

use std::path::{Path, PathBuf};

use autoloop_core::format::json_text;
use autoloop_runtime::store::{self, Store, Table};
use autoloop_runtime::world::World;
use clap::Subcommand;
use serde_json::{Map, Value};

use super::settings::{self, Located};
use crate::failure::Failure;
use crate::terminal;

/// Read the squads of a project with SQL.
///
/// The tables are in the SQLite database `autoloop.db` of the state directory. They follow from the journal, so
/// nothing is lost with them.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Sql(SqlArgs),
    /// Fold the journal into new tables.
    ///
    /// The rows are the same as before. A damaged database is replaced.
    Rebuild {
        /// Project directory [default: the current project]
        project_dir: Option<PathBuf>,
    },
}

/// Print the rows of a query.
///
/// The rest of the journal is folded into the tables first. Prints a line of column names and a line per row, with
/// tabs in between. A null is empty; a tab, a line break and a backslash in a value are printed as \t, \n and \\.
#[derive(Debug, clap::Args)]
pub(crate) struct SqlArgs {
    /// Query, such as "select * from loops"
    #[arg(value_name = "QUERY")]
    query: String,
    /// Project directory [default: the current project]
    project_dir: Option<PathBuf>,
    /// Print a JSON array with an object per row
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, world: &World) -> Result<(), Failure> {
    match args {
        Args::Sql(args) => sql(args, world),
        Args::Rebuild { project_dir } => {
            let located = locate(project_dir.as_deref(), world)?;
            let journal = located.journal(world);
            Ok(store::rebuild(&*journal, &located.files.state_dir, world)?)
        }
    }
}

fn sql(args: &SqlArgs, world: &World) -> Result<(), Failure> {
    let located = locate(args.project_dir.as_deref(), world)?;
    let state_dir = &located.files.state_dir;
    Store::open(state_dir, world)?.update(&*located.journal(world))?;
    let table = store::query(state_dir, &args.query)?;
    Ok(terminal::print(&if args.json { json(table) } else { text(&table) })?)
}

/// A project with a state directory.
fn locate(project: Option<&Path>, world: &World) -> Result<Located, Failure> {
    let located = settings::locate(project, world)?;
    let state_dir = &located.files.state_dir;
    if world.disk.stat(state_dir).is_err() {
        return Err(Failure::failed(format!("no runs in {} yet", state_dir.display()))
            .hint("start one with `autoloop squad`"));
    }
    Ok(located)
}

fn json(table: Table) -> String {
    let Table { columns, rows } = table;
    let object = |row| columns.iter().cloned().zip::<Vec<Value>>(row).collect();
    let rows: Vec<Map<String, Value>> = rows.into_iter().map(object).collect();
    json_text(&rows)
}

fn text(table: &Table) -> String {
    let columns = table.columns.iter().map(|column| escaped(column)).collect();
    let rows = table.rows.iter().map(|row| row.iter().map(cell).collect());
    let lines = std::iter::once(columns).chain(rows);
    lines.map(|cells: Vec<String>| cells.join("\t") + "\n").collect()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escaped(text),
        value => value.to_string(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('\t', r"\t").replace('\n', r"\n").replace('\r', r"\r")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_is_a_line() {
        let row = vec![json!(null), json!(1), json!(0.0), json!("a\tb\nc\\d\r"), json!("ä")];
        let columns = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let table = Table { columns, rows: vec![row] };
        assert_eq!(text(&table), "a\tb\tc\td\te\n\t1\t0.0\ta\\tb\\nc\\\\d\\r\tä\n");
        insta::assert_snapshot!(json(table), @r#"
        [
          {
            "a": null,
            "b": 1,
            "c": 0.0,
            "d": "a\tb\nc\\d\r",
            "e": "ä"
          }
        ]
        "#);
        assert_eq!(json(Table::default()), "[]\n");
    }
}
