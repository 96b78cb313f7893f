// A user of a TypeScript client who logs in: what the client keeps, and the journey that needs a login, then another.
// Prints {"authorize": URL} and reads what came back to the redirect as a line of JSON; then {"seen": ...}.

import { createInterface } from "node:readline/promises";

const lines = createInterface(process.stdin)[Symbol.asyncIterator]();

// KEPT: what an earlier run has kept, `client` and `tokens`; `document`: the URL of a client ID metadata document;
// `grants`: what it registers for.
export class Keeper {
  redirectUrl = "http://127.0.0.1:1/callback";
  #kept;

  constructor({ name, kept }) {
    this.#kept = kept;
    if (kept.document) this.clientMetadataUrl = kept.document;
    this.clientMetadata = {
      client_name: name,
      redirect_uris: [this.redirectUrl],
      grant_types: kept.grants ?? ["authorization_code", "refresh_token"],
      token_endpoint_auth_method: "none",
    };
  }

  get kept() {
    return this.#kept;
  }
  state() {
    return "the state";
  }
  clientInformation() {
    return this.#kept.client;
  }
  saveClientInformation(client) {
    this.#kept.client = client;
  }
  tokens() {
    return this.#kept.tokens;
  }
  saveTokens(tokens) {
    this.#kept.tokens = tokens;
  }
  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }
  codeVerifier() {
    return this.verifier;
  }
  redirectToAuthorization(url) {
    this.request = url;
  }

  // What the browser has brought back.
  async answer() {
    console.log(JSON.stringify({ authorize: this.request }));
    const { value } = await lines.next();
    return new URLSearchParams(JSON.parse(value));
  }
}

// connect gives {client, transport, error}; finish tells a transport what came back; isRefused knows the SDK's error.
export async function journey(keeper, { connect, finish, isRefused, callTool, revision }) {
  let connection = await connect();
  if (connection.error) {
    if (!isRefused(connection.error)) throw connection.error;
    await finish(connection.transport, await keeper.answer());
    connection = await connect();
    if (connection.error) throw connection.error;
  }
  const { client, transport } = connection;

  async function call(name, args = {}) {
    const ask = () => callTool(client, { name, arguments: args });
    return ask().catch(async (error) => {
      if (!isRefused(error)) throw error;
      await finish(transport, await keeper.answer());
      return ask();
    });
  }

  const seen = { revision: revision(client, transport) };
  seen.before = (await call("whoami")).structuredContent;
  seen.added = (await call("add_note", { text: "a" })).content[0].text;
  seen.after = (await call("whoami")).structuredContent;
  await call("add_note", { text: "b" });
  console.log(JSON.stringify({ seen, kept: keeper.kept }));
  await client.close();
  process.exit();
}
