//! What of a list depends on who reads it.

use serde_json::Value;

use super::*;

const LEGACY: Audience = Audience { modern: false, ui: false };
const MODERN: Audience = Audience { modern: true, ui: false };
const PAGES: Audience = Audience { modern: false, ui: true };

/// Server a's tools as `audience` reads them.
fn read(catalog: &Catalog, audience: Audience) -> Bytes {
    catalog.list(&one("a"), Feature::Tool, audience, Start::default()).unwrap()
}

/// As `audience` reads a tool without its brackets.
fn tool(text: &str, audience: Audience) -> String {
    let all = read(&catalog([(server("a"), &format!("[{text}]"))]), audience);
    let all = std::str::from_utf8(&all).unwrap();
    all.strip_prefix(r#"{"tools":["#).unwrap().strip_suffix("]}").unwrap().into()
}

#[test]
fn how_a_tool_runs_is_told_where_there_are_such_tasks() {
    for (text, modern) in [
        (r#"{"name":"t","execution":{"taskSupport":"optional"}}"#, r#"{"name":"t"}"#),
        (r#"{"execution":{},"name":"t","x":1}"#, r#"{"name":"t","x":1}"#),
        ("{ \"name\" : \"t\" , \"execution\" : null }", "{ \"name\" : \"t\" }"),
        (r#"{"name":"t","a\"":1,"\u0065xecution":{},"b":2}"#, r#"{"name":"t","a\"":1,"b":2}"#),
        (r#"{"name":"t","a":{"execution":1}}"#, r#"{"name":"t","a":{"execution":1}}"#),
    ] {
        assert_eq!((&*tool(text, MODERN), &*tool(text, LEGACY)), (modern, text));
    }
}

#[test]
fn schemas_of_anything_are_told_as_objects_where_there_are_only_objects() {
    let text = r#"{"name":"t","outputSchema":{"type":"array"}}"#;
    let wrapped = r#"{"name":"t","outputSchema":{"type":"object","properties":{"result":{"type":"array"}},"required":["result"]}}"#;
    assert_eq!((&*tool(text, MODERN), &*tool(text, LEGACY)), (text, wrapped));
    let object = r#"{"name":"t","outputSchema":{"type":"object","$ref":"\#/x"}}"#.replace('\\', "");
    assert_eq!((tool(&object, MODERN), tool(&object, LEGACY)), (object.clone(), object));
    let tools = r#"[{"name":"t","outputSchema":{"anyOf":[{"type":"object"}]}},{"name":"u","outputSchema":{"type":"object"}}]"#;
    let catalog = catalog([(server("a"), tools)]);
    let wraps = |name| catalog.tool(&one("a"), name).unwrap().wraps;
    assert!(wraps("t") && !wraps("u"));
}

#[test]
fn tools_for_pages_are_shown_to_who_shows_pages() {
    let ui = |name: &str, ui: &str| format!(r#"{{"name":"{name}","_meta":{{"ui":{ui}}}}}"#);
    let tools = [
        ui("model", r#"{"visibility":["model","app"]}"#),
        ui("page", r#"{"resourceUri":"ui://x","visibility":["app"]}"#),
        ui("nobody", r#"{"visibility":[]}"#),
        ui("odd", r#"{"visibility":"app"}"#),
        r#"{"name":"plain"}"#.into(),
    ];
    let catalog = catalog([(server("a"), &format!("[{}]", tools.join(",")))]);
    let names = |audience| -> Vec<String> {
        let all: Value = serde_json::from_slice(&read(&catalog, audience)).unwrap();
        let tools = all["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(LEGACY), ["model", "odd", "plain"]);
    assert_eq!(names(MODERN), ["model", "odd", "plain"]);
    assert_eq!(names(PAGES), ["model", "page", "nobody", "odd", "plain"]);
    let hidden = |name| catalog.tool(&one("a"), name).unwrap().for_pages;
    assert!(hidden("page") && hidden("nobody") && !hidden("model") && !hidden("plain"));
}

#[test]
fn who_reads_the_same_shares_one_text() {
    let text = |tools| {
        let catalog = catalog([(server("a"), tools)]);
        let all = [LEGACY, MODERN, PAGES, Audience { modern: true, ui: true }];
        let texts: Vec<_> = all.map(|audience| read(&catalog, audience).as_ptr().addr()).to_vec();
        assert_eq!(texts, all.map(|audience| read(&catalog, audience).as_ptr().addr()), "twice the same");
        texts.iter().collect::<std::collections::HashSet<_>>().len()
    };
    assert_eq!(text(r#"[{"name":"t","outputSchema":{"type":"object"}}]"#), 1);
    assert_eq!(text(r#"[{"name":"t","execution":{}}]"#), 2);
    assert_eq!(text(r#"[{"name":"t","_meta":{"ui":{"visibility":["app"]}}}]"#), 2);
    assert_eq!(text(r#"[{"name":"t","execution":{},"_meta":{"ui":{"visibility":["app"]}}}]"#), 4);
}

#[test]
fn pages_pass_over_what_is_hidden() {
    let page = r#""_meta":{"ui":{"visibility":["app"]}}"#;
    let tools = format!(
        r#"[{{"name":"a"}},{{"name":"b",{page}}},{{"name":"c",{page}}},{{"name":"d"}},{{"name":"e"}}]"#
    );
    let (config, parts) = world(vec![(server("a"), &[(Feature::Tool, &tools)])]);
    let catalog = Catalog::build(&Config { page_size: Some(1), ..config }, parts, &Catalog::default());
    let all = |audience| {
        let (mut names, mut cursor) = (vec![], None::<String>);
        loop {
            let page = catalog.list(&one("a"), Feature::Tool, audience, start(cursor.as_deref())).unwrap();
            let page: Value = serde_json::from_slice(&page).unwrap();
            let [tool] = &page["tools"].as_array().unwrap()[..] else { panic!("{page}") };
            names.push(tool["name"].as_str().unwrap().to_owned());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = Some(next.into()),
                None => return names,
            }
        }
    };
    assert_eq!(all(MODERN), ["a", "d", "e"]);
    assert_eq!(all(PAGES), ["a", "b", "c", "d", "e"]);
}

#[test]
fn what_was_read_is_made_anew_at_once() {
    let (config, parts) = world(vec![(server("a"), &[(Feature::Tool, r#"[{"name":"a","execution":{}}]"#)])]);
    let first = Catalog::build(&config, parts, &Catalog::default());
    read(&first, MODERN);
    let (config, parts) = world(vec![(server("a"), &[(Feature::Tool, r#"[{"name":"b","execution":{}}]"#)])]);
    let second = Catalog::build(&config, parts, &first);
    let readers = |catalog: &Catalog, view: &View| {
        let menu = catalog.menus.get(view).unwrap();
        menu.list(Feature::Tool).readers().collect::<Vec<_>>()
    };
    assert_eq!(readers(&second, &one("a")), [MODERN]);
    assert!(readers(&second, &View::All).is_empty());
    assert_eq!(read(&second, MODERN), r#"{"tools":[{"name":"b"}]}"#);
}

#[test]
fn a_listing_keeps_what_its_server_says_of_keeping() {
    let page = |more: &str| Bytes::from(format!(r#"{{"tools":[]{more}}}"#));
    let mut pages = Pages::new(Feature::Tool);
    let first = page(r#","nextCursor":"x","ttlMs":5000,"cacheScope":"public""#);
    assert_eq!(pages.add(&first, Budget::default()), Ok(Turn::Next("\"x\"".into())));
    let second = page(r#","ttlMs":3000,"cacheScope":"private""#);
    assert_eq!(pages.add(&second, Budget::default()), Ok(Turn::Done));
    let mut all = Listing::default();
    all.take(Feature::Tool, pages.finish());
    assert_eq!(all.keeping(Feature::Tool), Keeping { ttl_ms: Some(3000), private: true });
    assert_eq!(all.keeping(Feature::Prompt), Keeping::default());
}

#[test]
fn tools_that_ask_for_headers_in_a_wrong_way_are_left_out_where_that_matters() {
    let asks = |name: &str, header: &str| {
        format!(
            r#"{{"name":"{name}","inputSchema":{{"properties":{{"a":{{"type":"string","x-mcp-header":{header}}},"b":{{"type":"string","x-mcp-header":"B"}}}}}}}}"#
        )
    };
    let tools =
        format!("[{},{},{}]", asks("good", r#""A""#), asks("bad", r#""a b""#), asks("twin", r#""b""#));
    let build = |mirrors| {
        let mut listing = listing(&[(Feature::Tool, &tools)]);
        listing.mirrors = mirrors;
        let part = Arc::new(Part::build(Arc::new(server("a")), &listing));
        let (config, _) = world(vec![(server("a"), &[])]);
        let faults: Vec<_> =
            part.faults().iter().map(|fault| (fault.tool.to_string(), fault.dropped)).collect();
        let name = ServerName::expose("a");
        (Catalog::build(&config, IndexMap::from([(name, part)]), &Catalog::default()), faults)
    };
    let (strict, faults) = build(true);
    assert_eq!(faults, [("bad".to_owned(), true), ("twin".to_owned(), true)]);
    assert_eq!(read(&strict, MODERN), format!(r#"{{"tools":[{}]}}"#, asks("good", r#""A""#)));
    let headers = |catalog: &Catalog, tool| -> Vec<String> {
        let route = catalog.tool(&one("a"), tool).unwrap();
        route.headers.iter().map(|header| header.name().to_string()).collect()
    };
    assert_eq!(headers(&strict, "good"), ["mcp-param-a", "mcp-param-b"]);
    let (lenient, faults) = build(false);
    assert_eq!(faults, [("bad".to_owned(), false), ("twin".to_owned(), false)]);
    assert_eq!(headers(&lenient, "bad"), ["mcp-param-b"]);
    assert_eq!(headers(&lenient, "twin"), ["mcp-param-b"], "the first keeps the name");
    let all = read(&lenient, LEGACY);
    let bad = asks("bad", "1").replace(r#","x-mcp-header":1"#, "");
    assert!(std::str::from_utf8(&all).unwrap().contains(&bad), "{all:?}");
}
