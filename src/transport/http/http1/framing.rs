//! Where a response's body ends.

use bytes::{Buf, Bytes, BytesMut};
use httparse::Status;

/// The longest line between chunks, in bytes.
const LINE: usize = 4 << 10;
/// All that may stand behind the last chunk.
const TRAILERS: usize = 16 << 10;

/// What is still to come of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes.
    Length(u64),
    Chunks(Chunk),
    /// All up to the connection's end.
    Closing,
}

/// Where in its chunks a body is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// Before a chunk's size.
    Size,
    /// In a chunk, before so many bytes of it.
    Data(u64),
    /// Behind its data.
    Break,
    /// In what stands behind the last chunk, behind so many bytes of it.
    Trailers(usize),
}

/// What stands next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Data(Bytes),
    End,
    /// More has to come first.
    More,
}

impl Framing {
    /// No body, or none any more.
    pub(super) const NOTHING: Self = Self::Length(0);
    /// A body in chunks.
    pub(super) const CHUNKS: Self = Self::Chunks(Chunk::Size);

    pub(super) fn is_over(&self) -> bool {
        *self == Self::NOTHING
    }

    /// Bytes that are still to come, at least.
    pub(super) fn announced(&self) -> u64 {
        match self {
            Self::Length(left) | Self::Chunks(Chunk::Data(left)) => *left,
            Self::Chunks(Chunk::Size | Chunk::Break | Chunk::Trailers(_)) | Self::Closing => 0,
        }
    }

    /// The connection has ended. Whether that is the end of the body.
    pub(super) fn close(&mut self) -> bool {
        let ends = *self == Self::Closing;
        if ends {
            *self = Self::NOTHING;
        }
        ends
    }

    /// Takes what stands next in `came`.
    ///
    /// # Errors
    /// Where that is no body.
    pub(super) fn next(&mut self, came: &mut BytesMut) -> Result<Piece, &'static str> {
        loop {
            match self {
                Self::Length(0) => return Ok(Piece::End),
                Self::Length(left) => return Ok(data(came, left)),
                Self::Closing if came.is_empty() => return Ok(Piece::More),
                Self::Closing => return Ok(Piece::Data(came.split().freeze())),
                Self::Chunks(chunk) => match chunk {
                    Chunk::Size => match httparse::parse_chunk_size(came) {
                        // The parser takes no digits at all for a zero, which would be an end.
                        Ok(Status::Complete((length, size)))
                            if length <= LINE && came.first().is_some_and(u8::is_ascii_hexdigit) =>
                        {
                            came.advance(length);
                            *chunk = if size == 0 { Chunk::Trailers(0) } else { Chunk::Data(size) };
                        }
                        Ok(Status::Partial) if came.len() < LINE => return Ok(Piece::More),
                        Ok(_) | Err(_) => return Err("a chunk of its body has no size"),
                    },
                    Chunk::Data(0) => *chunk = Chunk::Break,
                    Chunk::Data(left) => return Ok(data(came, left)),
                    Chunk::Break => match came.get(..2) {
                        Some(b"\r\n") => {
                            came.advance(2);
                            *chunk = Chunk::Size;
                        }
                        Some(_) => return Err("a chunk of its body is longer than its size"),
                        None => return Ok(Piece::More),
                    },
                    Chunk::Trailers(before) => {
                        let Some(end) = memchr::memchr(b'\n', came) else {
                            let fits = *before + came.len() < TRAILERS;
                            return if fits { Ok(Piece::More) } else { Err(TOO_MUCH) };
                        };
                        let empty = came.get(..end).is_some_and(|line| matches!(line, b"" | b"\r"));
                        *before += end + 1;
                        let fits = *before <= TRAILERS;
                        came.advance(end + 1);
                        if empty {
                            *self = Self::NOTHING;
                        } else if !fits {
                            return Err(TOO_MUCH);
                        }
                    }
                },
            }
        }
    }
}

const TOO_MUCH: &str = "too much stands behind its body";

/// As much of `left` bytes as has come.
fn data(came: &mut BytesMut, left: &mut u64) -> Piece {
    let some = usize::try_from(*left).unwrap_or(usize::MAX).min(came.len());
    if some == 0 {
        return Piece::More;
    }
    *left -= some as u64;
    Piece::Data(came.split_to(some).freeze())
}
