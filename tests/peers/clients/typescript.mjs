// A client on the official TypeScript SDK: `typescript.mjs URL`, `--sse URL` or `--stdio CMD ARGS…`.
// Reads the calls to make, `[{"name", "arguments", "progress"?}]`, from standard input and prints
// `{"tools": […], "calls": [{"name", "result" | "error", "progress"?}]}` as the wire had them.
// SDK=PACKAGE takes another release of the SDK (package.json lists them under aliases).

import { text } from "node:stream/consumers";

const sdk = process.env.SDK ?? "@modelcontextprotocol/sdk";
const { Client } = await import(`${sdk}/client/index.js`);
const { SSEClientTransport } = await import(`${sdk}/client/sse.js`);
const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`);
const { StreamableHTTPClientTransport } = await import(`${sdk}/client/streamableHttp.js`);
// Parsing with the open base schema keeps every field: nothing the SDK does not know is dropped.
const { ResultSchema } = await import(`${sdk}/types.js`);

const [target, command, ...args] = process.argv.slice(2);
const transports = {
  "--stdio": () => new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" }),
  "--sse": () => new SSEClientTransport(new URL(command)),
};
const transport = transports[target]?.() ?? new StreamableHTTPClientTransport(new URL(target));

// The SDK drops a progress that comes in one read with its answer, so the steps are taken off the transport.
let steps = [];
function noteProgress() {
  const deliver = transport.onmessage;
  transport.onmessage = (message, extra) => {
    const { progressToken, ...step } = message.params ?? {};
    if (message.method === "notifications/progress") steps.push(step);
    deliver(message, extra);
  };
}

async function listTools(client) {
  const tools = [];
  let cursor;
  do {
    const page = await client.request({ method: "tools/list", params: cursor ? { cursor } : {} }, ResultSchema);
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor);
  return tools.sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function call(client, { name, arguments: given, progress }) {
  const seen = (steps = []);
  const options = progress ? { onprogress: () => {} } : {};
  const done = { name, ...(progress && { progress: seen }) };
  try {
    const params = { name, ...(given && { arguments: given }) };
    return { ...done, result: await client.request({ method: "tools/call", params }, ResultSchema, options) };
  } catch (error) {
    if (typeof error.code !== "number") throw error;
    return { ...done, error: { code: error.code, message: error.message, data: error.data } };
  }
}

const client = new Client({ name: "typescript-peer", version: "1" });
await client.connect(transport);
noteProgress();
const tools = await listTools(client);
const calls = [];
for (const step of JSON.parse((await text(process.stdin)) || "[]")) calls.push(await call(client, step));
console.log(JSON.stringify({ tools, calls }));
await transport.terminateSession?.();
await client.close();
