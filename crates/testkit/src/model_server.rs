//! A language model on loopback that answers as a test says, in the dialects of all clients.
//!
//! It speaks Anthropic Messages, OpenAI Responses and Chat Completions, and Gemini, with and without streaming. A test
//! gives a function from a [`Request`] to a [`Reply`], so one model can play several roles. Requests without tools,
//! such as those for a title, are answered with a fixed text and not shown to the function.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::{Value, json};

/// What the model does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Ends its turn with a text.
    Text(String),
    /// Calls the client's shell tool.
    Shell(String),
    /// Calls a tool of the MCP server `autoloop`.
    Tool { name: String, arguments: Value },
    /// Answers with a status of HTTP and a message.
    Error { status: u16, message: String },
    /// Answers nothing, until the client gives up or the server is dropped.
    Hang,
    /// Closes the connection in the middle of an answer.
    Cut,
}

impl Reply {
    pub fn text(text: &str) -> Reply {
        Reply::Text(text.to_owned())
    }

    pub fn shell(command: impl Into<String>) -> Reply {
        Reply::Shell(command.into())
    }

    pub fn tool(name: &str, arguments: Value) -> Reply {
        Reply::Tool { name: name.to_owned(), arguments }
    }

    pub fn error(status: u16, message: &str) -> Reply {
        Reply::Error { status, message: message.to_owned() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Messages,
    Responses,
    Chat,
    Gemini,
}

/// A request of a client to its model.
#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    pub body: Value,
    dialect: Dialect,
}

impl Request {
    /// Everything in the request as one text: prompt, instructions and results of tools.
    pub fn text(&self) -> String {
        let mut text = String::new();
        collect(&self.body, &mut text);
        text
    }

    /// The outputs of the tools that were called since the prompt, in order.
    pub fn tool_results(&self) -> Vec<String> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let results: Vec<Value> = match self.dialect {
            Dialect::Messages => {
                let parts = list(&self.body["messages"]);
                let parts = parts.iter().flat_map(|message| list(&message["content"]));
                parts.filter(|part| part["type"] == "tool_result").collect()
            }
            Dialect::Responses => {
                let items = list(&self.body["input"]).into_iter();
                items.filter(|item| item["type"] == "function_call_output").collect()
            }
            Dialect::Chat => {
                let messages = list(&self.body["messages"]).into_iter();
                messages.filter(|message| message["role"] == "tool").collect()
            }
            Dialect::Gemini => {
                let parts = list(&self.body["contents"]);
                let parts = parts.iter().flat_map(|content| list(&content["parts"]));
                parts.filter(|part| part["functionResponse"].is_object()).collect()
            }
        };
        let text_of = |result: &Value| {
            let mut text = String::new();
            collect(result, &mut text);
            text
        };
        results.iter().map(text_of).collect()
    }

    fn has_tools(&self) -> bool {
        self.body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
    }

    /// A tool of the MCP server `autoloop`, by the name under which the client offers it.
    fn served_tool(&self, name: &str) -> String {
        let tools = self.body["tools"].to_string();
        let names =
            ["mcp__autoloop__", "mcp_autoloop_", "autoloop_"].map(|start| format!("{start}{name}"));
        let is_offered = |name: &&String| tools.contains(&format!("\"{name}\""));
        names.iter().find(is_offered).unwrap_or(&names[0]).clone()
    }

    /// The shell tool of the client, with the name of its argument.
    fn shell_tool(&self) -> (&'static str, &'static str) {
        let tools = self.body["tools"].to_string();
        let known = [
            ("run_shell_command", "command"),
            ("exec_command", "cmd"),
            ("Bash", "command"),
            ("bash", "command"),
        ];
        let is_offered = |name: &str| tools.contains(&format!("\"{name}\""));
        known.into_iter().find(|(name, _)| is_offered(name)).unwrap_or(("bash", "command"))
    }
}

fn collect(value: &Value, text: &mut String) {
    match value {
        Value::String(part) => {
            text.push_str(part);
            text.push('\n');
        }
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, text)),
        Value::Object(parts) => parts.values().for_each(|part| collect(part, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

type Answer = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

/// A model that listens on a free port of loopback until it is dropped.
pub struct ModelServer {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    answer: Answer,
    requests: Mutex<Vec<Request>>,
    open: Mutex<Vec<TcpStream>>,
    ended: AtomicBool,
    calls: AtomicU64,
}

impl ModelServer {
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            answer: Box::new(answer),
            requests: Mutex::default(),
            open: Mutex::default(),
            ended: AtomicBool::new(false),
            calls: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if accepting.ended.load(Ordering::SeqCst) {
                    return;
                }
                let serving = Arc::clone(&accepting);
                // A client that goes away in the middle of an exchange is no failure of the test.
                thread::spawn(move || drop(serving.serve(stream)));
            }
        });
        Ok(ModelServer { port, shared })
    }

    /// The address without a path.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The requests with tools so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        // Wakes the thread that accepts.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Shared {
    /// Serves the requests of one connection.
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let copy = stream.try_clone()?;
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut writer = stream;
        while let Some(Sent { method, path, body }) = read_request(&mut reader)? {
            let dialect = dialect(&path);
            let (Some(dialect), "POST") = (dialect, method.as_str()) else {
                respond(&mut writer, other_status(&method, &path), &other_body(&path))?;
                continue;
            };
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let request = Request { path, body, dialect };
            let reply = match request.has_tools() {
                true => {
                    let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
                    requests.push(request.clone());
                    drop(requests);
                    (self.answer)(&request)
                }
                false => Reply::text("a title"),
            };
            let number = self.calls.fetch_add(1, Ordering::SeqCst);
            if !send(&mut writer, &request, &reply, number)? {
                // The other side ends a connection that hangs.
                let _ = reader.read(&mut [0]);
                return Ok(());
            }
        }
        Ok(())
    }
}

/// A request as it is sent.
struct Sent {
    method: String,
    path: String,
    body: Vec<u8>,
}

/// Reads a request; `None` at the end of the connection.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Sent>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut length = 0;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Sent { method, path, body }))
}

fn dialect(path: &str) -> Option<Dialect> {
    let path = path.split('?').next().unwrap_or_default();
    Some(match path {
        _ if path.ends_with("/count_tokens") => return None,
        _ if path.ends_with("/messages") => Dialect::Messages,
        _ if path.ends_with("/responses") => Dialect::Responses,
        _ if path.ends_with("/chat/completions") => Dialect::Chat,
        _ if path.ends_with("enerateContent") => Dialect::Gemini,
        _ => return None,
    })
}

fn other_status(method: &str, path: &str) -> u16 {
    match method {
        "HEAD" => 200,
        _ if path.ends_with("/models") || path.ends_with("/count_tokens") => 200,
        _ => 404,
    }
}

fn other_body(path: &str) -> Value {
    match path {
        _ if path.ends_with("/count_tokens") => json!({ "input_tokens": 42 }),
        _ if path.ends_with("/models") => json!({ "object": "list", "data": [] }),
        _ => json!({ "error": { "message": "not found", "type": "not_found_error" } }),
    }
}

fn respond(writer: &mut impl Write, status: u16, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    write!(
        writer,
        // Clients that ask again by themselves do so at once.
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\nretry-after-ms: 1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    writer.flush()
}

/// Sends a reply; returns whether the connection can serve another request.
fn send(writer: &mut TcpStream, request: &Request, reply: &Reply, number: u64) -> io::Result<bool> {
    let events = match reply {
        Reply::Hang => return Ok(false),
        Reply::Error { status, message } => {
            respond(writer, *status, &error_body(request.dialect, *status, message))?;
            return Ok(true);
        }
        Reply::Cut => {
            let events = events(request, &Reply::text("a long answer"), number);
            begin_stream(writer)?;
            write_event(writer, &events[0])?;
            writer.shutdown(Shutdown::Both)?;
            return Ok(false);
        }
        reply if !is_streaming(request) => {
            respond(writer, 200, &whole(request, reply, number))?;
            return Ok(true);
        }
        reply => events(request, reply, number),
    };
    begin_stream(writer)?;
    events.iter().try_for_each(|event| write_event(writer, event))?;
    if request.dialect == Dialect::Chat {
        writer.write_all(b"data: [DONE]\n\n")?;
    }
    writer.flush()?;
    writer.shutdown(Shutdown::Both)?;
    Ok(true)
}

fn is_streaming(request: &Request) -> bool {
    match request.dialect {
        Dialect::Gemini => request.path.contains(":streamGenerateContent"),
        _ => request.body["stream"] == true,
    }
}

fn begin_stream(writer: &mut impl Write) -> io::Result<()> {
    writer.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    )
}

fn write_event(writer: &mut impl Write, event: &Value) -> io::Result<()> {
    if let Some(kind) = event["type"].as_str() {
        writeln!(writer, "event: {kind}")?;
    }
    write!(writer, "data: {event}\n\n")?;
    writer.flush()
}

fn error_body(dialect: Dialect, status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    match dialect {
        Dialect::Messages => {
            json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_1" })
        }
        Dialect::Gemini => {
            let status_word = match status {
                401 => "UNAUTHENTICATED",
                429 => "RESOURCE_EXHAUSTED",
                503 => "UNAVAILABLE",
                _ => "INTERNAL",
            };
            json!({ "error": { "code": status, "message": message, "status": status_word } })
        }
        Dialect::Responses | Dialect::Chat => {
            json!({ "error": { "message": message, "type": kind, "param": null, "code": null } })
        }
    }
}

/// The tokens that every answer costs.
const INPUT: u64 = 100;
const OUTPUT: u64 = 20;

/// The events of a streamed answer.
fn events(request: &Request, reply: &Reply, number: u64) -> Vec<Value> {
    match request.dialect {
        Dialect::Messages => messages_events(request, reply, number),
        Dialect::Responses => responses_events(request, reply, number),
        Dialect::Chat => chat_events(request, reply, number),
        Dialect::Gemini => vec![gemini(request, reply)],
    }
}

/// An answer in one piece.
fn whole(request: &Request, reply: &Reply, number: u64) -> Value {
    let usage = json!({ "input_tokens": INPUT, "output_tokens": OUTPUT });
    match request.dialect {
        Dialect::Messages => {
            let (block, stop) = message_block(request, reply, number);
            json!({
                "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "model",
                "content": [block], "stop_reason": stop, "usage": usage,
            })
        }
        Dialect::Responses => {
            let item = response_item(request, reply, number);
            json!({ "id": format!("resp_{number}"), "status": "completed", "output": [item], "usage": usage })
        }
        Dialect::Chat => {
            let (delta, stop) = chat_delta(request, reply, number);
            json!({
                "id": format!("chat_{number}"), "object": "chat.completion",
                "choices": [{ "index": 0, "message": delta, "finish_reason": stop }],
                "usage": { "prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT },
            })
        }
        Dialect::Gemini => gemini(request, reply),
    }
}

/// What a reply consists of.
enum Content<'r> {
    Text(&'r str),
    Call(Call),
}

struct Call {
    tool: String,
    /// The group of tools that it is in, which only one dialect has.
    namespace: Option<&'static str>,
    arguments: Value,
}

fn content<'r>(request: &Request, reply: &'r Reply) -> Content<'r> {
    match reply {
        Reply::Shell(command) => {
            let (tool, argument) = request.shell_tool();
            let mut arguments = json!({ argument: command });
            if matches!(request.dialect, Dialect::Messages | Dialect::Chat) {
                arguments["description"] = json!("run a command");
            }
            Content::Call(Call { tool: tool.to_owned(), namespace: None, arguments })
        }
        Reply::Tool { name, arguments } => {
            let arguments = arguments.clone();
            let (tool, namespace) = match request.dialect {
                Dialect::Responses => (name.clone(), Some("mcp__autoloop")),
                _ => (request.served_tool(name), None),
            };
            Content::Call(Call { tool, namespace, arguments })
        }
        Reply::Text(text) => Content::Text(text),
        Reply::Error { .. } | Reply::Hang | Reply::Cut => Content::Text(""),
    }
}

fn message_block(request: &Request, reply: &Reply, number: u64) -> (Value, &'static str) {
    match content(request, reply) {
        Content::Text(text) => (json!({ "type": "text", "text": text }), "end_turn"),
        Content::Call(Call { tool, arguments, .. }) => {
            let id = format!("toolu_{number}");
            (json!({ "type": "tool_use", "id": id, "name": tool, "input": arguments }), "tool_use")
        }
    }
}

fn messages_events(request: &Request, reply: &Reply, number: u64) -> Vec<Value> {
    let (block, stop) = message_block(request, reply, number);
    let (empty, delta) = match content(request, reply) {
        Content::Text(text) => {
            (json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": text }))
        }
        Content::Call(_) => {
            let mut empty = block.clone();
            empty["input"] = json!({});
            let input = block["input"].to_string();
            (empty, json!({ "type": "input_json_delta", "partial_json": input }))
        }
    };
    vec![
        json!({ "type": "message_start", "message": {
            "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "model",
            "content": [], "stop_reason": null,
            "usage": { "input_tokens": INPUT, "output_tokens": 1 },
        }}),
        json!({ "type": "content_block_start", "index": 0, "content_block": empty }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop }, "usage": { "output_tokens": OUTPUT } }),
        json!({ "type": "message_stop" }),
    ]
}

fn response_item(request: &Request, reply: &Reply, number: u64) -> Value {
    match content(request, reply) {
        Content::Text(text) => json!({
            "type": "message", "id": format!("msg_{number}"), "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
        Content::Call(Call { tool, namespace, arguments }) => {
            let mut item = json!({
                "type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
                "name": tool, "arguments": arguments.to_string(), "status": "completed",
            });
            if let Some(namespace) = namespace {
                item["namespace"] = json!(namespace);
            }
            item
        }
    }
}

fn responses_events(request: &Request, reply: &Reply, number: u64) -> Vec<Value> {
    let item = response_item(request, reply, number);
    let id = item["id"].clone();
    let response = |status: &str, output: Value| {
        json!({
            "id": format!("resp_{number}"), "object": "response", "created_at": 1, "model": "model",
            "status": status, "output": output,
            "usage": {
                "input_tokens": INPUT, "input_tokens_details": { "cached_tokens": 0 },
                "output_tokens": OUTPUT, "output_tokens_details": { "reasoning_tokens": 0 },
                "total_tokens": INPUT + OUTPUT,
            },
        })
    };
    let mut events = vec![
        json!({ "type": "response.created", "response": response("in_progress", json!([])) }),
        json!({ "type": "response.in_progress", "response": response("in_progress", json!([])) }),
    ];
    let mut empty = item.clone();
    empty["status"] = json!("in_progress");
    let place = json!({ "output_index": 0, "content_index": 0, "item_id": id });
    let at = |kind: &str, more: Value| {
        let mut event = place.clone();
        event["type"] = json!(kind);
        for (key, value) in more.as_object().into_iter().flatten() {
            event[key] = value.clone();
        }
        event
    };
    match content(request, reply) {
        Content::Text(text) => {
            empty["content"] = json!([]);
            let part = json!({ "type": "output_text", "text": "", "annotations": [] });
            let full = json!({ "type": "output_text", "text": text, "annotations": [] });
            events.push(at("response.output_item.added", json!({ "item": empty })));
            events.push(at("response.content_part.added", json!({ "part": part })));
            events.push(at("response.output_text.delta", json!({ "delta": text })));
            events.push(at("response.output_text.done", json!({ "text": text })));
            events.push(at("response.content_part.done", json!({ "part": full })));
        }
        Content::Call(_) => {
            let arguments = item["arguments"].clone();
            empty["arguments"] = json!("");
            events.push(at("response.output_item.added", json!({ "item": empty })));
            let delta = json!({ "delta": arguments });
            events.push(at("response.function_call_arguments.delta", delta));
            let done = json!({ "arguments": arguments });
            events.push(at("response.function_call_arguments.done", done));
        }
    }
    events.push(at("response.output_item.done", json!({ "item": item })));
    let completed = response("completed", json!([item]));
    events.push(json!({ "type": "response.completed", "response": completed }));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

fn chat_delta(request: &Request, reply: &Reply, number: u64) -> (Value, &'static str) {
    match content(request, reply) {
        Content::Text(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        Content::Call(Call { tool, arguments, .. }) => {
            let call = json!({
                "index": 0, "id": format!("call_{number}"), "type": "function",
                "function": { "name": tool, "arguments": arguments.to_string() },
            });
            (json!({ "role": "assistant", "tool_calls": [call] }), "tool_calls")
        }
    }
}

fn chat_events(request: &Request, reply: &Reply, number: u64) -> Vec<Value> {
    let (delta, stop) = chat_delta(request, reply, number);
    let chunk = |choices: Value, usage: Value| {
        json!({
            "id": format!("chat_{number}"), "object": "chat.completion.chunk", "created": 1,
            "model": "model", "choices": choices, "usage": usage,
        })
    };
    let choice =
        |delta: Value, stop: Value| json!([{ "index": 0, "delta": delta, "finish_reason": stop }]);
    let usage = json!({
        "prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT,
    });
    vec![
        chunk(choice(delta, Value::Null), Value::Null),
        chunk(choice(json!({}), json!(stop)), Value::Null),
        chunk(json!([]), usage),
    ]
}

fn gemini(request: &Request, reply: &Reply) -> Value {
    let part = match content(request, reply) {
        Content::Text(text) => json!({ "text": text }),
        Content::Call(Call { tool, arguments, .. }) => {
            json!({ "functionCall": { "name": tool, "args": arguments } })
        }
    };
    json!({
        "candidates": [{
            "content": { "role": "model", "parts": [part] }, "finishReason": "STOP", "index": 0,
        }],
        "usageMetadata": {
            "promptTokenCount": INPUT, "candidatesTokenCount": OUTPUT, "totalTokenCount": INPUT + OUTPUT,
        },
    })
}
