/**
 * Calls from their sources through the classes to the zones: three columns whose bands are as wide
 * as the rate. Classes differ by pattern and words, not by colour alone.
 */
import { PROTOCOLS, perS, ZONES } from "./format";
import { bands, type Band, type Node } from "./layout";
import type { Sections } from "./types";
import { useWidth } from "./width";

const NARROW = 620; // rem/16
const MARKS = { onprem: "▣", cloud: "☁", none: "✕" } as const;

type Props = Pick<Sections, "flow" | "endpoints">;

export function Flow({ flow, endpoints }: Props) {
  const [ref, width, unit] = useWidth<HTMLDivElement>();
  const narrow = width < NARROW * unit;
  const height = Math.round(300 * unit);
  const drawn = width > 0 ? bands(flow.paths, endpoints, { width, height, narrow, unit }) : null;
  const rate = flow.paths.reduce((sum, path) => sum + path.per_s, 0);
  return (
    <section class="panel wide" aria-labelledby="flow">
      <h2 id="flow">
        Live flow <small>last {Math.round(flow.window_s)} s</small>
      </h2>
      <ul class="legend" aria-hidden="true">
        <li>
          <i class="swatch clear" /> clear
        </li>
        <li>
          <i class="swatch restricted" /> restricted (hatched)
        </li>
      </ul>
      <div class="drawing" ref={ref}>
        {drawn && (
          <svg
            class="flow"
            width={width}
            height={height}
            viewBox={`0 0 ${width} ${height}`}
            role="img"
            aria-label={`Calls from clients through the classes to the zones, ${perS(rate)} in all. The same as a table follows.`}
          >
            <defs>
              <pattern
                id="hatch"
                width="8"
                height="8"
                patternUnits="userSpaceOnUse"
                patternTransform="rotate(45)"
              >
                <rect width="8" height="8" class="hatch-ground" />
                <rect width="3.2" height="8" class="hatch-line" />
              </pattern>
            </defs>
            {drawn.bands.map((band) => (
              <Ribbon key={band.id} band={band} />
            ))}
            {drawn.nodes.map((node) => (
              <NodeBar key={node.id} node={node} narrow={narrow} unit={unit} />
            ))}
          </svg>
        )}
        {rate === 0 && <p class="empty over">No calls just now.</p>}
      </div>
      <details>
        <summary>The flow as a table</summary>
        <table>
          <thead>
            <tr>
              <th scope="col">from</th>
              <th scope="col">class</th>
              <th scope="col">zone</th>
              <th scope="col">endpoint</th>
              <th scope="col" class="number">
                calls
              </th>
              <th scope="col" class="number">
                rate
              </th>
            </tr>
          </thead>
          <tbody>
            {flow.paths.map((path) => (
              <tr key={`${path.source} ${path.sensitivity} ${path.zone} ${path.endpoint}`}>
                <td>{PROTOCOLS[path.source] ?? path.source}</td>
                <td>{path.sensitivity}</td>
                <td>{ZONES[path.zone]}</td>
                <td>{path.endpoint || "–"}</td>
                <td class="number">{path.calls}</td>
                <td class="number">{perS(path.per_s)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </section>
  );
}

function Ribbon({ band }: { band: Band }) {
  return (
    <g class={`band ${band.sensitivity}`}>
      <title>{`${band.title}: ${perS(band.per_s)}`}</title>
      <path d={band.line} class="body" stroke-width={band.width} />
      <path
        d={band.line}
        class={`drops ${band.per_s > 8 ? "fast" : band.per_s > 2 ? "brisk" : "slow"}`}
        stroke-width={Math.min(5, Math.max(2, band.width / 3))}
      />
    </g>
  );
}

function NodeBar({ node, narrow, unit }: { node: Node; narrow: boolean; unit: number }) {
  const mark = node.zone ? `${MARKS[node.zone]} ` : "";
  const right = node.x + node.width + 6;
  const left = node.x - 6;
  const [at, anchor] = {
    0: narrow ? ([right, "start"] as const) : ([left, "end"] as const),
    1: [node.x + node.width / 2, "middle"] as const,
    2: narrow ? ([left, "end"] as const) : ([right, "start"] as const),
  }[node.column];
  const y = node.column === 1 ? node.y - 7 * unit : node.y + node.height / 2;
  const name = (PROTOCOLS[node.name] ?? node.name).replace(narrow ? "KServe " : "", "");
  return (
    <g class={`node ${node.kind}`}>
      <rect x={node.x} y={node.y} width={node.width} height={node.height} rx="3" />
      <text x={at} y={y} text-anchor={anchor} dominant-baseline={node.column === 1 ? "auto" : "middle"}>
        {mark}
        {narrow && name.length > 12 ? `${name.slice(0, 11)}…` : name}
        {(!narrow || node.column === 1) && <tspan class="rate"> {perS(node.per_s)}</tspan>}
      </text>
      {node.note && (
        <text x={at} y={y + 15 * unit} text-anchor={anchor} dominant-baseline="middle" class="note">
          {node.note}
        </text>
      )}
    </g>
  );
}
