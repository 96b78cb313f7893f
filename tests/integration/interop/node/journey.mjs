// What a client is asked to do: everything that the server offers, once. Prints what it saw as one JSON object.

const GREETING = "interop://greeting";

// Connect over "stdio" (target: a command), "http" or "sse" (target: a URL).
export function transport(kind, [target, ...args], { Stdio, Http, Sse }) {
  if (kind === "stdio") return new Stdio({ command: target, args });
  return new { http: Http, sse: Sse }[kind](new URL(target));
}

// callTool, on and request hide how the versions differ; watch subscribes to changes and gives the way to stop.
export async function journey(client, { callTool, on, request, revision, setLevel, watch }) {
  const seen = { server: client.getServerVersion(), instructions: client.getInstructions() };

  seen.logs = [];
  on("notifications/message", ({ params }) => void seen.logs.push(params));
  if (setLevel) await client.setLoggingLevel("info");

  seen.tools = (await client.listTools()).tools;
  seen.add = await callTool({ name: "add", arguments: { a: 2, b: 3 } });
  seen.quotient = await callTool({ name: "divide", arguments: { a: 1, b: 4 } });
  seen.divide = await callTool({ name: "divide", arguments: { a: 1, b: 0 } });
  seen.wrong = await callTool({ name: "add", arguments: { a: "two", b: 3 } });
  seen.picture = await callTool({ name: "picture", arguments: {} });
  seen.locate = await callTool({ name: "locate", arguments: { region: "São Paulo" } });

  seen.progress = [];
  const onprogress = (progress) => {
    seen.progress.push(progress);
    if (progress.progress === progress.total) void callTool({ name: "enough", arguments: {} });
  };
  seen.count = await callTool({ name: "count", arguments: { to: 3 } }, { onprogress });

  seen.part = await callTool({ name: "part", arguments: {} });

  const controller = new AbortController();
  const hanging = { onprogress: () => controller.abort("seen enough"), signal: controller.signal };
  seen.hang = await callTool({ name: "hang", arguments: {} }, hanging).catch(() => "cancelled");
  seen.release = await callTool({ name: "release", arguments: {} });

  const changes = new Promise((resolve) => {
    const heard = new Set();
    const hear = (change) => {
      heard.add(change);
      if (heard.size === 2) resolve([...heard].sort());
    };
    on("notifications/tools/list_changed", () => hear("tools"));
    on("notifications/resources/updated", ({ params }) => hear(params.uri));
  });
  const stop = await watch(GREETING);
  await callTool({ name: "stir", arguments: {} });
  seen.changes = await changes;
  await stop();

  seen.resources = (await client.listResources()).resources;
  seen.templates = (await client.listResourceTemplates()).resourceTemplates;
  seen.read = await client.readResource({ uri: GREETING });
  seen.readTemplate = await client.readResource({ uri: "interop://greetings/dutch" });

  seen.prompts = (await client.listPrompts()).prompts;
  seen.prompt = await client.getPrompt({ name: "welcome", arguments: { name: "Ada", style: "friendly" } });

  seen.completePrompt = await client.complete({
    ref: { type: "ref/prompt", name: "welcome" },
    argument: { name: "style", value: "f" },
  });
  seen.completeTemplate = await client.complete({
    ref: { type: "ref/resource", uri: "interop://greetings/{language}" },
    argument: { name: "language", value: "d" },
  });

  const refusal = ({ code, data }) => ({ code, data });
  seen.missing = await client.readResource({ uri: "interop://nowhere" }).catch(refusal);
  seen.unknown = await callTool({ name: "nobody", arguments: {} }).catch(refusal);
  seen.imagine = await callTool({ name: "imagine", arguments: {} }).catch(refusal);
  seen.nothing = await request("interop/nothing").catch(refusal);

  seen.revision = revision();
  if (client.transport.sessionId) seen.afterDelete = await endSession(client.transport);
  await client.close();
  console.log(JSON.stringify(seen));
}

// The status of a request in a session that its client has ended.
async function endSession(transport) {
  const headers = {
    accept: "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": transport.protocolVersion,
    "mcp-session-id": transport.sessionId,
  };
  await transport.terminateSession();
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
  return (await fetch(transport._url, { method: "POST", headers, body })).status;
}
