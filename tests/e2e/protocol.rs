//! BEHAVIOUR.md §8 and PROTOCOL.md §1.8, from a client's side.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Client, Events, Fake, PROGRESS, Reply, Script, Step, World, answer, entries, error, file, hello,
    progress, text, tool,
};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

async fn two_servers(limits: &str) -> (World, Fake, Fake) {
    let (one, two) = (Fake::http(Script::default()), Fake::http(Script::default()));
    let world = World::start(&file(limits, &entries(&[("one", one.entry()), ("two", two.entry())])))
        .await
        .ready()
        .await;
    (world, one, two)
}

#[tokio::test]
async fn fault_034_unknown_revisions_get_the_newest() {
    let (world, ..) = two_servers("").await;
    let client = Client::new(world.url("/mcp"));
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let answer = client.post(&hello(asked)).await;
        let result: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(result["result"]["protocolVersion"], agreed, "{asked}");
        let session = client.with("mcp-session-id", answer.headers["mcp-session-id"].to_str().unwrap());
        assert_eq!(session.post(PING).await.text, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert_eq!(session.with("mcp-protocol-version", "2099-01-01").post(PING).await.status, 400);
    }
}

#[tokio::test]
async fn fault_037_a_session_is_needed_and_bound_to_its_view_and_ends() {
    let (world, ..) = two_servers("").await;
    let client = Client::open(&world, "/mcp").await;
    assert_eq!(client.with("mcp-session-id", "").post(PING).await.status, 400);
    assert_eq!(client.with("mcp-session-id", "").whole(Method::GET, "").await.status, 400);
    assert_eq!(client.with("mcp-session-id", "").whole(Method::DELETE, "").await.status, 400);
    assert_eq!(client.with("mcp-session-id", "made-up").post(PING).await.status, 404);
    let own = Client::open(&world, "/mcp/one").await;
    let id = own.headers["mcp-session-id"].to_str().unwrap();
    for method in [Method::POST, Method::GET, Method::DELETE] {
        assert_eq!(
            client.with("mcp-session-id", id).whole(method, PING).await.status,
            404,
            "of another view"
        );
    }
    assert_eq!(own.tools().await, ["who"]);
    assert_eq!(client.tools().await, ["who_mcp_one", "who_mcp_two"]);
    let mut stream = own.listen().await;
    assert_eq!(own.whole(Method::DELETE, "").await.status, 204);
    assert_eq!(stream.next().await, None, "the stream ends with its session");
    for method in [Method::POST, Method::GET, Method::DELETE] {
        assert_eq!(own.whole(method, PING).await.status, 404, "ended");
    }
    assert_eq!(client.post(PING).await.status, 200, "others live on");
    assert_eq!(Client::new(world.url("/mcp/nobody")).post(&hello("2025-11-25")).await.status, 404);
}

#[tokio::test]
async fn what_is_malformed_gets_the_right_status_and_code() {
    let (world, one, _two) = two_servers("requestBody: 64KiB").await;
    let client = Client::open(&world, "/mcp").await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}{}}}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    let large =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":"{}"}}}}"#, "x".repeat(64 << 10));
    for (body, status, code) in [
        ("", 400, -32700),
        ("{", 400, -32700),
        ("not json", 400, -32700),
        ("\u{feff}{}", 400, -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#, 400, -32700),
        ("1", 400, -32600),
        ("{}", 400, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, 400, -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600),
        (&deep, 400, -32600),
        (&large, 413, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, 200, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nobody"}}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"made-up"}}"#, 200, -32602),
    ] {
        let answer = client.post(body).await;
        assert_eq!(
            (answer.status, error(&answer.text)),
            (status, Some(code)),
            "{body:.80}: {:.200}",
            answer.text
        );
    }
    assert_eq!(client.whole(Method::POST, &b"{\"a\":\"\xff\"}"[..]).await.status, 400, "no UTF-8");
    for body in [r#"{"jsonrpc":"2.0","method":"no/such"}"#, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#] {
        let answer = client.post(body).await;
        assert_eq!((answer.status, &*answer.text), (202, ""));
    }
    assert!(one.seen_of("tools/call").is_empty(), "nothing of it reached a server");
    assert_eq!(client.post(PING).await.status, 200);
}

#[tokio::test]
async fn headers_are_judged() {
    let (world, ..) = two_servers("").await;
    let client = Client::open(&world, "/mcp").await;
    for (name, value, status) in [
        ("content-type", "text/plain", 415),
        ("content-type", "", 415),
        ("content-encoding", "gzip", 415),
        ("accept", "text/html", 406),
        ("accept", "", 200),
        ("accept", "*/*", 200),
        ("content-type", "application/json; charset=utf-8", 200),
        ("origin", "http://evil.example", 403),
        ("origin", "null", 403),
        ("origin", "http://127.0.0.1.evil.example", 403),
        ("origin", "http://localhost:3000", 200),
        ("host", "evil.example", 403),
        ("host", "localhost.evil.example:80", 403),
        ("host", "localhost:1", 200),
        ("host", "[::1]:1", 200),
    ] {
        let answer = client.with(name, value).post(PING).await;
        assert_eq!(answer.status, status, "{name}: {value}");
        assert_ne!(
            answer.headers.get("access-control-allow-origin").map(hyper::header::HeaderValue::as_bytes),
            Some(&b"*"[..])
        );
    }
    assert_eq!(client.with("accept", "application/json").whole(Method::GET, "").await.status, 406);
    assert_eq!(client.whole(Method::PUT, "").await.status, 405);
    let rejected = world.metric(r#"trunkline_rejected_total{reason="host"}"#).await;
    assert!((rejected - 2.0).abs() < 0.1, "{rejected} refusals are counted");
}

#[tokio::test]
async fn a_second_stream_takes_the_place_of_the_first() {
    let one = Fake::http(Script { tells: true, ..Script::default() });
    let world = World::start(&file("", &entries(&[("one", one.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let mut first = client.listen().await;
    let mut second = client.listen().await;
    assert_eq!(first.next().await, None);
    one.saw(|seen| seen.kind == "GET").await;
    one.change(|script| script.tools.push(tool("new")));
    one.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    let told = second.next().await.unwrap();
    assert!(told.contains("notifications/tools/list_changed"), "{told}");
    assert_eq!(client.tools().await, ["who_mcp_one", "new_mcp_one"]);
}

fn waiting(gate: &CancellationToken) -> Script {
    let gate = gate.clone();
    Script::answering(move |_| Reply::Steps(vec![Step::Wait(gate.clone()), answer("done")]))
}

#[tokio::test]
async fn fault_026_an_id_in_flight_cannot_be_used_again() {
    let gate = CancellationToken::new();
    let one = Fake::http(waiting(&gate));
    let world = World::start(&file("", &entries(&[("one", one.entry())]))).await.ready().await;
    let (client, other) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp").await);
    let call = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"who_mcp_one"}}"#;
    let (first, ()) = tokio::join!(client.ask(call), async {
        one.saw(|seen| seen.method == "tools/call").await;
        let answer = client.post(call).await;
        assert_eq!((answer.status, error(&answer.text)), (200, Some(-32600)), "{}", answer.text);
        gate.cancel();
    });
    assert!(first.starts_with(r#"{"jsonrpc":"2.0","id":5,"result""#));
    assert!(client.ask(call).await.contains("result"), "it is free again");
    assert!(other.ask(call).await.contains("result"), "another client may use it at any time");
}

#[tokio::test]
async fn quick_answers_are_json_and_slow_ones_events_after_a_second() {
    let gate = CancellationToken::new();
    let (quick, slow) = (Fake::http(Script::default()), Fake::http(waiting(&gate)));
    let servers = entries(&[("quick", quick.entry()), ("slow", slow.entry())]);
    let world = World::start(&file("", &servers)).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let answer = client.post(&client.request("who_mcp_quick", "{}")).await;
    assert_eq!((answer.status, answer.headers["content-type"].as_bytes()), (200, &b"application/json"[..]));
    let started = Instant::now();
    let mut events = client.stream(&client.request("who_mcp_slow", "{}")).await;
    let headers = started.elapsed();
    assert!(headers >= Duration::from_millis(900) && headers < Duration::from_secs(3), "{headers:?}");
    gate.cancel();
    assert!(events.next().await.unwrap().contains("\"result\""));
    assert_eq!(events.next().await, None);
    eprintln!("headers of a slow answer after {headers:?}");
}

#[tokio::test]
async fn progress_makes_events_at_once_and_bears_the_clients_own_token() {
    let gate = CancellationToken::new();
    let script = |gate: CancellationToken| {
        Script::answering(move |_| {
            Reply::Steps(vec![
                progress(),
                Step::Send(
                    r#"{"jsonrpc":"2.0","id":"theirs","method":"sampling/createMessage","params":{}}"#.into(),
                ),
                Step::Wait(gate.clone()),
                answer("done"),
            ])
        })
    };
    let fakes = [Fake::http, Fake::sse, Fake::stdio].map(|make| make(script(gate.clone())));
    let names = ["http", "sse", "stdio"];
    let servers = entries(&[0, 1, 2].map(|n| (names[n], fakes[n].entry())));
    let world = World::start(&file("", &servers)).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    for (fake, name) in fakes.iter().zip(names) {
        for (id, token) in ["\"7\"", "7", "\"\\u0061\"", "123456789012345678901234567890"].iter().enumerate()
        {
            let call = format!(
                r#"{{"jsonrpc":"2.0","id":"{name}{id}","method":"tools/call","params":{{"_meta":{{"progressToken":{token}}},"name":"who_mcp_{name}"}}}}"#
            );
            let started = Instant::now();
            let mut events = client.stream(&call).await;
            let told = events.next().await.unwrap();
            assert_eq!(told, PROGRESS.replace("$ID", token), "{name}");
            assert!(started.elapsed() < Duration::from_millis(900), "events from the first progress on");
            fake.saw(|seen| seen.text.contains("theirs") && seen.text.contains("-32601")).await;
            drop(events);
        }
    }
    gate.cancel();
}

#[tokio::test]
async fn clients_with_the_same_ids_and_tokens_never_hear_of_one_another() {
    const CLIENTS: usize = 20;
    const CALLS: usize = 25;
    // What it answers to whom is in the arguments; it answers when the next call has come, so answers cross.
    let crossing = || {
        Script::answering(|seen| {
            let said = seen.params()["arguments"]["said"].as_str().unwrap().to_owned();
            let progress = PROGRESS.replace("total\":2.50", &format!("message\":\"{said}\""));
            Reply::Steps(vec![Step::Send(progress.clone()), Step::Send(progress), answer(&said)])
        })
    };
    let fakes = [Fake::http, Fake::sse, Fake::stdio].map(|make| make(crossing()));
    let names = ["http", "sse", "stdio"];
    let servers = entries(&[0, 1, 2].map(|n| (names[n], fakes[n].entry())));
    let world = Arc::new(World::start(&file("", &servers)).await.ready().await);
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..CLIENTS {
        let world = world.clone();
        clients.spawn(async move {
            let client = Client::open(&world, "/mcp").await;
            for id in 0..CALLS {
                let server = names[(n + id) % names.len()];
                let said = format!("{n}-{id}");
                let call = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"who_mcp_{server}","arguments":{{"said":"{said}"}},"_meta":{{"progressToken":1}}}}}}"#
                );
                let mut events: Events = client.stream(&call).await;
                let mut last = String::new();
                while let Some(event) = events.next().await {
                    assert!(event.contains(&format!("\"{said}\"")), "{said} was told {event}");
                    last = event;
                }
                assert_eq!(last, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, text(&said)));
            }
        });
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
    eprintln!("{} calls of {CLIENTS} clients, each with its own progress and answer", CLIENTS * CALLS);
}
