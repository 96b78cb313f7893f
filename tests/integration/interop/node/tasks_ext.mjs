// The requester of @modelcontextprotocol/ext-tasks: node tasks_ext.mjs MODE JOURNEY stdio COMMAND ARGUMENT... | http URL TOKEN
// MODE is "legacy" for the tasks of 2025-11-25, or the revision to pin. Prints what it saw as one JSON object.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createTaskSessionFromClient, toolDeclarationFromMcpTool } from "@modelcontextprotocol/ext-tasks/client";

import { Person, refusal, told, transport } from "./tasks_user.mjs";

const [mode, journey, kind, ...target] = process.argv.slice(2);
const { answers, calls } = JSON.parse(journey);
const person = new Person(answers);

const clientInfo = { name: "ext-tasks", version: "0.2.2" };
const clientCapabilities = { elicitation: { form: {} } };
const versionNegotiation = { mode: mode === "legacy" ? mode : { pin: mode } };
const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation });
client.onerror = console.error;
const connection = transport(kind, target, { Stdio: StdioClientTransport, Http: StreamableHTTPClientTransport });
await client.connect(connection);

// The client of 2.x refuses results of the type "task", so that whoever wants them sends the requests past it.
const waiting = new Map();
const hear = connection.onmessage;
connection.onmessage = (message, extra) => {
  const resolve = waiting.get(message.id);
  if (resolve === undefined || "method" in message) return hear(message, extra);
  waiting.delete(message.id);
  const { error, result } = message;
  resolve(error === undefined ? { kind: "result", result } : { kind: "error", error });
};
let count = 0;
function rawDispatch(request, { context } = {}) {
  const id = `ext-${++count}`;
  return new Promise((resolve, reject) => {
    waiting.set(id, resolve);
    connection.send({ jsonrpc: "2.0", id, ...request }, { headers: context?.headers }).catch(reject);
  });
}

const session = createTaskSessionFromClient(client, {
  endpointId: "tests",
  onError: console.error,
  onInputRequest: ({ kind, params }) => {
    if (kind !== "elicitation") throw new Error(`nobody asks for ${kind} here`);
    return person.elicit({ params });
  },
  ...(mode === "legacy" ? {} : { rawDispatch, v2RequestFraming: { protocolVersion: mode, clientInfo, clientCapabilities } }),
});
const task = { preference: "prefer", retentionMs: 60_000 };
const { tools } = await client.listTools();
const declared = (name) => toolDeclarationFromMcpTool(tools.find((tool) => tool.name === name));
const seen = { calls: {}, revision: client.getNegotiatedProtocolVersion() };
seen.capabilities = session.capabilities;
seen.support = Object.fromEntries(tools.map(({ name, execution }) => [name, execution?.taskSupport ?? null]));

for (const [name, args] of Object.entries(calls)) {
  const execution = await session.callTool(name, args, { declaration: declared(name), task });
  const { outcome, lastTask } = await execution.settle();
  const call = { asked: person.take(), status: execution.kind === "task" ? (lastTask?.status ?? outcome.status) : null };
  if (outcome.status === "completed") Object.assign(call, told(outcome.result));
  else call.error = { ...refusal(outcome.error), message: outcome.error.message };
  seen.calls[name] = call;
}

// One that is cancelled; and what becomes of its record.
const held = await session.callTool("hold", {}, { declaration: declared("hold"), task });
const { taskId } = held.handle;
seen.created = (await session.task(taskId).snapshot()).status;
await session.cancelTask(taskId);
const stopped = await session.callTool("was_stopped", {}, { task });
seen.stopped = told((await stopped.settle()).outcome.result).text;
seen.cancelled = (await session.task(taskId).snapshot()).status;
seen.again = await session.task(taskId).cancel().then(() => "acknowledged", refusal);
seen.unknown = await session.task("nobody-has-seen-this").snapshot().catch(refusal);

await session.close();
await client.close();
console.log(JSON.stringify(seen));
