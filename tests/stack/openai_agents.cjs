// OpenAI's SDK for voice agents in Node, as its users write it, against a gateway.
// node openai_agents.cjs FOLDER-WITH-node_modules URL KEY QUESTION.wav: prints all events.
"use strict";

const { createRequire } = require("node:module");
const { readFileSync } = require("node:fs");
const { join } = require("node:path");

const [folder, url, apiKey, wav] = process.argv.slice(2);
const installed = createRequire(join(folder, "package.json"));
const { RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket, tool } = installed(
  "@openai/agents-realtime",
);
const { z } = installed("zod");

const WAV_HEADER_BYTES = 44;
const PIECE_BYTES = 960;

async function main() {
  const cities = [];
  const weather = tool({
    name: "get_weather",
    description: "The weather of a city now.",
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => {
      cities.push(city);
      return "sunny";
    },
  });
  const agent = new RealtimeAgent({ name: "guide", instructions: "Be brief.", tools: [weather] });
  const session = new RealtimeSession(agent, {
    transport: new OpenAIRealtimeWebSocket({ url }),
    config: { audio: { input: { transcription: { model: "whisper-1", language: "en" } } } },
  });
  const events = [];
  const faults = [];
  const waiting = [];
  session.on("error", (fault) => faults.push(String(fault.error?.message ?? fault.error)));
  session.transport.on("*", (event) => {
    events.push(event);
    for (const look of waiting) look(event);
  });
  const until = (met) =>
    new Promise((done) => waiting.push((event) => met(event) && done(event)));
  const message = (event) =>
    event.type === "response.done" &&
    event.response.output.some((item) => item.type === "message");

  await session.connect({ apiKey });
  const answered = until(message);
  session.transport.sendEvent({
    type: "conversation.item.create",
    item: {
      type: "message",
      role: "user",
      content: [{ type: "input_text", text: "How is the weather in Rome?" }],
    },
  });
  session.transport.sendEvent({
    type: "response.create",
    response: { tool_choice: { type: "function", name: "get_weather" }, max_output_tokens: 80 },
  });
  await answered;

  const heard = until((event) => event.type.endsWith("input_audio_transcription.completed"));
  const spoken = until((event) => event.type === "response.created");
  const sound = Buffer.concat([readFileSync(wav).subarray(WAV_HEADER_BYTES), Buffer.alloc(96000)]);
  for (let at = 0; at < sound.length; at += PIECE_BYTES) {
    const piece = sound.subarray(at, at + PIECE_BYTES);
    session.sendAudio(new Uint8Array(piece).buffer);
    await new Promise((done) => setTimeout(done, 20));
  }
  await heard;
  await spoken;
  const over = until((event) => event.type === "response.done");
  session.interrupt();
  if (!events.slice(-1).some((event) => event.type === "response.done")) await over;
  const history = session.history.map((item) => ({ type: item.type, role: item.role }));
  session.close();
  process.stdout.write(JSON.stringify({ events, faults, cities, history }), () => process.exit(0));
}

main().catch((error) => {
  process.stderr.write(`${error?.stack ?? error}\n`, () => process.exit(1));
});
