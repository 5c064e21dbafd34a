console.log = console.info = console.error; // what SDKs say goes beside what the checks saw

// Runs the checks of one SDK, and prints what each saw as one line of JSON.
export async function run(checks) {
  for (const [name, check] of Object.entries(checks)) {
    let line;
    try {
      line = { name, saw: await check() };
    } catch (error) {
      line = { name, failed: `${error?.name}: ${error?.message}` };
    }
    process.stdout.write(`${JSON.stringify(line)}\n`);
  }
}

export const [, , BASE, KEY] = process.argv;

export const TRAMS = {
  type: "object",
  properties: { stop: { type: "string" } },
  required: ["stop"],
  additionalProperties: false,
};
