// Every tool of server-everything, with a client that can do all that a client can: `all_tools.mjs URL` or
// `all_tools.mjs --stdio CMD ARGS…`. Prints what was listed, what each call gave and what the server asked meanwhile.
// SUFFIX=_mcp_NAME tells how the tools' names end there.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks";
import * as types from "@modelcontextprotocol/sdk/types.js";

const suffix = process.env.SUFFIX ?? "";
const [target, command, ...args] = process.argv.slice(2);
const transport =
  target === "--stdio"
    ? new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" })
    : new StreamableHTTPClientTransport(new URL(target));

const taskStore = new InMemoryTaskStore();
const client = new Client(
  { name: "all-tools", version: "1" },
  {
    capabilities: {
      roots: { listChanged: true },
      sampling: {},
      elicitation: { form: {}, url: {} },
      tasks: { list: {}, cancel: {}, requests: { sampling: { createMessage: {} }, elicitation: { create: {} } } },
    },
    taskStore,
    taskMessageQueue: new InMemoryTaskMessageQueue(),
  },
);

// What the server asks, as the client's answers show that it arrived; a request with `task` is answered by a task.
let asked = [];
function handle(schema, answer) {
  client.setRequestHandler(schema, async (request, extra) => {
    const { method, params } = request;
    // Roots are asked for a while after the server was greeted, whatever runs then.
    if (method !== "roots/list") asked.push([method, params?.mode ?? null, params?.task ? "task" : "plain"]);
    if (!params?.task) return answer(request);
    const task = await extra.taskStore.createTask({ ttl: params.task.ttl, pollInterval: 100 });
    await extra.taskStore.storeTaskResult(task.taskId, "completed", answer(request));
    return { task };
  });
}
const tag = process.env.TAG ?? "client";
handle(types.CreateMessageRequestSchema, ({ params }) => ({
  role: "assistant",
  model: "a-model",
  content: { type: "text", text: `${tag} sampled: ${params.messages[0].content.text}` },
}));
handle(types.ElicitRequestSchema, ({ params }) =>
  params.mode === "url"
    ? { action: "accept" }
    : { action: "accept", content: { name: tag, check: true, interpretation: "historical" } },
);
handle(types.ListRootsRequestSchema, () => ({ roots: [{ uri: "file:///tmp/roots", name: tag }] }));

// Notifications are counted by a promise per kind: nothing here waits for a time to pass.
const arrived = {};
function awaiting(schema, method) {
  arrived[method] = new Promise((resolve) => client.setNotificationHandler(schema, ({ params }) => resolve(params)));
}
awaiting(types.ResourceUpdatedNotificationSchema, "notifications/resources/updated");
awaiting(types.LoggingMessageNotificationSchema, "notifications/message");

const CALLS = {
  echo: { message: "hello" },
  "get-annotated-message": { messageType: "success", includeImage: false },
  "get-env": {},
  "get-resource-links": { count: 3 },
  "get-resource-reference": { resourceType: "Text", resourceId: 7 },
  "get-structured-content": { location: "Los Angeles" },
  "get-sum": { a: 20, b: 22 },
  "get-tiny-image": {},
  "gzip-file-as-resource": { name: "a.gz", data: "data:text/plain;base64,aGVsbG8=", outputType: "resourceLink" },
  "toggle-simulated-logging": {},
  "toggle-subscriber-updates": {},
  "trigger-long-running-operation": { duration: 0.2, steps: 2 },
  "get-roots-list": {},
  "trigger-elicitation-request": {},
  "trigger-elicitation-request-async": {},
  "trigger-url-elicitation": { url: "https://example.test/page", message: "please", elicitationId: "e-1" },
  "trigger-sampling-request": { prompt: "what?", maxTokens: 9 },
  "trigger-sampling-request-async": { prompt: "later?", maxTokens: 9 },
  "simulate-research-query": { topic: "lines" },
};

async function call(name, given) {
  const params = { name: name + suffix, arguments: given };
  if (name !== "simulate-research-query") {
    return client.request({ method: "tools/call", params }, types.ResultSchema, { timeout: 30_000 });
  }
  const steps = [];
  const stream = client.experimental.tasks.callToolStream(params, types.CallToolResultSchema, { task: { ttl: 60_000 } });
  for await (const step of stream) {
    if (step.type === "result") return { ...step.result, steps: [...new Set(steps)] };
    if (step.type === "error") throw step.error;
    steps.push(step.type);
  }
}

await client.connect(transport);
// The server adds the tools that depend on the client once it has read `initialized`; a list that came before is stale.
await client.ping();
const URI = "demo://resource/dynamic/text/1";
await client.subscribeResource({ uri: URI });
const { tools } = await client.listTools();
const names = tools.map(({ name }) => name).filter((name) => name.endsWith(suffix));
const listed = names.map((name) => name.slice(0, name.length - suffix.length)).sort();
const calls = {};
for (const name of listed) {
  asked = [];
  try {
    calls[name] = { result: await call(name, CALLS[name] ?? {}), asked };
  } catch (error) {
    calls[name] = { error: { code: error.code, message: error.message }, asked };
  }
}
const link = calls["gzip-file-as-resource"]?.result?.content?.find(({ type }) => type === "resource_link");
const read = link && (await client.readResource({ uri: link.uri })).contents.length;
// A server with sessions sends its simulated updates to the session that toggled them, which subscribed elsewhere.
const updated = process.env.NO_UPDATES ? null : await arrived["notifications/resources/updated"];
await client.unsubscribeResource({ uri: URI });
const logged = (await arrived["notifications/message"]) !== undefined;
await call("toggle-simulated-logging", {});
await call("toggle-subscriber-updates", {});
console.log(JSON.stringify({ tools: listed, calls, read, updated, logged }));
await transport.terminateSession?.();
await client.close();
taskStore.cleanup();
