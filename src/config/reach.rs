//! How to reach a server, out of its entry: over HTTP, or as a child process.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::Uri;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use indexmap::IndexMap;
use url::Url;

use super::env_file;
use super::exposed::{self, Exposed};
use super::keys::{SERVER, TLS, TYPES};
use super::model::{Http, HttpTransport, Reach, Stdio, Tls};
use super::node::{Entry, Node, Value};
use super::personal::{Form, Personal};
use super::placeholder::Filled;
use super::problem::shown;
use super::reader::{Fields, Reader};

/// Reads the one of the two that an entry says.
pub(super) fn read(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    entry: &Entry,
) -> Option<(Reach, Option<Personal>)> {
    let kind = reader.choice(fields, "type", TYPES);
    let given = |key: &str| fields.given(key).filter(|entry| !entry.value.is_null());
    match (given("url"), given("command")) {
        (Some(url), Some(command)) => {
            let line = url.place.line;
            let message =
                format!("{} beside the `url` in line {line}; give one of them", fields.name("command"));
            reader.error(command.place, message);
            None
        }
        (None, None) => {
            reader.error(entry.place, format!("server {} needs a `url` or a `command`", shown(&entry.key)));
            None
        }
        (Some(url), None) => {
            unused(reader, fields, &["args", "env", "envFile", "cwd"], "a server that is reached by `url`");
            let transport = match kind {
                None | Some("http") => Some(HttpTransport::Infer), // VS Code's `http` falls back as well
                Some("sse") => Some(HttpTransport::Sse),
                Some("stdio") => refuse(reader, fields, "does not fit `url`"),
                Some("websocket" | "ws") => {
                    refuse(reader, fields, "is none of MCP's transports; use `http` or `sse`")
                }
                Some(_) => Some(HttpTransport::Streamable),
            };
            let http = http(reader, fields, &url.value, transport.unwrap_or(HttpTransport::Infer));
            http.map(|(http, personal)| (Reach::Http(http), personal))
        }
        (None, Some(command)) => {
            unused(reader, fields, &["headers", "tls"], "a server that is started by `command`");
            if !matches!(kind, None | Some("stdio")) {
                refuse::<()>(reader, fields, "does not fit `command`");
            }
            let stdio = stdio(reader, fields, &command.value);
            stdio.map(|(stdio, personal)| (Reach::Stdio(stdio), personal))
        }
    }
}

fn refuse<T>(reader: &mut Reader<'_>, fields: &Fields<'_>, why: &str) -> Option<T> {
    let place = fields.get("type").map_or(fields.place, |node| node.place);
    reader.error(place, format!("{} {why}", fields.name("type")));
    None
}

/// Warns of keys that say nothing about this kind of server.
fn unused(reader: &mut Reader<'_>, fields: &Fields<'_>, keys: &[&str], of: &str) {
    for entry in keys.iter().filter_map(|key| fields.given(key)) {
        let is_empty = match &entry.value.value {
            Value::List(items) => items.is_empty(),
            Value::Map(entries) => entries.is_empty(),
            Value::Scalar { .. } => entry.value.is_null(),
        };
        let (name, kind) = (fields.name(&entry.key), entry.value.kind());
        let wanted = SERVER.iter().find(|key| key.name == entry.key).map_or(kind, |key| key.kind.shape());
        if kind != wanted && !entry.value.is_null() {
            reader.error(entry.value.place, format!("{name} must be {wanted}, not {kind}"));
        } else if !is_empty {
            reader.warn(entry.place, format!("{name} has no effect on {of}"));
        }
    }
}

fn http(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    node: &Node,
    transport: HttpTransport,
) -> Option<(Http, Option<Personal>)> {
    let (mut headers, forms) = headers(reader, fields);
    let tls = tls(reader, fields);
    let name = fields.name("url");
    let filled = reader.personal(node, &name)?;
    if filled.form.as_ref().is_some_and(Form::is_open_host) {
        let message = format!(
            "{name}: what callers fill in comes after the host, or they would choose where we connect to"
        );
        reader.error(node.place, message);
    }
    let (url, authorization) = match address(&filled.value) {
        Ok(parts) => parts,
        Err(fault) => {
            reader.error(node.place, format!("{name} {fault}"));
            return None;
        }
    };
    if let Some(authorization) = authorization {
        if headers.iter().any(|(name, _)| name == AUTHORIZATION) {
            let message = format!(
                "{name} holds a user and password beside an `Authorization` header; give one of them"
            );
            reader.error(node.place, message);
        }
        headers.push((AUTHORIZATION, authorization));
    }
    let personal = Personal { url: filled.form, headers: forms, ..Personal::default() };
    Some((Http { url, headers, transport, tls }, personal.some()))
}

/// The address without user and password, and these as the header that a browser would send: so nobody who writes the
/// address down can tell the secret.
pub(super) fn address(text: &str) -> Result<(Uri, Option<HeaderValue>), &'static str> {
    let mut url = Url::parse(text.trim()).map_err(|_| "is not an address such as https://host/mcp")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://");
    }
    let (user, password) = (url.username().to_owned(), url.password().unwrap_or_default().to_owned());
    let authorization = if user.is_empty() && password.is_empty() {
        None
    } else {
        let plain = [decoded(&user), vec![b':'], decoded(&password)].concat();
        let value = format!("Basic {}", BASE64_STANDARD.encode(plain));
        let mut value =
            HeaderValue::try_from(value).map_err(|_| "holds a user or password that cannot be sent")?;
        value.set_sensitive(true);
        Some(value)
    };
    let cleared = url.set_username("").and_then(|()| url.set_password(None));
    url.set_fragment(None); // it is never sent
    let uri = cleared.ok().and_then(|()| url.as_str().parse::<Uri>().ok());
    uri.map(|uri| (uri, authorization)).ok_or("is not an address that can be sent")
}

/// `%41` → `A`.
pub(super) fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = vec![];
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let hex = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(hex.unwrap_or(b'%'));
        rest = if hex.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// What the transport writes itself: many files give these, and giving them twice would break requests.
const OURS: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The headers, and which of them callers fill in.
type Headers = (Vec<(HeaderName, HeaderValue)>, Vec<(usize, Form)>);

fn headers(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Headers {
    let (mut headers, mut names, mut forms) = (vec![], HashSet::new(), vec![]);
    let of = fields.name("headers");
    for (entry, Filled { value, form, .. }) in reader.personal_map(fields, "headers") {
        let key = shown(&entry.key);
        let Ok(name) = HeaderName::from_bytes(entry.key.as_bytes()) else {
            reader.error(entry.place, format!("{key} in {of} cannot be the name of a header"));
            continue;
        };
        if OURS.contains(&name.as_str()) {
            reader.warn(entry.place, format!("{key} in {of} is ignored: trunkline sets it itself"));
            continue;
        }
        // A header may not hold line breaks; a secret's file and a YAML block end in one.
        let Ok(mut value) = HeaderValue::from_bytes(value.trim().as_bytes()) else {
            let message =
                format!("{key} in {of} holds a line break or another character that no header may hold");
            reader.error(entry.value.place, message);
            continue;
        };
        value.set_sensitive(true);
        if !names.insert(name.clone()) {
            reader
                .error(entry.place, format!("{key} in {of} is given twice; case does not matter in headers"));
        }
        forms.extend(form.map(|form| (headers.len(), form)));
        headers.push((name, value));
    }
    (headers, forms)
}

fn tls(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Tls {
    let name = fields.name("tls");
    let Some(inner) =
        fields.get("tls").and_then(|node| reader.fields(node, TLS, &name, &format!(" of {name}")))
    else {
        return Tls::default();
    };
    reader.warn_unknown(&inner, TLS);
    let files = ["ca", "cert", "key"].map(|key| read_file(reader, &inner, key));
    let mut digest = DefaultHasher::new();
    for (_, text) in files.iter().flatten() {
        text.hash(&mut digest);
    }
    let [ca, cert, key] = files.map(|file| file.map(|(path, _)| path));
    let insecure = reader.flag(&inner, "insecure").unwrap_or(false);
    let tls = Tls { ca, cert, key, insecure, digest: digest.finish() };
    if inner.get("cert").is_some() != inner.get("key").is_some() {
        reader.error(inner.place, format!("{name} needs both `cert` and `key`, or neither"));
    }
    tls
}

/// A file beside the configuration, and its text.
pub(super) fn read_file(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    key: &str,
) -> Option<(PathBuf, String)> {
    let node = fields.get(key)?;
    let name = fields.name(key);
    let filled = reader.filled(node, &name)?;
    let path = reader.source().directory.join(&filled.value);
    match reader.source().world.read(&path) {
        Ok(text) => {
            reader.files.push(path.clone());
            Some((path, text))
        }
        Err(error) => {
            let which = if filled.secret { "its file".into() } else { shown(&filled.value) };
            reader.error(node.place, format!("{name}: cannot read {which}: {error}"));
            None
        }
    }
}

fn stdio(reader: &mut Reader<'_>, fields: &Fields<'_>, node: &Node) -> Option<(Stdio, Option<Personal>)> {
    let (own, personal_env) = env(reader, fields);
    reader.own = own;
    let (args, personal_args) = args(reader, fields);
    let cwd = reader.text(fields, "cwd").filter(|cwd| !cwd.is_empty()).map(PathBuf::from);
    let env = std::mem::take(&mut reader.own).into_iter().collect();
    let name = fields.name("command");
    let command = reader.filled(node, &name)?.value;
    let command = match command.as_str() {
        "self" => match reader.source().world.executable() {
            Ok(path) => path,
            Err(error) => {
                reader.error(node.place, format!("{name}: cannot find our own executable: {error}"));
                return None;
            }
        },
        "" => {
            reader.error(node.place, format!("{name} is empty"));
            return None;
        }
        _ => PathBuf::from(command),
    };
    if exposed::is_command_line(&command.to_string_lossy()) {
        let message = format!(
            "{name} has blanks in it and is looked for as one program; put arguments into `args`, as in \
             `{{command: npx, args: [-y, some-server]}}`"
        );
        reader.warn(node.place, message);
    }
    let personal = Personal { args: personal_args, env: personal_env, ..Personal::default() };
    Some((Stdio { command, args, env, cwd }, personal.some()))
}

/// The file's variables, then the entry's own over them; and those that callers fill in.
fn env(reader: &mut Reader<'_>, fields: &Fields<'_>) -> (IndexMap<String, String>, Vec<(String, Form)>) {
    let (mut env, mut forms) = (IndexMap::new(), vec![]);
    if let (Some((_, text)), Some(node)) = (read_file(reader, fields, "envFile"), fields.get("envFile")) {
        match env_file::read(&text) {
            Ok(variables) => env.extend(variables),
            Err(lines) => {
                let name = fields.name("envFile");
                for line in lines {
                    reader.error(node.place, format!("{name}: line {line} of the file is not NAME=value"));
                }
            }
        }
    }
    let of = fields.name("env");
    for (entry, Filled { value, form, .. }) in reader.personal_map(fields, "env") {
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) || value.contains('\0') {
            let message =
                format!("{} in {of} cannot be a variable: `=` in its name, or a zero", shown(&entry.key));
            reader.error(entry.place, message);
        }
        match form {
            // Arguments cannot refer to it: nothing is in it yet.
            Some(form) => {
                env.shift_remove(&entry.key);
                forms.push((entry.key.clone(), form));
            }
            None => drop(env.insert(entry.key.clone(), value)),
        }
    }
    (env, forms)
}

/// Arguments. Unlike variables they can be seen by everyone on the machine.
fn args(reader: &mut Reader<'_>, fields: &Fields<'_>) -> (Vec<String>, Vec<(usize, Form)>) {
    if let Some(Node { value: Value::List(items), .. }) = fields.get("args") {
        let name = fields.name("args");
        let mut before = None;
        for node in items {
            let Value::Scalar { text, .. } = &node.value else { continue };
            let told = match exposed::look(before.replace(text), text) {
                Some(Exposed::ByName) => "brings a secret into the list of processes; prefer `env`",
                Some(Exposed::Written) => {
                    "looks like a secret: everybody on the machine can see it in the list of processes, and whoever reads \
                     this file; prefer `env` with a placeholder such as `${TOKEN}`"
                }
                None => continue,
            };
            reader.warn(node.place, format!("an item of {name} {told}"));
        }
    }
    let (mut args, mut forms) = (vec![], vec![]);
    for (place, Filled { value, form, .. }) in reader.personal_texts(fields, "args") {
        if value.contains('\0') {
            reader.error(place, format!("an item of {} holds a zero", fields.name("args")));
        }
        forms.extend(form.map(|form| (args.len(), form)));
        args.push(value);
    }
    (args, forms)
}
