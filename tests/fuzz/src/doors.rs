//! Doors that no message passes: the configuration, hosts and origins, and lines of a child.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use hyper::header::{HOST, HeaderValue, ORIGIN};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::Runtime;
use trunkline::config::{self, Change, Config, Source, World};
use trunkline::front;
use trunkline::transport::{Line, Lines};

use crate::messages::must;

/// What every variable and file of this world says.
const CANARY: &str = "canary-4fQ9zKx2";

/// A world that says the same everywhere.
#[derive(Debug)]
struct Everywhere;

impl World for Everywhere {
    fn variable(&self, name: &str) -> Option<String> {
        (!name.is_empty() && !name.starts_with("NO")).then(|| CANARY.into())
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        if path.to_string_lossy().contains("no") {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(CANARY.into())
        }
    }

    fn executable(&self) -> io::Result<PathBuf> {
        Ok("/trunkline".into())
    }
}

/// Configurations: read the same twice, and no value of a placeholder is told to anybody.
pub(crate) fn config(input: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    let source = Source { name: "fuzz.yaml", directory: Path::new("/etc/trunkline"), world: &Everywhere };
    let _ports = config::addresses(&text, &source);
    let told = match (config::parse(&text, &source), config::parse(&text, &source)) {
        (Ok(one), Ok(other)) => {
            let change = Change::between(&one.config, &other.config);
            must(change == Change::default(), "a text is not what it was")?;
            must(!format!("{:?}", one.config).contains(CANARY), "a secret is shown")?;
            one.notes
        }
        (Err(one), Err(other)) => {
            must(one == other, "the problems are others")?;
            must(!one.is_empty(), "refused without a reason")?;
            one
        }
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => return Err("once it is good, once it is not".into()),
    };
    // The text may have the words itself.
    let leaks = told.iter().any(|problem| problem.to_string().contains(CANARY)) && !text.contains(CANARY);
    must(!leaks, "a secret is in a problem")
}

/// `Host`, a line break, `Origin`: whoever passes is one of us to another reader of URLs as well.
pub(crate) fn doors(input: &[u8]) -> Result<(), String> {
    let mut lines = input.splitn(2, |byte| *byte == b'\n');
    let (host, origin) = (lines.next().unwrap_or_default(), lines.next());
    let Ok(value) = HeaderValue::from_bytes(host) else { return Ok(()) };
    let mut parts = hyper::Request::new(()).into_parts().0;
    parts.headers.insert(HOST, value);
    if let Some(origin) = origin {
        let Ok(origin) = HeaderValue::from_bytes(origin) else { return Ok(()) };
        parts.headers.insert(ORIGIN, origin);
    }
    let config = Config {
        allowed_hosts: vec!["mcp.example.com".into()],
        allowed_origins: vec!["https://app.example.com".into()],
        ..Config::default()
    };
    let bound = SocketAddr::from(([127, 0, 0, 1], 1));
    if !front::knows(&parts, bound, &config) {
        return Ok(());
    }
    let host = String::from_utf8_lossy(host);
    let read = url::Url::parse(&format!("http://{host}/"))
        .map_err(|why| format!("passed, and is no host: {why}"))?;
    must(ours(&read, "mcp.example.com"), "a stranger's host passed")?;
    must(
        read.path() == "/" && read.username().is_empty() && read.password().is_none(),
        "more than a host passed",
    )?;
    let Some(origin) = origin else { return Ok(()) };
    let origin = String::from_utf8_lossy(origin);
    let read = url::Url::parse(&origin).map_err(|why| format!("passed, and is no origin: {why}"))?;
    must(["http", "https"].contains(&read.scheme()), "an origin that is no page's passed")?;
    must(ours(&read, "app.example.com"), "a stranger's origin passed")
}

fn ours(url: &url::Url, name: &str) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || host == name || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Lines of a child: the cut between two reads changes nothing, and no byte is lost or made up.
pub(crate) fn stdio(input: &[u8]) -> Result<(), String> {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers")
    });
    let read = |size: usize, limit: usize| RUNTIME.block_on(lines(input, size, limit));
    let whole = read(input.len().max(1), input.len())?;
    for size in [1, 2, 3, 7] {
        must(read(size, input.len())? == whole, "another cut reads otherwise")?;
    }
    must(whole.iter().all(|(_, line)| *line == Line::Whole), "a line below the limit is cut")?;
    // With a limit a line comes in parts, of which none is much longer.
    for size in [1, 5, 64] {
        let parts = read(size, 16)?;
        let bytes: usize = parts.iter().map(|(text, _)| text.len()).sum();
        let ends = input.split(|byte| *byte == b'\n').count() - 1;
        let returns = input.windows(2).filter(|two| *two == b"\r\n").count();
        must(bytes + ends + returns >= input.len() && bytes <= input.len(), "bytes are lost or made up")?;
        must(
            parts.iter().all(|(text, _)| text.len() <= 16 + size.max(1) + 1),
            "a line is longer than may be",
        )?;
    }
    Ok(())
}

async fn lines(input: &[u8], size: usize, limit: usize) -> Result<Vec<(Vec<u8>, Line)>, String> {
    let mut lines = Lines::new(Chunks { rest: input, size }, limit);
    let mut found = Vec::new();
    while let Some((line, what)) = lines.next().await.map_err(|why| why.to_string())? {
        must(!line.contains(&b'\n'), "a line with an end in it")?;
        found.push((line.to_vec(), what));
        must(found.len() <= input.len() + 1, "lines without end")?;
    }
    Ok(found)
}

/// Gives a few bytes at a time.
struct Chunks<'i> {
    rest: &'i [u8],
    size: usize,
}

impl AsyncRead for Chunks<'_> {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let (now, rest) = this.rest.split_at(this.size.min(this.rest.len()).min(into.remaining()));
        into.put_slice(now);
        this.rest = rest;
        Poll::Ready(Ok(()))
    }
}
