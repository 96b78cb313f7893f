// Who answers a TypeScript client's questions, and the journey through the handlers that ask.

// ANSWERS: `forms` (by message, what is entered each time; a text is another action), `words` (by the last text), `roots`.
export class Person {
  asked = [];
  completed = [];
  #answers;
  #counts = {};
  #ids = [];

  constructor(answers) {
    this.#answers = answers;
  }

  start() {
    this.asked = [];
    this.#counts = {};
  }

  async elicit({ params }) {
    const [message] = params.message.split("\n"); // below it stands what was wrong with the last entry
    this.asked.push(message);
    if (params.mode === "url") {
      if (params.elicitationId !== undefined) this.#ids.push(params.elicitationId);
      await (await fetch(params.url)).text();
      return { action: "accept" };
    }
    const entries = this.#answers.forms[message];
    const count = (this.#counts[message] = (this.#counts[message] ?? -1) + 1);
    const entry = entries[Math.min(count, entries.length - 1)];
    return typeof entry === "string" ? { action: entry } : { action: "accept", content: entry };
  }

  async sample({ params }) {
    const { content } = params.messages.at(-1);
    const block = Array.isArray(content) ? content.at(-1) : content;
    const text = block.type === "tool_result" ? block.content[0].text : block.text;
    this.asked.push(text);
    const words = this.#answers.words[text];
    const message = { role: "assistant", model: "parrot" };
    return typeof words === "string"
      ? { ...message, content: { type: "text", text: words } }
      : { ...message, content: words, stopReason: "toolUse" };
  }

  async list() {
    this.asked.push("roots");
    return { roots: this.#answers.roots };
  }

  complete({ params }) {
    this.completed.push(this.#ids.includes(params.elicitationId));
  }
}

// What the client can be asked, as it declares it.
export const CAPABILITIES = {
  elicitation: { form: {}, url: {} },
  sampling: { tools: {} },
  roots: {},
};

// Uses each handler once. use(kind, name) gives the text of its result; describe(error) gives code, message and data.
export async function journey(handlers, person, { use, describe }) {
  const seen = {};
  for (const [kind, name] of handlers) {
    person?.start();
    const met = await use(kind, name).then((text) => ({ text }), describe);
    seen[name] = { ...met, asked: person?.asked ?? [] };
  }
  return { handlers: seen, completed: person?.completed ?? [] };
}

// The text of a result of either kind of request.
export async function ask(client, kind, name) {
  if (kind === "prompt") return (await client.getPrompt({ name, arguments: {} })).messages[0].content.text;
  if (kind === "resource") return (await client.readResource({ uri: name })).contents[0].text;
  const { content, isError } = await client.callTool({ name, arguments: {} });
  return `${isError ? "error: " : ""}${content[0].text}`;
}
