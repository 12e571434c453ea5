//! PROTOCOL.md §2.2 and §2.12: what servers ask clients in the middle of a call.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Client, Events, Fake, Reply, Script, Seen, Step, World, answer, entries, file, join, text,
};

const SAMPLING: &str = r#"{"jsonrpc":"2.0","id":"leg-$ID","method":"sampling/createMessage","params":{"messages":[],"maxTokens":12345678901234567890,"who":"$WHO"}}"#;
const ELICITATION: &str = r#"{"jsonrpc":"2.0","id":"leg-$ID","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}},"who":"$WHO"}}"#;
const ROOTS: &str = r#"{"jsonrpc":"2.0","id":"leg-$ID","method":"roots/list","params":{"who":"$WHO"}}"#;
const ALL: &str = r#"{"roots":{},"sampling":{},"elicitation":{}}"#;

static LAST: AtomicU64 = AtomicU64::new(0);

/// Asks what the arguments say, and answers with what the client said.
fn asking() -> Script {
    Script::answering(|seen| {
        let arguments = &seen.params()["arguments"];
        let leg = match arguments["leg"].as_str().unwrap() {
            "sampling" => SAMPLING,
            "elicitation" => ELICITATION,
            _ => ROOTS,
        };
        let leg = leg.replace("$WHO", arguments["who"].as_str().unwrap());
        // A child of each session counts our ids anew, so its own would not do.
        let id = format!("leg-{}", LAST.fetch_add(1, Ordering::Relaxed));
        let leg = leg.replace("leg-$ID", &id);
        Reply::Steps(vec![Step::Ask(leg, format!("\"{id}\"")), echo()])
    })
}

/// Answers with what the client said last.
fn echo() -> Step {
    Step::Send(r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":$SAID}}"#.into())
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

async fn next(events: &mut Events) -> Value {
    parsed(&events.next().await.expect("another message"))
}

fn response(id: &Value, said: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":1.50,"said":"{said}"}}}}"#)
}

#[tokio::test]
async fn each_is_answered_by_the_client_whose_call_it_is() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(asking());
        let world = World::start(&file("", &entries(&[("up", up.entry_with(r#", "interactive": true"#))])))
            .await
            .ready()
            .await;
        let kinds = [
            ("sampling", "sampling/createMessage"),
            ("elicitation", "elicitation/create"),
            ("roots", "roots/list"),
        ];
        let mut clients = Vec::new();
        for _ in kinds {
            clients.push(Client::able(&world, "/mcp", ALL).await);
        }
        // All three calls are in flight, each with its leg, before any is answered.
        let calls = clients.iter().zip(kinds).map(|(client, (leg, method))| async move {
            let call = client.request("who_mcp_up", &format!(r#"{{"leg":"{leg}","who":"{leg}"}}"#));
            let mut events = client.stream(&call).await;
            let leg_text = events.next().await.unwrap();
            let asked = parsed(&leg_text);
            assert_eq!((&asked["method"], &asked["params"]["who"]), (&method.into(), &leg.into()));
            assert!(leg != "sampling" || leg_text.contains("12345678901234567890"), "as it came: {leg_text}");
            (client, events, asked["id"].clone(), leg)
        });
        let waiting = join(calls).await;
        for (client, mut events, id, leg) in waiting.into_iter().rev() {
            assert_eq!(client.post(&response(&id, leg)).await.status, 202);
            let text = events.next().await.unwrap();
            assert!(text.contains("1.50"), "as it came: {text}");
            let answer = parsed(&text);
            let said = &answer["result"]["structuredContent"];
            assert_eq!(said["result"]["said"], leg, "{answer}");
            assert!(said["id"].as_str().unwrap().starts_with("leg-"), "under the server's own id: {said}");
            assert_eq!(client.post(&response(&id, "again")).await.status, 202, "too late is no error");
        }
    }
}

#[tokio::test]
async fn fault_082_a_client_that_cannot_makes_the_leg_fail_and_not_the_call() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(asking());
        let world = World::start(&file("", &entries(&[("up", up.entry_with(r#", "interactive": true"#))])))
            .await
            .ready()
            .await;
        let (none, url) = (
            Client::open(&world, "/mcp").await,
            Client::able(&world, "/mcp", r#"{"elicitation":{"url":{}}}"#).await,
        );
        let deaf = Client::able(&world, "/mcp", ALL).await.with("accept", "application/json");
        for (client, leg, code) in [
            (&none, "sampling", -32601),
            (&none, "elicitation", -32601),
            (&none, "roots", -32601),
            (&url, "elicitation", -32602),
            (&deaf, "sampling", -32603),
        ] {
            let answer = client.call("who_mcp_up", &format!(r#"{{"leg":"{leg}","who":"x"}}"#)).await;
            assert_eq!(answer["result"]["structuredContent"]["error"]["code"], code, "{leg}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_client_without_a_stream_for_the_call_is_asked_on_its_own_stream() {
    let up = Fake::http(asking());
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::able(&world, "/mcp", ALL).await;
    let mut own = client.listen().await;
    let deaf = client.with("accept", "application/json");
    let (answer, ()) = tokio::join!(deaf.call("who_mcp_up", r#"{"leg":"roots","who":"x"}"#), async {
        let asked = next(&mut own).await;
        client.post(&response(&asked["id"], "here")).await;
    });
    assert_eq!(answer["result"]["structuredContent"]["result"]["said"], "here", "{answer}");
}

#[tokio::test]
async fn fault_082_an_answer_counts_only_from_the_client_that_was_asked() {
    let up = Fake::http(asking());
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let (asked, other) = (Client::able(&world, "/mcp", ALL).await, Client::able(&world, "/mcp", ALL).await);
    let mut events = asked.stream(&asked.request("who_mcp_up", r#"{"leg":"roots","who":"x"}"#)).await;
    let id = next(&mut events).await["id"].clone();
    for forged in [id.clone(), "gw-2".into(), "gw-x".into(), 1.into()] {
        assert_eq!(other.post(&response(&forged, "forged")).await.status, 202);
    }
    assert_eq!(asked.post(&response(&id, "true")).await.status, 202);
    assert_eq!(next(&mut events).await["result"]["structuredContent"]["result"]["said"], "true");
}

#[tokio::test]
async fn a_cancelled_call_cancels_its_legs_at_the_client() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(asking());
        let world = World::start(&file("", &entries(&[("up", up.entry_with(r#", "interactive": true"#))])))
            .await
            .ready()
            .await;
        let client = Client::able(&world, "/mcp", ALL).await;
        let mut events = client.stream(&client.request("who_mcp_up", r#"{"leg":"roots","who":"x"}"#)).await;
        let asked = next(&mut events).await;
        client.post(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#).await;
        let told = next(&mut events).await;
        assert_eq!(
            (&told["method"], &told["params"]["requestId"]),
            (&"notifications/cancelled".into(), &asked["id"])
        );
        assert_eq!(events.next().await, None, "and no answer");
        let cancelled = up.saw(|seen| seen.method == "notifications/cancelled").await;
        assert_eq!(Some(cancelled.params()["requestId"].to_string()), up.seen_of("tools/call")[0].id);
    }
}

#[tokio::test]
async fn a_leg_that_the_server_cancels_is_cancelled_at_the_client() {
    let script = |gate: CancellationToken| {
        Script::answering(move |_| {
            Reply::Steps(vec![
                Step::Send(ROOTS.into()),
                Step::Send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other","reason":"r"}}"#.into()),
                Step::Send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"leg-$ID","reason":"r"}}"#.into()),
                Step::Wait(gate.clone()),
                answer("done"),
            ])
        })
    };
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let gate = CancellationToken::new();
        let up = make(script(gate.clone()));
        let world = World::start(&file("", &entries(&[("up", up.entry_with(r#", "interactive": true"#))])))
            .await
            .ready()
            .await;
        let client = Client::able(&world, "/mcp", ALL).await;
        let mut events = client.stream(&client.request("who_mcp_up", "{}")).await;
        let asked = next(&mut events).await;
        let told = events.next().await.unwrap();
        let expected = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{},"reason":"r"}}}}"#,
            asked["id"]
        );
        assert_eq!(told, expected);
        client.post(&response(&asked["id"], "late")).await;
        gate.cancel();
        assert!(events.next().await.unwrap().contains("done"));
        assert!(
            up.seen().iter().all(|seen| !seen.text.contains("late")),
            "an answer that nobody wants is dropped"
        );
    }
}

#[tokio::test]
async fn an_answered_call_cancels_the_legs_that_are_left() {
    let up =
        Fake::http(Script::answering(|_| Reply::Steps(vec![Step::Send(SAMPLING.into()), answer("done")])));
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::able(&world, "/mcp", ALL).await;
    let mut events = client.stream(&client.request("who_mcp_up", "{}")).await;
    let asked = next(&mut events).await;
    assert_eq!(next(&mut events).await["params"]["requestId"], asked["id"]);
    assert!(events.next().await.unwrap().contains("done"));
}

#[tokio::test]
async fn waiting_for_the_user_is_not_the_servers_silence() {
    let up = Fake::http(asking());
    let entry = up.entry_with(r#", "timeout": "300ms""#);
    let world = World::start(&file("", &entries(&[("up", entry)]))).await.ready().await;
    let client = Client::able(&world, "/mcp", ALL).await;
    let mut events = client.stream(&client.request("who_mcp_up", r#"{"leg":"elicitation","who":"x"}"#)).await;
    let asked = next(&mut events).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await; // it is time itself that is tested
    client.post(&response(&asked["id"], "at last")).await;
    assert_eq!(next(&mut events).await["result"]["structuredContent"]["result"]["said"], "at last");
}

#[tokio::test]
async fn progress_of_a_leg_goes_back_under_the_servers_own_token() {
    let leg = r#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"_meta":{"progressToken":"theirs"},"messages":[]}}"#;
    let up =
        Fake::http(Script::answering(move |_| Reply::Steps(vec![Step::Ask(leg.into(), "7".into()), echo()])));
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::able(&world, "/mcp", ALL).await;
    let mut events = client.stream(&client.request("who_mcp_up", "{}")).await;
    let asked = next(&mut events).await;
    let token = &asked["params"]["_meta"]["progressToken"];
    assert_eq!(token, &asked["id"], "a token of ours: two servers may use the same");
    client.post(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1.50}}}}"#)).await;
    let told = up.saw(|seen| seen.method == "notifications/progress").await;
    assert!(told.text.contains(r#"{"progressToken":"theirs","progress":1.50}"#), "{}", told.text);
    client.post(&response(&asked["id"], "done")).await;
    assert_eq!(next(&mut events).await["result"]["structuredContent"]["id"], 7);
}

#[tokio::test]
async fn log_messages_of_a_call_are_those_that_the_client_wants() {
    let log = |level: &str| {
        Step::Send(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":"{level}"}}}}"#
        ))
    };
    let said = move |_: &Seen| {
        Reply::Steps(vec![log("debug"), log("info"), log("error"), log("loud"), answer("done")])
    };
    let up = Fake::http(Script::answering(said));
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    for (level, heard) in [
        ("", vec!["info", "error", "loud"]),
        ("debug", vec!["debug", "info", "error", "loud"]),
        ("critical", vec!["loud"]),
    ] {
        if !level.is_empty() {
            let id = r#"{"jsonrpc":"2.0","id":"l","method":"logging/setLevel","params":{"level":"LEVEL"}}"#;
            assert_eq!(
                client.ask(&id.replace("LEVEL", level)).await,
                r#"{"jsonrpc":"2.0","id":"l","result":{}}"#
            );
        }
        let mut events = client.stream(&client.request("who_mcp_up", "{}")).await;
        for data in heard {
            assert_eq!(next(&mut events).await["params"]["data"], data, "{level}");
        }
        assert!(events.next().await.unwrap().contains(&text("done")));
    }
    for bad in [r#"{"level":"loud"}"#, r#"{"level":7}"#, "{}"] {
        assert_eq!(client.json("logging/setLevel", bad).await["error"]["code"], -32602, "{bad}");
    }
}
