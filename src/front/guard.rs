//! Who may talk to us at all: web pages from elsewhere may not, whatever name they resolve to us (specification,
//! `basic/transports`, DNS rebinding).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

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
    let host = if let Some(authority) = parts.uri.authority() {
        Some(authority.host())
    } else {
        let mut hosts = parts.headers.get_all(HOST).iter();
        hosts.next().filter(|_| hosts.next().is_none()).and_then(host_of)
    };
    let strict = bound.ip().is_loopback() || !config.allowed_hosts.is_empty();
    let known =
        |host: &str| is_loopback(host) || config.allowed_hosts.iter().any(|h| h.eq_ignore_ascii_case(host));
    if strict && !host.is_some_and(known) {
        return Err(Stranger::Host(host.unwrap_or_default().to_owned()));
    }
    match parts.headers.get(ORIGIN) {
        Some(origin) if !allowed_origin(origin, bound, config) => {
            Err(Stranger::Origin(String::from_utf8_lossy(origin.as_bytes()).into_owned()))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether whoever sends such a request may talk to us at all.
pub fn knows(parts: &Parts, bound: SocketAddr, config: &Config) -> bool {
    check(parts, bound, config).is_ok()
}

/// The host of a `Host` header, without its port; none where it could be read in two ways.
fn host_of(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?;
    let end = match text.strip_prefix('[') {
        Some(inside) => inside.find(']')? + 2,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at_checked(end)?;
    let port = if rest.is_empty() { rest } else { rest.strip_prefix(':')? };
    let clean = host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b));
    let numeric =
        port.bytes().all(|b| b.is_ascii_digit()) && (port.is_empty() || port.parse::<u16>().is_ok());
    (clean && !host.is_empty() && numeric).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    if host == "127.0.0.1" || host == "localhost" {
        return true;
    }
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(six) => six.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_loopback()),
        None => {
            host.eq_ignore_ascii_case("localhost")
                || host.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
        }
    }
}

fn allowed_origin(origin: &HeaderValue, bound: SocketAddr, config: &Config) -> bool {
    let Ok(text) = origin.to_str() else { return false };
    if config.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(text)) {
        return true;
    }
    let Ok(uri) = text.parse::<hyper::Uri>() else { return false };
    // The first takes ports that are none.
    if url::Url::parse(text).is_err() {
        return false;
    }
    let web = matches!(uri.scheme_str(), Some("http" | "https"));
    bound.ip().is_loopback() && web && uri.host().is_some_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(hosts: &[&'static str], origin: Option<&'static str>, bound: &str) -> Result<(), Stranger> {
        let mut request = hyper::Request::new(()).into_parts().0;
        for host in hosts {
            request.headers.append(HOST, HeaderValue::from_static(host));
        }
        if let Some(origin) = origin {
            request.headers.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        let config = Config {
            allowed_hosts: vec!["mcp.example.com".into()],
            allowed_origins: vec!["https://app.example.com".into()],
            ..Config::default()
        };
        check(&request, bound.parse().unwrap(), &config)
    }

    #[test]
    fn only_hosts_that_we_go_by_pass() {
        for host in
            ["localhost", "127.0.0.1:8931", "LOCALHOST:1", "[::1]:8931", "127.9.9.9", "MCP.example.com:443"]
        {
            assert_eq!(checked(&[host], None, "127.0.0.1:1"), Ok(()), "{host}");
        }
        let strangers = [
            "evil.example",
            "localhost.evil",
            "127.0.0.1.evil",
            "",
            ":80",
            "localhost:80:80",
            "localhost@evil",
            "[::1",
            "[::1]evil",
            "[::1]1",
            "[127.0.0.1]",
            "localhost evil",
            "10.0.0.1",
            "0.0.0.0",
            "127.0.0.1:8x",
            "localhost:65536",
        ];
        for host in strangers {
            let checked = checked(&[host], None, "127.0.0.1:1");
            assert!(matches!(checked, Err(Stranger::Host(_))), "{host}");
        }
        assert!(checked(&[], None, "127.0.0.1:1").is_err());
        assert!(checked(&["localhost", "localhost"], None, "127.0.0.1:1").is_err());
    }

    #[test]
    fn only_pages_of_ours_pass() {
        let from = |origin| checked(&["localhost"], Some(origin), "127.0.0.1:1");
        for origin in
            ["http://localhost:5173", "https://127.0.0.1", "http://[::1]:1", "https://app.example.com"]
        {
            assert_eq!(from(origin), Ok(()), "{origin}");
        }
        for origin in [
            "null",
            "https://evil.example",
            "http://localhost.evil",
            "file://localhost",
            "http://localhost:51K3",
            "https://app.example.com.evil",
        ] {
            assert!(from(origin).is_err(), "{origin}");
        }
        let public = checked(&["mcp.example.com"], Some("http://localhost"), "0.0.0.0:1");
        assert!(public.is_err(), "a page on the user's own machine is no page of a public server");
    }
}
