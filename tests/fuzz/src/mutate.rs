//! Inputs: what is in the corpus, changed a little.

use crate::random::Random;

/// What is put in: what JSON is made of, what the protocol looks for, and what readers get wrong.
const WORDS: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0061",
    "\\ud800",
    "\\/",
    "null",
    "true",
    "-0",
    "1e400",
    "18446744073709551616",
    "{}",
    "[]",
    "\"\"",
    " ",
    "\n",
    "\r\n",
    "\0",
    "\u{7f}",
    "é",
    "\u{1f600}",
    "\"_meta\":{},",
    "\"_meta\":null,",
    "\"params\":null,",
    "\"params\":{},",
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",",
    "\"io.modelcontextprotocol/clientCapabilities\":{},",
    "\"io.modelcontextprotocol/logLevel\":\"info\",",
    "\"resultType\":\"input_required\",",
    "\"inputRequests\":{\"k\":{\"method\":\"m\"}},",
    "\"requestState\":\"s\",",
    "\"x-mcp-header\":\"A\",",
    "=?base64?",
    "?=",
    "=",
];

/// Longest input.
const LONGEST: usize = 1 << 14;

/// An input: one of `corpus`, or pieces of two, with a few changes.
pub(crate) fn input(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut text = random.one_of(corpus).cloned().unwrap_or_default();
    if random.below(8) == 0 {
        let other = random.one_of(corpus).cloned().unwrap_or_default();
        text.truncate(random.below(text.len() + 1));
        text.extend_from_slice(other.get(random.below(other.len() + 1)..).unwrap_or_default());
    }
    for _ in 0..random.below(8) {
        change(&mut text, random);
    }
    text.truncate(LONGEST);
    text
}

fn change(text: &mut Vec<u8>, random: &mut Random) {
    let start = random.below(text.len() + 1);
    let end = start + random.below((text.len() - start).min(24) + 1);
    match random.below(6) {
        0 => {
            if let Some(byte) = text.get_mut(start) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => drop(text.drain(start..end)),
        2 => {
            let piece = text.get(start..end).unwrap_or_default().to_vec();
            let to = random.below(text.len() + 1);
            text.splice(to..to, piece);
        }
        3 => {
            let byte = u8::try_from(random.below(256)).unwrap_or_default();
            text.insert(start, byte);
        }
        _ => {
            let word = random.one_of(&WORDS).copied().unwrap_or_default();
            let end = if random.below(2) == 0 { start } else { end };
            text.splice(start..end, word.bytes());
        }
    }
}
