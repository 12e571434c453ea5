//! What a person sees at the start: where it is, and how to use it.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use crate::config::Config;

/// Tells on standard output; a closed one is no reason to end.
pub(super) fn print(bound: SocketAddr, admin: SocketAddr, file: Option<&Path>, config: &Config) {
    drop(std::io::stdout().lock().write_all(text(bound, admin, file, config).as_bytes()));
}

fn text(bound: SocketAddr, admin: SocketAddr, file: Option<&Path>, config: &Config) -> String {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{bound}/mcp");
    let source = match file {
        Some(file) => format!("{} (saved changes are taken over)", file.display()),
        None => format!("built in, since there is no {}", super::load::DEFAULT),
    };
    let mut program = std::env::args().next().unwrap_or_else(|| "trunkline".into());
    if let Some(file) = file.filter(|file| *file != Path::new(super::load::DEFAULT)) {
        program = format!("{program} --config {}", file.display());
    }
    let call = if config.servers.contains_key("demo") {
        "echo_mcp_demo '{\"text\": \"hello\"}'"
    } else {
        "TOOL '{\"some\": \"argument\"}'"
    };
    let server = config.servers.keys().next().map_or("SERVER", |name| name.as_str());
    format!(
        r#"
trunkline  {url}
status     http://{admin}/status
config     {source}

Try it     {program} tools
           {program} call {call}

Claude Code          claude mcp add --transport http trunkline {url}
Cursor  mcp.json     {{"mcpServers": {{"trunkline": {{"url": "{url}"}}}}}}
VS Code mcp.json     {{"servers": {{"trunkline": {{"type": "http", "url": "{url}"}}}}}}
LibreChat            mcpServers:          # one entry a server: LibreChat adds the server's name itself
                       {server}:
                         type: streamable-http
                         url: {url}/{server}

"#
    )
}
