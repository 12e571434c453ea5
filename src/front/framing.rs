//! Heads of HTTP/1 that say twice, or in two ways, where their body ends (RFC 9112, 6.3).
//!
//! hyper takes one of them and drops the other, so nobody above it can tell; something between the client and us may
//! have taken the other, and then what follows is not what it seems. So the bytes are looked at as they come.

/// Looks for lines of heads, wherever reads cut them. A line of a body can look like one only where it is no JSON.
#[derive(Debug, Default)]
pub(super) struct Framing {
    /// The beginning of a line that is not whole yet.
    begun: [u8; LONGEST],
    len: usize,
    lengths: u8,
    encodings: u8,
}

const LENGTH: &[u8] = b"content-length:";
const ENCODING: &[u8] = b"transfer-encoding:";
const LONGEST: usize = ENCODING.len();

impl Framing {
    /// Looks at the next bytes; whether a head that ends in them is ambiguous.
    pub(super) fn doubtful(&mut self, mut bytes: &[u8]) -> bool {
        let mut doubtful = false;
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
            doubtful |= if self.len == 0 { self.line(line) } else { self.line_begun(line) };
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.keep(bytes);
        doubtful
    }

    fn line_begun(&mut self, end: &[u8]) -> bool {
        self.keep(end);
        let (begun, len) = (self.begun, std::mem::take(&mut self.len));
        self.line(begun.get(..len).unwrap_or_default())
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.begun.get_mut(self.len..).unwrap_or_default();
        let taken = room.len().min(bytes.len());
        if let (Some(to), Some(from)) = (room.get_mut(..taken), bytes.get(..taken)) {
            to.copy_from_slice(from);
        }
        self.len += taken;
    }

    /// Whether a head ends here that is ambiguous.
    fn line(&mut self, line: &[u8]) -> bool {
        let is = |name: &[u8]| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        match line.first() {
            None | Some(b'\r') => {
                let (lengths, encodings) =
                    (std::mem::take(&mut self.lengths), std::mem::take(&mut self.encodings));
                return lengths.saturating_add(encodings) > 1;
            }
            Some(b'c' | b'C') if is(LENGTH) => self.lengths = self.lengths.saturating_add(1),
            Some(b't' | b'T') if is(ENCODING) => self.encodings = self.encodings.saturating_add(1),
            Some(_) => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_006_a_head_that_frames_its_body_twice_is_found_however_it_is_cut() {
        let whole =
            |more: &str| format!("POST /mcp HTTP/1.1\r\nHost: x\r\n{more}\r\n\r\n{{\"content-length:\":1}}");
        for (more, doubtful) in [
            ("Content-Length: 5", false),
            ("Transfer-Encoding: chunked", false),
            ("X-Content-Length: 5\r\nContent-Length: 5\r\nContent-Lengthy: 1", false),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked", true),
            ("transfer-encoding: chunked\r\nX: y\r\nCONTENT-LENGTH: 5", true),
            ("Content-Length: 5\r\nContent-Length: 5", true),
            ("Content-Length: 5\nContent-Length: 6", true),
        ] {
            for piece in [1, 2, 7, 17, 18, 19, 4096] {
                let mut framing = Framing::default();
                let text = whole(more).repeat(3);
                let found = text.as_bytes().chunks(piece).filter(|bytes| framing.doubtful(bytes)).count();
                assert_eq!(found > 0, doubtful, "{more:?} in pieces of {piece}");
            }
        }
    }
}
