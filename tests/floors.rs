//! The rooms of `src` and their floors, as the table in the crate's documentation has them: a room uses lower floors
//! only.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

type Floors = BTreeMap<String, u8>;

/// What a room must not name at all.
const FOREIGN: [(&str, &[&str]); 2] = [
    ("tokio", &["wire", "names", "mcp", "config", "catalog"]), // no sockets, clocks or tasks
    ("hyper", &["wire", "names", "catalog", "session", "upstream", "fleet", "relay"]), // no HTTP
];

/// The rows `//! | 3 | [`upstream`] | … |`.
fn floors(docs: &str) -> Floors {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("//! |")?.split('|').map(str::trim);
        let floor = cells.next()?.parse().ok()?;
        Some((cells.next()?.trim_matches(['[', ']', '`']).to_owned(), floor))
    };
    docs.lines().filter_map(row).collect()
}

/// The first names of each path from the crate's root: after `crate::`, or after `super::` often enough to leave a room
/// from a file `depth` modules deep. (A module inside a file is deeper: write `crate::` there.)
fn from_root(code: &str, depth: usize) -> Vec<String> {
    let up = "super::".repeat(depth);
    let climbed = code.split(&up).skip(1).map(|path| path.trim_start_matches("super::"));
    code.split("crate::").skip(1).chain(climbed).flat_map(first_names).collect()
}

/// `a::b` gives `a`; `{a::{b, c}, d}` gives `a` and `d`.
fn first_names(path: &str) -> Vec<String> {
    let name = |path: &str| path.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let mut deep = 1;
    let outermost = group.chars().map_while(|c| {
        deep += i32::from(c == '{') - i32::from(c == '}');
        (deep > 0).then_some(if deep == 1 { c } else { ' ' })
    });
    outermost.collect::<String>().split(',').filter(|item| !item.trim().is_empty()).map(name).collect()
}

/// The other rooms that a file of `room` uses, and what is wrong with them.
fn check(floors: &Floors, room: &str, depth: usize, text: &str) -> (usize, Vec<String>) {
    let Some(own) = floors.get(room) else { return (0, vec![format!("{room} is on no floor")]) };
    // Comments may speak of any room.
    let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let used: Vec<_> = from_root(&code, depth).into_iter().filter(|name| name != room).collect();
    let higher = used.iter().filter(|name| floors.get(*name).is_none_or(|floor| floor >= own));
    let mut wrong: Vec<_> = higher.map(|name| format!("{room} uses {name:?}")).collect();
    let foreign = FOREIGN.iter().filter(|(word, rooms)| rooms.contains(&room) && code.contains(word));
    wrong.extend(foreign.map(|(word, _)| format!("{room} uses {word}")));
    (used.len(), wrong)
}

fn rust_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

#[test]
fn rooms_use_lower_floors_only() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let floors = floors(&fs::read_to_string(source.join("lib.rs")).unwrap());
    let (mut rooms, mut uses, mut wrong) = (std::collections::BTreeSet::new(), 0, vec![]);
    for file in rust_files(&source).unwrap() {
        let inside = file.strip_prefix(&source).unwrap();
        let parts: Vec<_> = inside.iter().map(|part| part.to_str().unwrap()).collect();
        let [room, .., last] = parts[..] else { continue }; // lib.rs and main.rs stand above all rooms
        let depth = parts.len() - usize::from(last == "mod.rs");
        let (count, found) = check(&floors, room, depth, &fs::read_to_string(&file).unwrap());
        rooms.insert(room.to_owned());
        uses += count;
        wrong.extend(found.into_iter().map(|found| format!("src/{}: {found}", inside.display())));
    }
    println!("{} rooms, {uses} uses of others", rooms.len());
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    assert!(rooms.len() >= 13 && uses > 100, "hardly anything was looked at");
}

#[test]
fn what_breaks_a_floor_is_found() {
    let floors =
        floors("//! | floor | room |\n//! | 1 | [`b`] | x |\n//! | 1 | `wire` | x |\n//! | 0 | [`a`] | x |");
    assert_eq!(floors.len(), 3);
    let wrong = |room, depth, text| check(&floors, room, depth, text).1;
    let fine =
        ["use crate::a::X;", "// crate::c", "use crate::{a::{X, c}, b};", "super::c::X", "pub(crate) fn c()"];
    for text in fine {
        assert_eq!(wrong("b", 2, text), [""; 0], "{text}");
    }
    for text in [
        "use crate::wire;",
        "let x = crate::wire::X;",
        "use crate::{a, wire::{X}};",
        "use crate::{\n    a::{X, Y},\n    unknown,\n};",
        "use crate::*;",
        "use super::super::wire::X;",
        "use super::super::{a, wire};",
        "use super::super::super::wire;",
    ] {
        assert_eq!(wrong("b", 2, text).len(), 1, "{text}");
    }
    assert_eq!(wrong("a", 1, "use super::b;"), ["a uses \"b\""]);
    assert_eq!(wrong("wire", 2, "use tokio::time;"), ["wire uses tokio"]);
    assert_eq!(wrong("attic", 1, ""), ["attic is on no floor"]);
}
