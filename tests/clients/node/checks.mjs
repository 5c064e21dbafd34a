// Runs the checks of one SDK, and prints what each saw as one line of JSON.
export async function run(checks) {
  for (const [name, check] of Object.entries(checks)) {
    let line;
    try {
      line = { name, saw: await check() };
    } catch (error) {
      line = { name, failed: `${error?.name}: ${error?.message}` };
    }
    console.log(JSON.stringify(line));
  }
}

export const [, , BASE, KEY] = process.argv;

export const TRAMS = {
  type: "object",
  properties: { stop: { type: "string" } },
  required: ["stop"],
  additionalProperties: false,
};
