// The official TypeScript SDK 1.x: node sdk_1.mjs stdio COMMAND ARGUMENT... | http URL | sse URL

import { Client } from "sdk-1/client/index.js";
import { SSEClientTransport } from "sdk-1/client/sse.js";
import { StdioClientTransport } from "sdk-1/client/stdio.js";
import { StreamableHTTPClientTransport } from "sdk-1/client/streamableHttp.js";
import {
  EmptyResultSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "sdk-1/types.js";

import { journey, transport } from "./journey.mjs";

const SCHEMAS = {
  "notifications/message": LoggingMessageNotificationSchema,
  "notifications/resources/updated": ResourceUpdatedNotificationSchema,
  "notifications/tools/list_changed": ToolListChangedNotificationSchema,
};
const TRANSPORTS = {
  Stdio: StdioClientTransport,
  Http: StreamableHTTPClientTransport,
  Sse: SSEClientTransport,
};

const [kind, ...target] = process.argv.slice(2);
const client = new Client({ name: "sdk-1", version: "1" });
client.onerror = console.error;

const connection = transport(kind, target, TRANSPORTS);
const setProtocolVersion = connection.setProtocolVersion?.bind(connection);
let revision;
connection.setProtocolVersion = (version) => {
  revision = version;
  setProtocolVersion?.(version);
};
await client.connect(connection);
await journey(client, {
  callTool: (params, options) => client.callTool(params, undefined, options),
  on: (method, handler) => client.setNotificationHandler(SCHEMAS[method], handler),
  request: (method) => client.request({ method }, EmptyResultSchema),
  revision: () => revision,
  setLevel: true,
  watch: async (uri) => {
    await client.subscribeResource({ uri });
    return () => client.unsubscribeResource({ uri });
  },
});
