// The official TypeScript client 2.x: node client_2.mjs MODE stdio COMMAND ARGUMENT... | http URL | sse URL
// MODE is "legacy", "auto" or a revision to pin.

import { Client, specTypeSchemas, SSEClientTransport, StreamableHTTPClientTransport } from "client-2";
import { StdioClientTransport } from "client-2/stdio";

import { journey, transport } from "./journey.mjs";

const TRANSPORTS = {
  Stdio: StdioClientTransport,
  Http: StreamableHTTPClientTransport,
  Sse: SSEClientTransport,
};

const [mode, kind, ...target] = process.argv.slice(2);
const client = new Client(
  { name: "client-2", version: "2" },
  { versionNegotiation: { mode: ["legacy", "auto"].includes(mode) ? mode : { pin: mode } } },
);
client.onerror = console.error;

await client.connect(transport(kind, target, TRANSPORTS));
const stateless = client.getProtocolEra() === "modern";
const logLevel = { _meta: { "io.modelcontextprotocol/logLevel": "info" } };

async function subscribe(uri) {
  await client.subscribeResource({ uri });
  return () => client.unsubscribeResource({ uri });
}

async function listen(uri) {
  const subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
  return () => subscription.close();
}

// This client reads the error of a 400 alone; of a 404, which the revision asks for here, it keeps the text.
function unread(error) {
  throw error.status === 404 ? JSON.parse(error.data.text).error : error;
}

await journey(client, {
  callTool: (params, options) => client.callTool(stateless ? { ...params, ...logLevel } : params, options),
  on: (method, handler) => client.setNotificationHandler(method, handler),
  request: (method) => client.request({ method }, specTypeSchemas.EmptyResult).catch(unread),
  revision: () => client.getNegotiatedProtocolVersion(),
  setLevel: !stateless,
  watch: stateless ? listen : subscribe,
});
