// Passes each line of an agent to every client, as usually written for Node.
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { WebSocketServer } from "ws";

const [agent] = process.argv.slice(2);
const server = createServer((request, response) => {
  const [, , count, rate] = request.url.split("/");
  const child = spawn(agent, ["--bare", count, rate], { stdio: ["ignore", "pipe", "inherit"] });
  createInterface({ input: child.stdout, crlfDelay: Infinity }).on("line", (line) => {
    const frame = Buffer.from(line);
    for (const client of followers.clients) client.send(frame, { binary: false });
  });
  response.end();
});
const followers = new WebSocketServer({ server, perMessageDeflate: false });
server.listen(0, "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
