//! What a session id says to those who hold the key.

use std::sync::Arc;

use aws_lc_rs::rand;

use super::Keyring;
use crate::config::KeyHash;
use crate::wire::members;

/// What client and we agreed on at `initialize`. It travels in the session id, so it is cut to what fits there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// The negotiated revision.
    pub revision: String,
    /// The client's capabilities: a raw JSON object.
    pub capabilities: String,
    /// The client's name and version, for people.
    pub client: String,
}

/// Longest id of ours, in characters: 1 KiB is what headers of any client carry.
pub(super) const ID_MAX: usize = 1024;
const REVISION_MAX: usize = 32;
const CLIENT_MAX: usize = 64;
/// Longest capabilities kept as they are, in bytes. All parts, sealed and in base64, stay below [`ID_MAX`].
const CAPABILITIES_MAX: usize = 560;
/// Longest value of a known capability where they had to be cut.
const CAPABILITY_MAX: usize = 96;

/// To whom a session belongs: it is nobody else's, and of no other path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whose<'a> {
    /// The view.
    pub view: &'a str,
    /// The principal's text; none where callers need not prove who they are.
    pub principal: Option<&'a Arc<str>>,
    /// Of the key that the principal shows now. It decides nothing here: another key of his finds the same session.
    pub key: Option<KeyHash>,
}

impl<'a> From<&'a str> for Whose<'a> {
    /// Anybody's in that view.
    fn from(view: &'a str) -> Self {
        Self { view, principal: None, key: None }
    }
}

/// The contents of an id.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// 128 random bits: what makes it unguessable and one of its kind.
    pub(super) serial: u128,
    /// When it ends, in seconds since 1970, whoever holds it.
    pub(super) end: u64,
    pub(super) agreed: Agreed,
}

impl Ticket {
    pub(super) fn new(end: u64, agreed: Agreed) -> Self {
        let mut serial = [0; 16];
        rand::fill(&mut serial).expect("the system gives random bytes");
        Self { serial: u128::from_be_bytes(serial), end, agreed: agreed.fit() }
    }

    /// The id: opens only on the path of the same view, and for the same principal.
    pub(super) fn seal<'w>(&self, keys: &Keyring, whose: impl Into<Whose<'w>>) -> String {
        let mut plain = Vec::with_capacity(CAPABILITIES_MAX);
        plain.extend_from_slice(&self.serial.to_be_bytes());
        plain.extend_from_slice(&self.end.to_be_bytes());
        let Agreed { revision, capabilities, client } = &self.agreed;
        plain.extend_from_slice([revision, client, capabilities].map(String::as_str).join("\0").as_bytes());
        keys.seal(&purpose(whose.into()), &plain)
    }

    pub(super) fn open<'w>(keys: &Keyring, whose: impl Into<Whose<'w>>, id: &str) -> Option<Self> {
        if id.len() > ID_MAX {
            return None;
        }
        let plain = keys.open(&purpose(whose.into()), id)?;
        let (serial, rest) = plain.split_first_chunk()?;
        let (end, rest) = rest.split_first_chunk()?;
        let mut parts = std::str::from_utf8(rest).ok()?.splitn(3, '\0').map(str::to_owned);
        let (revision, client, capabilities) = (parts.next()?, parts.next()?, parts.next()?);
        let agreed = Agreed { revision, capabilities, client };
        Some(Self { serial: u128::from_be_bytes(*serial), end: u64::from_be_bytes(*end), agreed })
    }
}

/// Neither part has a line break in it.
fn purpose(whose: Whose<'_>) -> String {
    match whose.principal {
        Some(principal) => format!("session {}\n{principal}", whose.view),
        None => format!("session {}", whose.view),
    }
}

impl Agreed {
    fn fit(self) -> Self {
        Self {
            revision: short(&self.revision, REVISION_MAX),
            capabilities: if self.capabilities.len() > CAPABILITIES_MAX {
                known(&self.capabilities)
            } else {
                self.capabilities
            },
            client: short(&self.client, CLIENT_MAX),
        }
    }
}

/// `text` cut to `most` bytes, without the character that separates the parts.
fn short(text: &str, most: usize) -> String {
    (0..=most).rev().find_map(|end| text.get(..end)).unwrap_or_default().replace('\0', " ")
}

/// Of `capabilities` those that change what we do, in short.
fn known(capabilities: &str) -> String {
    const KEYS: [&str; 5] = ["roots", "sampling", "elicitation", "tasks", "extensions"];
    let Ok(places) = members(capabilities, KEYS) else { return "{}".into() };
    let parts = KEYS.iter().zip(places).filter_map(|(key, place)| {
        let value = capabilities.get(place?)?;
        // A long one is still there: `{}` says so.
        Some(format!(r#""{key}":{}"#, if value.len() > CAPABILITY_MAX { "{}" } else { value }))
    });
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed(capabilities: &str) -> Agreed {
        Agreed {
            revision: "2025-11-25".into(),
            capabilities: capabilities.into(),
            client: "inspector/1.0".into(),
        }
    }

    #[test]
    fn what_was_agreed_comes_back_as_it_was() {
        let keys = Keyring::random();
        let ticket =
            Ticket::new(7, agreed(r#"{"roots":{"listChanged":true},"experimental":{"é\u0000":1.0}}"#));
        let id = ticket.seal(&keys, "/mcp");
        assert_eq!(Ticket::open(&keys, "/mcp", &id), Some(ticket));
        assert_eq!(Ticket::open(&keys, "/mcp/a", &id), None);
        assert!(id.len() < 300 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
    }

    #[test]
    fn the_longest_id_fits() {
        let keys = Keyring::random();
        let long = "é".repeat(5000);
        let most = format!(r#"{{"x":"{}"}}"#, "x".repeat(CAPABILITIES_MAX - 8));
        assert_eq!(most.len(), CAPABILITIES_MAX);
        let agreed = Agreed { revision: long.clone(), capabilities: most.clone(), client: long };
        let ticket = Ticket::new(u64::MAX, agreed);
        let id = ticket.seal(&keys, &*"view".repeat(500));
        assert!(id.len() <= ID_MAX, "{}", id.len());
        assert_eq!(ticket.agreed.capabilities, most);
        assert_eq!(Ticket::open(&keys, &*"view".repeat(500), &id), Some(ticket));
    }

    #[test]
    fn long_capabilities_keep_what_we_act_on() {
        let long = "x".repeat(5000);
        let text = format!(
            r#"{{"experimental":{{"a":"{long}"}},"roots":{{"listChanged":true}},"sampling":{{"a":"{long}"}},"x":1}}"#
        );
        let ticket = Ticket::new(0, agreed(&text));
        assert_eq!(ticket.agreed.capabilities, r#"{"roots":{"listChanged":true},"sampling":{}}"#);
        assert_eq!(Ticket::new(0, agreed(&long)).agreed.capabilities, "{}");
        let value = format!(r#"{{"a":"{}"}}"#, "x".repeat(CAPABILITY_MAX - 8));
        let all: Vec<_> = ["roots", "sampling", "elicitation", "tasks", "extensions", "more"]
            .iter()
            .map(|key| format!(r#""{key}":{value}"#))
            .collect();
        assert!(known(&format!("{{{}}}", all.join(","))).len() <= CAPABILITIES_MAX);
    }
}
