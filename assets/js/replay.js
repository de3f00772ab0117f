// Mounts the one run of a replay that stands alone.
const dark = matchMedia("(prefers-color-scheme: dark)");
const dress = () => document.body.classList.toggle("dark", dark.matches);
dress();
dark.addEventListener("change", dress);
ouroTokens(document.getElementById("run"), JSON.parse(document.getElementById("facts").textContent), () => {}, () => {});
