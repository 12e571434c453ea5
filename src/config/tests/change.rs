//! Two configurations, and what it takes to come from one to the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::super::*;
use super::Fake;
use crate::names::ServerName;

fn config(servers: &str) -> Config {
    let text = format!("mcpServers: {{{servers}}}");
    Fake::new().parse("test", &text).unwrap_or_else(|problems| panic!("{}", super::lines(&problems))).config
}

fn names(names: &[&str]) -> Vec<ServerName> {
    names.iter().map(|name| ServerName::expose(name)).collect()
}

#[test]
fn what_replaces_a_link_and_what_does_not() {
    let replaced = Change { replaced: names(&["a"]), ..Change::default() };
    let retuned = Change { retuned: names(&["a"]), ..Change::default() };
    let nothing = Change::default();
    for (old, new, want) in [
        ("url: http://h/1", "url: http://h/1", &nothing),
        ("url: http://h/1", "url: http://h/2", &replaced),
        ("url: http://h/1", "{url: http://h/1, type: sse}", &replaced),
        ("url: http://h/1", "{url: http://h/1, headers: {A: b}}", &replaced),
        ("{url: http://h/1, headers: {A: b}}", "{url: http://h/1, headers: {A: c}}", &replaced),
        ("url: http://h/1", "{url: http://h/1, tls: {insecure: true}}", &replaced),
        ("url: http://h/1", "{url: http://h/1, protocol: legacy}", &replaced),
        ("command: x", "command: y", &replaced),
        ("command: x", "{command: x, args: [b]}", &replaced),
        ("command: x", "{command: x, env: {A: b}}", &replaced),
        ("command: x", "{command: x, cwd: /}", &replaced),
        ("command: x", "{command: x, updatedAt: 1}", &replaced),
        ("{command: x, updatedAt: 5}", "{command: x, updatedAt: 6}", &replaced),
        ("{command: x, updatedAt: 5}", "{command: x, updatedAt: 5}", &nothing),
        ("{command: x, updatedAt: 5}", "{command: x, updatedAt: 4}", &retuned),
        ("{command: x, updatedAt: 5}", "{command: x}", &retuned),
        ("command: x", "{command: x, title: T}", &retuned),
        ("command: x", "{command: x, description: T}", &nothing),
        ("command: x", "{command: x, timeout: 5s}", &retuned),
        ("command: x", "{command: x, connectTimeout: 5s}", &retuned),
        ("command: x", "{command: x, maxTotal: 5s}", &retuned),
        ("command: x", "{command: x, startup: false}", &retuned),
        ("command: x", "{command: x, naming: plain}", &retuned),
        ("command: x", "{command: x, tools: {deny: [b]}}", &retuned),
        ("command: x", "{command: x, scope: session}", &replaced),
        ("{command: x, scope: auto}", "command: x", &nothing),
        ("command: x", "{command: x, interactive: true}", &replaced),
        ("command: x", "{command: x, uriMode: prefixed}", &retuned),
        ("command: x", "{command: x, owns: ['a:*']}", &retuned),
        ("command: x", "{command: x, roots: [/a]}", &retuned),
        ("command: x", "{command: x, instructions: false}", &retuned),
        ("command: x", "{command: x, instructions: true}", &nothing),
    ] {
        let whole = |entry: &str| {
            config(&format!(
                "a: {}",
                if entry.starts_with('{') { entry.into() } else { format!("{{{entry}}}") }
            ))
        };
        assert_eq!(&Change::between(&whole(old), &whole(new)), want, "{old} → {new}");
    }
}

#[test]
fn servers_come_go_and_move() {
    let old = config("a: {command: x}, b: {command: x}, c: {command: x}");
    let change = Change::between(&old, &config("d: {command: x}, c: {command: x}, a: {command: x}"));
    assert_eq!((change.added, change.removed, change.reordered), (names(&["d"]), names(&["b"]), true));
    let change = Change::between(&old, &config("a: {command: x}, e: {command: x}, c: {command: x}"));
    assert!(!change.reordered, "{change:?}");
    let change = Change::between(&Config::default(), &old);
    assert_eq!(change, Change { added: names(&["a", "b", "c"]), ..Change::default() });
}

#[test]
fn settings_and_addresses() {
    let old = Config::default();
    let settings = Change { settings: true, ..Change::default() };
    let paged = Config { page_size: Some(5), ..Config::default() };
    assert_eq!(Change::between(&old, &paged), settings);
    let views = std::iter::once(("v".into(), ViewRules::default())).collect();
    assert_eq!(Change::between(&old, &Config { views, ..Config::default() }), settings);
    let keyed = Config { session_keys: vec![[1; 32]], ..Config::default() };
    assert_eq!(Change::between(&old, &keyed), Change { session_keys: true, ..Change::default() });
    let tls = Some(EdgeTls { cert: "a".into(), key: "b".into(), client_ca: None });
    let change = Change::between(&old, &Config { tls, ..Config::default() });
    assert_eq!(change, Change { needs_restart: vec!["tls"], ..Change::default() });
    let limits = Limits { sessions: 1, ..Limits::default() };
    let change = Change::between(&old, &Config { limits, ..Config::default() });
    assert_eq!(change, Change { needs_restart: vec!["limits"], ..Change::default() });
    let moved =
        Config { listen: ([127, 0, 0, 1], 1).into(), admin: ([127, 0, 0, 1], 2).into(), ..Config::default() };
    let change = Change::between(&old, &moved);
    assert_eq!(change, Change { needs_restart: vec!["listen", "admin.listen"], ..Change::default() });
    assert!(!change.is_empty());
}

/// A server that differs from another of the same name in what the numbers say.
fn server(name: &str, (place, time, stamp): (u8, u8, Option<u64>)) -> Arc<Server> {
    let config = config(&format!("{name}: {{url: http://h/{place}}}"));
    let mut server = Server::clone(&config.servers[name]);
    server.timeout = Duration::from_secs(time.into());
    server.updated_at = stamp;
    Arc::new(server)
}

fn any_config() -> impl Strategy<Value = Config> {
    let entry = ("[a-f]", (0..3_u8, 1..3_u8, prop::option::of(0..3_u64)));
    (prop::collection::vec(entry, 0..7), 1..3_usize).prop_map(|(entries, sessions)| Config {
        servers: entries.iter().map(|(name, what)| (ServerName::expose(name), server(name, *what))).collect(),
        limits: Limits { sessions, ..Limits::default() },
        ..Config::default()
    })
}

/// What an upstream's keeper would end up with: untouched servers stay as they were, the rest is the new file's.
fn apply(old: &Config, change: &Change, new: &Config) -> BTreeMap<ServerName, Arc<Server>> {
    let mut servers: BTreeMap<_, _> = old.servers.clone().into_iter().collect();
    servers.retain(|name, _| !change.removed.contains(name));
    for name in change.added.iter().chain(&change.replaced).chain(&change.retuned) {
        servers.insert(name.clone(), new.servers[name].clone());
    }
    servers
}

proptest! {
    #[test]
    fn nothing_differs_from_itself(config in any_config()) {
        prop_assert!(Change::between(&config, &config.clone()).is_empty());
    }

    #[test]
    fn applying_a_change_leads_to_the_new_one(old in any_config(), new in any_config()) {
        let want: BTreeMap<_, _> = new.servers.clone().into_iter().collect();
        prop_assert_eq!(apply(&old, &Change::between(&old, &new), &new), want.clone());
        let none = Config::default();
        prop_assert_eq!(apply(&none, &Change::between(&none, &new), &new), want);
    }

    #[test]
    fn each_server_is_in_at_most_one_list(old in any_config(), new in any_config()) {
        let Change { added, removed, replaced, retuned, .. } = Change::between(&old, &new);
        let mut all = [added, removed, replaced, retuned].concat();
        let count = all.len();
        all.sort();
        all.dedup();
        prop_assert_eq!(all.len(), count);
    }
}
