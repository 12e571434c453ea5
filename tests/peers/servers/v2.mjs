// A server on the TypeScript SDK 2.x (2026-07-28): `v2.mjs` over stdio, `v2.mjs PORT` over HTTP. Older clients are refused.

import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { McpServer, createMcpHandler, inputRequired } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";
import { NOTE, QUESTIONS, form, sampling, says, text, work } from "./offer.mjs";

// Needs one answer and says it.
const asks = (name, request) => (ctx) => {
  const answer = ctx.mcpReq.inputResponses?.[name];
  return answer ? text(says[name](answer)) : inputRequired({ inputRequests: { [name]: request } });
};

function build() {
  const server = new McpServer({ name: "v2", version: "1" }, { capabilities: { logging: {} } });
  server.registerTool("echo", { description: "Says it back", inputSchema: z.object({ words: z.string() }) }, ({ words }) => text(words));
  server.registerTool("work", { description: "Takes three steps" }, (ctx) =>
    work(ctx.mcpReq._meta?.progressToken, ctx.mcpReq.notify, ({ level, data, logger }) => ctx.mcpReq.log(level, data, logger)),
  );
  server.registerTool("fail", { description: "Fails" }, () => {
    throw new Error("failed on purpose");
  });
  const question = inputRequired.elicit({ message: QUESTIONS.confirm.message, requestedSchema: form });
  server.registerTool("confirm", { description: "Asks the user" }, asks("confirm", question));
  server.registerTool("think", { description: "Asks the model" }, asks("think", inputRequired.createMessage(sampling)));
  server.registerTool("where", { description: "Asks for the roots" }, asks("where", inputRequired.listRoots()));
  server.registerResource("first", NOTE, { description: "A note", mimeType: "text/plain" }, (uri) => ({
    contents: [{ uri: uri.href, mimeType: "text/plain", text: "noted" }],
  }));
  server.registerPrompt("greet", { description: "Greets", argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Hello, ${name}!` } }],
  }));
  return server;
}

const port = process.argv[2];
if (port) createServer(toNodeHandler(createMcpHandler(build, { legacy: "reject" }))).listen(Number(port), "127.0.0.1");
else serveStdio(build, { legacy: "reject" });
