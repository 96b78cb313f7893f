// What a client is asked to do: everything that the server offers, once. Prints what it saw as one JSON object.

export async function journey(client, { callTool, logs, revision, setLevel }) {
  const seen = { server: client.getServerVersion(), instructions: client.getInstructions() };

  if (setLevel) await client.setLoggingLevel("info");

  seen.tools = (await client.listTools()).tools;
  seen.add = await callTool({ name: "add", arguments: { a: 2, b: 3 } });
  seen.quotient = await callTool({ name: "divide", arguments: { a: 1, b: 4 } });
  seen.divide = await callTool({ name: "divide", arguments: { a: 1, b: 0 } });
  seen.wrong = await callTool({ name: "add", arguments: { a: "two", b: 3 } });
  seen.picture = await callTool({ name: "picture", arguments: {} });

  seen.progress = [];
  const onprogress = (progress) => {
    seen.progress.push(progress);
    if (progress.progress === progress.total) void callTool({ name: "enough", arguments: {} });
  };
  seen.count = await callTool({ name: "count", arguments: { to: 3 } }, { onprogress });
  seen.logs = logs;

  seen.resources = (await client.listResources()).resources;
  seen.templates = (await client.listResourceTemplates()).resourceTemplates;
  seen.read = await client.readResource({ uri: "interop://greeting" });
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

  seen.missing = await client
    .readResource({ uri: "interop://nowhere" })
    .catch(({ code, data }) => ({ code, data }));
  seen.revision = revision();
  await client.close();
  console.log(JSON.stringify(seen));
}
