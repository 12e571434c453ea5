//! The start of a response: its status, those headers that mean something to us, and how its body ends.

use std::mem::MaybeUninit;

use hyper::StatusCode;

use super::framing::Framing;
use crate::transport::http::judge::{Response, Told};

/// Headers of a response: hyper's own limit.
const MOST: usize = 100;

/// The start of a response.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) response: Response<()>,
    pub(super) framing: Framing,
    /// The connection ends with it.
    pub(super) last: bool,
}

impl Start {
    /// Reads the head that `bytes` begin with, and tells its length; `None` where its end is missing.
    ///
    /// # Errors
    /// Where it is no HTTP, or its end could be read in two ways.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(usize, Self)>, &'static str> {
        let mut places = [const { MaybeUninit::uninit() }; MOST];
        let mut head = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut head,
            bytes,
            &mut places,
        );
        let length = match parsed {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err("its response is no HTTP"),
        };
        let status =
            head.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or("its status is none")?;
        let (mut told, mut ending) = (Told::default(), Ending::default());
        for header in &*head.headers {
            if !ending.take(header)? {
                told.read(header.name, header.value);
            }
        }
        let old = head.version != Some(1);
        let framing = ending.framing(status, old)?;
        let last = old || ending.close || ending.is_doubtful() || status == StatusCode::SWITCHING_PROTOCOLS;
        Ok(Some((length, Self { response: Response { status, told, body: () }, framing, last })))
    }

    /// Whether another one follows that is the response itself.
    pub(super) fn is_interim(&self) -> bool {
        let status = self.response.status;
        status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
    }
}

/// What headers say of the body's end and the connection's.
#[derive(Debug, Default)]
struct Ending {
    length: Option<u64>,
    /// Whether the last coding is that in chunks.
    chunked: Option<bool>,
    close: bool,
}

impl Ending {
    /// Whether it is such a header.
    fn take(&mut self, header: &httparse::Header<'_>) -> Result<bool, &'static str> {
        if is(header, "content-length") {
            for length in header.value.split(|byte| *byte == b',') {
                let length = number(length.trim_ascii()).ok_or("its content-length is no number")?;
                if self.length.replace(length).is_some_and(|other| other != length) {
                    return Err("it has two content-lengths");
                }
            }
        } else if is(header, "transfer-encoding") {
            let last = header.value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
            self.chunked = Some(last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
        } else if is(header, "connection") {
            let mut said = header.value.split(|byte| *byte == b',');
            self.close |= said.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// RFC 9112, 6.3.
    fn framing(&self, status: StatusCode, old: bool) -> Result<Framing, &'static str> {
        let bare = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
        Ok(match (self.chunked, self.length) {
            _ if bare || status.is_informational() => Framing::NOTHING,
            (Some(_), _) if old => return Err("it has a transfer-encoding, which HTTP/1.0 has not"),
            (Some(true), _) => Framing::CHUNKS,
            (None, Some(length)) => Framing::Length(length),
            (Some(false), _) | (None, None) => Framing::Closing,
        })
    }

    /// Whether others might read another end.
    fn is_doubtful(&self) -> bool {
        self.chunked.is_some() && self.length.is_some()
    }
}

fn is(header: &httparse::Header<'_>, name: &str) -> bool {
    header.name.eq_ignore_ascii_case(name)
}

/// Digits and nothing else.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// Whether a head's end, an empty line, may stand in `bytes`, which were looked through up to `from` before: so that one
/// that comes byte by byte is parsed once.
pub(super) fn ends(bytes: &[u8], from: usize) -> bool {
    let from = from.saturating_sub(2); // an empty line has two bytes at the most
    memchr::memchr_iter(b'\n', bytes.get(from..).unwrap_or_default()).any(|place| {
        let before = bytes.get(..from + place).unwrap_or_default();
        before.strip_suffix(b"\r").unwrap_or(before).last().is_none_or(|byte| *byte == b'\n')
    })
}
