//! What a server has, and what several have together.

use serde::Deserialize;
use serde_json::value::RawValue;

/// What a server declared in its answer to `initialize` (specification, `basic/lifecycle`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the protocol")]
pub struct Offers {
    /// Tools.
    pub tools: bool,
    /// It tells when its tools change.
    pub tools_changed: bool,
    /// Prompts.
    pub prompts: bool,
    /// It tells when its prompts change.
    pub prompts_changed: bool,
    /// Resources.
    pub resources: bool,
    /// It tells when its resources change.
    pub resources_changed: bool,
    /// It tells when a resource changes that was subscribed to.
    pub subscribe: bool,
    /// It completes arguments (declared from 2025-03-26 on).
    pub completions: bool,
    /// It logs to its clients.
    pub logging: bool,
    /// Tools run as tasks (2025-11-25).
    pub tasks: bool,
    /// It lists tasks.
    pub tasks_list: bool,
    /// It ends tasks.
    pub tasks_cancel: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Declared<'a> {
    tools: Option<Changing>,
    prompts: Option<Changing>,
    resources: Option<Changing>,
    #[serde(borrow)]
    completions: Option<&'a RawValue>,
    #[serde(borrow)]
    logging: Option<&'a RawValue>,
    #[serde(borrow)]
    tasks: Option<Tasks<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Changing {
    list_changed: bool,
    subscribe: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tasks<'a> {
    #[serde(borrow)]
    list: Option<&'a RawValue>,
    #[serde(borrow)]
    cancel: Option<&'a RawValue>,
    #[serde(borrow)]
    requests: Option<TaskRequests<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TaskRequests<'a> {
    #[serde(borrow)]
    tools: Option<ToolTasks<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolTasks<'a> {
    #[serde(borrow)]
    call: Option<&'a RawValue>,
}

impl Offers {
    /// Reads a raw capabilities object of a server.
    ///
    /// # Errors
    /// Where it is none.
    pub fn parse(capabilities: &str) -> Result<Self, serde_json::Error> {
        let declared: Declared<'_> = serde_json::from_str(capabilities)?;
        let changes = |part: &Option<Changing>| part.as_ref().is_some_and(|part| part.list_changed);
        let tasks = declared.tasks.unwrap_or_default();
        let calls = tasks.requests.and_then(|requests| requests.tools).and_then(|tools| tools.call).is_some();
        Ok(Self {
            tools_changed: changes(&declared.tools),
            tools: declared.tools.is_some(),
            prompts_changed: changes(&declared.prompts),
            prompts: declared.prompts.is_some(),
            resources_changed: changes(&declared.resources),
            subscribe: declared.resources.as_ref().is_some_and(|resources| resources.subscribe),
            resources: declared.resources.is_some(),
            completions: declared.completions.is_some(),
            logging: declared.logging.is_some(),
            tasks: calls,
            tasks_list: tasks.list.is_some(),
            tasks_cancel: tasks.cancel.is_some(),
        })
    }

    /// The superset that we declare while nobody knows yet: what is declared cannot be taken back, and an empty list is
    /// legal, while what was not declared cannot be added later.
    pub fn unknown() -> Self {
        Self {
            tools: true,
            prompts: true,
            resources: true,
            subscribe: true,
            completions: true,
            logging: true,
            ..Self::default()
        }
    }

    /// What two servers have together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            tools: self.tools | other.tools,
            tools_changed: self.tools_changed | other.tools_changed,
            prompts: self.prompts | other.prompts,
            prompts_changed: self.prompts_changed | other.prompts_changed,
            resources: self.resources | other.resources,
            resources_changed: self.resources_changed | other.resources_changed,
            subscribe: self.subscribe | other.subscribe,
            completions: self.completions | other.completions,
            logging: self.logging | other.logging,
            tasks: self.tasks | other.tasks,
            // Only what all of those with tasks can do.
            tasks_list: every(self, other, self.tasks_list, other.tasks_list),
            tasks_cancel: every(self, other, self.tasks_cancel, other.tasks_cancel),
        }
    }

    /// As a raw capabilities object for a client of 2025-11-25 (`with_tasks`) or an older one. Lists always say that they
    /// change: we see to it.
    pub fn write(&self, with_tasks: bool) -> String {
        let mut parts = Vec::new();
        let mut put = |when: bool, text: &str| {
            if when {
                parts.push(text.to_owned());
            }
        };
        put(self.tools, r#""tools":{"listChanged":true}"#);
        put(self.prompts, r#""prompts":{"listChanged":true}"#);
        put(self.resources && self.subscribe, r#""resources":{"subscribe":true,"listChanged":true}"#);
        put(self.resources && !self.subscribe, r#""resources":{"listChanged":true}"#);
        put(self.completions, r#""completions":{}"#);
        put(self.logging, r#""logging":{}"#);
        if with_tasks && self.tasks {
            let list = if self.tasks_list { r#""list":{},"# } else { "" };
            let cancel = if self.tasks_cancel { r#""cancel":{},"# } else { "" };
            put(true, &format!(r#""tasks":{{{list}{cancel}"requests":{{"tools":{{"call":{{}}}}}}}}"#));
        }
        format!("{{{}}}", parts.join(","))
    }
}

fn every(one: &Offers, other: &Offers, first: bool, second: bool) -> bool {
    match (one.tasks, other.tasks) {
        (true, true) => first & second,
        (true, false) => first,
        (false, true) => second,
        (false, false) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let text = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"completions":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}},"x":1}"#;
        let offers = Offers::parse(text).unwrap();
        assert!(
            offers.tools && offers.subscribe && offers.tasks_list && !offers.tasks_cancel && !offers.prompts
        );
        assert_eq!(Offers::parse(&offers.write(true)).unwrap(), offers);
        assert!(!Offers::parse(&offers.write(false)).unwrap().tasks);
    }

    #[test]
    fn together_they_list_tasks_only_if_all_do() {
        let with = |list| Offers { tasks: true, tasks_list: list, ..Offers::default() };
        assert!(!with(true).and(&with(false)).tasks_list);
        assert!(with(true).and(&Offers::default()).tasks_list);
        assert!(Offers::default().and(&with(true)).tasks_list);
    }
}
