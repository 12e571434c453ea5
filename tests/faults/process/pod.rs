//! The chart's own configuration as the chart mounts it, in a network of the test's own whose address is the pod's. What
//! the chart sets beside it is in `tests/fixtures/pod`, and `tests/chart.py` compares that with what it renders.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hyper::Method;
use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::support::{Client, Mount, SOON, World, own_network, program, skip, until, within};

/// The pod's address.
const POD: &str = "10.77.1.1";
const MCP: &str = "http://10.77.1.1:8931/mcp";
const KEY: &str = "the-first-key-of-the-pod";

/// A pod: its volumes and its container.
struct Pod {
    world: World,
    keys: Keys,
    _volumes: TempDir,
}

/// The mounted secret.
struct Keys {
    mount: Mount,
    _link: std::path::PathBuf,
}

fn chart(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join("helm/trunkline/files").join(file)).unwrap()
}

impl Pod {
    /// A pod with this file of the chart's, and so many seconds of grace.
    async fn start(file: &str, grace: u32) -> Self {
        let volumes = tempfile::tempdir().unwrap();
        let mount = Mount::swapped_in(volumes.path(), KEY);
        let link = volumes.path().join("keys");
        fs::create_dir(&link).unwrap();
        std::os::unix::fs::symlink(mount.file(), link.join("client")).unwrap();
        let keys = Keys { mount, _link: link };
        let config = Mount::swapped_in(volumes.path(), &chart(file));
        let mut command = program();
        let set = format!("{}/tests/fixtures/pod/grace-{grace}.env", env!("CARGO_MANIFEST_DIR"));
        command.envs(fs::read_to_string(set).unwrap().lines().filter_map(|line| line.split_once('=')));
        let world = World::start_as(config, command).await;
        // The kubelet's startup probe.
        until("it has started", async || (probe("/startz").await == 200).then_some(())).await;
        Self { world, keys, _volumes: volumes }
    }
}

/// What the kubelet, or Prometheus, is answered: it comes by the pod's address and says so as `Host`.
async fn probe(path: &str) -> u16 {
    let url = format!("http://{POD}:8932{path}");
    match Client::new(url).try_send(Method::GET, "").await {
        Ok(answer) => answer.status().as_u16(),
        Err(_) => 0,
    }
}

async fn client(key: &str) -> Client {
    let shown = Client::new(MCP.into()).with("authorization", &format!("Bearer {key}"));
    let answer = shown.post(&crate::support::hello("2025-11-25")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let session = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
    shown.with("mcp-session-id", &session).with("mcp-protocol-version", "2025-11-25")
}

/// What somebody with this key, or none, is answered.
async fn knock(key: &str) -> u16 {
    let somebody = Client::new(MCP.into());
    let somebody =
        if key.is_empty() { somebody } else { somebody.with("authorization", &format!("Bearer {key}")) };
    somebody.post(&crate::support::hello("2025-11-25")).await.status
}

#[tokio::test]
async fn the_charts_own_configuration_works_as_the_chart_mounts_it() {
    if let Err(why) = own_network(POD) {
        return skip("the_charts_own_configuration_works_as_the_chart_mounts_it", &why);
    }
    let mut pod = Pod::start("trunkline.yaml", 30).await;
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(probe(path).await, 200, "{path}");
    }
    // On all addresses, for who shows the key.
    for stranger in ["", "another-key-that-is-none", "client"] {
        assert_eq!(knock(stranger).await, 401, "{stranger:?}");
    }
    let caller = client(KEY).await;
    let by_service = caller.with("host", "release-trunkline.default.svc:8931");
    for caller in [&caller, &by_service] {
        let answer = caller.call("echo_mcp_demo", r#"{"text": "hello"}"#).await;
        assert!(answer.to_string().contains("hello"), "{answer}");
    }
    // An edited ConfigMap.
    let edited = chart("trunkline.yaml").replace("  demo:", "  another:");
    pod.world.mount.swap(&edited);
    until("the edit is in force", async || {
        caller.tools().await.iter().all(|name| name.ends_with("_mcp_another")).then_some(())
    })
    .await;
    // A rotated secret: the new key is let in, the old one no more.
    pod.keys.mount.swap("the-second-key-of-the-pod");
    within(Duration::from_secs(5), "the new key is let in", async || {
        (knock("the-second-key-of-the-pod").await == 200).then_some(())
    })
    .await;
    assert_eq!(knock(KEY).await, 401);
}

#[tokio::test]
async fn a_pod_with_much_grace_answers_its_calls() {
    if let Err(why) = own_network(POD) {
        return skip("a_pod_with_much_grace_answers_its_calls", &why);
    }
    let mut pod = Pod::start("trunkline.yaml", 30).await;
    let caller = client(KEY).await;
    let call = caller.call("slow_mcp_demo", r#"{"seconds": 3}"#);
    let end = async {
        until("the call is under way", async || {
            (pod.world.metric(r#"trunkline_requests_in_flight{server="demo"}"#).await > 0.5).then_some(())
        })
        .await;
        pod.world.signal(Signal::SIGTERM);
        let told = Instant::now();
        until("readiness fails", async || (probe("/readyz").await == 503).then_some(())).await;
        assert_eq!(knock(KEY).await, 200, "whoever still comes is served");
        assert_eq!(pod.world.ended(3 * SOON).await.code(), Some(0));
        told.elapsed()
    };
    let (answer, took) = tokio::join!(call, end);
    assert!(answer.to_string().contains("That took 3"), "{answer}");
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(8), "{took:?}");
}

#[tokio::test]
async fn a_pod_with_two_seconds_of_grace_tells_its_clients_in_time() {
    if let Err(why) = own_network(POD) {
        return skip("a_pod_with_two_seconds_of_grace_tells_its_clients_in_time", &why);
    }
    let mut pod = Pod::start("trunkline.yaml", 2).await;
    let caller = client(KEY).await;
    let call = caller.call("slow_mcp_demo", r#"{"seconds": 30}"#);
    let end = async {
        until("the call is under way", async || {
            (pod.world.metric(r#"trunkline_requests_in_flight{server="demo"}"#).await > 0.5).then_some(())
        })
        .await;
        pod.world.signal(Signal::SIGTERM);
        let told = Instant::now();
        assert_eq!(pod.world.ended(SOON).await.code(), Some(0));
        told.elapsed()
    };
    let (answer, took) = tokio::join!(call, end);
    assert!(answer.to_string().contains("is being stopped"), "{answer}");
    assert!(took < Duration::from_secs(2), "the kubelet would have killed it: {took:?}");
    eprintln!("2 s of grace: ended after {took:?}");
}

#[tokio::test]
async fn a_sidecar_serves_its_pod_alone() {
    if let Err(why) = own_network(POD) {
        return skip("a_sidecar_serves_its_pod_alone", &why);
    }
    let mut pod = Pod::start("sidecar.yaml", 2).await;
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(probe(path).await, 200, "{path}");
    }
    let outside = Client::new(MCP.into()).try_send(Method::POST, "{}").await;
    assert!(outside.is_err(), "nobody listens on the pod's address");
    let inside = Client::greet("http://127.0.0.1:8931/mcp".into()).await;
    assert!(inside.call("echo_mcp_demo", r#"{"text": "hello"}"#).await.to_string().contains("hello"));
    pod.world.signal(Signal::SIGTERM);
    let told = Instant::now();
    assert_eq!(pod.world.ended(SOON).await.code(), Some(0));
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
}
