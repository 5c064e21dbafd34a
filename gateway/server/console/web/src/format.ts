const NUMBER = new Intl.NumberFormat("en");
const TIME = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

export function count(value: number): string {
  return NUMBER.format(value);
}

export function ms(value: number | null): string {
  if (value === null) return "–";
  if (value >= 10_000) return `${(value / 1000).toFixed(value >= 100_000 ? 0 : 1)} s`;
  return value >= 10 ? `${Math.round(value)} ms` : `${value.toFixed(1)} ms`;
}

export function perS(value: number): string {
  return `${value >= 10 ? Math.round(value) : value.toFixed(1)}/s`;
}

export function usd(value: number): string {
  return `$${value.toFixed(value >= 100 ? 0 : value >= 1 ? 2 : 4)}`;
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

export function clock(unixS: number): string {
  return TIME.format(new Date(unixS * 1000));
}

export const ZONES = { onprem: "on-prem", cloud: "cloud", none: "not answered" } as const;

export const PROTOCOLS: Record<string, string> = {
  openai: "OpenAI",
  "kserve-rest": "KServe REST",
  "kserve-grpc": "KServe gRPC",
};
