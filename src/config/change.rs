//! What differs between two configurations.

use std::sync::Arc;

use super::model::{Config, Server};
use crate::names::ServerName;

/// What it takes to come from one configuration to another. Start-up is the change from the empty one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Servers to start.
    pub added: Vec<ServerName>,
    /// Servers to drain.
    pub removed: Vec<ServerName>,
    /// Servers whose connection is to be replaced: another place, program, secret, protocol or scope, or a
    /// newer `updated_at`.
    pub replaced: Vec<ServerName>,
    /// Servers that keep their connection, but whose names, tools, texts or times differ.
    pub retuned: Vec<ServerName>,
    /// Whether servers that are in both stand in another order.
    pub reordered: bool,
    /// Whether something beside the servers differs that takes effect at once: hosts, origins, naming, views.
    pub settings: bool,
    /// Whether clients' sessions and states are sealed with other keys.
    pub session_keys: bool,
    /// Keys whose change needs a restart.
    pub needs_restart: Vec<&'static str>,
}

impl Change {
    /// Compares typed values, nothing else: the same two give the same change at any time.
    ///
    /// `updated_at` replaces where it is strictly later than before; one where there was none counts as later.
    pub fn between(old: &Config, new: &Config) -> Self {
        let session_keys = old.session_keys != new.session_keys;
        let mut change = Self { settings: settings_differ(old, new), session_keys, ..Self::default() };
        for (name, server) in &new.servers {
            match old.servers.get(name) {
                None => change.added.push(name.clone()),
                Some(before) if Arc::ptr_eq(before, server) || before == server => {}
                Some(before) if server.needs_other_link_than(before) => change.replaced.push(name.clone()),
                Some(_) => change.retuned.push(name.clone()),
            }
        }
        let gone = |name: &&ServerName| !new.servers.contains_key(*name);
        change.removed = old.servers.keys().filter(gone).cloned().collect();
        let order_before = old.servers.keys().filter(|name| new.servers.contains_key(*name));
        let order_after = new.servers.keys().filter(|name| old.servers.contains_key(*name));
        change.reordered = !order_before.eq(order_after);
        if old.listen != new.listen {
            change.needs_restart.push("listen");
        }
        if old.admin != new.admin {
            change.needs_restart.push("admin.listen");
        }
        if old.tls != new.tls {
            change.needs_restart.push("tls");
        }
        if old.catalog_cache != new.catalog_cache {
            change.needs_restart.push("catalogCache");
        }
        if old.limits != new.limits {
            change.needs_restart.push("limits");
        }
        change
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn settings_differ(old: &Config, new: &Config) -> bool {
    // Taken apart so that a new setting does not compile until it is thought about here.
    let Config {
        listen: _,
        admin: _,
        servers: _,
        handed: _,
        session_keys: _,
        tls: _,
        catalog_cache: _,
        insecure,
        auth,
        allowed_hosts,
        allowed_origins,
        naming,
        describe_origin,
        page_size,
        views,
        limits: _,
    } = old;
    *insecure != new.insecure
        || *auth != new.auth
        || *allowed_hosts != new.allowed_hosts
        || *allowed_origins != new.allowed_origins
        || *naming != new.naming
        || *describe_origin != new.describe_origin
        || *page_size != new.page_size
        || *views != new.views
}

impl Server {
    /// Whether a connection that was made for `before` is of no use for these settings.
    pub fn needs_other_link_than(&self, before: &Self) -> bool {
        before.reach != self.reach
            || before.personal != self.personal
            || before.protocol != self.protocol
            || before.scope != self.scope
            || before.interactive != self.interactive
            || self.updated_at > before.updated_at
    }

    /// These settings, but with the connection of `before`: what [needs another](Self::needs_other_link_than) stays, and so
    /// does the newest stamp, so that the connection is replaced only by one that is newer still.
    #[must_use]
    pub fn over_link_of(&self, before: &Self) -> Self {
        let secrets = before.secrets.iter().filter(|secret| !self.secrets.contains(secret));
        Self {
            reach: before.reach.clone(),
            personal: before.personal.clone(),
            protocol: before.protocol.clone(),
            scope: before.scope,
            interactive: before.interactive,
            updated_at: before.updated_at.max(self.updated_at),
            secrets: self.secrets.iter().chain(secrets).cloned().collect(),
            ..self.clone()
        }
    }
}
