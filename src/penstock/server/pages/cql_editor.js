// An editor for CQL: highlighting, completion, and errors under the place they are at.
import * as CM from "nicegui-codemirror";

const WORDS = new Set(
  ("select istream dstream rstream distinct from where group by having and or not in exists is null as on join left right " +
    "full outer inner cross union except intersect all case when then else end between like range rows unbounded now partition " +
    "session slide every within memory maximize results order limit window create stream relation table view timestamp drop set " +
    "second seconds minute minutes hour hours day days millisecond milliseconds true false cast asc desc hop memory sample").split(" "),
);

const language = CM.StreamLanguage.define({
  name: "cql",
  startState: () => ({}),
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^--.*/)) return "comment";
    if (stream.match(/^'(?:[^']|'')*'?/)) return "string";
    if (stream.match(/^[0-9]+(\.[0-9]+)?/)) return "number";
    if (stream.match(/^[[\]]/)) return "bracket";
    const word = stream.match(/^[A-Za-z_][A-Za-z_0-9]*/);
    if (word) {
      if (WORDS.has(word[0].toLowerCase())) return "keyword";
      return stream.peek() === "(" ? "function" : "variableName";
    }
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "--" } },
});

const setError = CM.StateEffect.define();

class Message extends CM.WidgetType {
  constructor(text, indent) {
    super();
    this.text = text;
    this.indent = indent;
  }
  eq(other) {
    return other.text === this.text && other.indent === this.indent;
  }
  toDOM() {
    const line = document.createElement("div");
    line.className = "cql-error-line";
    line.setAttribute("role", "alert");
    line.style.paddingLeft = `min(calc(6px + ${this.indent}ch), 60%)`;
    line.textContent = `▲ ${this.text}`;
    return line;
  }
}

const errors = CM.StateField.define({
  create: () => CM.Decoration.none,
  update(set, change) {
    set = change.docChanged ? CM.Decoration.none : set;
    for (const effect of change.effects) if (effect.is(setError)) set = effect.value;
    return set;
  },
  provide: (field) => CM.EditorView.decorations.from(field),
});

const dark = () => (document.body.classList.contains("body--dark") ? CM.syntaxHighlighting(CM.oneDarkHighlightStyle) : []);

export default {
  template: `<div class="cql-editor" ref="host"></div>`,
  props: { value: String, label: String, items: Array },
  mounted() {
    this.waiting = null;
    const tell = () => {
      clearTimeout(this.waiting);
      this.waiting = null;
      this.$emit("text", this.editor.state.doc.toString());
    };
    const changed = CM.EditorView.updateListener.of((update) => {
      if (!update.docChanged || this.setting) return;
      clearTimeout(this.waiting);
      this.waiting = setTimeout(tell, 250);
    });
    // Who leaves the editor to press a button means the text that is there now.
    const left = CM.EditorView.domEventHandlers({ blur: () => void (this.waiting && tell()) });
    const run = CM.keymap.of([{ key: "Mod-Enter", run: () => (this.$emit("run", this.editor.state.doc.toString()), true) }]);
    const source = (context) => {
      const word = context.matchBefore(/[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_0-9]*)?|\[[A-Z ]*/i);
      if (!word || (word.from === word.to && !context.explicit)) return null;
      const dot = word.text.lastIndexOf(".");
      const input = dot >= 0 ? word.text.slice(0, dot).toLowerCase() : null;
      const all = this.items || [];
      const fitting = input === null ? all.filter((i) => !i.of || i.plain) : all.filter((i) => i.of && i.of.toLowerCase() === input);
      return { from: word.from + dot + 1, options: fitting, validFor: /^[\[A-Za-z_0-9 ]*$/ };
    };
    const colours = new CM.Compartment();
    this.watcher = new MutationObserver(() => this.editor.dispatch({ effects: colours.reconfigure(dark()) }));
    this.watcher.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.editor = new CM.EditorView({
      parent: this.$refs.host,
      state: CM.EditorState.create({
        doc: this.value || "",
        extensions: [
          run,
          colours.of(dark()),
          CM.basicSetup,
          language,
          CM.EditorState.languageData.of(() => [{ autocomplete: source }]),
          CM.EditorView.lineWrapping,
          CM.EditorView.contentAttributes.of({ "aria-label": this.label || "CQL" }),
          errors,
          changed,
          left,
        ],
      }),
    });
  },
  unmounted() {
    this.watcher?.disconnect();
    this.editor?.destroy();
  },
  methods: {
    set(text) {
      this.setting = true;
      this.editor.dispatch({ changes: { from: 0, to: this.editor.state.doc.length, insert: text } });
      this.setting = false;
    },
    text() {
      return this.editor.state.doc.toString();
    },
    error(found) {
      const doc = this.editor.state.doc;
      if (!found) {
        this.editor.dispatch({ effects: setError.of(CM.Decoration.none) });
        return;
      }
      const line = doc.line(Math.min(Math.max(found.line || doc.lines, 1), doc.lines));
      const from = Math.min(line.from + Math.max((found.column || 1) - 1, 0), line.to);
      const word = /^[\w.]+|^\S/.exec(doc.sliceString(from, line.to));
      const to = Math.min(from + (word ? word[0].length : 1), line.to);
      const marks = [];
      if (to > from) marks.push(CM.Decoration.mark({ class: "cql-error" }).range(from, to));
      const under = CM.Decoration.widget({ widget: new Message(found.message, from - line.from), side: 1, block: true });
      marks.push(under.range(line.to));
      this.editor.dispatch({ effects: setError.of(CM.Decoration.set(marks, true)) });
    },
  },
};
