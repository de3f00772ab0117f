// @ts-check
// The score of "Be the draft": all players at the same positions, each with the last guess.
import { foreign, make, visible } from "../kit/dom.js";
/** @import { Mount } from "../kit/types" */

/** @type {Mount} */
export function mount(element, props, watch) {
  const root = element.querySelector(".ouro-draft-game-score"),
    table = element.querySelector(".ouro-draft-game-table");

  /** @param {{ pieces: string[], accepted: number }} last */
  function guess({ pieces, accepted }) {
    const cell = make("td", "ouro-draft-game-guess");
    if (pieces.length) foreign(cell);
    else cell.append(make("span", "ouro-small", "nothing"));
    pieces.forEach((text, n) => {
      const node = make(
        "span",
        n < accepted ? "ouro-token" : "ouro-draft-game-struck ouro-quiet ouro-mono",
        visible(text),
      );
      if (n < accepted) node.dataset.look = "draft";
      cell.append(node);
    });
    return cell;
  }

  /**
   * @param {{ name: string, you: boolean, mean: string, share: string, pieces: string[], accepted:
   *   number }} player
   */
  function row(player) {
    const line = make("tr"),
      name = make("th", "", player.name);
    name.scope = "row";
    if (player.you) line.dataset.you = "";
    line.append(name, make("td", "", player.mean), make("td", "", player.share), guess(player));
    return line;
  }

  function paint() {
    const rows = props.value ? JSON.parse(props.value).rows : [];
    const head = make("tr");
    for (const name of ["player", "tokens per pass", "accepted", "last guess"])
      head.append(make("th", "", name));
    table.replaceChildren(...(rows.length ? [head, ...rows.map(row)] : []));
    root.hidden = !rows.length;
  }

  paint();
  watch("value", paint);
}
