//! A call that is made again in place of one that waited: what its client said to which question travels in the state, so
//! nothing is kept here, and any process with the same keys goes on. Only where the operator said that it does no harm
//! (`replay`).

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::state::canonical;
use super::{answers, response};
use crate::mcp::input_params;
use crate::relay::Refusal;
use crate::wire::{Message, quoted};

/// What was said, and what was asked last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::relay) struct Script {
    said: Vec<Line>,
    asked: Vec<Question>,
}

/// A question as a digest, and the client's raw answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    question: Box<str>,
    answer: Box<str>,
    /// In this making of the call.
    #[serde(skip)]
    given: bool,
}

/// A question under the key by which the client answers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Question {
    key: Box<str>,
    method: Box<str>,
    digest: Box<str>,
}

impl Script {
    pub(super) fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Takes what `retry` says to what was asked last.
    ///
    /// # Errors
    /// Where one of its answers is none.
    pub(super) fn hear(&mut self, retry: &Message) -> Result<(), Refusal> {
        for Question { key, method, digest } in std::mem::take(&mut self.asked) {
            let Some(answer) = response(retry, &key) else { continue };
            if !answers(&method, answer) {
                let key = quoted(&key);
                return Err(Refusal::BadParams(format!("`inputResponses`: {key} is no result of {method}")));
            }
            self.said.push(Line { question: digest, answer: answer.into(), given: false });
        }
        Ok(())
    }

    /// The answer to `question`, if it was given once and not in this making of the call.
    pub(super) fn answer(&mut self, question: &Message) -> Option<&str> {
        let asked = of(question);
        let line = self.said.iter_mut().find(|line| !line.given && line.question == asked)?;
        line.given = true;
        Some(&line.answer)
    }

    /// The client is asked `question` under `key`.
    pub(super) fn ask(&mut self, key: &str, question: &Message) {
        let method = question.method().into();
        self.asked.push(Question { key: key.into(), method, digest: of(question) });
    }
}

/// What a question asks, without what differs each time.
fn of(question: &Message) -> Box<str> {
    let params = canonical(&input_params(question.params().unwrap_or("{}")));
    let text = format!("{}\n{params}", question.method());
    URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes())).into()
}
