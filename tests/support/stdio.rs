//! A fake server's side towards a child that bridges.

use std::sync::Arc;

use hyper::HeaderMap;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::fake::Shared;
use super::{Reply, Seen, Step};

/// Speaks with one child until it, or the script, ends the connection.
pub(super) async fn serve(shared: Arc<Shared>, connection: TcpStream) {
    connection.set_nodelay(true).unwrap();
    let (from, to) = connection.into_split();
    let (mut lines, to) = (BufReader::new(from).split(b'\n'), Arc::new(Mutex::new(to)));
    let (cut, mut unasked) = (CancellationToken::new(), shared.unasked.subscribe());
    let mut answers = JoinSet::new();
    let mut kind = "START";
    loop {
        let line = tokio::select! {
            line = lines.next_segment() => line,
            Ok(message) = unasked.recv() => {
                put(&to, &message).await;
                continue;
            }
            () = cut.cancelled() => return,
        };
        let Ok(Some(line)) = line else { return };
        let seen = Seen::new(
            std::mem::replace(&mut kind, "LINE"),
            String::from_utf8(line).unwrap(),
            HeaderMap::new(),
        );
        shared.note(seen.clone());
        if seen.id.is_some() && !seen.method.is_empty() {
            let script = shared.script();
            let reply = script.refusal.clone().unwrap_or_else(|| seen.reply(&script));
            answers.spawn(write(shared.clone(), to.clone(), seen, reply, cut.clone()));
        }
    }
}

async fn write(
    shared: Arc<Shared>,
    to: Arc<Mutex<OwnedWriteHalf>>,
    seen: Seen,
    reply: Reply,
    cut: CancellationToken,
) {
    match reply {
        Reply::Result(result) => put(&to, &seen.answer(&result)).await,
        Reply::Text(text) => put(&to, &seen.fill(&text)).await,
        Reply::Status(..) | Reply::Stall => {}
        Reply::Raw(_) => panic!("only a faulty server does that"),
        Reply::Steps(steps) => {
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
                    Step::Cut => cut.cancel(),
                }
            }
        }
    }
}

async fn put(to: &Mutex<OwnedWriteHalf>, text: &str) {
    // The child may be gone.
    drop(to.lock().await.write_all(format!("{text}\n").as_bytes()).await);
}
