//! A client on the official Rust SDK that can be asked everything: `trunkline-peer-eras legacy|modern URL`.
//! Standard input and output are those of `tests/peers/clients/eras.mjs`.
#![expect(deprecated, reason = "sampling, roots and logging are what it is asked for")]

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, ClientConfig, ClientInfo, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ErrorData, GetPromptRequestParams, ListRootsResult,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams,
    SetLevelRequestParams,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RoleClient, RunningService,
    ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Answers what it is asked and notes it, by what: `asked`, `logs`, `progress`.
#[derive(Debug, Clone, Default)]
struct Peer {
    seen: Arc<Mutex<HashMap<&'static str, Vec<Value>>>>,
}

impl Peer {
    fn note(&self, what: &'static str, value: Value) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default().push(value);
    }

    /// What was noted since the last time.
    fn take(&self) -> HashMap<&'static str, Vec<Value>> {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer<T: DeserializeOwned>(&self, method: &str, answer: Value) -> Result<T, ErrorData> {
        self.note("asked", json!(method));
        serde_json::from_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

impl ClientHandler for Peer {
    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let content = json!({ "type": "text", "text": "two" });
        self.answer(
            "sampling/createMessage",
            json!({ "role": "assistant", "model": "ours", "content": content }),
        )
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.answer("roots/list", json!({ "roots": [{ "uri": "file:///ours" }] }))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.answer("elicitation/create", json!({ "action": "accept", "content": { "sure": true } }))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.note("progress", json!(params.progress));
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.note("logs", params.data);
    }

    fn get_info(&self) -> ClientConfig {
        let info = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "sampling": {}, "elicitation": { "form": {} }, "roots": {} },
            "clientInfo": { "name": "eras-peer", "version": "1" },
        });
        serde_json::from_value::<ClientInfo>(info).unwrap_or_default()
    }
}

/// All text of a result.
fn words(result: &Value) -> String {
    let blocks = ["content", "contents"].into_iter().filter_map(|key| result[key].as_array()).flatten();
    let messages = result["messages"].as_array().into_iter().flatten().map(|message| &message["content"]);
    blocks.chain(messages).filter_map(|block| block["text"].as_str()).collect()
}

async fn step(service: &RunningService<RoleClient, Peer>, mut step: Value, modern: bool) -> Result<Value> {
    let deed = step["do"].as_str().context("a step needs a deed")?.to_owned();
    let result = match &*deed {
        "call" => {
            if modern {
                step["_meta"] = json!({ LEVEL: "info" });
            }
            let params: CallToolRequestParams = serde_json::from_value(step)?;
            service.call_tool(params).await.map(|result| json!(result))
        }
        "read" => {
            let params: ReadResourceRequestParams = serde_json::from_value(step)?;
            service.read_resource(params).await.map(|result| json!(result))
        }
        _ => {
            let params: GetPromptRequestParams = serde_json::from_value(step)?;
            service.get_prompt(params).await.map(|result| json!(result))
        }
    };
    match result {
        Ok(result) => Ok(json!({ "text": words(&result), "failed": result["isError"] == true })),
        Err(ServiceError::McpError(error)) => Ok(json!({ "error": error.code.0 })),
        Err(other) => Err(other.into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (era, url) = (arguments.next().unwrap_or_default(), arguments.next().context("a URL is needed")?);
    let modern = era == "modern";
    let lifecycle = if modern {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
    } else {
        ClientLifecycleMode::Initialize
    };
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let peer = Peer::default();
    let transport = StreamableHttpClientTransport::from_uri(&*url);
    let service = peer.clone().serve_with_lifecycle(transport, lifecycle).await?;
    if !modern {
        service
            .set_level(serde_json::from_value::<SetLevelRequestParams>(json!({ "level": "info" }))?)
            .await?;
    }
    let revision = service.peer_info().map(|info| info.protocol_version.to_string());
    let names: Vec<_> = service.list_all_tools().await?.into_iter().map(|tool| tool.name).collect();
    let mut steps = Vec::new();
    for asked in serde_json::from_str::<Vec<Value>>(&input)? {
        let progress = asked["progress"] == true;
        peer.take();
        let mut done = step(&service, asked, modern).await?;
        let mut seen = peer.take();
        for what in ["progress", "logs", "asked"] {
            // The SDK asks for progress in every call.
            let noted = seen.remove(what).filter(|_| progress || what != "progress");
            done[what] = json!(noted.unwrap_or_default());
        }
        steps.push(done);
    }
    writeln!(std::io::stdout(), "{}", json!({ "revision": revision, "tools": names, "steps": steps }))?;
    service.cancel().await?;
    Ok(())
}
