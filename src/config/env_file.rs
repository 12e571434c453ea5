//! Files of variables: `NAME=value`, one a line.

/// The variables, or the lines (from 1) that are none. Blank lines and `#` comments are skipped, `export` before a name
/// is fine, and a value may stand in quotes: as it is in `'`, with `\n`, `\"` and `\\` in `"`. Nothing is replaced.
pub(super) fn read(text: &str) -> Result<Vec<(String, String)>, Vec<usize>> {
    let (mut variables, mut wrong) = (vec![], vec![]);
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match variable(line) {
            Some(variable) => variables.push(variable),
            None => wrong.push(number),
        }
    }
    if wrong.is_empty() { Ok(variables) } else { Err(wrong) }
}

fn variable(line: &str) -> Option<(String, String)> {
    let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '\0') {
        return None;
    }
    let value = if let Some(rest) = value.strip_prefix('\'') {
        rest.split_once('\'').filter(|(_, after)| is_end(after))?.0.to_owned()
    } else if let Some(rest) = value.strip_prefix('"') {
        quoted(rest)?
    } else {
        value.split_once(" #").map_or(value, |(value, _)| value.trim_end()).to_owned()
    };
    Some((name.to_owned(), value))
}

fn quoted(rest: &str) -> Option<String> {
    let mut value = String::new();
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return is_end(chars.as_str()).then_some(value),
            '\\' => value.push(match chars.next()? {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

/// Nothing but a comment may follow a closing quote.
fn is_end(after: &str) -> bool {
    let after = after.trim_start();
    after.is_empty() || after.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        let text = "\u{feff}# a comment\r\n\nA=1\nexport B = two words # not this\nC='a \"b\" #c'\nD=\"x\\ny\\\"z\" # d\nE=\nF=a=b#c\n";
        let read = read(text).unwrap();
        let read: Vec<(&str, &str)> =
            read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let want = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "a \"b\" #c"),
            ("D", "x\ny\"z"),
            ("E", ""),
            ("F", "a=b#c"),
        ];
        assert_eq!(read, want);
    }

    #[test]
    fn wrong_lines_are_all_told() {
        assert_eq!(read("A=1\nnothing\n=x\nB='open\nC=\"x\" y\nD D=1"), Err(vec![2, 3, 4, 5, 6]));
    }
}
