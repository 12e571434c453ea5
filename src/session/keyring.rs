//! Texts that only we can make and read.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// What every sealed text starts with; another way of sealing will start otherwise.
const VERSION: &str = "1.";

/// Seals what clients carry for us (session ids now): AES-256-GCM with a random nonce, so a text can be neither read nor
/// changed nor used for another purpose. A key is good for 2^32 texts (NIST SP 800-38D §8.3).
pub struct Keyring {
    keys: Vec<RandomizedNonceKey>,
}

impl Keyring {
    /// A key that ends with this process.
    pub fn random() -> Self {
        let mut key = [0; 32];
        rand::fill(&mut key).expect("the system gives random bytes");
        Self { keys: vec![ready(&key)] }
    }

    /// Given keys: the first seals, all of them open, so that keys can be changed one replica after the other.
    /// `None` where there is none.
    pub fn new(keys: &[[u8; 32]]) -> Option<Self> {
        (!keys.is_empty()).then(|| Self { keys: keys.iter().map(ready).collect() })
    }

    /// `plain` in letters, digits, `-`, `_` and `.`; opens only for the same `purpose`.
    pub fn seal(&self, purpose: &str, plain: &[u8]) -> String {
        let key = self.keys.first().expect("a keyring has a key");
        let mut sealed = plain.to_vec();
        let nonce = key
            .seal_in_place_append_tag(Aad::from(purpose), &mut sealed)
            .expect("the text is of sane length");
        sealed.extend_from_slice(nonce.as_ref());
        format!("{VERSION}{}", URL_SAFE_NO_PAD.encode(sealed))
    }

    /// What was sealed for `purpose`; `None` where one of our keys did not seal exactly this.
    pub fn open(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed.strip_prefix(VERSION)?).ok()?;
        let (text, nonce) = bytes.split_last_chunk::<NONCE_LEN>()?;
        self.keys.iter().find_map(|key| {
            let mut text = text.to_vec();
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let length = key.open_in_place(nonce, Aad::from(purpose), &mut text).ok()?.len();
            text.truncate(length);
            Some(text)
        })
    }
}

fn ready(key: &[u8; 32]) -> RandomizedNonceKey {
    RandomizedNonceKey::new(&AES_256_GCM, key).expect("the key has the cipher's length")
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({} keys)", self.keys.len())
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
        let before = Keyring::new(&[old]).unwrap();
        let between = Keyring::new(&[old, new]).unwrap();
        let after = Keyring::new(&[new, old]).unwrap();
        for sealed in [before.seal("a", b"x"), between.seal("a", b"x"), after.seal("a", b"x")] {
            assert_eq!(after.open("a", &sealed).unwrap(), b"x");
            assert_eq!(between.open("a", &sealed).unwrap(), b"x");
        }
        assert_eq!(before.open("a", &after.seal("a", b"x")), None);
        assert!(Keyring::new(&[]).is_none());
    }
}
