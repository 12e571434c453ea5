//! The file of keys for what clients carry for us: sessions' ids, states, tasks' ids.

use super::reach::read_file;
use super::reader::{Fields, Reader};

/// The keys of the file that `sessionKeys` names; none where it names none.
pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Vec<[u8; 32]> {
    let Some((_, text)) = read_file(reader, fields, "sessionKeys") else { return vec![] };
    let place = fields.get("sessionKeys").map_or(fields.place, |node| node.place);
    let (mut keys, mut wrong) = (vec![], vec![]);
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match key(line) {
            Some(key) => keys.push(key),
            None => wrong.push(number.to_string()),
        }
    }
    // The lines themselves are secret, also those that are wrong.
    if !wrong.is_empty() {
        let (noun, verb) = if wrong.len() == 1 { ("line", "is") } else { ("lines", "are") };
        let message = format!(
            "`sessionKeys`: {noun} {} of its file {verb} no key; a key is 64 hexadecimal digits, as `openssl rand -hex 32` \
             prints them",
            wrong.join(", ")
        );
        reader.error(place, message);
    } else if keys.is_empty() {
        reader.error(place, "`sessionKeys`: its file has no key; `openssl rand -hex 32` makes one");
    }
    keys
}

/// 32 bytes as hexadecimal digits.
pub(super) fn key(line: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if line.len() != 2 * key.len() {
        return None;
    }
    for (byte, digits) in key.iter_mut().zip(line.as_bytes().chunks_exact(2)) {
        let digit = |digit: &u8| char::from(*digit).to_digit(16);
        let [high, low] = digits else { return None };
        *byte = u8::try_from(digit(high)? * 16 + digit(low)?).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::key;

    #[test]
    fn a_key_is_32_bytes() {
        let text = "00ff".repeat(16);
        assert_eq!(key(&text).unwrap().get(..3), Some(&[0, 255, 0][..]));
        assert_eq!(key(&text.to_uppercase()), key(&text));
        for bad in [
            "",
            "00",
            &format!("{text}00"),
            &text.replace('f', "g"),
            &"é".repeat(32),
            &text.replace("00", "+0"),
        ] {
            assert_eq!(key(bad), None, "{bad}");
        }
    }
}
