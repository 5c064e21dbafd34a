import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { Output, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { BASE, KEY, TRAMS, run } from "./checks.mjs";

const to = { baseURL: `${BASE}/v1`, apiKey: KEY };
const { chat, responses } = createOpenAI(to);
const model = { chat, responses, messages: createAnthropic(to) }[process.argv[4]];
const settings = { model: model("writer"), maxRetries: 0 };
const trams = tool({
  description: "Which trams stop there",
  inputSchema: jsonSchema(TRAMS),
  execute: async ({ stop }) => `4, 7 at ${stop}`,
});

await run({
  async chat() {
    const answer = await generateText({ ...settings, prompt: "hello" });
    return { text: answer.text, reason: answer.finishReason, tokens: answer.usage.totalTokens };
  },
  async tools() {
    const answer = await generateText({
      ...settings, prompt: "tools", tools: { trams }, stopWhen: stepCountIs(3),
    });
    return [answer.steps[0].toolResults[0].output, answer.text];
  },
  async structured() {
    const schema = jsonSchema({
      type: "object", properties: { line: { type: "number" } }, required: ["line"],
      additionalProperties: false,
    });
    const answer = await generateText({
      ...settings, prompt: "structured", output: Output.object({ schema }),
    });
    return answer.output;
  },
  async stream() {
    const answer = streamText({ ...settings, prompt: "hello" });
    const parts = [];
    for await (const part of answer.textStream) parts.push(part);
    return { text: parts.join(""), several: parts.length > 1 };
  },
  async streamed_tools() {
    const answer = streamText({
      ...settings, prompt: "tools", tools: { trams }, stopWhen: stepCountIs(3),
    });
    await answer.consumeStream();
    return [(await answer.steps)[0].toolResults[0].output, await answer.text];
  },
  async unknown_model() {
    try {
      await generateText({ ...settings, model: model("nobody"), prompt: "hello" });
    } catch (error) {
      return [error.name, error.statusCode];
    }
  },
});
