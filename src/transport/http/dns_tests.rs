//! Names that are not found, slow to be found, or move. The names of these tests end in `.test`; all others are looked up
//! as ever.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower_service::Service;

use crate::transport::Failure;
use crate::transport::testing::{Peer, all, call, http, json, link, result};

/// What comes of looking a name up.
#[derive(Debug, Clone)]
enum Found {
    At(SocketAddr),
    Nothing(&'static str),
    /// Only after so long.
    Late(Duration),
}

thread_local! {
    /// The names of one test: each has a runtime of one thread.
    static NAMES: RefCell<HashMap<String, Found>> = RefCell::default();
}

/// Looks up the names of a test, and all others as the system does.
#[derive(Debug, Clone)]
pub(super) struct Resolver(GaiResolver);

impl Resolver {
    pub(super) fn new() -> Self {
        Self(GaiResolver::new())
    }
}

type Addresses = std::vec::IntoIter<SocketAddr>;

impl Service<Name> for Resolver {
    type Response = Addresses;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Addresses>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = NAMES.with_borrow(|names| names.get(name.as_str()).cloned());
        let asking = found.is_none().then(|| self.0.call(name));
        Box::pin(async move {
            match (found, asking) {
                (Some(Found::At(address)), _) => Ok(vec![address].into_iter()),
                (Some(Found::Late(time)), _) => {
                    tokio::time::sleep(time).await;
                    Err(io::Error::other("late"))
                }
                (Some(Found::Nothing(why)), _) => Err(io::Error::other(why)),
                (None, Some(asking)) => Ok(asking.await?.collect::<Vec<_>>().into_iter()),
                (None, None) => Err(io::Error::other("nothing is asked")),
            }
        })
    }
}

fn name(name: &str, found: Found) {
    NAMES.with_borrow_mut(|names| names.insert(name.into(), found));
}

async fn failure(host: &str) -> Failure {
    let link = link(http(&format!("http://{host}/mcp"))).await.unwrap();
    all(link.request(1, call(1)).await.unwrap()).await.1.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn fault_070_names_that_are_not_found_or_slow_hold_up_nobody_else() {
    name("gone.test", Found::Nothing("no such name"));
    name("broken.test", Found::Nothing("the name server failed"));
    name("slow.test", Found::Late(Duration::from_secs(10)));
    for (host, why) in [("gone.test", "no such name"), ("broken.test", "the name server failed")] {
        assert_eq!(failure(host).await, Failure::Unreachable(why.into()));
    }
    let started = Instant::now();
    let mut slow = JoinSet::new();
    slow.spawn(async move { (failure("slow.test").await, started.elapsed()) });
    tokio::task::yield_now().await;
    assert!(matches!(failure("gone.test").await, Failure::Unreachable(_)));
    assert!(started.elapsed() < Duration::from_millis(100), "others need not wait");
    let (why, after) = slow.join_next().await.unwrap().unwrap();
    assert_eq!(why, Failure::Unreachable("no connection within 8s".into()));
    assert!(after < Duration::from_secs(9), "{after:?}");
}

#[tokio::test]
async fn fault_070_a_server_that_moved_is_found_at_its_new_address() {
    let (old, new) = (Peer::new().await, Peer::new().await);
    let address = |peer: &Peer| {
        let host = peer.uri.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        host.parse::<SocketAddr>().unwrap()
    };
    name("moving.test", Found::At(address(&old)));
    // The name's answer has a port as well, which counts where the URL has none of its own.
    let link = link(http("http://moving.test/mcp")).await.unwrap();
    let asked = async |id: u64, peer: &Peer| {
        let answering = async {
            let mut connection = peer.accept().await;
            connection.asked().await;
            connection.write(json(&result(id))).await;
            connection // closed by whoever takes it
        };
        // Whether it is seen in time that the old connection has ended does not matter.
        let asking = async { all(link.request(id, call(id)).await.unwrap().repeatable()).await.1 };
        let (answer, connection) = tokio::join!(asking, answering);
        assert_eq!(answer.unwrap().number(), Some(id));
        connection
    };
    let connection = asked(1, &old).await;
    name("moving.test", Found::At(address(&new)));
    drop(connection);
    asked(2, &new).await;
}
