//! What a person sees at the start: where it is, and how to use it.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

/// Tells on standard output; a closed one is no reason to end.
pub(super) fn print(bound: SocketAddr, admin: SocketAddr, file: Option<&Path>) {
    drop(std::io::stdout().lock().write_all(text(bound, admin, file).as_bytes()));
}

fn text(bound: SocketAddr, admin: SocketAddr, file: Option<&Path>) -> String {
    let url = format!("http://{bound}/mcp");
    let source = match file {
        Some(file) => format!("{} (saved changes are taken over)", file.display()),
        None => format!("built in, since there is no {}", super::load::DEFAULT),
    };
    let program = std::env::args().next().unwrap_or_else(|| "trunkline".into());
    format!(
        r#"
trunkline  {url}
status     http://{admin}/status
config     {source}

Try it     {program} tools
           {program} call echo_mcp_demo '{{"text": "hello"}}'

Claude Code          claude mcp add --transport http trunkline {url}
Cursor  mcp.json     {{"mcpServers": {{"trunkline": {{"url": "{url}"}}}}}}
VS Code mcp.json     {{"servers": {{"trunkline": {{"type": "http", "url": "{url}"}}}}}}
LibreChat            mcpServers:
                       trunkline:
                         type: streamable-http
                         url: {url}

"#
    )
}
