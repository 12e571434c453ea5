//! Against servers of raw bytes.

use std::sync::Arc;
use std::time::Duration;

use tokio::join;
use tokio::net::TcpListener;

use super::Http;
use crate::config::Reach;
use crate::mcp::Revision;
use crate::memory::Memory;
use crate::transport::testing::{EVENTS, Peer, SIZES, all, call, chunk, http, json, link, response, result};
use crate::transport::{Failure, Link};
use crate::wire::{Kind, Message};

type Told = (Vec<String>, Result<Message, Failure>);

async fn ask(link: &Link, id: u64) -> Told {
    all(link.request(id, call(id)).await.unwrap()).await
}

/// What call 1 gets when a server answers with `bytes` and then closes the connection.
async fn told(bytes: impl AsRef<[u8]>) -> Told {
    let peer = Peer::new().await;
    let link = peer.link().await;
    let serving = async {
        let mut connection = peer.accept().await;
        connection.answer(bytes).await
    };
    join!(ask(&link, 1), serving).0
}

async fn failure(bytes: impl AsRef<[u8]>) -> Failure {
    told(bytes).await.1.unwrap_err()
}

fn garbage(text: &str) -> Failure {
    Failure::Garbage(text.into())
}

fn is_cut(failure: &Failure) -> bool {
    matches!(failure, Failure::Cut(_))
}

#[tokio::test]
async fn a_json_answer_and_what_is_sent_for_it() {
    let peer = Peer::new().await;
    let link = peer.link().await;
    let serving = async {
        let mut connection = peer.accept().await;
        let first = connection.answer(json(&result(1))).await;
        (first, connection.answer(json(&format!("[{}]", result(2)))).await)
    };
    let asking = async { (ask(&link, 1).await, ask(&link, 2).await) };
    let ((one, two), (first, _)) = join!(asking, serving); // on one connection
    assert_eq!(one.1.unwrap().text(), result(1).as_str());
    assert_eq!(two.1.unwrap().text(), result(2).as_str());
    assert_eq!(first.line, "POST /mcp HTTP/1.1");
    assert_eq!(first.body.as_bytes(), call(1));
    let expected = [
        ("accept", Some("application/json, text/event-stream")),
        ("accept-encoding", Some("identity")),
        ("content-type", Some("application/json")),
        ("x-api-key", Some("canary-in-a-header")),
        ("mcp-session-id", None),
        ("mcp-protocol-version", None),
    ];
    for (name, value) in expected {
        assert_eq!(first.header(name), value, "{name}");
    }
}

#[tokio::test]
async fn asides_come_before_the_answer() {
    let note = |n| format!(r#"{{"jsonrpc":"2.0","method":"n{n}"}}"#);
    let events = format!(
        ": hi\r\nid: 1\r\ndata:\r\n\r\ndata: {}\n\nevent: message\rdata: {}\r\revent: other\ndata: x\n\ndata: {}\n\n",
        note(1),
        note(2),
        result(1)
    );
    let dribbled: String = events.chars().map(|c| chunk(&c.to_string())).collect();
    for body in [chunk(&events), dribbled] {
        let (asides, answer) = told(format!("{EVENTS}{body}0\r\n\r\n")).await;
        assert_eq!((asides, answer.unwrap().kind()), (vec!["n1".to_owned(), "n2".to_owned()], Kind::Result));
    }
}

#[tokio::test]
async fn a_stream_left_after_its_answer_does_not_cost_the_connection() {
    let peer = Peer::new().await;
    let Reach::Http(config) = http(&peer.uri) else { unreachable!() };
    let http =
        Arc::new(Http::new(&config, &[], crate::transport::tls::none().unwrap(), SIZES, &Memory::new(None)));
    let (ended, end) = tokio::sync::oneshot::channel();
    let serving = async {
        let mut connection = peer.accept().await;
        connection.answer(format!("{EVENTS}{}", chunk(&format!("data: {}\n\n", result(1))))).await;
        end.await.unwrap();
        connection.write("0\r\n\r\n").await;
        connection.answer(json(&result(2))).await;
    };
    let asking = async {
        http.request(1, call(1).into()).unwrap().next().await.unwrap();
        ended.send(()).unwrap();
        while http.pool.unused() == 0 {
            tokio::task::yield_now().await; // until the rest of the stream has been read
        }
        http.request(2, call(2).into()).unwrap().next().await.unwrap();
    };
    join!(asking, serving);
    http.close().await;
    assert_eq!(http.tasks.count(), 0);
}

#[tokio::test]
async fn fault_079_answers_to_others_are_dropped() {
    let peer = Peer::new().await;
    let link = peer.link().await;
    let serving = async {
        let mut connection = peer.accept().await;
        let other = format!("data: {}\n\n", result(7));
        let own = format!("data: {}\n\n", result(1));
        connection.answer(format!("{EVENTS}{}{}0\r\n\r\n", chunk(&other), chunk(&own))).await;
        connection.answer(json(&result(7))).await;
    };
    let asking = async {
        assert_eq!(ask(&link, 1).await.1.unwrap().number(), Some(1));
        assert_eq!(ask(&link, 2).await.1.unwrap_err(), garbage("no answer in the body"));
    };
    join!(asking, serving);
    assert_eq!(link.counts().stray, 2);
}

#[tokio::test]
async fn an_error_status_with_an_answer_is_an_answer() {
    for id in [r#""id":1,"#, r#""id":null,"#, ""] {
        let body = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32602,"message":"no"}}}}"#);
        let answer = told(response("400 Bad Request", "", &body)).await.1.unwrap();
        assert_eq!(answer.kind(), Kind::Error);
    }
    let other = told(response("400 Bad Request", "", r#"{"jsonrpc":"2.0","id":2,"error":{}}"#)).await.1;
    assert!(matches!(other, Err(Failure::Status { code: 400, .. })), "{other:?}");
}

#[tokio::test]
async fn what_is_no_answer_is_told_shortly_and_without_secrets() {
    let page = response("200 OK", "content-type: text/html\r\n", "<!doctype html><p>canary");
    assert_eq!(failure(page).await, garbage("an HTML page"));
    assert_eq!(failure(json("")).await, garbage("an empty body"));
    assert_eq!(failure(json("{\"a\":\u{1b}[31m")).await, garbage("{\"a\":"));
    assert_eq!(
        failure(response("202 Accepted", "", "")).await,
        garbage("it took the request without an answer")
    );
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}1{}}}"#, "[".repeat(20), "]".repeat(20));
    assert_eq!(failure(json(&deep)).await, garbage("JSON is nested deeper than 16, the limit"));
    let gzip = failure(response("200 OK", "content-encoding: gzip\r\n", "x")).await;
    assert!(matches!(gzip, Failure::Garbage(_)), "{gzip}");
    let event = failure(format!("{EVENTS}{}", chunk("data: nope\n\n"))).await;
    assert_eq!(event, garbage("nope"));
    let long = format!("no such key canary-in-a-header {}", "x".repeat(999));
    let Failure::Status { code: 500, snippet } = failure(response("500 Oops", "", &long)).await else {
        panic!()
    };
    assert!(snippet.starts_with("no such key *** xxx") && snippet.chars().count() == 201, "{snippet}");
}

#[tokio::test]
async fn statuses_with_a_meaning_of_their_own() {
    let asks = failure(response("401 Unauthorized", "www-authenticate: Bearer realm=x\r\n", "no")).await;
    assert_eq!(asks, Failure::Unauthorized { status: 401, challenge: Some("Bearer realm=x".into()) });
    let busy = failure(response("503 Later", "retry-after: 999999\r\n", "")).await;
    assert_eq!(busy, Failure::Busy { code: 503, retry_after: Some(Duration::from_secs(300)) });
    let missing = failure(response("404 Not Found", "", "nope")).await;
    assert_eq!(missing, Failure::Status { code: 404, snippet: "nope".into() });
}

#[tokio::test]
async fn the_session_of_the_handshake_is_kept_and_ended() {
    let peer = Peer::new().await;
    let link = peer.link().await;
    let serving = async {
        let mut connection = peer.accept().await;
        let with_id = "content-type: application/json\r\nmcp-session-id: s1\r\n";
        let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#;
        connection.answer(response("200 OK", with_id, error)).await;
        let before = connection.answer(response("200 OK", with_id, &result(2))).await;
        let note = connection.answer(response("202 Accepted", "mcp-session-id: s2\r\n", "")).await;
        let gone = connection.answer(response("404 Not Found", "", "")).await;
        let deleted = connection.answer(response("200 OK", "", "")).await;
        (before, note, gone, deleted)
    };
    let asking = async {
        assert_eq!(ask(&link, 1).await.1.unwrap().kind(), Kind::Error);
        assert!(!link.has_session(), "an error gives no session");
        ask(&link, 2).await.1.unwrap();
        assert!(link.has_session());
        link.agree(Revision::V2025_06_18);
        link.send(call(3)).await.unwrap();
        assert_eq!(ask(&link, 4).await.1.unwrap_err(), Failure::SessionGone);
        link.close().await;
        link.close().await;
        let late = link.request(5, call(5)).await.unwrap_err();
        assert!(matches!(late, Failure::Unreachable(_)), "{late}");
    };
    let ((), (before, note, gone, deleted)) = join!(asking, serving);
    assert_eq!(before.header("mcp-session-id"), None);
    for asked in [&note, &gone, &deleted] {
        assert_eq!(asked.header("mcp-session-id"), Some("s1"));
        assert_eq!(asked.header("mcp-protocol-version"), Some("2025-06-18"));
    }
    assert_eq!(deleted.line, "DELETE /mcp HTTP/1.1");
}

#[tokio::test]
async fn redirects_stay_on_the_server_and_are_remembered() {
    let (peer, other) = (Peer::new().await, Peer::new().await);
    let link = peer.link().await;
    let serving = async {
        let mut connection = peer.accept().await;
        connection.answer(response("307 There", "location: /mcp/\r\n", "")).await;
        let second = connection.answer(json(&result(1))).await;
        let third =
            connection.answer(response("307 There", &format!("location: {}\r\n", other.uri), "")).await;
        for _ in 0..4 {
            connection.answer(response("308 Round", "location: /mcp/\r\n", "")).await;
        }
        (second, third)
    };
    let asking = async {
        ask(&link, 1).await.1.unwrap();
        let away = ask(&link, 2).await.1.unwrap_err();
        assert!(matches!(away, Failure::Status { code: 307, .. }), "{away}");
        let round = ask(&link, 3).await.1.unwrap_err();
        assert_eq!(round, Failure::Status { code: 308, snippet: "redirects in a circle".into() });
    };
    let ((), (second, third)) = join!(asking, serving);
    assert_eq!((second.line.as_str(), second.body.as_bytes()), ("POST /mcp/ HTTP/1.1", &*call(1)));
    assert_eq!(third.line, "POST /mcp/ HTTP/1.1");
    assert!(other.is_untouched().await);
}

#[tokio::test]
async fn what_breaks_off_is_cut() {
    let short = json(&result(1)).replace("content-length: 3", "content-length: 9");
    for broken in [
        "",
        "HTTP/1.1 200",
        short.as_str(),
        EVENTS,
        &format!("{EVENTS}{}", chunk("data: {\"jsonrpc\"")),
        &format!("{EVENTS}0\r\n\r\n"),
    ] {
        let (_, answer) = told(broken).await;
        let failure = answer.unwrap_err();
        assert!(is_cut(&failure) && failure.maybe_processed(), "{broken}: {failure}");
    }
    let peer = Peer::new().await;
    let link = peer.link().await;
    let serving = async {
        let mut connection = peer.accept().await;
        connection.answer(&short).await;
        connection.reset();
    };
    let (told, ()) = join!(ask(&link, 1), serving);
    assert!(is_cut(&told.1.unwrap_err()));
}

#[tokio::test]
async fn fault_078_what_is_too_large_is_not_read_to_its_end() {
    let most = SIZES.message;
    let big = "x".repeat(most + 2000);
    let announced = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999999\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    for large in
        [announced.to_owned(), format!("{chunked}{}", chunk(&big)), format!("{EVENTS}{}", chunk(&big))]
    {
        assert_eq!(failure(large).await, Failure::TooLarge(most));
    }
}

#[tokio::test]
async fn nobody_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/?key=secret", listener.local_addr().unwrap());
    drop(listener);
    for uri in [uri.as_str(), "http://does-not-exist.invalid/?key=secret"] {
        let failure = ask(&link(http(uri)).await.unwrap(), 1).await.1.unwrap_err();
        assert!(matches!(failure, Failure::Unreachable(_)) && !failure.maybe_processed(), "{failure}");
        assert!(!failure.to_string().contains("secret"), "{failure}");
    }
}

#[tokio::test]
async fn a_dropped_reply_and_a_closed_link_end_their_connections() {
    let peer = Peer::new().await;
    let link = peer.link().await;
    let (mut one, mut two) =
        (link.request(1, call(1)).await.unwrap(), link.request(2, call(2)).await.unwrap());
    let first = async {
        let mut connection = peer.accept().await;
        connection.asked().await;
        connection
    };
    let mut first =
        tokio::select! { connection = first => connection, told = one.next() => panic!("{told:?}") };
    drop(one);
    assert!(first.maybe_asked().await.is_none());
    let closing = async {
        let mut connection = peer.accept().await;
        connection.asked().await;
        link.close().await;
        assert!(connection.maybe_asked().await.is_none());
    };
    let (told, ()) = join!(two.next(), closing);
    assert!(is_cut(&told.unwrap_err()));
    assert!(is_cut(&two.next().await.unwrap_err()));
}

#[tokio::test]
async fn the_stream_of_unbound_messages() {
    let peer = Peer::new().await;
    let link = peer.link().await;
    let serving = async {
        let mut connection = peer.accept().await;
        connection.answer(response("405 No", "", "")).await;
        connection.answer(response("404 No", "", "")).await;
        connection.answer(response("200 OK", "", "hello")).await;
        let event = chunk("id: 7\nretry: 5\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n\n");
        let first = connection.answer(format!("{EVENTS}{event}0\r\n\r\n")).await;
        let again = connection.answer(response("400 Which?", "", "")).await;
        connection.answer(format!("{EVENTS}{event}0\r\n\r\n")).await;
        (first, again)
    };
    let listening = async {
        for _ in 0..3 {
            assert!(matches!(link.listen().await.unwrap_err(), Failure::Unsupported(_)));
        }
        for _ in 0..2 {
            let mut inbound = link.listen().await.unwrap();
            assert_eq!(inbound.next().await.unwrap().method(), "m");
            assert_eq!(inbound.retry(), Some(Duration::from_millis(5)));
            assert!(is_cut(&inbound.next().await.unwrap_err()));
        }
    };
    let ((), (first, again)) = join!(listening, serving);
    assert_eq!(
        (first.line.as_str(), first.header("accept")),
        ("GET /mcp HTTP/1.1", Some("text/event-stream"))
    );
    assert_eq!((first.header("last-event-id"), again.header("last-event-id")), (None, Some("7")));
}

#[tokio::test]
async fn fault_076_a_stream_that_ends_early_is_gone_on_with() {
    let peer = Peer::new().await;
    let link = peer.link().await;
    let serving = async {
        let mut connection = peer.accept().await;
        let with_id = "content-type: application/json\r\nmcp-session-id: s1\r\n";
        connection.answer(response("200 OK", with_id, &result(1))).await;
        let prime = |id| format!("{EVENTS}{}0\r\n\r\n", chunk(&format!("id: {id}\nretry: 100\ndata:\n\n")));
        connection.answer(prime("a")).await;
        let second = connection.answer(prime("b")).await;
        let rest = chunk(&format!("data: {}\n\n", result(2)));
        let third = connection.answer(format!("{EVENTS}{rest}0\r\n\r\n")).await;
        connection.answer(prime("a")).await;
        connection.answer(response("405 No", "", "")).await;
        (second, third)
    };
    let asking = async {
        ask(&link, 1).await.1.unwrap();
        ask(&link, 2).await.1.unwrap();
        assert!(is_cut(&ask(&link, 3).await.1.unwrap_err()));
    };
    let ((), (second, third)) = join!(asking, serving);
    assert_eq!((second.line.as_str(), second.header("last-event-id")), ("GET /mcp HTTP/1.1", Some("a")));
    assert_eq!(third.header("last-event-id"), Some("b"));
}
