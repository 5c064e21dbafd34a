import { ms, ZONES } from "./format";
import { Twice } from "./twice";
import type { Endpoint } from "./types";

const MARKS: Record<Endpoint["state"], string> = {
  up: "●",
  slow: "◆",
  ejected: "▲",
  down: "✕",
  draining: "◐",
  drained: "■",
};

interface Props {
  endpoints: Endpoint[];
  operates: boolean;
  drain: (name: string, drained: boolean) => Promise<unknown>;
  say: (text: string) => void;
}

export function Endpoints({ endpoints, operates, drain, say }: Props) {
  return (
    <ul class="endpoints" aria-label="Endpoints">
      {endpoints.map((endpoint) => (
        <li key={endpoint.name} data-endpoint={endpoint.name} class={endpoint.state}>
          <div class="line">
            <h3>
              {endpoint.name}{" "}
              <small>
                {ZONES[endpoint.zone]}, {endpoint.kind}, {endpoint.in_flight} in flight
              </small>
            </h3>
            <p class={`state ${endpoint.state}`}>
              <span aria-hidden="true">{MARKS[endpoint.state]} </span>
              {endpoint.state}
            </p>
            <Twice
              label={endpoint.drained ? "Un-drain" : "Drain"}
              sure={endpoint.drained ? "Sure? Un-drain" : "Sure? Drain"}
              name={`${endpoint.drained ? "un-drain" : "drain"} ${endpoint.name}`}
              done={
                endpoint.drained
                  ? `${endpoint.name} takes calls again`
                  : `${endpoint.name} gets no new calls; those it has finish`
              }
              disabled={!operates}
              act={() => drain(endpoint.name, !endpoint.drained)}
              say={say}
            />
          </div>
          {endpoint.models.length > 0 && (
            <details>
              <summary>
                {endpoint.models.length} models
                {endpoint.models.some((m) => m.health !== "trusted") &&
                  `: ${endpoint.models
                    .filter((m) => m.health !== "trusted")
                    .map((m) => `${m.model} ${m.health}`)
                    .join(", ")}`}
                {endpoint.stale && " (its own statistics are stale)"}
              </summary>
              <table>
                <thead>
                  <tr>
                    <th scope="col">model</th>
                    <th scope="col">health</th>
                    <th scope="col" class="number">in flight</th>
                    <th scope="col" class="number">p50</th>
                    <th scope="col" class="number">p95</th>
                  </tr>
                </thead>
                <tbody>
                  {endpoint.models.map((model) => (
                    <tr key={model.model}>
                      <th scope="row">{model.model}</th>
                      <td>{model.health}</td>
                      <td class="number">{model.in_flight}</td>
                      <td class="number">{ms(model.p50_ms)}</td>
                      <td class="number">{ms(model.p95_ms)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </details>
          )}
        </li>
      ))}
    </ul>
  );
}
