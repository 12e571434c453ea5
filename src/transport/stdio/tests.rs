//! Against children that are shell scripts.

use std::path::Path;
use std::time::Duration;

use tokio::join;
use tokio::time::timeout;

use crate::config::{Reach, Stdio};
use crate::transport::testing::{SIZES, all, call, link, result, server, sh};
use crate::transport::{Dialer, Failure, Inbound, Link};
use crate::wire::notification;

async fn child(script: &str) -> Link {
    link(sh(script)).await.unwrap()
}

async fn ask(link: &Link, id: u64) -> Result<String, Failure> {
    let (_, answer) = all(link.request(id, call(id)).await?).await;
    answer.map(|message| String::from_utf8(message.text().to_vec()).unwrap())
}

async fn told(inbound: &mut Inbound) -> String {
    inbound.next().await.unwrap().method().to_owned()
}

/// Reads a request and finds its id.
const ASKED: &str = r#"read -r line; id=${line#*\"id\":}; id=${id%%,*}; "#;

/// Answers every request.
fn echo() -> String {
    let answer = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{}}\r\n' "$id""#;
    format!("while {ASKED} [ -n \"$line\" ]; do {answer}; done")
}

fn children() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.flatten().map(|task| of(task).split_whitespace().count()).sum()
}

fn fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn lives(pid: &str) -> bool {
    let state = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat")).unwrap_or_default();
    state.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn calls_and_what_belongs_to_none() {
    let script = format!(
        r#"
        echo '{{"jsonrpc":"2.0","method":"hello"}}'
        echo
        echo 'a banner'
        {ASKED} first=$id
        {ASKED} second=$id
        printf '{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":%s}}}}\n' $first
        printf '{{"jsonrpc":"2.0","id":%s,"result":{{}}}}\n{{"jsonrpc":"2.0","id":"s","method":"ping"}}\n' $second
        printf '[{{"jsonrpc":"2.0","id":%s,"result":{{}}}}]\n' $first
        {ASKED}
        echo '{{"jsonrpc":"2.0","method":"bye"}}'
        read -r line
        "#
    );
    let link = child(&script).await;
    let mut inbound = link.listen().await.unwrap();
    assert!(matches!(link.listen().await.unwrap_err(), Failure::Unsupported(_)));
    let (one, two) = (link.request(1, call(1)).await.unwrap(), link.request(2, call(2)).await.unwrap());
    let (one, two) = join!(all(one), all(two)); // answered the other way round
    assert_eq!((one.0, one.1.unwrap().number()), (vec!["notifications/progress".to_owned()], Some(1)));
    assert_eq!((two.0, two.1.unwrap().number()), (vec![], Some(2)));
    link.send(notification("a\nb", "{\n}")).await.unwrap(); // one line all the same
    assert_eq!(
        [told(&mut inbound).await, told(&mut inbound).await, told(&mut inbound).await],
        ["hello", "ping", "bye"]
    );
    assert_eq!(link.counts().skipped, 1);
    link.close().await;
    assert_eq!(inbound.next().await.unwrap_err(), Failure::Cut("we stopped it".into()));
}

#[tokio::test]
async fn an_exit_in_a_call_is_explained_without_secrets() {
    let say = "echo >&2 hi; echo >&2 \"Error: bad key $CANARY\"; echo >&2 '   at x'; ";
    for (script, why) in [
        (format!("{ASKED} {say} exit 3"), "exited with status 3: Error: bad key ***"),
        (format!("{ASKED} kill -9 $$"), "killed by signal 9"),
        (format!("{ASKED} exec >&- 2>&-; sleep 100"), "it closed its output"),
    ] {
        let link = child(&script).await;
        let told = ask(&link, 1).await.unwrap_err();
        assert_eq!(told, Failure::Cut(why.into()));
        assert_eq!(ask(&link, 2).await.unwrap_err(), Failure::Unreachable(why.into()));
        assert_eq!(link.listen().await.unwrap().next().await.unwrap_err(), told);
        link.close().await;
    }
}

#[tokio::test]
async fn the_last_answer_of_a_child_that_ends_is_read() {
    let link =
        child(&format!("{ASKED} printf '{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{}}}}'; exit 1")).await;
    assert_eq!(ask(&link, 1).await.unwrap(), result(1));
}

#[tokio::test]
async fn a_program_or_folder_that_is_not_there() {
    let start = |command: &str, cwd: Option<&str>| {
        let (command, cwd) = (command.into(), cwd.map(Into::into));
        link(Reach::Stdio(Stdio { command, args: vec![], env: vec![], cwd }))
    };
    let program = start("no-such-program; echo $HOME", None).await.unwrap_err();
    assert_eq!(
        program,
        Failure::Unreachable("cannot start `no-such-program; echo $HOME`: no such program".into())
    );
    let folder = start("sh", Some("/no/such/folder")).await.unwrap_err();
    assert!(folder.to_string().contains("/no/such/folder"), "{folder}");
}

#[tokio::test]
async fn a_child_gets_few_variables() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("env");
    let link = child(&format!("env > {}; {ASKED} exit 0", file.display())).await;
    assert!(ask(&link, 1).await.is_err());
    let env = std::fs::read_to_string(file).unwrap();
    let has = |name: &str| env.lines().any(|line| line.starts_with(&format!("{name}=")));
    assert!(has("PATH") && has("CANARY"), "{env}");
    assert!(
        std::env::vars().any(|(name, _)| name.starts_with("CARGO")),
        "the test knows a variable to withhold"
    );
    assert!(!env.contains("CARGO"), "{env}");
}

#[tokio::test]
async fn fault_089_standard_error_is_always_read() {
    let flood =
        "i=0; while [ $i -lt 300 ]; do printf '%01000d\n' $i >&2; i=$((i+1)); done; printf '%050000d' 1 >&2";
    let link = child(&format!("{flood}; {}", echo())).await;
    assert_eq!(ask(&link, 1).await.unwrap(), result(1));
    link.close().await;
    let hushed = link.counts().hushed;
    assert!((50_000..350_000).contains(&hushed), "{hushed}");
}

#[tokio::test]
async fn a_line_without_end_ends_the_child() {
    let link = child(&format!("{ASKED} while :; do printf '%09999d' 1; done")).await;
    assert_eq!(ask(&link, 1).await.unwrap_err(), Failure::TooLarge(SIZES.message));
    link.close().await;
}

#[tokio::test]
async fn fault_089_a_child_that_does_not_read_holds_up_only_its_callers() {
    let link = child("exec sleep 100").await;
    let large = notification("x", &format!("\"{}\"", "x".repeat(100_000)));
    let stuck = async {
        loop {
            link.send(large.clone()).await.unwrap();
        }
    };
    assert!(timeout(Duration::from_millis(200), stuck).await.is_err(), "there is always room");
    drop(link); // and its end does not wait for it
}

/// Ends once none of `pids` lives.
async fn gone(pids: &str) {
    let waiting = async {
        while pids.split_whitespace().any(lives) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), waiting).await.expect("all of them end");
}

#[tokio::test]
async fn fault_089_the_whole_group_goes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let ready = r#"echo '{"jsonrpc":"2.0","method":"ready"}'"#;
    let script = |trap: &str| {
        format!("{trap} sleep 1000 & echo $$ $! > {}; {ready}; while :; do wait; done", file.display())
    };
    // One that ignores both the end of its input and TERM.
    let stubborn = child(&script("trap '' TERM;")).await;
    stubborn.listen().await.unwrap().next().await.unwrap();
    let pids = std::fs::read_to_string(&file).unwrap();
    assert!(pids.split_whitespace().count() == 2 && pids.split_whitespace().all(lives), "{pids}");
    join!(stubborn.close(), stubborn.close());
    gone(&pids).await;
    // One whose link is only dropped.
    let dropped = child(&script("")).await;
    dropped.listen().await.unwrap().next().await.unwrap();
    let pids = std::fs::read_to_string(&file).unwrap();
    drop(dropped);
    gone(&pids).await;
    // One that ends by itself and leaves somebody behind.
    let leaver = child(&format!("sleep 1000 & echo $! > {}; {ASKED}", file.display())).await;
    assert_eq!(ask(&leaver, 1).await.unwrap_err(), Failure::Cut("exited with status 0".into()));
    gone(&std::fs::read_to_string(&file).unwrap()).await;
}

#[test]
fn the_group_goes_with_the_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = format!(
        r#"sleep 1000 & echo $$ $! > {}; echo '{{"jsonrpc":"2.0","method":"ready"}}'; wait"#,
        file.display()
    );
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let link = first.block_on(async {
        let link = child(&script).await;
        link.listen().await.unwrap().next().await.unwrap();
        link
    });
    drop(first);
    runtime().block_on(gone(&std::fs::read_to_string(&file).unwrap()));
    drop(link);
}

#[tokio::test]
async fn three_start_at_a_time() {
    let dialer = Dialer::new(SIZES);
    let server = server(sh("read -r line"));
    let mut links = Vec::new();
    for _ in 0..3 {
        links.push(dialer.dial(&server).await.unwrap());
    }
    let mut fourth = std::pin::pin!(dialer.dial(&server));
    tokio::select! { biased; _ = &mut fourth => panic!("a fourth"), () = tokio::task::yield_now() => {} }
    links[1].settled();
    links.push(fourth.await.unwrap());
    links.push(dialer.dial(&server).await.unwrap()); // a slot is free again after two seconds
    for link in links {
        link.close().await;
    }
}

/// Alone in its process, as other tests start children, too: see below.
#[test]
fn nothing_is_left_of_many() {
    const ALONE: &str = "TRUNKLINE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "transport::stdio::tests::nothing_is_left_of_many";
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
        assert!(String::from_utf8_lossy(&alone.stdout).contains("1 passed"));
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (dialer, server) = (Dialer::new(SIZES), server(sh(&echo())));
        let cycle = async || {
            let link = dialer.dial(&server).await.unwrap();
            assert_eq!(ask(&link, 1).await.unwrap(), result(1));
            link.close().await;
        };
        cycle().await;
        let before = (fds(), tokio::runtime::Handle::current().metrics().num_alive_tasks());
        for _ in 0..200 {
            cycle().await;
        }
        assert_eq!((fds(), tokio::runtime::Handle::current().metrics().num_alive_tasks()), before);
        assert_eq!(children(), 0);
    });
}
