// @ts-check
// A suffix automaton (Blumer et al. 1985), as in ouroboros_core/lookup/suffix_automaton.py: for all
// tokens so far it finds the longest end of the text that occurred before, and its most recent end.
/** @import { Token } from "../kit/types" */

/** The number of suffixes, the longest first, whose last end is updated at once. */
export const FRESH = 64;

/** @template Token */
export class SuffixAutomaton {
  constructor() {
    this.count = 0; // tokens
    /** @type {Map<Token, number>[]} */
    this.next = [new Map()];
    this.link = [-1];
    this.length = [0];
    this.ended = [-1];
    this.last = 0;
    /** @type {{ length: number, end: number } | null} the end of the earlier occurrence */
    this.recent = null;
  }

  get states() {
    return this.next.length;
  }

  /** @param {Token} token */
  append(token) {
    const position = this.count++;
    const state = this.add(this.length[this.last] + 1, new Map());
    let before = this.last,
      parent = 0;
    while (before >= 0 && !this.next[before].has(token)) {
      this.next[before].set(token, state);
      before = this.link[before];
    }
    if (before >= 0) {
      parent = this.next[before].get(token);
      if (this.length[parent] !== this.length[before] + 1)
        parent = this.clone(before, token, parent);
    }
    this.link[state] = parent;
    const length = this.length[parent];
    this.recent = length ? { length, end: this.ended[parent] + 1 } : null;
    this.last = state;
    for (let n = 0, one = state; n < FRESH && one !== 0; n++) {
      this.ended[one] = position;
      one = this.link[one];
    }
  }

  /**
   * @param {number} length
   * @param {Map<Token, number>} following
   */
  add(length, following) {
    this.next.push(following);
    this.length.push(length);
    this.link.push(-1);
    this.ended.push(-1);
    return this.length.length - 1;
  }

  /**
   * Split off a state for the shorter substrings of `old`, which now have one more end position.
   * @param {number} before
   * @param {Token} token
   * @param {number} old
   */
  clone(before, token, old) {
    const clone = this.add(this.length[before] + 1, new Map(this.next[old])),
      parent = this.link[old];
    this.link[clone] = parent;
    this.link[old] = clone;
    this.ended[clone] = this.ended[old];
    for (let at = before; at >= 0 && this.next[at].get(token) === old; at = this.link[at])
      this.next[at].set(token, clone);
    return clone;
  }
}
