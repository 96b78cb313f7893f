// Judges schemas, values and patterns as the TypeScript clients do: one JSON question a line, one JSON answer a line.
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
    return { fits: texts.map((text) => expression.test(text)) };
  }
  for (const ajv of engines) {
    const validate = ajv.compile(schema);
    const fits = validate(value);
    ajv.removeSchema(schema);
    if (!fits) return { fits, why: ajv.errorsText(validate.errors) };
  }
  return { fits: true };
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = judge(JSON.parse(line));
  } catch (error) {
    answer = { error: String(error) };
  }
  console.log(JSON.stringify(answer));
}
