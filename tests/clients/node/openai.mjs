import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { BASE, KEY, TRAMS, run } from "./checks.mjs";

const client = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY, maxRetries: 0 });
const said = (text) => [{ role: "user", content: text }];
const tool = { type: "function", function: { name: "trams", parameters: TRAMS } };

await run({
  async models() {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    return names;
  },
  async chat() {
    const answer = await client.chat.completions.create({ model: "writer", messages: said("hello") });
    const { message, finish_reason } = answer.choices[0];
    return { text: message.content, reason: finish_reason, tokens: answer.usage.total_tokens };
  },
  async tools() {
    const messages = said("tools");
    const first = await client.chat.completions.create({
      model: "writer", messages, tools: [tool], tool_choice: "required",
    });
    const { message } = first.choices[0];
    const [call] = message.tool_calls;
    messages.push(message, { role: "tool", tool_call_id: call.id, content: "4, 7" });
    const second = await client.chat.completions.create({ model: "writer", messages, tools: [tool] });
    return [call.function.name, JSON.parse(call.function.arguments), second.choices[0].message.content];
  },
  async structured() {
    const format = zodResponseFormat(z.object({ line: z.number() }), "tram");
    const answer = await client.chat.completions.parse({
      model: "writer", messages: said("structured"), response_format: format,
    });
    return answer.choices[0].message.parsed;
  },
  async stream() {
    const stream = client.chat.completions.stream({ model: "writer", messages: said("hello") });
    let deltas = 0;
    for await (const chunk of stream) deltas += chunk.choices[0]?.delta?.content ? 1 : 0;
    const whole = await stream.finalChatCompletion();
    return { text: whole.choices[0].message.content, several: deltas > 1 };
  },
  async responses() {
    const stream = client.responses.stream({ model: "writer", input: "hello" });
    let deltas = 0;
    stream.on("response.output_text.delta", () => (deltas += 1));
    const whole = await stream.finalResponse();
    return { text: whole.output_text, status: whole.status, several: deltas > 1 };
  },
  async unknown_model() {
    try {
      await client.chat.completions.create({ model: "nobody", messages: said("hello") });
    } catch (error) {
      return [error.constructor.name, error.status, error.code];
    }
  },
  async refused() {
    try {
      await client.chat.completions.create({ model: "writer", messages: said("refused") });
    } catch (error) {
      return [error.constructor.name, error.status];
    }
  },
  async retried() {
    const patient = new OpenAI({ baseURL: `${BASE}/v1`, apiKey: KEY, maxRetries: 4 });
    const answer = await patient.chat.completions.create({ model: "writer", messages: said("twice busy, openai") });
    return answer.choices[0].message.content;
  },
  async cancelled() {
    const stream = await client.chat.completions.create({
      model: "writer", messages: said("held"), stream: true,
    });
    for await (const chunk of stream) if (chunk.choices[0]?.delta?.content) break;
    stream.controller.abort();
    return "left";
  },
});
