//! Who somebody is.

use std::sync::Arc;

/// Who calls, by what he proved. Cheap to clone; nobody in particular where callers need prove nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Principal(Option<Arc<str>>);

impl Principal {
    /// Nobody in particular: all callers are this one where there is no `auth`.
    pub const ANONYMOUS: Self = Self(None);

    /// Whom `issuer` calls `subject`. An issuer has no spaces in it, so no two principals have one text.
    pub fn new(issuer: &str, subject: &str) -> Self {
        Self(Some(format!("{issuer} {subject}").into()))
    }

    /// The one that others know by this [text](Self::text).
    pub fn of(text: Option<&Arc<str>>) -> Self {
        Self(text.cloned())
    }

    /// What tells this principal from all others, for those who need not know more of it.
    pub fn text(&self) -> Option<&Arc<str>> {
        self.0.as_ref()
    }

    /// What its issuer calls it; `None` for nobody in particular.
    pub fn subject(&self) -> Option<&str> {
        Some(self.0.as_deref()?.split_once(' ')?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_one_text() {
        let all = [("keys", "a"), ("keys", "a b"), ("keys a", "b"), ("https://i", "a")];
        for (issuer, subject) in all.into_iter().filter(|(issuer, _)| !issuer.contains(' ')) {
            let one = Principal::new(issuer, subject);
            assert_eq!((one.subject(), Principal::of(one.text())), (Some(subject), one.clone()));
            assert_ne!(one, Principal::ANONYMOUS);
        }
        assert_eq!(Principal::ANONYMOUS.subject(), None);
    }
}
