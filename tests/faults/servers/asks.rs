//! Servers that ask what nobody can be asked, or in a way that nobody can read.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Beside, said};
use crate::support::{Client, Fake, Reply, Script, Step, answer, text};

const ECHO: &str = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":$SAID}}"#;

/// A server that asks `leg` in the middle of a call with arguments, and tells what it was answered.
fn asking(leg: &'static str) -> Script {
    Script::answering(move |seen| {
        if seen.params()["arguments"]["asks"] != true {
            return Reply::Result(text("here"));
        }
        Reply::Steps(vec![Step::Ask(leg.into(), r#""q$ID""#.into()), Step::Send(ECHO.into())])
    })
}

#[tokio::test]
async fn fault_082_a_question_with_forged_relatedness_reaches_nobody_else() {
    // It names the other client's call, which is in flight, in every way that there is.
    let leg = r#"{"jsonrpc":"2.0","id":"q$ID","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"relatedRequestId":5,"requestId":5,"_meta":{"progressToken":5,"relatedRequestId":5,"io.modelcontextprotocol/related-task":{"taskId":"5"}}}}"#;
    for make in [Fake::http, Fake::sse] {
        let gate = CancellationToken::new();
        let (opened, asks) = (gate.clone(), asking(leg).call);
        let up = make(Script::answering(move |seen| {
            if seen.params()["arguments"]["waits"] == true {
                return Reply::Steps(vec![Step::Wait(opened.clone()), answer("waited")]);
            }
            asks(seen)
        }));
        let beside = Beside::start("", &[("up", up.entry_with(r#", "scope": "session""#))]).await;
        let able =
            Client::able(&beside.world, "/mcp", r#"{"sampling":{},"elicitation":{},"roots":{}}"#).await;
        let mut own = able.listen().await;
        let waiting = able.call("who_mcp_up", r#"{"waits":true}"#);
        let asking = async {
            up.saw(|seen| seen.text.contains("waits")).await;
            let asked = beside.client.call("who_mcp_up", r#"{"asks":true}"#).await;
            gate.cancel();
            asked
        };
        let (waited, asked) = tokio::join!(waiting, asking);
        assert_eq!(asked["result"]["structuredContent"]["error"]["code"], -32601, "{asked}");
        assert_eq!(said(&waited), "waited", "{waited}");
        let more = timeout(Duration::from_millis(200), own.next()).await;
        assert!(more.is_err(), "{more:?}");
    }
}

#[tokio::test]
async fn fault_082_a_question_that_nobody_can_read_is_refused_and_its_call_goes_on() {
    for (make, leg) in [Fake::http, Fake::sse, Fake::stdio].into_iter().flat_map(|make| {
        let odd = [
            r#"{"jsonrpc":"2.0","id":"q$ID","method":"sampling/createMessage","params":[1]}"#,
            r#"{"jsonrpc":"2.0","id":"q$ID","method":"roots/list","params":"x"}"#,
            r#"{"jsonrpc":"2.0","id":"q$ID","method":"elicitation/create","params":7}"#,
        ];
        odd.map(|leg| (make, leg))
    }) {
        let up = make(asking(leg));
        let beside = Beside::start("", &[("up", up.entry())]).await;
        let able =
            Client::able(&beside.world, "/mcp", r#"{"sampling":{},"elicitation":{},"roots":{}}"#).await;
        let answer = able.call("who_mcp_up", r#"{"asks":true}"#).await;
        assert_eq!(answer["result"]["structuredContent"]["error"]["code"], -32602, "{leg}: {answer}");
        assert_eq!(said(&able.call("who_mcp_up", "{}").await), "here");
    }
}

#[tokio::test]
async fn fault_080_an_error_of_the_servers_is_not_the_clients() {
    let error =
        |code: i64| format!(r#"{{"jsonrpc":"2.0","id":$ID,"error":{{"code":{code},"message":"whatever"}}}}"#);
    let up = Fake::http(Script::answering(move |seen| {
        Reply::Text(error(seen.params()["arguments"]["code"].as_i64().unwrap()))
    }));
    let beside = Beside::start("", &[("up", up.entry())]).await;
    let own = Client::open(&beside.world, "/mcp/up").await;
    let code = |answer: &Value| answer["error"]["code"].as_i64();
    for (told, all, alone) in
        [(-32700, -32603, -32603), (-32601, -32603, -32601), (-32602, -32602, -32602), (-1, -1, -1)]
    {
        let arguments = format!(r#"{{"code":{told}}}"#);
        let answer = beside.client.call("who_mcp_up", &arguments).await;
        assert_eq!(code(&answer), Some(all), "{answer}");
        let text = answer["error"]["message"].as_str().unwrap();
        assert!(text.contains("whatever") && (all == told || text.contains("server up")), "{answer}");
        assert_eq!(code(&own.call("who", &arguments).await), Some(alone));
    }
}
