//! Lines out of chunks.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::wire::grow;

/// How much room a read finds at least.
const CHUNK: usize = 8 << 10;

/// What a line may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// A whole line, without its end.
    Whole,
    /// The start of one that is longer than the limit; the rest follows.
    Part,
}

/// Reads lines of at most `limit` bytes.
#[derive(Debug)]
pub struct Lines<R> {
    from: R,
    unread: BytesMut,
    /// How much of `unread` is known to hold no line end.
    searched: usize,
    limit: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// The lines of `from`.
    pub fn new(from: R, limit: usize) -> Self {
        Self { from, unread: BytesMut::new(), searched: 0, limit }
    }

    /// The next line; `None` at the end, where an unfinished one still counts.
    ///
    /// # Errors
    /// What the reader says.
    pub async fn next(&mut self) -> std::io::Result<Option<(Bytes, Line)>> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', self.unread.get(self.searched..).unwrap_or_default()) {
                let end = self.searched + at;
                self.searched = 0;
                let mut line = self.unread.split_to(end + 1);
                line.truncate(end);
                if line.last() == Some(&b'\r') {
                    line.truncate(end - 1);
                }
                return Ok(Some((line.freeze(), Line::Whole)));
            }
            self.searched = self.unread.len();
            if self.searched > self.limit {
                self.searched = 0;
                return Ok(Some((self.unread.split().freeze(), Line::Part)));
            }
            grow(&mut self.unread, CHUNK, self.limit);
            if self.from.read_buf(&mut self.unread).await? == 0 {
                self.searched = 0;
                let rest = self.unread.split().freeze();
                return Ok((!rest.is_empty()).then_some((rest, Line::Whole)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &[u8], limit: usize) -> Vec<(String, Line)> {
        let mut lines = Lines::new(text, limit);
        let mut found = Vec::new();
        while let Some((line, what)) = lines.next().await.unwrap() {
            found.push((String::from_utf8(line.to_vec()).unwrap(), what));
        }
        found
    }

    #[tokio::test]
    async fn ends_of_lines_and_of_all() {
        let line = |text: &str| (text.to_owned(), Line::Whole);
        assert_eq!(read(b"a\r\n\nbc\rd\nrest", 9).await, [line("a"), line(""), line("bc\rd"), line("rest")]);
        assert_eq!(read(b"", 9).await, []);
        let long = "x".repeat(3 * CHUNK);
        assert_eq!(read(long.as_bytes(), 10).await[0].1, Line::Part);
    }
}
