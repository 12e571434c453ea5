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
