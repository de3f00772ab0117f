// Types that several modules use. The Python side of each: visualize/run/view.py, and the
// docstrings of the components.

/** How tokens of one kind look, and the words for it. `look` is its key. */
export interface Look {
  look: string;
  glyph: string;
  label: string;
  proposer: string;
  sentence: string;
  colour: string;
  paper: string;
  paper_dark: string;
}
export type Looks = Map<string, Look>;

/** A proposed token. `parent` is the number of its parent, 0 for the root of the tree. */
export interface TreeNode {
  text: string;
  parent: number;
  look: string;
  id?: number;
  source?: string;
  learned?: string;
  step?: number;
}

/** A token of the text: a proposed one, with the number of its `node`, or the target's own. */
export interface Token {
  text: string;
  node?: number;
  look?: string;
  id?: number;
  source?: string;
  kind?: string;
  why?: string;
}

/** [id, text, target's probability, draft's, noise, residual]; null for an unknown number. */
export type Odds = [number, string, number, number | null, number | null, number | null];

export interface Step {
  index: number;
  root: string;
  tokens: Token[];
  nodes: TreeNode[];
  /** Seconds of prefill, draft, verification, learning and the rest. */
  seconds: number[];
  odds?: Odds[][];
  window?: [string, number][];
  width: number;
  passes: number;
  saved?: number;
}

/** Where a text differs from plain decoding's. */
export interface Parting {
  index: number;
  mark: string;
  words: string;
}

/** What a token's card says. */
export interface Facts extends Token {
  where?: string;
  origin?: string;
  odds?: Odds[];
  chosen?: number;
  alone?: boolean;
  rejected?: boolean;
  number?: number;
  learned?: string;
  learnedAt?: number;
  step?: number;
  phrase?: string;
  parts?: string;
  jump?: () => void;
}

/** A Plotly figure. */
export interface Figure {
  data: any[];
  layout: any;
}

/** The facts of a view. `value` is JSON text, or null as long as the server has sent nothing. */
export interface Props {
  value: string | null;
  looks?: Look[];
  [name: string]: any;
}

export type Watch = (name: "value", changed: () => void) => void;
export type Trigger = (event: string, detail: object) => void;

/** What mounts a view in its element: kit/json_html.py calls it. `keep` gives it another value. */
export type Mount = (
  element: HTMLElement & Record<string, any>,
  props: Props,
  watch?: Watch,
  trigger?: Trigger,
  server?: Record<string, (request: object) => Promise<string>>,
  keep?: (value: string) => void,
) => void;

/** Adds a listener that ends when the view is taken out of the page. */
export type Listen = (
  target: EventTarget,
  name: string,
  act: (event: any) => void,
  capture?: boolean,
) => void;

declare global {
  interface Window {
    Plotly: any;
  }
  /** The views' own elements: the HTML beside each module says of which kind they are. */
  interface ParentNode {
    querySelector(selectors: string): any;
    querySelectorAll(selectors: string): NodeListOf<any>;
  }
  interface Element {
    closest(selectors: string): any;
  }
  interface Document {
    getElementById(id: string): any;
  }
  /** What the views of a page say to each other. */
  interface DocumentEventMap {
    /** A run was asked for. */
    "ouro:asked": CustomEvent<undefined>;
    /** The server has begun a run. */
    "ouro:begun": CustomEvent<{ run: string }>;
    /** A run was stopped by the visitor. */
    "ouro:stop": CustomEvent<undefined>;
    /** A run has ended, by whatever cause. */
    "ouro:ended": CustomEvent<undefined>;
    /** A view shows another run. */
    "ouro:shown": CustomEvent<undefined>;
    /** The prompt or a setting has changed; watch/asked.js has the values. */
    "ouro:inputs": CustomEvent<undefined>;
    /** The models have changed, and with them what methods lack. */
    "ouro:lacking": CustomEvent<undefined>;
    /** A method is chosen. */
    "ouro:method": CustomEvent<{ method: string }>;
    /** The cursor of a run has moved; `written` counts the steps that are over. */
    "ouro:cursor": CustomEvent<{
      run: string;
      step: number;
      written: number;
      token: number;
      seconds: number;
    }>;
    /** The legend of the visitor's run groups other sources, or names each. */
    "ouro:grouped": CustomEvent<{ grouped: boolean }>;
    /** A chart was clicked: a run must go to a step, a token or a second. */
    "ouro:seek": CustomEvent<{ run: string; step?: number; token?: number; seconds?: number }>;
    /** The page is left: views add what they want back. */
    "ouro:leave": CustomEvent<{ inputs: any; query: string; view?: object }>;
    /** One more of the visitor's own runs can be drawn. */
    "ouro:run": CustomEvent<undefined>;
    /** A lesson sets the sliders of the theory. */
    "ouro:theory": CustomEvent<Record<string, number>>;
    /** A recorded run of the static site has arrived. */
    "ouro:recorded": CustomEvent<{ name: string; run: object }>;
  }
}
