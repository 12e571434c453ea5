//! Globs of the operator's.

/// Whether `name`, the server's own, passes. An empty `allow` lets all pass that are not denied.
pub(super) fn passes(allow: &[String], deny: &[String], name: &str) -> bool {
    (allow.is_empty() || any(allow, name)) && !any(deny, name)
}

/// Whether one of `globs` is about `name`.
pub(super) fn any(globs: &[String], name: &str) -> bool {
    globs.iter().any(|glob| matches(glob.as_bytes(), name.as_bytes()))
}

/// `*` stands for any run of characters, `?` for one. Linear in practice: only the last `*` is ever tried again.
fn matches(glob: &[u8], name: &[u8]) -> bool {
    let (mut g, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match glob.get(g) {
            Some(b'*') => {
                star = Some((g, n));
                g += 1;
            }
            Some(c) if *c == b'?' || Some(c) == name.get(n) => {
                g += 1;
                n += 1;
            }
            _ => {
                let Some((star_g, star_n)) = star else { return false };
                star = Some((star_g, star_n + 1));
                g = star_g + 1;
                n = star_n + 1;
            }
        }
    }
    glob.get(g..).is_some_and(|rest| rest.iter().all(|c| *c == b'*'))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn globs() {
        for (glob, name, hit) in [
            ("read_*", "read_file", true),
            ("read_*", "write", false),
            ("*", "", true),
            ("?", "", false),
            ("*a*b", "xxaxxbxb", true),
            ("a?c", "abc", true),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(glob.as_bytes(), name.as_bytes()), hit, "{glob} {name}");
        }
    }
}
