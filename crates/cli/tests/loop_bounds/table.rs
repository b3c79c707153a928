//! Every cell of the table in docs/review-permissions.md, tried.

use super::{Layer, everything, violations};

/// The attempts of the table, and a script that makes each.
const ATTEMPTS: [(&str, &str); 10] = [
    (
        "write, truncate, delete, rename over, link a source file, tracked or not",
        "echo x >> src/main.rs; rm -f src/new.rs; ln src/main.rs src/second",
    ),
    ("the same in git's directory", "echo x > .git/hooks/pre-commit; git config core.pager evil"),
    (
        "add objects of git, write `.git/opencode`",
        "echo x | git hash-object -w --stdin; echo x > .git/opencode",
    ),
    ("the same in a sibling working tree", "echo x >> $SIDE/src/main.rs"),
    ("the same anywhere else on the machine", "echo x > $SIDE/../elsewhere"),
    ("replace a directory by a link, delete it", "rm -rf src; ln -s /etc src"),
    ("cut, edit, replace, delete the journal", "truncate -s 9 .autoloop/journal.jsonl"),
    ("change permission bits of a file one owns", "chmod 777 src/main.rs"),
    ("a file in `roles/` or `docs/` that is not `*.md`", "echo x > roles/x.sh"),
    (
        "protected settings, files that do not parse",
        "echo 'slots.iterations = 9' >> autoloops.toml",
    ),
];

/// The cells of an attempt: with the overlay, with Landlock alone, with neither.
fn cells(attempt: &str) -> [String; 3] {
    let page =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/review-permissions.md"));
    let row = page.lines().find_map(|line| line.strip_prefix(&format!("| {attempt} | ")));
    let row = row.unwrap_or_else(|| panic!("no row of the table is '{attempt}'"));
    let cells: Vec<String> =
        row.trim_end_matches(" |").split(" | ").map(|cell| cell.replace('*', "")).collect();
    cells.try_into().unwrap_or_else(|cells| panic!("'{attempt}' has {cells:?}"))
}

#[test]
fn every_cell_of_the_table_holds() {
    for (attempt, script) in ATTEMPTS {
        let cells = cells(attempt);
        for layer in Layer::all() {
            let project = layer.project(&format!("{script}; true"));
            let sandbox = &project.sandbox;
            sandbox.write("roles/a.md", "Act.\n");
            let before = everything(&project);
            let output = sandbox.run(&["run", ".", "-i", "2"]);
            assert_eq!(output.code, Some(1), "{attempt}, {layer:?}: {output}");
            let held_by = sandbox.fields("review.start", "enforcement").concat();
            let cell = match layer {
                Layer::Overlay if !held_by.contains("overlay") => continue,
                Layer::Overlay => &cells[0],
                Layer::Landlock => &cells[1],
                Layer::Snapshot => &cells[2],
            };
            let is_verified = sandbox.run(&["journal", "verify"]).code == Some(0);
            let is_same = before == everything(&project) && is_verified;
            let told = violations(&project);
            let found = match told.lines().next() {
                None if cell.starts_with("no violation") => "no violation",
                None if is_same => "refused",
                Some(line) if line.ends_with("kept out") && is_same => "kept out",
                Some(line) if line.ends_with("put back") && is_same => "put back",
                _ => "not noticed",
            };
            assert!(cell.starts_with(found), "{attempt}, {layer:?}: {found}, not {cell}: {told}");
        }
    }
}
