//! Views of the operator's making, and what is made anew when.

use super::*;
use crate::config::ViewRules;
use crate::mcp::TaskSupport::{Forbidden, Optional, Required};

const TOOLS: Kinds<'static> = &[
    (Feature::Tool, r#"[{"name":"read"},{"name":"write"}]"#),
    (Feature::Prompt, r#"[{"name":"ask","description":"d"}]"#),
];

fn names(list: &Bytes) -> Vec<String> {
    let list: serde_json::Value = serde_json::from_slice(list).unwrap();
    let items = list.as_object().unwrap().values().next().unwrap().as_array().unwrap();
    let name = |item: &serde_json::Value| item["name"].as_str().unwrap().to_owned();
    items.iter().map(name).collect()
}

#[test]
fn a_view_has_its_own_servers_names_and_tools() {
    let titled = Server { title: Some("The \"B\"".into()), ..server("b") };
    let (mut config, parts) = world(vec![(server("a"), TOOLS), (titled, TOOLS), (server("c"), TOOLS)]);
    let rules = ViewRules {
        servers: Some(vec![ServerName::expose("b"), ServerName::expose("gone"), ServerName::expose("a")]),
        allow: vec!["r*".into(), "write".into()],
        deny: vec!["w*".into()],
        style: Some(Style::Prefix),
        delimiter: Some("__".into()),
        ..ViewRules::default()
    };
    config.views.insert("some".into(), rules);
    config.views.insert(
        "plain".into(),
        ViewRules { style: Some(Style::Plain), describe_origin: Some(false), ..ViewRules::default() },
    );
    let catalog = Catalog::build(&config, parts, &Catalog::default());
    let some = named("some");
    assert_eq!(names(&tools(&catalog, &some)), ["b__read", "a__read"]);
    let prompts = list(&catalog, &some, Feature::Prompt);
    let want = r#"{"prompts":[{"name":"b__ask","description":"[The \"B\"] d"},{"name":"a__ask","description":"d"}]}"#;
    assert_eq!(prompts, want);
    assert_eq!(to(catalog.tool(&some, "a__read")), at("a", "read"));
    assert_eq!(to(catalog.prompt(&some, "b__ask")), at("b", "ask"));
    for hidden in ["a__write", "c__read", "read", "read_mcp_a"] {
        assert_eq!(to(catalog.tool(&some, hidden)), "nowhere", "{hidden}");
    }
    assert_eq!(to(catalog.prompt(&View::All, "ask_mcp_c")), at("c", "ask"));
    assert_eq!(catalog.servers(&some).map(ServerName::as_str).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(catalog.server_of_unknown(&some, "x_mcp_a"), None);
    let plain = named("plain");
    let plain_names = ["read", "write", "read_mcp_b", "write_mcp_b", "read_mcp_c", "write_mcp_c"];
    assert_eq!(names(&tools(&catalog, &plain)), plain_names);
    assert_eq!(names(&list(&catalog, &plain, Feature::Prompt)), ["ask", "ask_mcp_b", "ask_mcp_c"]);
    assert!(!String::from_utf8_lossy(&list(&catalog, &plain, Feature::Prompt)).contains("The"));
    assert_eq!(tools(&catalog, &named("nothing")), r#"{"tools":[]}"#);
    assert_eq!(catalog.servers(&named("nothing")).count(), 0);
}

#[test]
fn a_title_goes_before_any_kind_of_description() {
    let titled = Server { title: Some("T".into()), ..server("a") };
    let listed = r#"[{"description":"\u0064 \/","name":"a"},{"name":"b"},{"name":"c","description":null}]"#;
    let catalog = catalog([(titled, listed)]);
    let want = r#"{"tools":[{"description":"[T] \u0064 \/","name":"a_mcp_a"},{"name":"b_mcp_a","description":"[T]"},{"name":"c_mcp_a","description":"[T]"}]}"#;
    assert_eq!(tools(&catalog, &View::All), want);
}

#[test]
fn whether_a_tool_runs_as_a_task() {
    let listed = r#"[{"name":"a","execution":{"taskSupport":"required"}},{"execution":{"taskSupport":"optional"},"name":"b"},
        {"name":"c","execution":{"taskSupport":3}},{"name":"d","execution":[]},{"name":"e","execution":{},"execution":{}}]"#;
    let catalog = catalog([(server("s"), listed)]);
    for (name, want) in [
        ("a", Required),
        ("b", Optional),
        ("c", Forbidden),
        ("d", Forbidden),
        ("e", Forbidden),
        ("f", Forbidden),
    ] {
        assert_eq!(catalog.task_support(&View::All, &format!("{name}_mcp_s")), want, "{name}");
        assert_eq!(catalog.task_support(&one("s"), name), want, "{name}");
    }
}

#[test]
fn only_what_differs_is_made_anew() {
    let (mut config, mut parts) = world(vec![(server("a"), TOOLS), (server("b"), TOOLS)]);
    let only_a = ViewRules { servers: Some(vec![ServerName::expose("a")]), ..ViewRules::default() };
    config.views.insert("only-a".into(), only_a);
    let first = Catalog::build(&config, parts.clone(), &Catalog::default());
    let same = |catalog: &Catalog, view: &View| Arc::ptr_eq(&first.menus[view], &catalog.menus[view]);
    let views = [View::All, named("only-a"), one("a"), one("b")];
    let again = Catalog::build(&config.clone(), parts.clone(), &first);
    assert!(views.iter().all(|view| same(&again, view)));
    parts.insert(ServerName::expose("b"), Arc::new(Part::build(config.servers["b"].clone(), &listing(&[]))));
    let changed = Catalog::build(&config, parts.clone(), &first);
    assert_eq!(views.each_ref().map(|view| same(&changed, view)), [false, true, true, false]);
    assert_eq!(changed.rearranged(&first), []);
    config.describe_origin = false;
    let ruled = Catalog::build(&config, parts, &changed);
    assert_eq!(views.each_ref().map(|view| same(&ruled, view)), [false, false, true, false]);
}

#[test]
fn another_order_or_other_rules_are_a_change_for_clients() {
    let before =
        |config: &Config, parts: &IndexMap<_, _>| Catalog::build(config, parts.clone(), &Catalog::default());
    let (mut config, parts) = world(vec![(server("a"), TOOLS), (server("b"), TOOLS), (server("c"), TOOLS)]);
    config.views.insert(
        "b".into(),
        ViewRules { servers: Some(vec![ServerName::expose("b")]), ..ViewRules::default() },
    );
    let first = before(&config, &parts);
    let rearranged = |config: &Config| {
        let mut names = Catalog::build(config, parts.clone(), &first).rearranged(&first);
        names.sort();
        names.iter().map(|name| name.as_str().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let mut fewer = config.clone();
    fewer.servers.shift_remove("a");
    assert_eq!(rearranged(&fewer), "", "nothing moved");
    let mut moved = config.clone();
    moved.servers.move_index(0, 2);
    assert_eq!(rearranged(&moved), "a b c");
    let mut filtered = config.clone();
    filtered.views.insert("b".into(), ViewRules { deny: vec!["read".into()], ..config.views["b"].clone() });
    assert_eq!(rearranged(&filtered), "b");
    let mut untitled = config.clone();
    untitled.describe_origin = false;
    assert_eq!(rearranged(&untitled), "", "it reads the same");
}
