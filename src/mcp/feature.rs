//! What servers list.

use super::method;

/// The four kinds of things that servers list (specification, `server/tools`, `server/prompts`, `server/resources`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Feature {
    /// Tools, by name.
    Tool,
    /// Prompts, by name.
    Prompt,
    /// Resources, by URI.
    Resource,
    /// Resource templates, by URI template.
    Template,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Resource, Self::Template];

    /// The method that lists them.
    pub fn list(self) -> &'static str {
        match self {
            Self::Tool => method::TOOLS_LIST,
            Self::Prompt => method::PROMPTS_LIST,
            Self::Resource => method::RESOURCES_LIST,
            Self::Template => method::TEMPLATES_LIST,
        }
    }

    /// The kind that a method lists.
    pub fn listed_by(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.list() == name)
    }

    /// The member of a list's result that has them.
    pub fn member(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
            Self::Resource => "resources",
            Self::Template => "resourceTemplates",
        }
    }

    /// The member of each that tells it from the others.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::Template => "uriTemplate",
        }
    }

    /// The notification that there are others now. One serves resources and templates.
    pub fn changed(self) -> &'static str {
        match self {
            Self::Tool => method::TOOLS_CHANGED,
            Self::Prompt => method::PROMPTS_CHANGED,
            Self::Resource | Self::Template => method::RESOURCES_CHANGED,
        }
    }

    /// Its number, for tables.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Some of the four kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Features(u8);

impl Features {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All four.
    pub const ALL: Self = Self(0b1111);

    /// The kinds that the notification `name` says have changed; none where it is no such notification.
    pub fn changed_by(name: &str) -> Self {
        Feature::ALL.into_iter().filter(|feature| feature.changed() == name).collect()
    }

    /// Whether `feature` is one of them.
    pub fn has(self, feature: Feature) -> bool {
        self.0 & (1 << feature.index()) != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// These and those.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// The kinds.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        Feature::ALL.into_iter().filter(move |feature| self.has(*feature))
    }

    /// The notifications that tell of them, each once.
    pub fn notifications(self) -> impl Iterator<Item = &'static str> {
        // One serves resources and templates.
        let kinds = if self.has(Feature::Resource) { Self(self.0 & 0b0111) } else { self };
        kinds.iter().map(Feature::changed)
    }

    /// As a number, for atomics.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// What [`bits`](Self::bits) gave.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        Self(features.into_iter().fold(0, |bits, feature| bits | 1 << feature.index()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_tells_of_its_kinds_and_is_told_once() {
        assert_eq!(Features::changed_by(method::TOOLS_CHANGED), [Feature::Tool].into_iter().collect());
        let resources = Features::changed_by(method::RESOURCES_CHANGED);
        assert!(resources.has(Feature::Resource) && resources.has(Feature::Template));
        assert!(!resources.has(Feature::Prompt));
        assert_eq!(resources.notifications().collect::<Vec<_>>(), [method::RESOURCES_CHANGED]);
        assert_eq!(Features::ALL.notifications().count(), 3);
        assert!(Features::changed_by(method::PROGRESS).is_empty());
        assert_eq!(Features::from_bits(resources.bits()), resources);
    }
}
