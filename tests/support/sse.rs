//! A fake server's HTTP side where it speaks the older HTTP+SSE: a stream at `/sse`, messages to `/messages`.

use std::io;
use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::fake::Shared;
use super::http::{Answer, Writer, bare, events, mint};
use super::{Reply, Seen, Step};

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
    let seen = Seen::new(head.method.as_str(), text, head.headers);
    shared.note(seen.clone());
    let session = head.uri.query().unwrap_or_default().strip_prefix("session=").unwrap_or_default();
    match (head.method, head.uri.path()) {
        (Method::GET, "/sse") => stream(&shared),
        (Method::POST, "/messages") => match shared.streams.lock().unwrap().get(session) {
            Some(to) => take(&shared, to.clone(), seen),
            None => bare(404),
        },
        _ => bare(405),
    }
}

/// A new session: where its messages go, then everything that it is told.
fn stream(shared: &Arc<Shared>) -> Answer {
    let (to, from) = mpsc::channel(16);
    let session = mint();
    let endpoint = format!("event: endpoint\ndata: /messages?session={session}\n\n");
    to.try_send(Ok(endpoint.into())).unwrap();
    shared.streams.lock().unwrap().insert(session.clone(), to.clone());
    let (shared, mut unasked) = (shared.clone(), shared.unasked.subscribe());
    shared.clone().tasks.spawn(async move {
        loop {
            tokio::select! {
                Ok(message) = unasked.recv() => put(&to, &message).await,
                () = to.closed() => break,
            };
        }
        shared.streams.lock().unwrap().remove(&session);
    });
    events(from)
}

/// Takes a message; what it is answered goes to the stream.
fn take(shared: &Arc<Shared>, to: Writer, seen: Seen) -> Answer {
    if seen.id.is_none() || seen.method.is_empty() {
        return bare(202);
    }
    let script = shared.script();
    let steps = match script.refusal.clone().unwrap_or_else(|| seen.reply(&script)) {
        Reply::Result(result) => vec![Step::Send(seen.answer(&result))],
        Reply::Text(text) => vec![Step::Send(text)],
        Reply::Steps(steps) => steps,
        Reply::Status(code, _) => return bare(code),
        Reply::Stall => return bare(202),
        Reply::Raw(_) => panic!("only a faulty server does that"),
    };
    let shared = Arc::clone(shared);
    shared.tasks.clone().spawn(async move {
        let mut said = String::new();
        for step in steps {
            match step {
                Step::Send(text) => put(&to, &seen.fill(&text.replace("$SAID", &said))).await,
                Step::Ask(text, id) => {
                    put(&to, &seen.fill(&text)).await;
                    said = shared.answered(&seen.fill(&id)).await;
                }
                Step::Wait(gate) => gate.cancelled().await,
                Step::Rest(time) => tokio::time::sleep(time).await,
                Step::Cut => drop(to.send(Err(io::Error::other("cut by the script"))).await),
            }
        }
    });
    bare(202)
}

async fn put(to: &Writer, text: &str) {
    // The other side may be gone.
    drop(to.send(Ok(format!("event: message\ndata: {text}\n\n").into())).await);
}
