//! Rows 94 to 96: how files change, and what becomes of it.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::{LAST, REFUSED, TAKEN, said};
use crate::support::{Client, Fake, Mount, Script, World, entries, file, program, skip, until, within};

/// A file with the title `title`, which needs no other connection.
fn titled(up: &Fake, title: &str) -> String {
    file("", &entries(&[("up", up.entry_with(&format!(r#", "title": "{title}""#)))]))
}

async fn is_titled(world: &World, limit: Duration, title: &str) {
    within(limit, title, async || (world.server("up").await["title"] == title).then_some(())).await;
}

#[tokio::test]
async fn fault_094_no_last_swap_of_many_is_missed() {
    const BURSTS: u32 = 10;
    let up = Fake::http(Script::default());
    let mut world = World::start_in(Mount::swapped(&titled(&up, "start"))).await.ready().await;
    let (mut slowest, mut swaps) = (Duration::ZERO, 0);
    for burst in 0..BURSTS {
        let mut next = Instant::now();
        // Of 10 a second, in bursts of different lengths: 100 in all.
        for _ in 0..7 + burst % 9 {
            swaps += 1;
            world.mount.swap(&titled(&up, &swaps.to_string()));
            next += Duration::from_millis(100);
            sleep_until(next).await;
        }
        let began = next - Duration::from_millis(100); // when the last one was made
        is_titled(&world, Duration::from_secs(1), &swaps.to_string()).await;
        slowest = slowest.max(began.elapsed());
    }
    assert!(swaps >= 100, "{swaps}");
    assert!(slowest <= Duration::from_secs(1), "{slowest:?}");
    assert_eq!((up.seen_of("initialize").len(), world.metric(REFUSED).await), (1, 0.0));
    eprintln!("{swaps} swaps, 10 a second: the last of each burst was in force after {slowest:?} at most");
}

#[tokio::test]
async fn fault_095_a_file_that_is_written_slowly_is_never_read_by_halves() {
    let ups = [Fake::http(Script::default()), Fake::http(Script::default())];
    let whole = |title: &str| {
        let entry = |up: &Fake| up.entry_with(&format!(r#", "title": "{title}""#));
        file("", &entries(&[("first", entry(&ups[0])), ("second", entry(&ups[1]))]))
    };
    let world = World::start(&whole("old")).await.ready().await;
    let (refused, taken) = (world.metric(REFUSED).await, world.metric(TAKEN).await);
    // Each line by itself, and what is there is a good file from the fifth of six lines on.
    let mut writing = OpenOptions::new().write(true).truncate(true).open(world.mount.file()).unwrap();
    for line in whole("new").lines() {
        writing.write_all(format!("{line}\n").as_bytes()).unwrap();
        sleep(Duration::from_millis(600)).await; // longer than the quiet that is waited for
        assert_eq!(world.server("second").await["title"], "old");
    }
    drop(writing);
    within(Duration::from_secs(2), "all of it is in force", async || {
        (world.server("second").await["title"] == "new").then_some(())
    })
    .await;
    assert_eq!((world.metric(REFUSED).await, world.metric(TAKEN).await), (refused, taken + 1.0));
    assert!(ups.iter().all(|up| up.seen_of("initialize").len() == 1));
}

#[tokio::test]
async fn fault_095_whatever_becomes_of_the_file_the_last_good_one_stays() {
    let up = Fake::http(Script::default());
    let world = World::start(&titled(&up, "0")).await.ready().await;
    let client = Client::open(&world, "/mcp").await;
    let path = world.mount.file();
    let gone = || match fs::metadata(&path) {
        Ok(found) if found.is_dir() => fs::remove_dir(&path).unwrap(),
        _ => fs::remove_file(&path).unwrap(),
    };
    let becomes: [(&str, &dyn Fn()); 5] = [
        ("it is deleted", &|| gone()),
        ("it is a directory", &|| {
            gone();
            fs::create_dir(&path).unwrap();
        }),
        ("it is a link to itself", &|| {
            gone();
            symlink(&path, &path).unwrap();
        }),
        ("it is empty", &|| fs::write(&path, "").unwrap()),
        ("it is not text", &|| fs::write(&path, b"\xff\xfe\x00").unwrap()),
    ];
    for (n, (what, become_so)) in becomes.iter().enumerate() {
        let refused = world.metric(REFUSED).await;
        become_so();
        until(what, async || (world.metric(REFUSED).await > refused).then_some(())).await;
        assert!(!world.status().await["configProblems"].as_array().unwrap().is_empty(), "{what}");
        assert_eq!(said(&client, "who_mcp_up").await, "here", "{what}");
        // And whatever it was, a good one is taken again.
        if fs::symlink_metadata(&path).is_ok() {
            gone();
        }
        let title = format!("after {n}");
        fs::write(&path, titled(&up, &title)).unwrap();
        is_titled(&world, Duration::from_secs(5), &title).await;
        assert!(world.metric(LAST).await > 0.5);
    }
    assert_eq!(up.seen_of("initialize").len(), 1);
}

#[tokio::test]
async fn fault_095_a_file_that_may_not_be_read_changes_nothing() {
    let test = "fault_095_a_file_that_may_not_be_read_changes_nothing";
    if !nix::unistd::geteuid().is_root() {
        return skip(test, "needs root, to run as somebody else");
    }
    let up = Fake::http(Script::default());
    let mount = Mount::new(&titled(&up, "0"));
    // Root may read everything, so it runs as nobody, from a place that nobody may enter.
    fs::set_permissions(mount.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = mount.path().join("trunkline");
    fs::copy(env!("CARGO_BIN_EXE_trunkline"), &binary).unwrap();
    let mut command = tokio::process::Command::new(binary);
    command.uid(65534).gid(65534);
    let world = World::start_as(mount, command).await.ready().await;
    let (path, refused) = (world.mount.file(), world.metric(REFUSED).await);
    fs::write(&path, titled(&up, "1")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    until("it is refused", async || (world.metric(REFUSED).await > refused).then_some(())).await;
    let told = world.status().await["configProblems"].to_string();
    assert!(told.contains("ermission denied"), "{told}");
    assert_eq!(world.server("up").await["title"], "0");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    is_titled(&world, Duration::from_secs(5), "1").await;
}

#[tokio::test]
async fn fault_096_where_nothing_can_be_watched_the_file_is_read_now_and_then() {
    // Limits of a user namespace hold for those in it alone.
    for (what, limit) in [("no instance", "max_inotify_instances"), ("no watch", "max_inotify_watches")] {
        let up = Fake::http(Script::default());
        let limit = format!("/proc/sys/user/{limit}");
        let become_it = format!("echo 0 > {limit} && exec \"$0\" \"$@\"");
        let mut command = tokio::process::Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "sh", "-c", &become_it])
            .arg(env!("CARGO_BIN_EXE_trunkline"));
        if let Err(why) = crate::support::run(&format!("unshare --user --map-root-user test -w {limit}")) {
            return skip("fault_096_where_nothing_can_be_watched_the_file_is_read_now_and_then", &why);
        }
        let mut world = World::start_as(Mount::new(&titled(&up, "0")), command).await.ready().await;
        world.logged("changes of the configuration are noticed late").await;
        let watched = "trunkline_config_watched";
        until(what, async || (world.metric(watched).await < 0.5).then_some(())).await;
        world.mount.save(&titled(&up, "1"));
        is_titled(&world, Duration::from_secs(10), "1").await;
    }
    let up = Fake::http(Script::default());
    let world = World::start_as(Mount::new(&titled(&up, "0")), program()).await.ready().await;
    until("it is watched", async || (world.metric("trunkline_config_watched").await > 0.5).then_some(()))
        .await;
}

#[tokio::test]
async fn fault_096_a_file_that_is_a_mount_point_is_warned_of() {
    let up = Fake::http(Script::default());
    let (mount, real) = (Mount::new(""), tempfile::NamedTempFile::new().unwrap());
    fs::write(real.path(), titled(&up, "0")).unwrap();
    let bind = format!("mount --bind {} {}", real.path().display(), mount.file().display());
    let mut command = tokio::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg(format!("{bind} && exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_trunkline"));
    if let Err(why) = crate::support::run("unshare --user --map-root-user --mount true") {
        return skip("fault_096_a_file_that_is_a_mount_point_is_warned_of", &why);
    }
    let world = World::start_as(mount, command).await.ready().await;
    let told = world.status().await["configWarnings"].to_string();
    assert!(told.contains("subPath"), "{told}");
}
