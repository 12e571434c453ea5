//! Bytes in, responses out.

use std::collections::VecDeque;
use std::future::poll_fn;

use hyper::header::{HeaderName, HeaderValue};
use proptest::prelude::*;
use tokio::io::ReadBuf;

use super::*;
use crate::config::{self, HttpTransport, Tls};
use crate::mcp::Letter;
use hyper::Uri;

/// A server that says what a test tells it, piece by piece, and takes what it is sent, `room` bytes at a time.
#[derive(Default)]
struct Scripted {
    says: VecDeque<Vec<u8>>,
    /// What comes after that: the end, or nothing.
    ends: bool,
    room: usize,
    /// It takes so much and then breaks.
    takes: usize,
}

impl AsyncRead for Scripted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.says.pop_front() {
            Some(mut piece) => {
                let rest = piece.split_off(piece.len().min(buf.remaining()));
                buf.put_slice(&piece);
                if !rest.is_empty() {
                    self.says.push_front(rest);
                }
                Poll::Ready(Ok(()))
            }
            None if self.ends => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.takes == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let taken = buf.len().min(self.room).min(self.takes);
        self.takes -= taken;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn head() -> Head {
    Head::new(&config::Http {
        url: Uri::from_static("http://a/mcp?k=v"),
        headers: vec![(HeaderName::from_static("x-key"), HeaderValue::from_static("1"))],
        transport: HttpTransport::Infer,
        tls: Tls::default(),
    })
}

fn pieces<'a>(said: impl IntoIterator<Item = &'a [u8]>) -> Scripted {
    let says = said.into_iter().map(<[u8]>::to_vec).collect();
    Scripted { says, room: usize::MAX, takes: usize::MAX, ends: false }
}

fn asked(server: Scripted) -> Http1 {
    let mut connection = Http1::over(Box::new(server));
    connection.begin(&head(), &What::Post(Letter::plain("{}")));
    connection
}

/// Status, body and whether the connection can be used again; or why not.
async fn heard(server: Scripted) -> Result<(u16, Vec<u8>, bool), String> {
    let mut connection = asked(server);
    let response =
        poll_fn(|cx| connection.poll_response(cx)).await.map_err(|broken| broken.failure.to_string())?;
    let mut body = Vec::new();
    while let Some(more) = poll_fn(|cx| connection.poll_chunk(cx)).await.map_err(|why| why.to_string())? {
        assert!(!more.is_empty());
        body.extend_from_slice(&more);
    }
    assert_eq!(poll_fn(|cx| connection.poll_chunk(cx)).await, Ok(None), "the end stays the end");
    Ok((response.status.as_u16(), body, connection.is_ready()))
}

/// What is heard of `text` in one piece, which has to be the same as byte by byte.
async fn told(text: &str, ends: bool) -> Result<(u16, Vec<u8>, bool), String> {
    let whole = heard(Scripted { ends, ..pieces([text.as_bytes()]) }).await;
    let dribbled = heard(Scripted { ends, ..pieces(text.as_bytes().chunks(1)) }).await;
    if whole.as_ref().is_ok_and(|(.., again)| *again) || whole.is_err() {
        assert_eq!(whole, dribbled, "{text:?}");
    }
    whole
}

async fn fine(text: &str) -> (String, bool) {
    let (_, body, again) = told(text, false).await.unwrap();
    (String::from_utf8(body).unwrap(), again)
}

#[tokio::test]
async fn bodies_end_where_the_head_says() {
    for (text, body, again) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "{}", true),
        ("HTTP/1.1 200\r\nContent-Length: 2, 2\r\ncontent-length: 2\r\n\r\n{}", "{}", true),
        ("HTTP/1.1 200 OK\ncontent-length: 2\n\n{}", "{}", true),
        ("HTTP/1.1 204 No\r\ncontent-length: 2\r\n\r\n", "", true),
        ("HTTP/1.1 304 Same\r\ncontent-length: 2\r\n\r\n", "", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nConnection: keep-alive\r\n\r\n", "", true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "{}", true),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1;x=\"y\"\r\n{\r\n01 \r\n}\r\n00\r\nA: b\r\n\r\n",
            "{}",
            true,
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            "{}",
            true,
        ),
        // Read all the same, and the connection is not used again.
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: a, Close\r\n\r\n{}", "{}", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}", "{}", false),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            "{}",
            false,
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP", "{}", false),
        ("HTTP/1.1 101 Switch\r\nupgrade: x\r\n\r\n", "", false),
    ] {
        assert_eq!(fine(text).await, (body.to_owned(), again), "{text:?}");
    }
    for text in [
        "HTTP/1.1 200 OK\r\n\r\n{}",
        "HTTP/1.0 200 OK\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\n{}",
    ] {
        assert_eq!(told(text, true).await, Ok((200, b"{}".to_vec(), false)), "{text:?}");
    }
}

#[tokio::test]
async fn what_could_be_read_in_two_ways_is_not_read() {
    let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let many = "x: y\r\n".repeat(101);
    let texts = [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 2, 3\r\n\r\n{}".into(),
        "HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\n{}".into(),
        "HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\n{}".into(),
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n{}".into(),
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n".into(),
        "HTTP/1.1 200 OK\r\ncontent-length : 2\r\n\r\n{}".into(),
        "HTTP/1.1 200 OK\r\na: b\r\n c\r\ncontent-length: 2\r\n\r\n{}".into(),
        "HTTP/1.1 20 OK\r\n\r\n".into(),
        "HTTP/2.0 200 OK\r\n\r\n".into(),
        "nope\r\n\r\n".into(),
        format!("HTTP/1.1 200 OK\r\n{many}\r\n"),
        format!("{chunks}\r\n\r\n"),
        format!("{chunks};x\r\n\r\n"),
        format!("{chunks}2\n{{}}\r\n0\r\n\r\n"),
        format!("{chunks}-2\r\n{{}}\r\n0\r\n\r\n"),
        format!("{chunks}2\r\n{{}}0\r\n\r\n"),
        format!("{chunks}2\r\n{{}}\n0\r\n\r\n"),
        format!("{chunks}11111111111111111\r\n{{}}"),
        format!("{chunks}2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(5000)),
        format!("{chunks}0\r\n{}\r\n", "a: b\r\n".repeat(5000)),
        format!("{chunks}0\r\n{}", "a".repeat(20_000)),
        format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "a".repeat(HEAD)),
    ];
    for text in texts {
        let short = text.chars().take(99).collect::<String>();
        assert!(told(&text, false).await.is_err(), "{short:?}");
    }
}

#[tokio::test]
async fn what_breaks_off_is_no_end() {
    for text in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
    ] {
        assert_eq!(told(text, true).await, Err(Failure::Cut(ENDED.into()).to_string()), "{text:?}");
    }
}

#[tokio::test]
async fn of_two_headers_the_first_counts() {
    let text = b"HTTP/1.1 200 OK\r\nServer: x\r\nMcp-Session-Id: s\r\nmcp-session-id: t\r\n\r\n";
    let mut connection = asked(pieces([&text[..]]));
    let response = poll_fn(|cx| connection.poll_response(cx)).await.unwrap();
    assert_eq!(response.told.session.unwrap(), "s");
}

#[tokio::test]
async fn a_request_is_written_bit_by_bit() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    let (near, mut far) = tokio::io::duplex(7); // it takes no more at once
    let mut connection = Http1::over(Box::new(near));
    connection.begin(&head(), &What::Post(Letter::plain("{\"a\":1}")));
    let serving = async {
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n{\"a\":1}") {
            far.read_buf(&mut asked).await.unwrap();
        }
        tokio::io::AsyncWriteExt::write_all(&mut far, answer.as_bytes()).await.unwrap();
        String::from_utf8(asked).unwrap()
    };
    let asking = async {
        poll_fn(|cx| connection.poll_response(cx)).await.unwrap();
        while poll_fn(|cx| connection.poll_chunk(cx)).await.unwrap().is_some() {}
        assert!(connection.is_ready());
    };
    let (asked, ()) = tokio::join!(serving, asking);
    assert!(asked.starts_with("POST /mcp?k=v HTTP/1.1\r\nhost: a\r\nx-key: 1\r\n"), "{asked}");
    assert!(asked.ends_with("content-length: 7\r\n\r\n{\"a\":1}"), "{asked}");
    drop(far);
    assert!(!connection.is_ready(), "its server is gone");
}

#[tokio::test]
async fn a_request_that_breaks_is_told_apart_by_what_was_written() {
    let unsent = |takes, said: &'static str| async move {
        let server =
            Scripted { takes, ends: true, ..pieces([said.as_bytes()].into_iter().filter(|s| !s.is_empty())) };
        let mut connection = asked(server);
        let response = poll_fn(|cx| connection.poll_response(cx)).await;
        (response.map(|response| response.status.as_u16()).map_err(|broken| broken.unsent), connection)
    };
    assert_eq!(unsent(0, "").await.0, Err(true));
    assert_eq!(unsent(9, "").await.0, Err(false));
    let (early, mut connection) = unsent(9, "HTTP/1.1 413 Large\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!((early, connection.is_ready()), (Ok(413), false), "it was answered before it was read");
}

#[tokio::test]
async fn a_request_that_is_answered_before_it_is_written_ends_its_connection() {
    let (near, mut far) = tokio::io::duplex(16);
    let mut connection = Http1::over(Box::new(near));
    connection.begin(&head(), &What::Post(Letter::plain("x".repeat(999))));
    tokio::io::AsyncWriteExt::write_all(&mut far, b"HTTP/1.1 200 A\r\n").await.unwrap();
    let asking = poll_fn(|cx| connection.poll_response(cx));
    let serving = tokio::io::AsyncWriteExt::write_all(&mut far, b"content-length: 0\r\n\r\n");
    let (response, written) = tokio::join!(asking, serving);
    written.unwrap();
    assert_eq!(response.unwrap().status, 200);
    assert_eq!(poll_fn(|cx| connection.poll_chunk(cx)).await, Ok(None));
    assert!(!connection.is_free());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn chunks_come_out_as_they_went_in(body in prop::collection::vec("[a-z\r\n0]{1,40}", 0..6), cut in 1..30_usize) {
        let chunks: Vec<_> = body.iter().map(|data| format!("{:x}\r\n{data}\r\n", data.len())).collect();
        let chunks = chunks.concat();
        let text = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let heard = runtime.block_on(heard(pieces(text.as_bytes().chunks(cut))));
        prop_assert_eq!(heard, Ok((200, body.concat().into_bytes(), true)));
    }

    #[test]
    fn nothing_that_is_said_makes_it_panic(said in "(HTTP/1.1 200 OK\r\n)?(content-length: [0-9]{1,3}\r\n)?(transfer-encoding: chunked\r\n)?(\r\n)?[0-9a-f\r\n;]{0,30}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for cut in [1, 7, 1000] {
                drop(heard(Scripted { ends: true, ..pieces(said.as_bytes().chunks(cut)) }).await);
            }
        });
    }
}
