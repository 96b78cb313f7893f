// The official TypeScript client 2.x, which logs in: node authorized_client_2.mjs KEPT URL MODE
// MODE is "legacy", "auto" or a revision to pin; KEPT see authorization.mjs.

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "client-2";

import { journey, Keeper } from "./authorization.mjs";

const [kept, url, mode] = process.argv.slice(2);
const keeper = new Keeper({ name: "client-2", kept: JSON.parse(kept) });
const versionNegotiation = { mode: ["legacy", "auto"].includes(mode) ? mode : { pin: mode } };

async function connect() {
  const client = new Client({ name: "client-2", version: "2" }, { versionNegotiation });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: keeper });
  const error = await client.connect(transport).then(() => null, (error) => error);
  return { client, transport, error };
}

await journey(keeper, {
  connect,
  finish: (transport, answer) => transport.finishAuth(answer),
  isRefused: (error) => error instanceof UnauthorizedError || error.cause instanceof UnauthorizedError,
  callTool: (client, params) => client.callTool(params),
  revision: (client) => client.getNegotiatedProtocolVersion(),
});
