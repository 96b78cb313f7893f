// The official TypeScript client 2.x: node client_2.mjs MODE COMMAND ARGUMENT...
// MODE is "legacy", "auto" or a revision to pin.

import { Client } from "client-2";
import { StdioClientTransport } from "client-2/stdio";

import { journey } from "./journey.mjs";

const [mode, command, ...args] = process.argv.slice(2);
const client = new Client(
  { name: "client-2", version: "2" },
  { versionNegotiation: { mode: ["legacy", "auto"].includes(mode) ? mode : { pin: mode } } },
);
const logs = [];
client.setNotificationHandler("notifications/message", ({ params }) => void logs.push(params));

await client.connect(new StdioClientTransport({ command, args }));
const stateless = client.getProtocolEra() === "modern";
const logLevel = { _meta: { "io.modelcontextprotocol/logLevel": "info" } };
await journey(client, {
  callTool: (params, options) => client.callTool(stateless ? { ...params, ...logLevel } : params, options),
  logs,
  revision: () => client.getNegotiatedProtocolVersion(),
  setLevel: !stateless,
});
