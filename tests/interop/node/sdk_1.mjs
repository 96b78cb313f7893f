// The official TypeScript SDK 1.x: node sdk_1.mjs COMMAND ARGUMENT...

import { Client } from "sdk-1/client/index.js";
import { StdioClientTransport } from "sdk-1/client/stdio.js";
import { LoggingMessageNotificationSchema } from "sdk-1/types.js";

import { journey } from "./journey.mjs";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "sdk-1", version: "1" });
const logs = [];
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void logs.push(params));

let revision;
const transport = new StdioClientTransport({ command, args });
transport.setProtocolVersion = (version) => void (revision = version);
await client.connect(transport);
await journey(client, {
  callTool: (params, options) => client.callTool(params, undefined, options),
  logs,
  revision: () => revision,
  setLevel: true,
});
