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
const WITHIN_MS = 70_000;

/** A session that notes all that it hears. */
async function open(tools, config) {
  const agent = new RealtimeAgent({ name: "guide", instructions: "Be brief.", tools });
  const transport = new OpenAIRealtimeWebSocket({ url });
  const session = new RealtimeSession(agent, { transport, config });
  const heard = { events: [], faults: [] };
  const waiting = [];
  session.on("error", (fault) => heard.faults.push(String(fault.error?.message ?? fault.error)));
  transport.on("*", (event) => {
    heard.events.push(event);
    for (const look of waiting) look(event);
  });
  /** Once `count` events of a kind have come, from now on. */
  const until = (kind, count = 1) => {
    let missing = count;
    return new Promise((done) =>
      waiting.push((event) => {
        if (event.type === kind) missing -= 1;
        if (missing === 0) done(event);
      }),
    );
  };
  const tooLate = () => {
    const last = heard.events.slice(-40).map((event) => event.type);
    process.stderr.write(JSON.stringify({ last, faults: heard.faults }), () => process.exit(1));
  };
  const late = setTimeout(tooLate, WITHIN_MS);
  await session.connect({ apiKey });
  const close = () => {
    clearTimeout(late);
    const history = session.history.map((item) => item.type);
    session.close();
    return { ...heard, history };
  };
  return { session, until, close };
}

/** A tool is called, the SDK answers it and asks for what follows. */
async function callTool() {
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
  const talk = await open([weather], { providerData: { max_output_tokens: 80 } });
  const answered = talk.until("response.done", 2);
  talk.session.transport.sendEvent({
    type: "conversation.item.create",
    item: {
      type: "message",
      role: "user",
      content: [{ type: "input_text", text: "How is the weather in Rome?" }],
    },
  });
  talk.session.transport.sendEvent({
    type: "response.create",
    response: { tool_choice: { type: "function", name: "get_weather" } },
  });
  await answered;
  return { ...talk.close(), cities };
}

/** A question aloud, in real time; its answer is interrupted. */
async function speak() {
  const transcription = { model: "whisper-1", language: "en" };
  const talk = await open([], { audio: { input: { transcription } } });
  const heard = talk.until("conversation.item.input_audio_transcription.completed");
  const begun = talk.until("response.output_audio.delta");
  const over = talk.until("response.done");
  const sound = Buffer.concat([readFileSync(wav).subarray(WAV_HEADER_BYTES), Buffer.alloc(96000)]);
  for (let at = 0; at < sound.length; at += PIECE_BYTES) {
    talk.session.sendAudio(new Uint8Array(sound.subarray(at, at + PIECE_BYTES)).buffer);
    await new Promise((done) => setTimeout(done, 20));
  }
  await Promise.all([heard, begun]);
  const cut = talk.until("conversation.item.truncated");
  talk.session.interrupt();
  await Promise.all([over, cut]);
  return talk.close();
}

async function main() {
  const told = { tool: await callTool(), spoken: await speak() };
  process.stdout.write(JSON.stringify(told), () => process.exit(0));
}

main().catch((error) => {
  process.stderr.write(`${error?.stack ?? error}\n`, () => process.exit(1));
});
