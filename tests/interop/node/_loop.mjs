import { Client as C1 } from "sdk-1/client/index.js";
import { StreamableHTTPClientTransport as T1 } from "sdk-1/client/streamableHttp.js";
import { Client as C2, StreamableHTTPClientTransport as T2 } from "client-2";
const [v, what, url] = process.argv.slice(2);
let gets = 0, log = [];
const f = async (u, i) => { const r = await fetch(u, i); if (i.method === "GET") { gets++; log.push([r.status, new Headers(i.headers).get("last-event-id")]); } return r; };
const client = v === "1" ? new C1({ name: "x", version: "1" }) : new C2({ name: "x", version: "2" }, { versionNegotiation: { mode: "legacy" } });
client.onerror = (e) => log.push(String(e).slice(0, 120));
await client.connect(new (v === "1" ? T1 : T2)(new URL(url), { fetch: f }));
if (what === "cancel") {
  const c = new AbortController(); const o = { onprogress: () => c.abort("x"), signal: c.signal };
  const p = { name: "hang", arguments: {} };
  await (v === "1" ? client.callTool(p, undefined, o) : client.callTool(p, o)).catch((e) => log.push(String(e).slice(0, 80)));
}
await new Promise((r) => setTimeout(r, 6000));
console.log(v, what, "GETs", gets, JSON.stringify(log));
await client.close();
