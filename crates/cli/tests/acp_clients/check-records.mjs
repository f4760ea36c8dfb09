// Checks what agents printed against the schemas of the protocol's own package.
//
// usage: check-records.mjs DIRECTORY. For each connection the directory has NAME.in, what the client
// sent, and NAME.out, what the agent sent. Prints the number of checked lines; faults go to stderr.
import { readFileSync, readdirSync, existsSync } from "node:fs";
import { join } from "node:path";
import Ajv2020 from "ajv/dist/2020.js";

const directory = process.argv[2];
const packageDirectory = new URL("node_modules/@agentclientprotocol/sdk/schema/", import.meta.url);

/** The schemas of one version of the protocol. */
class ProtocolSchema {
  constructor(version) {
    this.validator = new Ajv2020({ strict: false, validateFormats: false, allErrors: false });
    this.documents = ["schema.json", "schema.unstable.json"].map((name) => {
      const document = JSON.parse(readFileSync(new URL(`v${version}/${name}`, packageDirectory), "utf8"));
      document.$id = name;
      this.validator.addSchema(document);
      return document;
    });
  }

  /** The definition for a method, from the stable schema if it is there. */
  find(method, suffixes, sides) {
    for (const document of this.documents) {
      for (const [name, definition] of Object.entries(document.$defs)) {
        if (definition["x-method"] === method && sides.includes(definition["x-side"]) && suffixes.some((it) => name.endsWith(it))) {
          return { document, name };
        }
      }
    }
  }

  /** What is wrong with a value, or nothing. */
  check(found, value) {
    const validate = this.validator.getSchema(`${found.document.$id}#/$defs/${found.name}`);
    if (!validate(value)) {
      const [error] = validate.errors.slice(-1);
      return `${found.name}${error.instancePath} ${error.message} ${JSON.stringify(error.params)}`;
    }
    // The schemas allow unknown fields everywhere, so a misspelled optional field would pass.
    const [, unstable] = this.documents;
    const unknown = unstable.$defs[found.name] && unknownField(unstable, [unstable.$defs[found.name]], value);
    return unknown && `${found.name}${unknown} is in no schema`;
  }
}

/** The path of a field that no branch of these schemas has. */
function unknownField(document, schemas, value) {
  if (value === null || typeof value !== "object") return;
  const resolve = (schema) => (schema.$ref ? document.$defs[schema.$ref.split("/").pop()] : schema);
  const branches = new Set();
  const visit = (reference) => {
    const schema = resolve(reference);
    if (branches.has(schema)) return;
    branches.add(schema);
    schema.allOf?.forEach(visit);
    for (const choice of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) if (fits(resolve(choice))) visit(choice);
  };
  // Variants differ in a constant field; one that stands for future variants allows everything.
  const fits = (schema) => !schema.not && Object.entries(schema.properties ?? {}).every(([key, it]) => it.const === undefined || it.const === value[key]);
  schemas.forEach(visit);
  const all = [...branches];
  if (Array.isArray(value)) {
    const items = all.map((it) => it.items).filter((it) => it && typeof it === "object");
    const found = items.length ? value.map((it) => unknownField(document, items, it)) : [];
    const index = found.findIndex(Boolean);
    return index < 0 ? undefined : `/${index}${found[index]}`;
  }
  const objects = all.filter((it) => it.properties);
  if (!objects.length || all.some((it) => it.additionalProperties)) return;
  for (const [key, field] of Object.entries(value)) {
    if (key === "_meta") continue;
    const fields = objects.map((it) => it.properties[key]).filter((it) => it !== undefined && it !== true);
    if (!fields.length && !objects.some((it) => it.properties[key] === true)) return `/${key}`;
    const found = fields.length && unknownField(document, fields, field);
    if (found) return `/${key}${found}`;
  }
}

const schemas = new Map();
function schemaOf(version) {
  if (!schemas.has(version)) schemas.set(version, new ProtocolSchema(version));
  return schemas.get(version);
}

/** The objects of a record, one for each whole line. */
function read(path) {
  const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
  // What follows the last line feed was cut off.
  return lines.slice(0, -1).map((text) => {
    try {
      return { text, message: JSON.parse(text) };
    } catch {
      return { text };
    }
  });
}

let checked = 0;
const faults = [];

function checkConnection(name) {
  const report = (text, line) => faults.push(`${name}: ${text}\n    ${line.slice(0, 400)}`);
  const requests = new Map();
  for (const { message } of read(join(directory, `${name}.in`))) {
    if (message?.method !== undefined && message.id !== undefined) requests.set(message.id, message.method);
  }
  const lines = read(join(directory, `${name}.out`));
  // Until it is negotiated, the first version is spoken.
  const initialized = lines.find(({ message }) => requests.get(message?.id) === "initialize" && message.result);
  const schema = schemaOf(initialized?.message.result.protocolVersion ?? 1);
  const [answered, asked, calls] = [new Set(), new Set(), new Set()];
  for (const { text, message } of lines) {
    checked += 1;
    if (message === undefined || message === null || typeof message !== "object" || Array.isArray(message)) {
      report("not a JSON object", text);
      continue;
    }
    if (message.jsonrpc !== "2.0") report("not JSON-RPC 2.0", text);
    const fault = message.method === undefined ? checkResponse(message) : checkMessage(message);
    if (fault) report(fault, text);
  }

  function checkResponse(message) {
    if (message.id === undefined || (message.result === undefined) === (message.error === undefined)) return "neither a request nor a response";
    if (message.error !== undefined) {
      const error = schema.check({ document: schema.documents[0], name: "Error" }, message.error);
      if (error || message.id === null) return error;
    }
    const method = requests.get(message.id);
    if (method === undefined) return "a response to nothing";
    if (answered.has(message.id)) return "a second response";
    answered.add(message.id);
    if (message.error !== undefined || method.startsWith("_")) return;
    const found = schema.find(method, ["Response"], ["agent"]);
    return found ? schema.check(found, message.result) : `a result for the unknown method ${method}`;
  }

  function checkMessage(message) {
    if (message.id !== undefined) {
      if (asked.has(message.id)) return "an id is used twice";
      asked.add(message.id);
    }
    if (message.method.startsWith("_")) return;
    const suffix = message.id === undefined ? ["Notification"] : ["Request"];
    const found = schema.find(message.method, suffix, ["client", "protocol"]);
    if (!found) return `the client has no method ${message.method}`;
    const fault = schema.check(found, message.params);
    if (fault) return fault;
    const update = message.params.update;
    const call = `${message.params.sessionId} ${update?.toolCallId}`;
    if (update?.sessionUpdate === "tool_call") calls.add(call);
    // In the second version an update creates what it names.
    if (schema === schemaOf(1) && update?.sessionUpdate === "tool_call_update" && !calls.has(call)) return "an update of an unknown tool call";
  }
}

for (const file of readdirSync(directory).filter((it) => it.endsWith(".out"))) checkConnection(file.slice(0, -4));
console.log(checked);
if (faults.length) {
  console.error(`${faults.slice(0, 20).join("\n")}\n${faults.length} of ${checked} lines are wrong`);
  process.exit(1);
}
