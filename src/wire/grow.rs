//! Room for a message that comes in pieces.

use bytes::BytesMut;

/// Makes room for `more` bytes in a buffer that may grow to `limit`. From a quarter of it on there is room for all at once:
/// by doubling it would end at twice the limit beside the half that is copied. Pages that nobody writes to cost nothing.
pub fn grow(buffer: &mut BytesMut, more: usize, limit: usize) {
    let (len, free) = (buffer.len(), buffer.capacity() - buffer.len());
    if free < more && len > limit / 4 {
        buffer.reserve(more.max((limit + SLACK).saturating_sub(len)));
    } else {
        buffer.reserve(more);
    }
}

/// For the piece that goes beyond the limit.
const SLACK: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_grows_once_and_what_is_small_stays_so() {
        const LIMIT: usize = 1 << 20;
        let (mut buffer, mut sizes) = (BytesMut::new(), Vec::new());
        while buffer.len() <= LIMIT {
            grow(&mut buffer, 1 << 14, LIMIT);
            buffer.extend_from_slice(&[0; 1 << 14]);
            sizes.push(buffer.capacity());
        }
        sizes.dedup();
        assert!(sizes.iter().all(|size| *size <= LIMIT + 2 * SLACK), "{sizes:?}");
        assert!(sizes[0] <= 1 << 15 && sizes.len() < 8, "{sizes:?}");
    }
}
