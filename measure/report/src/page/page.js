// Tells the exact value of a point that is pointed at, zooms into a chart, turns
// lines off and on, and lets a reader choose the theme. The page is complete
// without it: charts are drawn, and a point says its value as its title.
"use strict";
(() => {
  const root = document.documentElement;
  const SVG = "http://www.w3.org/2000/svg";

  // ---- theme: auto, light, dark ------------------------------------------
  const themes = ["auto", "light", "dark"];
  const toggle = document.getElementById("theme");
  // A browser may refuse storage to a file; the choice then lasts as long as the page.
  const remember = (theme) => { try { localStorage.setItem("kumiki-theme", theme); } catch { /* refused */ } };
  const remembered = () => { try { return localStorage.getItem("kumiki-theme"); } catch { return null; } };
  const setTheme = (theme) => {
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    toggle.textContent = `theme: ${theme}`;
  };
  setTheme(themes.includes(remembered()) ? remembered() : "auto");
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length];
    setTheme(next);
    remember(next);
  });

  // ---- ticks of a zoomed axis --------------------------------------------
  const scaled = (value, step, names) => {
    if (Math.abs(value) < 1e-9) return "0";
    let at = 0;
    while (at + 1 < names.length && Math.abs(value) >= step * 0.9999) { value /= step; at += 1; }
    return `${+value.toPrecision(3)}\u202f${names[at]}`;
  };
  const texts = {
    bytes: (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]),
    count: (value) => `${+value.toPrecision(12)}`,
    ns: (value) => scaled(value, 1000, ["ns", "µs", "ms", "s"]),
    "GB/s": (value) => scaled(value * 1e6, 1000, ["kB/s", "MB/s", "GB/s"]),
    W: (value) => scaled(value * 1e3, 1000, ["mW", "W"]),
    cpu: (value) => `${+value.toPrecision(3)}\u202fcpu`,
  };
  const oneTwoFive = (least) => {
    const power = 10 ** Math.floor(Math.log10(least));
    return power * [1, 2, 5, 10].find((factor) => factor * power >= least * 0.9999);
  };
  const multiples = (low, high, step) => {
    const out = [];
    for (let at = Math.ceil(low / step); at * step <= high; at += 1) out.push(at * step);
    return out;
  };
  const decades = (low, high, most) => {
    for (const steps of [[1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
      const out = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
        for (const step of steps) if (step * 10 ** power >= low && step * 10 ** power <= high) out.push(step * 10 ** power);
      }
      if (out.length <= most && out.length > 0) return out;
    }
    return multiples(low, high, oneTwoFive((high - low) / most));
  };
  const ticks = ({ quantity, log, low, high }, most) => {
    const least = (high - low) / most;
    if (quantity === "bytes" && log && high / low > 8) {
      const step = Math.max(1, Math.ceil(Math.log2(high / low) / most));
      return multiples(Math.log2(low), Math.log2(high), step).map((power) => 2 ** power);
    }
    if (quantity === "bytes") return multiples(low, high, 2 ** Math.ceil(Math.log2(least)));
    if (quantity === "count" && !log) return multiples(low, high, Math.max(1, oneTwoFive(least)));
    return log ? decades(low, high, most) : multiples(low, high, oneTwoFive(least));
  };

  // ---- charts ------------------------------------------------------------
  const element = (name, attributes, text) => {
    const out = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, value);
    if (text !== undefined) out.textContent = text;
    return out;
  };
  const axis = (words) => {
    const [quantity, kind, low, high] = words.split(" ");
    return { quantity, log: kind === "log", low: +low, high: +high };
  };

  class Chart {
    constructor(box) {
      this.box = box;
      this.plot = box.querySelector(".plot");
      this.area = box.querySelector(".area");
      [this.left, this.top, this.width, this.height] = this.plot.dataset.area.split(" ").map(Number);
      this.axes = { x: axis(this.plot.dataset.x), y: axis(this.plot.dataset.y) };
      this.mesh = box.querySelector(".mesh");
      this.drawn = [...this.mesh.childNodes];
      this.points = [...box.querySelectorAll(".p")].map((at) => {
        const [x, y] = at.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
        const title = at.querySelector("title");
        const text = title.textContent;
        title.remove(); // the tip says it, and at once
        return { at, x, y, text, interval: at.querySelector(".interval") };
      });
      this.lines = [...box.querySelectorAll(".line > polyline")].map((line) => ({
        line, points: line.getAttribute("points").trim().split(/\s+/).map((point) => point.split(",").map(Number)),
      }));
      this.tip = document.createElement("div");
      this.tip.className = "tip";
      this.tip.hidden = true;
      this.back = document.createElement("button");
      this.back.className = "back";
      this.back.type = "button";
      this.back.textContent = "whole chart";
      this.back.hidden = true;
      this.back.addEventListener("click", () => this.whole());
      box.append(this.tip, this.back);
      const { left: x, top: y, width, height } = this;
      this.hit = element("rect", { class: "hit", x, y, width, height });
      this.frame = element("rect", { class: "frame" });
      this.area.prepend(this.hit);
      this.whole();
      this.listen();
    }

    /** Where on the drawing an event is. */
    place(event) {
      const box = this.plot.getBoundingClientRect();
      const scale = this.plot.viewBox.baseVal.width / box.width;
      return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale };
    }

    listen() {
      this.plot.addEventListener("pointerdown", (event) => {
        if (event.pointerType !== "mouse" || event.button !== 0) return;
        this.from = this.place(event);
        this.plot.setPointerCapture(event.pointerId);
      });
      this.plot.addEventListener("pointermove", (event) => {
        const at = this.place(event);
        if (this.from) this.draw(at); else this.point(at);
      });
      this.plot.addEventListener("pointerup", (event) => {
        if (!this.from) { this.point(this.place(event)); return; }
        const rectangle = this.rectangle(this.place(event));
        this.from = null;
        this.frame.remove();
        if (rectangle.width > 8 && rectangle.height > 8) this.zoom(rectangle); else this.point(this.place(event));
      });
      this.plot.addEventListener("pointercancel", () => { this.from = null; this.frame.remove(); });
      this.plot.addEventListener("pointerleave", () => this.point(null));
      this.plot.addEventListener("dblclick", () => this.whole());
    }

    /** The rectangle from where the button was pressed; a drag along one axis takes the other whole. */
    rectangle(to) {
      const inside = (value, low, size) => Math.min(Math.max(value, low), low + size);
      const span = (a, b, low, size) => {
        const [from, until] = [inside(Math.min(a, b), low, size), inside(Math.max(a, b), low, size)];
        return until - from < 8 ? [low, size] : [from, until - from];
      };
      const moved = Math.max(Math.abs(to.x - this.from.x), Math.abs(to.y - this.from.y));
      if (moved < 8) return { width: 0, height: 0 };
      const [x, width] = span(this.from.x, to.x, this.left, this.width);
      const [y, height] = this.ways ? [this.top, this.height] : span(this.from.y, to.y, this.top, this.height);
      return { x, y, width, height };
    }

    draw(to) {
      const rectangle = this.rectangle(to);
      for (const [key, value] of Object.entries(rectangle)) this.frame.setAttribute(key, value);
      if (rectangle.width) this.area.append(this.frame); else this.frame.remove();
      this.point(null);
    }

    get ways() { return this.axes.y.quantity === "ways"; }

    /** Shows what the nearest point says, if one is near. */
    point(at) {
      let nearest = null;
      let least = 24;
      for (const one of this.points) {
        if (!at || one.at.parentNode.classList.contains("off") || !this.seen(one)) continue;
        const distance = Math.hypot(one.shown.x - at.x, one.shown.y - at.y);
        if (distance < least) { least = distance; nearest = one; }
      }
      this.points.forEach((one) => one.at.classList.toggle("here", one === nearest));
      this.tip.hidden = !nearest;
      if (!nearest) return;
      this.tip.textContent = nearest.text;
      const scale = this.plot.getBoundingClientRect().width / this.plot.viewBox.baseVal.width;
      const [x, y] = [nearest.shown.x * scale, nearest.shown.y * scale];
      const { offsetWidth: width, offsetHeight: height } = this.tip;
      this.tip.style.left = `${Math.max(0, Math.min(x + 12, this.box.clientWidth - width))}px`;
      this.tip.style.top = y + 14 + height > this.box.clientHeight ? `${y - height - 14}px` : `${y + 14}px`;
    }

    seen({ shown: { x, y } }) {
      return x >= this.left - 1 && x <= this.left + this.width + 1 && y >= this.top - 1 && y <= this.top + this.height + 1;
    }

    /** The whole of both axes, as they were drawn. */
    whole() {
      this.view = { x: this.left, y: this.top, width: this.width, height: this.height };
      this.mesh.replaceChildren(...this.drawn);
      this.back.hidden = true;
      this.box.classList.remove("zoomed");
      this.lay();
    }

    /** A rectangle of what is seen fills the chart. */
    zoom({ x, y, width, height }) {
      const { view } = this;
      const [across, down] = [view.width / this.width, view.height / this.height];
      this.view = {
        x: view.x + (x - this.left) * across, y: view.y + (y - this.top) * down,
        width: width * across, height: height * down,
      };
      this.back.hidden = false;
      this.box.classList.add("zoomed");
      this.lay();
      this.remesh();
      this.point(null);
    }

    lay() {
      const { view } = this;
      const [across, down] = [this.width / view.width, this.height / view.height];
      const x = (value) => +(this.left + (value - view.x) * across).toFixed(1);
      const y = (value) => +(this.top + (value - view.y) * down).toFixed(1);
      for (const one of this.points) {
        one.shown = { x: x(one.x), y: y(one.y) };
        one.at.setAttribute("transform", `translate(${one.shown.x} ${one.shown.y})`);
        if (!one.interval) continue;
        const [low, high] = one.interval.dataset.ends.split(" ").map((end) => (end * (this.ways ? across : down)).toFixed(1));
        one.interval.setAttribute("d", this.ways
          ? `M${low} 0H${high}M${low}-3v6M${high}-3v6` : `M0 ${low}V${high}M-3 ${low}h6M-3 ${high}h6`);
      }
      for (const { line, points } of this.lines) {
        line.setAttribute("points", points.map((point) => `${x(point[0])},${y(point[1])}`).join(" "));
      }
    }

    /** The part of an axis that is seen; `from` and `until` are shares of it. */
    part(whole, from, until) {
      const { log, low, high } = whole;
      const at = (share) => (log ? low * (high / low) ** share : low + (high - low) * share);
      return { ...whole, low: at(from), high: at(until) };
    }

    remesh() {
      const { view, left, top, width, height, axes } = this;
      const share = (value, low, high, log) => (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
      const kept = this.ways ? this.drawn.filter((node) => node.matches?.("text[text-anchor=end], .grid") && !this.upright(node)) : [];
      const name = this.drawn.filter((node) => node.matches?.("text") && node.getAttribute("dy") === "-.25em");
      const out = [...kept, ...name];
      const x = this.part(axes.x, (view.x - left) / width, (view.x + view.width - left) / width);
      for (const value of ticks(x, 5)) {
        const at = left + width * share(value, x.low, x.high, x.log);
        out.push(element("polyline", { class: "grid", points: `${at},${top} ${at},${top + height}` }));
        out.push(element("text", { class: "label", x: at, y: top + height + 6, dy: ".75em", "text-anchor": "middle" }, texts[x.quantity](value)));
      }
      if (!this.ways) {
        const y = this.part(axes.y, 1 - (view.y + view.height - top) / height, 1 - (view.y - top) / height);
        for (const value of ticks(y, 8)) {
          const at = top + height * (1 - share(value, y.low, y.high, y.log));
          out.push(element("polyline", { class: "grid", points: `${left},${at} ${left + width},${at}` }));
          out.push(element("text", { class: "label", x: left - 6, y: at, dy: ".35em", "text-anchor": "end" }, texts[y.quantity](value)));
        }
      }
      const corner = `${left},${top} ${left},${top + height} ${left + width},${top + height}`;
      out.push(element("polyline", { class: "rule", points: corner }));
      this.mesh.replaceChildren(...out);
    }

    upright(node) {
      const [from, to] = (node.getAttribute("points") ?? "").split(" ").map((point) => point.split(",")[0]);
      return node.matches(".grid") && from === to;
    }
  }

  for (const box of document.querySelectorAll(".chart")) {
    const chart = new Chart(box);
    for (const key of box.parentElement.querySelectorAll("button.key")) {
      key.disabled = false;
      key.addEventListener("click", () => {
        const on = key.getAttribute("aria-pressed") !== "true";
        key.setAttribute("aria-pressed", on);
        box.querySelector(`.line[data-line="${key.dataset.line}"]`).classList.toggle("off", !on);
        chart.point(null);
      });
    }
  }
  root.dataset.charts = "drawn";
})();
