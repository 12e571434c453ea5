//! Server-sent events (HTML standard, `server-sent-events`), in and out.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::build::flat;
use super::grow::grow;

/// One event that has data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its kind; `message` where the sender gave none.
    pub kind: String,
    /// Its data lines, joined by line feeds.
    pub data: Bytes,
}

/// An event grew beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {0} bytes")]
pub struct SseTooLong(pub usize);

/// Reads events from chunks of any size. Lines end in CR, LF or CRLF; comments and events without data are passed over.
#[derive(Debug)]
pub struct SseDecoder {
    unread: BytesMut,
    /// How much of `unread` is known to hold no line end.
    searched: usize,
    /// The last line ended in CR at the end of a chunk: a LF that follows belongs to it.
    after_cr: bool,
    started: bool,
    limit: usize,
    kind: String,
    data: BytesMut,
    has_data: bool,
    last_id: Option<String>,
    retry_ms: Option<u64>,
}

impl SseDecoder {
    /// A decoder for events of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            unread: BytesMut::new(),
            searched: 0,
            after_cr: false,
            started: false,
            limit,
            kind: String::new(),
            data: BytesMut::new(),
            has_data: false,
            last_id: None,
            retry_ms: None,
        }
    }

    /// How many bytes it holds.
    pub fn held(&self) -> usize {
        self.unread.len() + self.data.len()
    }

    /// The last event id seen: where to resume.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How long the sender wants us to wait before we connect again, in milliseconds.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Takes a chunk in.
    pub fn push(&mut self, chunk: &[u8]) {
        grow(&mut self.unread, chunk.len(), self.limit);
        self.unread.extend_from_slice(chunk);
    }

    /// The next whole event.
    ///
    /// # Errors
    /// Where an event is larger than the limit; the stream is of no use from then on.
    pub fn next_event(&mut self) -> Result<Option<Event>, SseTooLong> {
        while let Some(line) = self.next_line() {
            if line.is_empty() {
                if let Some(event) = self.dispatch() {
                    return Ok(Some(event));
                }
            } else {
                self.take_field(&line);
            }
            self.check()?;
        }
        self.check()?;
        Ok(None)
    }

    fn check(&self) -> Result<(), SseTooLong> {
        if self.unread.len() + self.data.len() > self.limit.saturating_add(SLACK) {
            return Err(SseTooLong(self.limit));
        }
        Ok(())
    }

    fn next_line(&mut self) -> Option<BytesMut> {
        if self.after_cr && !self.unread.is_empty() {
            self.after_cr = false;
            if self.unread.first() == Some(&b'\n') {
                self.unread.advance(1);
                self.searched = 0;
            }
        }
        if !self.started && self.unread.len() >= BOM.len() {
            self.started = true;
            if self.unread.starts_with(BOM) {
                self.unread.advance(BOM.len());
                self.searched = 0;
            }
        }
        let Some(at) = memchr::memchr2(b'\n', b'\r', self.unread.get(self.searched..)?) else {
            self.searched = self.unread.len();
            return None;
        };
        let mut line = self.unread.split_to(self.searched + at + 1);
        self.searched = 0;
        self.started = true; // a short first line leaves no place for the mark
        self.after_cr = line.last() == Some(&b'\r');
        line.truncate(line.len() - 1);
        Some(line)
    }

    fn take_field(&mut self, line: &[u8]) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let (name, rest) = line.split_at(colon);
        let value = rest.strip_prefix(b":").unwrap_or(rest);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.has_data {
                    self.data.put_u8(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.kind = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => self.last_id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" => self.retry_ms = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok()),
            _ => {} // a comment has an empty name; other fields are to be ignored
        }
    }

    fn dispatch(&mut self) -> Option<Event> {
        let kind = std::mem::take(&mut self.kind);
        self.has_data = false;
        let data = self.data.split().freeze();
        if data.is_empty() {
            return None; // a priming event carries only an id
        }
        Some(Event { kind: if kind.is_empty() { "message".into() } else { kind }, data })
    }
}

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// What field names and line ends may add to an event's data.
const SLACK: usize = 1024;

/// One message as an event.
pub fn frame(message: &Bytes) -> Bytes {
    let message = flat(message.clone());
    let mut out = BytesMut::with_capacity(message.len() + 24);
    out.put_slice(b"event: message\ndata: ");
    out.put_slice(&message);
    out.put_slice(b"\n\n");
    out.freeze()
}

/// One message as an event with an id, which must be on one line.
pub fn frame_as(id: &str, message: &Bytes) -> Bytes {
    let message = flat(message.clone());
    let mut out = BytesMut::with_capacity(message.len() + id.len() + 32);
    out.put_slice(b"id: ");
    out.put_slice(id.as_bytes());
    out.put_slice(b"\nevent: message\ndata: ");
    out.put_slice(&message);
    out.put_slice(b"\n\n");
    out.freeze()
}

/// An event that says nothing but where a stream can be resumed, and after how many milliseconds it should be.
pub fn priming(id: &str, retry_ms: u64) -> Bytes {
    format!("id: {id}\nretry: {retry_ms}\ndata: \n\n").into()
}

/// A comment: shows that a stream lives and keeps middle boxes from closing it.
pub fn comment() -> Bytes {
    Bytes::from_static(b": \n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &[u8], chunk: usize) -> Vec<Event> {
        let mut decoder = SseDecoder::new(1 << 20);
        let mut events = Vec::new();
        for part in text.chunks(chunk) {
            decoder.push(part);
            while let Some(event) = decoder.next_event().unwrap() {
                events.push(event);
            }
        }
        events
    }

    #[test]
    fn fault_077_any_chunking_reads_the_same() {
        let text = "\u{feff}: hi\r\nid: 1\r\ndata:\r\n\r\nevent: x\rdata: a\rdata:b\r\rretry: 50\n\ndata: é\n\nid\ndata\n\ndata: cut"
            .as_bytes();
        let event = |kind: &str, data: &str| Event {
            kind: kind.into(),
            data: Bytes::copy_from_slice(data.as_bytes()),
        };
        let expected = [event("x", "a\nb"), event("message", "é")];
        for chunk in 1..=text.len() {
            assert_eq!(decode(text, chunk), expected, "chunks of {chunk}");
        }
        for chunk in 1..9 {
            let first = "\u{feff}\ndata: a\n\n".as_bytes();
            assert_eq!(decode(first, chunk), [event("message", "a")], "chunks of {chunk}");
            let second = "\n\u{feff}data: a\n\n".as_bytes(); // a field that nobody knows
            assert_eq!(decode(second, chunk), [], "chunks of {chunk}");
        }
    }

    #[test]
    fn fault_077_an_endless_line_is_refused() {
        let mut decoder = SseDecoder::new(10);
        decoder.push(&[b'x'; 2000]);
        assert_eq!(decoder.next_event(), Err(SseTooLong(10)));
    }

    #[test]
    fn a_frame_is_one_event() {
        let message = "{\n\"a\":1}".into();
        for frame in [frame(&message), frame_as("a-1", &message)] {
            let events = decode(&frame, 3);
            assert_eq!(events, [Event { kind: "message".into(), data: "{ \"a\":1}".into() }]);
        }
        let mut decoder = SseDecoder::new(99);
        decoder.push(&frame_as("a-1", &message));
        decoder.next_event().unwrap().unwrap();
        assert_eq!(decoder.last_id(), Some("a-1"));
        decoder.push(&priming("a-2", 70));
        assert_eq!(decoder.next_event(), Ok(None));
        assert_eq!((decoder.last_id(), decoder.retry_ms()), (Some("a-2"), Some(70)));
    }
}
