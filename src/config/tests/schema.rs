//! The schema is what the parser takes, no more and no less.

use serde_json::{Value as Json, json};

use super::super::keys::{
    ADMIN, AUTH, BREAKER, Fate, Key, LIMITS, ROOT, SERVER, SERVER_LIMITS, TLS, TOOLS, TOP, VIEW, VIEW_TOOLS,
};
use super::super::node::{self, Node, Value};
use super::super::schema;
use super::{Fake, folder, lines, name};

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&serde_json::from_str(&schema()).unwrap()).unwrap()
}

/// As an editor sees the text.
fn json(node: &Node) -> Json {
    match &node.value {
        Value::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), json(&entry.value))).collect(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Scalar { text, quoted: true } => text.clone().into(),
        Value::Scalar { text, quoted: false } => match serde_json::from_str::<Json>(text) {
            Ok(value) => value,
            Err(_) => text.clone().into(),
        },
    }
}

/// `UPDATE_SCHEMA=1` writes the file anew.
#[test]
fn the_file_is_fresh() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config/schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, schema()).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == schema(),
        "run this test with UPDATE_SCHEMA=1"
    );
}

#[test]
fn every_file_in_config_fits() {
    let validator = validator();
    let mut files = folder("config", &["yaml", "json"]);
    files.extend(folder("tests/fixtures/config/valid", &["yaml", "json"]));
    files.retain(|path| name(path) != "schema.json");
    assert!(files.len() >= 15, "{}", files.len());
    for path in files {
        let node = node::read(&std::fs::read_to_string(&path).unwrap(), &mut vec![]).unwrap();
        let faults: Vec<String> = validator
            .iter_errors(&json(&node))
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{}: {faults:?}", name(&path));
    }
}

/// Every key with a document that is good without it, and where in that it belongs.
fn places() -> Vec<(&'static Key, Json, &'static str)> {
    let server = |inner: Json| json!({"mcpServers": {"a": inner}});
    let url = server(
        json!({"url": "http://h/", "tools": {}, "tls": {}, "breaker": {}, "limits": {}, "roots": [{"uri": "/"}]}),
    );
    let command = server(json!({"command": "x"}));
    let top = json!({"mcpServers": {}, "admin": {}, "limits": {}, "views": {"v": {"tools": {}}}});
    let guarded = json!({"mcpServers": {}, "auth": {"keys": {"alice": "a-key-of-some-length"}}});
    let tables = [
        (TOP, &top, ""),
        (ADMIN, &top, "/admin"),
        (AUTH, &guarded, "/auth"),
        (LIMITS, &top, "/limits"),
        (SERVER, &url, "/mcpServers/a"),
        (SERVER, &command, "/mcpServers/a"),
        (TOOLS, &url, "/mcpServers/a/tools"),
        (TLS, &url, "/mcpServers/a/tls"),
        (BREAKER, &url, "/mcpServers/a/breaker"),
        (SERVER_LIMITS, &url, "/mcpServers/a/limits"),
        (ROOT, &url, "/mcpServers/a/roots/0"),
        (VIEW, &top, "/views/v"),
        (VIEW_TOOLS, &top, "/views/v/tools"),
    ];
    let each = |(keys, base, at): (&'static [Key], &Json, _)| {
        keys.iter().map(|key| (key, base.clone(), at)).collect::<Vec<_>>()
    };
    tables.into_iter().flat_map(each).collect()
}

/// For every key and every kind of value: what the parser takes fits the schema, and of what fits the schema the parser
/// never says that it is of the wrong kind.
#[test]
fn schema_and_parser_agree_on_every_key() {
    let validator = validator();
    let words = [
        "word",
        "stdio",
        "60s",
        "4MiB",
        "sse",
        "legacy",
        "suffix",
        "prefixed",
        "auto",
        "never",
        "127.0.0.1:5",
        "http://h/",
        "${FLAG}",
    ];
    let key = json!({"keys": {"alice": "a-key-of-some-length"}}); // whoever asks for keys must have one
    let pem = json!({"cert": "good.pem", "key": "good.pem"}); // and whoever asks for TLS a certificate
    let others = [
        json!(true),
        json!(64),
        json!(["a"]),
        json!([["a"]]),
        json!({"a": "b"}),
        json!([]),
        json!({}),
        key,
        pem,
    ];
    let samples: Vec<Json> = words.into_iter().map(Json::from).chain(others).collect();
    let mut fake = Fake::new();
    fake.variables.insert("FLAG", "true".into());
    for (key, base, at) in places() {
        let mut taken = false;
        for sample in &samples {
            let mut document = base.clone();
            document.pointer_mut(at).unwrap()[key.name] = sample.clone();
            let fits = validator.is_valid(&document);
            match fake.parse("test", &document.to_string()) {
                // Only warned of: an unknown key, and what is inside of a key that has no effect on such a server.
                Ok(parsed) if lines(&parsed.notes).contains("has no effect") => taken = true,
                Ok(parsed) if lines(&parsed.notes).contains("unknown key") => assert!(!fits, "{document}"),
                Ok(_) => {
                    assert!(fits, "the schema refuses {document}");
                    taken = true;
                }
                Err(problems) => {
                    let told = lines(&problems);
                    let kinds =
                        ["must be a mapping", "must be a list", "must be a single value", "true or false"];
                    let is_kind = kinds.iter().any(|kind| told.contains(kind)) && sample != "${FLAG}";
                    assert!(!(fits && is_kind), "the schema takes {document}: {told}");
                }
            }
        }
        // Taken with no sample: refused outright, or in need of a value of its own.
        let own = [
            "mcpServers",
            "servers",
            "url",
            "serverUrl",
            "command",
            "envFile",
            "ca",
            "cert",
            "key",
            "sessionKeys",
        ];
        assert!(taken || key.fate == Fate::Refused || own.contains(&key.name), "no sample fits {}", key.name);
    }
}
