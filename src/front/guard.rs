//! Who may talk to us at all: web pages from elsewhere may not, whatever name they resolve to us (specification,
//! `basic/transports`, DNS rebinding).

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, HeaderValue, ORIGIN};
use hyper::http::request::Parts;

use crate::config::Config;

/// Why a request is turned away at the door.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// We do not go by that host.
    Host(String),
    /// A page of that origin may not call us.
    Origin(String),
}

/// Checks `Host` and `Origin`.
///
/// # Errors
/// Which of them is wrong.
pub(super) fn check(parts: &Parts, bound: SocketAddr, config: &Config) -> Result<(), Stranger> {
    let hosts = || parts.headers.get_all(HOST).iter();
    let host = match parts.uri.authority() {
        Some(authority) => Some(authority.host().to_owned()),
        None if hosts().count() == 1 => hosts().next().and_then(host_of),
        None => None,
    };
    let strict = bound.ip().is_loopback() || !config.allowed_hosts.is_empty();
    let known = |host: &String| is_loopback(host) || config.allowed_hosts.iter().any(|h| h.eq_ignore_ascii_case(host));
    if strict && !host.as_ref().is_some_and(known) {
        return Err(Stranger::Host(host.unwrap_or_default()));
    }
    match parts.headers.get(ORIGIN) {
        Some(origin) if !allowed_origin(origin, bound, config) => {
            Err(Stranger::Origin(String::from_utf8_lossy(origin.as_bytes()).into_owned()))
        }
        Some(_) | None => Ok(()),
    }
}

fn host_of(value: &HeaderValue) -> Option<String> {
    let authority: hyper::http::uri::Authority = value.to_str().ok()?.parse().ok()?;
    Some(authority.host().to_owned())
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn allowed_origin(origin: &HeaderValue, bound: SocketAddr, config: &Config) -> bool {
    let Ok(text) = origin.to_str() else { return false };
    if config.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(text)) {
        return true;
    }
    let Ok(uri) = text.parse::<hyper::Uri>() else { return false };
    let web = matches!(uri.scheme_str(), Some("http" | "https"));
    bound.ip().is_loopback() && web && uri.host().is_some_and(is_loopback)
}
