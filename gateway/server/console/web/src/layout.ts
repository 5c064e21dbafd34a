/** Where the bands and bars of the flow are. Pure. */
import type { Endpoint, Path, Sensitivity, ZoneOrNone } from "./types";

export interface Node {
  id: string;
  name: string;
  note: string;
  kind: string;
  zone: ZoneOrNone | null;
  column: 0 | 1 | 2;
  x: number;
  y: number;
  width: number;
  height: number;
  per_s: number;
}

export interface Band {
  id: string;
  title: string;
  sensitivity: Sensitivity;
  line: string;
  width: number;
  per_s: number;
}

const BAR = 12;
const GAP = 24; // px between bars, where letters have their usual size; so all below
const TOP = 20; // above the middle bars stand their names
const MOST_APART = 60;
const NAMES_LEFT = 130; // beside the outer bars, where there is room
const NAMES_RIGHT = 175;
const LEAST = 3; // px of a band
const ZONE_ORDER: ZoneOrNone[] = ["onprem", "cloud", "none"];

export interface Space {
  width: number;
  height: number;
  narrow: boolean;
  unit: number; // how much larger than usual letters are
}

interface Slot {
  node: Node;
  filled: number; // px of its left or right side that bands have taken
  out: number;
}

export function bands(
  paths: Path[],
  endpoints: Endpoint[],
  { width, height, narrow, unit }: Space,
): { nodes: Node[]; bands: Band[] } {
  const live = paths.filter((path) => path.per_s > 0);
  const total = live.reduce((sum, path) => sum + path.per_s, 0);
  const sources = [...new Set(live.map((path) => path.source))].sort();
  const targets = ends(live, endpoints);
  const rows = Math.max(sources.length, targets.length, 2);
  const top = TOP * unit;
  const scale = Math.max(0, height - 2 * top - GAP * unit * (rows - 1)) / Math.max(total, 4);
  const [firstX, lastX] = narrow
    ? [0, width - BAR]
    : [NAMES_LEFT * unit, width - BAR - NAMES_RIGHT * unit];

  const column = (at: 0 | 1 | 2, names: [string, Partial<Node>, number][]): Map<string, Slot> => {
    const x = [firstX, Math.round((firstX + lastX) / 2), lastX][at]!;
    const tall = names.map(([, , rate]) => Math.max(LEAST, rate * scale));
    const used = tall.reduce((sum, one) => sum + one, 0);
    const apart = (height - 2 * top - used) / Math.max(1, names.length - 1);
    const gap = Math.max(14, Math.min(MOST_APART * unit, apart));
    let y = Math.max(top, (height - used - gap * (names.length - 1)) / 2);
    return new Map(
      names.map(([id, more, rate], nth) => {
        const node: Node = {
          id: `${at} ${id}`, name: id, note: "", kind: "source", zone: null, column: at,
          x, y, width: BAR, height: tall[nth]!, per_s: rate, ...more,
        };
        y += tall[nth]! + gap;
        return [id, { node, filled: 0, out: 0 }];
      }),
    );
  };
  const rate = (fits: (path: Path) => boolean) =>
    live.reduce((sum, path) => sum + (fits(path) ? path.per_s : 0), 0);

  const left = column(0, sources.map((name) => [name, {}, rate((p) => p.source === name)]));
  const middle = column(
    1,
    (["clear", "restricted"] as const).map((kind) => [
      kind, { kind }, rate((p) => p.sensitivity === kind),
    ]),
  );
  const right = column(
    2,
    targets.map(({ id, name, zone, note }) => [
      id,
      { name: narrow && zone === "none" ? "not answ." : name, zone, note: narrow ? "" : note, kind: zone },
      rate((p) => key(p) === id),
    ]),
  );

  const first = grouped(live, (p) => `${p.source}|${p.sensitivity}`).map(([p, per_s]) =>
    joined(left.get(p.source)!, middle.get(p.sensitivity)!, p.sensitivity, per_s, scale, `${p.source} → ${p.sensitivity}`),
  );
  for (const slot of middle.values()) slot.out = 0;
  const second = targets.flatMap((target) =>
    grouped(live.filter((p) => key(p) === target.id), (p) => p.sensitivity).map(([p, per_s]) =>
      joined(middle.get(p.sensitivity)!, right.get(target.id)!, p.sensitivity, per_s, scale, `${p.sensitivity} → ${target.name}`),
    ),
  );
  const nodes = [left, middle, right].flatMap((slots) => [...slots.values()].map((s) => s.node));
  return { nodes, bands: [...first, ...second] };
}

function key(path: Path): string {
  return `${path.zone}|${path.endpoint}`;
}

/** Every endpoint has its place, calls or not, so that nothing jumps. */
function ends(live: Path[], endpoints: Endpoint[]) {
  const found = endpoints.map((endpoint) => ({
    id: `${endpoint.zone}|${endpoint.name}`,
    name: endpoint.name,
    zone: endpoint.zone as ZoneOrNone,
    note: endpoint.state === "up" ? "" : endpoint.state,
  }));
  for (const path of live) {
    if (!found.some((one) => one.id === key(path)))
      found.push({ id: key(path), name: path.endpoint || "not answered", zone: path.zone, note: "" });
  }
  return found.sort((a, b) => ZONE_ORDER.indexOf(a.zone) - ZONE_ORDER.indexOf(b.zone));
}

function grouped(paths: Path[], by: (path: Path) => string): [Path, number][] {
  const found = new Map<string, [Path, number]>();
  for (const path of [...paths].sort((a, b) => (by(a) < by(b) ? -1 : 1))) {
    const before = found.get(by(path));
    found.set(by(path), [path, (before?.[1] ?? 0) + path.per_s]);
  }
  return [...found.values()];
}

function joined(
  from: Slot, to: Slot, sensitivity: Sensitivity, per_s: number, scale: number, title: string,
): Band {
  const wide = Math.max(LEAST, per_s * scale);
  const x0 = from.node.x + BAR;
  const x1 = to.node.x;
  const y0 = from.node.y + from.out + wide / 2;
  const y1 = to.node.y + to.filled + wide / 2;
  from.out += wide;
  to.filled += wide;
  const bend = (x1 - x0) / 2;
  return {
    id: `${from.node.id}>${to.node.id}>${sensitivity}`, title, sensitivity, width: wide, per_s,
    line: `M${x0},${y0} C${x0 + bend},${y0} ${x1 - bend},${y1} ${x1},${y1}`,
  };
}
