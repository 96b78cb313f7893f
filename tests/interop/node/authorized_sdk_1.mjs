// The official TypeScript SDK 1.x, which logs in: node authorized_sdk_1.mjs KEPT URL (KEPT see authorization.mjs)

import { UnauthorizedError } from "sdk-1/client/auth.js";
import { Client } from "sdk-1/client/index.js";
import { StreamableHTTPClientTransport } from "sdk-1/client/streamableHttp.js";

import { journey, Keeper } from "./authorization.mjs";

const [kept, url] = process.argv.slice(2);
const keeper = new Keeper({ name: "sdk-1", kept: JSON.parse(kept) });

async function connect() {
  const client = new Client({ name: "sdk-1", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: keeper });
  const error = await client.connect(transport).then(() => null, (error) => error);
  return { client, transport, error };
}

await journey(keeper, {
  connect,
  finish: (transport, answer) => transport.finishAuth(answer.get("code")),
  isRefused: (error) => error instanceof UnauthorizedError,
  callTool: (client, params) => client.callTool(params),
  revision: (_, transport) => transport.protocolVersion,
});
