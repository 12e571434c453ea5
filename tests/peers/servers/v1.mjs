// A server on the TypeScript SDK 1.x (2025-11-25): `v1.mjs` over stdio, `v1.mjs PORT` over HTTP with sessions.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import * as z from "zod";
import { NOTE, QUESTIONS, form, sampling, says, text, work } from "./offer.mjs";

function build() {
  const server = new McpServer({ name: "v1", version: "1" }, { capabilities: { logging: {} } });
  const peer = server.server;
  const related = (extra) => ({ relatedRequestId: extra.requestId });
  server.registerTool("echo", { description: "Says it back", inputSchema: { words: z.string() } }, ({ words }) => text(words));
  server.registerTool("work", { description: "Takes three steps" }, (extra) =>
    work(extra._meta?.progressToken, extra.sendNotification, (params) =>
      extra.sendNotification({ method: "notifications/message", params }),
    ),
  );
  server.registerTool("fail", { description: "Fails" }, () => {
    throw new Error("failed on purpose");
  });
  server.registerTool("confirm", { description: "Asks the user" }, async (extra) =>
    text(says.confirm(await peer.elicitInput({ message: QUESTIONS.confirm.message, requestedSchema: form }, related(extra)))),
  );
  server.registerTool("think", { description: "Asks the model" }, async (extra) =>
    text(says.think(await peer.createMessage(sampling, related(extra)))),
  );
  server.registerTool("where", { description: "Asks for the roots" }, async (extra) =>
    text(says.where(await peer.listRoots(undefined, related(extra)))),
  );
  server.registerResource("first", NOTE, { description: "A note", mimeType: "text/plain" }, (uri) => ({
    contents: [{ uri: uri.href, mimeType: "text/plain", text: "noted" }],
  }));
  server.registerPrompt("greet", { description: "Greets", argsSchema: { name: z.string() } }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Hello, ${name}!` } }],
  }));
  return server;
}

async function overHttp(port) {
  const sessions = new Map();
  createServer(async (request, response) => {
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (!transport) {
      if (request.headers["mcp-session-id"]) return response.writeHead(404).end();
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
        onsessionclosed: (id) => sessions.delete(id),
      });
      await build().connect(transport);
    }
    await transport.handleRequest(request, response);
  }).listen(port, "127.0.0.1");
}

const port = process.argv[2];
if (port) await overHttp(Number(port));
else await build().connect(new StdioServerTransport());
