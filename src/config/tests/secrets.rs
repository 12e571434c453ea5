//! A canary in every place where a value may stand: no problem and no `Debug` ever shows it.

use super::super::keys::{Fate, Kind, LIMITS, SERVER, TLS, TOOLS, TOP, VIEW, VIEW_TOOLS};
use super::Fake;

const CANARY: &str = "c4nary";

/// What a text leads to, all that anyone could print of it.
fn printed(text: &str) -> String {
    let mut fake = Fake::new();
    fake.variables.insert("CANARY", format!("{CANARY}\u{1}\n"));
    fake.variables.insert("PLAIN", CANARY.into());
    fake.variables.insert("ADDRESS", format!("https://{CANARY}:{CANARY}@h.example/{CANARY}?{CANARY}"));
    fake.files.insert("/etc/trunkline/canary.env".into(), format!("A={CANARY}\n{CANARY}\n"));
    match fake.parse("test", text) {
        Ok(parsed) => format!("{parsed:?} {}", super::lines(&parsed.notes)),
        Err(problems) => format!("{problems:?} {}", super::lines(&problems)),
    }
}

#[test]
fn no_value_that_came_by_a_placeholder_is_printed() {
    let mut texts = vec![];
    for variable in ["${CANARY}", "${PLAIN}", "${file:/run/${PLAIN}}", "${PLAIN}${MISSING}"] {
        let value = |kind: Kind| match kind.shape() {
            "a list" => format!("[\"{variable}\"]"),
            "a mapping" => format!("{{a: \"{variable}\", b: \"{variable}\"}}"),
            _ => format!("\"{variable}\""),
        };
        let read =
            |key: &&super::super::keys::Key| key.fate == Fate::Read || matches!(key.fate, Fate::Same(_));
        for key in TOP.iter().filter(read) {
            texts.push(format!("{{mcpServers: {{a: {{command: x}}}}, {}: {}}}", key.name, value(key.kind)));
        }
        for (key, of) in
            VIEW.iter().zip([""].iter().cycle()).chain(VIEW_TOOLS.iter().zip(["tools: "].iter().cycle()))
        {
            let inner = format!("{}: {}", key.name, value(key.kind));
            let inner = if of.is_empty() { inner } else { format!("{of}{{{inner}}}") };
            texts.push(format!("{{mcpServers: {{a: {{command: x}}}}, views: {{v: {{{inner}}}}}}}"));
        }
        texts.push(format!(
            "mcpServers: {{a: {{command: x, roots: [{{uri: \"{variable}\", name: \"{variable}\"}}]}}}}"
        ));
        for key in LIMITS {
            texts.push(format!("{{mcpServers: {{}}, limits: {{{}: {}}}}}", key.name, value(key.kind)));
        }
        // an alias is a name that everyone sees
        for key in SERVER.iter().filter(read).filter(|key| key.name != "alias") {
            for reach in ["url: http://h.example/", "command: x"] {
                texts.push(format!("mcpServers: {{a: {{{reach}, {}: {}}}}}", key.name, value(key.kind)));
            }
            texts.push(format!("mcpServers: {{a: {{{}: {}}}}}", key.name, value(key.kind)));
        }
        for (of, keys) in [("tools", TOOLS), ("tls", TLS)] {
            for key in keys.iter().filter(read) {
                let inner = format!("{of}: {{{}: {}}}", key.name, value(key.kind));
                texts.push(format!("mcpServers: {{a: {{url: \"http://h.example/\", {inner}}}}}"));
            }
        }
    }
    assert!(texts.len() > 400, "{}", texts.len());
    for text in texts {
        let printed = printed(&text);
        assert!(!printed.contains(CANARY), "{text} → {printed}");
    }
}

#[test]
fn secrets_written_into_the_file_are_not_printed() {
    for entry in [
        format!("url: \"http://{CANARY}:{CANARY}@h.example/{CANARY}?{CANARY}\""),
        format!("url: \"http://{CANARY}@h.example/\", headers: {{Authorization: {CANARY}}}"),
        format!("url: \"http://[{CANARY}\""),
        format!("url: \"ftp://{CANARY}\""),
        "url: \"${ADDRESS}\"".into(),
        format!("url: http://h.example/, headers: {{A: \"{CANARY}\\n{CANARY}\", B: {CANARY}}}"),
        format!("url: http://h.example/, headers: {{A: \"${{MISSING:-${{{CANARY}}}\", B: \"${{{CANARY}\"}}"),
        format!("url: http://h.example/, headers: {{A: \"${{MISSING-{CANARY}}}\"}}"),
        format!("url: http://h.example/, headers: [{CANARY}]"),
        format!("command: x, args: [{CANARY}, \"{CANARY}\\0\"], env: {{A: {CANARY}, B: \"{CANARY}\\0\"}}"),
        format!("command: x, env: [{CANARY}]"),
        "command: x, envFile: canary.env".into(),
        format!("command: x, args: {CANARY}"),
    ] {
        let printed = printed(&format!("mcpServers: {{a: {{{entry}}}}}"));
        assert!(!printed.contains(CANARY), "{entry} → {printed}");
    }
}
