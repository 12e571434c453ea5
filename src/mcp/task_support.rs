//! Whether a tool runs as a task.

/// What a tool declares as `execution.taskSupport` (specification of 2025-11-25, `basic/utilities/tasks`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// It does not run as a task.
    #[default]
    Forbidden,
    /// It may be run as one.
    Optional,
    /// It can only be run as one.
    Required,
}

impl TaskSupport {
    /// What the word says; one that nobody knows says nothing.
    pub fn of(word: &str) -> Self {
        match word {
            "optional" => Self::Optional,
            "required" => Self::Required,
            _ => Self::Forbidden,
        }
    }
}
