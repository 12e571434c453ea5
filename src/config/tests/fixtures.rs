//! Files as people have them, and files as people get them wrong.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::*;
use super::{DIRECTORY, Fake, folder, lines, name};
use crate::names::{Naming, ServerName, Style};

fn valid(file: &str) -> Parsed {
    let path =
        folder("tests/fixtures/config/valid", &["yaml", "json"]).into_iter().find(|path| name(path) == file);
    let text = std::fs::read_to_string(path.unwrap()).unwrap();
    Fake::new().parse(file, &text).unwrap_or_else(|problems| panic!("{}", lines(&problems)))
}

fn http<'p>(parsed: &'p Parsed, server: &str) -> &'p Http {
    match &parsed.config.servers[server].reach {
        Reach::Http(http) => http,
        Reach::Stdio(_) => panic!("{server} is not reached over HTTP"),
    }
}

fn stdio<'p>(parsed: &'p Parsed, server: &str) -> &'p Stdio {
    match &parsed.config.servers[server].reach {
        Reach::Stdio(stdio) => stdio,
        Reach::Http(_) => panic!("{server} is not a child process"),
    }
}

fn header<'h>(http: &'h Http, wanted: &str) -> &'h str {
    let (_, value) = http.headers.iter().find(|(name, _)| name == wanted).unwrap();
    assert!(value.is_sensitive());
    value.to_str().unwrap()
}

fn env<'e>(stdio: &'e Stdio, wanted: &str) -> &'e str {
    &stdio.env.iter().find(|(name, _)| name == wanted).unwrap().1
}

/// `UPDATE_PROBLEMS=1` writes the files anew; read the difference before you keep it.
#[test]
fn every_invalid_file_has_exactly_its_problems() {
    let files = folder("tests/fixtures/config/invalid", &["yaml", "json"]);
    assert!(files.len() >= 22, "only {} files", files.len());
    let mut wrong = vec![];
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let problems = Fake::new().parse(name(&path), &text).expect_err(name(&path));
        assert!(problems.is_sorted_by_key(|problem| (problem.line, problem.column)), "{}", lines(&problems));
        let beside = PathBuf::from(format!("{}.problems", path.display()));
        if std::env::var_os("UPDATE_PROBLEMS").is_some() {
            std::fs::write(&beside, lines(&problems)).unwrap();
        }
        let want = std::fs::read_to_string(&beside).unwrap_or_default();
        if lines(&problems) != want {
            wrong.push(format!("{}\nis\n{}should be\n{want}", name(&path), lines(&problems)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_in_config_can_be_loaded() {
    struct Anything;
    impl World for Anything {
        fn variable(&self, name: &str) -> Option<String> {
            Some(format!("the-{name}"))
        }
        fn read(&self, _: &Path) -> std::io::Result<String> {
            Ok("from-a-file\n".into())
        }
        fn executable(&self) -> std::io::Result<PathBuf> {
            Ok("/usr/bin/trunkline".into())
        }
    }
    let files = folder("config", &["yaml", "json"]);
    let files: Vec<_> = files.iter().filter(|path| name(path) != "schema.json").collect();
    assert_eq!(files.len(), 9);
    for path in files {
        let text = std::fs::read_to_string(path).unwrap();
        let source = Source { name: name(path), directory: path.parent().unwrap(), world: &Anything };
        let parsed = parse(&text, &source).unwrap_or_else(|problems| panic!("{}", lines(&problems)));
        let only_notes = parsed.notes.iter().all(|note| note.severity == Severity::Note);
        assert!(only_notes && !parsed.config.servers.is_empty(), "{}: {}", name(path), lines(&parsed.notes));
    }
}

#[test]
fn the_demo_runs_our_own_binary() {
    let parsed = Fake::new().parse("demo", DEMO).unwrap();
    let demo = stdio(&parsed, "demo");
    assert_eq!(
        (demo.command.to_str(), demo.args.as_slice()),
        (Some("/usr/bin/trunkline"), &["demo-server".into()][..])
    );
    assert_eq!(parsed.config, Config { servers: parsed.config.servers.clone(), ..Config::default() });
    assert_eq!(parsed.notes, []);
}

#[test]
fn claude() {
    let parsed = valid("claude-code.json");
    let remote = http(&parsed, "remote");
    assert_eq!(
        (remote.url.to_string().as_str(), remote.transport),
        ("https://api.example.com/mcp", HttpTransport::Infer)
    );
    assert_eq!(header(remote, "authorization"), "Bearer s3cret-token");
    // a variable of the entry itself; that it can be seen in the list of processes is told
    assert_eq!(stdio(&parsed, "bridge").args[3], "Authorization:Bearer abc");
    assert_eq!(parsed.notes.len(), 1);
    assert_eq!((parsed.notes[0].line, parsed.notes[0].severity), (10, Severity::Warning));
}

#[test]
fn an_editor_on_windows() {
    let parsed = valid("windows-editor.json");
    let files = stdio(&parsed, "files");
    assert_eq!(files.args, ["-y", "x", "3000", "😀"]);
    assert_eq!((env(files, "PORT"), env(files, "DEBUG")), ("3000", "true"));
    assert_eq!(parsed.notes, []);
}

#[test]
fn windsurf() {
    let parsed = valid("windsurf.json");
    let remote = http(&parsed, "remote");
    assert_eq!(remote.url, "https://remote.example.com/mcp");
    assert_eq!(header(remote, "authorization"), "Basic dXNlcjpwQHNz"); // user:p@ss
    assert_eq!(parsed.config.servers["remote"].tools.deny, ["delete_all"]);
    assert_eq!(env(stdio(&parsed, "local"), "KEY"), "s3cret-token");
    assert_eq!(parsed.config.servers.len(), 2); // one is switched off, its missing variable no problem
    assert_eq!(parsed.notes, []);
}

#[test]
fn vs_code_and_cursor() {
    let parsed = valid("vscode.json");
    let fetch = stdio(&parsed, "fetch");
    assert_eq!((env(fetch, "A"), env(fetch, "B")), ("s3cret-a", "mine"));
    assert_eq!(parsed.files, [PathBuf::from(DIRECTORY).join("good.env")]);
    assert_eq!(http(&parsed, "tracker").transport, HttpTransport::Infer);
    let note = "vscode.json:5:75: of no effect here, since they only concern the client: `gallery`, `version` [note]\n";
    assert_eq!(lines(&parsed.notes), note);
    assert_eq!(header(http(&valid("cursor.json"), "docs"), "x-key"), "s3cret-token");
}

#[test]
fn librechat() {
    let parsed = valid("librechat.yaml");
    let servers = &parsed.config.servers;
    assert_eq!(servers.keys().map(ServerName::as_str).collect::<Vec<_>>(), ["alpha", "beta", "gamma"]);
    let alpha = &servers["alpha"];
    assert_eq!(alpha.instructions, Instructions::Text("Use it well.".into()));
    assert_eq!(servers["beta"].instructions, Instructions::Own);
    assert_eq!((alpha.title.as_deref(), alpha.eager), (Some("Alpha"), false));
    assert_eq!(alpha.timeout, Duration::from_secs(3600));
    assert_eq!(alpha.max_total, alpha.timeout); // who waits an hour for an answer means it
    assert_eq!(alpha.connect_timeout, Duration::from_secs(10));
    assert_eq!(http(&parsed, "alpha").transport, HttpTransport::Streamable);
    assert_eq!(http(&parsed, "gamma").transport, HttpTransport::Sse);
    let severities: Vec<_> = parsed.notes.iter().map(|note| (note.line, note.severity)).collect();
    assert_eq!(severities, [(1, Severity::Note), (32, Severity::Note)], "{}", lines(&parsed.notes));
}

#[test]
fn every_setting_arrives() {
    let Parsed { config, notes, files } = valid("everything.yaml");
    assert_eq!(
        (config.listen.to_string(), config.admin.to_string()),
        ("[::1]:0".into(), "127.0.0.1:0".into())
    );
    assert_eq!((config.insecure, config.describe_origin), (true, false));
    assert_eq!(config.allowed_hosts, ["mcp.example.com", "mcp2.example.com", "[2001:db8::1]"]);
    assert_eq!(
        config.allowed_origins,
        ["https://chat.example.com", "http://a.example:8080", "vscode-webview://abc"]
    );
    assert_eq!(config.naming, Naming { style: Style::Prefix, delimiter: "__".into(), max_length: 128 });
    let want = Limits {
        request_body: 1 << 20,
        upstream_message: 2 << 20,
        json_depth: 64,
        sessions: 10,
        session_idle: Duration::from_secs(3600),
        calls_per_session: 2,
        calls: 30,
        streams: 5,
        client_connections: 7,
        buffers: Some(8 << 20),
        header_timeout: Duration::from_secs(3),
        body_timeout: Duration::from_secs(4),
        write_timeout: Duration::from_secs(5),
        calls_per_server: 7,
        connections: Some(3),
        connection_idle: Duration::from_secs(20),
        holds: 20,
        hold_time: Duration::from_secs(60),
        first_list_wait: Duration::ZERO,
        reconnect_interval: Duration::from_millis(250),
        refresh_interval: Duration::from_secs(120),
        list_ttl: Duration::ZERO,
        drain_delay: Duration::from_secs(1),
        drain_timeout: Duration::from_millis(1500),
    };
    assert_eq!(config.limits, want);
    assert_eq!(config.session_keys, [[1; 32], [255; 32]]);
    let pem = PathBuf::from(format!("{DIRECTORY}/good.pem"));
    assert_eq!(config.tls, Some(EdgeTls { cert: pem.clone(), key: pem.clone(), client_ca: Some(pem) }));
    assert_eq!(files.len(), 8, "{files:?}"); // a secret, six certificates and keys, what seals
    let told: Vec<_> = notes.iter().map(|note| (note.line, note.severity)).collect();
    assert_eq!(told, [(54, Severity::Warning), (70, Severity::Warning), (72, Severity::Warning)]);
    let web = config.servers.values().find(|server| server.key == "web").unwrap();
    assert_eq!((config.page_size, config.views.len()), (Some(100), 2));
    assert_eq!(config.views["both"], ViewRules::default());
    let rules = ViewRules {
        servers: Some(vec![web.name.clone(), ServerName::expose("self")]),
        allow: vec!["a_*".into()],
        deny: vec!["a_x".into()],
        style: Some(Style::Plain),
        delimiter: Some("-".into()),
        describe_origin: Some(true),
    };
    assert_eq!(config.views["dev-ops"], rules);
}

#[test]
fn every_setting_of_a_server_arrives() {
    let parsed = valid("everything.yaml");
    let own = &parsed.config.servers["self"];
    assert_eq!((own.timeout, own.max_total), (Duration::from_secs(5), Duration::from_secs(4)));
    assert_eq!(own.naming, Naming { style: Style::Suffix, delimiter: "_at_".into(), max_length: 128 });
    assert_eq!(own.protocol, Protocol::Revision("2025-06-18".into()));
    assert_eq!(own.updated_at, Some(1_796_036_400_500));
    assert_eq!(
        (own.tools.allow.as_slice(), own.tools.deny.as_slice()),
        (&["a_*".into()][..], &["a_b".into()][..])
    );
    assert_eq!((own.tools.rename["a_c"].as_str(), own.tools.describe["a_d"].as_str()), ("see", "A D"));
    let process = stdio(&parsed, "self");
    assert_eq!(process.args, ["demo-server", "s3cret-token", "${TOKEN}"]);
    assert_eq!((env(process, "A"), env(process, "B"), env(process, "C")), ("s3cret-file", "none", ""));
    assert_eq!(env(process, "D"), "${TOKEN} {{header.X}}"); // what came in is not looked at again
    assert_eq!(process.cwd, Some("/tmp".into()));

    let web = parsed.config.servers.values().find(|server| server.key == "web").unwrap();
    assert!(web.name.as_str().starts_with("web_site_"), "{}", web.name);
    assert_eq!((web.timeout, web.connect_timeout), (Duration::from_secs(120), Duration::from_millis(999)));
    assert_eq!((&web.protocol, web.naming.style), (&Protocol::Legacy, Style::Prefix));
    assert_eq!(
        (web.scope, web.interactive, web.replay, web.uri_mode),
        (Scope::Session, true, true, UriMode::Prefixed)
    );
    let breaker = Breaker { failures: 5, window: Duration::from_secs(60), open: Duration::from_secs(2) };
    let care =
        Care { breaker: Some(breaker), retry: Retry::Idempotent, calls: Some(9), message: Some(1 << 20) };
    assert_eq!((web.care, own.care), (care, Care { breaker: None, ..Care::default() }));
    assert_eq!((web.owns.as_slice(), &web.instructions), (&["web://*".into()][..], &Instructions::None));
    let root = |uri: &str, name: Option<&str>| Root { uri: uri.into(), name: name.map(Into::into) };
    let want = [
        root("file:///etc/trunkline/work", None),
        root("file:///a%20b", None),
        root("file:///c", None),
        root("file:///etc/d", Some("D")),
    ];
    assert_eq!(web.roots, want);
    let reach = http(&parsed, web.name.as_str());
    assert_eq!((reach.url.query(), reach.transport), (Some("key=s3cret-token"), HttpTransport::Streamable));
    assert_eq!((header(reach, "x-a"), reach.headers.len()), ("s3cret-token", 1));
    let pem = Some(PathBuf::from(DIRECTORY).join("good.pem"));
    let digest = reach.tls.digest;
    assert_eq!(reach.tls, Tls { ca: pem.clone(), cert: pem.clone(), key: pem, insecure: true, digest });
    assert_eq!(reach.origin(), "http://127.0.0.1:9");
}

#[test]
fn addresses_are_found_in_a_file_that_cannot_be_used() {
    let fake = Fake::new();
    let source = Source { name: "test", directory: Path::new(DIRECTORY), world: &fake };
    let good = "listen: 127.0.0.1:7\nadmin: {listen: '127.0.0.1:8'}\n";
    for rest in
        ["", "mcpServers: {a: {command: x, env: {T: '${MISSING}'}}}\n", "mcpServers:\n  a: [\nx: [", "}\n"]
    {
        let found = addresses(&format!("{good}{rest}"), &source);
        assert_eq!(found, (([127, 0, 0, 1], 7).into(), ([127, 0, 0, 1], 8).into()), "{rest}");
    }
    let default = Config::default();
    assert_eq!(addresses("[[[", &source), (default.listen, default.admin));
}

#[test]
fn an_entry_that_is_ourselves_is_left_out() {
    let text = "listen: 127.0.0.1:7\nmcpServers:\n  \
                us: {url: 'http://localhost:7/mcp'}\n  too: {url: 'http://[::1]:7/mcp/a'}\n  \
                other: {url: 'http://127.0.0.1:8/mcp'}\n  far: {url: 'http://h.example:7/mcp'}\n";
    let parsed = Fake::new().parse("test", text).unwrap();
    let names: Vec<_> = parsed.config.servers.keys().map(ServerName::as_str).collect();
    assert_eq!(names, ["other", "far"]);
    assert_eq!(parsed.notes.len(), 2, "{}", lines(&parsed.notes));
}

#[test]
fn what_placeholders_stood_for_is_known_as_secret() {
    let text = "mcpServers: {a: {command: x, args: ['--token=${TOKEN}'], env: {A: plain}}, b: {command: y}}";
    let parsed = Fake::new().parse("test", text).unwrap();
    let secrets = |name: &str| parsed.config.servers[name].secrets.clone();
    assert_eq!((secrets("a"), secrets("b")), (vec!["s3cret-token".to_owned()], vec![]));
}
