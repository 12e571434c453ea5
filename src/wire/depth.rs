//! How deep a JSON text nests.

/// The deepest nesting of objects and arrays in `text`.
///
/// Our own parser does not recurse and takes any depth, but the next one down the line may not, so messages that pass
/// through are limited here. `text` need not be valid JSON.
pub(super) fn deepest(text: &[u8]) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => {
                now += 1;
                most = most.max(now);
            }
            b'}' | b']' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::deepest;

    #[test]
    fn counts_only_what_nests() {
        assert_eq!(deepest(br#"{"a":[1,{"b":"}}[[{{\"{"}],"c":{}}"#), 3);
        assert_eq!(deepest(br#""\\""#), 0);
        assert_eq!(deepest(&b"[".repeat(1_000_000)), 1_000_000);
    }
}
