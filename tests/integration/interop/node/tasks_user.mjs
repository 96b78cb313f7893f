// Who is asked in the midst of a task, and how a server is reached.

// ANSWERS: by message what is entered; a text is another action.
export class Person {
  asked = [];
  #answers;

  constructor(answers) {
    this.#answers = answers;
  }

  // What has been asked since the last time.
  take() {
    const asked = this.asked;
    this.asked = [];
    return asked;
  }

  elicit({ params }) {
    this.asked.push(params.message);
    const entry = this.#answers[params.message];
    return typeof entry === "string" ? { action: entry } : { action: "accept", content: entry };
  }
}

// Connect over "stdio" (target: a command), or "http" (target: a URL and a token).
export function transport(kind, target, { Stdio, Http }) {
  if (kind === "stdio") return new Stdio({ command: target[0], args: target.slice(1) });
  const headers = { authorization: `Bearer ${target[1]}` };
  return new Http(new URL(target[0]), { requestInit: { headers } });
}

export const refusal = ({ code, message }) => ({ code, message });

// The text of a result, and whether it says that the tool has failed.
export const told = ({ content, isError }) => ({ text: content[0].text, isError: isError ?? false });
