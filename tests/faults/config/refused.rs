//! Rows 93 and 101: what is wrong with a file, told at the start, at a reload and by `check`.

use std::process::Output;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use tokio::time::{Instant, timeout};

use super::{LAST, REFUSED, said};
use crate::support::{Client, Fake, Mount, SOON, Script, World, entries, file, program, until};

/// A fault, in a file that has a good server `up` on its line 5, and where it is told.
const FAULTS: [(&str, &str, &str); 8] = [
    ("syntax", "  b: {url: [}\n", ":6:"),
    ("a type", "  b: {url: 'http://h', timeout: [1]}\n", ":6:"),
    ("an unknown key", "limitz: {}\n", ":6:1:"),
    ("a key twice", "  up: {url: 'http://h'}\n", ":6:3:"),
    ("the same but for its case", "  UP: {url: 'http://h'}\n", ":6:3:"),
    ("a missing variable", "  b: {url: 'http://h', headers: {A: '${TRUNKLINE_NOT_SET}'}}\n", ":6:"),
    ("a missing file", "  b: {url: 'http://h', headers: {A: '${file:/no/such}'}}\n", ":6:"),
    ("nothing to reach", "  b: {}\n", ":6:"),
];

fn config(up: &Fake) -> String {
    file("", &entries(&[("up", up.entry())]))
}

async fn run(arguments: &[&str], text: &str) -> Output {
    let mount = Mount::new(text);
    let mut program = program();
    let run = program.args(arguments).arg("--config").arg(mount.file()).kill_on_drop(true).output();
    timeout(SOON, run).await.expect("it ends").unwrap()
}

#[tokio::test]
async fn fault_093_a_file_with_a_fault_ends_it_at_the_start() {
    let up = Fake::http(Script::default());
    for (what, fault, place) in FAULTS {
        let output = run(&[], &(config(&up) + fault)).await;
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{what}: {told}");
        assert!(told.contains(&format!("config.yaml{place}")), "{what}: {told}");
    }
    assert_eq!(up.seen().len(), 0);
}

#[tokio::test]
async fn fault_093_all_faults_are_told_at_once() {
    let text = "listen: nowhere\nlimit: {}\nmcpServers:\n  a: {url: 'ftp://x'}\n  b: {}\n  c: {command: x, env: {A: '${TRUNKLINE_NOT_SET}'}}\n";
    let output = run(&[], text).await;
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    for place in ["config.yaml:1:", "config.yaml:2:1:", "config.yaml:4:", "config.yaml:5:", "config.yaml:6:"]
    {
        assert!(told.contains(place), "{place} is missing in\n{told}");
    }
    let absent = program().arg("--config").arg("/no/such/file.yaml").output().await.unwrap();
    assert_eq!(absent.status.code(), Some(2));
}

#[tokio::test]
async fn fault_093_at_a_reload_the_last_good_file_stays_in_force() {
    let up = Fake::http(Script::default());
    let good = config(&up);
    let world = World::start(&good).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    for (what, fault, place) in FAULTS {
        let refused = world.metric(REFUSED).await;
        world.mount.save(&format!("{good}{fault}"));
        until(what, async || (world.metric(REFUSED).await > refused).then_some(())).await;
        let told = world.status().await["configProblems"].to_string();
        assert!(told.contains(&format!("config.yaml{place}")), "{what}: {told}");
        assert_eq!((world.metric(LAST).await, said(&client, "who_mcp_up").await), (0.0, "here".into()));
    }
    world.mount.save(&good);
    until("it is good again", async || (world.metric(LAST).await > 0.5).then_some(())).await;
    assert!(world.status().await["configProblems"].as_array().unwrap().is_empty());
    assert_eq!(up.seen_of("initialize").len(), 1);
}

#[tokio::test]
async fn fault_093_warnings_and_what_needs_a_restart_are_on_the_status() {
    let up = Fake::http(Script::default());
    let odd = up.entry_with(r#", "timeouts": "5s""#);
    let world = World::start(&file("", &entries(&[("up", odd.clone())]))).await.ready().await;
    let status = world.status().await;
    assert!(status["configWarnings"][0].as_str().unwrap().contains("`timeout`"), "{status}");
    assert_eq!(status["needsRestart"], serde_json::json!([]));
    super::save(&world, &file("sessions: 5", &entries(&[("up", odd)]))).await;
    assert_eq!(world.status().await["needsRestart"], serde_json::json!(["limits"]));
    super::save(&world, &config(&up)).await;
    let status = world.status().await;
    assert_eq!(
        (&status["needsRestart"], &status["configWarnings"]),
        (&serde_json::json!([]), &serde_json::json!([]))
    );
}

#[tokio::test]
async fn a_check_warns_of_what_works_otherwise_than_meant() {
    let text = r#"catalogCache: /dev/null/kept
mcpServers:
  alpha: {command: "npx -y foo", args: [--api-key=hunter2, --token, hunter3, "postgresql://me:hunter4@h/db", /data]}
  beta: {command: npx, args: [-y, foo, "--token=${TOKEN}"], env: {API_KEY: hunter5}}
"#;
    let mut program = program();
    let mount = Mount::new(text);
    program.args(["check", "--config"]).arg(mount.file()).env("TOKEN", "hunter6");
    let output = program.output().await.unwrap();
    let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    let count = |what: &str| told.matches(what).count();
    assert_eq!(count("an item of `args` of server `alpha` looks like a secret"), 3, "{told}");
    assert_eq!(count("an item of `args` of server `beta` brings a secret"), 1, "{told}");
    assert_eq!(count("`command` of server `alpha` has blanks in it"), 1, "{told}");
    assert_eq!(count("warning: `catalogCache` cannot be used here: /dev/null/kept"), 1, "{told}");
    assert_eq!(count("warning:"), 6, "{told}");
    assert!(!told.contains("hunter"), "{told}");
}

#[tokio::test]
async fn fault_101_a_check_is_quick_and_small_whatever_the_file() {
    let level = |n: usize| format!("a{}: &a{} [{}]\n", n + 1, n + 1, vec![format!("*a{n}"); 10].join(","));
    let bomb = format!("a0: &a0 [x]\n{}", (0..40).map(level).collect::<String>());
    let servers = |count: usize| {
        let entry = |n| format!("  s{n}: {{url: 'http://127.0.0.1:9/mcp'}}\n");
        format!("mcpServers:\n{}", (0..count).map(entry).collect::<String>())
    };
    for (what, text, code) in [
        ("good", servers(2), 0),
        ("500 servers", servers(500), 0),
        ("bad", "mcpServers: {a: {}}\n".to_owned(), 2),
        ("10 MiB", servers(250_000), 2),
        ("10 MiB on one line", format!("mcpServers: {{a: {{command: {}}}}}\n", "x".repeat(10 << 20)), 2),
        ("aliases", bomb, 2),
        ("deep", "[".repeat(100_000), 2),
        ("not text", "\u{0}\u{1}".repeat(1000), 2),
    ] {
        let began = Instant::now();
        let output = run(&["check"], &text).await;
        let took = began.elapsed();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{what}: {told}");
        assert!(told.len() < 1 << 20, "{what}: it says {} bytes", told.len());
        assert!(took < Duration::from_secs(1), "{what}: {took:?}");
        eprintln!("check, {what}: exit {code} after {took:?}");
    }
    // Of the largest child that this process, which is this test's alone, has had.
    let kib = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    eprintln!("the largest took {kib} KiB");
    assert!(kib <= 64 << 10, "{kib} KiB");
}
