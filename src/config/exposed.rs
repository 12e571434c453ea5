//! What of a child's command line looks like a mistake: everyone on the machine can see it.

/// Why an argument should not be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exposed {
    /// A placeholder in it is called like a secret.
    ByName,
    /// It is written as secrets are.
    Written,
}

/// What speaks against `argument`, which comes after `before`.
pub(super) fn look(before: Option<&String>, argument: &str) -> Option<Exposed> {
    if brings_secret(argument) {
        return Some(Exposed::ByName);
    }
    let (option, value) = match argument.split_once('=') {
        Some((option, value)) if is_option(option) => (Some(option), value),
        _ => (before.map(String::as_str).filter(|before| is_option(before)), argument),
    };
    let named = option.is_some_and(asks_for_secret) && is_value(value);
    (named || is_secret(value)).then_some(Exposed::Written)
}

/// Whether it is a program with its arguments rather than a program.
pub(super) fn is_command_line(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let first = words.next().unwrap_or_default();
    // A folder may have a blank in its name.
    first.len() < command.len() && (!first.contains(['/', '\\']) || words.any(is_option))
}

fn is_option(argument: &str) -> bool {
    argument.starts_with('-')
}

/// Whether the last word of an option's name is one for secrets: `--api-key`, and not `--key-file`.
fn asks_for_secret(option: &str) -> bool {
    const NAMES: &[&str] = &[
        "token",
        "key",
        "apikey",
        "secret",
        "password",
        "passwd",
        "passphrase",
        "credential",
        "credentials",
        "pat",
    ];
    let name = option.trim_start_matches('-').to_ascii_lowercase();
    option.starts_with("--") && name.rsplit(['-', '_', '.']).next().is_some_and(|last| NAMES.contains(&last))
}

/// Whether there is something that is neither an option, nor a file, nor still to be filled in.
fn is_value(value: &str) -> bool {
    !value.is_empty()
        && !value.starts_with(['-', '/', '.', '~'])
        && !value.contains("${")
        && !value.contains("{{")
}

/// Whether it is written as secrets are, whatever it is for.
fn is_secret(value: &str) -> bool {
    const STARTS: &[&str] =
        &["sk-", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "hf_", "AKIA"];
    let filled = value.contains("${") || value.contains("{{");
    let token = STARTS.iter().any(|start| value.starts_with(start)) && value.len() >= 16;
    let bearer =
        value.to_ascii_lowercase().split_once("bearer ").is_some_and(|(_, rest)| !rest.trim().is_empty());
    !filled && (token || bearer || has_password(value))
}

/// Whether it is an address with a password in it.
fn has_password(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let password = host.rsplit_once('@').and_then(|(user, _)| user.split_once(':'));
    password.is_some_and(|(_, password)| !password.is_empty())
}

/// Whether a placeholder in it is called like a secret.
fn brings_secret(text: &str) -> bool {
    if text.contains("{{header.") {
        return true;
    }
    text.replace("$${", "").split("${").skip(1).any(|part| {
        let name = part.split(['}', ':']).next().unwrap_or_default().to_ascii_uppercase();
        let secrets = ["TOKEN", "KEY", "SECRET", "PASSW", "CREDENTIAL", "AUTH"];
        name == "FILE" || secrets.iter().any(|secret| name.contains(secret))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_found_and_nothing_else() {
        let look = |before: &str, argument: &str| look(Some(&before.to_owned()), argument);
        for (before, argument) in [
            ("", "--api-key=abc"),
            ("", "--API_KEY=abc"),
            ("--token", "abc"),
            ("--db.password", "hunter2"),
            ("-y", "ghp_0123456789abcdef"),
            ("--header", "Authorization: Bearer abc"),
            ("", "--header=Authorization: bearer abc"),
            ("", "postgresql://me:secret@h.example/db"),
            ("", "--url=redis://:secret@h.example"),
        ] {
            assert_eq!(look(before, argument), Some(Exposed::Written), "{before} {argument}");
        }
        for (before, argument) in [
            ("-y", "@modelcontextprotocol/server-filesystem"),
            ("", "--key-file=/etc/key.pem"),
            ("--key", "/etc/key.pem"),
            ("--key", "~/key.pem"),
            ("--token", "--verbose"),
            ("--token", "${X}"),
            ("--token", "{{nothing.of.ours}}"),
            ("", "--token="),
            ("", "--author=me"),
            ("", "token=abc"),
            ("--tokens", "4096"),
            ("-k", "x"),
            ("", "sk-short"),
            ("--header", "Authorization: Bearer ${X}"),
            ("", "https://h.example/a:b@c"),
            ("", "ssh://git@h.example:22/x"),
            ("", "postgresql://me:${X}@h.example/db"),
            ("", "/data"),
        ] {
            assert_eq!(look(before, argument), None, "{before} {argument}");
        }
        assert_eq!(look("", "${MY_TOKEN}"), Some(Exposed::ByName));
        assert_eq!(super::look(None, "abc"), None);
    }

    #[test]
    fn a_command_with_its_arguments_is_told_from_a_path_with_a_blank() {
        for line in ["npx -y foo", "npx foo", "/usr/bin/npx -y foo", " npx", "npx "] {
            assert!(is_command_line(line), "{line:?}");
        }
        for command in ["npx", "/opt/my app/run", "./run", r"C:\Program Files\x.exe", ""] {
            assert!(!is_command_line(command), "{command:?}");
        }
    }
}
