import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** The width of an element in CSS pixels, so that drawings keep their letters' size, and how much
 * larger than usual letters are: on a wall all of it grows. */
export function useWidth<T extends HTMLElement>(): [RefObject<T | null>, number, number] {
  const ref = useRef<T>(null);
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(([entry]) => set(Math.floor(entry!.contentRect.width)));
    watcher.observe(ref.current!);
    return () => watcher.disconnect();
  }, []);
  const unit = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
  return [ref, width, unit];
}
