// What is known of one token: who wrote it, why it stands there, and what both models thought. Needs dom.js.
class TokenCard {
  constructor(card, frame, looks) {
    Object.assign(this, { card, frame, looks, locked: false });
  }

  hide() {
    this.locked = false;
    if (this.under) {
      this.under.removeAttribute("aria-describedby");
      if (this.card.contains(document.activeElement)) this.under.focus();
    }
    this.card.hidden = true;
    this.card.classList.remove("ouro-locked");
    this.card.setAttribute("role", "tooltip");
    this.card.removeAttribute("aria-label");
  }

  // facts: {text, look, why, origin, odds, rows}; under: the element it belongs to.
  show(facts, under, lock) {
    if (this.under && this.under !== under) this.under.removeAttribute("aria-describedby");
    this.under = under;
    under.setAttribute("aria-describedby", this.card.id);
    const look = this.looks.get(facts.look);
    const head = make("p", "ouro-card-head");
    const name = facts.rejected ? say("view.card.rejected", { label: look.label }) : look.label;
    head.append(make("b", "ouro-quote", visible(facts.text)), make("span", "ouro-glyph", look.glyph), make("span", "", name));
    const parts = [head, make("p", "ouro-facts", facts.where)];
    if (facts.origin) parts.push(make("p", "ouro-origin", facts.origin));
    if (facts.why) parts.push(make("p", "ouro-why", facts.why));
    if (facts.odds) parts.push(this.odds(facts));
    if (facts.phrase) parts.push(make("p", "ouro-phrase", say("view.card.phrase", { text: facts.phrase })));
    this.card.replaceChildren(...parts);
    this.card.dataset.look = facts.look;
    this.card.hidden = false;
    if (lock) this.lock(facts);
    const box = under.getClientRects()[0] || under.getBoundingClientRect(), frame = this.frame.getBoundingClientRect();
    const left = Math.max(0, Math.min(box.left - frame.left, frame.width - this.card.offsetWidth));
    this.card.style.left = left + "px";
    this.card.style.top = box.bottom - frame.top + 4 + "px";
  }

  lock(facts) {
    this.locked = true;
    this.card.classList.add("ouro-locked");
    this.card.setAttribute("role", "group");
    this.card.setAttribute("aria-label", say("view.card.about", { text: visible(facts.text) }));
    const close = make("button", "ouro-close", "×");
    close.type = "button";
    close.setAttribute("aria-label", say("view.card.close"));
    close.addEventListener("click", () => this.hide());
    this.card.prepend(close);
    if (facts.learnedAt === undefined) return;
    const jump = make("button", "ouro-jump", say("view.card.jump", { n: facts.learnedAt + 1 }));
    jump.type = "button";
    jump.addEventListener("click", () => facts.jump());
    this.card.append(jump);
  }

  // Mirrored bars: the draft to the left, the target to the right of each token.
  odds(facts) {
    const table = make("table", "ouro-odds"), head = make("tr"), [first] = facts.odds;
    const drafted = first[3] !== null, noisy = first[4] !== null, left = first[5] !== null;
    if (drafted) head.append(make("th", "", say("view.card.draft")));
    head.append(make("th", "", say("view.card.token")), make("th", "", say(facts.alone ? "view.card.draft" : "view.card.target")));
    if (noisy) head.append(make("th", "", say("view.card.noise")));
    if (left) head.append(make("th", "", say("view.card.left")));
    table.append(head);
    const named = (row) => row[0] === facts.id || row[0] === facts.chosen;
    const best = new Set([...facts.odds].sort((a, b) => b[3] - a[3]).slice(0, drafted ? 10 : 0));
    const rows = facts.odds.filter((row, index) => index < 10 || named(row) || best.has(row));
    for (const row of rows) {
      const line = make("tr", row[0] === facts.chosen ? "ouro-chosen" : row[0] === facts.id ? "ouro-this" : "");
      const bar = (value, side) => {
        const cell = make("td", "ouro-bar ouro-" + side), fill = make("i");
        fill.style.width = 100 * value + "%";
        fill.dataset.look = { draft: "draft", target: "correction", left: "bonus" }[side];
        cell.append(fill, make("span", "", percent(value)));
        return cell;
      };
      if (drafted) line.append(bar(row[3], "draft"));
      line.append(make("th", "", visible(row[1])), bar(row[2], "target"));
      if (noisy) line.append(make("td", "ouro-number", row[4].toFixed(2)));
      if (left) line.append(bar(row[5], "left"));
      table.append(line);
    }
    return table;
  }
}
