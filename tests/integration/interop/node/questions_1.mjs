// The official TypeScript SDK 1.x is asked: node questions_1.mjs ANSWERS HANDLERS stdio COMMAND ARGUMENT... | http URL | sse URL
// ANSWERS and HANDLERS are as for questions_2.mjs. Prints what it saw as one JSON object.

import { Client } from "sdk-1/client/index.js";
import { SSEClientTransport } from "sdk-1/client/sse.js";
import { StdioClientTransport } from "sdk-1/client/stdio.js";
import { StreamableHTTPClientTransport } from "sdk-1/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitationCompleteNotificationSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "sdk-1/types.js";

import { ask, CAPABILITIES, journey, Person } from "./answers.mjs";
import { transport } from "./journey.mjs";

const TRANSPORTS = {
  Stdio: StdioClientTransport,
  Http: StreamableHTTPClientTransport,
  Sse: SSEClientTransport,
};

const [answers, handlers, kind, ...target] = process.argv.slice(2);
const person = JSON.parse(answers) && new Person(JSON.parse(answers));

const client = new Client({ name: "sdk-1", version: "1" }, { capabilities: person ? CAPABILITIES : {} });
client.onerror = console.error;
if (person) {
  client.setRequestHandler(ElicitRequestSchema, (request) => person.elicit(request));
  client.setRequestHandler(CreateMessageRequestSchema, (request) => person.sample(request));
  client.setRequestHandler(ListRootsRequestSchema, () => person.list());
  client.setNotificationHandler(ElicitationCompleteNotificationSchema, (message) => person.complete(message));
}

const connection = transport(kind, target, TRANSPORTS);
const setProtocolVersion = connection.setProtocolVersion?.bind(connection);
let revision;
connection.setProtocolVersion = (version) => {
  revision = version;
  setProtocolVersion?.(version);
};
await client.connect(connection);
const seen = await journey(JSON.parse(handlers), person, {
  use: (kind, name) => ask(client, kind, name),
  describe: ({ code, message, data }) => ({ code, message, data }),
});
seen.revision = revision;
await client.close();
console.log(JSON.stringify(seen));
