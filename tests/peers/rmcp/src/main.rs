//! A client on the official Rust SDK: `trunkline-peer-rmcp URL` or `trunkline-peer-rmcp --stdio CMD ARGS…`.
//! Standard input and output are those of `tests/peers/clients/typescript.mjs`.

use std::io::{Read, Write};

use anyhow::{Context, Result};
use rmcp::model::{CallToolRequestParams, JsonObject};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{Peer, ServiceExt};
use serde_json::{Value, json};

async fn connect(arguments: &[String]) -> Result<RunningService<RoleClient, ()>> {
    match arguments {
        [flag, program, rest @ ..] if flag == "--stdio" => {
            let mut command = tokio::process::Command::new(program);
            command.args(rest);
            let (child, _) =
                TokioChildProcess::builder(command).stderr(std::process::Stdio::null()).spawn()?;
            Ok(().serve(child).await?)
        }
        [url] => Ok(().serve(StreamableHttpClientTransport::from_uri(url.as_str())).await?),
        _ => anyhow::bail!("usage: trunkline-peer-rmcp URL | --stdio CMD ARGS…"),
    }
}

async fn call(peer: &Peer<RoleClient>, step: &Value) -> Result<Value> {
    let name = step.get("name").and_then(Value::as_str).context("a call needs a name")?.to_owned();
    let mut params = CallToolRequestParams::new(name.clone());
    params.arguments =
        step.get("arguments").map(|a| serde_json::from_value::<JsonObject>(a.clone())).transpose()?;
    match peer.call_tool(params).await {
        Ok(result) => Ok(json!({"name": name, "result": result})),
        Err(ServiceError::McpError(error)) => Ok(json!({"name": name, "error": error})),
        Err(other) => Err(other.into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let steps: Vec<Value> = if input.trim().is_empty() { Vec::new() } else { serde_json::from_str(&input)? };

    let service = connect(&arguments).await?;
    let mut tools = service.list_all_tools().await?;
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    let mut calls = Vec::new();
    for step in &steps {
        calls.push(call(&service, step).await?);
    }
    writeln!(std::io::stdout(), "{}", json!({"tools": tools, "calls": calls}))?;
    service.cancel().await?;
    Ok(())
}
