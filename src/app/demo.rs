//! The embedded server behind `trunkline demo-server`: something that works before anybody has configured a server of
//! their own. It speaks MCP over standard input and output and shows each kind of answer that a server can give.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Number;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::wire::{Code, Kind, Malformed, Message, error, flat, notification, quoted, response};

/// The revisions that it speaks, newest first.
const REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Longest line taken, in bytes.
const LINE: u64 = 16 << 20;
const DEPTH: usize = 128;
/// Most slow calls at once.
const SLOW: usize = 64;
/// The longest a slow call may be asked to take, in seconds.
const SLOWEST: f64 = 600.0;

const TOOLS: &str = r#"{"tools":[
{"name":"echo","title":"Echo","description":"Gives back the text.",
 "inputSchema":{"type":"object","properties":{"text":{"type":"string","description":"Any text."}},"required":["text"]},
 "annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}},
{"name":"add","title":"Add","description":"Adds two numbers; the sum comes as text and as structured content.",
 "inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]},
 "outputSchema":{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]},
 "annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}},
{"name":"slow","title":"Slow","description":"Takes its time and tells how far it is; can be cancelled.",
 "inputSchema":{"type":"object","properties":{"seconds":{"type":"number","minimum":0,"maximum":600,"default":2}}},
 "annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}},
{"name":"fail","title":"Fail","description":"Always fails: shows how a tool's own error looks.",
 "inputSchema":{"type":"object","properties":{}},
 "annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}}]}"#;

const RESOURCES: &str = r#"{"resources":[{"uri":"demo://about","name":"about","title":"About",
 "description":"What this server is.","mimeType":"text/plain"}]}"#;
const ABOUT: &str = "The demo server inside trunkline. Put servers of your own into the configuration.";
const PROMPTS: &str = r#"{"prompts":[{"name":"greet","title":"Greet","description":"Asks for a greeting.",
 "arguments":[{"name":"name","description":"Whom to greet.","required":true}]}]}"#;

/// Serves standard input and output until the input ends.
///
/// # Errors
/// Where one of the two cannot be used.
pub async fn run() -> io::Result<()> {
    serve(tokio::io::stdin(), tokio::io::stdout()).await
}

async fn serve<R, W>(input: R, output: W) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let mut input = BufReader::new(input);
    let mut demo =
        Demo { output: Output(Arc::new(Mutex::new(output))), slow: JoinSet::new(), waits: HashMap::new() };
    loop {
        let mut line = Vec::new();
        if (&mut input).take(LINE).read_until(b'\n', &mut line).await? == 0 {
            return Ok(()); // slow calls end with the set that owns them
        }
        if !line.trim_ascii().is_empty() {
            demo.take(line.into()).await?;
        }
    }
}

/// The output, one whole line at a time.
struct Output<W>(Arc<Mutex<W>>);

impl<W: AsyncWrite + Unpin> Output<W> {
    async fn put(&self, message: Bytes) -> io::Result<()> {
        let mut line = flat(message).to_vec();
        line.push(b'\n');
        let mut output = self.0.lock().await;
        output.write_all(&line).await?;
        output.flush().await
    }
}

struct Demo<W> {
    output: Output<W>,
    /// The slow calls; each ends with its id.
    slow: JoinSet<Bytes>,
    waits: HashMap<Bytes, CancellationToken>,
}

/// Why a request gets no result.
type Refused = (Code, String);

impl<W: AsyncWrite + Unpin + Send + 'static> Demo<W> {
    async fn take(&mut self, line: Bytes) -> io::Result<()> {
        while let Some(done) = self.slow.try_join_next() {
            if let Ok(id) = done {
                self.waits.remove(&id);
            }
        }
        let message = match Message::parse(line, DEPTH) {
            Ok(message) => message,
            Err(why) => {
                let code =
                    if matches!(why, Malformed::NotJson(_)) { Code::Parse } else { Code::InvalidRequest };
                return self.output.put(error(None, code, &why.to_string())).await;
            }
        };
        match (message.kind(), message.id()) {
            (Kind::Request, Some(id)) => match self.answer(&message, &id) {
                Some(Ok(result)) => self.output.put(response(&id, result.as_bytes())).await,
                Some(Err((code, why))) => self.output.put(error(Some(&id), code, &why)).await,
                None => Ok(()),
            },
            (Kind::Request, None) => {
                self.output.put(error(None, Code::InvalidRequest, "`id` is neither string nor number")).await
            }
            (Kind::Notification, _) => {
                self.notice(&message);
                Ok(())
            }
            (Kind::Result | Kind::Error, _) => Ok(()), // we never ask
        }
    }

    /// The answer; `None` where it comes later.
    fn answer(&mut self, message: &Message, id: &Bytes) -> Option<Result<String, Refused>> {
        let result = match message.method() {
            "initialize" => initialize(message),
            "ping" => Ok("{}".into()),
            "tools/list" => Ok(TOOLS.into()),
            "tools/call" => return self.call(message, id).transpose(),
            "resources/list" => Ok(RESOURCES.into()),
            "resources/templates/list" => Ok(r#"{"resourceTemplates":[]}"#.into()),
            "resources/read" => read(message),
            "prompts/list" => Ok(PROMPTS.into()),
            "prompts/get" => get(message),
            other => Err((Code::MethodNotFound, format!("no method `{other}`"))),
        };
        Some(result)
    }

    fn call(&mut self, message: &Message, id: &Bytes) -> Result<Option<String>, Refused> {
        let result = match &*string(message, "name")? {
            "echo" => with(message, |Echo { text: said }| text(&said, false))?,
            "add" => with(message, |Add { a, b }| {
                let sum = sum(&a, &b);
                format!(
                    r#"{{"content":[{{"type":"text","text":"{sum}"}}],"structuredContent":{{"sum":{sum}}}}}"#
                )
            })?,
            "slow" => match with(message, |Slow { seconds }| seconds)? {
                seconds if !(0.0..=SLOWEST).contains(&seconds) => {
                    text(&format!("`seconds` must lie between 0 and {SLOWEST}"), true)
                }
                _ if self.slow.len() >= SLOW => text(&format!("already {SLOW} slow calls under way"), true),
                seconds => {
                    self.begin_slow(message, id, seconds)?;
                    return Ok(None);
                }
            },
            "fail" => text("This tool always fails.", true),
            other => return Err((Code::InvalidParams, format!("no tool `{other}`"))),
        };
        Ok(Some(result))
    }

    fn begin_slow(&mut self, message: &Message, id: &Bytes, seconds: f64) -> Result<(), Refused> {
        if self.waits.contains_key(id) {
            return Err((Code::InvalidRequest, "this id is still in flight".into()));
        }
        let token = message.params_members(["_meta"]).ok().and_then(|[meta]| {
            let [token] = message.members_at(meta?, ["progressToken"]).ok()?;
            message.slice(token?).map(str::to_owned)
        });
        let stop = CancellationToken::new();
        self.waits.insert(id.clone(), stop.clone());
        let (output, id) = (Output(Arc::clone(&self.output.0)), id.clone());
        self.slow.spawn(async move {
            // Only the waits stop halfway, so a line is written wholly or not at all. If nobody reads the output any
            // more, the input ends as well.
            let _ended = slow(&output, &id, seconds, token.as_deref(), &stop).await;
            id
        });
        Ok(())
    }

    fn notice(&self, message: &Message) {
        if message.method() != "notifications/cancelled" {
            return;
        }
        let id = message.params_members(["requestId"]).ok().and_then(|[id]| message.slice(id?));
        if let Some(stop) = id.and_then(|id| self.waits.get(id.as_bytes())) {
            stop.cancel();
        }
    }
}

/// Waits in quarters, telling each; nothing more is sent for a call that was cancelled.
async fn slow<W: AsyncWrite + Unpin>(
    output: &Output<W>,
    id: &[u8],
    seconds: f64,
    token: Option<&str>,
    stop: &CancellationToken,
) -> io::Result<()> {
    for quarter in 1..=4 {
        let wait = tokio::time::sleep(Duration::from_secs_f64(seconds / 4.0));
        if stop.run_until_cancelled(wait).await.is_none() {
            return Ok(());
        }
        if let Some(token) = token {
            let params = format!(
                r#"{{"progressToken":{token},"progress":{quarter},"total":4,"message":"quarter {quarter} of 4"}}"#
            );
            output.put(notification("notifications/progress", &params)).await?;
        }
    }
    output.put(response(id, text(&format!("That took {seconds} seconds."), false).as_bytes())).await
}

fn initialize(message: &Message) -> Result<String, Refused> {
    let asked = string(message, "protocolVersion")?;
    let revision = REVISIONS.into_iter().find(|known| *known == asked).unwrap_or(REVISIONS[0]);
    Ok(format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{{"tools":{{}},"resources":{{}},"prompts":{{}}}},"serverInfo":{{"name":"trunkline-demo","title":"trunkline demo","version":"{}"}},"instructions":"Tools to try a proxy with: echo, add, slow, fail."}}"#,
        env!("CARGO_PKG_VERSION")
    ))
}

fn read(message: &Message) -> Result<String, Refused> {
    match &*string(message, "uri")? {
        uri @ "demo://about" => Ok(format!(
            r#"{{"contents":[{{"uri":"{uri}","mimeType":"text/plain","text":{}}}]}}"#,
            quoted(ABOUT)
        )),
        other => Err((Code::InvalidParams, format!("no resource `{other}`"))),
    }
}

fn get(message: &Message) -> Result<String, Refused> {
    match &*string(message, "name")? {
        "greet" => with(message, |Greet { name }| {
            let ask = quoted(&format!("Please greet {name} in one friendly sentence."));
            format!(
                r#"{{"description":"Asks for a greeting.","messages":[{{"role":"user","content":{{"type":"text","text":{ask}}}}}]}}"#
            )
        }),
        other => Err((Code::InvalidParams, format!("no prompt `{other}`"))),
    }
}

/// The string `key` of the params.
fn string(message: &Message, key: &str) -> Result<String, Refused> {
    let place = message.params_members([key]).map_err(|why| (Code::InvalidParams, why.to_string()))?;
    let [Some(place)] = place else { return Err((Code::InvalidParams, format!("`{key}` is missing"))) };
    let text = message.string(place).ok_or_else(|| (Code::InvalidParams, format!("`{key}` is no string")))?;
    Ok(text.into_owned())
}

/// What `work` makes of the arguments.
fn with<A: for<'a> Deserialize<'a>, T>(message: &Message, work: impl FnOnce(A) -> T) -> Result<T, Refused> {
    let place =
        message.params_members(["arguments"]).map_err(|why| (Code::InvalidParams, why.to_string()))?;
    let raw = match place {
        [Some(place)] => message.slice(place).unwrap_or_default(),
        [None] => "{}",
    };
    serde_json::from_str(raw).map(work).map_err(|why| (Code::InvalidParams, format!("bad arguments: {why}")))
}

#[derive(Deserialize)]
struct Echo {
    text: String,
}

#[derive(Deserialize)]
struct Add {
    a: Number,
    b: Number,
}

#[derive(Deserialize)]
struct Slow {
    #[serde(default = "two")]
    seconds: f64,
}

fn two() -> f64 {
    2.0
}

#[derive(Deserialize)]
struct Greet {
    name: String,
}

/// Whole numbers stay whole. What is too large for JSON becomes `null`.
fn sum(a: &Number, b: &Number) -> String {
    if let Some(sum) = a.as_i128().zip(b.as_i128()).and_then(|(a, b)| a.checked_add(b)) {
        return sum.to_string();
    }
    let sum = a.as_f64().unwrap_or(f64::NAN) + b.as_f64().unwrap_or(f64::NAN);
    serde_json::Value::from(sum).to_string()
}

/// A tool's result of one text.
fn text(said: &str, is_error: bool) -> String {
    format!(r#"{{"content":[{{"type":"text","text":{}}}],"isError":{is_error}}}"#, quoted(said))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::{DuplexStream, Lines, duplex};

    use super::*;

    struct World {
        input: DuplexStream,
        output: Lines<BufReader<DuplexStream>>,
        server: JoinSet<io::Result<()>>,
    }

    impl World {
        fn new() -> Self {
            let (input, theirs) = duplex(1 << 16);
            let (output, out) = duplex(1 << 16);
            let mut server = JoinSet::new();
            server.spawn(serve(theirs, out));
            Self { input, output: BufReader::new(output).lines(), server }
        }

        async fn send(&mut self, line: &str) {
            self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }

        async fn read(&mut self) -> Value {
            serde_json::from_str(&self.output.next_line().await.unwrap().unwrap()).unwrap()
        }

        async fn ask(&mut self, method: &str, params: &str) -> Value {
            self.send(&format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{params}}}"#))
                .await;
            let mut answer = self.read().await;
            assert_eq!(answer["id"], "a", "{answer}");
            if answer["error"].is_object() { answer["error"]["code"].take() } else { answer["result"].take() }
        }

        async fn call(&mut self, name: &str, arguments: &str) -> Value {
            self.ask("tools/call", &format!(r#"{{"name":"{name}","arguments":{arguments}}}"#)).await
        }
    }

    #[tokio::test]
    async fn agrees_on_a_revision() {
        let mut world = World::new();
        for (asked, agreed) in REVISIONS.map(|known| (known, known)).into_iter().chain([
            ("2026-07-28", "2025-11-25"),
            ("2099-01-01", "2025-11-25"),
            ("", "2025-11-25"),
        ]) {
            let params = format!(
                r#"{{"protocolVersion":"{asked}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}"#
            );
            let result = world.ask("initialize", &params).await;
            assert_eq!(result["protocolVersion"], agreed);
            assert!(
                result["capabilities"]["tools"].is_object() && result["serverInfo"]["version"].is_string()
            );
        }
        assert_eq!(world.ask("initialize", "{}").await, -32602);
    }

    #[tokio::test]
    async fn everything_listed_can_be_used() {
        let mut world = World::new();
        let tools = world.ask("tools/list", "{}").await;
        let names: Vec<_> =
            tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, ["echo", "add", "slow", "fail"]);
        let said = world.call("echo", r#"{"text":"\"é\"\n\u0000"}"#).await;
        assert_eq!(said, json!({"content":[{"type":"text","text":"\"é\"\n\u{0}"}],"isError":false}));
        for (a, b, sum) in [("1", "2", json!(3)), ("0.5", "1", json!(1.5)), ("-4", "4", json!(0))] {
            let added = world.call("add", &format!(r#"{{"a":{a},"b":{b}}}"#)).await;
            assert_eq!(added["structuredContent"]["sum"], sum);
            assert_eq!(added["content"][0]["text"], sum.to_string());
        }
        assert_eq!(world.call("fail", "{}").await["isError"], true);
        let about = world.ask("resources/list", "{}").await["resources"][0]["uri"].clone();
        let contents = world.ask("resources/read", &json!({ "uri": about }).to_string()).await;
        assert_eq!(contents["contents"][0]["text"], ABOUT);
        assert_eq!(world.ask("prompts/list", "{}").await["prompts"][0]["name"], "greet");
        let prompt = world.ask("prompts/get", r#"{"name":"greet","arguments":{"name":"Ada"}}"#).await;
        assert!(prompt["messages"][0]["content"]["text"].as_str().unwrap().contains("Ada"));
        assert_eq!(world.ask("ping", "{}").await, json!({}));
        assert_eq!(world.ask("resources/templates/list", "{}").await["resourceTemplates"], json!([]));
    }

    #[tokio::test]
    async fn bad_requests_are_refused_one_by_one() {
        let mut world = World::new();
        assert_eq!(world.ask("no/such", "{}").await, -32601);
        assert_eq!(world.call("nope", "{}").await, -32602);
        assert_eq!(world.call("echo", r#"{"text":1}"#).await, -32602);
        assert_eq!(world.call("add", "{}").await, -32602);
        assert_eq!(world.call("slow", r#"{"seconds":-1}"#).await["isError"], true);
        assert_eq!(world.call("slow", r#"{"seconds":1e300}"#).await["isError"], true);
        assert_eq!(world.ask("resources/read", r#"{"uri":"demo://x"}"#).await, -32602);
        assert_eq!(world.ask("prompts/get", r#"{"name":"greet"}"#).await, -32602);
        for (line, code) in
            [("{", -32700), ("\u{fffd}", -32700), ("[]", -32600), (r#"{"jsonrpc":"1.0"}"#, -32600)]
        {
            world.send(line).await;
            let answer = world.read().await;
            assert_eq!(answer["error"]["code"], code, "{line}");
            assert!(answer.get("id").is_none());
        }
        world.send(&"[".repeat(100_000)).await;
        assert_eq!(world.read().await["error"]["code"], -32600);
        world.send("\n  \n").await;
        assert_eq!(world.ask("ping", "{}").await, json!({}), "it lives");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_call_reports_and_blocks_nobody() {
        let mut world = World::new();
        let slow = |id: u32| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"slow","arguments":{{"seconds":8}},"_meta":{{"progressToken":{id}}}}}}}"#
            )
        };
        world.send(&slow(1)).await;
        assert_eq!(world.ask("ping", "{}").await, json!({}), "while the other runs");
        world.send(&slow(1)).await;
        assert_eq!(world.read().await["error"]["code"], -32600, "its id is taken");
        let start = tokio::time::Instant::now();
        for quarter in 1..=4 {
            let told = world.read().await;
            assert_eq!(told["method"], "notifications/progress");
            assert_eq!(
                (&told["params"]["progress"], &told["params"]["progressToken"]),
                (&json!(quarter), &json!(1))
            );
        }
        let answer = world.read().await;
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &json!(false)));
        assert_eq!(start.elapsed().as_secs(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_call_says_nothing_more() {
        let mut world = World::new();
        for id in ["1", r#""1""#] {
            world
                .send(&format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"slow","arguments":{{"seconds":4}}}}}}"#
                ))
                .await;
        }
        world
            .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"x"}}"#)
            .await;
        world.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#).await;
        assert_eq!(world.read().await["id"], "1", "the other one goes on");
        assert!(tokio::time::timeout(Duration::from_secs(60), world.output.next_line()).await.is_err());
        assert_eq!(world.ask("ping", "{}").await, json!({}));
    }

    #[tokio::test(start_paused = true)]
    async fn ends_with_its_input_even_in_a_call() {
        let World { mut input, mut output, mut server } = World::new();
        let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}"#;
        input.write_all(call).await.unwrap(); // and no line end
        drop(input);
        server.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!(output.next_line().await.unwrap(), None);
    }
}
