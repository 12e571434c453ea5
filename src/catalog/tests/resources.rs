//! Whose a URI is.

use super::*;
use crate::config::UriMode;

const fn resources(list: &str) -> (Feature, &str) {
    (Feature::Resource, list)
}

const fn templates(list: &str) -> (Feature, &str) {
    (Feature::Template, list)
}

#[test]
fn a_uri_goes_to_whom_lists_it_or_a_template_of_it_or_owns_it() {
    let owner = Server { owns: vec!["own://*".into(), "note://*".into()], ..server("c") };
    let (config, parts) = world(vec![
        (
            server("a"),
            &[
                resources(
                    r#"[{"name":"x","uri":"note:\/\/same","z":1e400},{"uri":"note://a"},{"name":"no uri"}]"#,
                ),
                templates(r#"[{"uriTemplate":"note://{id}"},{"uriTemplate":"{broken"}]"#),
            ],
        ),
        (
            server("b"),
            &[
                resources(r#"[{"uri":"note://same"},{"uri":"note://b"}]"#),
                templates(r#"[{"uriTemplate":"note://b-{id}"},{"uriTemplate":"file:///{+path}"}]"#),
            ],
        ),
        (owner, &[]),
    ]);
    let catalog = Catalog::build(&config, parts, &Catalog::default());
    let want = r#"{"resources":[{"name":"x","uri":"note:\/\/same","z":1e400},{"uri":"note://a"},{"uri":"note://b"}]}"#;
    assert_eq!(list(&catalog, &View::All, Feature::Resource), want);
    assert_eq!(
        list(&catalog, &one("b"), Feature::Resource),
        r#"{"resources":[{"uri":"note://same"},{"uri":"note://b"}]}"#
    );
    let route = |uri| to(catalog.resource(&View::All, uri));
    for (uri, owner) in [
        ("note://same", "a"),
        ("note://b", "b"),
        ("note://b-1", "b"), // the template with more literal characters
        ("note://1", "a"),
        ("note://1 2", "a"), // no expansion, but servers take it
        ("file:///a/b", "b"),
        ("own://x", "c"),
        ("note://x/y", "c"),
    ] {
        assert_eq!(route(uri), at(owner, uri), "{uri}");
    }
    for unknown in ["", "{broken", "other://x", "mcp+a:note://a", "own:/x"] {
        assert_eq!(route(unknown), "nowhere", "{unknown}");
    }
    assert_eq!(to(catalog.template(&View::All, "file:///{+path}")), at("b", "file:///{+path}"));
    assert_eq!(to(catalog.template(&View::All, "{broken")), at("a", "{broken"));
    assert_eq!(to(catalog.template(&View::All, "file:///a")), at("b", "file:///a"));
    assert_eq!(
        catalog.resource(&View::All, "note://same").unwrap().name,
        r#""note:\/\/same""#,
        "as the server wrote it"
    );
    // In a server's own view every URI is its own affair.
    assert_eq!(to(catalog.resource(&one("b"), "else \"where\"")), at("b", "else \"where\""));
    assert_eq!(to(catalog.template(&one("c"), "note://a")), at("c", "note://a"));
    assert_eq!(to(catalog.resource(&one("nobody"), "note://a")), "nowhere");
}

#[test]
fn prefixes_keep_twins_apart_in_every_place() {
    let prefixed = |key: &str| Server { uri_mode: UriMode::Prefixed, ..server(key) };
    let kinds: Kinds<'_> = &[
        resources(r#"[{"uri":"file:///a","name":"A"},{"uri":"ui://page/1"},{"uri":"https://h/a"}]"#),
        templates(r#"[{"uriTemplate":"file:///{path}"},{"uriTemplate":"https://h/{x}"}]"#),
        (
            Feature::Tool,
            r#"[{"_meta":{"ui":{"resourceUri":"ui:\/\/page/1","x":1},"ui/resourceUri":"ui://page/2"},"name":"t","description":"d"}]"#,
        ),
    ];
    let (config, parts) = world(vec![(server("plain"), kinds), (prefixed("Pre_fixed"), kinds)]);
    let catalog = Catalog::build(&config, parts, &Catalog::default());
    let want = concat!(
        r#"{"resources":[{"uri":"file:///a","name":"A"},{"uri":"ui://page/1"},{"uri":"https://h/a"},"#,
        r#"{"uri":"mcp+pre.fixed:file:///a","name":"A"},{"uri":"ui://pre.fixed.mcp/page/1"}]}"#
    );
    assert_eq!(list(&catalog, &View::All, Feature::Resource), want);
    let want = concat!(
        r#"{"resourceTemplates":[{"uriTemplate":"file:///{path}"},{"uriTemplate":"https://h/{x}"},"#,
        r#"{"uriTemplate":"mcp+pre.fixed:file:///{path}"}]}"#
    );
    assert_eq!(list(&catalog, &View::All, Feature::Template), want);
    let want = concat!(
        r#"{"tools":[{"_meta":{"ui":{"resourceUri":"ui:\/\/page/1","x":1},"ui/resourceUri":"ui://page/2"},"name":"t_mcp_plain","description":"d"},"#,
        r#"{"_meta":{"ui":{"resourceUri":"ui://pre.fixed.mcp/page/1","x":1},"ui/resourceUri":"ui://pre.fixed.mcp/page/2"},"name":"t_mcp_Pre_fixed","description":"d"}]}"#
    );
    assert_eq!(tools(&catalog, &View::All), want);
    let route = |uri| to(catalog.resource(&View::All, uri));
    assert_eq!(route("mcp+pre.fixed:file:///a"), at("Pre_fixed", "file:///a"));
    assert_eq!(
        route("MCP+PRE.fixed:file:///else"),
        at("Pre_fixed", "file:///else"),
        "though it is not listed"
    );
    assert_eq!(route("ui://pre.fixed.mcp/page/1"), at("Pre_fixed", "ui://page/1"));
    assert_eq!(route("file:///b"), at("plain", "file:///b"));
    assert_eq!(route("https://h/a"), at("plain", "https://h/a"));
    assert_eq!(route("mcp+plain:file:///a"), "nowhere", "plain has no prefix");
    assert_eq!(
        to(catalog.template(&View::All, "mcp+pre.fixed:file:///{path}")),
        at("Pre_fixed", "file:///{path}")
    );
    let (pre, own) = (ServerName::expose("Pre_fixed"), one("Pre_fixed"));
    assert_eq!(catalog.uri(&View::All, &pre, "file:///a"), "mcp+pre.fixed:file:///a");
    assert_eq!(catalog.uri(&View::All, &ServerName::expose("plain"), "file:///a"), "file:///a");
    assert_eq!(catalog.uri(&own, &pre, "file:///a"), "file:///a");
    assert!(
        String::from_utf8_lossy(&list(&catalog, &own, Feature::Resource)).contains(r#"{"uri":"file:///a""#)
    );
}

#[test]
fn more_templates_than_are_matched_are_still_listed() {
    let all: Vec<_> = (0..1500).map(|n| format!(r#"{{"uriTemplate":"n{n}://{{x}}"}}"#)).collect();
    let all = format!("[{}]", all.join(","));
    let (config, parts) = world(vec![(server("a"), &[templates(&all)])]);
    let catalog = Catalog::build(&config, parts, &Catalog::default());
    assert_eq!(to(catalog.resource(&View::All, "n999://1")), at("a", "n999://1"));
    assert_eq!(to(catalog.resource(&View::All, "n1000://1")), "nowhere");
    assert_eq!(to(catalog.template(&View::All, "n1400://{x}")), at("a", "n1400://{x}"));
}
