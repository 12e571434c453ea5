//! Issue 3 and PROTOCOL.md §1.8: a broken stream goes on where it broke.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Method;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Client, Events, Fake, Line, Reply, Script, Step, World, answer, entries, error, file, progress, tool,
    until,
};

const ROUNDS: usize = 100;
const EVENTS: usize = 5;

fn call(tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{{"name":"{tool}","_meta":{{"progressToken":"p"}}}}}}"#
    )
}

/// Message `n` of a call. A child's log messages are of no call, so there all is progress.
fn said(n: usize, server: &str) -> String {
    if n.is_multiple_of(2) && server == "http" {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":{n}}}}}"#
        )
    } else {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":$ID,"progress":{n}}}}}"#
        )
    }
}

/// Tells so many events, waits for the next gate, and so on; then the answer.
fn talkative(gates: &[CancellationToken], server: &'static str) -> Script {
    let gates = gates.to_vec();
    Script::answering(move |_| {
        let round = |(round, gate): (usize, &CancellationToken)| {
            let events = (0..EVENTS).map(move |n| Step::Send(said(round * EVENTS + n, server)));
            events.chain([Step::Wait(gate.clone())]).collect::<Vec<_>>()
        };
        Reply::Steps(gates.iter().enumerate().flat_map(round).chain([answer("done")]).collect())
    })
}

/// Opens the stream again after the event `last`, over a connection of its own.
async fn again(client: &Client, two: bool, last: &str) -> (Line, Events) {
    let client = client.with("last-event-id", last);
    let mut line = Line::open(&client, two).await;
    let response = line.send(&client, Method::GET, String::new()).await;
    (line, Events::of(response).await)
}

#[tokio::test]
async fn cut_100_times_every_event_arrives_once_and_in_order() {
    for (make, server) in [(Fake::http as fn(Script) -> Fake, "http"), (Fake::stdio, "stdio")] {
        for two in [false, true] {
            let gates: Vec<_> = (0..ROUNDS).map(|_| CancellationToken::new()).collect();
            let up = make(talkative(&gates, server));
            let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
            let client = Client::open(&world, "/mcp").await;
            let mut line = Line::open(&client, two).await;
            let mut events = Events::of(line.send(&client, Method::POST, call("who_mcp_up")).await).await;
            let (mut heard, mut ids, mut read_on) = (Vec::new(), HashSet::new(), 0);
            for (round, gate) in gates.iter().enumerate() {
                // Cut before, within and after what there is, and again before the client has read anything new.
                let up_to = (round + 1) * EVENTS;
                let stop = [up_to, up_to - 2, heard.len(), up_to][round % 4];
                while heard.len() < stop {
                    let event = events.event().await.expect("the stream goes on");
                    assert!(ids.insert(event.id.clone().unwrap()), "an id came twice: {event:?}");
                    heard.extend(Some(event.data).filter(|data| !data.is_empty()));
                }
                let last = events.last_id.clone().unwrap();
                drop(events);
                line.cut().await;
                if round % 2 == 0 {
                    gate.cancel(); // what comes now comes while the client is away
                }
                (line, events) = again(&client, two, &last).await;
                gate.cancel();
                // The id of the place where it goes on, so that it can be cut at once.
                let event = events.event().await.unwrap();
                assert!(event.data.is_empty() && ids.insert(event.id.unwrap()));
                read_on += usize::from(stop < up_to);
            }
            while let Some(event) = events.event().await {
                assert!(ids.insert(event.id.unwrap()));
                heard.push(event.data);
            }
            let expected: Vec<_> =
                (0..ROUNDS * EVENTS).map(|n| said(n, server).replace("$ID", "\"p\"")).collect();
            assert_eq!(heard.len(), expected.len() + 1);
            assert_eq!(heard[..expected.len()], expected);
            assert!(heard[expected.len()].contains(r#""id":"mine","result""#));
            assert_eq!(up.seen_of("tools/call").len(), 1);
            assert!(up.seen_of("notifications/cancelled").is_empty());
            let resumed = world.metric(r#"trunkline_streams_resumed_total{result="resumed"}"#).await;
            assert!((resumed - 100.0).abs() < 0.1, "{resumed}");
            eprintln!(
                "{server}, HTTP/{}: cut {ROUNDS} times, {read_on} of them in mid-burst; {} events and the answer, each once, \
                 in order; {} ids, all different",
                if two { "2" } else { "1.1" },
                expected.len(),
                ids.len()
            );
        }
    }
}

/// Tells progress and answers when the gate opens.
fn gated(gate: &CancellationToken) -> Script {
    let gate = gate.clone();
    Script::answering(move |_| Reply::Steps(vec![progress(), Step::Wait(gate.clone()), answer("done")]))
}

async fn one_server(script: Script) -> (World, Fake) {
    let up = Fake::http(script);
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    (world, up)
}

#[tokio::test]
async fn the_answer_waits_for_a_client_that_was_away() {
    let gate = CancellationToken::new();
    let (world, _up) = one_server(gated(&gate)).await;
    for (revision, primes) in [("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)] {
        let client = Client::of(&world, revision).await;
        let mut events = client.stream(&call("who_mcp_up")).await;
        if primes {
            let event = events.event().await.unwrap();
            assert!(event.data.is_empty() && event.retry.is_some(), "{event:?}");
        }
        let event = events.event().await.unwrap();
        assert!(event.data.contains("progress") && event.retry.is_none(), "{event:?}");
        let id = event.id.unwrap();
        drop(events);
        gate.cancel();
        let done = r#"trunkline_requests_in_flight{server="up"}"#;
        until("the call ends", async || (world.metric(done).await < 0.5).then_some(())).await;
        // Twice, since the answer may be cut as well.
        let mut last = id;
        for _ in 0..2 {
            let mut events = client.with("last-event-id", &last).listen().await;
            if primes {
                let event = events.event().await.unwrap();
                last = event.id.unwrap();
                assert!(event.data.is_empty());
            }
            assert!(events.next().await.unwrap().contains(r#""id":"mine","result""#), "{revision}");
            assert_eq!(events.next().await, None);
            if !primes {
                continue;
            }
            // Who has the answer and asks all the same is told to stop.
            let over = client.with("last-event-id", events.last_id.as_ref().unwrap());
            assert_eq!(over.whole(Method::GET, "").await.status, 204);
        }
    }
}

#[tokio::test]
async fn of_two_that_go_on_with_one_stream_the_newer_does() {
    let gate = CancellationToken::new();
    let (world, _up) = one_server(gated(&gate)).await;
    let client = Client::open(&world, "/mcp").await;
    let mut first = client.stream(&call("who_mcp_up")).await;
    let start = first.event().await.unwrap().id.unwrap();
    assert!(first.next().await.unwrap().contains("progress"));
    // Neither connection is cut.
    let mut second = client.with("last-event-id", &start).listen().await;
    assert_eq!(first.next().await, None);
    assert!(second.next().await.unwrap().contains("progress"), "told again: it may not have arrived");
    let mut third = client.with("last-event-id", second.last_id.as_ref().unwrap()).listen().await;
    assert_eq!(second.next().await, None);
    gate.cancel();
    assert!(third.next().await.unwrap().contains("\"result\""));
    assert_eq!(third.next().await, None);
}

#[tokio::test]
async fn what_cannot_be_resumed_is_answered_not_waited_for() {
    let (world, up) = one_server(Script::answering(|_| {
        Reply::Text(r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-7,"message":"no"}}"#.into())
    }))
    .await;
    let client = Client::open(&world, "/mcp").await;
    for made_up in ["x", "1", "c0123456789abcdef", "c0123456789abcdef-x", "\u{e9}"] {
        let answer = client.with("last-event-id", made_up).whole(Method::GET, "").await;
        assert_eq!((answer.status, error(&answer.text)), (400, Some(-32600)), "{made_up}");
        assert!(answer.text.contains("open the stream without it"), "it says what to do: {}", answer.text);
    }
    // A stream of a process before, or one that was dropped: whoever made the call gets an error, and then the end.
    for id in ["7", "\"mine\""] {
        let event = format!("c0123456789abcdef-3-{}", URL_SAFE_NO_PAD.encode(id));
        let mut events = client.with("last-event-id", &event).listen().await;
        let answer = events.next().await.unwrap();
        assert!(answer.contains(&format!(r#""id":{id}"#)) && error(&answer) == Some(-32603), "{answer}");
        assert_eq!(events.next().await, None);
        let over = client.with("last-event-id", events.last_id.as_ref().unwrap());
        assert_eq!(over.whole(Method::GET, "").await.status, 204);
    }
    for event in
        ["c0123456789abcdef-3".into(), format!("c0123456789abcdef-3-{}", URL_SAFE_NO_PAD.encode("1,"))]
    {
        let answer = client.with("last-event-id", &event).whole(Method::GET, "").await;
        assert_eq!(answer.status, 400, "{}", answer.text);
    }
    // An answer that is an error ends its stream like any other, also where it is the only event.
    let mut events = client.with("accept", "text/event-stream").stream(&call("who_mcp_up")).await;
    assert_eq!(error(&events.next().await.unwrap()), Some(-7));
    let mut ping = client
        .with("accept", "text/event-stream")
        .stream(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .await;
    assert!(ping.next().await.unwrap().contains("result"));
    for events in [events, ping] {
        let over = client.with("last-event-id", &events.last_id.unwrap());
        assert_eq!(over.whole(Method::GET, "").await.status, 204);
    }
    // Another session's stream is none of ours.
    let gate = CancellationToken::new();
    up.change(|script| script.call = gated(&gate).call);
    let mut events = client.stream(&call("who_mcp_up")).await;
    events.next().await.unwrap();
    let other = Client::open(&world, "/mcp").await.with("last-event-id", events.last_id.as_ref().unwrap());
    let mut stranger = other.listen().await;
    assert_eq!(error(&stranger.next().await.unwrap()), Some(-32603));
    gate.cancel();
    assert!(events.next().await.unwrap().contains("\"result\""), "and is not disturbed");
}

const CHANGED: &str = "notifications/tools/list_changed";

#[tokio::test]
async fn the_open_stream_goes_on_and_tells_what_was_missed() {
    let gate = CancellationToken::new();
    let (world, up) = one_server(Script { tells: true, ..gated(&gate) }).await;
    let (client, other) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp").await);
    up.saw(|seen| seen.kind == "GET").await;
    let mut watch = other.listen().await;
    let mut changes = async |n: usize| {
        up.change(|script| script.tools.push(tool(&format!("new{n}"))));
        up.say(&format!(r#"{{"jsonrpc":"2.0","method":"{CHANGED}"}}"#));
        assert!(watch.next().await.unwrap().contains(CHANGED));
    };
    let mut line = Line::open(&client, false).await;
    let mut events = Events::of(line.send(&client, Method::GET, String::new()).await).await;
    let start = events.event().await.unwrap();
    assert!(start.data.is_empty() && start.retry.is_some());
    changes(1).await;
    assert!(events.next().await.unwrap().contains(CHANGED));
    let first = events.last_id.clone().unwrap();
    // A call's events stay on the call's stream.
    let mut on_call = client.stream(&call("who_mcp_up")).await;
    assert!(on_call.next().await.unwrap().contains("progress"));
    drop(events);
    line.cut().await;
    let open = "trunkline_streams";
    until("the stream is closed", async || (world.metric(open).await < 2.5).then_some(())).await;
    changes(2).await;
    changes(3).await;
    let mut events = client.with("last-event-id", &first).listen().await;
    assert!(events.next().await.unwrap().contains(CHANGED), "something changed while it was away");
    changes(4).await;
    assert!(events.next().await.unwrap().contains(CHANGED));
    // From an older event on, everything again, and nothing but.
    let mut events = client.with("last-event-id", &start.id.unwrap()).listen().await;
    for _ in 0..3 {
        assert!(events.next().await.unwrap().contains(CHANGED));
    }
    changes(5).await;
    assert!(events.next().await.unwrap().contains(CHANGED));
    // Without an id it goes on where the last one was; with that of another process it starts anew, and is told to look.
    let mut events = client.listen().await;
    changes(6).await;
    assert!(events.next().await.unwrap().contains(CHANGED));
    let mut events = client.with("last-event-id", "g0123456789abcdef-9").listen().await;
    assert!(events.next().await.unwrap().contains(CHANGED));
    gate.cancel();
    assert!(on_call.next().await.unwrap().contains("\"result\""));
    assert_eq!(client.whole(Method::DELETE, "").await.status, 204);
    assert_eq!(events.next().await, None);
}
