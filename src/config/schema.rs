//! The JSON Schema of the file, for editors.

use serde_json::{Map, Value, json};

use super::keys::{Fate, Key, Kind, ROOT, SERVER, TOP, VIEW};

/// The schema as pretty JSON with a newline at its end. `config/schema.json` is this text.
pub fn schema() -> String {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "trunkline",
        "description": "Many MCP servers behind one endpoint. Keys that are not listed are another program's and left alone.",
        "type": "object",
        "properties": properties(TOP),
        "anyOf": [{"required": ["mcpServers"]}, {"required": ["servers"]}],
        "$defs": {"server": closed(SERVER), "view": closed(VIEW)},
    });
    format!("{schema:#}\n")
}

/// A mapping of these keys and no other.
fn closed(keys: &[Key]) -> Value {
    json!({"type": "object", "properties": properties(keys), "additionalProperties": false})
}

fn properties(keys: &[Key]) -> Map<String, Value> {
    keys.iter().map(|key| (key.name.to_owned(), property(key))).collect()
}

fn property(key: &Key) -> Value {
    let (schema, remark) = match key.fate {
        Fate::Read => (of(key.kind), String::new()),
        Fate::Same(name) => (of(key.kind), format!(" Write `{name}`.")),
        Fate::Chat => (of(key.kind), " Of no effect here.".into()),
        Fate::Later => (of(key.kind), " Not supported yet: ignored.".into()),
        Fate::Refused => (json!({"not": {}}), " Not supported yet: refused.".into()),
    };
    let mut schema = schema;
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".into(), format!("{}{remark}", key.says).into());
    }
    schema
}

/// What a value must look like. A placeholder may stand in place of any single value.
fn of(kind: Kind) -> Value {
    let single = json!({"type": ["string", "number", "boolean"]});
    let word = |kind: &str, pattern: &str| json!({"type": [kind, "string"], "pattern": format!("{pattern}|\\$\\{{")});
    match kind {
        Kind::Text | Kind::FlagOrText => single,
        Kind::Flag => word("boolean", "^(true|false)$"),
        Kind::Whole => word("integer", "^[0-9]+$"),
        Kind::Duration => word("integer", "^[0-9]+ *(ms|s|m|h|d)?$"),
        Kind::Size => word("integer", "^[0-9]+ *(KiB|MiB|GiB)?$"),
        Kind::Time => word("integer", "^[0-9]+(-[0-9]+-[0-9]+[Tt ].+)?$"),
        Kind::Choice(words) => json!({"anyOf": [{"enum": words}, {"type": "string", "pattern": "\\$\\{"}]}),
        Kind::Texts => json!({"type": "array", "items": single}),
        Kind::Map => json!({"type": "object", "additionalProperties": single}),
        Kind::Fields(keys) => closed(keys),
        Kind::FieldsOrFalse(keys) => json!({"anyOf": [{"const": false}, closed(keys)]}),
        Kind::Servers => json!({"type": "object", "additionalProperties": {"$ref": "#/$defs/server"}}),
        Kind::Views => json!({"type": "object", "additionalProperties": {"$ref": "#/$defs/view"}}),
        Kind::Roots => {
            let mut root = closed(ROOT);
            if let Value::Object(root) = &mut root {
                root.insert("required".into(), json!(["uri"]));
            }
            json!({"type": "array", "items": {"anyOf": [single, root]}})
        }
        Kind::Anything => json!({}),
    }
}
