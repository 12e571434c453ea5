//! What a keeper has on its way beside all else.

use std::pin::Pin;

use tokio::time::{Instant, sleep_until};

pub(super) type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Waits until `at`, if there is such a time.
pub(super) async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What is on its way, if anything is.
pub(super) async fn finished<T>(running: &mut Option<Running<T>>) -> T {
    match running {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
}
