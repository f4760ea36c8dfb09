// A Telegram that somebody else wrote, on a free port; says where in a line, and serves until it is
// ended.
import { createServer } from "node:net";
import api from "telegram-test-api";

const Server = api.default ?? api;
const free = createServer();
await new Promise((done) => free.listen(0, "127.0.0.1", done));
const { port } = free.address();
await new Promise((done) => free.close(done));
const server = new Server({ port, host: "127.0.0.1" });
await server.start();
console.log(JSON.stringify({ url: server.config.apiURL }));
