//! Rows 107 to 109: the machine is not what one would wish for.

use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use crate::support::{
    Client, Fake, Mount, Reply, SOON, Script, World, entries, file, own_network, process, program,
    run as command, skip, text, until,
};

/// A folder that anybody may look into, with the program in it.
fn public(text: &str) -> (Mount, std::path::PathBuf) {
    let mount = Mount::new(text);
    fs::set_permissions(mount.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = mount.path().join("trunkline");
    fs::copy(env!("CARGO_BIN_EXE_trunkline"), &binary).unwrap();
    (mount, binary)
}

/// What a container of the restricted kind has not.
#[tokio::test]
async fn fault_107_it_needs_no_home_no_rights_and_nowhere_to_write() {
    let test = "fault_107_it_needs_no_home_no_rights_and_nowhere_to_write";
    let drop = "setpriv --reuid=54321 --regid=54321 --clear-groups --bounding-set=-all --no-new-privs";
    let read_only = "mount --make-rprivate / && mount -o remount,bind,ro / && exec \"$0\" \"$@\"";
    for needed in ["unshare --mount mount --make-rprivate /", &format!("{drop} true")] {
        if let Err(why) = command(needed) {
            return skip(test, &why);
        }
    }
    let up = Fake::http(Script::default());
    let demo = r#"{"command": "self", "args": ["demo-server"]}"#.to_owned();
    let (mount, binary) = public(&file("", &entries(&[("up", up.entry()), ("demo", demo)])));
    let mut bare = Command::new("unshare");
    bare.args(["--mount", "sh", "-c", read_only]).args(drop.split(' ')).arg(binary);
    bare.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("TMPDIR", "/no/such/folder");
    let mut world = World::start_as(mount, bare).await.ready().await;
    let status = fs::read_to_string(format!("/proc/{}/status", world.pid())).unwrap();
    let says = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned();
    assert_eq!(
        (says("CapEff:"), says("CapBnd:"), says("NoNewPrivs:")),
        ("0".repeat(16), "0".repeat(16), "1".into())
    );
    assert!(says("Uid:").starts_with("54321"), "{status}");
    let client = Client::open(&world, "/mcp").await;
    assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    let echo = client.call("echo_mcp_demo", r#"{"text": "hello"}"#).await;
    assert!(echo.to_string().contains("hello"), "a child runs as well: {echo}");
    world.mount.save(&file("", &entries(&[("up", up.entry_with(r#", "title": "T""#))])));
    until("it is reloaded", async || (world.server("up").await["title"] == "T").then_some(())).await;
    world.signal(Signal::SIGTERM);
    assert_eq!(world.ended(SOON).await.code(), Some(0));
}

#[tokio::test]
async fn fault_107_a_full_disk_under_its_log_stops_nothing() {
    let up = Fake::http(Script::default());
    let mount = Mount::new(&file("", &entries(&[("up", up.entry())])));
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    // What it says cannot be read, so its ports are found out by what it listens on.
    let mut child = program()
        .arg("--config")
        .arg(mount.file())
        .stdout(full())
        .stderr(full())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let pid = child.id().unwrap();
    let url = until("it serves", async || {
        let ports = listening(pid);
        for port in &ports {
            let url = format!("http://127.0.0.1:{port}/mcp");
            let answer = Client::new(url.clone()).try_send(hyper::Method::HEAD, "").await.ok()?;
            if ports.len() == 2 && answer.status() == 200 {
                return Some(url);
            }
        }
        None
    })
    .await;
    let client = Client::greet(url).await;
    for _ in 0..50 {
        assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    }
    process::signal(pid, Signal::SIGTERM);
    assert_eq!(timeout(SOON, child.wait()).await.unwrap().unwrap().code(), Some(0));
}

/// The TCP ports on 127.0.0.1 that a process listens on.
fn listening(pid: u32) -> Vec<u16> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let sockets: Vec<_> = fds
        .filter_map(|fd| {
            fs::read_link(fd.path())
                .ok()?
                .to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')
                .map(str::to_owned)
        })
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = lines.filter(|line| {
        line.get(3) == Some(&"0A") && line.get(9).is_some_and(|at| sockets.iter().any(|of| of == at))
    });
    ours.filter_map(|line| u16::from_str_radix(line[1].split_once(':')?.1, 16).ok()).collect()
}

/// The system calls that the usual profile of container runtimes refuses; those that any program may make are not there.
const REFUSED: &str = "acct,add_key,bpf,clock_adjtime,clock_settime,create_module,delete_module,finit_module,\
init_module,io_uring_enter,io_uring_register,io_uring_setup,kexec_load,keyctl,mount,move_pages,open_by_handle_at,\
perf_event_open,personality,pivot_root,process_vm_readv,process_vm_writev,ptrace,quotactl,reboot,request_key,setns,\
settimeofday,swapon,swapoff,umount2,unshare,userfaultfd";

#[tokio::test]
async fn fault_107_it_makes_no_call_that_container_runtimes_refuse() {
    if let Err(why) = command("strace -f -qq -o /dev/null true") {
        return skip("fault_107_it_makes_no_call_that_container_runtimes_refuse", &why);
    }
    let up = Fake::http(Script::default());
    let demo = r#"{"command": "self", "args": ["demo-server"]}"#.to_owned();
    let mount = Mount::new(&file("", &entries(&[("up", up.entry()), ("demo", demo)])));
    let trace = tempfile::NamedTempFile::new().unwrap();
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-e", "signal=none", "-e"]).arg(format!("trace=execve,{REFUSED}"));
    traced.arg("-o").arg(trace.path()).arg(env!("CARGO_BIN_EXE_trunkline"));
    let mut world = World::start_as(mount, traced).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    for tool in ["who_mcp_up", "echo_mcp_demo"] {
        client.call(tool, r#"{"text": "hello"}"#).await;
    }
    for traced in process::children(world.pid()) {
        process::signal(traced, Signal::SIGTERM);
    }
    assert_eq!(world.ended(SOON).await.code(), Some(0));
    let calls = fs::read_to_string(trace.path()).unwrap();
    let made: Vec<_> = calls.lines().filter(|line| !line.contains("execve(")).collect();
    assert!(calls.contains("execve(") && made.is_empty(), "{made:?}");
}

async fn run(text: &str) -> Output {
    let mount = Mount::new(text);
    let mut program = program();
    let run = program.arg("--config").arg(mount.file()).kill_on_drop(true).output();
    timeout(SOON, run).await.expect("it ends").unwrap()
}

#[tokio::test]
async fn fault_108_a_port_in_use_ends_it_with_1_and_the_address() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for key in ["listen", "admin.listen"] {
        let servers = entries(&[]);
        let text = match key {
            "listen" => file("", &servers).replacen("127.0.0.1:0", &address, 1),
            _ => file("", &servers).replacen("{listen: 127.0.0.1:0}", &format!("{{listen: '{address}'}}"), 1),
        };
        let output = run(&text).await;
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(&address) && told.contains(key), "{told}");
    }
}

#[tokio::test]
async fn fault_108_without_ipv6_it_says_so_or_serves_what_there_is() {
    let test = "fault_108_without_ipv6_it_says_so_or_serves_what_there_is";
    let off = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.lo.disable_ipv6=1";
    if let Err(why) = own_network("10.77.8.1").and_then(|()| command(off)) {
        return skip(test, &why);
    }
    let up = Fake::http(Script::default());
    let listening = |address: &str| {
        let usual = file("", &entries(&[("up", up.entry())]));
        usual.replacen("127.0.0.1:0", &format!("'{address}'"), 1) + "insecure: true\n"
    };
    let output = run(&listening("[::1]:0")).await;
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("[::1]:0") && told.contains("listen"), "{told}");
    // All addresses of the newer kind are those of the older kind, too.
    let world = World::start(&listening("[::]:0")).await.ready().await;
    let url = world.url("/mcp").replace("[::]", "127.0.0.1");
    assert_eq!(Client::greet(url).await.tools().await, ["who_mcp_up"]);
}

#[tokio::test]
async fn fault_109_a_wall_clock_that_jumps_moves_no_timer() {
    let test = "fault_109_a_wall_clock_that_jumps_moves_no_timer";
    let library = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"]
        .map(|folder| format!("{folder}/faketime/libfaketime.so.1"))
        .into_iter()
        .find(|path| File::open(path).is_ok());
    let Some(library) = library else { return skip(test, "needs the Debian package faketime") };
    let up = Fake::http(Script { sessions: true, ..Script::answering(|_| Reply::Result(text("here"))) });
    let away = Fake::http(Script::default());
    away.leave().await;
    let servers = entries(&[("up", up.entry()), ("away", away.entry())]);
    let mount = Mount::new(&file("reconnectInterval: 1s, connectionIdle: 1h, sessionIdle: 10m", &servers));
    let clock = mount.path().join("clock");
    fs::write(&clock, "+0").unwrap();
    let mut command = program();
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", &clock);
    command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    let world = World::start_as(mount, command).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    for jump in ["+3600", "-3600", "+0"] {
        fs::write(&clock, jump).unwrap();
        until("the clock has jumped", async || {
            let told = world.admin("/metrics").await.1;
            told.contains("trunkline_sessions 1").then_some(()) // the session lives
        })
        .await;
        let began = Instant::now();
        assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here", "{jump}");
        assert!(began.elapsed() < Duration::from_secs(1), "{jump}: {:?}", began.elapsed());
        let next = world.server("away").await["nextTryInSeconds"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&next), "{jump}: tried again in {next} s");
    }
    away.back();
    until("it is back", async || (world.server("away").await["state"] == "ready").then_some(())).await;
    let stamp = world.server("up").await["updatedAt"].as_u64().unwrap();
    assert!(stamp > 0 && up.seen_of("initialize").len() == 2, "the kept link and the session's, as before");
}

#[tokio::test]
async fn fault_109_a_process_that_was_suspended_goes_on() {
    let up = Fake::http(Script { sessions: true, ..Script::default() });
    let text = file("reconnectInterval: 100ms, refreshInterval: 200ms", &entries(&[("up", up.entry())]));
    let world = World::start(&text).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let mut stream = client.listen().await;
    client.call("who_mcp_up", "{}").await;
    world.signal(Signal::SIGSTOP);
    tokio::time::sleep(Duration::from_secs(3)).await; // of every timer that there is, many times over
    up.forget(); // meanwhile the server has restarted
    world.signal(Signal::SIGCONT);
    let began = Instant::now();
    assert_eq!(client.call("who_mcp_up", "{}").await["result"]["content"][0]["text"], "here");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    up.change(|script| script.tools.push(crate::support::tool("more")));
    assert!(stream.next().await.unwrap().contains("list_changed"), "its stream lives");
}
