//! PROTOCOL.md §1.3–1.8 and §1.13, from the side of a client of 2026-07-28.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Client, Events, Fake, MODERN, Modern, PROGRESS, Reply, Script, Step, World, answer, entries, file,
    progress, text, until,
};

async fn next(events: &mut Events) -> Value {
    serde_json::from_str(&events.next().await.expect("another message")).unwrap()
}

async fn one(script: Script) -> (World, Fake) {
    let one = Fake::http(script);
    let world = World::start(&file("", &entries(&[("one", one.entry())]))).await.ready().await;
    (world, one)
}

const WHOLE: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

/// A request with this in `params._meta`, and these further params, which begin with a comma.
fn with(meta: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"é-1","method":"{method}","params":{{"_meta":{{{meta}}}{params}}}}}"#)
}

const WHO: &str = r#","name":"who_mcp_one""#;

/// What is posted, which headers are others than the body says, and the status and code of the answer; 0 for a result.
type Rung = (String, &'static [(&'static str, &'static str)], u16, i64);

fn rungs() -> Vec<Rung> {
    let call = |meta: &str| with(meta, "tools/call", WHO);
    let whole = || call(WHOLE);
    let of = |method: &str| with(WHOLE, method, "");
    let version = |name: &str| call(&WHOLE.replace(MODERN, name));
    let bare = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":"é-1","method":"{method}","params":{{}}}}"#);
    let mut all: Vec<Rung> = vec![
        (whole(), &[], 200, 0),
        (whole().replace('/', "\\/"), &[], 200, 0),
        // The envelope.
        (bare("tools/list"), &[], 400, -32602),
        (r#"{"jsonrpc":"2.0","id":"é-1","method":"tools/list"}"#.into(), &[], 400, -32602),
        (call(r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#), &[], 400, -32602),
        (call(r#""io.modelcontextprotocol/clientCapabilities":{}"#), &[], 400, -32602),
        (call(&WHOLE.replace("{}", "[]")), &[], 400, -32602),
        (call(&WHOLE.replace(r#""2026-07-28""#, "20260728")), &[], 400, -32602),
        (call(&format!(r#"{WHOLE},"io.modelcontextprotocol/logLevel":"loud""#)), &[], 400, -32602),
        (call(&format!(r#"{WHOLE},"io.modelcontextprotocol/clientInfo":"me""#)), &[], 400, -32602),
        // The revision.
        (whole(), &[("mcp-protocol-version", "")], 400, -32020),
        (whole(), &[("mcp-protocol-version", "2025-11-25")], 400, -32020),
        (whole(), &[("mcp-protocol-version", "v999.0.0")], 400, -32020),
        (version("v999.0.0"), &[], 400, -32020),
        (version("v999.0.0"), &[("mcp-protocol-version", "v999.0.0")], 400, -32022),
        (version("2025-11-25"), &[("mcp-protocol-version", "2025-11-25")], 400, -32022),
        (bare("tools/list"), &[("mcp-protocol-version", "v999.0.0")], 400, -32022),
        (bare("initialize"), &[], 400, -32020),
        // The method.
        (whole(), &[("mcp-method", "")], 400, -32020),
        (whole(), &[("mcp-method", "tools/list")], 400, -32020),
        (whole(), &[("mcp-method", "TOOLS/CALL")], 400, -32020),
        (whole(), &[("mcp-method", "  tools/call ")], 200, 0),
        (of("no/such"), &[], 404, -32601),
        (of("prompts/list"), &[], 404, -32601),
        (of("resources/read"), &[], 404, -32601),
        (of("completion/complete"), &[], 404, -32601),
        (of("tasks/get"), &[], 404, -32601),
        // The name.
        (whole(), &[("mcp-name", "")], 400, -32020),
        (whole(), &[("mcp-name", "who")], 400, -32020),
        (whole(), &[("mcp-name", "WHO_mcp_one")], 400, -32020),
        (whole(), &[("mcp-name", " who_mcp_one ")], 200, 0),
        (whole(), &[("mcp-name", "=?base64?d2hvX21jcF9vbmU=?=")], 200, 0),
        (whole(), &[("mcp-name", "=?base64?d2hvX21jcF9vbmU?=")], 400, -32020),
        (whole(), &[("mcp-name", "=?base64?d2hvX21jcF9v*mU=?=")], 400, -32020),
        (whole(), &[("mcp-name", "=?BASE64?d2hvX21jcF9vbmU=?=")], 400, -32020),
        (whole(), &[("mcp-name", "=?base64?d2hvX21jcF9vbmU=")], 400, -32020),
        // What the relay sees.
        (with(WHOLE, "tools/call", ""), &[], 200, -32602),
        (with(WHOLE, "tools/call", r#","name":7"#), &[], 200, -32602),
        (with(WHOLE, "tools/call", r#","name":"nobody""#), &[], 200, -32602),
        (with(WHOLE, "tools/list", r#","cursor":"made-up""#), &[], 200, -32602),
        (with(WHOLE, "subscriptions/listen", r#","notifications":7"#), &[], 200, -32602),
        (with(WHOLE, "subscriptions/listen", r#","notifications":{"taskIds":["t"]}"#), &[], 400, -32021),
        // What is no request of one client.
        (r#"{"jsonrpc":"2.0","id":"é-1""#.into(), &[], 400, -32700),
        (r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#.into(), &[], 400, -32600),
        (r#"{"jsonrpc":"2.0","id":"é-1","result":{}}"#.into(), &[], 400, -32600),
        (format!("[{}]", whole()), &[], 400, -32600),
        (format!("[{}, {}]", bare("ping"), whole()), &[("mcp-protocol-version", "")], 400, -32600),
        (format!("[{}]", bare("ping")), &[], 400, -32600),
        // The first fault counts.
        (call(""), &[("mcp-method", ""), ("mcp-name", "")], 400, -32602),
        (version("v1"), &[("mcp-protocol-version", "v1"), ("mcp-method", "")], 400, -32022),
        (of("no/such"), &[("mcp-method", "x")], 400, -32020),
        (with(WHOLE, "prompts/get", r#","name":"p""#), &[("mcp-name", "")], 404, -32601),
        (with(WHOLE, "tools/call", r#","name":"nobody""#), &[("mcp-name", "x")], 400, -32020),
    ];
    let removed = [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
    ];
    all.extend(removed.map(|method| (of(method), &[][..], 404, -32601)));
    all
}

#[tokio::test]
async fn fault_035_the_first_thing_that_is_wrong_is_told() {
    let (world, one) = one(Script::default()).await;
    let modern = Modern::new(&world, "/mcp");
    let rungs = rungs();
    let good = rungs.iter().filter(|rung| rung.3 == 0).count();
    for (body, others, status, code) in &rungs {
        let mut client = modern.headed(body);
        for (name, value) in *others {
            client = client.with(name, value);
        }
        let told = client.post(body).await;
        let answer: Value = serde_json::from_str(&told.text).unwrap_or_default();
        let got = (told.status, answer["error"]["code"].as_i64().unwrap_or_default());
        assert_eq!(got, (*status, *code), "{others:?} {body}: {}", told.text);
        assert!(!told.headers.contains_key("mcp-session-id"), "{body}");
        let is_request = !body.starts_with('[') && body.contains(r#""id":"é-1","method""#);
        assert_eq!(answer["id"].as_str(), is_request.then_some("é-1"), "{body}: {}", told.text);
        if *code == -32022 {
            assert_eq!(answer["error"]["data"]["supported"], json!([MODERN]));
            assert!(answer["error"]["data"]["requested"].as_str().is_some_and(|asked| asked != MODERN));
        }
        if *code == -32021 {
            let needed = &answer["error"]["data"]["requiredCapabilities"];
            assert_eq!(*needed, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
        }
    }
    assert_eq!(one.seen_of("tools/call").len(), good, "nothing else reached the server");
    println!("{} requests judged", rungs.len());
}

#[tokio::test]
async fn ids_are_echoed_as_they_are_written() {
    let (world, _one) = one(Script::default()).await;
    let modern = Modern::new(&world, "/mcp");
    for id in ["1", "\"1\"", "-7", "123456789012345678901234567890", r#""\u0061""#, r#""""#] {
        for method in ["tools/list", "server/discover", "no/such"] {
            let body = with(WHOLE, method, "").replace(r#""é-1""#, id);
            let told = modern.post(&body).await.text;
            assert!(told.contains(&format!(r#""id":{id},"#)), "{told}");
        }
    }
}

#[tokio::test]
async fn http_is_post_alone_and_the_other_headers_are_judged() {
    let (world, _one) = one(Script::default()).await;
    let modern = Modern::new(&world, "/mcp");
    let list = modern.request("tools/list", "{}");
    let client = modern.headed(&list);
    for method in [Method::GET, Method::DELETE] {
        let told = client.whole(method, "").await;
        assert_eq!((told.status, told.headers["allow"].as_bytes()), (405, &b"POST, OPTIONS, HEAD"[..]));
    }
    for (name, value, status) in [
        ("accept", "", 200),
        ("accept", "*/*", 200),
        ("accept", "application/json", 200),
        ("accept", "text/event-stream", 200),
        ("accept", "text/html", 406),
        ("content-type", "text/plain", 415),
        ("origin", "http://evil.example", 403),
        ("mcp-session-id", "whatever", 200),
        ("last-event-id", "whatever", 200),
    ] {
        let told = client.with(name, value).post(&list).await;
        assert_eq!(told.status, status, "{name}: {value}: {}", told.text);
        let events = value == "text/event-stream";
        assert_eq!(told.text.starts_with("event: message\ndata: {"), events, "{}", told.text);
    }
    // A header that stands there twice says nothing.
    let call = modern.calling("who_mcp_one", "{}");
    for name in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
        let mut twice = modern.headed(&call);
        let value = twice.headers[name].clone();
        twice.headers.append(name, value);
        assert_eq!(twice.post(&call).await.status, 400, "{name}");
    }
    let notify =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"_meta":{{{WHOLE}}}}}}}"#);
    for (headers, status) in [
        (&[][..], 202),
        (&[("mcp-method", ""), ("mcp-protocol-version", "")], 202),
        (&[("mcp-method", "notifications/y")], 400),
        (&[("mcp-protocol-version", "2025-11-25")], 400),
    ] {
        let client =
            headers.iter().fold(modern.headed(&notify), |client, (name, value)| client.with(name, value));
        let told = client.post(&notify).await;
        assert_eq!((told.status, told.text.is_empty()), (status, status == 202), "{headers:?}");
    }
    let asked = client.with("origin", "http://localhost:3000");
    let asked = asked.with("access-control-request-headers", "content-type, Mcp-Param-Region, x-other");
    let told = asked.whole(Method::OPTIONS, "").await;
    let allowed = told.headers["access-control-allow-headers"].to_str().unwrap();
    for name in ["mcp-method", "mcp-name", "mcp-protocol-version", "mcp-param-region"] {
        assert!(allowed.contains(name), "{allowed}");
    }
    assert!(!allowed.contains("x-other"), "{allowed}");
    assert_eq!(told.headers["access-control-allow-origin"], "http://localhost:3000");
}

/// Has everything.
fn full(name: &'static str) -> Script {
    Script {
        capabilities: Some(
            r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"tasks":{"requests":{"tools":{"call":{}}}},"experimental":{"x":1},"extensions":{"io.modelcontextprotocol/ui":{"n":1},"io.modelcontextprotocol/tasks":{},"acme/x":{}}}"#
                .into(),
        ),
        instructions: Some(format!("Ask {name}.")),
        prompts: vec![r#"{"name":"greet"}"#.into()],
        resources: vec![format!(r#"{{"uri":"test://{name}/one","name":"one"}}"#)],
        templates: vec![format!(r#"{{"uriTemplate":"test://{name}/by-id/{{id}}","name":"t"}}"#)],
        tells: true,
        other: Arc::new(|seen| match seen.method.as_str() {
            "resources/subscribe" | "resources/unsubscribe" => Reply::Result("{}".into()),
            _ => Reply::Result(r#"{"messages":[]}"#.into()),
        }),
        ..Script::default()
    }
}

/// What every result of ours has.
fn is_modern(result: &Value, cached: bool) {
    assert_eq!(result["resultType"], "complete", "{result}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "trunkline", "{result}");
    assert_eq!(result["ttlMs"].is_u64(), cached, "{result}");
    let scope = result["cacheScope"].as_str();
    assert_eq!(scope.is_some_and(|scope| ["public", "private"].contains(&scope)), cached, "{result}");
}

#[tokio::test]
async fn discovery_and_lists_come_from_memory_in_the_modern_shape() {
    let (one, two) = (Fake::http(full("one")), Fake::stdio(full("two")));
    let servers = entries(&[("one", one.entry()), ("two", two.entry())]);
    let world = World::start(&file("", &servers)).await.ready().await;
    let (all, own) = (Modern::new(&world, "/mcp"), Modern::new(&world, "/mcp/two"));
    let seen = (one.seen().len(), two.seen().len());
    let told = json!({"listChanged": true});
    let found = all.json("server/discover", "{}").await["result"].clone();
    is_modern(&found, true);
    assert_eq!(found["supportedVersions"], json!([MODERN]));
    assert_eq!(
        found["capabilities"],
        json!({"tools": told, "prompts": told, "resources": {"listChanged": true, "subscribe": true}, "completions": {}, "extensions": {"io.modelcontextprotocol/ui": {"n": 1}, "io.modelcontextprotocol/tasks": {}}})
    );
    assert!(found["instructions"].as_str().unwrap().contains("Ask two."), "{found}");
    let found = own.json("server/discover", "{}").await["result"].clone();
    assert_eq!(found["instructions"], "Ask two.");
    let extensions =
        json!({"io.modelcontextprotocol/ui": {"n": 1}, "io.modelcontextprotocol/tasks": {}, "acme/x": {}});
    assert_eq!(found["capabilities"]["extensions"], extensions);
    assert_eq!(found["capabilities"]["experimental"], json!({"x": 1}));
    for (method, key, count) in [
        ("tools/list", "tools", 2),
        ("prompts/list", "prompts", 2),
        ("resources/list", "resources", 2),
        ("resources/templates/list", "resourceTemplates", 2),
    ] {
        let (first, second) = (all.json(method, "{}").await, all.json(method, "{}").await);
        is_modern(&first["result"], true);
        assert_eq!(first["result"][key].as_array().unwrap().len(), count);
        assert_eq!(first["result"][key].to_string(), second["result"][key].to_string(), "in the same order");
        assert_eq!(first["result"]["cacheScope"], second["result"]["cacheScope"]);
    }
    assert_eq!((one.seen().len(), two.seen().len()), seen, "no server was asked");
}

fn waiting(gate: &CancellationToken) -> Script {
    let gate = gate.clone();
    Script::answering(move |_| Reply::Steps(vec![Step::Wait(gate.clone()), answer("done")]))
}

#[tokio::test]
async fn an_answer_that_comes_first_is_json_however_late_and_events_have_no_ids() {
    let gate = CancellationToken::new();
    let told = Fake::http(Script::answering(|_| Reply::Steps(vec![progress(), answer("told")])));
    let slow = Fake::stdio(waiting(&gate));
    let servers = entries(&[("told", told.entry()), ("slow", slow.entry())]);
    let world = World::start(&file("", &servers)).await.ready().await;
    let client = Modern::new(&world, "/mcp");
    let opener = async {
        slow.saw(|seen| seen.method == "tools/call").await;
        tokio::time::sleep(Duration::from_millis(1500)).await; // beyond what a client with a session waits
        gate.cancel();
    };
    let (late, ()) = tokio::join!(async { client.post(&client.calling("who_mcp_slow", "{}")).await }, opener);
    assert_eq!((late.status, late.headers["content-type"].as_bytes()), (200, &b"application/json"[..]));
    assert!(late.text.contains("done"), "{}", late.text);

    let asking = client.saying(r#""progressToken":"\u0061""#);
    let mut events = asking.stream(&asking.calling("who_mcp_told", "{}")).await;
    let first = events.event().await.unwrap();
    assert_eq!((first.data, first.id, first.retry), (PROGRESS.replace("$ID", r#""\u0061""#), None, None));
    let last = events.event().await.unwrap();
    assert!(last.data.contains("\"result\"") && last.id.is_none(), "{last:?}");
    assert!(events.event().await.is_none());
    // Without a token, there is nothing before the answer; nor for a client that takes JSON alone.
    assert!(client.post(&client.calling("who_mcp_told", "{}")).await.text.starts_with('{'));
    let json = asking.with("accept", "application/json");
    let answer = json.post(&json.calling("who_mcp_told", "{}")).await;
    assert!(answer.text.starts_with('{') && answer.text.contains("told"), "{}", answer.text);
}

#[tokio::test]
async fn a_refusal_that_comes_late_still_has_its_status() {
    let refusing = |code: i64, told: bool| {
        Script::answering(move |_| {
            let mut steps = vec![Step::Rest(Duration::from_millis(300))];
            steps.extend(told.then(progress));
            steps.push(Step::Send(format!(
                r#"{{"jsonrpc":"2.0","id":$ID,"error":{{"code":{code},"message":"m"}}}}"#
            )));
            Reply::Steps(steps)
        })
    };
    let fakes = [
        (-32601, false, 404),
        (-32600, false, 400),
        (-32602, false, 200),
        (-32603, false, 200),
        (-32601, true, 200),
    ]
    .map(|(code, told, status)| (Fake::http(refusing(code, told)), code, status));
    let names = ["a", "b", "c", "d", "e"];
    let servers: Vec<_> =
        names.into_iter().zip(&fakes).map(|(name, (fake, ..))| (name, fake.entry())).collect();
    let world = World::start(&file("", &entries(&servers))).await.ready().await;
    for (name, (_, code, status)) in names.into_iter().zip(&fakes) {
        // Where others are there as well, -32601 of one of them would not be the answer.
        let client = Modern::new(&world, &format!("/mcp/{name}")).saying(r#""progressToken":1"#);
        for accept in ["application/json, text/event-stream", "application/json", "text/event-stream"] {
            let asked = client.with("accept", accept);
            let told = asked.post(&asked.calling("who", "{}")).await;
            let wanted = if name == "e" && !accept.contains("event") { 404 } else { *status };
            assert_eq!(told.status, wanted, "{name} {accept}: {}", told.text);
            assert!(told.text.contains(&code.to_string()), "{}", told.text);
        }
    }
}

#[tokio::test]
async fn whoever_hangs_up_has_cancelled() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let gate = CancellationToken::new();
        let told = {
            let gate = gate.clone();
            Script::answering(move |_| {
                Reply::Steps(vec![progress(), Step::Wait(gate.clone()), answer("done")])
            })
        };
        let (told, silent) = (make(told), make(waiting(&gate)));
        let servers = entries(&[("told", told.entry()), ("silent", silent.entry())]);
        let world = World::start(&file("", &servers)).await.ready().await;
        let client = Modern::new(&world, "/mcp").saying(r#""progressToken":1"#);
        let mut events = client.stream(&client.calling("who_mcp_told", "{}")).await;
        assert!(events.next().await.unwrap().contains("progress"));
        drop(events);
        let id = told.seen_of("tools/call")[0].id.clone().unwrap();
        let heard = told.saw(|seen| seen.method == "notifications/cancelled").await;
        assert_eq!(heard.params()["requestId"].to_string(), id);
        // Before anything was answered, too.
        for accept in ["application/json, text/event-stream", "application/json"] {
            let asked = client.with("accept", accept);
            let before = silent.seen_of("notifications/cancelled").len();
            let text = asked.calling("who_mcp_silent", "{}");
            let calls = silent.seen_of("tools/call").len();
            tokio::select! {
                _ = asked.send(&text) => panic!("there is no answer"),
                () = until("it is called", async || (silent.seen_of("tools/call").len() > calls).then_some(())) => {}
            }
            until("it is cancelled", async || {
                (silent.seen_of("notifications/cancelled").len() > before).then_some(())
            })
            .await;
        }
        let series = |server| {
            format!(
                "trunkline_requests_total{{method=\"tools/call\",outcome=\"cancelled\",server=\"{server}\"}}"
            )
        };
        until("all are counted", async || {
            let counts = (world.metric(&series("told")).await, world.metric(&series("silent")).await);
            (counts == (1.0, 2.0)).then_some(())
        })
        .await;
        assert_eq!(told.seen_of("notifications/cancelled").len(), 1);
        let series = world.metric("trunkline_streams").await;
        assert!(series < 0.5, "no stream is left open: {series}");
    }
}

#[tokio::test]
async fn a_silent_call_shows_that_it_lives() {
    let gate = CancellationToken::new();
    let (world, _slow) = one(waiting(&gate)).await;
    let client = Modern::new(&world, "/mcp");
    let started = Instant::now();
    let mut events = client.stream(&client.calling("who_mcp_one", "{}")).await;
    let headers = started.elapsed();
    assert!((9..13).contains(&headers.as_secs()), "{headers:?}");
    assert_eq!(events.block().await.unwrap(), ": \n\n");
    assert_eq!(events.block().await.unwrap(), ": \n\n");
    let quiet = started.elapsed();
    assert!((24..29).contains(&quiet.as_secs()), "{quiet:?}");
    gate.cancel();
    assert!(next(&mut events).await["result"].is_object());
    assert_eq!(events.next().await, None);
    println!("headers after {headers:?}, the next sign of life after {quiet:?}");
}

const UPDATED: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"$URI","x":1.50}}"#;
const ID: &str = "io.modelcontextprotocol/subscriptionId";

#[tokio::test]
async fn whoever_listens_hears_what_was_asked_for_under_its_id() {
    let (one, two) = (Fake::http(full("one")), Fake::stdio(full("two")));
    let deaf = Fake::http(Script {
        resources: vec![r#"{"uri":"deaf://1","name":"d"}"#.into()],
        capabilities: Some(r#"{"tools":{},"resources":{}}"#.into()),
        ..Script::default()
    });
    let servers = entries(&[("one", one.entry()), ("two", two.entry()), ("deaf", deaf.entry())]);
    let world = World::start(&file("", &servers)).await.ready().await;
    one.saw(|seen| seen.kind == "GET").await;
    let client = Modern::new(&world, "/mcp");
    let (ack, mut tools) =
        client.listen(r#"{"toolsListChanged":true,"promptsListChanged":false,"unknown":{"x":1}}"#).await;
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(ack["params"]["notifications"], json!({"toolsListChanged": true}));
    let id = ack["params"]["_meta"][ID].clone();
    assert!(id.is_number(), "{ack}");
    // Another one, under an id of its own and of another type.
    let asked = client.request("subscriptions/listen", r#"{"notifications":{"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["test://one/one","test://two/one","deaf://1","nobody://x"]}}"#);
    let asked = asked.replacen(r#""id":"#, r#""id":"s","was":"#, 1);
    let mut others = client.stream(&asked).await;
    let ack = next(&mut others).await;
    assert_eq!(
        ack["params"]["notifications"],
        json!({"promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["test://one/one", "test://two/one"]})
    );
    for up in [&one, &two] {
        assert_eq!(up.seen_of("resources/subscribe").len(), 1);
    }
    // What nobody asked for goes to nobody; each stream has its own.
    for up in [&one, &two] {
        up.say(
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","data":"d"}}"#,
        );
        up.say(&UPDATED.replace("$URI", "test://one/other"));
        up.say(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#);
        up.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        let told = next(&mut tools).await;
        assert_eq!(
            (&told["method"], &told["params"]["_meta"][ID]),
            (&"notifications/tools/list_changed".into(), &id)
        );
    }
    for (up, uri) in [(&one, "test://one/one"), (&two, "test://two/one")] {
        up.say(&UPDATED.replace("$URI", uri));
        let told = others.next().await.unwrap();
        assert!(told.contains("1.50"), "{told}");
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told["params"]["uri"], &told["params"]["_meta"][ID]), (&uri.into(), &"s".into()));
    }
    two.say(r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#);
    assert_eq!(next(&mut others).await["method"], "notifications/prompts/list_changed");
    one.say(r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#);
    assert_eq!(next(&mut others).await["method"], "notifications/resources/list_changed");
    // Closing it is all it takes.
    drop(others);
    for up in [&one, &two] {
        up.saw(|seen| seen.method == "resources/unsubscribe").await;
    }
    // An own view has its own names and nothing of others.
    let (ack, mut own) = Modern::new(&world, "/mcp/two")
        .listen(r#"{"toolsListChanged":true,"resourceSubscriptions":["test://two/unlisted"]}"#)
        .await;
    assert_eq!(ack["params"]["notifications"]["resourceSubscriptions"], json!(["test://two/unlisted"]));
    one.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    assert_eq!(next(&mut tools).await["method"], "notifications/tools/list_changed");
    two.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    assert_eq!(next(&mut own).await["method"], "notifications/tools/list_changed");
    assert_eq!(next(&mut tools).await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_server_that_is_away_is_asked_to_tell_once_it_is_back() {
    let up = Fake::http(full("up"));
    let file = file("reconnectInterval: 1s", &entries(&[("up", up.entry())]));
    let world = World::start(&file).await.ready().await;
    up.leave().await;
    world.is("up", "down").await;
    let client = Modern::new(&world, "/mcp");
    let (ack, mut events) = client.listen(r#"{"resourceSubscriptions":["test://up/one"]}"#).await;
    assert_eq!(ack["params"]["notifications"]["resourceSubscriptions"], json!(["test://up/one"]));
    up.back();
    let told = next(&mut events).await;
    assert_eq!(told["params"]["uri"], "test://up/one", "a change may have been missed: {told}");
    assert_eq!(up.seen_of("resources/subscribe").len(), 1);
    up.say(&UPDATED.replace("$URI", "test://up/one"));
    assert!(events.next().await.unwrap().contains("1.50"));
}

#[tokio::test]
async fn fault_036_headers_that_repeat_arguments_are_judged() {
    let noted = r#"{"name":"who","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}"#;
    let (world, up) = one(Script { tools: vec![noted.into()], ..Script::default() }).await;
    let client = Modern::new(&world, "/mcp");
    for (arguments, header, code) in [
        (r#"{"region":"eu"}"#, "eu", None),
        (r#"{"region":"eu"}"#, "=?base64?ZXU=?=", None),
        ("{}", "", None),
        (r#"{"region":"eu"}"#, "", Some(-32020)),
        (r#"{"region":"eu"}"#, "EU", Some(-32020)),
        (r#"{"region":"eu"}"#, "=?base64?ZXU?=", Some(-32020)),
    ] {
        let text = client.calling("who_mcp_one", arguments);
        let told = client.headed(&text).with("mcp-param-region", header).post(&text).await;
        let answer: Value = serde_json::from_str(&told.text).unwrap();
        let status = if code.is_some() { 400 } else { 200 };
        assert_eq!((told.status, answer["error"]["code"].as_i64()), (status, code), "{arguments} {header}");
    }
    assert_eq!(up.seen_of("tools/call").len(), 3);
}

#[tokio::test]
async fn a_stream_of_changes_shows_that_it_lives_and_ends_gracefully() {
    let (mut world, one) = one(full("one")).await;
    let client = Modern::new(&world, "/mcp");
    let asked = client.request("subscriptions/listen", r#"{"notifications":{}}"#);
    let json = client.with("accept", "application/json");
    assert_eq!(json.post(&asked).await.status, 406);
    let started = Instant::now();
    let (ack, mut events) = client.listen("{}").await;
    assert_eq!(ack["params"]["notifications"], json!({}));
    let (_, mut gone) = Modern::new(&world, "/mcp/one").listen(r#"{"toolsListChanged":true}"#).await;
    assert_eq!(events.block().await.unwrap(), ": \n\n");
    assert!((14..18).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    // A view that goes ends its streams.
    let two = Fake::http(Script::default());
    world.mount.save(&file("", &entries(&[("two", two.entry())])));
    let last = loop {
        let told = next(&mut gone).await;
        if told["result"].is_object() {
            break told;
        }
    };
    assert_eq!((&last["result"]["resultType"], gone.next().await), (&"complete".into(), None), "{last}");
    drop(one);
    world.signal(nix::sys::signal::Signal::SIGTERM);
    let last = next(&mut events).await;
    assert_eq!(last["result"]["_meta"][ID], last["id"], "{last}");
    assert_eq!(events.next().await, None);
    assert!(world.ended(Duration::from_secs(10)).await.success());
}

#[tokio::test]
async fn clients_of_both_eras_share_one_url() {
    let echo = Script::answering(|seen| {
        let said = seen.params()["arguments"]["said"].as_str().unwrap().to_owned();
        Reply::Steps(vec![progress(), answer(&said)])
    });
    let (world, up) = one(echo).await;
    let world = Arc::new(world);
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..20 {
        let world = world.clone();
        clients.spawn(async move {
            let said = |id: usize| format!(r#"{{"said":"{n}-{id}"}}"#);
            if n % 2 == 0 {
                let client = Modern::new(&world, "/mcp").saying(r#""progressToken":1"#);
                for id in 0..20 {
                    let mut events = client.stream(&client.calling("who_mcp_one", &said(id))).await;
                    assert_eq!(events.next().await.unwrap(), PROGRESS.replace("$ID", "1"));
                    let told = next(&mut events).await;
                    assert_eq!(told["result"]["content"][0]["text"], format!("{n}-{id}"));
                    assert_eq!(told["result"]["resultType"], "complete");
                    assert_eq!(events.next().await, None);
                }
            } else {
                let client = Client::open(&world, "/mcp").await;
                for id in 0..20 {
                    let call = client.request("who_mcp_one", &said(id));
                    let told = client.ask(&call).await;
                    assert!(
                        told.ends_with(&format!("\"result\":{}}}", text(&format!("{n}-{id}")))),
                        "{told}"
                    );
                }
            }
        });
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
    assert_eq!(up.seen_of("tools/call").len(), 400);
    assert!(
        (world.metric("trunkline_sessions").await - 10.0).abs() < 0.1,
        "only those of the older era have sessions"
    );
}
