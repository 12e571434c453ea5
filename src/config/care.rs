//! What of a server's entry says how it is treated when it fails or is slow.

use std::time::Duration;

use super::keys::{BREAKER, RETRIES, SERVER_LIMITS};
use super::node::{Node, Value};
use super::reader::{Fields, Reader};

/// How a server is treated when it fails or is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Care {
    /// When it is given a rest after failed calls; never where absent.
    pub breaker: Option<Breaker>,
    /// Which calls may be sent twice.
    pub retry: Retry,
    /// Its calls in flight, in place of [`Limits::calls_per_server`](super::Limits::calls_per_server).
    pub calls: Option<usize>,
    /// Its largest message in bytes, in place of [`Limits::upstream_message`](super::Limits::upstream_message).
    pub message: Option<usize>,
}

impl Default for Care {
    fn default() -> Self {
        Self { breaker: Some(Breaker::USUAL), retry: Retry::Never, calls: None, message: None }
    }
}

/// When a server is given a rest after failed calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// After how many failed rounds in a row; calls that fail side by side are one.
    pub failures: usize,
    /// Within which time.
    pub window: Duration,
    /// For how long at first; each time that does not help for twice as long, up to five minutes.
    pub open: Duration,
}

impl Breaker {
    /// Seldom enough that one bad tool does not stop the others, soon enough that callers need not wait for each timeout.
    pub const USUAL: Self =
        Self { failures: 3, window: Duration::from_secs(120), open: Duration::from_secs(30) };
}

/// Which calls of tools may be sent twice, where the server may have seen them already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// None.
    #[default]
    Never,
    /// Of tools that say they only read (`readOnlyHint`).
    ReadOnly,
    /// Of those, too, that say the same call twice does no more than once (`idempotentHint`).
    Idempotent,
}

/// Reads it.
pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Care {
    let (breaker, retry) = (breaker(reader, fields), retry(reader, fields));
    let (calls, message) = limits(reader, fields);
    Care { breaker, retry, calls, message }
}

/// When it is given a rest.
fn breaker(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Breaker> {
    let usual = Breaker::USUAL;
    let Some(node) = fields.get("breaker") else { return Some(usual) };
    if is_false(node) {
        return None;
    }
    let name = fields.name("breaker");
    let Some(inner) = reader.fields(node, BREAKER, &name, &format!(" of {name}")) else { return Some(usual) };
    reader.warn_unknown(&inner, BREAKER);
    Some(Breaker {
        failures: reader.whole(&inner, "failures", 1, 1_000).unwrap_or(usual.failures),
        window: reader.duration(&inner, "window").unwrap_or(usual.window),
        open: reader.duration(&inner, "open").unwrap_or(usual.open),
    })
}

fn is_false(node: &Node) -> bool {
    matches!(&node.value, Value::Scalar { text, quoted: false } if text == "false")
}

/// Which calls may be sent twice.
fn retry(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Retry {
    match reader.choice(fields, "retry", RETRIES) {
        Some("readOnly") => Retry::ReadOnly,
        Some("idempotent") => Retry::Idempotent,
        _ => Retry::Never,
    }
}

/// Its own limits: calls in flight, and the largest message.
fn limits(reader: &mut Reader<'_>, fields: &Fields<'_>) -> (Option<usize>, Option<usize>) {
    const MOST: usize = 1 << 30;
    let (Some(node), name) = (fields.get("limits"), fields.name("limits")) else { return (None, None) };
    let Some(inner) = reader.fields(node, SERVER_LIMITS, &name, &format!(" of {name}")) else {
        return (None, None);
    };
    reader.warn_unknown(&inner, SERVER_LIMITS);
    (reader.whole(&inner, "calls", 1, 100_000), reader.size(&inner, "message", 1 << 10, MOST))
}
