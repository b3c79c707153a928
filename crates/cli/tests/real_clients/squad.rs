//! A squad of two loops: one client builds, another reviews, and both act through the tools of their MCP server.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use autoloop_testkit::model_server::{Reply, Request};
use autoloop_testkit::slots::git;
use serde_json::{Value, json};

use crate::lab::{Lab, User};

const PLAN: &str = r#"
[[task]]
id = "t1"
title = "write one"
description = "one.txt says that it is made, and then fixed"
[[task]]
id = "t2"
title = "write two"
description = "two.txt says that it is made"
[[group]]
tasks = ["t1", "t2"]
"#;

/// A builder that writes its file, or a reviewer that finds fault with the first attempt at the first task.
fn model(request: &Request, builder: &str, reviewer: &str) -> Reply {
    let (prompt, called) = (request.text(), request.tool_results().len());
    let loop_after = |start: &str| {
        let (_, rest) = prompt.split_once(start)?;
        let is_of_id = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        rest.split(|letter| !is_of_id(letter)).next()
    };
    if let Some((task, file)) = loop_after("You build one task, as loop ").map(task_of) {
        let word = if prompt.contains("# REVISE PHASE") { "fixed" } else { "made" };
        return match called {
            0 => Reply::shell(format!("echo {word} >> {file}")),
            1 => tool(builder, "complete_task", json!({ "taskId": task })),
            _ => Reply::text("It is built."),
        };
    }
    let reviewed = loop_after("You are reviewing work completed by Loop ");
    let files = reviewed.map_or("one.txt two.txt", |loop_id| task_of(loop_id).1);
    match (called, reviewed) {
        (0, _) => Reply::shell(format!("cat {files}; echo changed >> README.md")),
        (1, _) => {
            let command = format!("grep made {files}");
            tool(reviewer, "cite_command", json!({ "command": command }))
        }
        (2, None) => tool(reviewer, "set_review_result", json!({ "passed": true })),
        (2, Some(loop_id)) => {
            let (task, file) = task_of(loop_id);
            let passed = task != "t1" || prompt.contains("## The Review Before");
            let issue = json!({ "file": file, "line": 1, "description": "it is not fixed" });
            let issues = if passed { vec![] } else { vec![issue] };
            let result = json!({
                "loopId": loop_id, "taskId": task, "passed": passed, "issues": issues,
                "interpretedIntent": "the file tells how far it is", "intentSatisfied": passed,
            });
            tool(reviewer, "set_loop_review_result", result)
        }
        _ => Reply::text("REVIEW_COMPLETE"),
    }
}

/// A call of a tool, by MCP where the client has it.
fn tool(client: &str, name: &str, arguments: Value) -> Reply {
    match client {
        "gemini" | "pi" => Reply::shell(format!("\"$AUTOLOOP_BIN\" mcp call {name} '{arguments}'")),
        _ => Reply::tool(name, arguments),
    }
}

/// The task of a loop, and its file.
fn task_of(loop_id: &str) -> (&'static str, &'static str) {
    match loop_id.ends_with("-1") {
        true => ("t1", "one.txt"),
        false => ("t2", "two.txt"),
    }
}

/// The tickets of the agents of a project, and where others can read them.
#[derive(Default)]
struct Tickets {
    project: PathBuf,
    known: BTreeSet<String>,
    shown: BTreeSet<String>,
}

impl Tickets {
    /// Looks at the environments and arguments of all processes, and at the files of the project.
    fn look(&mut self) {
        // Processes end meanwhile, and those of others cannot be read.
        let read = |path: &Path| fs::read(path).unwrap_or_default();
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let processes: Vec<PathBuf> = processes.collect();
        for process in &processes {
            let environ = read(&process.join("environ"));
            let environ = String::from_utf8_lossy(&environ);
            let value = |name: &str| {
                environ.split('\0').find_map(|set| set.strip_prefix(name)?.strip_prefix('='))
            };
            if value("AUTOLOOP_PROJECT_DIR").is_some_and(|dir| Path::new(dir) == self.project) {
                self.known.extend(value("AUTOLOOP_TICKET").map(str::to_owned));
            }
        }
        let arguments = processes.iter().map(|process| process.join("cmdline"));
        for path in arguments.chain(files_below(&self.project)) {
            let bytes = read(&path);
            let text = String::from_utf8_lossy(&bytes);
            if self.known.iter().any(|ticket| text.contains(ticket)) {
                self.shown.insert(format!("{}: {text}", path.display()));
            }
        }
    }
}

/// The files of a directory that changes meanwhile.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let entries =
        entries.flatten().filter_map(|entry| Some((entry.path(), entry.file_type().ok()?)));
    let found = entries.flat_map(|(path, kind)| match kind {
        kind if kind.is_dir() => files_below(&path),
        kind if kind.is_file() => vec![path],
        _ => Vec::new(),
    });
    found.collect()
}

/// One of both is Claude Code.
pub(crate) fn one_builds_and_the_other_reviews(builder: &'static str, reviewer: &'static str) {
    let tickets: Arc<Mutex<Tickets>> = Arc::default();
    let watched = Arc::clone(&tickets);
    let answer = move |request: &Request| {
        watched.lock().unwrap_or_else(PoisonError::into_inner).look();
        model(request, builder, reviewer)
    };
    let other = if builder == "claude" { reviewer } else { builder };
    let lab = Lab::new("claude", User::Ours, answer).and_then(|lab| lab.and(other));
    let Some(lab) = lab else { return };
    let sandbox = &lab.sandbox;
    tickets.lock().unwrap().project = sandbox.path("");
    sandbox.write("plan.toml", PLAN);
    sandbox.write(
        "autoloops.toml",
        format!("backend = \"{builder}\"\nsquad.reviewer = \"{reviewer}\"\n"),
    );
    git(sandbox, &["add", "-A"]);
    git(sandbox, &["commit", "-q", "-m", "plan"]);
    let words = ["squad", "--plan", "plan.toml", "--no-watch", "--effort", "low"];
    let output = lab.run(&[&words[..], &["--max-loops", "2"]].concat());
    assert_eq!(output.code, Some(0), "{output}\n{}", sandbox.journal());
    assert_eq!(sandbox.read("one.txt"), b"made\nfixed\n");
    assert_eq!(sandbox.read("two.txt"), b"made\n");
    assert_eq!(git(sandbox, &["status", "--porcelain"]), "");

    let sql = |query: &str| lab.run(&["store", "sql", query]).stdout;
    let reviews = "select v.task_id, v.passed, i.file, i.line, i.description, v.intent_satisfied from loop_reviews v \
        left join review_issues i on i.loop_review_id = v.id order by v.task_id, v.reviewed_at";
    insta::allow_duplicates! {
        insta::assert_snapshot!(sql(reviews), @r"
        task_id	passed	file	line	description	intent_satisfied
        t1	0	one.txt	1	it is not fixed	0
        t1	1				1
        t2	1				1
        ");
    }
    let costs = "select phase, count(*) as turns, sum(tokens) as tokens, sum(cost_usd > 0) as costs from costs \
        group by phase order by phase";
    insta::allow_duplicates! {
        insta::assert_snapshot!(sql(costs), @r"
        phase	turns	tokens	costs
        build	2	720	2
        review	4	1920	4
        revise	1	360	1
        ");
    }
    assert_eq!(sandbox.survivors(), "");

    let mut tickets = tickets.lock().unwrap();
    tickets.look();
    // A first start of OpenCode may fail, and is repeated with a ticket of its own.
    assert_eq!(tickets.known.len(), sandbox.fields("backend.usage", "role").len());
    assert_eq!(tickets.shown, BTreeSet::new());
}
