// A page that stands alone has no Gradio that says whether it is dark.
export function followColourScheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.body.classList.toggle("dark", dark.matches);
  follow();
  dark.addEventListener("change", follow);
}

export const pageFacts = () => JSON.parse(document.getElementById("facts").textContent);
