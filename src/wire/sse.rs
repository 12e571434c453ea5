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

/// What of an event's data was taken before it had come whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Taken {
    #[default]
    Nothing,
    Some,
    /// `unread` begins in the middle of a data line whose start was.
    InLine,
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
    taken: Taken,
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
            taken: Taken::Nothing,
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
            if self.taken == Taken::InLine {
                self.taken = Taken::Some;
                self.data.extend_from_slice(&line);
            } else if line.is_empty() {
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

    /// What has come of the first data line of an event that is a message as far as is known, and has not come whole.
    pub fn begun(&self) -> Option<Bytes> {
        let is_first = !self.has_data && matches!(&*self.kind, "" | MESSAGE);
        let start = self.unfinished().filter(|_| is_first)?;
        self.unread.get(start..).map(Bytes::copy_from_slice)
    }

    /// Takes out what has come of the data of the event that has [begun](Self::begun) and of which the rest comes as a next
    /// event, if something has.
    pub fn take_data(&mut self) -> Option<Bytes> {
        if let Some(start) = self.unfinished() {
            if self.has_data {
                self.data.put_u8(b'\n');
            }
            self.unread.advance(start);
            (self.has_data, self.taken) = (true, Taken::InLine);
        }
        let mut data = match self.taken {
            Taken::Nothing => return None,
            Taken::Some | Taken::InLine => self.data.split(),
        };
        if self.taken == Taken::InLine {
            self.searched = 0;
            let line = self.unread.split();
            data.unsplit(line);
        }
        Some(data.freeze()).filter(|data| !data.is_empty())
    }

    /// Where the value of a data line begins that has not come whole.
    fn unfinished(&self) -> Option<usize> {
        let is_line = self.taken != Taken::InLine && self.searched == self.unread.len();
        // A first space, which may be yet to come, is none of it.
        let value = self.unread.strip_prefix(b"data:").filter(|value| is_line && !value.is_empty())?;
        Some(self.unread.len() - value.strip_prefix(b" ").unwrap_or(value).len())
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
        if std::mem::take(&mut self.taken) == Taken::Nothing && data.is_empty() {
            return None; // a priming event carries only an id
        }
        Some(Event { kind: if kind.is_empty() { MESSAGE.into() } else { kind }, data })
    }
}

/// The kind of an event whose sender gave it none.
const MESSAGE: &str = "message";

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
    fn data_may_be_taken_as_it_comes() {
        let long = "x".repeat(50);
        let text = format!("id: 1\ndata: {long}\ndata:{long}\r\ndata: end\nid: 2\n\ndata: next\n\n");
        for size in 1..text.len() {
            let mut decoder = SseDecoder::new(1 << 20);
            let (mut taken, mut events) = (Vec::new(), Vec::new());
            for part in text.as_bytes().chunks(size) {
                decoder.push(part);
                while let Some(event) = decoder.next_event().unwrap() {
                    events.push(event);
                }
                if events.is_empty()
                    && (!taken.is_empty() || decoder.begun().is_some_and(|start| start.len() > 9))
                {
                    taken.extend(decoder.take_data().unwrap_or_default());
                }
            }
            taken.extend_from_slice(&events[0].data);
            assert_eq!(String::from_utf8(taken).unwrap(), format!("{long}\n{long}\nend"), "pieces of {size}");
            assert_eq!(events[1].data, "next");
            assert_eq!((events.len(), decoder.last_id()), (2, Some("2")));
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
