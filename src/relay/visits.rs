//! A call of a client without a session whose older server wants the user to open a page first, which it says by an error
//! (revision 2025-11-25, `client/elicitation`): the client is asked in the middle of the call, and the server gets the call
//! again on the same link, since it may know only there that the user has been at the page.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::forward::{Answered, Broken};
use super::request::{Request, Subject};
use super::rounds::{Question, ROUNDS, accepts};
use crate::catalog::Route;
use crate::config::Server;
use crate::mcp::{URL_ELICITATION_REQUIRED, code_of, method};
use crate::upstream::Upstream;
use crate::wire::{Message, elements, members, request};

impl Request {
    /// Goes on from `answered`, which may ask for pages, to an answer that does not.
    pub(super) async fn visits(
        &self,
        upstream: &Arc<Upstream>,
        server: &Server,
        limit: Duration,
        route: &Route,
        mut answered: Answered,
    ) -> Result<Answered, Broken> {
        let last = Instant::now() + server.max_total;
        let asks = matches!(self.subject, Subject::Tool | Subject::Prompt | Subject::Resource);
        if !asks || !self.errand.guard.session().abilities().url {
            return Ok(answered);
        }
        for _ in 0..ROUNDS {
            let pages = pages(answered.message.body().unwrap_or_default());
            if pages.is_empty() {
                return Ok(answered);
            }
            self.errand.asides.asked_by(upstream);
            let said = self.ask_all(pages, last).await?;
            if !said.answers.iter().all(|(_, answer)| accepts(answer)) {
                return Err(Broken::Refused(
                    "the user did not open the page that the server asked for".into(),
                ));
            }
            let write = |to, id| self.write(route, to, id);
            answered = self.forward(upstream, server, limit, &write).await?;
        }
        Err(Broken::Refused(format!("the server wanted a page to be opened {ROUNDS} times, and again")))
    }
}

/// The pages that the raw `error` asks for, as requests.
fn pages(error: &str) -> Vec<Question> {
    if code_of(error) != Some(URL_ELICITATION_REQUIRED) {
        return Vec::new();
    }
    let member = |text, key| members(text, [key]).ok().and_then(|[at]| text.get(at?));
    let all = member(error, "data").and_then(|data| member(data, "elicitations")).unwrap_or("[]");
    let pages = elements(all).unwrap_or_default().into_iter().filter_map(|at| all.get(at));
    let question = |(n, page): (usize, &str)| {
        let text = Message::parse(request(0, method::ELICITATION, &with_mode(page)), usize::MAX).ok()?;
        Some(Question { key: n.to_string().into(), method: method::ELICITATION.into(), text, page: None })
    };
    pages.enumerate().filter_map(question).collect()
}

/// The raw params of an elicitation that sends its user to a page, and says so.
fn with_mode(params: &str) -> String {
    match (members(params, ["mode"]), params.strip_prefix('{')) {
        (Ok([None]), Some(rest)) if rest.trim_start().starts_with('"') => format!(r#"{{"mode":"url",{rest}"#),
        _ => params.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_which_pages_a_server_wants_opened() {
        let read = |error: &str| {
            let pages = pages(error);
            pages.iter().map(|page| page.text.params().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let error = r#"{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","url":"u","elicitationId":"e"},{"url":"v"}]}}"#;
        assert_eq!(
            read(error),
            [r#"{"mode":"url","url":"u","elicitationId":"e"}"#, r#"{"mode":"url","url":"v"}"#]
        );
        for none in [
            r#"{"code":-32603,"data":{"elicitations":[{"url":"u"}]}}"#,
            r#"{"code":-32042}"#,
            r#"{"code":-32042,"data":{"elicitations":7}}"#,
            r#"{"code":-32042,"data":{"elicitations":[[]]}}"#,
            "",
        ] {
            assert!(read(none).is_empty(), "{none}");
        }
    }
}
