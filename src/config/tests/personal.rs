//! What each caller fills in.

use super::super::*;
use super::{Fake, lines};

fn server(entry: &str) -> Server {
    let parsed = Fake::new().parse("f", &format!("mcpServers: {{a: {entry}}}"));
    let parsed = parsed.unwrap_or_else(|problems| panic!("{}", lines(&problems)));
    Server::clone(parsed.config.servers.values().next().unwrap())
}

/// With `value` in every blank.
fn values(server: &Server, value: &str) -> Result<Values, Lacking> {
    server.personal.as_ref().expect("a blank").values(|_| Some(value.into()))
}

#[test]
fn every_place_is_filled_in_and_nothing_else() {
    let http = server(
        r#"{url: "http://h/{{header.x-a}}?q={{principal.sub}}", headers: {a: "Bearer {{ header.X-A }}", b: plain}}"#,
    );
    let headers: Vec<_> =
        http.personal.as_ref().unwrap().headers().map(|name| name.as_str().to_owned()).collect();
    assert_eq!((headers, http.personal.as_ref().unwrap().asks_who()), (vec!["x-a".to_owned()], true));
    let filled = http.filled(&values(&http, "é ${HOME} {{header.b}}").unwrap()).unwrap();
    let Reach::Http(reach) = &filled.reach else { panic!() };
    let encoded = "%C3%A9%20%24%7BHOME%7D%20%7B%7Bheader.b%7D%7D";
    assert_eq!(reach.url.to_string(), format!("http://h/{encoded}?q={encoded}"));
    assert_eq!(reach.headers[0].1.as_bytes(), "Bearer é ${HOME} {{header.b}}".as_bytes());
    assert!(reach.headers[0].1.is_sensitive() && reach.headers[1].1 == "plain");
    assert!(filled.personal.is_none() && filled.secrets.contains(&"é ${HOME} {{header.b}}".into()));

    let child = server(
        r#"{command: x, args: [a, "--user={{principal.sub}}", "{{nothing.of.ours}}"], env: {A: "{{header.a}}", B: b}}"#,
    );
    let filled = child.filled(&values(&child, "me").unwrap()).unwrap();
    let Reach::Stdio(reach) = &filled.reach else { panic!() };
    assert_eq!(reach.args, ["a", "--user=me", "{{nothing.of.ours}}"]);
    assert_eq!(reach.env, [("B".into(), "b".into()), ("A".into(), "me".into())]);
    assert!(server("{command: x, args: ['{{plain}}']}").personal.is_none());
}

#[test]
fn what_could_change_the_rest_is_refused() {
    let http = server(r#"{url: "http://h/{{header.a}}"}"#);
    let child = server(r#"{command: x, args: ["{{header.a}}"]}"#);
    for bad in ["", "a\r\nb: c", "a\nb", "\0", "\u{7f}", ".", "..", "..."] {
        assert!(values(&http, bad).is_err(), "{bad:?}");
    }
    for bad in ["", "-x", "--config=/etc", "a\0"] {
        assert!(values(&child, bad).is_err(), "{bad:?}");
    }
    assert!(values(&child, "..").is_ok() && values(&http, "-x").is_ok());
    assert!(values(&http, &"x".repeat(100_000)).is_err());
    let personal = http.personal.as_ref().unwrap();
    assert!(personal.values(|_| None).unwrap_err().to_string().contains("header `a`"));
}

#[test]
fn no_value_leads_to_another_path() {
    let bad = [
        ".",
        "..",
        "...",
        "../x",
        "x/..",
        "a/../../b",
        "a/./b",
        "/..",
        r"..\x",
        "%2e%2E",
        "a%2f..%5Cb",
        "%2e/x",
    ];
    let good = ["a", "a.b", "..a", "a..", ".a/b.", "%252e", "%2", "a/b", "%zz..", "é/ö"];
    for url in [
        "http://h/t/{{header.a}}/mcp",
        "http://h/../t/{{header.a}}?q={{header.a}}",
        "http://h/{{header.b}}{{header.a}}#x",
    ] {
        let http = server(&format!(r#"{{url: "{url}"}}"#));
        let personal = http.personal.as_ref().unwrap();
        let with = |value: &str| {
            personal
                .values(|blank| Some(if blank.to_string() == "header.a" { value } else { "b" }.to_owned()))
        };
        for value in bad {
            let told = with(value).unwrap_err().to_string();
            assert!(told.contains("`{{header.a}}`") && told.contains("another path"), "{told}");
            assert!(value == "." || !told.contains(value), "{url} {value}: {told}");
        }
        for value in good {
            assert!(with(value).is_ok(), "{url} {value}");
        }
    }
    // What stands beside it in the file counts.
    for (url, value) in [
        ("http://h/.{{header.a}}", "/x"),
        ("http://h/{{header.a}}.", r"x\"),
        ("http://h/.{{header.a}}/", "%2Fx"),
    ] {
        assert!(values(&server(&format!(r#"{{url: "{url}"}}"#)), value).is_err(), "{url} {value}");
    }
    let elsewhere = server(r#"{url: "http://h/?q={{header.a}}", headers: {x: "{{header.a}}"}}"#);
    assert!(bad.iter().all(|value| values(&elsewhere, value).is_ok()), "a query leads nowhere");
}

#[test]
fn values_are_told_apart_by_their_digest() {
    let two = server(r#"{url: "http://h/", headers: {a: "{{header.a}}{{header.b}}"}}"#);
    let digest = |a: &str, b: &str| {
        let look = |blank: &Blank| Some(if blank.to_string() == "header.a" { a } else { b }.to_owned());
        two.personal.as_ref().unwrap().values(look).unwrap().digest()
    };
    assert_eq!(digest("x", "y"), digest("x", "y"));
    for other in [("y", "x"), ("xy", "y"), ("x", "yy")] {
        assert_ne!(digest("x", "y"), digest(other.0, other.1));
    }
    assert_ne!(digest("ab", "c"), digest("a", "bc"));
}

#[test]
fn callers_choose_no_host_and_nothing_that_is_read_at_load() {
    for bad in [
        r#"{url: "http://{{header.a}}/"}"#,
        r#"{url: "http://{{header.a}}.example.com/mcp"}"#,
        r#"{url: "http://h:{{header.a}}/mcp"}"#,
        r#"{url: "http://h{{header.a}}/mcp"}"#,
        r#"{url: "{{header.a}}"}"#,
        r#"{url: "http://h/{{header.a b}}"}"#,
        r#"{url: "http://h/{{principal.password}}"}"#,
        r#"{url: "http://h/{{LIBRECHAT_USER_ID}}"}"#,
        r#"{url: "http://h/${X:-{{header.a}}}"}"#,
        r#"{url: "http://h/", title: "{{header.a}}"}"#,
        r#"{command: "{{header.a}}"}"#,
        r#"{command: x, cwd: "/{{header.a}}"}"#,
        r#"{command: x, env: {A: "{{header.a}}"}, args: ["${A}"]}"#,
    ] {
        let parsed = Fake::new().parse("f", &format!("mcpServers: {{a: {bad}}}"));
        assert!(parsed.is_err(), "{bad}");
    }
}

#[test]
fn the_file_says_which_headers_it_takes() {
    let text = r#"mcpServers: {a: {url: "http://h/", headers: {x: "{{header.a}} {{header.b}}"}}, b: {url: "http://i/{{header.A}}"}}"#;
    let parsed = Fake::new().parse("f", text).unwrap();
    assert_eq!(parsed.config.handed, ["a", "b"]);
    let own = "auth: {keys: {x: 0123456789abcdef}}\nmcpServers: {a: {url: \"http://h/\", headers: {x: \"{{header.authorization}}\"}}}";
    let told = lines(&Fake::new().parse("f", own).unwrap().notes);
    assert!(told.contains("may be their key"), "{told}");
    let nobody = r#"mcpServers: {a: {url: "http://h/{{principal.sub}}"}}"#;
    let told = lines(&Fake::new().parse("f", nobody).unwrap().notes);
    assert!(told.contains("there is no `auth`"), "{told}");
}
