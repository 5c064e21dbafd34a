/** What is known now, from the last picture and what was told since. */
import type { Decision, Sections, Told } from "./types";

export interface Known {
  sections: Sections | null;
  decisions: Decision[]; // newest first
  heardAt: number; // ms of performance.now(); 0: never
}

const KEPT = 300;

export const NOTHING: Known = { sections: null, decisions: [], heardAt: 0 };

export function after(known: Known, kind: "snapshot" | "delta", told: Told, now: number): Known {
  const { time: _time, decisions, ...sections } = told;
  const whole = kind === "snapshot" ? sections : { ...known.sections, ...sections };
  const before = kind === "snapshot" ? [] : known.decisions;
  return {
    sections: whole as Sections,
    decisions: decisions ? merged(before, decisions) : before,
    heardAt: now,
  };
}

/** A decision that was told before is told again when its stream has ended. */
function merged(before: Decision[], told: Decision[]): Decision[] {
  const again = new Map(told.map((decision) => [decision.decision, decision]));
  const kept = before.map((decision) => {
    const newer = again.get(decision.decision);
    again.delete(decision.decision);
    return newer ?? decision;
  });
  return [...again.values(), ...kept].sort((a, b) => b.time - a.time || b.seq - a.seq).slice(0, KEPT);
}
