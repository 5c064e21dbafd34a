import { useEffect, useMemo, useReducer, useState } from "preact/hooks";
import { Alarm } from "./alarm";
import { Connection, type Status } from "./connection";
import { Decisions } from "./decisions";
import { Endpoints } from "./endpoints";
import { Flow } from "./flow";
import { Header } from "./header";
import { LatencyView } from "./latency";
import { Pools } from "./pools";
import { SignIn } from "./signin";
import { SpendView } from "./spend";
import { after, type Known, NOTHING } from "./store";
import { Switch } from "./switch";
import { Timeline } from "./timeline";
import type { Operator, Told } from "./types";

const STALE_MS = 5000;
const LOOK_MS = 500;

interface Event {
  kind: "snapshot" | "delta";
  told: Told;
}

export function App() {
  const [known, tell] = useReducer(
    (now: Known, event: Event) => after(now, event.kind, event.told, performance.now()),
    NOTHING,
  );
  const [[status, why], setStatus] = useState<[Status, string]>(["connecting", ""]);
  const [operator, setOperator] = useState<Operator | null>(null);
  const [said, say] = useState("");
  const [now, setNow] = useState(performance.now());

  const connection = useMemo(
    () =>
      new Connection({
        told: (kind, told) => tell({ kind, told }),
        status: (status, why) =>
          setStatus((old) => (old[0] === status && old[1] === why ? old : [status, why])),
        operator: setOperator,
      }),
    [],
  );
  useEffect(() => {
    connection.start();
    const timer = setInterval(() => setNow(performance.now()), LOOK_MS);
    return () => clearInterval(timer);
  }, [connection]);

  const silentMs = known.heardAt ? Math.max(0, now - known.heardAt) : 0;
  const stale = known.heardAt > 0 && silentMs > STALE_MS;
  const sections = known.sections;
  const operates = (operator?.operates ?? false) && !stale && status === "live";

  return (
    <>
      <nav aria-label="Shortcuts">
        <a class="skip" href="#decisions">
          To the decisions
        </a>
        <a class="skip" href="#operate">
          To the endpoints and the kill switch
        </a>
      </nav>
      <Header
        gateway={sections?.gateway ?? null}
        status={stale ? "lost" : status}
        operator={operator}
        signOut={connection.hasKey ? () => connection.signOut() : null}
      />
      <div role="alert" class="banners">
        {sections && sections.alarm.restricted_in_cloud > 0 && (
          <p class="banner" id="alarm">
            <strong>✕ Alarm:</strong> {sections.alarm.restricted_in_cloud} restricted in the cloud
            since the start, the last one decision {sections.alarm.latest}. Stop spilling, and keep
            the audit.
          </p>
        )}
        {stale && (
          <p class="banner" id="stale">
            <strong>Stale.</strong> No news for {Math.round(silentMs / 1000)} s
            {why ? ` (${why})` : ""}: the figures below are old. Trying again by itself.
          </p>
        )}
        {!sections && status === "lost" && (
          <p class="banner">
            <strong>No connection:</strong> {why}. Trying again by itself.
          </p>
        )}
        {status === "refused" && (
          <p class="banner">
            <strong>Not for you:</strong> {why}
          </p>
        )}
      </div>
      <p class="unseen" role="status">
        {said}
      </p>
      {status === "key-needed" && (
        <SignIn tried={connection.hasKey ? why : ""} signIn={(key) => connection.signIn(key)} />
      )}
      {sections && (
        <main class={stale ? "stale" : ""}>
          <Alarm alarm={sections.alarm} counts={sections.counts} flow={sections.flow} />
          <div class="column">
            <Flow flow={sections.flow} endpoints={sections.endpoints} />
            <Timeline timeline={sections.timeline} />
            <Decisions decisions={known.decisions} explain={(decision) => connection.explain(decision)} />
          </div>
          <div class="column">
            <Pools pools={sections.pools} />
            <section class="panel" aria-labelledby="operate">
              <h2 id="operate" tabIndex={-1}>
                Endpoints
              </h2>
              <Switch
                state={sections.switch}
                operates={operates}
                act={(on) => connection.stopSpill(on)}
                say={say}
              />
              <Endpoints
                endpoints={sections.endpoints}
                operates={operates}
                drain={(name, drained) => connection.drain(name, drained)}
                say={say}
              />
            </section>
            <LatencyView latency={sections.latency} />
            <SpendView spend={sections.spend} />
          </div>
        </main>
      )}
      {!sections && status === "connecting" && <p class="wait">Connecting to the gateway…</p>}
    </>
  );
}
