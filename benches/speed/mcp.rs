//! The MCP server of an agent. This process is the harness that it asks.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use autoloop_core::layout::StateDir;
use autoloop_core::memory::Places;
use autoloop_runtime::emit::{Caller, Emitter};
use autoloop_runtime::failure::Failure;
use autoloop_runtime::ipc::{Handler, Server, Ticket, ToolBox, ToolSpec};
use autoloop_runtime::journal::{Durability, FileJournal, FileSettings};
use autoloop_runtime::memory::Tiers;
use autoloop_runtime::world::World;

use crate::Fallible;
use crate::bench::{Bench, Case, Project};
use crate::corpus;
use crate::peak::peak_now;
use crate::table::{Finding, Quantity, Reach};
use crate::timing::{Better, alternate, calm, process};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "mcp-ready",
        what: "mcp, from its start to its first answer",
        against: "–",
        reach: Reach::Within(Duration::from_millis(30)),
        measure: ready,
    },
    Case {
        name: "mcp-call",
        what: "tools/call, synced",
        against: "emit, synced",
        reach: Reach::Within(Duration::from_millis(5)),
        measure: call,
    },
    Case {
        name: "mcp-memory",
        what: "peak memory of mcp after 1000 calls",
        against: "–",
        reach: Reach::Inside(30_000_000),
        measure: memory,
    },
];

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"emit","arguments":{"topic":"issue.discovered","payload":"id=1; summary=the parser takes escaped quotes now"}}}"#;

/// An agent has tools, and among them `emit`.
struct NoOwnTools;

impl ToolBox for NoOwnTools {
    fn tools(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    fn call(&self, tool: &str, _: &str) -> Result<String, Failure> {
        Err(Failure::refused(format!("unknown tool '{tool}'")))
    }
}

/// A harness that appends to the journal of a project.
fn harness(project: &Project) -> Fallible<Server> {
    let world = World::real();
    let settings = FileSettings::default();
    let ticket = Ticket::draw(&*world.entropy);
    let caller = Caller { run: Some(corpus::RUN.to_owned()), ..Caller::default() };
    let emitter = Emitter {
        caller,
        journal: Arc::new(FileJournal::new(project.journal(), &world, settings)),
        durability: Durability::Synced,
        clock: Arc::clone(&world.clock),
    };
    let state_dir = project.dir().join(".autoloop");
    let places = Places::of_run(&StateDir::new(&state_dir), corpus::RUN);
    let memory = Tiers::at(places, &world, settings);
    let handler = Handler { ticket, emitter, memory, tools: Some(Arc::new(NoOwnTools)) };
    Ok(Server::open(state_dir.join("bench.door"), handler)?)
}

/// A client and its server.
struct Session {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn start(project: &Project, harness: &Server) -> Fallible<Session> {
        let mut command: Command = project.autoloop(&["mcp"]);
        command.envs(harness.variables()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn()?;
        let (input, output) = (server.stdin.take(), server.stdout.take());
        let (input, output) = input.zip(output).ok_or("it has no pipes")?;
        let mut session = Session { server, input, output: BufReader::new(output) };
        session.request(INITIALIZE, "serverInfo")?;
        Ok(session)
    }

    fn request(&mut self, request: &str, expected: &str) -> Fallible<()> {
        self.input.write_all(format!("{request}\n").as_bytes())?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        match answer.contains(expected) {
            true => Ok(()),
            false => Err(format!("it answered {answer}").into()),
        }
    }

    fn call(&mut self) -> Fallible<Duration> {
        let begin = Instant::now();
        self.request(CALL, "emitted issue.discovered")?;
        Ok(begin.elapsed())
    }

    fn end(self) -> Fallible<()> {
        let Session { mut server, input, .. } = self;
        drop(input);
        server.wait()?;
        Ok(())
    }
}

fn ready(bench: &Bench) -> Fallible<Finding> {
    let project = bench.project("mcp-ready")?;
    let harness = harness(&project)?;
    let mut times = Vec::new();
    for _ in 0..bench.starts() {
        let begin = Instant::now();
        let session = Session::start(&project, &harness)?;
        times.push(begin.elapsed().as_secs_f64());
        session.end()?;
    }
    let time = Duration::from_secs_f64(calm(times, Better::Less));
    Ok(Finding::alone(Quantity::Time(time)))
}

fn call(bench: &Bench) -> Fallible<Finding> {
    let project = bench.project("mcp-call")?;
    let harness = harness(&project)?;
    let mut session = Session::start(&project, &harness)?;
    let mut emit = project.autoloop(&["emit", "issue.discovered", "id=1;"]);
    let [ours, theirs] = alternate(bench.starts(), || session.call(), || process(&mut emit))?;
    session.end()?;
    Ok(Finding { ours: Quantity::Time(ours), theirs: Some(Quantity::Time(theirs)) })
}

fn memory(bench: &Bench) -> Fallible<Finding> {
    let project = bench.project("mcp-memory")?;
    let harness = harness(&project)?;
    let mut session = Session::start(&project, &harness)?;
    for _ in 0..1000 {
        session.call()?;
    }
    let peak = peak_now(session.server.id());
    session.end()?;
    Ok(Finding::alone(Quantity::Bytes(peak?)))
}
