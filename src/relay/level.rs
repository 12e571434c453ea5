//! `logging/setLevel`.

use bytes::Bytes;

use super::{Caller, Refusal, Relay};
use crate::mcp::Level;
use crate::wire::{self, Message};

/// What the wishes towards servers are held under.
const HELD: &str = "level";

/// From now on the client gets log messages from the level on that it names.
pub(super) fn set(relay: &Relay, caller: &Caller, message: &Message) -> Result<Bytes, Refusal> {
    let bad = |why: &str| Refusal::BadParams(format!("{}: {why}", message.method()));
    let [level] = message.params_members(["level"]).map_err(|why| bad(&why.to_string()))?;
    let name = level.and_then(|level| message.string(level)).ok_or_else(|| bad("`level` is no string"))?;
    let level = Level::of(&name).ok_or_else(|| Refusal::BadLevel((*name).into()))?;
    caller.session.set_level(level);
    let snapshot = relay.fleet.snapshot();
    let servers = || snapshot.catalog.servers(&caller.view).filter_map(|name| snapshot.upstreams.get(name));
    let wishes: Vec<_> = servers().map(|upstream| upstream.want_level(level)).collect();
    caller.session.give_back(HELD); // only now, so that no server hears of a moment without
    caller.session.hold(HELD, wishes);
    for upstream in servers() {
        upstream.level_changed(&caller.session);
    }
    // Exactly this: clients compare.
    Ok(wire::response(&message.id().unwrap_or_default(), b"{}"))
}
