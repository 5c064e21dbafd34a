import Anthropic from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";
import { BASE, KEY, TRAMS, run } from "./checks.mjs";

const client = new Anthropic({ baseURL: BASE, apiKey: KEY, maxRetries: 0 });
const call = (text, more = {}) => ({
  model: "writer", max_tokens: 50, messages: [{ role: "user", content: text }], ...more,
});
const tools = [{ name: "trams", input_schema: TRAMS }];

await run({
  async chat() {
    const answer = await client.messages.create(call("hello"));
    const tokens = answer.usage.input_tokens + answer.usage.output_tokens;
    return { text: answer.content[0].text, reason: answer.stop_reason, tokens };
  },
  async tools() {
    const asked = call("tools", { tools, tool_choice: { type: "any" } });
    const first = await client.messages.create(asked);
    const used = first.content.find((block) => block.type === "tool_use");
    const result = { type: "tool_result", tool_use_id: used.id, content: "4, 7" };
    const messages = [
      ...asked.messages,
      { role: "assistant", content: first.content },
      { role: "user", content: [result] },
    ];
    const second = await client.messages.create(call("tools", { tools, messages }));
    return [first.stop_reason, used.name, used.input, second.content[0].text];
  },
  async structured() {
    const format = zodOutputFormat(z.object({ line: z.number() }));
    const answer = await client.messages.parse(call("structured", { output_config: { format } }));
    return answer.parsed_output;
  },
  async stream() {
    const stream = client.messages.stream(call("hello"));
    let deltas = 0;
    stream.on("text", () => (deltas += 1));
    const whole = await stream.finalMessage();
    return { text: whole.content[0].text, several: deltas > 1 };
  },
  async unknown_model() {
    try {
      await client.messages.create(call("hello", { model: "nobody" }));
    } catch (error) {
      return [error.constructor.name, error.status, error.error.error.type];
    }
  },
  async refused() {
    try {
      await client.messages.create(call("refused"));
    } catch (error) {
      return [error.constructor.name, error.status];
    }
  },
  async retried() {
    const patient = new Anthropic({ baseURL: BASE, apiKey: KEY, maxRetries: 4 });
    return (await patient.messages.create(call("twice busy, anthropic"))).content[0].text;
  },
  async cancelled() {
    const stream = client.messages.stream(call("held"));
    for await (const event of stream) if (event.type === "content_block_delta") break;
    stream.abort();
    return "left";
  },
});
