//! Requests that are turned away at the door.

use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

use super::body::Body;
use super::guard::Stranger;
use super::reply::{json_with, typed};
use crate::auth::Denied;
use crate::metrics::Rejection;
use crate::wire::{self, Code, Malformed};

/// Why a request is turned away, and what the client is told.
pub(super) struct Turned(pub(super) Rejection, pub(super) Box<Response<Body>>);

/// With a JSON-RPC error, which says what to do.
pub(super) fn refuse(why: Rejection, status: StatusCode, code: Code, text: &str) -> Turned {
    Turned(why, Box::new(json_with(status, wire::error(None, code, text))))
}

/// Whoever did not prove who he is. The challenge says how (RFC 6750 §3).
pub(super) fn unknown(denied: Denied) -> Turned {
    let Turned(why, mut response) = refuse(
        Rejection::Unauthenticated,
        StatusCode::UNAUTHORIZED,
        Code::InvalidRequest,
        &denied.to_string(),
    );
    let challenge = match denied {
        Denied::Missing => "Bearer",
        Denied::Unknown => r#"Bearer error="invalid_token""#,
    };
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    Turned(why, response)
}

/// What cannot be read.
pub(super) fn malformed(bad: &Malformed) -> Turned {
    refuse(Rejection::Malformed, StatusCode::BAD_REQUEST, code_of(bad), &bad.to_string())
}

/// The code for what cannot be read.
pub(super) fn code_of(bad: &Malformed) -> Code {
    match bad {
        Malformed::NotJson(_) => Code::Parse,
        Malformed::NotRpc(_) | Malformed::TooDeep(..) => Code::InvalidRequest,
    }
}

/// Whoever comes under a foreign name, or from a foreign page.
pub(super) fn stranger(stranger: Stranger) -> Turned {
    let (why, text) = match stranger {
        Stranger::Host(host) => (
            Rejection::Host,
            format!("requests to the host {host:?} are refused; list it in `allowedHosts`\n"),
        ),
        Stranger::Origin(origin) => {
            (Rejection::Origin, format!("pages of {origin:?} are refused; list it in `allowedOrigins`\n"))
        }
    };
    Turned(why, Box::new(typed(StatusCode::FORBIDDEN, "text/plain; charset=utf-8", text.into())))
}
