//! Servers that are connected and do not answer: deadlines, the breaker, the bulkhead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Beside, is_stub, said};
use crate::support::Step;
use crate::support::{Act, Client, Fake, PROGRESS, Reply, Script, answer, join, progress, text, tool, until};

const BREAKER: &str = r#", "breaker": {"failures": 3, "window": "1m", "open": "1s"}"#;

#[tokio::test]
async fn fault_072_a_call_that_is_never_answered_ends_at_its_deadline_and_is_cancelled() {
    for make in [Fake::http, Fake::sse, Fake::stdio] {
        let up = make(Script {
            prompts: vec![r#"{"name":"p"}"#.into()],
            capabilities: Some(r#"{"tools":{},"prompts":{}}"#.into()),
            call: Arc::new(|_| Reply::Stall),
            other: Arc::new(|_| Reply::Stall),
            ..Script::default()
        });
        let beside = Beside::start("", &[("up", up.entry_with(r#", "timeout": "400ms""#))]).await;
        let started = Instant::now();
        let (call, prompt, ()) = tokio::join!(
            beside.client.call("who_mcp_up", "{}"),
            beside
                .client
                .ask(r#"{"jsonrpc":"2.0","id":"mine","method":"prompts/get","params":{"name":"p_mcp_up"}}"#),
            beside.others_are_well()
        );
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        assert!(is_stub(&call) && said(&call).contains("server up was silent for 400ms"), "{call}");
        assert!(said(&call).contains("may have taken effect"), "{call}");
        let prompt: Value = serde_json::from_str(&prompt).unwrap();
        assert_eq!((&prompt["error"]["code"], &prompt["id"]), (&(-32603).into(), &"mine".into()), "{prompt}");
        assert!(!prompt["error"]["message"].as_str().unwrap().contains("effect"), "it only reads: {prompt}");
        for method in ["tools/call", "prompts/get"] {
            let id = up.seen_of(method)[0].id.clone().unwrap();
            let told = format!(r#""requestId":{id},"#);
            up.saw(|seen| seen.method == "notifications/cancelled" && seen.text.contains(&told)).await;
        }
    }
}

#[tokio::test]
async fn fault_077_a_call_ends_in_time_however_much_its_server_says() {
    let up = Fake::faulty(Script::answering(|seen| {
        let noise = seen.fill(&format!("data: {PROGRESS}\n\n"));
        Reply::Raw(vec![Act::events(), Act::Flood(noise.into(), crate::support::ENDLESS)])
    }));
    let pipe = Fake::stdio(Script::answering(|_| {
        let rest = Step::Rest(Duration::from_millis(20));
        Reply::Steps((0..500).flat_map(|_| [progress(), rest.clone()]).collect())
    }));
    let times = r#", "timeout": "1s", "maxTotal": "1500ms""#;
    let beside = Beside::start("", &[("up", up.entry_with(times)), ("pipe", pipe.entry_with(times))]).await;
    for tool in ["who_mcp_up", "who_mcp_pipe"] {
        let started = Instant::now();
        let (call, ()) = tokio::join!(beside.client.call(tool, "{}"), beside.others_are_well());
        let took = started.elapsed();
        assert!(is_stub(&call) && said(&call).contains("had 1.5s"), "{call}");
        assert!(said(&call).contains("may have taken effect"), "{call}");
        assert!((1400..4000).contains(&took.as_millis()), "{took:?}");
    }
}

#[tokio::test]
async fn fault_084_calls_that_hang_are_stopped_and_the_list_stays() {
    let up = Fake::http(Script::answering(|_| Reply::Stall));
    let entry = up.entry_with(&format!(r#", "timeout": "300ms"{BREAKER}"#));
    let beside = Beside::start("reconnectInterval: 500ms", &[("up", entry)]).await;
    let (client, world) = (&beside.client, &beside.world);
    let list = client.tools().await;
    for _ in 0..3 {
        // Those side by side are one round.
        for answer in join((0..5).map(|_| client.call("who_mcp_up", "{}"))).await {
            assert!(said(&answer).contains("silent"), "{answer}");
        }
    }
    let opened = Instant::now();
    let (answer, ()) = tokio::join!(client.call("who_mcp_up", "{}"), beside.others_are_well());
    assert!(is_stub(&answer) && said(&answer).contains("given a rest"), "{answer}");
    assert!(answer["result"]["_meta"]["trunkline/retryAfterMs"].as_u64().unwrap() <= 1100, "{answer}");
    let status = world.server("up").await;
    assert_eq!(
        (&status["state"], &status["breaker"]["state"]),
        (&"ready".into(), &"open".into()),
        "{status}"
    );
    assert!(status["breaker"]["reason"].as_str().unwrap().contains("did not answer in time"), "{status}");
    assert!(world.metric(r#"trunkline_upstream_breaker{server="up",state="open"}"#).await > 0.5);
    assert_eq!(client.tools().await, list);
    // One probe at a time; the rest after it is twice as long.
    until("it was tried again", async || {
        let answers = join((0..5).map(|_| client.call("who_mcp_up", "{}"))).await;
        assert!(answers.iter().all(is_stub));
        (world.server("up").await["breaker"]["times"] == 2).then_some(())
    })
    .await;
    assert_eq!(up.seen_of("tools/call").len(), 16, "more than one probe");
    assert!(opened.elapsed() >= Duration::from_millis(900));
    up.saw(|seen| seen.method == "ping").await;
    up.change(|script| script.call = Arc::new(|_| Reply::Result(text("here"))));
    until("it is well", async || (said(&client.call("who_mcp_up", "{}").await) == "here").then_some(()))
        .await;
    assert!(world.server("up").await["breaker"].is_null());
    assert_eq!(up.seen_of("initialize").len(), 1, "it was never connected anew");
    let turned =
        world.metric(r#"trunkline_upstream_calls_turned_away_total{reason="breaker",server="up"}"#).await;
    assert!(turned > 5.0, "{turned}");
    // One line each time that calls are stopped, one when they are not any more.
    let of_it = |text: &str| {
        let of_it = |line: &Value| line["message"].as_str().is_some_and(|said| said.contains(text));
        world.log().into_iter().filter(of_it).collect::<Vec<_>>()
    };
    until("that it is well is told", async || of_it("answers calls again").first().map(|_| ())).await;
    let (stopped, gone_on) = (of_it("gets none for"), of_it("answers calls again"));
    assert!(stopped.len() >= 2 && stopped.len() <= up.seen_of("tools/call").len() - 15, "{stopped:?}");
    for (line, times) in stopped.iter().zip(1..) {
        assert_eq!(
            (&line["level"], &line["server"], &line["times"]),
            (&"WARN".into(), &"up".into(), &times.into())
        );
        assert!(line["why"].as_str().unwrap().contains("did not answer in time"), "{line}");
    }
    assert_eq!(
        (gone_on.len(), &gone_on[0]["level"], &gone_on[0]["server"]),
        (1, &"INFO".into(), &"up".into())
    );
}

#[tokio::test]
async fn fault_084_a_list_that_hangs_leaves_calls_and_connection_alone() {
    let hangs = Arc::new(AtomicBool::new(false));
    let stalls = hangs.clone();
    let up = Fake::http(Script {
        overrule: Some(Arc::new(move |seen| {
            (seen.method == "tools/list" && stalls.load(Ordering::Acquire)).then_some(Reply::Stall)
        })),
        ..Script::default()
    });
    let entry = up.entry_with(r#", "connectTimeout": "300ms""#);
    let limits = "reconnectInterval: 300ms, refreshInterval: 200ms";
    let beside = Beside::start(limits, &[("up", entry)]).await;
    let (client, world) = (&beside.client, &beside.world);
    let list = client.tools().await;
    hangs.store(true, Ordering::Release);
    let problem = until("it is told", async || {
        assert_eq!(said(&client.call("who_mcp_up", "{}").await), "here");
        world.server("up").await["toolsProblem"].as_str().map(str::to_owned)
    })
    .await;
    assert!(problem.contains("did not list what it has within 300ms"), "{problem}");
    up.saw(|seen| seen.method == "ping").await;
    let before = up.seen_of("tools/list").len();
    until("it is asked again and again", async || {
        assert_eq!(said(&client.call("who_mcp_up", "{}").await), "here");
        assert_eq!(client.tools().await, list);
        (up.seen_of("tools/list").len() >= before + 3).then_some(())
    })
    .await;
    assert_eq!(
        (world.server("up").await["state"].as_str(), up.seen_of("initialize").len()),
        (Some("ready"), 1)
    );
}

#[tokio::test]
async fn fault_084_a_server_that_falls_silent_does_not_stay_ready() {
    let silent = Arc::new(AtomicBool::new(false));
    for make in [Fake::http, Fake::stdio] {
        let stalls = silent.clone();
        let overrule = move |_: &_| stalls.load(Ordering::Acquire).then_some(Reply::Stall);
        let up = make(Script { overrule: Some(Arc::new(overrule)), ..Script::default() });
        let entry = up.entry_with(&format!(r#", "timeout": "200ms", "connectTimeout": "500ms"{BREAKER}"#));
        let beside = Beside::start("reconnectInterval: 500ms", &[("up", entry)]).await;
        let (client, world) = (&beside.client, &beside.world);
        assert_eq!(said(&client.call("who_mcp_up", "{}").await), "here");
        silent.store(true, Ordering::Release);
        until("it is down", async || {
            assert!(is_stub(&client.call("who_mcp_up", "{}").await));
            (world.server("up").await["state"] == "down").then_some(())
        })
        .await;
        beside.others_are_well().await;
        silent.store(false, Ordering::Release);
        let healed = Instant::now();
        until("it is well", async || (said(&client.call("who_mcp_up", "{}").await) == "here").then_some(()))
            .await;
        assert!(healed.elapsed() < Duration::from_millis(2500), "{:?}", healed.elapsed());
    }
}

#[tokio::test]
async fn fault_085_one_call_more_than_a_server_gets_is_told_so_at_once() {
    let gate = CancellationToken::new();
    let opened = gate.clone();
    let up = Fake::faulty(Script {
        tools: vec![tool("who")],
        call: Arc::new(move |seen| {
            let text = seen.answer(r#"{"content":[{"type":"text","text":"here"}]}"#);
            let head = format!(
                "HTTP/1.1 200 .\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                text.len()
            );
            let (start, rest) = text.split_at(10);
            let drip = Act::Drip(start.to_owned().into(), 1, Duration::from_millis(100));
            Reply::Raw(vec![Act::bytes(head), drip, Act::Wait(opened.clone()), Act::bytes(rest.to_owned())])
        }),
        ..Script::default()
    });
    let beside = Beside::start("callsPerSession: 1000", &[("up", up.entry())]).await;
    let client = Arc::new(Client::open(&beside.world, "/mcp").await);
    let mut calls = JoinSet::new();
    for _ in 0..256 {
        let client = client.clone();
        calls.spawn(async move { client.call("who_mcp_up", "{}").await });
    }
    until("all are there", async || (up.seen_of("tools/call").len() == 256).then_some(())).await;
    let started = Instant::now();
    let busy = beside.client.call("who_mcp_up", "{}").await;
    let took = started.elapsed();
    assert!(is_stub(&busy) && said(&busy).contains("busy with 256 calls"), "{busy}");
    assert!(took < Duration::from_millis(500), "{took:?}");
    beside.others_are_well().await;
    let full =
        beside.world.metric(r#"trunkline_upstream_calls_turned_away_total{reason="full",server="up"}"#).await;
    assert!((full - 1.0).abs() < 0.1, "{full}");
    gate.cancel();
    while let Some(answer) = calls.join_next().await {
        assert_eq!(said(&answer.unwrap()), "here");
    }
    assert_eq!(said(&beside.client.call("who_mcp_up", "{}").await), "here");
    assert_eq!(up.seen_of("tools/call").len(), 257);
}

#[tokio::test]
async fn fault_085_a_call_that_waits_for_its_client_takes_no_place() {
    let ask = r#"{"jsonrpc":"2.0","id":"q$ID","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}"#;
    let up = Fake::http(Script::answering(move |seen| {
        if seen.params()["arguments"]["asks"] == true {
            return Reply::Steps(vec![Step::Ask(ask.into(), r#""q$ID""#.into()), answer("asked")]);
        }
        Reply::Result(text("here"))
    }));
    let entry = up.entry_with(r#", "limits": {"calls": 1}"#);
    let beside = Beside::start("", &[("up", entry)]).await;
    let able = Client::able(&beside.world, "/mcp", r#"{"elicitation":{}}"#).await;
    let mut asking = able.stream(&able.request("who_mcp_up", r#"{"asks":true}"#)).await;
    let question: Value = serde_json::from_str(&asking.next().await.unwrap()).unwrap();
    assert_eq!(said(&beside.client.call("who_mcp_up", "{}").await), "here");
    let reply = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"decline"}}}}"#, question["id"]);
    assert_eq!(able.post(&reply).await.status, 202);
    assert!(asking.next().await.unwrap().contains("asked"));
}
