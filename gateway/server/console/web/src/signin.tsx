import { useRef } from "preact/hooks";

export function SignIn({ tried, signIn }: { tried: string; signIn: (key: string) => void }) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <main class="signin">
      <form
        class="panel"
        onSubmit={(event) => {
          event.preventDefault();
          if (field.current!.value.trim()) signIn(field.current!.value.trim());
        }}
      >
        <h2>Operator's key</h2>
        <p>The page shows every tenant, so it takes a key of its own (console.operators).</p>
        <label for="key">Key</label>
        <input id="key" type="password" autocomplete="off" ref={field} required />
        <button type="submit" class="main">
          Look
        </button>
        {tried && (
          <p role="alert" class="bad">
            {tried}
          </p>
        )}
      </form>
    </main>
  );
}
