//! `${VAR}`, `${VAR:-default}`, `${file:/path}`: replaced once, at load; what comes in is never looked at again. And
//! `{{…}}`, which is filled in [for each caller](super::personal).

use std::collections::HashSet;
use std::path::PathBuf;

use indexmap::IndexMap;

use super::near::nearest;
use super::personal::{Blank, Form};
use super::problem::shown;
use super::source::Source;

/// A value with its placeholders replaced. It has no `Debug`: it may be a secret.
pub(super) struct Filled {
    pub(super) value: String,
    /// Whether a part of it came by a placeholder: then no message may quote it.
    pub(super) secret: bool,
    /// What the placeholders stood for.
    pub(super) pieces: Vec<String>,
    /// Where callers' own values go, if any do; then `value` has something in their places.
    pub(super) form: Option<Form>,
}

/// What ours look like, for messages.
const OURS: &str = "`${VAR}`, `${VAR:-default}` or `${file:/path}`; a plain `${` is written `$${`";

/// What the placeholders of one place may refer to.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) source: &'a Source<'a>,
    /// Variables of the entry itself, for its arguments: the environment wins over them.
    pub(super) own: &'a IndexMap<String, String>,
    /// What `LibreChat` asks its users for.
    pub(super) custom: &'a HashSet<String>,
}

/// Replaces every placeholder of `raw`. Every fault is told; the files read are added to `files`.
pub(super) fn fill(raw: &str, scope: Scope<'_>, files: &mut Vec<PathBuf>) -> Result<Filled, Vec<String>> {
    let (mut faults, mut form) = (vec![], Form::default());
    let (mut secret, mut pieces) = (false, vec![]);
    let mut rest = raw;
    while let Some(at) = [rest.find("${"), rest.find("{{")].into_iter().flatten().min() {
        let (before, after) = rest.split_at(at);
        if let Some(inside) = after.strip_prefix("{{") {
            form.text(before);
            let name = inside.split_once("}}").map(|(name, after)| (name.trim(), after));
            match name.and_then(|(name, after)| Some((blank(name, scope.custom)?, after))) {
                Some((Ok(blank), after)) => {
                    form.blank(blank);
                    rest = after;
                }
                Some((Err(fault), after)) => {
                    faults.push(fault);
                    rest = after;
                }
                None => {
                    form.text("{{"); // arguments may hold templates
                    rest = inside;
                }
            }
            continue;
        }
        let after = after.get(2..).unwrap_or_default();
        if let Some(before) = before.strip_suffix('$') {
            form.text(before);
            form.text("${");
            rest = after;
            continue;
        }
        form.text(before);
        let Some((inside, after)) = after.split_once('}') else {
            faults.push(format!("a `${{` is not closed; write {OURS}"));
            return Err(faults);
        };
        match look_up(inside, scope, files) {
            Ok(value) => {
                form.text(&value);
                pieces.push(value);
            }
            Err(fault) => faults.push(fault),
        }
        secret = true;
        rest = after;
    }
    form.text(rest);
    if !faults.is_empty() {
        return Err(faults);
    }
    let value = form.sample();
    let is_personal = form.blanks().next().is_some();
    let form = is_personal.then_some(form);
    Ok(Filled { value, secret, pieces, form })
}

fn look_up(inside: &str, scope: Scope<'_>, files: &mut Vec<PathBuf>) -> Result<String, String> {
    if let Some(path) = inside.strip_prefix("file:") {
        return read(path, scope.source, files);
    }
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let name = name.strip_prefix("env:").unwrap_or(name);
    if !is_variable(name) {
        return Err(
            foreign(name).unwrap_or_else(|| format!("this is not a placeholder of ours; write {OURS}"))
        );
    }
    if default.is_some_and(|default| ["${", "{{header.", "{{principal."].iter().any(|p| default.contains(p)))
    {
        return Err(format!("the default of {} cannot hold a placeholder", shown(name)));
    }
    match (scope.variable(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value), // as a shell's `:-`
        (_, Some(default)) => Ok(default.into()),
        (None, None) => Err(foreign(name).unwrap_or_else(|| {
            format!("the variable {} is not set; set it, or give a default: `${{{name}:-…}}`", shown(name))
        })),
    }
}

impl Scope<'_> {
    fn variable(self, name: &str) -> Option<String> {
        self.source.world.variable(name).or_else(|| self.own.get(name).cloned())
    }
}

/// A mounted secret: its text without the newlines at its end.
fn read(path: &str, source: &Source<'_>, files: &mut Vec<PathBuf>) -> Result<String, String> {
    let whole = source.directory.join(path);
    let text = source.world.read(&whole).map_err(|error| format!("cannot read {}: {error}", shown(path)))?;
    files.push(whole);
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What editors replace and we cannot.
fn foreign(name: &str) -> Option<String> {
    let (kind, _) = name.split_once(':').unwrap_or((name, ""));
    match kind {
        "input" => Some(format!("`${{input:…}}` asks an editor's user; write {OURS}")),
        "command" | "config" if name != kind => {
            Some(format!("`${{{kind}:…}}` is an editor's placeholder; write {OURS}"))
        }
        "workspaceFolder" | "workspaceFolderBasename" | "userHome" | "pathSeparator" | "/" => {
            Some(format!("`${{{kind}}}` is an editor's placeholder; write the path itself, or {OURS}"))
        }
        _ => None,
    }
}

/// What a `{{…}}` of that name is: ours, or `LibreChat`'s, which is never filled in. Any other is plain text.
fn blank(name: &str, custom: &HashSet<String>) -> Option<Result<Blank, String>> {
    if name.starts_with("LIBRECHAT_") || custom.contains(name) {
        let ours = instead_of(name);
        return Some(Err(format!("`{{{{{name}}}}}` is LibreChat's; ours is `{{{{{ours}}}}}`")));
    }
    Blank::parse(name).or_else(|| {
        let (kind, rest) = name.split_once('.')?;
        let meant = nearest(kind, ["header", "principal"].into_iter())?;
        Some(Err(format!("`{{{{{name}}}}}` is no placeholder; did you mean `{{{{{meant}.{rest}}}}}`?")))
    })
}

/// Our placeholder for one of `LibreChat`'s.
fn instead_of(name: &str) -> &'static str {
    match name {
        "LIBRECHAT_USER_ID" => "principal.sub",
        "LIBRECHAT_USER_EMAIL" => "principal.email",
        "LIBRECHAT_USER_NAME" | "LIBRECHAT_USER_USERNAME" => "principal.name",
        _ if name.starts_with("LIBRECHAT_USER_") || name.starts_with("LIBRECHAT_OPENID_") => {
            "principal.claims.NAME"
        }
        _ => "header.NAME",
    }
}
