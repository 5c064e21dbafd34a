/** The whole explanation of one decision, in a dialog. */
import { useEffect, useRef, useState } from "preact/hooks";
import { clock, ms, usd, ZONES } from "./format";
import type { Explanation } from "./types";

interface Props {
  decision: string;
  explain: (decision: string) => Promise<Explanation>;
  close: () => void;
}

export function Explained({ decision, explain, close }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [found, setFound] = useState<Explanation | null>(null);
  const [failed, setFailed] = useState("");
  useEffect(() => {
    dialog.current!.showModal();
    explain(decision).then(setFound, (error: Error) => setFailed(error.message));
  }, [decision]);
  return (
    <dialog
      ref={dialog}
      id="explanation"
      aria-labelledby="explanation-title"
      onClose={close}
      onClick={(event) => {
        if (event.target === event.currentTarget) event.currentTarget.close();
      }}
    >
      <div class="inside">
        <div class="line">
          <h2 id="explanation-title">Why this call went where it went</h2>
          <button type="button" onClick={() => dialog.current!.close()}>
            Close
          </button>
        </div>
        {failed && <p class="bad">{failed}</p>}
        {!found && !failed && <p>Asking the gateway…</p>}
        {found && <Body found={found} />}
      </div>
    </dialog>
  );
}

function Body({ found }: { found: Explanation }) {
  const codes = Object.entries(found.codes).filter(([, code]) => code !== null);
  return (
    <>
      <p class={`headline ${found.zone}`}>{found.headline}</p>
      <ul class="sentences">
        {found.sentences.map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
      <h3>Every endpoint that serves {found.model}</h3>
      <ul class="verdicts">
        {found.endpoints.map((endpoint) => (
          <li key={endpoint.endpoint}>
            <strong>{endpoint.endpoint}</strong> – {endpoint.verdict}: {endpoint.words}
            {endpoint.code && (
              <>
                {" "}
                <code>{endpoint.code}</code>
              </>
            )}
            {endpoint.predicted_ms !== null && <>; predicted {ms(endpoint.predicted_ms)}</>}
          </li>
        ))}
      </ul>
      {found.attempts.length > 0 && (
        <>
          <h3>What was tried, in order</h3>
          <div class="scroll" tabIndex={0} role="group" aria-label="attempts">
            <table>
              <thead>
                <tr>
                  <th scope="col">endpoint</th>
                  <th scope="col">zone</th>
                  <th scope="col">result</th>
                  <th scope="col" class="number">queued</th>
                  <th scope="col" class="number">took</th>
                  <th scope="col" class="number">price</th>
                </tr>
              </thead>
              <tbody>
                {found.attempts.map((attempt, at) => (
                  <tr key={at}>
                    <th scope="row">{attempt.endpoint}</th>
                    <td>{ZONES[attempt.zone]}</td>
                    <td>
                      {attempt.words} <code>{attempt.result}</code>
                    </td>
                    <td class="number">{ms(attempt.queued_ms)}</td>
                    <td class="number">{ms(attempt.took_ms)}</td>
                    <td class="number">{usd(attempt.price_usd)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
      <h3>To look it up</h3>
      <dl>
        <dt>time</dt>
        <dd>{clock(found.time)}</dd>
        <dt>tenant</dt>
        <dd>{found.tenant}</dd>
        <dt>call</dt>
        <dd>
          <code>{found.id}</code>
        </dd>
        <dt>trace</dt>
        <dd>
          <code>{found.trace}</code>
        </dd>
        <dt>policy</dt>
        <dd>
          <code>{found.policy}</code>
        </dd>
        {codes.flatMap(([name, code]) => [
          <dt key={name}>{name.replace("_", " ")}</dt>,
          <dd key={`${name} code`}>
            <code>{code}</code>
          </dd>,
        ])}
      </dl>
    </>
  );
}
