//! The ids of events on a session's streams: which stream, and how far.

use std::fmt;

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Which of a session's streams. The number is random, so that it means nothing to a process that takes the session over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamId {
    /// Whether it tells a call's answer; otherwise it is the session's own.
    pub(super) call: bool,
    number: u64,
}

/// How far a stream was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Up to this message; 0 is the start.
    After(u64),
    /// Up to the last.
    End,
}

/// An id, read: `c0123456789abcdef-17`, `…-17.2`, `…-17-NQ` or `…-end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) stream: StreamId,
    pub(super) place: Place,
    /// The id of the request that the stream answers, raw. It lies in the event's id, so that even a process that has
    /// never heard of the stream can tell the client that there will be no answer.
    pub(super) request: Option<Vec<u8>>,
}

/// Longest request id that goes into ids of events, in bytes.
pub(super) const REQUEST_MAX: usize = 64;

impl StreamId {
    /// A new one.
    pub(super) fn new(call: bool) -> Self {
        let mut number = [0; 8];
        rand::fill(&mut number).expect("the system gives random bytes");
        Self { call, number: u64::from_be_bytes(number) }
    }

    /// The id of its last event, after which a client need not ask for more.
    pub(super) fn end(self) -> String {
        format!("{self}-end")
    }

    fn parse(text: &str) -> Option<Self> {
        let call = match text.get(..1)? {
            "c" => true,
            "g" => false,
            _ => return None,
        };
        let digits = text.get(1..)?;
        let plain = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        Some(Self { call, number: u64::from_str_radix(digits, 16).ok().filter(|_| plain)? })
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:016x}", if self.call { 'c' } else { 'g' }, self.number)
    }
}

/// What the ids of a stream that answers `request` end in.
pub(super) fn tail(request: Option<&[u8]>) -> Box<str> {
    request.map(|id| format!("-{}", URL_SAFE_NO_PAD.encode(id))).unwrap_or_default().into()
}

impl EventId {
    /// Reads what a client sent; `None` where it is no id of ours.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '-');
        let (stream, place) = (StreamId::parse(parts.next()?)?, parts.next()?);
        let request = match parts.next() {
            Some(tail) => Some(URL_SAFE_NO_PAD.decode(tail).ok().filter(|id| id.len() <= REQUEST_MAX)?),
            None => None,
        };
        let place = if place == "end" { Place::End } else { Place::After(number(place)?) };
        Some(Self { stream, place, request })
    }
}

/// The number of a message. What stands behind a point only makes the id one of its kind.
fn number(place: &str) -> Option<u64> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let (number, turn) = place.split_once('.').unwrap_or((place, "0"));
    (digits(number) && digits(turn)).then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_write_we_read() {
        for (call, request) in [(true, Some(&b"\"a\xff-\""[..])), (true, None), (false, None)] {
            let stream = StreamId::new(call);
            let text = format!("{stream}-17{}", tail(request));
            assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
            let read = EventId::parse(&text).unwrap();
            assert_eq!(
                read,
                EventId { stream, place: Place::After(17), request: request.map(<[u8]>::to_vec) }
            );
            assert_eq!(EventId::parse(&text.replace("-17", "-17.3")), Some(read));
            assert_eq!(EventId::parse(&stream.end()).unwrap().place, Place::End);
        }
        assert_ne!(StreamId::new(true), StreamId::new(true));
    }

    #[test]
    fn what_others_write_we_do_not() {
        let stream = StreamId::new(true);
        for bad in ["", "17", "-", "c-1", "x0123456789abcdef-1", "c+123456789abcdef-1", "cé", "é"] {
            assert_eq!(EventId::parse(bad), None, "{bad}");
        }
        for bad in
            ["", "-", "-x", "--1", "-1.", "-.1", "-1.x", "-+1", "-1-*", "-99999999999999999999", "-end-="]
        {
            assert_eq!(EventId::parse(&format!("{stream}{bad}")), None, "{bad}");
        }
    }
}
