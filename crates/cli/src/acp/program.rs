//! The program that speaks the protocol: its process, and its lines in both directions.

#![expect(clippy::disallowed_methods, reason = "is the agent, which starts a program of its own")]

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use agent_client_protocol::{Client, ConnectTo, Lines};
use autoloop_core::agents::AcpEvent;
use autoloop_core::text::one_line;
use autoloop_runtime::world::Clock;
use futures::SinkExt;
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use futures::executor::block_on_stream;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// No message is longer.
const LONGEST: u64 = 64 * 1024 * 1024;

/// How long a program may take to end after each of: the end of its input, TERM and KILL.
const END_TIMEOUT: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(10);

/// With a group of its own, the program is not reached by the signal that ends us, so that it can be asked to cancel.
/// Elsewhere the supervisor does not find processes outside of its group.
const OWN_GROUP: bool = cfg!(target_os = "linux");

pub(crate) struct Program {
    name: String,
    child: Child,
    status: Option<ExitStatus>,
    stderr: JoinHandle<()>,
    /// Its last line on standard error.
    last_said: Arc<Mutex<String>>,
}

impl Program {
    /// Starts the program; the error is a sentence.
    pub(crate) fn start(
        command: &[OsString],
    ) -> Result<(Program, impl ConnectTo<Client> + 'static), String> {
        let Some((name, args)) = command.split_first() else { return Err("no program".to_owned()) };
        let name = name.to_string_lossy().into_owned();
        let mut command = Command::new(&command[0]);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if OWN_GROUP {
            command.process_group(0);
        }
        let mut child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(format!("cannot start {name}: its pipes are missing"));
        };
        let (sent, to_send) = mpsc::unbounded();
        let (receives, received) = mpsc::unbounded();
        thread::spawn(move || write_lines(stdin, to_send));
        thread::spawn(move || read_lines(stdout, &receives));
        let last_said = Arc::default();
        let said = Arc::clone(&last_said);
        let stderr = thread::spawn(move || pass_on(stderr, &said));
        let sent = sent.sink_map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe));
        let program = Program { name, child, status: None, stderr, last_said };
        Ok((program, Lines::new(sent, received)))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends the program, whose input is closed.
    pub(crate) fn end(&mut self, clock: &dyn Clock) {
        for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
            if let Some(signal) = signal {
                self.signal(signal);
            }
            if self.exits(clock) {
                return;
            }
        }
    }

    /// The failure of a program that ended, or closed its output, before it answered a request.
    pub(crate) fn gone(&mut self, request: &str, clock: &dyn Clock) -> AcpEvent {
        let has_exited = self.exits(clock);
        let how = match self.status.filter(|_| has_exited) {
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exited with code {code}"),
                (None, signal) => format!("was killed by signal {}", signal.unwrap_or_default()),
            },
            None => "closed its output".to_owned(),
        };
        // Its last line may still be on its way.
        wait(clock, || self.stderr.is_finished().then_some(()));
        let said = self.last_said.lock().unwrap_or_else(PoisonError::into_inner);
        let why = match one_line(&said) {
            said if said.is_empty() => String::new(),
            said => format!(": {said}"),
        };
        let name = &self.name;
        AcpEvent::failure(None, format!("{name} {how} before it answered {request}{why}"))
    }

    fn exits(&mut self, clock: &dyn Clock) -> bool {
        wait(clock, || {
            // What cannot be waited for is gone.
            let status = self.child.try_wait().unwrap_or(self.status);
            self.status = status.or(self.status);
            self.status.map(|_| ())
        })
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        if self.status.is_some() {
            return;
        }
        // A process that cannot be signalled has ended; the supervisor ends what is left.
        let _ = match OWN_GROUP {
            true => kill_process_group(pid, signal),
            false => kill_process(pid, signal),
        };
    }
}

/// Whether something happens in time.
fn wait(clock: &dyn Clock, mut happens: impl FnMut() -> Option<()>) -> bool {
    let until = clock.elapsed().saturating_add(END_TIMEOUT);
    loop {
        if happens().is_some() {
            return true;
        }
        if clock.elapsed() >= until {
            return false;
        }
        clock.sleep(STEP);
    }
}

fn write_lines(mut stdin: ChildStdin, lines: UnboundedReceiver<String>) {
    for line in block_on_stream(lines) {
        // The other end of the channel is told by the end of this one.
        if writeln!(stdin, "{line}").and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// Reads messages. Other lines are no part of the protocol, but programs print warnings between messages.
fn read_lines(stdout: ChildStdout, lines: &UnboundedSender<io::Result<String>>) {
    let mut stdout = BufReader::new(stdout);
    // Reads on without a receiver, so that the program can write until it ends.
    let send = |line| drop(lines.unbounded_send(line));
    loop {
        let mut line = Vec::new();
        match stdout.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) if line.len() as u64 == LONGEST => {
                let message = format!("a message is longer than {LONGEST} bytes");
                return send(Err(io::Error::new(io::ErrorKind::InvalidData, message)));
            }
            Ok(_) if line.trim_ascii_start().starts_with(b"{") => {
                send(Ok(String::from_utf8_lossy(line.trim_ascii()).into_owned()));
            }
            Ok(_) => drop(io::stderr().write_all(&line)),
            Err(error) => return send(Err(error)),
        }
    }
}

/// Copies standard error and keeps its last line.
fn pass_on(stderr: ChildStderr, last: &Mutex<String>) {
    let mut stderr = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        match stderr.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
        let _ = io::stderr().write_all(&line);
        if !line.trim_ascii().is_empty() {
            *last.lock().unwrap_or_else(PoisonError::into_inner) =
                String::from_utf8_lossy(&line).into_owned();
        }
    }
}
