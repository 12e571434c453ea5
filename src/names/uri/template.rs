//! RFC 6570 templates, backwards: whether a URI may come of one.
//!
//! The RFC defines expansion only, and says that not every template can be turned around (section 1.4). What is asked
//! here is less: not which values a URI was made of, only whether there are any.

/// A template that can be matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Literal {
        /// As written.
        text: Box<str>,
        /// As it stands in expansions: what may not stand in a URI is percent-encoded (section 3.1).
        encoded: Box<str>,
    },
    Expression(Expression),
}

/// What stands in braces. It expands to nothing, or to `first` and any run of the characters that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Expression {
    first: Option<u8>,
    /// Characters that separate values, or names from values; beside those of the values themselves.
    between: &'static [u8],
    /// Names stand before values whatever the operator.
    explodes: bool,
    /// Values may hold reserved characters.
    reserved: bool,
    /// The one value has as many characters at most.
    most: Option<usize>,
    /// As servers read it, it may reach over `/`.
    far: bool,
}

/// Longest template, in bytes, that is matched, and longest URI.
const LONGEST: usize = 4096;
/// Most expressions of a template that is matched. Matching takes at most this times the length of the URI.
const MOST: usize = 32;

impl Template {
    /// Reads a template; `None` where it is none, or larger than any that is meant.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let mut steps = vec![];
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('{') {
                let (inner, after) = inner.split_once('}')?;
                steps.push(Step::Expression(Expression::parse(inner)?));
                rest = after;
            } else {
                let (literal, after) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
                if literal.contains('}') {
                    return None;
                }
                steps.push(Step::Literal { text: literal.into(), encoded: encoded(literal).into() });
                rest = after;
            }
        }
        let expressions = steps.iter().filter(|step| matches!(step, Step::Expression(_))).count();
        (expressions <= MOST).then_some(Self { steps })
    }

    /// How many bytes of it stand for themselves: the more, the closer a match.
    pub fn literals(&self) -> usize {
        let length = |step: &Step| if let Step::Literal { text, .. } = step { text.len() } else { 0 };
        self.steps.iter().map(length).sum()
    }

    /// Whether the RFC's expansion gives `uri` for some values.
    pub fn expands_to(&self, uri: &str) -> bool {
        self.matches(uri, Reading::Strict)
    }

    /// Whether `uri` looks like it to servers, which mostly take any characters but `/` for a value.
    pub fn resembles(&self, uri: &str) -> bool {
        self.matches(uri, Reading::Loose)
    }

    fn matches(&self, uri: &str, reading: Reading) -> bool {
        let uri = uri.as_bytes();
        // Nearly every template that does not fit fails at its beginning.
        let begins = self.steps.first().is_none_or(|step| match step {
            Step::Literal { .. } => uri.starts_with(step.literal(reading)),
            Step::Expression(_) => true,
        });
        if !begins || uri.len() > LONGEST {
            return false;
        }
        // The places up to which the steps so far can have come, all at once: so no choice is ever taken back.
        let mut here = vec![false; uri.len() + 1];
        if let Some(start) = here.first_mut() {
            *start = true;
        }
        for step in &self.steps {
            here = match step {
                Step::Literal { .. } => after_literal(uri, &here, step.literal(reading)),
                Step::Expression(expression) => expression.after(uri, &here, reading),
            };
        }
        here.last() == Some(&true)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Strict,
    Loose,
}

impl Step {
    fn literal(&self, reading: Reading) -> &[u8] {
        match self {
            Self::Literal { encoded, .. } if reading == Reading::Strict => encoded.as_bytes(),
            Self::Literal { text, .. } => text.as_bytes(),
            Self::Expression(_) => &[],
        }
    }
}

impl Expression {
    fn parse(inner: &str) -> Option<Self> {
        let operator = inner.bytes().next()?;
        // Section 2.2: `=`, `,`, `!`, `@` and `|` are kept for later, and anything else is a variable's name.
        let (first, between, reserved): (_, &[u8], _) = match operator {
            b'+' => (None, b"", true),
            b'#' => (Some(b'#'), b"", true),
            b'.' => (Some(b'.'), b".,", false),
            b'/' => (Some(b'/'), b"/,", false),
            b';' => (Some(b';'), b";=,", false),
            b'?' => (Some(b'?'), b"&=,", false),
            b'&' => (Some(b'&'), b"&=,", false),
            b'=' | b',' | b'!' | b'@' | b'|' => return None,
            _ => (None, b",", false),
        };
        let has_operator = reserved || first.is_some();
        let variables = if has_operator { inner.get(1..)? } else { inner };
        let explodes = variables.contains('*');
        let mut most = None;
        for variable in variables.split(',') {
            let (name, length) = match variable.split_once(':') {
                Some((name, length)) => {
                    (name, Some(length.parse::<usize>().ok().filter(|n| (1..10_000).contains(n))?))
                }
                None => (variable.strip_suffix('*').unwrap_or(variable), None),
            };
            if name.is_empty() || name.contains(['{', '*']) {
                return None;
            }
            // With several values, or with names, the whole is longer than the one.
            most = length
                .filter(|_| variables.len() == variable.len() && !matches!(first, Some(b';' | b'?' | b'&')));
        }
        let far = reserved || explodes || !matches!(first, None | Some(b'.'));
        Some(Self { first, between, explodes, reserved, most, far })
    }

    /// Where it can end, if it can begin `here`.
    fn after(&self, uri: &[u8], here: &[bool], reading: Reading) -> Vec<bool> {
        // It may be nothing at all: none of its variables is defined, or all are empty.
        let mut there = here.to_vec();
        // How many characters of a value stand between the last place where it may have begun and here; none in between
        // matters, since an earlier beginning only makes it longer.
        let mut length: Option<usize> = None;
        for (at, byte) in uri.iter().enumerate() {
            let begins = here.get(at) == Some(&true);
            if begins && self.first.is_none() {
                length = Some(0);
            }
            length = match (length, self.first) {
                (_, Some(first)) if begins && *byte == first => Some(0),
                (Some(length), _) if self.may_have(*byte, reading) => {
                    Some(length + usize::from(starts_character(uri, at)))
                }
                _ => None,
            };
            let fits = length.is_some_and(|length| self.most.is_none_or(|most| length <= most));
            if let Some(place) = there.get_mut(at + 1) {
                *place |= fits;
            }
        }
        there
    }

    fn may_have(&self, byte: u8, reading: Reading) -> bool {
        match reading {
            Reading::Strict => {
                is_unreserved(byte)
                    || byte == b'%'
                    || self.between.contains(&byte)
                    || (self.explodes && byte == b'=')
                    || (self.reserved && is_reserved(byte))
            }
            Reading::Loose => self.far || byte != b'/',
        }
    }
}

/// Where a literal can end, if it can begin `here`.
fn after_literal(uri: &[u8], here: &[bool], literal: &[u8]) -> Vec<bool> {
    let mut there = vec![false; here.len()];
    for (at, _) in here.iter().enumerate().filter(|(_, begins)| **begins) {
        if uri.get(at..).is_some_and(|rest| rest.starts_with(literal))
            && let Some(place) = there.get_mut(at + literal.len())
        {
            *place = true;
        }
    }
    there
}

/// Whether a character begins at `at`: not inside a triplet, nor at one that continues a character of several bytes.
fn starts_character(uri: &[u8], at: usize) -> bool {
    let byte = |back: usize| at.checked_sub(back).and_then(|at| uri.get(at)).copied();
    if byte(1) == Some(b'%') || byte(2) == Some(b'%') {
        return false;
    }
    let continues = |byte: &u8| matches!(byte, b'8' | b'9' | b'A' | b'B' | b'a' | b'b');
    match byte(0) {
        Some(b'%') => !uri.get(at + 1).is_some_and(continues),
        Some(byte) => byte & 0xc0 != 0x80,
        None => false,
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn is_reserved(byte: u8) -> bool {
    b":/?#[]@!$&'()*+,;=".contains(&byte)
}

/// A literal as it stands in expansions.
fn encoded(literal: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(literal.len());
    for byte in literal.bytes() {
        if is_unreserved(byte) || is_reserved(byte) || byte == b'%' {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            write!(out, "%{byte:02X}").unwrap_or_default();
        }
    }
    out
}
