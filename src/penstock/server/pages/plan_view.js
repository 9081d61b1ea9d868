// A plan's picture that can be moved, zoomed, searched and changed in place.
//
// The SVG is parsed as XML, in which nothing runs, and its texts are changed as text: no part of a query is
// ever read as HTML.
const STEP = 1.25;

export default {
  template: `
    <div class="plan-view" ref="frame" @wheel.prevent="wheel" @pointerdown="grab" @pointermove="drag"
         @pointerup="drop" @pointercancel="drop" @click="pick" @keydown="key">
      <div class="plan-host" ref="host"></div>
      <div class="plan-tools" role="toolbar" aria-label="Zoom">
        <button type="button" aria-label="Zoom in" title="Zoom in (+)" @click.stop="zoom(1 / 1.25)">+</button>
        <button type="button" aria-label="Zoom out" title="Zoom out (-)" @click.stop="zoom(1.25)">−</button>
        <button type="button" aria-label="Show all" title="Show all (0)" @click.stop="fit">⤢</button>
      </div>
    </div>`,
  mounted() {
    this.view = null;
    this.resized = new ResizeObserver(() => this.svg && !this.moved && this.start());
    this.resized.observe(this.$refs.frame);
  },
  unmounted() {
    this.resized.disconnect();
  },
  methods: {
    show(text, keep) {
      const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
      if (parsed.querySelector("parsererror")) return;
      const svg = document.importNode(parsed.documentElement, true);
      this.whole = svg.getAttribute("viewBox").split(" ").map(Number);
      svg.setAttribute("width", "100%");
      svg.setAttribute("height", "100%");
      this.$refs.host.replaceChildren(svg);
      this.svg = svg;
      this.texts = new Map();
      for (const [kind, name] of [["text", "data-text"], ["bar", "data-bar"], ["wide", "data-wide"], ["full", "data-full"]]) {
        for (const e of svg.querySelectorAll(`[${name}]`)) {
          const key = e.getAttribute(name);
          if (!this.texts.has(key)) this.texts.set(key, []);
          this.texts.get(key).push([kind, e]);
        }
      }
      if (keep && this.view) this.look(this.view);
      else this.start();
      this.mark();
    },
    update(values) {
      for (const [key, value] of Object.entries(values)) {
        for (const [kind, e] of this.texts?.get(key) ?? []) {
          if (kind === "text") e.textContent = value;
          else if (kind === "wide") e.setAttribute("stroke-width", value);
          else if (kind === "full") e.classList.toggle("full", value !== "");
          else {
            e.setAttribute("width", value * Number(e.getAttribute("data-of")));
            e.classList.toggle("hot", value >= 0.7);
          }
        }
      }
    },
    select(id) {
      this.selected = id;
      this.mark();
    },
    search(words) {
      this.words = (words || "").toLowerCase().trim();
      this.mark();
      if (!this.words || !this.svg) return 0;
      const found = this.boxes().filter((b) => this.matches(b));
      if (found.length) this.centre(found[0]);
      return found.length;
    },
    boxes() {
      return [...this.svg.querySelectorAll("[data-box]")];
    },
    matches(box) {
      return (box.getAttribute("aria-label") + " " + box.textContent).toLowerCase().includes(this.words);
    },
    mark() {
      if (!this.svg) return;
      for (const box of this.boxes()) {
        box.classList.toggle("selected", box.getAttribute("data-box") === this.selected);
        box.classList.toggle("dim", !!this.words && !this.matches(box));
      }
      for (const queue of this.svg.querySelectorAll("[data-queue]"))
        queue.classList.toggle("selected", queue.getAttribute("data-queue") === this.selected);
      for (const flow of this.svg.querySelectorAll(".flow")) flow.classList.toggle("dim", !!this.words);
    },
    centre(box) {
      const at = box.getBoundingClientRect(), frame = this.svg.getBoundingClientRect();
      const scale = this.view[2] / frame.width;
      const x = (at.x + at.width / 2 - frame.x - frame.width / 2) * scale;
      const y = (at.y + at.height / 2 - frame.y - frame.height / 2) * scale;
      this.moved = true;
      this.look([this.view[0] + x, this.view[1] + y, this.view[2], this.view[3]]);
    },
    look(view) {
      this.view = view;
      this.svg?.setAttribute("viewBox", view.map((v) => v.toFixed(1)).join(" "));
    },
    fit() {
      this.place(Infinity);
    },
    // At first a large plan is shown from its top, at a size that can be read.
    start() {
      const frame = this.$refs.frame.getBoundingClientRect();
      this.place(Math.max(1.12, Math.min(this.whole[2] / frame.width, 1.7)));
    },
    place(most) {
      if (!this.svg) return;
      this.moved = false;
      const frame = this.$refs.frame.getBoundingClientRect();
      if (!frame.width || !frame.height) return;
      const [, , width, height] = this.whole;
      // Small plans are not blown up.
      const scale = Math.min(Math.max(width / frame.width, height / frame.height, 0.8), most);
      const w = frame.width * scale, h = frame.height * scale;
      this.look([(width - w) / 2, Math.min(0, (height - h) / 2), w, h]);
    },
    zoom(by, x = 0.5, y = 0.5) {
      if (!this.view) return;
      const [left, top, width, height] = this.view;
      const limited = Math.min(Math.max(width * by, 150), this.whole[2] * 4) / width;
      this.moved = true;
      this.look([left + width * (1 - limited) * x, top + height * (1 - limited) * y, width * limited, height * limited]);
    },
    wheel(event) {
      const frame = this.$refs.frame.getBoundingClientRect();
      const x = (event.clientX - frame.x) / frame.width, y = (event.clientY - frame.y) / frame.height;
      this.zoom(event.deltaY > 0 ? STEP : 1 / STEP, x, y);
    },
    grab(event) {
      if (event.button !== 0 || event.target.closest(".plan-tools")) return;
      this.held = { x: event.clientX, y: event.clientY, view: this.view };
      this.far = false;
    },
    drag(event) {
      if (!this.held?.view) return;
      const frame = this.$refs.frame.getBoundingClientRect(), [left, top, width, height] = this.held.view;
      const dx = event.clientX - this.held.x, dy = event.clientY - this.held.y;
      if (Math.abs(dx) + Math.abs(dy) > 4) this.far = this.moved = true;
      if (this.far) this.look([left - (dx * width) / frame.width, top - (dy * height) / frame.height, width, height]);
    },
    drop() {
      this.held = null;
    },
    pick(event) {
      const part = event.target.closest("[data-box], [data-queue]");
      if (part && !this.far) this.$emit("pick", part.getAttribute("data-box") ?? part.getAttribute("data-queue"));
    },
    key(event) {
      const by = { "+": 1 / STEP, "=": 1 / STEP, "-": STEP }[event.key];
      if (by) this.zoom(by);
      else if (event.key === "0") this.fit();
      else if (event.key === "Enter" || event.key === " ") {
        this.far = false;
        this.pick(event);
        event.preventDefault();
      }
    },
  },
};
