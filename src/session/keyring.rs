//! Texts that only we can make and read.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{
    AES_256_GCM, AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, RandomizedNonceKey, UnboundKey,
};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// What every sealed text starts with; another way of sealing will start otherwise.
const VERSION: &str = "1.";

/// Seals what clients carry for us (ids of sessions and tasks, states of requests): AES-256-GCM with a random nonce, so a text can be neither read nor
/// changed nor used for another purpose. A key is good for 2^32 texts (NIST SP 800-38D §8.3).
pub struct Keyring {
    keys: ArcSwap<Vec<Key>>,
}

struct Key {
    random: RandomizedNonceKey,
    /// For names: AES-256-GCM-SIV may use a nonce again, and then tells only whether two texts are the same (RFC 8452 §9).
    /// A key of its own, made of the other.
    same: LessSafeKey,
}

impl Keyring {
    /// A key that ends with this process.
    pub fn random() -> Self {
        Self::new(&[])
    }

    /// Given keys: the first seals, all of them open, so that keys can be changed one replica after the other. Where there
    /// is none, one is made at random.
    pub fn new(keys: &[[u8; 32]]) -> Self {
        Self { keys: ArcSwap::from_pointee(made_ready(keys)) }
    }

    /// Takes other keys, as [`new`](Self::new) does. What was sealed with a key that is not among them opens no more.
    pub fn set(&self, keys: &[[u8; 32]]) {
        self.keys.store(Arc::new(made_ready(keys)));
    }

    /// `plain` in letters, digits, `-`, `_` and `.`; opens only for the same `purpose`.
    pub fn seal(&self, purpose: &str, plain: &[u8]) -> String {
        let keys = self.keys.load();
        let key = keys.first().expect("a keyring has a key");
        let mut sealed = plain.to_vec();
        let nonce = key
            .random
            .seal_in_place_append_tag(Aad::from(purpose), &mut sealed)
            .expect("the text is of sane length");
        sealed.extend_from_slice(nonce.as_ref());
        format!("{VERSION}{}", URL_SAFE_NO_PAD.encode(sealed))
    }

    /// As [`seal`](Self::seal), and the same text for the same `plain`: for names, which are compared.
    pub fn name(&self, purpose: &str, plain: &[u8]) -> String {
        let keys = self.keys.load();
        let key = keys.first().expect("a keyring has a key");
        let mut sealed = plain.to_vec();
        key.same
            .seal_in_place_append_tag(no_nonce(), Aad::from(purpose), &mut sealed)
            .expect("the text is of sane length");
        format!("{VERSION}{}", URL_SAFE_NO_PAD.encode(sealed))
    }

    /// What was given this [name](Self::name) for `purpose`; `None` where one of our keys did not do it.
    pub fn named(&self, purpose: &str, name: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(name.strip_prefix(VERSION)?).ok()?;
        self.keys.load().iter().find_map(|key| {
            let mut text = bytes.clone();
            let length = key.same.open_in_place(no_nonce(), Aad::from(purpose), &mut text).ok()?.len();
            text.truncate(length);
            Some(text)
        })
    }

    /// What was sealed for `purpose`; `None` where one of our keys did not seal exactly this.
    pub fn open(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed.strip_prefix(VERSION)?).ok()?;
        let (text, nonce) = bytes.split_last_chunk::<NONCE_LEN>()?;
        self.keys.load().iter().find_map(|key| {
            let mut text = text.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let length = key.random.open_in_place(nonce, Aad::from(purpose), &mut text).ok()?.len();
            text.truncate(length);
            Some(text)
        })
    }
}

fn made_ready(keys: &[[u8; 32]]) -> Vec<Key> {
    if !keys.is_empty() {
        return keys.iter().map(ready).collect();
    }
    let mut key = [0; 32];
    rand::fill(&mut key).expect("the system gives random bytes");
    vec![ready(&key)]
}

fn ready(key: &[u8; 32]) -> Key {
    let length = "the key has the cipher's length";
    let other = hmac::sign(&hmac::Key::new(HMAC_SHA256, key), b"names");
    Key {
        random: RandomizedNonceKey::new(&AES_256_GCM, key).expect(length),
        same: LessSafeKey::new(UnboundKey::new(&AES_256_GCM_SIV, other.as_ref()).expect(length)),
    }
}

/// Always the same one; see [`Key::same`].
fn no_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({} keys)", self.keys.load().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_what_it_sealed_and_for_what() {
        let ring = Keyring::random();
        let sealed = ring.seal("a", b"hello");
        assert_ne!(sealed, ring.seal("a", b"hello"), "nonces are random");
        assert_eq!(ring.open("a", &sealed).unwrap(), b"hello");
        assert_eq!(ring.open("b", &sealed), None);
        assert_eq!(Keyring::random().open("a", &sealed), None);
        assert_eq!(ring.open("a", &ring.seal("a", b"")).unwrap(), b"");
        for bad in [
            "",
            "1.",
            "1.AAAA",
            "2.AAAA",
            "1.!",
            sealed.strip_prefix(VERSION).unwrap(),
            &format!("{sealed}A"),
            &"1.A".repeat(99),
        ] {
            assert_eq!(ring.open("a", bad), None, "{bad}");
        }
    }

    #[test]
    fn a_name_is_always_the_same_and_opens_only_for_its_purpose() {
        let (old, new) = (Keyring::new(&[[1; 32]]), Keyring::new(&[[2; 32], [1; 32]]));
        let name = old.name("a", b"hello");
        assert_eq!(name, old.name("a", b"hello"));
        assert_ne!(name, old.name("b", b"hello"));
        assert_ne!(name, new.name("a", b"hello"));
        assert_eq!(new.named("a", &name).unwrap(), b"hello");
        assert_eq!((old.named("b", &name), old.named("a", &new.name("a", b"hello"))), (None, None));
        assert_eq!((old.named("a", &old.seal("a", b"hello")), old.open("a", &name)), (None, None));
        for at in 2..name.len() {
            let mut bytes = name.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(old.named("a", std::str::from_utf8(&bytes).unwrap()), None, "byte {at}");
        }
    }

    #[test]
    fn no_byte_can_be_changed() {
        let ring = Keyring::random();
        let sealed = ring.seal("a", b"hello");
        for at in 2..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(ring.open("a", std::str::from_utf8(&bytes).unwrap()), None, "byte {at}");
        }
    }

    #[test]
    fn keys_change_one_after_the_other() {
        let (old, new) = ([1; 32], [2; 32]);
        let before = Keyring::new(&[old]);
        let between = Keyring::new(&[old, new]);
        let after = Keyring::new(&[new, old]);
        for sealed in [before.seal("a", b"x"), between.seal("a", b"x"), after.seal("a", b"x")] {
            assert_eq!(after.open("a", &sealed).unwrap(), b"x");
            assert_eq!(between.open("a", &sealed).unwrap(), b"x");
        }
        assert_eq!(before.open("a", &after.seal("a", b"x")), None);
        let sealed = before.seal("a", b"x");
        before.set(&[new, old]);
        assert_eq!(before.open("a", &sealed).unwrap(), b"x");
        before.set(&[new]);
        assert_eq!(before.open("a", &sealed), None);
        before.set(&[]);
        assert_eq!(before.open("a", &after.seal("a", b"x")), None);
    }
}
