//! Who may call: `auth`.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};

use super::keys::AUTH;
use super::problem::shown;
use super::reader::{Fields, Reader};

/// Who may call. Whoever is none of them is turned away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Auth {
    /// Callers that show a key, in the order of the file.
    pub keys: Vec<ApiKey>,
}

/// Whose keys differ between two configurations: names, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyChange {
    /// Callers that had no key before.
    pub added: Vec<Arc<str>>,
    /// Callers that have none any more.
    pub removed: Vec<Arc<str>>,
    /// Callers that have another one.
    pub rotated: Vec<Arc<str>>,
}

impl KeyChange {
    /// What `new` has other than `old`; without `auth` nobody has a key.
    pub fn between(old: Option<&Auth>, new: Option<&Auth>) -> Self {
        let keys = |auth: Option<&Auth>| auth.map(|auth| auth.keys.clone()).unwrap_or_default();
        let (old, new, mut change) = (keys(old), keys(new), Self::default());
        for key in &new {
            match old.iter().find(|before| before.name == key.name) {
                None => change.added.push(key.name.clone()),
                Some(before) if before.hash != key.hash => change.rotated.push(key.name.clone()),
                Some(_) => {}
            }
        }
        let gone = old.into_iter().filter(|before| !new.iter().any(|key| key.name == before.name));
        change.removed = gone.map(|key| key.name).collect();
        change
    }

    /// Whether everybody has the key that he had.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The key of one caller. Of the key itself there is only its hash: the file's text is dropped after loading.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Whose it is: the caller's name.
    pub name: Arc<str>,
    /// Its SHA-256.
    pub hash: KeyHash,
}

/// The SHA-256 of a key: what tells that it is still the same one. It is compared, and neither shown nor sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// That of `key`.
    pub fn of(key: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, key).as_ref());
        Self(hash)
    }

    /// For comparing in constant time.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for KeyHash {
    /// From one of a short key that key can be guessed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash")
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({})", self.name)
    }
}

/// What a hash begins with in place of a key.
const HASHED: &str = "sha256:";
/// Below it a key can be found by trying.
const SHORT: usize = 16;
/// Longest key in bytes: it travels in a header.
const LONGEST: usize = 1024;
/// Longest name of a caller in bytes: it travels in ids.
const LONGEST_NAME: usize = 128;

/// Reads `auth`, if it is there.
pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Auth> {
    let node = fields.get("auth")?;
    let inner = reader.fields(node, AUTH, "`auth`", " of `auth`")?;
    reader.refuse_unknown(&inner, AUTH); // who is left out of it by mistake would be let in, or nobody
    let keys = keys(reader, &inner);
    if keys.is_empty() {
        let message = "`auth` lets nobody in: give somebody a key as `keys: {alice: ${ALICE_KEY}}`, or leave `auth` out";
        reader.error(node.place, message);
    }
    Some(Auth { keys })
}

fn keys(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Vec<ApiKey> {
    let (mut keys, mut whose) = (Vec::<ApiKey>::new(), HashMap::new());
    let of = fields.name("keys");
    for (entry, value) in reader.map(fields, "keys") {
        let key = shown(&entry.key);
        let name = entry.key.as_str();
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            let message =
                format!("{key} in {of} cannot be a caller's name: 1 to {LONGEST_NAME} bytes, no line breaks");
            reader.error(entry.place, message);
            continue;
        }
        // The value itself is never told.
        let hash = match hash(value.trim()) {
            Ok((hash, short)) => {
                if short {
                    let message = format!(
                        "{key} in {of} is shorter than {SHORT} characters, so it can be guessed; `openssl rand -hex 32` makes one"
                    );
                    reader.warn(entry.value.place, message);
                }
                hash
            }
            Err(why) => {
                reader.error(entry.value.place, format!("{key} in {of} {why}"));
                continue;
            }
        };
        if let Some(first) = whose.insert(hash, entry.place.line) {
            let message =
                format!("{key} in {of} is the same key as the one in line {first}; give each caller its own");
            reader.error(entry.place, message);
            continue;
        }
        keys.push(ApiKey { name: name.into(), hash });
    }
    keys
}

/// The hash of a key, or the one that is written in its place; and whether the key is too short to be safe.
fn hash(value: &str) -> Result<(KeyHash, bool), String> {
    if let Some(digits) = value.strip_prefix(HASHED) {
        let hash = super::session_keys::key(digits);
        return hash.map(|hash| (KeyHash(hash), false)).ok_or_else(|| {
            format!(
                "is no hash: `{HASHED}` and 64 hexadecimal digits, as `printf %s KEY | sha256sum` prints them"
            )
        });
    }
    if value.is_empty() || value.len() > LONGEST || !value.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!("cannot be sent as a key: 1 to {LONGEST} visible ASCII characters, no spaces"));
    }
    Ok((KeyHash::of(value.as_bytes()), value.len() < SHORT))
}
