//! PROTOCOL.md §2.3 and §2.5: calls that wait for clients without sessions are theirs alone, and for a time only.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    Fake, Modern, Reply, Script, Step, World, answer, entries, file, join, process, standing, tool, until,
    within,
};

const FORMS: &str = r#"{"elicitation":{}}"#;
/// What a client says whose user agreed.
const AGREED: &str = r#"{"action":"accept","content":{"n":1.50}}"#;
const BAD: i64 = -32602;

/// Its tools `who` and `other` ask the user and answer with what the user said.
fn asking() -> Script {
    let script = Script::answering(|_| {
        let leg = r#"{"jsonrpc":"2.0","id":"ask-$ID","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}"#;
        let echo = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":$SAID}}"#;
        Reply::Steps(vec![Step::Ask(leg.into(), "\"ask-$ID\"".into()), Step::Send(echo.into())])
    });
    Script { tools: vec![tool("who"), tool("other")], ..script }
}

async fn started(limits: &str, up: &Fake) -> World {
    World::start(&file(limits, &entries(&[("up", up.entry())]))).await.ready().await
}

/// The `params` of a call, or of its retry with this state, raw, and these answers, raw.
fn params(tool: &str, arguments: &str, retry: Option<(&str, &str)>) -> String {
    let retry = retry.map_or(String::new(), |(state, answers)| {
        format!(r#","requestState":{state},"inputResponses":{answers}"#)
    });
    format!(r#"{{"name":"{tool}_mcp_up","arguments":{arguments}{retry}}}"#)
}

/// The state of what asks for input, and the key of the only thing that it asks.
fn asked(answer: &Value) -> (String, String) {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let requests = result["inputRequests"].as_object().unwrap();
    let (key, request) = requests.iter().next().unwrap();
    assert_eq!((requests.len(), &request["method"]), (1, &json!("elicitation/create")), "{answer}");
    (result["requestState"].as_str().unwrap().to_owned(), key.clone())
}

fn agreed(key: &str) -> String {
    format!(r#"{{"{key}":{AGREED}}}"#)
}

/// The state with another letter at `at`.
fn changed(state: &str, at: usize) -> String {
    let mut letters = state.to_owned().into_bytes();
    letters[at] = if letters[at] == b'A' { b'B' } else { b'A' };
    String::from_utf8(letters).unwrap()
}

#[tokio::test]
async fn fault_039_a_state_is_good_for_its_own_call_and_once() {
    let up = Fake::http(asking());
    let (world, elsewhere) = (started("", &up).await, started("", &up).await);
    let client = Modern::able(&world, "/mcp", FORMS);
    let first = client.json("tools/call", &params("who", r#"{"a":1,"b":[2]}"#, None)).await;
    let (state, key) = asked(&first);
    let arguments = r#"{"a":1,"b":[2]}"#;
    let with = |state: &str| params("who", arguments, Some((state, &agreed(&key))));
    let quoted = |state: &str| format!("\"{state}\"");

    let mut tampered = vec![
        format!("{state}-TAMPERED"),
        format!("{state}A"),
        state.chars().skip(1).collect(),
        String::new(),
    ];
    tampered.extend([changed(&state, 4), changed(&state, state.len() / 2), changed(&state, state.len() - 9)]);
    let mut bad: Vec<_> = tampered.iter().map(|state| with(&quoted(state))).collect();
    bad.extend(["7", "{}", "[]"].map(with));
    let good = (&*quoted(&state), &*agreed(&key));
    bad.push(params("other", arguments, Some(good)));
    bad.push(params("who", r#"{"a":1,"b":[3]}"#, Some(good)));
    bad.push(params("who", "{}", Some(good)));
    for params in bad {
        let refused = client.json("tools/call", &params).await;
        assert_eq!(refused["error"]["code"], BAD, "{params}: {refused}");
        assert!(!refused.to_string().contains(&state), "nobody is told the state: {refused}");
    }
    let stranger = Modern::able(&elsewhere, "/mcp", FORMS);
    let refused = stranger.json("tools/call", &with(&quoted(&state))).await;
    assert_eq!(refused["error"]["code"], BAD, "sealed by somebody else: {refused}");

    // In another order it is the same call, and of two at once one wins.
    let reordered = params("who", r#"{ "b":[2], "a":1 }"#, Some(good));
    let both =
        join([with(&quoted(&state)), reordered].iter().map(|params| client.json("tools/call", params))).await;
    let done =
        both.iter().filter(|answer| answer["result"]["structuredContent"]["result"]["content"]["n"] == 1.5);
    assert_eq!(done.count(), 1, "{both:?}");
    assert!(both.iter().any(|answer| answer["error"]["code"] == BAD), "{both:?}");
    let again = client.json("tools/call", &with(&quoted(&state))).await;
    assert_eq!(again["error"]["code"], BAD, "replayed: {again}");
    assert_eq!(up.seen_of("tools/call").len(), 1, "the server saw one call");
}

#[tokio::test]
async fn fault_039_a_state_of_a_round_that_is_over_is_worth_nothing() {
    let script = Script::answering(|_| {
        let leg = |n: u8| {
            let text = r#"{"jsonrpc":"2.0","id":"N-$ID","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}"#;
            Step::Ask(text.replace('N', &n.to_string()), format!("\"{n}-$ID\""))
        };
        Reply::Steps(vec![leg(1), leg(2), answer("both")])
    });
    let up = Fake::http(script);
    let world = started("", &up).await;
    let client = Modern::able(&world, "/mcp", FORMS);
    let call = |retry: Option<(String, String)>| {
        let retry = retry.map(|(state, key)| (format!("\"{state}\""), agreed(&key)));
        let retry = retry.as_ref().map(|(state, answers)| (&**state, &**answers));
        let params = params("who", "{}", retry);
        let client = &client;
        async move { client.json("tools/call", &params).await }
    };
    let first = asked(&call(None).await);
    let second = asked(&call(Some(first.clone())).await);
    assert_ne!(first.0, second.0);
    for key in [&first.1, &second.1] {
        let replayed = call(Some((first.0.clone(), key.clone()))).await;
        assert_eq!(replayed["error"]["code"], BAD, "{replayed}");
    }
    let last = call(Some(second)).await;
    assert_eq!(last["result"]["content"][0]["text"], "both", "{last}");
}

#[tokio::test]
async fn fault_039_who_comes_too_late_is_refused() {
    let up = Fake::http(asking());
    let world = started("holdTime: 1s", &up).await;
    let client = Modern::able(&world, "/mcp", FORMS);
    let (state, key) = asked(&client.call("who_mcp_up", "{}").await);
    // The open question is answered as by a user who wants no more.
    up.saw(|seen| seen.text.contains(r#""action":"cancel""#)).await;
    let held = r#"trunkline_held_calls{server="up"}"#;
    until("nothing waits", async || (world.metric(held).await < 0.5).then_some(())).await;
    let late = params("who", "{}", Some((&format!("\"{state}\""), &agreed(&key))));
    let refused = client.json("tools/call", &late).await;
    assert_eq!(refused["error"]["code"], BAD, "{refused}");
    assert_eq!(up.seen_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_thousand_that_nobody_comes_back_for_leave_nothing_behind() {
    const CALLS: usize = 1000;
    const AT_ONCE: usize = 100;
    let up = Fake::http(asking());
    // Idle connections of clients close after six times the time for a head.
    let world = started("holds: 4000, holdTime: 8s, headerTimeout: 1s", &up).await;
    let client = Modern::able(&world, "/mcp", FORMS);
    let held = r#"trunkline_held_calls{server="up"}"#;
    // The first one makes what stays: threads, pools.
    asked(&client.call("who_mcp_up", "{}").await);
    within(Duration::from_secs(20), "the first is given up", async || {
        (world.metric(held).await < 0.5).then_some(())
    })
    .await;
    let files = || process::fds(world.pid()).saturating_sub(up.connections());
    let before = standing("what it holds", files).await;
    for _ in 0..CALLS / AT_ONCE {
        let texts: Vec<_> = (0..AT_ONCE).map(|_| client.calling("who_mcp_up", "{}")).collect();
        for answer in join(texts.iter().map(|text| client.post(text))).await {
            asked(&serde_json::from_str(&answer.text).unwrap());
        }
    }
    assert!(world.metric(held).await > 0.0, "they wait");
    within(Duration::from_secs(30), "all are given up", async || {
        (world.metric(held).await < 0.5).then_some(())
    })
    .await;
    let abandoned = r#"trunkline_held_calls_total{result="abandoned",server="up"}"#;
    let count = world.metric(abandoned).await;
    assert!((count - 1001.0).abs() < 0.5, "{count}");
    within(Duration::from_secs(30), "what they held is given back", async || {
        (files() <= before).then_some(())
    })
    .await;
    let told = up.seen().iter().filter(|seen| seen.text.contains(r#""action":"cancel""#)).count();
    assert_eq!(told, CALLS + 1, "the server was told of each");
    asked(&client.call("who_mcp_up", "{}").await);
}
