/** What `/console/events` and `/console/decisions/N` say. The other end: gateway/console/. */

export type Zone = "onprem" | "cloud";
export type ZoneOrNone = Zone | "none";
export type Sensitivity = "clear" | "restricted";

export interface Path {
  source: string;
  sensitivity: Sensitivity;
  zone: ZoneOrNone;
  endpoint: string;
  calls: number;
  per_s: number;
}

export interface Lane {
  model: string;
  health: string;
  in_flight: number;
  p50_ms: number | null;
  p95_ms: number | null;
}

export interface Endpoint {
  name: string;
  zone: Zone;
  kind: string;
  state: "up" | "down" | "draining" | "drained" | "ejected" | "slow";
  up: boolean;
  drained: boolean;
  in_flight: number;
  stale: boolean;
  models: Lane[];
}

export interface Pool {
  model: string;
  servers: string[];
  waiting: number;
  max_waiting: number;
  in_flight: number;
  window: number;
  out: boolean;
  predicted_ms: number | null;
  spills_at_ms: number;
  level: number;
  spills: boolean; // it has a cloud, and clear calls that may go there
}

export interface Quantiles {
  n: number;
  p50: number | null;
  p95: number | null;
  p99: number | null;
}

export interface Latency {
  zones: Partial<Record<Zone, Quantiles>>;
  budgets: Quantiles & { least: number | null; steps_ms: number[]; calls: number[] };
  window_s: number;
  in_time: number;
  answered: number;
}

export interface Spend {
  period: string;
  spent_usd: number;
  reserved_usd: number;
  budget_usd: number | null;
  all_cloud_usd: number | null;
  saved_usd: number | null;
  source: "budgets" | "ledger";
}

export interface Decision {
  decision: string; // WORKER-NUMBER
  seq: number;
  time: number;
  tenant: string;
  protocol: string;
  model: string;
  sensitivity: Sensitivity | null;
  zone: ZoneOrNone;
  endpoint: string | null;
  reason: string;
  words: string;
  outcome: string;
  took_ms: number;
  tries: number;
}

export interface Explanation extends Decision {
  id: string;
  trace: string;
  policy: string;
  operation: string;
  headline: string;
  sentences: string[];
  endpoints: {
    endpoint: string;
    verdict: string;
    code: string | null;
    words: string;
    predicted_ms: number | null;
  }[];
  attempts: {
    endpoint: string;
    zone: Zone;
    result: string;
    words: string;
    queued_ms: number;
    took_ms: number;
    price_usd: number;
  }[];
  codes: Record<string, string | null>;
  entities: Record<string, number>;
  zones: string[];
}

export interface Sections {
  gateway: { version: string; policy: string; draining: boolean; in_flight: number };
  endpoints: Endpoint[];
  pools: Pool[];
  flow: { window_s: number; paths: Path[] };
  timeline: { step_s: number; onprem: number[]; cloud: number[]; none: number[] };
  latency: Latency;
  counts: { sensitivity: Sensitivity; zone: ZoneOrNone; calls: number }[];
  alarm: {
    restricted_in_cloud: number;
    stopped_at_door: number;
    latest: string | null;
    restricted: number;
  };
  spend: Spend;
  switch: { available: boolean; on: boolean };
}

export type Told = Partial<Sections> & { time: number; decisions?: Decision[] };

export interface Operator {
  name: string;
  operates: boolean;
  development: boolean;
}
