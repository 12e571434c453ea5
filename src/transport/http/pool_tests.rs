//! What becomes of connections, against servers of raw bytes.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::header::HeaderValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::join;

use super::Http;
use super::http1::Http1;
use super::lease::Lease;
use super::pool::{IDLE_TICKS, TICK};
use crate::config::Reach;
use crate::memory::Memory;
use crate::transport::Failure;
use crate::transport::testing::{
    Connection, EVENTS, Peer, SIZES, call, chunk, http as reach, json, response, result,
};

fn http(peer: &Peer) -> Arc<Http> {
    let Reach::Http(config) = reach(&peer.uri) else { unreachable!() };
    Arc::new(Http::new(&config, &[], crate::transport::tls::none().unwrap(), SIZES, &Memory::new(None)))
}

async fn ask(http: &Arc<Http>, id: u64) -> Result<u64, Failure> {
    let answer = http.request(id, call(id).into()).unwrap().next().await?;
    Ok(answer.number().unwrap())
}

/// Waits for the other tasks until so many connections are unused.
async fn unused(http: &Http, count: usize) {
    while http.pool.unused() != count {
        tokio::task::yield_now().await;
    }
}

async fn closed(http: &Http) {
    http.close().await;
    assert_eq!((http.tasks.count(), http.pool.unused()), (0, 0));
}

#[tokio::test]
async fn calls_one_after_another_use_one_connection() {
    let peer = Peer::new().await;
    let http = http(&peer);
    let serving = async {
        let mut connection = peer.accept().await;
        for id in 1..=20 {
            let answer = match id % 4 {
                0 => json(&result(id)),
                1 => format!("{EVENTS}{}0\r\n\r\n", chunk(&format!("data: {}\n\n", result(id)))),
                2 => response("400 Bad Request", "", &result(id)),
                _ => response("202 Accepted", "", ""),
            };
            connection.answer(answer).await;
        }
        connection
    };
    let asking = async {
        for id in 1..=20 {
            assert_eq!(ask(&http, id).await.is_ok(), id % 4 != 3);
            unused(&http, 1).await; // the end of a stream is read after its answer is told
        }
    };
    let (mut connection, ()) = join!(serving, asking);
    assert!(peer.is_untouched().await);
    closed(&http).await;
    assert!(connection.maybe_asked().await.is_none());
}

#[tokio::test]
async fn calls_at_once_have_a_connection_each_and_leave_them_to_others() {
    const CALLS: u64 = 5;
    let peer = Peer::new().await;
    let http = http(&peer);
    let serving = async {
        let mut connections = Vec::new();
        for _ in 0..CALLS {
            connections.push(peer.accept().await);
        }
        for _ in 0..2 {
            let mut asked = Vec::new();
            for connection in &mut connections {
                asked.push(connection.asked().await); // all of them before the first answer
            }
            for (connection, asked) in connections.iter_mut().zip(asked) {
                let id = (1..=2 * CALLS).find(|id| asked.body.as_bytes() == call(*id)).unwrap();
                connection.write(json(&result(id))).await;
            }
        }
        connections
    };
    let asking = async {
        for round in 0..2 {
            let mut calls = tokio::task::JoinSet::new();
            for id in 1..=CALLS {
                let (id, http) = (id + round * CALLS, Arc::clone(&http));
                calls.spawn(async move { assert_eq!(ask(&http, id).await.unwrap(), id) });
            }
            calls.join_all().await;
            assert_eq!(http.pool.unused() as u64, CALLS);
        }
    };
    let (_connections, ()) = join!(serving, asking);
    assert!(peer.is_untouched().await);
    closed(&http).await;
}

/// A call on a connection that the server closed while it was unused.
async fn replaced(close: impl FnOnce(Connection)) {
    let peer = Peer::new().await;
    let http = http(&peer);
    let serving = async {
        let mut connection = peer.accept().await;
        connection.answer(json(&result(1))).await;
        connection
    };
    let (connection, answer) = join!(serving, ask(&http, 1));
    assert_eq!((answer.unwrap(), http.pool.unused()), (1, 1));
    close(connection);
    while let Some(lease) = http.pool.take() {
        http.pool.put(lease);
        tokio::task::yield_now().await; // until the system has told of it
    }
    let serving = async { peer.accept().await.answer(json(&result(2))).await };
    let (_, answer) = join!(serving, ask(&http, 2));
    assert_eq!(answer.unwrap(), 2);
    closed(&http).await;
}

#[tokio::test]
async fn an_unused_connection_that_the_server_closed_is_replaced() {
    replaced(drop).await;
    replaced(Connection::reset).await;
}

/// What polling a future once gives.
async fn polled<F: Future + Unpin>(mut future: F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut future).poll(cx))).await
}

/// A connection that was used before, and its other end.
fn by_hand(http: &Http) -> (Lease, DuplexStream) {
    let home = http.pool.home(); // of this thread, where calls look for it
    let (near, far) = tokio::io::duplex(1 << 16);
    let mut lease = Lease::http1(Http1::over(Box::new(near)), home);
    assert!(lease.is_ready());
    lease.fresh = false;
    (lease, far)
}

#[tokio::test]
async fn a_request_that_was_not_written_is_sent_again() {
    let peer = Peer::new().await;
    let http = http(&peer);
    let (lease, far) = by_hand(&http);
    http.pool.put(lease);
    drop(far);
    let serving = async { peer.accept().await.answer(json(&result(1))).await };
    let (asked, answer) = join!(serving, ask(&http, 1));
    assert_eq!((asked.body.as_bytes(), answer.unwrap()), (&*call(1), 1));
    closed(&http).await;
}

#[tokio::test]
async fn a_request_that_was_written_is_not_sent_again() {
    let peer = Peer::new().await;
    let http = http(&peer);
    let (lease, far) = by_hand(&http);
    http.pool.put(lease);
    let mut exchange = http.request(1, call(1).into()).unwrap();
    {
        let mut next = std::pin::pin!(exchange.next());
        assert!(polled(&mut next).await.is_pending() && http.pool.unused() == 0); // writes
    }
    drop(far);
    let failure = exchange.next().await.unwrap_err();
    assert!(matches!(failure, Failure::Cut(_)), "{failure}");
    assert!(peer.is_untouched().await);
    closed(&http).await;
}

#[tokio::test]
async fn a_request_that_may_come_twice_is_sent_again_wherever_it_broke() {
    let peer = Peer::new().await;
    let http = http(&peer);
    let (lease, far) = by_hand(&http);
    http.pool.put(lease);
    let mut exchange = http.request(1, call(1).into()).unwrap().repeatable();
    {
        let mut next = std::pin::pin!(exchange.next());
        assert!(polled(&mut next).await.is_pending()); // writes
    }
    drop(far);
    let serving = async { peer.accept().await.answer(json(&result(1))).await };
    let (asked, answer) = join!(serving, exchange.next());
    assert_eq!((asked.body.as_bytes(), answer.unwrap().number()), (&*call(1), Some(1)));
    closed(&http).await;
}

#[tokio::test]
async fn a_call_that_waits_for_a_connection_takes_one_that_becomes_free() {
    let peer = Peer::new().await; // takes no TLS handshake
    let Reach::Http(config) = reach(&peer.uri.replace("http:", "https:")) else { unreachable!() };
    let http =
        Arc::new(Http::new(&config, &[], crate::transport::tls::none().unwrap(), SIZES, &Memory::new(None)));
    let (lease, mut far) = by_hand(&http);
    let freeing = async {
        while http.pool.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        http.pool.put(lease);
        let mut asked = [0; 9];
        far.read_exact(&mut asked).await.unwrap();
        assert_eq!(&asked, b"POST /mcp");
        far.write_all(json(&result(1)).as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = ask(&http, 1) => assert_eq!(answer.unwrap(), 1),
        () = freeing => unreachable!(),
    }
    assert_eq!(http.pool.waiting(), 0);
    http.close().await;
    assert_eq!(http.tasks.count(), 0);
}

/// What a call is told when its link is closed after the server wrote this, if it is asked at all.
async fn cut_after(answer: Option<&str>) -> Failure {
    let peer = Peer::new().await;
    let tls = answer.is_none(); // which the peer does not speak
    let Reach::Http(config) =
        reach(&if tls { peer.uri.replace("http:", "https:") } else { peer.uri.clone() })
    else {
        unreachable!()
    };
    let http =
        Arc::new(Http::new(&config, &[], crate::transport::tls::none().unwrap(), SIZES, &Memory::new(None)));
    let mut exchange = http.request(1, call(1).into()).unwrap();
    let mut connection = None;
    let begun = async {
        let mut accepted = peer.accept().await;
        if let Some(answer) = answer {
            accepted.answer(answer).await;
        }
        connection = Some(accepted);
    };
    tokio::select! { biased; told = exchange.next() => panic!("{told:?}"), () = begun => {} }
    let (told, ()) = join!(exchange.next(), http.close());
    assert_eq!(exchange.next().await.unwrap_err(), *told.as_ref().unwrap_err());
    closed(&http).await;
    told.unwrap_err()
}

#[tokio::test]
async fn closing_ends_calls_wherever_they_are() {
    let cut = Failure::Cut(super::CLOSED.into());
    let begun = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1";
    for answer in [None, Some(""), Some("HTTP/1.1"), Some(begun), Some(EVENTS)] {
        assert_eq!(cut_after(answer).await, cut, "{answer:?}");
    }
    let peer = Peer::new().await;
    let http = http(&peer);
    let mut late = http.request(1, call(1).into()).unwrap();
    closed(&http).await;
    assert_eq!(late.next().await.unwrap_err(), cut);
    assert!(matches!(http.request(2, call(2).into()), Err(Failure::Unreachable(_))));
    assert!(peer.is_untouched().await);
}

#[tokio::test]
async fn closing_can_be_given_up_and_done_again() {
    let peer = Peer::new().await;
    let http = http(&peer);
    http.take_session(&HeaderValue::from_static("s"));
    let serving = async {
        let mut connection = peer.accept().await;
        connection.answer(json(&result(1))).await;
        connection.asked().await; // and does not answer the goodbye
        connection
    };
    let asking = async {
        ask(&http, 1).await.unwrap();
        http.close().await;
    };
    tokio::select! { _ = serving => {}, () = asking => unreachable!() }
    drop(peer); // it takes no second goodbye
    closed(&http).await;
}

#[tokio::test(start_paused = true)]
async fn closing_ends_a_call_that_would_go_on_later() {
    let peer = Peer::new().await;
    let http = http(&peer);
    http.take_session(&HeaderValue::from_static("s"));
    let mut exchange = http.request(1, call(1).into()).unwrap();
    let serving = async {
        let mut connection = peer.accept().await;
        let event = chunk("id: 7\nretry: 60000\ndata:\n\n");
        connection.answer(format!("{EVENTS}{event}0\r\n\r\n")).await;
        while http.pool.unused() == 0 {
            tokio::task::yield_now().await;
        }
        let began = tokio::time::Instant::now();
        let answer = response("200 OK", "", "");
        let (deleted, ()) = join!(connection.answer(answer), http.close());
        assert_eq!(deleted.line, "DELETE /mcp HTTP/1.1");
        began.elapsed()
    };
    let (told, took) = join!(exchange.next(), serving);
    assert_eq!(told.unwrap_err(), Failure::Cut(super::CLOSED.into()));
    assert!(took < Duration::from_secs(1), "{took:?}");
    closed(&http).await;
}

#[tokio::test]
async fn a_connection_is_not_used_again_when_its_response_was_not_read_or_says_so() {
    let announced = json(&result(1)).replace("content-type", "connection: close\r\ncontent-type");
    let old = json(&result(1)).replace("HTTP/1.1", "HTTP/1.0");
    let broken = format!("{EVENTS}{}zz\r\n", chunk(&format!("data: {}\n\n", result(1))));
    let large = json(&"x".repeat(SIZES.message + 1));
    let more = format!("{}HTTP/1.1 200 OK\r\n", json(&result(1)));
    for answer in [announced, old, broken, large, more] {
        let peer = Peer::new().await;
        let http = http(&peer);
        let serving = async {
            let mut first = peer.accept().await;
            first.answer(&answer).await;
            assert!(first.maybe_asked().await.is_none(), "{answer}");
            peer.accept().await.answer(json(&result(2))).await;
        };
        let asking = async {
            drop(ask(&http, 1).await);
            assert_eq!(ask(&http, 2).await.unwrap(), 2);
        };
        join!(serving, asking);
        closed(&http).await;
    }
}

#[tokio::test(start_paused = true)]
async fn unused_connections_are_closed_after_a_while() {
    let peer = Peer::new().await;
    let http = http(&peer);
    let serving = async {
        let mut connection = peer.accept().await;
        connection.answer(json(&result(1))).await;
        connection
    };
    let (mut connection, answer) = join!(serving, ask(&http, 1));
    answer.unwrap();
    let kept = tokio::time::Instant::now();
    unused(&http, 1).await;
    assert!(connection.maybe_asked().await.is_none());
    let kept = kept.elapsed();
    assert!(kept > TICK * (IDLE_TICKS - 1) && kept <= TICK * IDLE_TICKS, "{kept:?}");
    while http.tasks.count() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await; // nothing ticks for nothing
    }
    closed(&http).await;
}
