// The official TypeScript SDK 1.x: node tasks_1.mjs JOURNEY stdio COMMAND ARGUMENT... | http URL TOKEN
// Prints what it saw as one JSON object.

import { Client } from "sdk-1/client/index.js";
import { StdioClientTransport } from "sdk-1/client/stdio.js";
import { StreamableHTTPClientTransport } from "sdk-1/client/streamableHttp.js";
import { CallToolResultSchema, ElicitRequestSchema, TaskStatusNotificationSchema } from "sdk-1/types.js";

import { Person, refusal, told, transport } from "./tasks_user.mjs";

const [journey, kind, ...target] = process.argv.slice(2);
const { answers, calls } = JSON.parse(journey);
const person = new Person(answers);

const client = new Client({ name: "sdk-1", version: "1" }, { capabilities: { elicitation: {} } });
client.onerror = console.error;
const related = [];
const notified = [];
client.setRequestHandler(ElicitRequestSchema, (request) => {
  related.push(request.params._meta?.["io.modelcontextprotocol/related-task"]?.taskId ?? null);
  return person.elicit(request);
});
client.setNotificationHandler(TaskStatusNotificationSchema, ({ params }) => void notified.push(params));
await client.connect(transport(kind, target, { Stdio: StdioClientTransport, Http: StreamableHTTPClientTransport }));

const { tasks } = client.experimental;
const { tools } = await client.listTools();
const seen = { calls: {}, ids: [], capabilities: client.getServerCapabilities().tasks };
seen.support = Object.fromEntries(tools.map(({ name, execution }) => [name, execution?.taskSupport ?? null]));

// The steps of a call as a task: its id, the statuses, and what it ended with.
async function follow(name, args, options, onStatus = () => {}) {
  const steps = { id: null, created: null, statuses: [], result: null, error: null };
  const stream = tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, options);
  for await (const message of stream) {
    if (message.type === "taskCreated") {
      steps.id = message.task.taskId;
      steps.created = message.task;
    } else if (message.type === "taskStatus") {
      steps.statuses.push(message.task.status);
      await onStatus(message.task);
    } else steps[message.type] = message[message.type];
  }
  return steps;
}

for (const [name, args] of Object.entries(calls)) {
  const isTask = seen.support[name] !== null;
  const { id, error, result } = await follow(name, args, isTask ? { task: { ttl: 60_000 } } : {});
  const call = { asked: person.take(), related: related.splice(0).map((each) => each && each === id), status: null };
  if (isTask) {
    seen.ids.push(id);
    call.status = (await tasks.getTask(id)).status;
  }
  // What this client makes of a task that has failed says less than the result does.
  const end = error === null ? result : await tasks.getTaskResult(id, CallToolResultSchema).catch(refusal);
  if ("code" in end) call.error = end;
  else Object.assign(call, told(end), { of: end._meta?.["io.modelcontextprotocol/related-task"]?.taskId === id });
  seen.calls[name] = call;
}

// Progress, with the token of the call that made the task.
seen.progress = [];
const onprogress = (progress) => {
  seen.progress.push(progress);
  if (progress.progress === progress.total) void client.callTool({ name: "stop_training", arguments: {} });
};
const trained = await follow("train", { epochs: 3 }, { task: { ttl: 60_000 }, onprogress });
seen.ids.push(trained.id);
seen.trained = told(trained.result);
seen.plain = await client
  .request({ method: "tools/call", params: { name: "train", arguments: { epochs: 1 } } }, CallToolResultSchema)
  .catch(refusal);

// One that is cancelled while its result is waited for.
let awaited;
const held = await follow("hold", {}, { task: {} }, async ({ status, taskId }) => {
  if (status !== "working" || awaited !== undefined) return;
  awaited = tasks.getTaskResult(taskId, CallToolResultSchema).catch(refusal);
  seen.cancel = await tasks.cancelTask(taskId);
});
seen.ids.push(held.id);
seen.awaited = await awaited;
seen.stopped = told(await client.callTool({ name: "was_stopped", arguments: {} })).text;
seen.again = await tasks.cancelTask(held.id).catch(refusal);
seen.unknown = await tasks.getTask("nobody-has-seen-this").catch(refusal);

seen.listed = await all().catch(refusal);
seen.notified = notified.every(({ taskId }) => seen.ids.includes(taskId));
await client.close();
console.log(JSON.stringify(seen));

async function all() {
  const listed = [];
  for (let cursor; ; ) {
    const page = await tasks.listTasks(cursor);
    listed.push(...page.tasks.map(({ taskId }) => taskId));
    if ((cursor = page.nextCursor) === undefined) return listed;
  }
}
