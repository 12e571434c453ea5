//! What a misspelt word was meant to be.

/// The word of `known` that is nearest to `word`, if it is near enough to be meant: at most two letters, and at most a
/// third of them, added, dropped, changed or swapped. Upper and lower case, `_` and `-` do not count.
pub(super) fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    const LONGEST: usize = 40; // no key of ours is longer, and the work grows with the square
    let word = folded(word);
    if word.len() > LONGEST {
        return None;
    }
    let distances = known.map(|known| (distance(&word, &folded(known)), known));
    let (distance, nearest) = distances.min_by_key(|&(distance, _)| distance)?;
    (distance <= 2.min(word.len() / 3)).then_some(nearest)
}

fn folded(word: &str) -> Vec<char> {
    word.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// Letters to add, drop, change or swap with a neighbour, to come from `a` to `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX - 1);
    let mut above_that: Vec<usize> = vec![];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let changed = at(&above, j) + usize::from(x != y);
            let mut best = changed.min(at(&above, j + 1) + 1).min(at(&row, j) + 1);
            let before =
                |letters: &[char], place: usize| place.checked_sub(1).and_then(|p| letters.get(p).copied());
            if before(a, i) == Some(*y) && before(b, j) == Some(*x) {
                best = best.min(at(&above_that, j.saturating_sub(1)) + 1);
            }
            row.push(best);
        }
        above_that = std::mem::replace(&mut above, row);
    }
    at(&above, b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let known = ["listen", "timeout", "mcpServers", "tls"];
        for (word, meant) in [
            ("lisetn", Some("listen")),
            ("mcp_servers", Some("mcpServers")),
            ("mcpserver", Some("mcpServers")),
            ("timeuot", Some("timeout")),
            ("timeouts", Some("timeout")),
            ("tsl", Some("tls")),
            ("tl", None),
            ("interface", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known.into_iter()), meant, "{word}");
        }
    }
}
