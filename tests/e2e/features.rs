//! PROTOCOL.md §2.2, §2.7, §3.5 and §3.8: prompts, resources, completion, log levels, and what is told unasked.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Client, Events, Fake, Reply, Script, Seen, Step, World, answer, entries, file, join, until,
};

/// Has everything, and answers every request with what it was asked.
fn full(name: &'static str) -> Script {
    Script {
        capabilities: Some(
            r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{},"experimental":{"x":{"n":1.50}}}"#
                .into(),
        ),
        instructions: Some(format!("Ask {name}.")),
        prompts: vec![r#"{"name":"greet","arguments":[{"name":"whom"}]}"#.into()],
        resources: vec![format!(r#"{{"uri":"test://{name}/one","name":"one"}}"#)],
        templates: vec![format!(r#"{{"uriTemplate":"test://{name}/by-id/{{id}}","name":"t"}}"#)],
        tells: true,
        call: Arc::new(move |_| {
            Reply::Result(format!(
                r#"{{"content":[{{"type":"resource_link","uri":"seen://{name}/1","name":"s"}}]}}"#
            ))
        }),
        other: Arc::new(move |seen| match seen.method.as_str() {
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => Reply::Result("{}".into()),
            "resources/read" => Reply::Result(format!(
                r#"{{"contents":[{{"uri":{},"text":"of {name}"}}]}}"#,
                seen.params()["uri"]
            )),
            _ => Reply::Result(format!(r#"{{"by":"{name}","method":"{}","params":{}}}"#, seen.method, seen.params())),
        }),
        ..Script::default()
    }
}

async fn two() -> (World, Fake, Fake) {
    let (one, two) = (Fake::http(full("one")), Fake::stdio(full("two")));
    let servers = entries(&[("one", one.entry()), ("two", two.entry())]);
    let world = World::start(&file("", &servers)).await.ready().await;
    (world, one, two)
}

async fn next(events: &mut Events) -> Value {
    serde_json::from_str(&events.next().await.expect("another message")).unwrap()
}

fn subscribes(fake: &Fake) -> (usize, usize) {
    (fake.seen_of("resources/subscribe").len(), fake.seen_of("resources/unsubscribe").len())
}

#[tokio::test]
async fn what_servers_have_is_joined_and_their_own_view_has_theirs() {
    let (world, _one, _two) = two().await;
    let hello = |path: &str, revision: &str| {
        let (client, text) = (Client::new(world.url(path)), crate::support::hello(revision));
        async move { serde_json::from_str::<Value>(&client.ask(&text).await).unwrap()["result"].clone() }
    };
    let all = hello("/mcp", "2025-11-25").await;
    let told = json!({"listChanged": true});
    assert_eq!(
        all["capabilities"],
        json!({"tools": told, "prompts": told, "resources": {"listChanged": true, "subscribe": true}, "completions": {}, "logging": {}})
    );
    let text = all["instructions"].as_str().unwrap();
    assert!(
        text.contains("_mcp_") && text.contains("Ask one.") && text.find("Ask one.") < text.find("Ask two."),
        "{text}"
    );
    let own = hello("/mcp/two", "2025-03-26").await;
    assert_eq!(own["instructions"], "Ask two.");
    assert_eq!(own["capabilities"]["experimental"].to_string(), r#"{"x":{"n":1.5}}"#);
}

#[tokio::test]
async fn prompts_and_completions_go_to_whom_the_name_says() {
    let (world, _one, _two) = two().await;
    let (all, own) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp/two").await);
    for (client, name, server) in [
        (&all, "greet_mcp_one", "one"),
        (&all, "greet_mcp_two", "two"),
        (&own, "greet", "two"),
        (&own, "unlisted", "two"),
    ] {
        let answer =
            client.json("prompts/get", &format!(r#"{{"name":"{name}","arguments":{{"whom":"x"}}}}"#)).await;
        let raw = if name == "unlisted" { name } else { "greet" };
        assert_eq!(
            (&answer["result"]["by"], &answer["result"]["params"]["name"]),
            (&server.into(), &raw.into()),
            "{answer}"
        );
        let answer = client.json("completion/complete", &format!(r#"{{"ref":{{"name":"{name}","type":"ref/prompt"}},"argument":{{"name":"whom","value":"w"}}}}"#)).await;
        assert_eq!(
            (&answer["result"]["by"], &answer["result"]["params"]["ref"]["name"]),
            (&server.into(), &raw.into()),
            "{answer}"
        );
    }
    for (client, uri, server) in [
        (&all, "test://two/by-id/{id}", "two"),
        (&all, "test://one/by-id/7", "one"),
        (&all, "test://one/one", "one"),
        (&own, "any://thing", "two"),
    ] {
        let answer = client.json("completion/complete", &format!(r#"{{"ref":{{"type":"ref/resource","uri":"{uri}"}},"argument":{{"name":"id","value":"w"}}}}"#)).await;
        assert_eq!(
            (&answer["result"]["by"], &answer["result"]["params"]["ref"]["uri"]),
            (&server.into(), &uri.into()),
            "{answer}"
        );
    }
    for (method, params, code) in [
        ("prompts/get", r#"{"name":"greet"}"#, -32602),
        ("prompts/get", "{}", -32602),
        ("completion/complete", r#"{"ref":{"type":"ref/prompt","name":"no"},"argument":{}}"#, -32602),
        ("completion/complete", r#"{"ref":{"type":"ref/other","name":"no"}}"#, -32602),
        ("completion/complete", r#"{"ref":7}"#, -32602),
        ("completion/complete", r#"{"ref":{"type":"ref/resource","uri":"no://"},"argument":{}}"#, -32002),
    ] {
        assert_eq!(all.json(method, params).await["error"]["code"], code, "{method} {params}");
    }
}

#[tokio::test]
async fn a_server_that_completes_nothing_gives_no_values_where_several_are_joined() {
    let script = Script {
        capabilities: Some(r#"{"prompts":{}}"#.into()),
        other: Arc::new(|_| {
            Reply::Text(r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}"#.into())
        }),
        ..full("up")
    };
    let up = Fake::http(script);
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let params = r#"{"ref":{"type":"ref/prompt","name":"NAME"},"argument":{"name":"a","value":"b"}}"#;
    let (all, own) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp/up").await);
    let answer = all.json("completion/complete", &params.replace("NAME", "greet_mcp_up")).await;
    assert_eq!(answer["result"], json!({"completion": {"values": []}}));
    assert_eq!(
        own.json("completion/complete", &params.replace("NAME", "greet")).await["error"]["code"],
        -32601
    );
}

#[tokio::test]
async fn resources_are_read_from_whom_they_are() {
    let (world, one, two) = two().await;
    let client = Client::open(&world, "/mcp").await;
    let read = |uri: &str| {
        let params = format!(r#"{{"uri":"{uri}"}}"#);
        let client = &client;
        async move { client.json("resources/read", &params).await }
    };
    let listed = client.json("resources/list", "{}").await;
    assert_eq!(listed["result"]["resources"].as_array().unwrap().len(), 2, "{listed}");
    for (uri, server) in
        [("test://one/one", "one"), ("test://two/one", "two"), ("test://two/by-id/a%20b", "two")]
    {
        let answer = read(uri).await;
        assert_eq!(
            answer["result"]["contents"][0],
            json!({"uri": uri, "text": format!("of {server}")}),
            "{answer}"
        );
    }
    let unknown = read("seen://two/1").await;
    assert_eq!(
        (&unknown["error"]["code"], &unknown["error"]["data"]["uri"]),
        (&(-32002).into(), &"seen://two/1".into())
    );
    client.call("who_mcp_two", "{}").await;
    assert_eq!(read("seen://two/1").await["result"]["contents"][0]["text"], "of two", "a result named it");
    assert_eq!(read("seen://one/1").await["error"]["code"], -32002);
    let own = Client::open(&world, "/mcp/one").await;
    assert_eq!(
        own.json("resources/read", r#"{"uri":"any://thing"}"#).await["result"]["contents"][0]["text"],
        "of one"
    );
    assert_eq!((one.seen_of("resources/read").len(), two.seen_of("resources/read").len()), (2, 3));
}

#[tokio::test]
async fn prefixed_uris_read_the_same_everywhere() {
    let (one, two) = (Fake::http(full("same")), Fake::http(full("same")));
    let mode = r#", "uriMode": "prefixed""#;
    let servers = entries(&[("one", one.entry()), ("two", two.entry_with(mode))]);
    let world = World::start(&file("", &servers)).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let with = "mcp+two:test://same/one";
    let answer = client.json("resources/read", &format!(r#"{{"uri":"{with}"}}"#)).await;
    assert_eq!(answer["result"]["contents"][0]["uri"], with);
    assert_eq!(two.seen_of("resources/read")[0].params()["uri"], "test://same/one");
    let answer = client.call("who_mcp_two", "{}").await;
    assert_eq!(answer["result"]["content"][0]["uri"], "mcp+two:seen://same/1");
    let mut stream = client.listen().await;
    assert_eq!(
        client.json("resources/subscribe", &format!(r#"{{"uri":"{with}"}}"#)).await["result"],
        json!({})
    );
    two.saw(|seen| seen.kind == "GET").await;
    two.say(
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://same/one"}}"#,
    );
    loop {
        let told = next(&mut stream).await;
        if told["method"] == "notifications/resources/updated" {
            break assert_eq!(told["params"]["uri"], with);
        }
    }
    assert_eq!(subscribes(&one), (0, 0));
}

#[tokio::test]
async fn a_hundred_sessions_are_one_subscription_and_the_last_ends_it() {
    let (world, one, _two) = two().await;
    let clients = join((0..100).map(|_| Client::open(&world, "/mcp"))).await;
    let uri = r#"{"uri":"test://one/one"}"#;
    for answer in join(clients.iter().map(|client| client.json("resources/subscribe", uri))).await {
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    assert_eq!(clients[0].json("resources/subscribe", uri).await["result"], json!({}), "again is no error");
    assert_eq!(subscribes(&one), (1, 0));
    let (mut first, mut other) =
        (clients[0].listen().await, Client::open(&world, "/mcp").await.listen().await);
    one.saw(|seen| seen.kind == "GET").await;
    let update = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://one/one/part","n":1.50}}"#;
    one.say(update);
    one.say(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":"l","data":"end"}}"#);
    assert_eq!(first.next().await.unwrap(), update);
    for stream in [&mut first, &mut other] {
        assert_eq!(next(stream).await["params"]["data"], "end", "whoever did not subscribe is not told");
    }
    for client in &clients[1..] {
        assert_eq!(client.json("resources/unsubscribe", uri).await["result"], json!({}));
    }
    assert_eq!(subscribes(&one), (1, 0));
    assert_eq!(
        clients[0].whole(hyper::Method::DELETE, "").await.status,
        204,
        "a session's end unsubscribes, too"
    );
    until("the last has ended it", async || (subscribes(&one) == (1, 1)).then_some(())).await;
}

#[tokio::test]
async fn subscriptions_that_cannot_be_are_refused() {
    let without = Script { capabilities: Some(r#"{"resources":{}}"#.into()), ..full("two") };
    let (one, two) = (Fake::http(full("one")), Fake::http(without));
    let world = World::start(&file(
        "reconnectInterval: 300ms",
        &entries(&[("one", one.entry()), ("two", two.entry())]),
    ))
    .await
    .ready()
    .await;
    let client = Client::open(&world, "/mcp").await;
    for (uri, code) in [("no://such", -32002), ("test://two/one", -32601)] {
        let answer = client.json("resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#)).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    one.leave().await;
    world.is("one", "down").await;
    let answer = client.json("resources/subscribe", r#"{"uri":"test://one/one"}"#).await;
    assert_eq!(
        (&answer["error"]["code"], &answer["error"]["data"]["trunkline/server"]),
        (&(-32603).into(), &"one".into()),
        "{answer}"
    );
    let answer = client.json("prompts/get", r#"{"name":"greet_mcp_one"}"#).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(
        text.starts_with("Prompt greet_mcp_one is unavailable: server one ") && text.contains("Try again in"),
        "{text}"
    );
    assert!(
        answer["error"]["data"]["trunkline/retryAfterMs"].as_u64().is_some_and(|ms| ms <= 300),
        "{answer}"
    );
}

#[tokio::test]
async fn each_kind_of_list_tells_of_its_own_changes() {
    for make in [Fake::http, Fake::stdio] {
        let up = make(full("up"));
        let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
        let mut streams = [
            Client::open(&world, "/mcp").await.listen().await,
            Client::open(&world, "/mcp/up").await.listen().await,
        ];
        up.saw(|seen| seen.kind == "GET" || seen.kind == "START").await;
        for kind in ["prompts", "resources", "tools", "prompts"] {
            let told = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{kind}/list_changed"}}"#);
            up.say(&told);
            for stream in &mut streams {
                assert_eq!(next(stream).await["method"], format!("notifications/{kind}/list_changed"));
            }
        }
    }
}

#[tokio::test]
async fn log_messages_go_to_those_who_want_them_with_the_servers_name() {
    let (world, one, _two) = two().await;
    let (loud, usual, own) = (
        Client::open(&world, "/mcp").await,
        Client::open(&world, "/mcp").await,
        Client::open(&world, "/mcp/one").await,
    );
    assert_eq!(loud.json("logging/setLevel", r#"{"level":"debug"}"#).await["result"], json!({}));
    let told = one.saw(|seen| seen.method == "logging/setLevel").await;
    assert_eq!(told.params()["level"], "debug", "the server is asked for what somebody wants");
    let mut streams = [loud.listen().await, usual.listen().await, own.listen().await];
    one.saw(|seen| seen.kind == "GET").await;
    let log = |level: &str, more: &str| {
        one.say(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}"{more},"data":{{"n":1.50}}}}}}"#));
    };
    log("debug", r#","logger":"a\u0062""#);
    log("warning", "");
    let message = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","logger":"one/ab","data":{"n":1.50}}}"#;
    assert_eq!(streams[0].next().await.unwrap(), message);
    for stream in &mut streams[..2] {
        let told = next(stream).await;
        assert_eq!((&told["params"]["level"], &told["params"]["logger"]), (&"warning".into(), &"one".into()));
    }
    assert!(next(&mut streams[2]).await["params"].get("logger").is_none(), "its own view leaves it as it is");
}

#[tokio::test]
async fn unknown_requests_pass_in_a_servers_own_view_only() {
    let (world, one, two) = two().await;
    let (all, own) = (Client::open(&world, "/mcp").await, Client::open(&world, "/mcp/two").await);
    let answer = own.json("acme/do", r#"{"x":1,"_meta":{"progressToken":"p"}}"#).await;
    assert_eq!(
        (&answer["result"]["by"], &answer["result"]["params"]["x"]),
        (&"two".into(), &1.into()),
        "{answer}"
    );
    assert_eq!(all.json("acme/do", "{}").await["error"]["code"], -32601);
    let saw = |fake: &Fake| fake.seen().iter().filter(|seen: &&Seen| seen.method == "acme/do").count();
    assert_eq!((saw(&one), saw(&two)), (0, 1));
}

#[tokio::test]
async fn a_view_of_the_operators_has_its_servers_and_names_only() {
    let (one, two) = (Fake::http(full("one")), Fake::http(full("two")));
    let servers = entries(&[("one", one.entry()), ("two", two.entry())]);
    let text = format!("{}views: {{mine: {{servers: [two], naming: prefix}}}}\n", file("", &servers));
    let world = World::start(&text).await.ready().await;
    let client = Client::open(&world, "/mcp/mine").await;
    let answer = client.json("prompts/get", r#"{"name":"two_mcp_greet"}"#).await;
    assert_eq!(answer["result"]["by"], "two", "{answer}");
    for (method, params, code) in [
        ("prompts/get", r#"{"name":"one_mcp_greet"}"#, -32602),
        ("resources/read", r#"{"uri":"test://one/one"}"#, -32002),
        ("resources/subscribe", r#"{"uri":"test://one/one"}"#, -32002),
        ("acme/do", "{}", -32601),
    ] {
        assert_eq!(client.json(method, params).await["error"]["code"], code, "{method} {params}");
    }
    assert_eq!(
        client.json("resources/read", r#"{"uri":"test://two/one"}"#).await["result"]["contents"][0]["text"],
        "of two"
    );
    let mut stream = client.listen().await;
    for fake in [&one, &two] {
        fake.saw(|seen| seen.kind == "GET").await;
        fake.say(
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}"#,
        );
    }
    assert_eq!(next(&mut stream).await["params"]["logger"], "two");
}

#[tokio::test]
async fn a_change_told_in_a_call_goes_to_whoever_subscribed() {
    let told =
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://up/one"}}"#;
    let call = Arc::new(move |_: &Seen| Reply::Steps(vec![Step::Send(told.into()), answer("done")]));
    let up = Fake::http(Script { call, ..full("up") });
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let call = || client.request("who_mcp_up", "{}");
    assert!(client.post(&call()).await.text.starts_with(r#"{"jsonrpc""#), "the answer alone");
    client.json("resources/subscribe", r#"{"uri":"test://up/one"}"#).await;
    let mut events = client.stream(&call()).await;
    assert_eq!(events.next().await.unwrap(), told);
}

#[tokio::test]
async fn what_servers_have_is_waited_for_right_after_the_start() {
    for make in [Fake::http, Fake::stdio] {
        let gate = CancellationToken::new();
        let (up, opens) = (make(full("up")), gate.clone());
        up.change(|script| script.greets_after = Some(opens));
        let entry = up.entry_with(r#", "naming": "plain""#);
        let world = World::start(&file("", &entries(&[("up", entry)]))).await;
        let client = Client::open(&world, "/mcp").await;
        let (read, got, called, ()) = tokio::join!(
            client.json("resources/read", r#"{"uri":"test://up/one"}"#),
            client.json("prompts/get", r#"{"name":"greet"}"#),
            client.call("who", "{}"),
            async {
                // After a second the waiting calls are streams.
                let streams = async || (world.metric("trunkline_streams").await > 2.5).then_some(());
                until("all of them wait", streams).await;
                gate.cancel();
            }
        );
        assert_eq!(read["result"]["contents"][0]["text"], "of up", "{read}");
        assert_eq!(
            (&got["result"]["by"], called["result"]["content"].is_array()),
            (&json!("up"), true),
            "{got} {called}"
        );
    }
}
