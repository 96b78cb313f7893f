// An authorization server as MCP wants it: oidc-provider, with users who log in and consent in a browser.
// node identity_provider.mjs SETTINGS, a JSON object; what is in it says `IdentityProvider` in identity_provider.py.
// A line of its input is {id, order, details}; each is answered by {id, value} or {id, error}. It ends with its input.

import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { json, text } from "node:stream/consumers";
import { createInterface } from "node:readline";

import { Provider } from "oidc-provider";

console.info = console.error; // the provider's notices: standard output is for answers

const settings = JSON.parse(process.argv[2]);
const scopes = Object.keys(settings.scopes);
const requests = [];
const stored = new Map();
let keys = [newKeys()];
let down = null;
let provider;

function newKeys() {
  const pairs = [
    generateKeyPairSync("rsa", { modulusLength: 2048 }),
    generateKeyPairSync("ec", { namedCurve: "P-256" }),
    generateKeyPairSync("ed25519"),
  ];
  return pairs.map(({ privateKey }) => ({ ...privateKey.export({ format: "jwk" }), kid: randomUUID() }));
}

// What the provider keeps, which outlives a change of its keys.
class Stored {
  constructor(model) {
    this.of = (id) => `${model}:${id}`;
  }
  async find(id) {
    return stored.get(this.of(id));
  }
  async findByUid(uid) {
    return [...stored.values()].find((each) => each.uid === uid && each.kind === "Session");
  }
  async upsert(id, payload) {
    stored.set(this.of(id), payload);
  }
  async consume(id) {
    stored.get(this.of(id)).consumed = Math.floor(Date.now() / 1000);
  }
  async destroy(id) {
    stored.delete(this.of(id));
  }
  async revokeByGrantId(grantId) {
    for (const [key, each] of stored) if (each.grantId === grantId) stored.delete(key);
  }
}

const resourceServer = (resource) => ({
  audience: resource,
  scope: scopes.join(" "),
  accessTokenFormat: settings.opaque ? "opaque" : "jwt",
  accessTokenTTL: settings.token_seconds,
  jwt: { sign: { alg: settings.algorithm } },
});

function newProvider() {
  const made = new Provider(settings.issuer, {
    adapter: Stored,
    claims: { openid: ["sub"], ...settings.identity_claims },
    clients: settings.clients,
    cookies: { keys: ["cookies"] },
    enabledJWA: { dPoPSigningAlgValues: ["ES256", "EdDSA"] },
    expiresWithSession: () => false,
    extraTokenClaims: (_, token) => settings.users[token.accountId],
    fetch: async (url) => {
      const document = settings.documents[url];
      return document ? Response.json(document) : new Response("", { status: 404 });
    },
    features: {
      claimsParameter: { enabled: true },
      clientCredentials: { enabled: true },
      clientIdMetadataDocument: { enabled: settings.reads_documents, ack: "draft-02" },
      devInteractions: { enabled: false },
      dPoP: {
        enabled: true,
        ...(settings.dpop_nonces && { nonceSecret: Buffer.alloc(32, 7), requireNonce: () => true }),
      },
      introspection: { enabled: true },
      registration: { enabled: settings.registers },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        getResourceServerInfo: (_, resource) => resourceServer(resource),
        useGrantedResource: () => true,
      },
      revocation: { enabled: true },
    },
    findAccount: (_, id) =>
      id in settings.users && { accountId: id, claims: () => ({ sub: id, ...settings.users[id] }) },
    interactions: { url: (_, { uid }) => `${new URL(settings.issuer).pathname.replace(/\/$/, "")}/interaction/${uid}` },
    issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
    jwks: { keys: keys.flat() },
    pkce: { required: () => true },
    rotateRefreshToken: true,
    scopes: ["openid", "offline_access", ...scopes],
    ttl: {
      AccessToken: settings.token_seconds,
      ClientCredentials: settings.token_seconds,
      Grant: 86400,
      Interaction: 3600,
      Session: 86400,
    },
  });
  made.use(record);
  made.use(register);
  made.use(interact);
  return made;
}

async function record(ctx, next) {
  await next();
  const { method, path, status } = ctx;
  const said = ctx.body?.constructor === Object ? ctx.body : {};
  requests.push({ method, path, status, params: { ...ctx.query, ...ctx.oidc?.body }, error: said.error ?? null, said });
}

// A client may have every scope, whichever it has registered with: what it gets is for the user to say.
async function register(ctx, next) {
  if (ctx.method === "POST" && ctx.path === "/reg") {
    ctx.req.body = await json(ctx.req).catch(() => ({}));
    if (ctx.req.body.scope !== undefined) ctx.req.body.scope = ["openid", "offline_access", ...scopes].join(" ");
  }
  await next();
}

async function interact(ctx, next) {
  if (!ctx.path.startsWith("/interaction/")) return next();
  const interaction = await provider.interactionDetails(ctx.req, ctx.res);
  const form = ctx.method === "POST" ? new URLSearchParams(await text(ctx.req)) : null;
  const answer = form && (await answered(interaction, form));
  if (answer) {
    ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, answer));
    ctx.status = 303;
  } else {
    ctx.body = await page(interaction, form !== null);
  }
}

async function answered({ prompt, params, grantId, session }, form) {
  if (form.has("deny")) return { error: "access_denied", error_description: "the user refused" };
  if (prompt.name === "login") {
    const login = form.get("login");
    return login in settings.users && form.get("password") === `${login}'s` && { login: { accountId: login } };
  }
  const { Grant } = provider;
  const before = grantId && (await Grant.find(grantId));
  const grant = before || new Grant({ accountId: session.accountId, clientId: params.client_id });
  const allowed = new Set(form.getAll("scope"));
  const chosen = (asked) => asked.filter((scope) => allowed.has(scope) || !scopes.includes(scope)).join(" ");
  const { missingOIDCScope = [], missingOIDCClaims = [], missingResourceScopes = {} } = prompt.details;
  // What was refused counts as answered: otherwise the user would be asked forever.
  grant.addOIDCScope(chosen(missingOIDCScope));
  grant.rejectOIDCScope(missingOIDCScope.filter((scope) => scopes.includes(scope) && !allowed.has(scope)).join(" "));
  grant.addOIDCClaims(missingOIDCClaims);
  for (const [resource, asked] of Object.entries(missingResourceScopes)) {
    grant.addResourceScope(resource, chosen(asked));
    grant.rejectResourceScope(resource, asked.filter((scope) => !allowed.has(scope)).join(" "));
  }
  return { consent: { grantId: await grant.save() } };
}

const escaped = (value) => String(value).replace(/[&<>"']/g, (each) => `&#${each.charCodeAt(0)};`);

async function page({ prompt, params }, isWrong) {
  const client = await provider.Client.find(params.client_id);
  const { missingOIDCScope = [], missingResourceScopes = {} } = prompt.details;
  const missing = new Set([...missingOIDCScope, ...Object.values(missingResourceScopes).flat()]);
  const asked = scopes.filter((scope) => missing.has(scope));
  const box = (scope) => `<label><input type="checkbox" name="scope" value="${escaped(scope)}" checked>
    ${escaped(scope)}: ${escaped(settings.scopes[scope])}</label><br>`;
  const login = `<h1>Log in</h1>${isWrong ? "<p>Wrong login or password</p>" : ""}
    <input name="login"><input name="password" type="password"><button name="log-in">Log in</button>`;
  const consent = `<h1>Consent</h1><p id="client">${escaped(client.clientName ?? client.clientId)}</p>
    <p id="redirect">${escaped(params.redirect_uri)}</p><p id="resource">${escaped(params.resource ?? "")}</p>
    ${asked.map(box).join("")}<button name="allow">Allow</button><button name="deny">Deny</button>`;
  const form = prompt.name === "login" ? login : consent;
  return `<!doctype html><title>${prompt.name}</title><form method="post">${form}</form>`;
}

// A token as the provider would issue it, without a browser.
async function issue({ user, client_id, resource, scope, seconds }) {
  const client = await provider.Client.find(client_id);
  const grant = new provider.Grant({ accountId: user, clientId: client_id });
  grant.addResourceScope(resource, scope);
  const grantId = await grant.save();
  const token = new provider.AccessToken({ accountId: user, client, grantId, scope, gty: "authorization_code" });
  token.resourceServer = new provider.ResourceServer(resource, resourceServer(resource));
  token.expiresIn = seconds ?? undefined;
  return token.save();
}

const ORDERS = {
  issue,
  // Whatever was granted to the user: the tokens go with it.
  async revoke({ user }) {
    for (const [key, each] of stored) if (each.accountId === user) stored.delete(key);
  },
  // Its access tokens have had their time; refresh tokens are as good as before.
  async expire({ user }) {
    for (const each of stored.values()) {
      if (each.accountId === user && each.kind === "AccessToken") each.exp = Math.floor(Date.now() / 1000) - 1;
    }
  },
  // Sign with new keys; the old ones are still published where they are kept.
  async rotate({ keeps_old }) {
    keys = [newKeys(), ...(keeps_old ? keys : [])];
    provider = newProvider();
  },
  async down({ how }) {
    down = how;
    if (how === "refusing") {
      server.close();
      server.closeAllConnections();
    }
  },
  async up() {
    if (down === "refusing") await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
    down = null;
  },
  async requests() {
    return requests;
  },
};

const server = createServer((request, response) => {
  if (down === "failing") return response.writeHead(503, { "retry-after": "1" }).end("down");
  if (down === "hanging") return undefined;
  // An issuer with a path has its metadata at the root, before that path, and everything else below it.
  request.url = request.url.replace(below, "$1") || "/";
  request.originalUrl = settings.path + request.url;
  return provider.callback()(request, response);
});
await new Promise((resolve) => server.listen(settings.port, "127.0.0.1", resolve));
const { port } = server.address();
settings.issuer = `http://127.0.0.1:${port}${settings.path}`;
const below = new RegExp(`^(/\\.well-known/oauth-authorization-server)?${settings.path}(?=[/?]|$)`);
provider = newProvider();
console.log(JSON.stringify({ id: 0, value: settings.issuer }));
for await (const line of createInterface(process.stdin)) {
  const { id, order, details } = JSON.parse(line);
  const answer = await ORDERS[order](details).then(
    (value) => ({ id, value: value ?? null }),
    (error) => ({ id, error: error.stack }),
  );
  console.log(JSON.stringify(answer));
}
process.exit();
