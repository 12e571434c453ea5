//! Two callers, each with words of his own in every place where there can be any: no byte of one reaches the other, nor the
//! log, the status or the metrics.

use std::sync::Arc;

use serde_json::Value;
use tokio::task::JoinSet;

use super::keys_auth::{ALICE, BOB, guarded, open};
use crate::support::{
    Client, Fake, Modern, Reply, Script, Seen, Step, World, hello, scaled, text, tool, until,
};

/// Words of `name`: what a caller plants.
fn word(name: &str, place: &str) -> String {
    format!("canary-{name}-{place}")
}

/// Lists what its headers say, and in the middle of a call says everything that it knows in every way that there is.
fn tattler() -> Script {
    Script {
        capabilities: Some(r#"{"tools":{"listChanged":true},"logging":{}}"#.into()),
        listing: Some(Arc::new(|seen: &Seen| {
            let of = seen.header("x-word");
            let described = tool("tell").replace("\"name\"", &format!("\"description\":\"{of}\",\"name\""));
            let tools =
                if of.is_empty() { described } else { format!("{described},{}", tool(&format!("of-{of}"))) };
            Reply::Result(format!(r#"{{"tools":[{tools}]}}"#))
        })),
        other: Arc::new(|_| Reply::Result("{}".into())),
        ..Script::answering(tell)
    }
}

fn tell(seen: &Seen) -> Reply {
    let me = seen.params()["arguments"]["me"].as_str().unwrap_or_default().to_owned();
    let all = format!("{me} {} {}", seen.header("x-word"), seen.path);
    let log = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"error","data":"log {all}"}}}}"#
    );
    let progress = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progress":1,"progressToken":$ID,"message":"progress {all}"}}}}"#
    );
    let other = format!(r#"{{"jsonrpc":"2.0","method":"notifications/other","params":{{"x":"{all}"}}}}"#);
    let mut steps = vec![Step::Send(log), Step::Send(progress), Step::Send(other)];
    if seen.params()["arguments"]["ask"] == true {
        let ask = format!(
            r#"{{"jsonrpc":"2.0","id":"ask-{me}","method":"elicitation/create","params":{{"message":"ask {all}","requestedSchema":{{"type":"object","properties":{{}}}}}}}}"#
        );
        steps.push(Step::Ask(ask, format!(r#""ask-{me}""#)));
    }
    let result = format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{}}}"#, text(&format!("answer {all}")));
    steps.push(Step::Send(result));
    Reply::Steps(steps)
}

/// Everything that a caller was sent.
#[derive(Default)]
struct Heard(String);

impl Heard {
    fn note(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }
}

/// A client of `name` with a session, all of whose requests bear his words.
async fn visit(world: &World, path: &str, name: &str, key: &str) -> Client {
    let client = open(world, path, key).await;
    let able = hello("2025-11-25").replace(r#""capabilities":{}"#, r#""capabilities":{"elicitation":{}}"#);
    let opened = client.with("mcp-session-id", "").with("mcp-protocol-version", "").post(&able).await;
    let id = opened.headers["mcp-session-id"].to_str().unwrap();
    let client = client.with("mcp-session-id", id);
    client.with("x-word", &word(name, "header")).with("x-path", &word(name, "path"))
}

/// Calls the tool and does what it asks for; everything heard.
async fn call(client: &Client, tool: &str, me: &str) -> String {
    let request = client.request(tool, &format!(r#"{{"me":"{me}","ask":true}}"#));
    let request = request.replace(r#""name""#, r#""_meta":{"progressToken":7},"name""#);
    let (mut heard, mut events) = (Heard::default(), client.stream(&request).await);
    while let Some(message) = events.next().await {
        heard.note(&message);
        let message: Value = serde_json::from_str(&message).unwrap();
        if message["method"] == "elicitation/create" {
            let answer = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept","content":{{"x":"{me}"}}}}}}"#,
                message["id"]
            );
            assert_eq!(client.post(&answer).await.status, 202);
        }
    }
    heard.0
}

/// One caller with two clients that call at once, a third without a session, and a stream open all the while.
async fn act(
    world: Arc<World>,
    asks: bool,
    (path, tool): (&'static str, &'static str),
    name: &'static str,
    key: &'static str,
) -> String {
    let mut heard = Heard::default();
    let (one, two) = (visit(&world, path, name, key).await, visit(&world, path, name, key).await);
    let modern = Modern::new(&world, path).with("x-api-key", key).with("x-word", &word(name, "header"));
    let modern = modern.with("x-path", &word(name, "path"));
    let mut stream = one.listen().await;
    let listening = async {
        let mut all = String::new();
        // Ends with the session.
        while let Some(message) = stream.next().await {
            all.push_str(&message);
        }
        all
    };
    let calling = async {
        let mut heard = Heard::default();
        for round in 0..scaled(10, 100) {
            let words = [1, 2, 3].map(|n| format!("{}-{round}-{n}", word(name, "body")));
            let arguments = format!(r#"{{"me":"{}"}}"#, words[2]);
            let (first, second, third) = tokio::join!(
                call(&one, tool, &words[0]),
                call(&two, tool, &words[1]),
                modern.call(tool, &arguments)
            );
            for (text, word) in [(&first, &words[0]), (&second, &words[1]), (&third.to_string(), &words[2])] {
                assert!(text.contains(&format!("answer {word}")), "{text}");
            }
            assert!(first.contains("progress ") && (!asks || first.contains("ask ")), "{first}");
            for text in [first, second, third.to_string()] {
                heard.note(&text);
            }
            for list in [one.json("tools/list", "{}").await, modern.json("tools/list", "{}").await] {
                heard.note(&list.to_string());
            }
        }
        assert_eq!(one.whole(hyper::Method::DELETE, "").await.status, 204);
        heard.0
    };
    let (told, answered) = tokio::join!(listening, calling);
    heard.note(&told);
    heard.note(&answered);
    heard.0
}

#[tokio::test]
async fn no_byte_of_one_caller_reaches_another() {
    let handed = r#", "headers": {"x-word": "{{header.x-word}}", "x-who": "{{principal.sub}}"}"#;
    let kinds = [
        ("filled in", Fake::http(tattler()), handed),
        ("filled in, with sessions", Fake::http(Script { sessions: true, ..tattler() }), handed),
        ("one for each session", Fake::http(Script { sessions: true, tells: true, ..tattler() }), ""),
        (
            "one for each principal",
            Fake::http(Script { sessions: true, ..tattler() }),
            r#", "scope": "principal""#,
        ),
        (
            "one for each request",
            Fake::http(Script { sessions: true, ..tattler() }),
            r#", "scope": "request""#,
        ),
        ("one for all", Fake::http(tattler()), ""),
        ("a child for each principal", Fake::stdio(tattler()), ""),
    ];
    for (kind, up, more) in kinds {
        let entry = up.entry_with(more);
        let entry = if more == handed { entry.replace("/mcp\"", "/{{header.x-path}}/mcp\"") } else { entry };
        let world = Arc::new(World::start(&guarded("", &[("up", entry)])).await.ready().await);
        // Whose call a child's question belongs to nobody can say while its caller makes two at once.
        let asks = !kind.contains("child");
        let mut callers = JoinSet::new();
        callers.spawn(act(world.clone(), asks, ("/mcp", "tell_mcp_up"), "alice", ALICE));
        callers.spawn(act(world.clone(), asks, ("/mcp/up", "tell"), "bob", BOB));
        let heard = callers.join_all().await;
        for (text, other) in heard.iter().flat_map(|text| [(text, "alice"), (text, "bob")]) {
            let own = if text.contains("canary-alice") { "alice" } else { "bob" };
            let theirs = text.match_indices(&format!("canary-{other}")).count();
            assert!(other == own || theirs == 0, "{kind}: {own} has heard {other}'s words {theirs} times");
        }
        for name in ["alice", "bob"] {
            let log = format!("log canary-{name}");
            assert!(heard.iter().any(|text| text.contains(&log)), "{kind}: {name}'s log");
        }
        if more == handed {
            for (text, place) in heard.iter().flat_map(|text| [(text, "header"), (text, "path")]) {
                assert!(text.contains(&format!("-{place}")), "{kind}: each sees his own {place}");
            }
        }
        for path in ["/status", "/metrics"] {
            assert!(!world.admin(path).await.1.contains("canary-"), "{kind}: {path}");
        }
        let log = format!("{:?}", world.log());
        assert!(!log.contains("canary-") && log.contains("tell"), "{kind}: the log");
        assert!(!log.contains(ALICE) && !log.contains(BOB), "{kind}: keys in the log");
        for seen in up.seen() {
            let whose = seen.header("x-who");
            let text = format!("{}{}{}", seen.text, seen.path, seen.header("x-word"));
            let other = if whose == "alice" { "canary-bob" } else { "canary-alice" };
            assert!(whose.is_empty() || !text.contains(other), "{kind}: {whose}'s connection bears {text}");
            assert!(!format!("{:?}", seen.headers).contains("0123456789abcdef"), "{kind}: a key of ours");
        }
    }
}

#[tokio::test]
async fn a_failure_tells_nothing_of_what_a_caller_brought() {
    let up =
        Fake::http(Script { refusal: Some(Reply::Text("canary-alice-header".into())), ..Script::default() });
    let entry = up.entry_with(r#", "headers": {"x-word": "{{header.x-word}}"}"#);
    let mut world = World::start(&guarded("", &[("up", entry)])).await.ready().await;
    let alice = visit(&world, "/mcp/up", "alice", ALICE).await;
    let answer = alice.call("tell", "{}").await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(!answer.to_string().contains("canary-"), "{answer}");
    world.logged("could not be made").await;
    until("the status says nothing of it", async || {
        (!world.admin("/status").await.1.contains("canary-")).then_some(())
    })
    .await;
    assert!(!format!("{:?}", world.log()).contains("canary-"));
}
