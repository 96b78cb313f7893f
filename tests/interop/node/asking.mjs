// The official TypeScript client 2.x is asked: node asking.mjs MODE ANSWERS TOOLS stdio COMMAND ARGUMENT... | http URL | sse URL
// MODE is "legacy", "auto" or a revision to pin; ANSWERS and TOOLS are JSON. Prints what it saw as one JSON object.

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "client-2";
import { StdioClientTransport } from "client-2/stdio";

import { transport } from "./journey.mjs";

const TRANSPORTS = {
  Stdio: StdioClientTransport,
  Http: StreamableHTTPClientTransport,
  Sse: SSEClientTransport,
};

const [mode, answers, tools, kind, ...target] = process.argv.slice(2);
const { forms, words, roots } = JSON.parse(answers);
const seen = { asked: [] };

const client = new Client(
  { name: "client-2", version: "2" },
  {
    capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
    versionNegotiation: { mode: ["legacy", "auto"].includes(mode) ? mode : { pin: mode } },
  },
);
client.onerror = console.error;

client.setRequestHandler("elicitation/create", async ({ params }) => {
  seen.asked.push(params.message);
  if (params.mode === "url") {
    await (await fetch(params.url)).text();
    return { action: "accept" };
  }
  const content = forms[params.message];
  return content === null ? { action: "decline" } : { action: "accept", content };
});
client.setRequestHandler("sampling/createMessage", async ({ params }) => {
  const { text } = params.messages[0].content;
  seen.asked.push(text);
  return { role: "assistant", model: "parrot", content: { type: "text", text: words[text] } };
});
client.setRequestHandler("roots/list", async () => {
  seen.asked.push("roots");
  return { roots: roots.map((uri) => ({ uri })) };
});

await client.connect(transport(kind, target, TRANSPORTS));
for (const name of JSON.parse(tools)) {
  const { content } = await client.callTool({ name, arguments: {} });
  seen[name] = content[0].text;
}
seen.prompt = (await client.getPrompt({ name: "greet", arguments: {} })).messages[0].content.text;
seen.read = (await client.readResource({ uri: "notes://day" })).contents[0].text;
seen.revision = client.getNegotiatedProtocolVersion();
await client.close();
console.log(JSON.stringify(seen));
