//! The top of the file.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hyper::header::HeaderName;
use indexmap::IndexMap;
use url::Url;

use super::keys::{ADMIN, EDGE_TLS, LIMITS, TOP};
use super::limits::Limits;
use super::model::{Config, EdgeTls, Reach, Server};
use super::near::nearest;
use super::node::{Entry, Node, Value};
use super::problem::{Place, shown, shown_all};
use super::reader::{Fields, HINTS, Reader};
use super::{auth, reach, server, session_keys, unique, views};
use crate::names::{Naming, ServerName};

/// Reads the whole file. Absent where it is no mapping at all; what it says is of worth only if no error was noted.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node) -> Option<Config> {
    let fields = reader.fields(root, TOP, "the file", "")?;
    unknown(reader, &fields.unknown);
    inputs(reader, &fields);
    reader.text(&fields, "$schema");
    let default = Config::default();
    let naming = naming(reader, &fields, default.naming);
    let servers = servers(reader, &fields, &naming);
    let config = Config {
        listen: address(reader, &fields, "listen").unwrap_or(default.listen),
        admin: admin(reader, &fields).unwrap_or(default.admin),
        insecure: reader.flag(&fields, "insecure").unwrap_or(default.insecure),
        auth: auth::read(reader, &fields),
        allowed_hosts: hosts(reader, &fields),
        allowed_origins: origins(reader, &fields),
        describe_origin: reader.flag(&fields, "describeOrigin").unwrap_or(default.describe_origin),
        page_size: reader.whole(&fields, "pageSize", 1, 10_000),
        limits: limits(reader, &fields),
        session_keys: session_keys::read(reader, &fields),
        tls: tls(reader, &fields),
        catalog_cache: reader.text(&fields, "catalogCache").map(|path| reader.source().directory.join(path)),
        views: views::read(reader, &fields, &servers),
        servers: servers.into_iter().map(|(_, server)| (server.name.clone(), server)).collect(),
        handed: vec![],
        naming,
    };
    exposure(reader, &fields, &config);
    let servers = others(reader, &fields, config.servers, config.listen);
    let handed = handed(reader, &fields, &servers, config.auth.is_some());
    Some(Config { handed, servers, ..config })
}

/// The headers of callers that servers get, and what is odd about it.
fn handed(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    servers: &Servers,
    authenticated: bool,
) -> Vec<HeaderName> {
    let place = fields.given("mcpServers").map_or(fields.place, |entry| entry.place);
    let mut handed: Vec<HeaderName> = vec![];
    for (server, personal) in servers.values().filter_map(|server| Some((server, server.personal.as_ref()?)))
    {
        let key = shown(&server.key);
        if personal.asks_who() && !authenticated {
            let message = format!(
                "server {key} wants to know who calls, and there is no `auth`: its calls are refused"
            );
            reader.warn(place, message);
        }
        for name in personal.headers() {
            if authenticated && matches!(name.as_str(), "authorization" | "x-api-key") {
                let message = format!(
                    "server {key} is given the header `{name}` of callers, which may be their key to trunkline itself"
                );
                reader.warn(place, message);
            }
            if !handed.contains(name) {
                handed.push(name.clone());
            }
        }
    }
    handed
}

/// Leaves out what is ourselves: the file of an editor that already uses us has us in it, and we would list our own tools
/// again and again.
fn others(reader: &mut Reader<'_>, fields: &Fields<'_>, mut servers: Servers, listen: SocketAddr) -> Servers {
    let is_us = |server: &Server| {
        let Reach::Http(http) = &server.reach else { return false };
        let host = http.url.host().unwrap_or_default().trim_matches(['[', ']']);
        let local = host == "localhost"
            || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip == listen.ip());
        local && http.url.port_u16() == Some(listen.port())
    };
    let place =
        fields.given("mcpServers").or(fields.given("servers")).map_or(fields.place, |entry| entry.place);
    servers.retain(|_, server| {
        let us = is_us(server);
        if us {
            reader.warn(
                place,
                format!("server {} is left out, since its `url` is trunkline itself", shown(&server.key)),
            );
        }
        !us
    });
    servers
}

/// Only where the file says to listen, whatever else is wrong with it: for those who only want to ask a running one.
pub(super) fn addresses(reader: &mut Reader<'_>, root: &Node) -> (SocketAddr, SocketAddr) {
    let default = Config::default();
    let Some(fields) = reader.fields(root, TOP, "the file", "") else {
        return (default.listen, default.admin);
    };
    let listen = address(reader, &fields, "listen").unwrap_or(default.listen);
    (listen, admin(reader, &fields).unwrap_or(default.admin))
}

/// Keys that are not ours: misspelt, in the wrong place, or another program's.
fn unknown(reader: &mut Reader<'_>, entries: &[&Entry]) {
    let mut foreign: Vec<&Entry> = vec![];
    for (number, entry) in entries.iter().enumerate() {
        let key = shown(&entry.key);
        if LIMITS.iter().any(|limit| limit.name == entry.key) {
            reader.error(entry.place, format!("{key} belongs under `limits`"));
        } else if let Some(meant) =
            nearest(&entry.key, TOP.iter().map(|key| key.name).filter(|_| number < HINTS))
        {
            reader.error(entry.place, format!("unknown key {key}; did you mean `{meant}`?"));
        } else if !entry.key.starts_with("x-") {
            foreign.push(entry);
        }
    }
    if let Some(first) = foreign.first() {
        let names = shown_all(foreign.iter().map(|entry| entry.key.as_str()));
        reader.note(first.place, format!("left alone, since they are another program's: {names}"));
    }
}

fn inputs(reader: &mut Reader<'_>, fields: &Fields<'_>) {
    let Some(node) = fields.get("inputs") else { return };
    if !matches!(&node.value, Value::List(items) if items.is_empty()) {
        let message = "`inputs` are asked of an editor's user, and nobody is there to ask; take the values from the \
                       environment as `${VAR}` or from a file as `${file:/path}`";
        reader.error(node.place, message);
    }
}

fn naming(reader: &mut Reader<'_>, fields: &Fields<'_>, default: Naming) -> Naming {
    let max_length = reader.whole(fields, "maxNameLength", 32, 256).unwrap_or(default.max_length);
    server::naming(reader, fields, &Naming { max_length, ..default })
}

fn address(reader: &mut Reader<'_>, fields: &Fields<'_>, key: &str) -> Option<SocketAddr> {
    reader.parsed(fields, key, "an address and a port such as 127.0.0.1:8931", |text| {
        match text.strip_prefix("localhost:") {
            Some(port) => Some((Ipv4Addr::LOCALHOST, port.parse::<u16>().ok()?).into()),
            None => text.parse().ok(),
        }
    })
}

fn admin(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<SocketAddr> {
    let inner = reader.fields(fields.get("admin")?, ADMIN, "`admin`", " of `admin`")?;
    reader.warn_unknown(&inner, ADMIN);
    address(reader, &inner, "listen")
}

/// Where we can be reached, judged as a whole.
fn exposure(reader: &mut Reader<'_>, fields: &Fields<'_>, config: &Config) {
    let place = |key: &str| fields.get(key).map_or(fields.place, |node| node.place);
    if !config.listen.ip().to_canonical().is_loopback() && !config.insecure && config.auth.is_none() {
        let message = "`listen` is an address that others can reach, and nobody would be asked who they are; listen on \
                       127.0.0.1, say who may call by `auth`, or say `insecure: true` if something else keeps strangers out";
        reader.error(place("listen"), message);
    }
    if config.listen.port() == config.admin.port() && config.listen.port() != 0 {
        let key = if fields.get("admin").is_some() { "admin" } else { "listen" };
        let message =
            format!("`listen` and `admin` both take port {}; give one another", config.listen.port());
        reader.error(place(key), message);
    }
}

fn tls(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<EdgeTls> {
    let inner = reader.fields(fields.get("tls")?, EDGE_TLS, "`tls`", " of `tls`")?;
    // A misspelt `clientCa` would let everybody in.
    reader.refuse_unknown(&inner, EDGE_TLS);
    let mut file = |key: &str| reach::read_file(reader, &inner, key).map(|(path, _)| path);
    let (cert, key, client_ca) = (file("cert"), file("key"), file("clientCa"));
    if inner.get("cert").is_none() || inner.get("key").is_none() {
        reader.error(inner.place, "`tls` needs both `cert` and `key`");
    }
    Some(EdgeTls { cert: cert?, key: key?, client_ca })
}

fn hosts(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Vec<String> {
    let mut hosts = vec![];
    for (place, text) in reader.texts(fields, "allowedHosts") {
        let host = text.trim().to_ascii_lowercase();
        let bare = match host.rsplit_once(':') {
            Some((bare, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !bare.ends_with(':') => bare,
            _ => host.as_str(),
        };
        if bare.is_empty() || bare.contains(['*', '/', ' ', '@']) {
            reader.error(place, "an item of `allowedHosts` must be a host's name such as mcp.example.com");
        } else {
            hosts.push(bare.to_owned());
        }
    }
    hosts
}

fn origins(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Vec<String> {
    let mut origins = vec![];
    for (place, text) in reader.texts(fields, "allowedOrigins") {
        match origin(text.trim()) {
            Some(origin) => origins.push(origin),
            None => reader
                .error(place, "an item of `allowedOrigins` must be an origin such as https://example.com"),
        }
    }
    origins
}

/// As a browser sends it: lower case, without a default port. Editors have schemes of their own.
fn origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    if text.contains('*') || !url.has_host() || !matches!(url.path(), "" | "/") || url.query().is_some() {
        return None;
    }
    let origin = url.origin();
    let text = text.trim_end_matches('/').to_ascii_lowercase();
    Some(if origin.is_tuple() { origin.ascii_serialization() } else { text })
}

fn limits(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Limits {
    const MOST: usize = 1 << 30;
    let mut limits = Limits::default();
    let Some(inner) =
        fields.get("limits").and_then(|node| reader.fields(node, LIMITS, "`limits`", " of `limits`"))
    else {
        return limits;
    };
    reader.warn_unknown(&inner, LIMITS);
    let set = |to: &mut usize, value: Option<usize>| *to = value.unwrap_or(*to);
    set(&mut limits.request_body, reader.size(&inner, "requestBody", 1 << 10, MOST));
    set(&mut limits.upstream_message, reader.size(&inner, "upstreamMessage", 1 << 10, MOST));
    set(&mut limits.json_depth, reader.whole(&inner, "jsonDepth", 8, 128));
    set(&mut limits.sessions, reader.whole(&inner, "sessions", 1, 1_000_000));
    set(&mut limits.calls_per_session, reader.whole(&inner, "callsPerSession", 1, 100_000));
    set(&mut limits.calls, reader.whole(&inner, "calls", 1, 1_000_000));
    set(&mut limits.streams, reader.whole(&inner, "streams", 1, 1_000_000));
    set(&mut limits.client_connections, reader.whole(&inner, "clientConnections", 1, 1_000_000));
    limits.buffers = reader.size(&inner, "buffers", 1 << 20, MOST);
    set(&mut limits.calls_per_server, reader.whole(&inner, "callsPerServer", 1, 100_000));
    set(&mut limits.holds, reader.whole(&inner, "holds", 2, 1_000_000));
    limits.connections = reader.whole(&inner, "connections", 1, 100_000);
    let set = |to: &mut std::time::Duration, value: Option<_>| *to = value.unwrap_or(*to);
    set(&mut limits.connection_idle, reader.duration(&inner, "connectionIdle"));
    set(&mut limits.session_idle, reader.duration(&inner, "sessionIdle"));
    set(&mut limits.hold_time, reader.duration(&inner, "holdTime"));
    set(&mut limits.header_timeout, reader.duration(&inner, "headerTimeout"));
    set(&mut limits.body_timeout, reader.duration(&inner, "bodyTimeout"));
    set(&mut limits.write_timeout, reader.duration(&inner, "writeTimeout"));
    set(&mut limits.first_list_wait, reader.span(&inner, "firstListWait"));
    set(&mut limits.reconnect_interval, reader.duration(&inner, "reconnectInterval"));
    set(&mut limits.refresh_interval, reader.duration(&inner, "refreshInterval"));
    set(&mut limits.list_ttl, reader.span(&inner, "listTtl"));
    set(&mut limits.drain_delay, reader.span(&inner, "drainDelay"));
    set(&mut limits.drain_timeout, reader.span(&inner, "drainTimeout"));
    limits
}

type Servers = IndexMap<ServerName, Arc<Server>>;

/// The entries in the order of the file. That there are none must be said, not left open: a file cut short by a half
/// done write must not take every server away.
fn servers(reader: &mut Reader<'_>, fields: &Fields<'_>, naming: &Naming) -> Vec<(Place, Arc<Server>)> {
    let Some(entry) = fields.given("mcpServers") else {
        reader.error(Place::START, "there is no `mcpServers`; write `mcpServers: {}` if none are meant");
        return vec![];
    };
    let Value::Map(entries) = &entry.value.value else {
        let (key, kind) = (shown(&entry.key), entry.value.kind());
        reader.error(
            entry.place,
            format!("{key} must be a mapping, not {kind}; write `{{}}` if none are meant"),
        );
        return vec![];
    };
    let read = |entry: &Entry| Some((entry.place, server::read(reader, entry, naming)?));
    let servers: Vec<(Place, Arc<Server>)> = entries.iter().filter_map(read).collect();
    unique::check(reader, &servers);
    servers
}
