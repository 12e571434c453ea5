// A client on the TypeScript SDK that can be asked everything: `eras.mjs v1|v2 URL`. Reads steps from standard input,
// `[{"do": "call" | "read" | "prompt", …its params, "progress"?}]`, and prints
// `{"revision", "tools": […], "steps": [{"text", "failed" | "error", "progress", "logs", "asked"}]}`.

import { text } from "node:stream/consumers";

const [version, target] = process.argv.slice(2);
const capabilities = { sampling: {}, elicitation: { form: {} }, roots: {} };
const info = { name: "eras-peer", version: "1" };

// The two releases name the same things differently.
async function old() {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const types = await import("@modelcontextprotocol/sdk/types.js");
  const schemas = {
    "elicitation/create": types.ElicitRequestSchema,
    "sampling/createMessage": types.CreateMessageRequestSchema,
    "roots/list": types.ListRootsRequestSchema,
  };
  const client = new Client(info, { capabilities });
  return {
    client,
    transport: new StreamableHTTPClientTransport(new URL(target)),
    answer: (method, handler) => client.setRequestHandler(schemas[method], handler),
    logged: (handler) => client.setNotificationHandler(types.LoggingMessageNotificationSchema, handler),
    call: (params, options) => client.callTool(params, undefined, options),
    level: () => client.setLoggingLevel("info"),
    revision: (transport) => transport.protocolVersion,
    meta: {},
  };
}

async function modern() {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const client = new Client(info, { capabilities, versionNegotiation: { mode: "auto" } });
  return {
    client,
    transport: new StreamableHTTPClientTransport(new URL(target)),
    answer: (method, handler) => client.setRequestHandler(method, handler),
    logged: (handler) => client.setNotificationHandler("notifications/message", handler),
    call: (params, options) => client.callTool(params, options),
    level: () => {},
    revision: () => client.getNegotiatedProtocolVersion(),
    meta: { "io.modelcontextprotocol/logLevel": "info" },
  };
}

const { client, transport, answer, logged, call, level, revision, meta } = await { v1: old, v2: modern }[version]();
let seen;
const note = (method, result) =>
  answer(method, () => {
    seen.asked.push(method);
    return result;
  });
note("elicitation/create", { action: "accept", content: { sure: true } });
note("sampling/createMessage", { role: "assistant", model: "ours", content: { type: "text", text: "two" } });
note("roots/list", { roots: [{ uri: "file:///ours" }] });
logged(({ params }) => seen.logs.push(params.data));

const deeds = {
  call: ({ progress, ...params }) =>
    call({ ...params, _meta: meta }, progress ? { onprogress: (step) => seen.progress.push(step.progress) } : {}),
  read: (params) => client.readResource(params),
  prompt: (params) => client.getPrompt(params),
};
const words = ({ content, contents, messages }) =>
  [...(content ?? []), ...(contents ?? []), ...(messages ?? []).map((message) => message.content)].map(({ text }) => text).join("");

await client.connect(transport);
await level();
const { tools } = await client.listTools();
const steps = [];
for (const { do: deed, ...params } of JSON.parse(await text(process.stdin))) {
  seen = { progress: [], logs: [], asked: [] };
  try {
    const result = await deeds[deed](params);
    steps.push({ text: words(result), failed: result.isError ?? false, ...seen });
  } catch (error) {
    if (typeof error.code !== "number") throw error;
    steps.push({ error: error.code, ...seen });
  }
}
console.log(JSON.stringify({ revision: revision(transport), tools: tools.map(({ name }) => name), steps }));
await transport.terminateSession?.();
await client.close();
