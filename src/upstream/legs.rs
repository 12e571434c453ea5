//! What a server asks the one client of a link outside of any call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::state::Ready;
use crate::config::Root;
use crate::mcp::{Abilities, method};
use crate::names::ServerName;
use crate::session::{Session, TooManyLegs};
use crate::wire::{self, Code, Message, notification, quoted};

/// How long a client may take: people are asked.
const PATIENCE: Duration = Duration::from_secs(600);

/// The server's requests that wait for the client's answer, by their raw ids.
#[derive(Debug, Default)]
pub(super) struct Legs(Mutex<Vec<(Bytes, CancellationToken)>>);

impl Legs {
    /// The server no longer wants the answer to `id`.
    pub(super) fn cancel(&self, id: &[u8]) {
        for (_, cancelled) in self.waiting().iter().filter(|(waiting, _)| *waiting == id) {
            cancelled.cancel();
        }
    }

    fn enter(&self, id: Bytes) -> CancellationToken {
        let cancelled = CancellationToken::new();
        self.waiting().push((id, cancelled.clone()));
        cancelled
    }

    fn leave(&self, id: &Bytes) {
        let mut waiting = self.waiting();
        if let Some(place) = waiting.iter().position(|(waiting, _)| waiting == id) {
            waiting.swap_remove(place);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(Bytes, CancellationToken)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why the client of a session cannot be asked.
#[derive(Debug)]
struct Refused(Code, String);

/// What a session holds while its user is elsewhere for the server, by the id in `message`, an elicitation or the news that
/// it is done: so the news finds its client.
pub fn elicitation(server: &ServerName, message: &Message) -> Option<String> {
    let [id] = message.params_members(["elicitationId"]).ok()?;
    Some(format!("elicitation {server} {}", message.string(id?)?))
}

/// Asks the client of `session` on its open stream, and answers the server.
pub(super) async fn carry(server: ServerName, ready: Arc<Ready>, session: Arc<Session>, request: Message) {
    let id = request.id().unwrap_or_default();
    if let Some(key) = elicitation(&server, &request) {
        session.hold(&key, ());
    }
    let cancelled = ready.legs.enter(id.clone());
    let asked = ask(&ready, &session, &request, &cancelled).await;
    ready.legs.leave(&id);
    let text = match asked {
        Ok(Some(answer)) => answer.splice(&mut [(answer.id_span().unwrap_or_default(), &id)]),
        Ok(None) => return,
        Err(Refused(code, why)) => wire::error(Some(&id), code, &why),
    };
    ready.say(text).await;
}

/// The client's answer; `None` where the server wants none any more.
async fn ask(
    ready: &Ready,
    session: &Arc<Session>,
    request: &Message,
    cancelled: &CancellationToken,
) -> Result<Option<Message>, Refused> {
    let abilities = session.abilities();
    abilities.allow(request).map_err(|unable| Refused(code_for(abilities, request), unable.to_string()))?;
    if !session.attached() {
        return Err(Refused(
            Code::Internal,
            "the client has no stream open on which it could be asked".into(),
        ));
    }
    let busy = |error: TooManyLegs| Refused(Code::Internal, error.to_string());
    let mut leg = session.ask().map_err(busy)?;
    session.push(leg.write(request));
    let why = tokio::select! {
        answer = timeout(PATIENCE, leg.answer()) => match answer {
            Ok(Some(answer)) => return Ok(Some(answer)),
            Ok(None) => return Err(Refused(Code::Internal, "the client has left".into())),
            Err(_) => Some(Refused(Code::Internal, format!("the client did not answer within {PATIENCE:?}"))),
        },
        () = cancelled.cancelled() => None,
        () = ready.over.cancelled() => None,
    };
    session.push(notification(method::CANCELLED, &format!(r#"{{"requestId":{}}}"#, leg.id())));
    why.map_or(Ok(None), Err)
}

/// A client that knows elicitation knows the method, just not in this mode.
fn code_for(abilities: Abilities, request: &Message) -> Code {
    let elicits = abilities.form || abilities.url;
    if elicits && request.method() == method::ELICITATION {
        Code::InvalidParams
    } else {
        Code::MethodNotFound
    }
}

/// The result of `roots/list`.
pub(super) fn roots(roots: &[Root]) -> String {
    let each = roots.iter().map(|root| match &root.name {
        Some(name) => format!(r#"{{"uri":{},"name":{}}}"#, quoted(&root.uri), quoted(name)),
        None => format!(r#"{{"uri":{}}}"#, quoted(&root.uri)),
    });
    format!(r#"{{"roots":[{}]}}"#, each.collect::<Vec<_>>().join(","))
}
