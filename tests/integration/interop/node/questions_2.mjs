// The official TypeScript client 2.x is asked: node questions.mjs MODE ANSWERS HANDLERS stdio COMMAND ARGUMENT... | http URL | sse URL
// MODE is "legacy", "auto", a revision to pin, or "legacy:" and the one revision of the handshake era that it speaks;
// ANSWERS and HANDLERS are JSON, of which ANSWERS may be null for a client that cannot be asked. Prints what it saw as one JSON object.

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "client-2";
import { StdioClientTransport } from "client-2/stdio";

import { ask, CAPABILITIES, journey, Person } from "./answers.mjs";
import { transport } from "./journey.mjs";

const TRANSPORTS = {
  Stdio: StdioClientTransport,
  Http: StreamableHTTPClientTransport,
  Sse: SSEClientTransport,
};

const [wanted, answers, handlers, kind, ...target] = process.argv.slice(2);
const [mode, revision] = wanted.split(":");
const person = JSON.parse(answers) && new Person(JSON.parse(answers));

const client = new Client(
  { name: "client-2", version: "2" },
  {
    capabilities: person ? CAPABILITIES : {},
    supportedProtocolVersions: revision && [revision],
    versionNegotiation: { mode: ["legacy", "auto"].includes(mode) ? mode : { pin: mode } },
  },
);
client.onerror = console.error;
if (person) {
  client.setRequestHandler("elicitation/create", (request) => person.elicit(request));
  client.setRequestHandler("sampling/createMessage", (request) => person.sample(request));
  client.setRequestHandler("roots/list", () => person.list());
  client.setNotificationHandler("notifications/elicitation/complete", (message) => person.complete(message));
}

await client.connect(transport(kind, target, TRANSPORTS));
const seen = await journey(JSON.parse(handlers), person, {
  use: (kind, name) => ask(client, kind, name),
  describe: ({ code, message, data }) => ({ code, message, data }),
});
seen.revision = client.getNegotiatedProtocolVersion();
await client.close();
console.log(JSON.stringify(seen));
