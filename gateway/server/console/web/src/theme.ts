/** Dark or light: as the system says, until somebody says otherwise here. */
import { useState } from "preact/hooks";

type Theme = "system" | "light" | "dark";
const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const KEPT_AS = "spillway-theme";

function kept(): Theme {
  const found = localStorage.getItem(KEPT_AS);
  return found === "light" || found === "dark" ? found : "system";
}

function apply(theme: Theme = kept()): void {
  document.documentElement.dataset.theme = theme;
}

export function useTheme(): [Theme, () => void] {
  const [theme, set] = useState<Theme>(kept());
  const turn = () => {
    const next = NEXT[theme];
    localStorage.setItem(KEPT_AS, next);
    apply(next);
    set(next);
  };
  return [theme, turn];
}
useTheme.apply = apply;
