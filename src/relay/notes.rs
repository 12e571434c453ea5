//! What servers tell outside of any call: what of it one client is to hear, and in which words.

use bytes::Bytes;

use super::Relay;
use super::resources::subscribed;
use super::tasks::Ledger;
use crate::catalog::View;
use crate::fleet::{Hearers, Notice, Snapshot};
use crate::mcp::{Feature, Features, Offers, method};
use crate::names::ServerName;
use crate::session::Session;
use crate::upstream::elicitation;
use crate::wire::{Message, notification, quoted};

impl Relay {
    /// The messages that `session`'s client in `view` gets because of `notice`.
    pub fn told(&self, view: &View, session: &Session, notice: &Notice) -> Vec<Bytes> {
        let snapshot = self.fleet.snapshot();
        match notice {
            Notice::Changed { servers, features, to } => {
                let concerned = to.include(session)
                    && servers.iter().any(|server| {
                        // One that has just been removed was in the view perhaps.
                        in_view(&snapshot, view, server) || !snapshot.config.servers.contains_key(server)
                    });
                if concerned { changed(*features) } else { Vec::new() }
            }
            Notice::Updated { server, uri, message } => {
                let told = in_view(&snapshot, view, server);
                Vec::from_iter(told.then(|| self.updated(view, session, server, uri, message)).flatten())
            }
            Notice::Logged { server, level, to, message } => {
                let loud = session.threshold().is_some_and(|least| *level >= least);
                let told = to.include(session) && in_view(&snapshot, view, server) && loud;
                Vec::from_iter(told.then(|| logged(view, server, message)))
            }
            Notice::Told { server, to, message } => {
                let told = to.include(session) && in_view(&snapshot, view, server);
                let told = told.then(|| self.other(view, session, server, to, message));
                Vec::from_iter(told.flatten())
            }
        }
    }

    /// That a resource changed, under the URI that the view has for it, if the client wants to hear of it.
    pub(super) fn updated(
        &self,
        view: &View,
        session: &Session,
        server: &ServerName,
        uri: &str,
        message: &Message,
    ) -> Option<Bytes> {
        if !subscribed(session, server, uri) {
            return None;
        }
        let snapshot = self.fleet.snapshot();
        let shown = snapshot.catalog.uri(view, server, uri);
        Some(match message.params_members(["uri"]) {
            Ok([Some(at)]) if *shown != *uri => message.splice(&mut [(at, quoted(&shown).as_bytes())]),
            _ => message.text().clone(),
        })
    }

    /// Any other notification.
    fn other(
        &self,
        view: &View,
        session: &Session,
        server: &ServerName,
        to: &Hearers,
        message: &Message,
    ) -> Option<Bytes> {
        match message.method() {
            method::ELICITATION_COMPLETE => {
                let key = elicitation(server, message)?;
                session.give_back(&key).then(|| message.text().clone())
            }
            method::TASKS_STATUS => {
                let [id] = message.params_members(["taskId"]).ok()?;
                let owned =
                    matches!(to, Hearers::Session(_)) || Ledger::owns(session, server, message.slice(id?)?);
                let sealed = owned.then(|| self.seal_tasks(session.principal(), server, message))?;
                sealed.map(|sealed| sealed.text().clone())
            }
            _ => matches!(view, View::One(_)).then(|| message.text().clone()),
        }
    }

    /// The messages that a client gets who has missed some: any list of `view` may be another now.
    pub fn missed(&self, view: &View) -> Vec<Bytes> {
        let snapshot = self.fleet.snapshot();
        let hellos = snapshot.catalog.servers(view).filter_map(|name| snapshot.upstreams.get(name)?.hello());
        let offers = hellos.fold(Offers::default(), |all, hello| all.and(&hello.offers));
        let offered = |feature: &Feature| match feature {
            Feature::Tool => true,
            Feature::Prompt => offers.prompts,
            Feature::Resource | Feature::Template => offers.resources,
        };
        changed(Feature::ALL.into_iter().filter(offered).collect())
    }
}

fn in_view(snapshot: &Snapshot, view: &View, server: &ServerName) -> bool {
    match view {
        View::All => true,
        View::One(own) => own == server,
        View::Named(_) => snapshot.catalog.servers(view).any(|inside| inside == server),
    }
}

fn changed(features: Features) -> Vec<Bytes> {
    features.notifications().map(|name| notification(name, "{}")).collect()
}

/// With the server's name before its logger's, where several are joined.
fn logged(view: &View, server: &ServerName, message: &Message) -> Bytes {
    if matches!(view, View::One(_)) {
        return message.text().clone();
    }
    match message.params_members(["logger"]) {
        Ok([Some(at)]) => {
            let logger = message.string(at.clone()).unwrap_or_default();
            message.splice(&mut [(at, quoted(&format!("{server}/{logger}")).as_bytes())])
        }
        // There are params: the level is in them.
        Ok([None]) => match message.params_span() {
            Some(params) => {
                let logger = format!(r#""logger":{},"#, quoted(server.as_str()));
                let inside = params.start + 1;
                message.splice(&mut [(inside..inside, logger.as_bytes())])
            }
            None => message.text().clone(),
        },
        Err(_) => message.text().clone(),
    }
}
