//! Texts that want to cost time, memory or a panic.

use proptest::prelude::*;

use super::super::Severity;
use super::{Fake, folder};

/// The one problem of a text that is not read to its end.
fn refused(text: &str) -> String {
    let problems = Fake::new().parse("test", text).unwrap_err();
    assert_eq!(problems.len(), 1, "{}", super::lines(&problems));
    problems[0].message.clone()
}

#[test]
fn a_large_file_is_not_read() {
    assert_eq!(refused(&"a: b\n".repeat(2 << 20)), "the file is larger than 1 MiB");
}

#[test]
fn a_bomb_of_aliases_is_defused() {
    let level = |level: usize| {
        format!("a{}: &a{} [{}]", level + 1, level + 1, vec![format!("*a{level}"); 10].join(","))
    };
    let bomb = format!("a0: &a0 [x]\n{}", lines_of(40, level));
    assert!(refused(&bomb).contains("aliases"));
    // one long text, many times
    let bomb = format!("a: &a {}\nb: [{}]\n", "x".repeat(500_000), "*a,".repeat(50_000));
    assert!(refused(&bomb).contains("aliases"));
    // anchors in anchors keep a copy each
    let bomb =
        format!("{}{}{}", lines_of(60, |level| format!("&a{level} [")), "x,".repeat(100_000), "]".repeat(60));
    assert!(refused(&bomb).contains("aliases"));
    assert!(refused("a: &a [*a]").contains("alias"));
}

fn lines_of(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn depth_is_limited() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = |levels| open.repeat(levels) + &close.repeat(levels);
        assert_eq!(refused(&deep(65)), "nested more than 64 deep");
        assert!(refused(&deep(50_000)).contains("limit exceeded")); // the parser's own, it looks ahead
    }
    assert_eq!(refused(&"- ".repeat(100_000)), "nested more than 64 deep");
    let stairs = lines_of(1000, |depth| format!("{}a:", " ".repeat(depth)));
    assert_eq!(refused(&stairs), "nested more than 64 deep");
}

#[test]
fn many_problems_are_cut_but_stay_errors() {
    let warnings = lines_of(5_000, |number| format!("    unknown{number}: 1"));
    let text = format!("mcpServers:\n  a:\n{warnings}\n    command: [x]\n");
    let problems = Fake::new().parse("test", &text).unwrap_err();
    assert_eq!(problems.len(), 1_001);
    assert_eq!(problems[1_000].message, "there is more; only the first 1000 problems are shown");
    assert_eq!(problems[1_000].severity, Severity::Error);
}

proptest! {
    /// Fixtures with pieces cut out, doubled or exchanged: never a panic, and never a refusal without a reason.
    #[test]
    fn damaged_files_are_refused_with_a_reason(
        which in any::<prop::sample::Index>(),
        from in any::<prop::sample::Index>(),
        length in 0..60_usize,
        instead in "[\\PC\n\t\"'{}\\[\\]:,&*!|>#%@` -]{0,8}",
    ) {
        let mut files = folder("tests/fixtures/config/valid", &["yaml", "json"]);
        files.extend(folder("tests/fixtures/config/invalid", &["yaml", "json"]));
        let text = std::fs::read_to_string(which.get(&files)).unwrap();
        let chars: Vec<char> = text.chars().collect();
        let from = from.index(chars.len() + 1);
        let to = (from + length).min(chars.len());
        let damaged: String = chars[..from].iter().copied().chain(instead.chars()).chain(chars[to..].iter().copied()).collect();
        match Fake::new().parse("test", &damaged) {
            Ok(parsed) => prop_assert!(parsed.notes.iter().all(|note| note.severity < Severity::Error)),
            Err(problems) => {
                prop_assert!(problems.iter().any(|problem| problem.severity == Severity::Error));
                prop_assert!(problems.is_sorted_by_key(|problem| (problem.line, problem.column)));
                prop_assert!(problems.iter().all(|problem| problem.line > 0 && problem.column > 0));
                prop_assert!(!super::lines(&problems).contains("s3cret"));
            }
        }
    }
}
