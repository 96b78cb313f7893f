// Judges schemas, values and patterns as the TypeScript clients do: one JSON request a line, one JSON response a line.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(import.meta.url);
const addFormats = require("../../node_modules/ajv-formats").default;
const engines = [
  require("../../node_modules/ajv-8/dist/2020.js").default, // client 2
  require("../../node_modules/ajv-8").default, // sdk 1
].map((Ajv) => {
  const ajv = new Ajv({ strict: false, validateFormats: true, validateSchema: false, allErrors: true });
  addFormats(ajv);
  return ajv;
});

function judge({ schema, value, pattern, texts }) {
  if (pattern !== undefined) {
    const expression = new RegExp(pattern, "u");
    return texts.map((text) => expression.test(text));
  }
  for (const ajv of engines) {
    const validate = ajv.compile(schema);
    const fits = validate(value);
    ajv.removeSchema(schema);
    if (!fits) return ajv.errorsText(validate.errors);
  }
  return null;
}

console.log(JSON.stringify({ id: 0, value: null }));
for await (const line of createInterface({ input: process.stdin })) {
  const { id, details } = JSON.parse(line);
  try {
    console.log(JSON.stringify({ id, value: judge(details) }));
  } catch (error) {
    console.log(JSON.stringify({ id, error: String(error) }));
  }
}
