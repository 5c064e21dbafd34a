/**
 * The stream of events, by `fetch`: EventSource cannot send a key in a header, and a key has no
 * place in an address. Comes back by itself, from where it was.
 */
import type { Explanation, Operator, Told } from "./types";

export type Status = "connecting" | "live" | "lost" | "key-needed" | "refused";

export interface Listener {
  told(kind: "snapshot" | "delta", told: Told): void;
  status(status: Status, why: string): void;
  operator(operator: Operator): void;
}

const SILENT_MS = 8000; // the gateway says something every second
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
const KEPT_AS = "spillway-operator-key"; // for as long as the tab lives

export class Refused extends Error {
  constructor(
    readonly http: number,
    message: string,
  ) {
    super(message);
  }
}

export class Connection {
  private lastId = "";
  private pauseMs = FIRST_PAUSE_MS;
  private again: number | undefined;
  private current: AbortController | undefined;

  constructor(private readonly listener: Listener) {}

  start(): void {
    void this.run();
  }

  signIn(key: string): void {
    sessionStorage.setItem(KEPT_AS, key);
    this.lastId = "";
    this.retryNow();
  }

  signOut(): void {
    sessionStorage.removeItem(KEPT_AS);
    this.retryNow();
  }

  get hasKey(): boolean {
    return sessionStorage.getItem(KEPT_AS) !== null;
  }

  explain(decision: string): Promise<Explanation> {
    return this.asked<Explanation>(`decisions/${decision}`);
  }

  drain(endpoint: string, drained: boolean): Promise<unknown> {
    return this.posted("drain", { endpoint, drained });
  }

  stopSpill(stopped: boolean): Promise<unknown> {
    return this.posted("spill", { stopped });
  }

  private retryNow(): void {
    clearTimeout(this.again);
    this.current?.abort();
    this.pauseMs = FIRST_PAUSE_MS;
    void this.run();
  }

  private headers(): Record<string, string> {
    const key = sessionStorage.getItem(KEPT_AS);
    return key === null ? {} : { authorization: `Bearer ${key}` };
  }

  private async run(): Promise<void> {
    const mine = (this.current = new AbortController());
    this.listener.status("connecting", "");
    try {
      this.listener.operator(await this.asked<Operator>("operator", mine.signal));
      await this.read(mine);
      throw new Error("the gateway ended the stream");
    } catch (error) {
      if (this.current !== mine) return; // another one has begun
      this.listener.status(...ended(error));
      if (error instanceof Refused && (error.http === 401 || error.http === 403)) return;
      this.again = window.setTimeout(() => void this.run(), this.pauseMs);
      this.pauseMs = Math.min(this.pauseMs * 2, LONGEST_PAUSE_MS);
    }
  }

  private async read(mine: AbortController): Promise<void> {
    const headers = this.headers();
    if (this.lastId) headers["last-event-id"] = this.lastId;
    const answer = await fetch("/console/events", {
      headers,
      signal: mine.signal,
      cache: "no-store",
    });
    await checked(answer);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const watch = window.setTimeout(() => mine.abort(), SILENT_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(watch));
      if (done) return;
      const events = (rest + value).split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) this.take(event);
    }
  }

  private take(event: string): void {
    const fields = new Map(
      event.split("\n").map((line) => {
        const at = line.indexOf(": ");
        return [line.slice(0, at), line.slice(at + 2)];
      }),
    );
    const data = fields.get("data");
    if (data === undefined) return;
    this.lastId = fields.get("id") ?? "";
    this.pauseMs = FIRST_PAUSE_MS;
    this.listener.status("live", "");
    this.listener.told(fields.get("event") === "snapshot" ? "snapshot" : "delta", JSON.parse(data));
  }

  private async asked<T>(what: string, signal?: AbortSignal): Promise<T> {
    const answer = await fetch(`/console/${what}`, {
      headers: this.headers(),
      signal: signal ?? null,
      cache: "no-store",
    });
    return (await checked(answer)).json() as Promise<T>;
  }

  private async posted(what: string, document: object): Promise<unknown> {
    const answer = await fetch(`/console/${what}`, {
      method: "POST",
      headers: { ...this.headers(), "content-type": "application/json" },
      body: JSON.stringify(document),
    });
    return (await checked(answer)).json();
  }
}

function ended(error: unknown): [Status, string] {
  if (error instanceof Refused && error.http === 401) return ["key-needed", error.message];
  if (error instanceof Refused && error.http === 403) return ["refused", error.message];
  return ["lost", error instanceof Refused ? error.message : "the gateway does not answer"];
}

async function checked(answer: Response): Promise<Response> {
  if (answer.ok) return answer;
  let message = `${answer.status} ${answer.statusText}`;
  try {
    message = ((await answer.json()) as { error: string }).error;
  } catch {
    // not ours: a proxy's page
  }
  throw new Refused(answer.status, message);
}
