//! URIs of resources: with a server's name in them where the operator wants that, and RFC 6570 templates.
//!
//! | the server's own | in views of several servers, `uriMode: prefixed` |
//! |---|---|
//! | `file:///a` | `mcp+github:file:///a` |
//! | `ui://page/1`, which must stay a `ui:` URI | `ui://github.mcp/page/1` |
//! | `https://a.example/1`, which clients may fetch themselves | as it is |

mod template;
#[cfg(test)]
mod template_tests;

use std::borrow::Cow;

pub use template::Template;

use super::ServerName;

/// A server's name as it stands in URIs: schemes and hosts have no case and a scheme no `_`, and there are no two servers
/// whose names differ in that only.
pub fn label(server: &ServerName) -> String {
    server.as_str().to_ascii_lowercase().replace('_', ".")
}

/// A URI of `server`, or a template of one, with the server's name in it.
pub fn prefixed<'u>(server: &ServerName, uri: &'u str) -> Cow<'u, str> {
    if rest(uri, "https://").or_else(|| rest(uri, "http://")).is_some() {
        return Cow::Borrowed(uri);
    }
    let label = label(server);
    Cow::Owned(match rest(uri, UI) {
        Some(rest) => format!("{UI}{label}{HOST}/{rest}"),
        None => format!("{SCHEME}{label}:{uri}"),
    })
}

/// The [`label`] in a URI made by [`prefixed`], and the server's own URI. Whether there is such a server is for the caller
/// to look up.
pub fn split(uri: &str) -> Option<(String, Cow<'_, str>)> {
    let (label, own) = if let Some(rest) = rest(uri, SCHEME) {
        let (label, own) = rest.split_once(':')?;
        (label, Cow::Borrowed(own))
    } else {
        let (host, rest) = rest(uri, UI)?.split_once('/')?;
        let at = host.len().checked_sub(HOST.len())?;
        let (label, end) = host.split_at_checked(at)?;
        (end.eq_ignore_ascii_case(HOST).then_some(label)?, Cow::Owned(format!("{UI}{rest}")))
    };
    Some((label.to_ascii_lowercase(), own))
}

const SCHEME: &str = "mcp+";
const UI: &str = "ui://";
const HOST: &str = ".mcp";

/// What follows `start`, be it upper or lower case.
fn rest<'u>(uri: &'u str, start: &str) -> Option<&'u str> {
    let (begin, rest) = uri.split_at_checked(start.len())?;
    begin.eq_ignore_ascii_case(start).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_comes_off_again() {
        let server = ServerName::expose("Git_hub-2");
        for (own, with) in [
            ("file:///a%20b", "mcp+git.hub-2:file:///a%20b"),
            ("file:///{path}", "mcp+git.hub-2:file:///{path}"),
            ("ui://page/1?a=b", "ui://git.hub-2.mcp/page/1?a=b"),
            ("ui://", "ui://git.hub-2.mcp/"),
            ("urn:a:b", "mcp+git.hub-2:urn:a:b"),
            ("mcp+x:y:z", "mcp+git.hub-2:mcp+x:y:z"),
            ("", "mcp+git.hub-2:"),
        ] {
            assert_eq!(prefixed(&server, own), with);
            assert_eq!(split(with), Some((label(&server), own.into())), "{with}");
        }
        assert_eq!(prefixed(&server, "https://h/a"), "https://h/a");
        assert_eq!(prefixed(&server, "HTTP://h/a"), "HTTP://h/a");
        assert_eq!(split("MCP+GIT.hub-2:a").unwrap().0, label(&server));
        for none in ["", "file:///a", "mcp+a", "ui://a.mcp", "ui://mcp/a", "ui:///a", "ui://ä/a"] {
            assert_eq!(split(none), None, "{none}");
        }
    }
}
