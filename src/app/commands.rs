//! The subcommands that talk: to a running trunkline, or to one server directly.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::client::{self, Client, ClientError, Listed, Progress};
use super::load::{LoadError, Origin};
use super::{Exit, complain, say};
use crate::config::Config;
use crate::mcp::Feature;
use crate::names::ServerName;
use crate::transport::{Dialer, Sizes};
use crate::upstream::try_once;

/// Lists the tools of a running trunkline, of all servers or of one.
pub async fn tools(origin: &Origin, url: Option<String>, view: Option<&str>) -> Exit {
    let url = match url.map_or_else(|| endpoint(origin, view), Ok) {
        Ok(url) => url,
        Err(error) => return misused(&error.to_string()),
    };
    let listed = async {
        let mut client = Client::connect(&url).await?;
        let tools = client.tools().await;
        client.close().await;
        tools
    };
    match listed.await {
        Ok(tools) => {
            show(&tools);
            if tools.is_empty() {
                complain("no tools; /status on the admin address tells how each server is");
            }
            Exit::Done
        }
        Err(error) => failed(&error.to_string()),
    }
}

/// A line for each tool: its name, its arguments, and the start of what it says of itself.
fn show(tools: &[Listed]) {
    let inputs: Vec<_> = tools.iter().map(|tool| tool.input.to_string()).collect();
    let name_width = tools.iter().map(|tool| tool.name.len()).max().unwrap_or_default();
    let input_width = inputs.iter().map(String::len).max().unwrap_or_default().min(INPUT_WIDTH);
    for (tool, input) in tools.iter().zip(inputs) {
        let first = tool.description.lines().next().unwrap_or_default();
        let shown: String = first.chars().take(DESCRIPTION_WIDTH).collect();
        let more = if shown.len() < first.len() { "…" } else { "" };
        say(format!("{:name_width$}  {input:input_width$}  {shown}{more}", tool.name).trim_end());
    }
}

/// Longer lists of arguments push what follows to the right.
const INPUT_WIDTH: usize = 30;
/// Descriptions are written for models: some are pages long.
const DESCRIPTION_WIDTH: usize = 100;

/// Calls a tool of a running trunkline and prints the result as JSON. One that says `isError` fails.
pub async fn call(origin: &Origin, url: Option<String>, tool: &str, arguments: &str) -> Exit {
    let url = match url.map_or_else(|| endpoint(origin, None), Ok) {
        Ok(url) => url,
        Err(error) => return misused(&error.to_string()),
    };
    let called = async {
        let mut client = Client::connect(&url).await?;
        let result = client.call(tool, arguments, told).await;
        client.close().await;
        result
    };
    match called.await {
        Ok(result) => {
            say(&result);
            let is_error = crate::wire::members(&result, ["isError"]).ok().and_then(|[flag]| flag);
            if is_error.and_then(|span| result.get(span)) == Some("true") { Exit::Failed } else { Exit::Done }
        }
        Err(error @ ClientError::Arguments(_)) => misused(&error.to_string()),
        Err(error) => failed(&error.to_string()),
    }
}

fn told(progress: Progress) {
    let total = progress.total.map(|total| format!("/{total}")).unwrap_or_default();
    complain(format!("{}{total} {}", progress.progress, progress.message.unwrap_or_default()).trim_end());
}

/// Connects to one configured server directly, without a running trunkline, and tells what it is and has.
pub async fn probe(origin: &Origin, name: &str) -> Exit {
    let Some(config) = load(origin) else { return Exit::Misused };
    let Some(server) = config.servers.values().find(|s| s.name.as_str() == name || s.key == name) else {
        let known: Vec<_> = config.servers.keys().map(ServerName::as_str).collect();
        complain(&format!("no server {name} is configured; there are: {}", known.join(", ")));
        return Exit::Misused;
    };
    let dialer = Dialer::new(Sizes::from(&config.limits));
    match try_once(&dialer, server).await {
        Ok((hello, listing)) => {
            say(&format!("{} {}, revision {}", hello.server.name, hello.server.version, hello.revision));
            for tool in listing.of(Feature::Tool) {
                let exposed = server.naming.expose(&tool.name, &server.name).name;
                say(&format!("{}  as {exposed}{}", tool.name, too_long(&exposed)));
            }
            Exit::Done
        }
        Err(failure) => failed(&format!("server {name} {failure}")),
    }
}

/// Claude Code puts `mcp__trunkline__` before a name, and model APIs take 64 characters.
fn too_long(exposed: &str) -> &'static str {
    let taken = "mcp__trunkline__".len() + exposed.len();
    if taken > 64 { "  (too long for clients that add a prefix of their own)" } else { "" }
}

/// Whether a running trunkline answers the probe at `path`.
pub async fn healthcheck(origin: &Origin, path: &str) -> Exit {
    let admin = match origin.addresses() {
        Ok((_, admin)) => admin,
        Err(error) => return misused(&error.to_string()),
    };
    match client::get(&format!("http://{}/{path}", reachable(admin))).await {
        Ok((status, _)) if status.is_success() => Exit::Done,
        Ok((status, text)) => failed(&format!("{path}: HTTP {status}: {}", text.trim())),
        Err(error) => failed(&error.to_string()),
    }
}

fn endpoint(origin: &Origin, view: Option<&str>) -> Result<String, LoadError> {
    let rest = view.map(|view| format!("/{}", ServerName::expose(view))).unwrap_or_default();
    Ok(format!("http://{}/mcp{rest}", reachable(origin.addresses()?.0)))
}

fn load(origin: &Origin) -> Option<Config> {
    origin.load().inspect_err(|error| complain(&error.to_string())).ok().map(|parsed| parsed.config)
}

/// All addresses of a machine are reached by its loopback one.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, bound.port())
}

fn misused(text: &str) -> Exit {
    complain(text);
    Exit::Misused
}

fn failed(text: &str) -> Exit {
    complain(text);
    Exit::Failed
}
