//! The operator's port: metrics, probes and the status.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};

use super::body::Body;
use super::guard;
use super::peer::Peer;
use super::reply::{bare, typed};
use super::serve::Serve;
use super::status;
use crate::fleet::Fleet;
use crate::memory::Memory;
use crate::metrics::Metrics;

/// What operators and probes ask.
#[derive(Debug)]
pub struct Admin {
    /// Where it listens.
    pub bound: SocketAddr,
    /// How the servers are.
    pub fleet: Arc<Fleet>,
    /// All figures.
    pub metrics: Arc<Metrics>,
    /// What is held for clients.
    pub memory: Arc<Memory>,
    /// Set at the end: no new traffic should come.
    pub draining: AtomicBool,
    /// How the last reload went.
    pub last_reload: std::sync::Mutex<LastReload>,
}

/// How the last reload went, and the one before it that was taken.
#[derive(Debug, Default)]
pub struct LastReload {
    /// The problems of a file that was refused; none if it was taken.
    pub problems: Vec<String>,
    /// Warnings and notes of the file in force.
    pub warnings: Vec<String>,
    /// Keys in which the file in force differs from what the process was started with, and which are not read again.
    pub needs_restart: Vec<&'static str>,
}

impl Serve for Admin {
    async fn serve(&self, request: Request<Incoming>, _: &Arc<Peer>) -> Response<Body> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return bare(StatusCode::METHOD_NOT_ALLOWED);
        }
        let (parts, _) = request.into_parts();
        match parts.uri.path() {
            "/metrics" => {
                self.metrics.buffered(self.memory.held());
                let text = self.metrics.render();
                typed(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text.into())
            }
            "/livez" => said(true, "alive"),
            "/startz" => said(self.fleet.first_round_done(), "every server has been tried once"),
            // Never the servers' health: one broken server must not take the pod out.
            "/readyz" => said(!self.draining.load(Ordering::Acquire), "ready, and not on the way out"),
            // Tells more than a probe needs, so pages from elsewhere must not read it.
            "/" | "/status" => match guard::check(&parts, self.bound, &self.fleet.snapshot().config) {
                Ok(()) => typed(StatusCode::OK, "application/json", self.status().into()),
                Err(_) => said_with(
                    StatusCode::FORBIDDEN,
                    "ask by a loopback address, or list the host in `allowedHosts`",
                ),
            },
            _ => said_with(StatusCode::NOT_FOUND, "there are /status /metrics /livez /startz /readyz"),
        }
    }
}

impl Admin {
    fn status(&self) -> String {
        let last = self.last_reload.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        status::render(&self.fleet.snapshot(), &last)
    }
}

fn said(yes: bool, what: &str) -> Response<Body> {
    let status = if yes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    said_with(status, &format!("{}: {what}", if yes { "yes" } else { "not yet, or no longer" }))
}

fn said_with(status: StatusCode, text: &str) -> Response<Body> {
    typed(status, "text/plain; charset=utf-8", format!("{text}\n").into())
}
