use proptest::prelude::*;

use super::Template;

/// What a variable stands for.
#[derive(Debug, Clone)]
enum Value {
    Undefined,
    Text(String),
    List(Vec<String>),
    Pairs(Vec<(String, String)>),
}

/// One variable in braces.
#[derive(Debug, Clone)]
struct Variable {
    name: String,
    explodes: bool,
    most: Option<usize>,
    value: Value,
}

#[derive(Debug, Clone)]
enum Piece {
    Literal(String),
    /// An operator, or none, and variables.
    Expression(Option<char>, Vec<Variable>),
}

/// The RFC's table in its appendix A: what begins, what separates, whether names stand there, what follows an empty
/// value's name, whether reserved characters stay.
fn row(operator: Option<char>) -> (&'static str, &'static str, bool, &'static str, bool) {
    match operator {
        None => ("", ",", false, "", false),
        Some('+') => ("", ",", false, "", true),
        Some('#') => ("#", ",", false, "", true),
        Some('.') => (".", ".", false, "", false),
        Some('/') => ("/", "/", false, "", false),
        Some(';') => (";", ";", true, "", false),
        Some('?') => ("?", "&", true, "=", false),
        Some('&') => ("&", "&", true, "=", false),
        Some(other) => panic!("{other}"),
    }
}

fn escaped(text: &str, reserved: bool) -> String {
    let stays = |c: char| {
        c.is_ascii_alphanumeric() || "-._~".contains(c) || (reserved && ":/?#[]@!$&'()*+,;=".contains(c))
    };
    let mut buffer = [0; 4];
    let mut out = String::new();
    for c in text.chars() {
        if stays(c) {
            out.push(c);
        } else {
            out.extend(c.encode_utf8(&mut buffer).bytes().map(|byte| format!("%{byte:02X}")));
        }
    }
    out
}

fn named(name: &str, value: &str, empty: &str) -> String {
    if value.is_empty() { format!("{name}{empty}") } else { format!("{name}={value}") }
}

/// Section 3.2.1 and what follows it, in the RFC's own order.
fn expanded(operator: Option<char>, variables: &[Variable]) -> String {
    let (first, between, has_names, empty, reserved) = row(operator);
    let escaped = |text: &str| escaped(text, reserved);
    let parts = variables.iter().filter_map(|Variable { name, explodes, most, value }| {
        let named = |value: String| if has_names { named(name, &value, empty) } else { value };
        match value {
            Value::Undefined => None,
            Value::List(items) if items.is_empty() => None,
            Value::Pairs(pairs) if pairs.is_empty() => None,
            Value::Text(text) => {
                let text: String = text.chars().take(most.unwrap_or(usize::MAX)).collect();
                Some(named(escaped(&text)))
            }
            Value::List(items) if *explodes => {
                Some(items.iter().map(|item| named(escaped(item))).collect::<Vec<_>>().join(between))
            }
            Value::List(items) => {
                Some(named(items.iter().map(|item| escaped(item)).collect::<Vec<_>>().join(",")))
            }
            Value::Pairs(pairs) if *explodes => {
                let pair = |(key, value): &(String, String)| {
                    let value = escaped(value);
                    if has_names {
                        self::named(&escaped(key), &value, empty)
                    } else {
                        format!("{}={value}", escaped(key))
                    }
                };
                Some(pairs.iter().map(pair).collect::<Vec<_>>().join(between))
            }
            Value::Pairs(pairs) => {
                let pair = |(key, value): &(String, String)| format!("{},{}", escaped(key), escaped(value));
                Some(named(pairs.iter().map(pair).collect::<Vec<_>>().join(",")))
            }
        }
    });
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { String::new() } else { format!("{first}{}", parts.join(between)) }
}

/// The template that the pieces make, and what it expands to.
fn both(pieces: &[Piece]) -> (String, String) {
    let (mut template, mut uri) = (String::new(), String::new());
    for piece in pieces {
        match piece {
            Piece::Literal(text) => {
                template.push_str(text);
                uri.push_str(&escaped(text, true));
            }
            Piece::Expression(operator, variables) => {
                let variable = |Variable { name, explodes, most, .. }: &Variable| {
                    let most = most.map(|most| format!(":{most}")).unwrap_or_default();
                    format!("{name}{}{most}", if *explodes { "*" } else { "" })
                };
                let names = variables.iter().map(variable).collect::<Vec<_>>().join(",");
                let operator_text = operator.map(String::from).unwrap_or_default();
                template.extend(["{", &operator_text, &names, "}"]);
                uri.push_str(&expanded(*operator, variables));
            }
        }
    }
    (template, uri)
}

/// The expansion above is the RFC's: its own examples.
#[test]
fn the_tests_expand_as_the_rfc_does() {
    let text = |name: &str, text: &str| Variable {
        name: name.into(),
        explodes: false,
        most: None,
        value: Value::Text(text.into()),
    };
    let list = |explodes| {
        let value = Value::List(["red", "green", "blue"].map(String::from).into());
        Variable { name: "list".into(), explodes, most: None, value }
    };
    let keys = |explodes| {
        let value = Value::Pairs(
            [("semi", ";"), ("dot", "."), ("comma", ",")].map(|(k, v)| (k.into(), v.into())).into(),
        );
        Variable { name: "keys".into(), explodes, most: None, value }
    };
    let (x, y, empty) = (text("x", "1024"), text("y", "768"), text("empty", ""));
    let hello = text("hello", "Hello World!");
    let path = text("path", "/foo/bar");
    let short = Variable { most: Some(3), ..text("var", "value") };
    for (operator, variables, want) in [
        (None, vec![hello.clone()], "Hello%20World%21"),
        (Some('+'), vec![hello], "Hello%20World!"),
        (Some('#'), vec![x.clone(), y.clone()], "#1024,768"),
        (Some('+'), vec![path, x.clone()], "/foo/bar,1024"),
        (Some('.'), vec![x.clone(), y.clone()], ".1024.768"),
        (Some('/'), vec![empty.clone()], "/"),
        (Some(';'), vec![x.clone(), y.clone(), empty.clone()], ";x=1024;y=768;empty"),
        (Some('?'), vec![x, y, empty], "?x=1024&y=768&empty="),
        (None, vec![short], "val"),
        (None, vec![keys(false)], "semi,%3B,dot,.,comma,%2C"),
        (None, vec![keys(true)], "semi=%3B,dot=.,comma=%2C"),
        (Some('.'), vec![list(true)], ".red.green.blue"),
        (Some('/'), vec![keys(true)], "/semi=%3B/dot=./comma=%2C"),
        (Some(';'), vec![list(false)], ";list=red,green,blue"),
        (Some(';'), vec![keys(true)], ";semi=%3B;dot=.;comma=%2C"),
        (Some('&'), vec![list(true)], "&list=red&list=green&list=blue"),
    ] {
        assert_eq!(expanded(operator, &variables), want);
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c/%.,=;&?#é€😀 :]{0,6}", any::<String>()]
}

fn any_variable() -> impl Strategy<Value = Variable> {
    let value = prop_oneof![
        1 => Just(Value::Undefined),
        4 => any_text().prop_map(Value::Text),
        1 => prop::collection::vec(any_text(), 0..4).prop_map(Value::List),
        1 => prop::collection::vec((any_text(), any_text()), 0..4).prop_map(Value::Pairs),
    ];
    ("[a-z][a-z0-9_.]{0,4}", any::<bool>(), prop::option::of(1..6_usize), value).prop_map(
        |(name, explodes, most, value)| {
            // A prefix is of a text, and excludes the other modifier (section 2.4).
            let most = most.filter(|_| !explodes && matches!(value, Value::Text(_) | Value::Undefined));
            Variable { name, explodes, most, value }
        },
    )
}

fn any_piece() -> impl Strategy<Value = Piece> {
    let operator = prop::option::of(prop::sample::select(vec!['+', '#', '.', '/', ';', '?', '&']));
    prop_oneof![
        "[a-c:/?#é ]{1,5}".prop_map(Piece::Literal),
        (operator, prop::collection::vec(any_variable(), 1..4))
            .prop_map(|(operator, variables)| Piece::Expression(operator, variables)),
    ]
}

/// All URIs that a tiny template can expand to are found by trying; what `Template` says must be the same.
fn tried(template: &[&str], uri: &str) -> bool {
    let Some((step, rest)) = template.split_first() else { return uri.is_empty() };
    let (first, class): (&str, &str) = match *step {
        "{x}" => ("", "ab.,"),
        "{x*}" => ("", "ab.,="),
        "{+x}" => ("", "ab.,=/;"),
        "{.x}" => (".", "ab.,"),
        "{/x}" => ("/", "ab.,/"),
        "{;x}" => (";", "ab.,;="),
        literal => return uri.strip_prefix(literal).is_some_and(|uri| tried(rest, uri)),
    };
    let nothing = tried(rest, uri);
    let Some(run) = uri.strip_prefix(first) else { return nothing };
    let ends = run.char_indices().map(|(at, c)| (at + c.len_utf8(), c));
    let mut ends: Vec<_> = ends.take_while(|(_, c)| class.contains(*c)).map(|(at, _)| at).collect();
    ends.push(0);
    nothing || ends.iter().any(|at| tried(rest, run.get(*at..).unwrap()))
}

proptest! {
    #[test]
    fn what_a_template_expands_to_it_matches(pieces in prop::collection::vec(any_piece(), 0..8)) {
        let (template, uri) = both(&pieces);
        prop_assume!(template.len() <= 4096 && uri.len() <= 4096);
        let parsed = Template::parse(&template);
        prop_assert!(parsed.is_some(), "{template}");
        prop_assert!(parsed.unwrap().expands_to(&uri), "{template} → {uri}");
    }

    #[test]
    fn nothing_else_matches(
        steps in prop::collection::vec(
            prop::sample::select(vec!["{x}", "{x*}", "{+x}", "{.x}", "{/x}", "{;x}", "a", "b/", "ab", "."]), 0..7),
        uri in "[ab.,=/;]{0,9}",
    ) {
        let template = Template::parse(&steps.concat()).unwrap();
        prop_assert_eq!(template.expands_to(&uri), tried(&steps, &uri), "{} {}", steps.concat(), uri);
    }

    #[test]
    fn no_text_is_too_odd(template in any::<String>(), uri in any::<String>()) {
        if let Some(template) = Template::parse(&template) {
            template.expands_to(&uri);
            template.resembles(&uri);
        }
    }
}

#[test]
fn strictly_or_as_servers_read_it() {
    for (template, uri, strict, loose) in [
        ("note://{id}", "note://1", true, true),
        ("note://{id}", "note://", true, true),
        ("note://{id}", "note://a b", false, true),
        ("note://{id}", "note://a:b", false, true),
        ("note://{id}", "note://é", false, true),
        ("note://{id}", "note://a/b", false, false),
        ("note://{id}", "Note://a", false, false),
        ("file:///{+path}", "file:///a/b.txt?c#d", true, true),
        ("file:///{path*}", "file:///a/b", false, true),
        ("gh://{owner}/{repo}/{+path}", "gh://a/b/c/d", true, true),
        ("gh://{owner}/{repo}", "gh://a/b/c", false, false),
        ("{+a}-{b}", "x-y/z-w", true, true),
        ("db://{table}{?limit}", "db://t?limit=5", true, true),
        ("db://{table}{?limit}", "db://t", true, true),
        ("db://{table}", "db://t?limit=5", false, true),
        ("a{.format}", "a.json", true, true),
        ("a{.format}", "ajson", false, false),
        ("a{/path*}", "a/b/c", true, true),
        ("a{var:3}", "a%C3%A9bc", true, true),
        ("a{var:3}", "a%C3%A9bcd", false, false),
        ("a{var:3}c", "abcdec", false, false),
        ("a{var:3}c", "abcdc", true, true),
        ("é{x}", "%C3%A91", true, false),
        ("é{x}", "é1", false, true),
        ("plain", "plain", true, true),
        ("", "", true, true),
        ("", "a", false, false),
    ] {
        let parsed = Template::parse(template).unwrap();
        assert_eq!((parsed.expands_to(uri), parsed.resembles(uri)), (strict, loose), "{template} {uri}");
    }
    assert!(
        Template::parse("gh://{owner}/x").unwrap().literals()
            > Template::parse("gh://{+all}").unwrap().literals()
    );
}

#[test]
fn what_is_no_template() {
    for text in [
        "{",
        "}",
        "a{b",
        "a}b",
        "{}",
        "{a{b}}",
        "{=a}",
        "{|a}",
        "{a:}",
        "{a:0}",
        "{a:10000}",
        "{a,}",
        "{+}",
        "{a**}",
    ] {
        assert_eq!(Template::parse(text), None, "{text}");
    }
    assert_eq!(Template::parse(&"a".repeat(5000)), None);
    assert_eq!(Template::parse(&"{a}".repeat(33)), None);
}

/// As many choices as there can be: a matcher that tried them in turn would not come back in our lifetime.
#[test]
fn the_worst_templates_end_soon() {
    let uri = "a".repeat(4095) + "!";
    for template in [
        "{+x}a".repeat(31),
        "{x}{y}".repeat(15),
        "{x:9999}a{+y}".repeat(16),
        "{x}".to_owned() + &"a".repeat(2000),
    ] {
        let template = Template::parse(&(template + "b")).unwrap();
        assert!(!template.expands_to(&uri) && !template.resembles(&uri));
    }
    let long = Template::parse("{+x}").unwrap();
    assert!(long.expands_to(&"a".repeat(4096)) && !long.expands_to(&"a".repeat(4097)));
}
