//! Against servers of raw bytes that speak HTTP+SSE.

use std::sync::Arc;

use tokio::join;

use super::{Http, Sse};
use crate::config::{HttpTransport, Reach};
use crate::mcp::Revision;
use crate::memory::Memory;
use crate::names::ServerName;
use crate::transport::testing::{
    Asked, Connection, EVENTS, Peer, SIZES, all, call, chunk, response, result, speaking,
};
use crate::transport::{Failure, Link};
use crate::wire::Message;

const ENDPOINT: &str = "event: endpoint\r\ndata: /messages?session=canary-in-a-query&x=1\r\n\r\n";
const TAKEN: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 8\r\n\r\nAccepted";

async fn link(peer: &Peer) -> Link {
    crate::transport::testing::link(speaking(&peer.uri, HttpTransport::Sse)).await.unwrap()
}

async fn ask(link: &Link, id: u64) -> (Vec<String>, Result<Message, Failure>) {
    match link.request(id, call(id)).await {
        Ok(reply) => all(reply).await,
        Err(failure) => (vec![], Err(failure)),
    }
}

fn event(text: &str) -> String {
    chunk(&format!("event: message\r\ndata: {text}\r\n\r\n"))
}

fn is_gone(failure: &Failure) -> bool {
    matches!(failure, Failure::Unreachable(_))
}

/// Takes the stream's connection and says `first` on it.
async fn streaming(peer: &Peer, first: &str) -> (Connection, Asked) {
    let mut stream = peer.accept().await;
    let asked = stream.answer(format!("{EVENTS}{}", chunk(first))).await;
    (stream, asked)
}

/// A link whose first call, 1, is answered, and its two connections: the stream's, and that for posts.
async fn open(peer: &Peer) -> (Link, Connection, Connection) {
    let link = link(peer).await;
    let serving = async {
        let (mut stream, _) = streaming(peer, ENDPOINT).await;
        let mut posts = peer.accept().await;
        posts.answer(TAKEN).await;
        stream.write(event(&result(1))).await;
        (stream, posts)
    };
    let (told, (stream, posts)) = join!(ask(&link, 1), serving);
    told.1.unwrap();
    (link, stream, posts)
}

/// What call 1 gets from a server whose stream says `first` and then ends.
async fn told(first: &str) -> Failure {
    let peer = Peer::new().await;
    let link = link(&peer).await;
    let serving = async {
        let (mut stream, _) = streaming(&peer, first).await;
        stream.write("0\r\n\r\n").await;
        assert!(stream.maybe_asked().await.is_none());
    };
    let (told, ()) = join!(
        async {
            let told = ask(&link, 1).await;
            link.close().await;
            told
        },
        serving
    );
    assert!(peer.is_untouched().await, "something was posted");
    told.1.unwrap_err()
}

#[tokio::test]
async fn messages_go_where_the_stream_says() {
    let peer = Peer::new().await;
    let origin = peer.uri.strip_suffix("/mcp").unwrap();
    for (told, line) in [
        ("/m?s=1".to_owned(), "POST /m?s=1 HTTP/1.1"),
        ("m/?s=1#x".to_owned(), "POST /m/?s=1 HTTP/1.1"),
        ("?s=1".to_owned(), "POST /mcp?s=1 HTTP/1.1"),
        (format!("{origin}/m?s=1"), "POST /m?s=1 HTTP/1.1"),
    ] {
        let link = link(&peer).await;
        assert!(!link.has_session());
        let serving = async {
            let first = format!(": hi\n\nevent: hello\ndata: x\n\nevent: endpoint\ndata: {told} \n\n");
            let (mut stream, asked) = streaming(&peer, &first).await;
            let mut posts = peer.accept().await;
            let one = posts.answer(TAKEN).await;
            stream.write(event(&result(1))).await;
            let note = posts.answer(response("200 OK", "content-encoding: gzip\r\n", "?")).await;
            (asked, one, note, stream)
        };
        let asking = async {
            ask(&link, 1).await.1.unwrap();
            assert!(link.has_session());
            link.agree(Revision::V2025_06_18);
            link.send(call(2)).await.unwrap();
        };
        let ((), (asked, one, note, _stream)) = join!(asking, serving);
        assert_eq!(asked.line, "GET /mcp HTTP/1.1");
        assert_eq!((one.line.as_str(), one.body.as_bytes()), (line, &*call(1)));
        assert_eq!((note.line.as_str(), note.body.as_bytes()), (line, &*call(2)));
        for (name, of_stream, of_post, of_note) in [
            ("x-api-key", Some("canary-in-a-header"), Some("canary-in-a-header"), Some("canary-in-a-header")),
            ("cache-control", Some("no-cache"), None, None),
            ("content-type", None, Some("application/json"), Some("application/json")),
            ("mcp-protocol-version", None, None, Some("2025-06-18")),
            ("mcp-session-id", None, None, None),
        ] {
            let all = (asked.header(name), one.header(name), note.header(name));
            assert_eq!(all, (of_stream, of_post, of_note), "{name}");
        }
        assert_eq!(asked.header("accept"), Some("text/event-stream"));
    }
}

#[tokio::test]
async fn an_older_revision_is_not_named() {
    let peer = Peer::new().await;
    let (link, _stream, mut posts) = open(&peer).await;
    link.agree(Revision::V2024_11_05);
    let (sent, asked) = join!(link.send(call(2)), posts.answer(TAKEN));
    sent.unwrap();
    assert_eq!(asked.header("mcp-protocol-version"), None);
}

#[tokio::test]
async fn messages_do_not_go_to_another_server() {
    let foreign = [
        ("http://127.0.0.1:1/m?s=secret", "an endpoint at http://127.0.0.1:1, which is another server"),
        ("//elsewhere/m?s=secret", "an endpoint at http://elsewhere, which is another server"),
        ("mailto:secret", "an endpoint at null, which is another server"),
        ("http://[", "an endpoint that is no address"),
    ];
    for (endpoint, why) in foreign {
        assert_eq!(
            told(&format!("event: endpoint\ndata: {endpoint}\n\n")).await,
            Failure::Garbage(why.into())
        );
    }
    let message = told(&format!("data: {}\n\n", result(1))).await;
    assert!(matches!(message, Failure::Unsupported(_)), "{message}");
    let ended = told(": only a comment\n\n").await;
    assert!(matches!(ended, Failure::Cut(_)), "{ended}");
}

#[tokio::test]
async fn a_stream_that_names_no_endpoint_is_left() {
    let peer = Peer::new().await;
    let link = link(&peer).await;
    let serving = async {
        let (mut stream, _) = streaming(&peer, ": hi\n\n").await;
        tokio::time::pause(); // and time flies once nobody has anything to do
        assert!(stream.maybe_asked().await.is_none(), "it is left");
    };
    let (told, ()) = join!(ask(&link, 1), serving);
    assert!(matches!(told.1.unwrap_err(), Failure::Unsupported(why) if why.contains("type: sse")));
}

#[tokio::test]
async fn a_server_without_such_a_stream() {
    for (status, code) in [("404 Not Found", 404), ("405 No", 405), ("200 OK", 200)] {
        let peer = Peer::new().await;
        let link = link(&peer).await;
        let serving = async { peer.accept().await.answer(response(status, "", "no")).await };
        let told = join!(ask(&link, 1), serving).0.1.unwrap_err();
        let Failure::Unsupported(why) = told else { panic!("{told}") };
        assert!(why.contains(&format!("HTTP {code}")), "{why}");
    }
    let peer = Peer::new().await;
    let link = link(&peer).await;
    let serving = async { peer.accept().await.answer(response("401 No", "", "")).await };
    let told = join!(ask(&link, 1), serving).0.1.unwrap_err();
    assert!(matches!(told, Failure::Unauthorized { status: 401, .. }), "{told}");
}

#[tokio::test]
async fn redirects_stay_on_the_server() {
    let peer = Peer::new().await;
    let link = link(&peer).await;
    let serving = async {
        let mut stream = peer.accept().await;
        stream.answer(response("307 There", "location: /older/sse\r\n", "")).await;
        let asked = stream.answer(format!("{EVENTS}{}", chunk("event: endpoint\ndata: m\n\n"))).await;
        let mut posts = peer.accept().await;
        posts.answer(response("308 There", "location: n\r\n", "")).await;
        let posted = posts.answer(TAKEN).await;
        stream.write(event(&result(1))).await;
        (asked, posted, stream)
    };
    let (told, (asked, posted, _stream)) = join!(ask(&link, 1), serving);
    told.1.unwrap();
    assert_eq!((&*asked.line, &*posted.line), ("GET /older/sse HTTP/1.1", "POST /older/n HTTP/1.1"));
}

#[tokio::test]
async fn calls_side_by_side_and_what_belongs_to_none() {
    let peer = Peer::new().await;
    let (link, mut stream, mut posts) = open(&peer).await;
    let mut inbound = link.listen().await.unwrap();
    assert!(matches!(link.listen().await.unwrap_err(), Failure::Unsupported(_)));
    let (two, three) = (link.request(2, call(2)).await.unwrap(), link.request(3, call(3)).await.unwrap());
    let serving = async {
        let first = posts.asked().await;
        let mut more = peer.accept().await;
        let second = more.asked().await;
        let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}"#;
        let events = [
            r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#,
            progress,
            &result(3),
            r#"{"jsonrpc":"2.0","method":"hello"}"#,
            &result(9),
            &format!("[{}]", result(2)),
        ];
        let events: String = events.map(event).concat();
        stream.write(events.chars().take(100).collect::<String>()).await;
        stream.write(events.chars().skip(100).collect::<String>()).await;
        posts.write(TAKEN).await;
        more.write(TAKEN).await;
        (first, second)
    };
    let (two, three, (first, second)) = join!(all(two), all(three), serving);
    assert_eq!((first.body.as_bytes(), second.body.as_bytes()), (&*call(2), &*call(3)));
    assert_eq!((two.0, two.1.unwrap().number()), (vec!["notifications/progress".to_owned()], Some(2)));
    assert_eq!((three.0, three.1.unwrap().number()), (vec![], Some(3)));
    assert_eq!(inbound.next().await.unwrap().method(), "ping");
    assert_eq!(inbound.next().await.unwrap().method(), "hello");
    assert_eq!((link.counts().stray, link.counts().skipped), (1, 0));
}

#[tokio::test]
async fn a_request_that_is_taken_after_its_answer_does_not_cost_the_connection() {
    let peer = Peer::new().await;
    let Reach::Http(config) = speaking(&peer.uri, HttpTransport::Sse) else { unreachable!() };
    let http =
        Arc::new(Http::new(&config, &[], crate::transport::tls::none().unwrap(), SIZES, &Memory::new(None)));
    let (answered, is_answered) = tokio::sync::oneshot::channel();
    let serving = async {
        let (mut stream, _) = streaming(&peer, ENDPOINT).await;
        let mut posts = peer.accept().await;
        posts.asked().await;
        stream.write(event(&result(1))).await;
        is_answered.await.unwrap();
        posts.write(TAKEN).await;
        assert!(posts.maybe_asked().await.is_none(), "it ends with the link");
    };
    let asking = async {
        let sse = Sse::open(&http, &ServerName::expose("peer")).await.unwrap();
        sse.request(1, call(1)).unwrap().next().await.unwrap();
        answered.send(()).unwrap();
        while http.pool.unused() == 0 {
            tokio::task::yield_now().await; // until it is taken
        }
        sse.close().await;
        assert_eq!(http.tasks.count(), 0);
    };
    join!(asking, serving);
}

#[tokio::test]
async fn a_message_that_is_refused_fails_its_call_alone() {
    let peer = Peer::new().await;
    let (link, mut stream, mut posts) = open(&peer).await;
    let refusals = [
        (response("500 Oops", "", "no session canary-in-a-query"), "answered with HTTP 500: no session ***"),
        (response("400 Bad", "", "canary-in-a-header?"), "answered with HTTP 400: ***?"),
        (response("401 Who", "", ""), "asks for authorization (HTTP 401)"),
        (response("503 Later", "", ""), "is busy (HTTP 503)"),
        (response("404 Which", "", ""), "no longer knows our session"),
    ];
    for (id, (refusal, why)) in (2..).zip(refusals) {
        let (told, _) = join!(ask(&link, id), posts.answer(refusal));
        assert_eq!(told.1.unwrap_err().to_string(), why);
    }
    let fine = async {
        posts.answer(TAKEN).await;
        stream.write(event(&result(7))).await;
    };
    join!(ask(&link, 7), fine).0.1.unwrap();
    let (told, _) = join!(link.send(call(8)), posts.answer(response("500 Oops", "", "")));
    assert!(matches!(told.unwrap_err(), Failure::Status { code: 500, .. }));
}

#[tokio::test]
async fn what_is_no_message_is_passed_over() {
    let peer = Peer::new().await;
    let (link, mut stream, mut posts) = open(&peer).await;
    let serving = async {
        posts.answer(TAKEN).await;
        let deep = format!(r#"{{"jsonrpc":"2.0","id":2,"result":{}1{}}}"#, "[".repeat(20), "]".repeat(20));
        let noise = [event("nope"), event("{}"), event("[]"), event(&deep), event("\u{1b}[31m")].concat();
        stream.write(noise).await;
        stream
            .write(chunk(": hi\n\nevent: endpoint\ndata: http://elsewhere/\n\nevent: ping\ndata: 1\n\n"))
            .await;
        stream.write(event(&result(2))).await;
    };
    join!(ask(&link, 2), serving).0.1.unwrap();
    assert_eq!(link.counts().skipped, 5);
}

#[tokio::test]
async fn a_stream_that_breaks_ends_the_link() {
    let torn = format!("{}{}", event(&result(2)), chunk("data: {\"jsonrpc\""));
    let long = chunk(&format!("data: {}", "x".repeat(SIZES.message + 2000)));
    for (end, what) in [
        ("0\r\n\r\n", Failure::Cut("the stream ended".into())),
        ("", Failure::Cut("end of file before message length reached".into())),
        (torn.as_str(), Failure::Cut("end of file before message length reached".into())),
        (long.as_str(), Failure::TooLarge(SIZES.message)),
    ] {
        let peer = Peer::new().await;
        let (link, mut stream, mut posts) = open(&peer).await;
        let mut inbound = link.listen().await.unwrap();
        let serving = async {
            posts.asked().await;
            let mut more = peer.accept().await;
            more.asked().await;
            stream.write(end).await;
            drop(stream);
            (posts, more)
        };
        let (two, three) = (link.request(2, call(2)).await.unwrap(), link.request(3, call(3)).await.unwrap());
        let (two, three, _posts) = join!(all(two), all(three), serving);
        assert_eq!(two.1.is_ok(), end == torn, "what came before is read");
        let told = three.1.unwrap_err();
        assert!(told == what || matches!((&told, &what), (Failure::Cut(_), Failure::Cut(_))), "{told}");
        assert!(told.maybe_processed());
        // For whoever listens it is the end of the link.
        assert!(is_gone(&inbound.next().await.unwrap_err()));
        assert!(is_gone(&link.request(4, call(4)).await.unwrap_err()));
        assert!(is_gone(&link.send(call(5)).await.unwrap_err()));
        assert!(peer.is_untouched().await, "nothing is opened again");
        link.close().await;
    }
}

#[tokio::test]
async fn closing_ends_everything() {
    for close in [true, false] {
        let peer = Peer::new().await;
        let (link, mut stream, mut posts) = open(&peer).await;
        let mut inbound = link.listen().await.unwrap();
        let mut two = link.request(2, call(2)).await.unwrap();
        let asked = async { posts.asked().await };
        tokio::select! { told = two.next() => panic!("{told:?}"), _ = asked => {} }
        if close {
            join!(link.close(), link.close());
            assert!(is_gone(&link.request(3, call(3)).await.unwrap_err()));
            assert!(is_gone(&link.send(call(3)).await.unwrap_err()));
        } else {
            drop(link);
        }
        assert_eq!(two.next().await.unwrap_err(), Failure::Cut("we closed the connection".into()));
        assert!(is_gone(&inbound.next().await.unwrap_err()));
        // Both connections end, and nothing like a DELETE was said on them.
        assert!(stream.maybe_asked().await.is_none() && posts.maybe_asked().await.is_none());
        assert!(peer.is_untouched().await);
    }
}

#[tokio::test]
async fn many_links_leave_no_task_behind() {
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for _ in 0..50 {
        let peer = Peer::new().await;
        let (link, _stream, _posts) = open(&peer).await;
        link.close().await;
    }
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), before);
}
