// An SVG in a page. It is parsed as XML, in which nothing runs: no text in it is read as HTML.
export default {
  template: `<div class="lanes-host" ref="host"></div>`,
  props: { svg: String },
  mounted() {
    this.show();
  },
  watch: {
    svg() {
      this.show();
    },
  },
  methods: {
    show() {
      const parsed = new DOMParser().parseFromString(this.svg || "<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml");
      if (!parsed.querySelector("parsererror")) this.$refs.host.replaceChildren(document.importNode(parsed.documentElement, true));
    },
  },
};
