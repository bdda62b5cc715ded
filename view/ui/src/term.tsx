import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

/** Term is a word that says what it means under the pointer, with the focus, or by a tap. */
export function Term({ word, children }: { word: string; children: ComponentChildren }) {
  const id = useId();
  return (
    <span class="term">
      <button type="button" class="word" aria-describedby={id}>
        {word}
      </button>
      <span class="tip" role="tooltip" id={id}>
        {children}
      </span>
    </span>
  );
}
