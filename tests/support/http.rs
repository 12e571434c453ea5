//! A fake server's HTTP side.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::fake::Shared;
use super::{Reply, Seen, Step};

pub(super) type Answer = Response<Either<Full<Bytes>, Stream>>;
pub(super) type Writer = mpsc::Sender<io::Result<Bytes>>;

/// A body that is written bit by bit; an error breaks the connection.
pub(super) struct Stream(mpsc::Receiver<io::Result<Bytes>>);

impl Body for Stream {
    type Data = Bytes;
    type Error = io::Error;
    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx).map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }
}

pub(super) async fn serve(shared: Arc<Shared>, connection: TcpStream) {
    connection.set_nodelay(true).unwrap();
    let service = service_fn(|request| {
        let shared = shared.clone();
        async move { Ok::<_, io::Error>(answer(shared, request).await) }
    });
    // The other side may end as it likes.
    drop(http1::Builder::new().serve_connection(TokioIo::new(connection), service).await);
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let path = head.uri.to_string();
    let seen = Seen { path, ..Seen::new(head.method.as_str(), text, head.headers) };
    shared.note(seen.clone());
    let script = shared.script();
    if let Some(refusal) = script.refusal {
        return write(&shared, &seen, refusal).await;
    }
    let session = seen.header("mcp-session-id");
    if script.sessions && seen.method != "initialize" && !shared.sessions.lock().unwrap().contains(session) {
        return bare(if session.is_empty() { 400 } else { 404 });
    }
    match head.method {
        Method::GET if script.stream.is_some() => {
            let reply = script.stream.as_ref().map_or(Reply::Stall, |stream| stream(&seen));
            write(&shared, &seen, reply).await
        }
        Method::GET if script.tells => listen(&shared),
        Method::DELETE if script.sessions => {
            shared.sessions.lock().unwrap().remove(session);
            bare(204)
        }
        Method::POST if seen.id.is_none() || seen.method.is_empty() => bare(202),
        Method::POST => {
            let mut answer = write(&shared, &seen, seen.reply(&script)).await;
            if script.sessions && seen.method == "initialize" {
                let id = mint();
                answer.headers_mut().insert("mcp-session-id", id.parse().unwrap());
                shared.sessions.lock().unwrap().insert(id);
            }
            answer
        }
        _ => bare(405),
    }
}

async fn write(shared: &Arc<Shared>, seen: &Seen, reply: Reply) -> Answer {
    match reply {
        Reply::Result(result) => whole("application/json", seen.answer(&result)),
        Reply::Text(text) => whole("application/json", seen.fill(&text)),
        Reply::Status(code, headers) => {
            let mut answer = bare(code);
            for (name, value) in headers {
                answer.headers_mut().insert(name, value.parse().unwrap());
            }
            answer
        }
        Reply::Stall => std::future::pending().await,
        Reply::Raw(_) => panic!("only a faulty server does that"),
        Reply::Steps(steps) => {
            let (to, from) = mpsc::channel(1);
            let (shared, seen) = (shared.clone(), seen.clone());
            shared.clone().tasks.spawn(async move {
                let mut said = String::new();
                for step in steps {
                    let frame = |text: &str| {
                        let text = seen.fill(&text.replace("$SAID", &said));
                        Ok(format!("event: message\ndata: {text}\n\n").into())
                    };
                    let event = match step {
                        Step::Send(text) => frame(&text),
                        Step::Ask(text, id) => {
                            if to.send(frame(&text)).await.is_err() {
                                return;
                            }
                            said = shared.answered(&seen.fill(&id)).await;
                            continue;
                        }
                        Step::Cut => Err(io::Error::other("cut by the script")),
                        Step::Rest(time) => {
                            tokio::time::sleep(time).await;
                            continue;
                        }
                        Step::Wait(gate) => {
                            tokio::select! {
                                () = gate.cancelled() => continue,
                                () = to.closed() => return,
                            }
                        }
                    };
                    if to.send(event).await.is_err() {
                        return;
                    }
                }
            });
            events(from)
        }
    }
}

/// The stream of what nobody asked for.
fn listen(shared: &Arc<Shared>) -> Answer {
    let (to, from) = mpsc::channel(1);
    let mut unasked = shared.unasked.subscribe();
    shared.tasks.spawn(async move {
        loop {
            let message = tokio::select! {
                message = unasked.recv() => message,
                () = to.closed() => return,
            };
            let Ok(message) = message else { return };
            drop(to.send(Ok(format!("data: {message}\n\n").into())).await);
        }
    });
    events(from)
}

pub(super) fn events(from: mpsc::Receiver<io::Result<Bytes>>) -> Answer {
    let answer = Response::builder().header("content-type", "text/event-stream");
    answer.body(Either::Right(Stream(from))).unwrap()
}

fn whole(kind: &str, text: String) -> Answer {
    Response::builder().header("content-type", kind).body(Either::Left(Full::from(text))).unwrap()
}

pub(super) fn bare(code: u16) -> Answer {
    Response::builder().status(code).body(Either::Left(Full::default())).unwrap()
}

pub(super) fn mint() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("session-{}", LAST.fetch_add(1, Ordering::Relaxed))
}
