// Serves npm's `telegram-test-api` on a free port and prints its URL as a line of JSON.
import { createServer } from "node:net";
import api from "telegram-test-api";

const Server = api.default ?? api;
const probe = createServer();
await new Promise((done) => probe.listen(0, "127.0.0.1", done));
const { port } = probe.address();
await new Promise((done) => probe.close(done));
const server = new Server({ port, host: "127.0.0.1" });
await server.start();
console.log(JSON.stringify({ url: server.config.apiURL }));
