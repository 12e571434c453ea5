//! `logging/setLevel`.

use bytes::Bytes;

use super::{Caller, Refusal};
use crate::mcp::Level;
use crate::wire::{self, Message};

/// From now on the client gets log messages from the level on that it names.
pub(super) fn set(caller: &Caller, message: &Message) -> Result<Bytes, Refusal> {
    let bad = |why: &str| Refusal::BadParams(format!("{}: {why}", message.method()));
    let [level] = message.params_members(["level"]).map_err(|why| bad(&why.to_string()))?;
    let name = level.and_then(|level| message.string(level)).ok_or_else(|| bad("`level` is no string"))?;
    let level = Level::of(&name).ok_or_else(|| Refusal::BadLevel((*name).into()))?;
    caller.session.set_level(level);
    // Exactly this: clients compare.
    Ok(wire::response(&message.id().unwrap_or_default(), b"{}"))
}
