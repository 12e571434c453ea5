//! What of a server's settings is filled in for each caller: `{{header.NAME}}` and `{{principal.…}}`.
//!
//! A value is put in as it is and never looked at again, so no caller can bring a placeholder in; what it could do in its
//! place (a line break in a header, another folder in a path, an option among arguments) is refused.

use std::fmt;
use std::fmt::Write as _;

use aws_lc_rs::digest::{Context, SHA256};
use hyper::header::{HeaderName, HeaderValue};

use super::model::{Reach, Server};
use super::reach;

/// Something of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blank {
    /// A header of its request.
    Header(HeaderName),
    /// What its issuer calls it.
    Subject,
    /// Its address.
    Email,
    /// Its name, for people.
    Name,
    /// Something else that its issuer says of it.
    Claim(Box<str>),
}

/// A text with blanks in it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Form(Vec<Part>);

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Blank(Blank),
}

/// Which parts of a server's entry have blanks, and what they are.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Personal {
    pub(super) blanks: Vec<Blank>,
    pub(super) url: Option<Form>,
    /// In place of the header at this place.
    pub(super) headers: Vec<(usize, Form)>,
    /// In place of the argument at this place.
    pub(super) args: Vec<(usize, Form)>,
    /// Beside the other variables.
    pub(super) env: Vec<(String, Form)>,
}

/// What one caller has for each blank.
#[derive(Clone, PartialEq, Eq)]
pub struct Values(Vec<(Blank, String)>);

/// Why a blank cannot be filled in, as a predicate of the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lacking {
    /// The request does not have it.
    #[error("needs the header `{0}` with each request, and this one has it not, or more than once")]
    Header(HeaderName),
    /// Nobody is asked who he is.
    #[error("needs to know who calls, and nobody is asked: `auth` is not configured")]
    Nobody,
    /// The caller's issuer does not say it.
    #[error("needs `{{{{principal.{0}}}}}`, which is not known of callers who show a key")]
    Unsaid(Box<str>),
    /// It cannot stand where it is wanted.
    #[error("cannot be given `{{{{{0}}}}}` of this request: it {1}")]
    Unfit(String, &'static str),
}

/// Longest value.
const LONGEST: usize = 8 << 10;
/// What stands for a value while the rest is checked.
const SAMPLE: &str = "x";

impl fmt::Display for Blank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header.{name}"),
            Self::Subject => f.write_str("principal.sub"),
            Self::Email => f.write_str("principal.email"),
            Self::Name => f.write_str("principal.name"),
            Self::Claim(name) => write!(f, "principal.claims.{name}"),
        }
    }
}

impl Blank {
    /// What stands between the braces, if it is one of ours; a fault if it only looks like one.
    pub(super) fn parse(inside: &str) -> Option<Result<Self, String>> {
        if let Some(name) = inside.strip_prefix("header.") {
            let name = HeaderName::from_bytes(name.as_bytes());
            return Some(name.map(Self::Header).map_err(|_| "`{{header.…}}` does not name a header".into()));
        }
        Some(match inside.strip_prefix("principal.")? {
            "sub" => Ok(Self::Subject),
            "email" => Ok(Self::Email),
            "name" => Ok(Self::Name),
            other => match other.strip_prefix("claims.").filter(|name| !name.is_empty()) {
                Some(name) => Ok(Self::Claim(name.into())),
                None => Err("there are `{{principal.sub}}`, `.email`, `.name` and `.claims.NAME`".into()),
            },
        })
    }

    fn lacking(&self) -> Lacking {
        match self {
            Self::Header(name) => Lacking::Header(name.clone()),
            Self::Subject => Lacking::Nobody,
            Self::Email => Lacking::Unsaid("email".into()),
            Self::Name => Lacking::Unsaid("name".into()),
            Self::Claim(name) => Lacking::Unsaid(format!("claims.{name}").into()),
        }
    }
}

impl Form {
    pub(super) fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Part::Text(before)) => before.push_str(text),
            _ if text.is_empty() => {}
            Some(Part::Blank(_)) | None => self.0.push(Part::Text(text.to_owned())),
        }
    }

    pub(super) fn blank(&mut self, blank: Blank) {
        self.0.push(Part::Blank(blank));
    }

    pub(super) fn blanks(&self) -> impl Iterator<Item = &Blank> {
        self.0.iter().filter_map(|part| match part {
            Part::Blank(blank) => Some(blank),
            Part::Text(_) => None,
        })
    }

    /// With something in every blank, to see whether the rest is good.
    pub(super) fn sample(&self) -> String {
        self.written(|_, out| out.push_str(SAMPLE))
    }

    /// Whether a caller could choose where we connect to: a blank comes before the path.
    pub(super) fn is_open_host(&self) -> bool {
        let Some(Part::Text(start)) = self.0.first() else { return true };
        !start.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?', '#']))
    }

    fn starts_with(&self, blank: &Blank) -> bool {
        matches!(self.0.first(), Some(Part::Blank(first)) if first == blank)
    }

    /// Whether `value` in that blank of this address would make a path that is another one for a server that decodes it
    /// before it looks for steps between folders. It is sent with its slashes encoded; what came encoded may be decoded, too.
    fn leads_elsewhere(&self, blank: &Blank, value: &str) -> bool {
        let path = self.path();
        if !path.iter().any(|part| matches!(part, Part::Blank(other) if other == blank)) {
            return false;
        }
        let with = |value: &[u8]| -> Vec<u8> {
            let bytes = path.iter().map(|part| match part {
                Part::Text(text) => text.as_bytes(),
                Part::Blank(other) if other == blank => value,
                Part::Blank(_) => SAMPLE.as_bytes(),
            });
            bytes.collect::<Vec<_>>().concat()
        };
        let own = steps(&with(SAMPLE.as_bytes())); // what the file itself has of them is its own affair
        let leads = |value: &[u8]| steps(value) > 0 || steps(&with(value)) > own;
        leads(value.as_bytes()) || leads(&reach::decoded(value))
    }

    /// What of this address comes before a query.
    fn path(&self) -> Vec<Part> {
        let mut path = vec![];
        for part in &self.0 {
            if let Part::Text(text) = part
                && let Some((last, _)) = text.split_once(['?', '#'])
            {
                path.push(Part::Text(last.to_owned()));
                break;
            }
            path.push(part.clone());
        }
        path
    }

    fn written(&self, value: impl Fn(&Blank, &mut String)) -> String {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Blank(blank) => value(blank, &mut out),
            }
        }
        out
    }
}

impl Personal {
    /// Nothing, unless a part has blanks.
    pub(super) fn some(mut self) -> Option<Self> {
        let forms = self.url.iter();
        let forms = forms.chain(self.headers.iter().chain(&self.args).map(|(_, form)| form));
        let forms = forms.chain(self.env.iter().map(|(_, form)| form));
        let mut blanks: Vec<Blank> = vec![];
        for blank in forms.flat_map(Form::blanks) {
            if !blanks.contains(blank) {
                blanks.push(blank.clone());
            }
        }
        self.blanks = blanks;
        (!self.blanks.is_empty()).then_some(self)
    }

    /// The headers of callers that are filled in.
    pub fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.blanks.iter().filter_map(|blank| match blank {
            Blank::Header(name) => Some(name),
            Blank::Subject | Blank::Email | Blank::Name | Blank::Claim(_) => None,
        })
    }

    /// Whether it takes to know who calls.
    pub fn asks_who(&self) -> bool {
        self.blanks.len() > self.headers().count()
    }

    /// What a caller has for every blank, `look`ed up.
    ///
    /// # Errors
    /// Where one is missing, or cannot stand where it is wanted.
    pub fn values(&self, look: impl Fn(&Blank) -> Option<String>) -> Result<Values, Lacking> {
        let value = |blank: &Blank| {
            let value = look(blank).filter(|value| !value.is_empty()).ok_or_else(|| blank.lacking())?;
            match self.unfit(blank, &value) {
                Some(why) => Err(Lacking::Unfit(blank.to_string(), why)),
                None => Ok((blank.clone(), value)),
            }
        };
        self.blanks.iter().map(value).collect::<Result<_, _>>().map(Values)
    }

    fn unfit(&self, blank: &Blank, value: &str) -> Option<&'static str> {
        if value.len() > LONGEST {
            return Some("is too long");
        }
        if value.chars().any(char::is_control) {
            return Some("holds a line break or another control character");
        }
        if self.url.as_ref().is_some_and(|form| form.leads_elsewhere(blank, value)) {
            return Some("would lead to another path: a part of it is dots alone");
        }
        let leads = self.args.iter().any(|(_, form)| form.starts_with(blank));
        (leads && value.starts_with('-')).then_some("would be an option of the program")
    }
}

impl Values {
    /// What tells these values from all others, so that they need not be kept to be compared.
    pub fn digest(&self) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        for (_, value) in &self.0 {
            context.update(&value.len().to_be_bytes());
            context.update(value.as_bytes());
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        digest
    }

    fn of(&self, blank: &Blank) -> &str {
        self.0.iter().find(|(of, _)| of == blank).map_or("", |(_, value)| value)
    }

    fn fill(&self, form: &Form) -> String {
        form.written(|blank, out| out.push_str(self.of(blank)))
    }

    /// As [`fill`](Self::fill), so that each value stays one piece of a path or of a query.
    fn fill_url(&self, form: &Form) -> String {
        form.written(|blank, out| out.push_str(&encoded(self.of(blank))))
    }
}

/// How many parts of a path are dots alone.
fn steps(path: &[u8]) -> usize {
    let parts = path.split(|byte| matches!(byte, b'/' | b'\\'));
    parts.filter(|part| !part.is_empty() && part.iter().all(|byte| *byte == b'.')).count()
}

/// One piece of a path or of a query.
fn encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

impl Server {
    /// Its settings for a caller with these values: nothing in them is a blank any more. `None` where they make no sense.
    pub fn filled(&self, values: &Values) -> Option<Self> {
        let Some(personal) = &self.personal else { return Some(self.clone()) };
        let mut server = Self { personal: None, ..self.clone() };
        match &mut server.reach {
            Reach::Http(http) => {
                if let Some(form) = &personal.url {
                    http.url = reach::address(&values.fill_url(form)).ok()?.0;
                }
                for (at, form) in &personal.headers {
                    let mut value = HeaderValue::from_bytes(values.fill(form).trim().as_bytes()).ok()?;
                    value.set_sensitive(true);
                    http.headers.get_mut(*at)?.1 = value;
                }
            }
            Reach::Stdio(stdio) => {
                for (at, form) in &personal.args {
                    *stdio.args.get_mut(*at)? = values.fill(form);
                }
                stdio.env.extend(personal.env.iter().map(|(name, form)| (name.clone(), values.fill(form))));
            }
        }
        // Neither as it is nor as a URL has it.
        let all = values.0.iter().flat_map(|(_, value)| [value.clone(), encoded(value)]);
        server.secrets.extend(all);
        Some(server)
    }
}

/// What is inside may be a secret.
macro_rules! opaque {
    ($($name:ident)*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

opaque! { Form Personal Values }
