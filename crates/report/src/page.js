// Draws the charts, gives their axes ticks that suit sizes and times, and lets a
// reader choose the theme and logarithmic axes. The page is complete without
// it, but for the charts.
"use strict";
(() => {
  const root = document.documentElement;

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

  // ---- ticks -------------------------------------------------------------
  const scaled = (value, steps, names) => {
    if (Math.abs(value) < 1e-9) return "0";
    let at = 0;
    while (at + 1 < names.length && value >= steps * 0.9999) { value /= steps; at += 1; }
    return `${+value.toPrecision(3)}\u202f${names[at]}`;
  };
  const size = (bytes) => scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  const time = (seconds) => scaled(seconds * 1e9, 1000, ["ns", "µs", "ms", "s"]);
  const rate = (value) => scaled(value * 1e6, 1000, ["kB/s", "MB/s", "GB/s"]);
  const texts = {
    ns: time, "GB/s": rate, cpu: (value) => scaled(value, Infinity, ["cpu"]),
    W: (value) => scaled(value * 1e3, 1000, ["mW", "W"]),
  };

  // Multiples of a power of two; on a logarithmic axis powers of two.
  const sizes = ({ type, range: [low, high] }, most) => {
    const out = [];
    if (type === "log") {
      const [from, to] = [low, high].map((exponent) => exponent * Math.log2(10));
      const step = Math.max(1, Math.ceil((to - from) / most));
      for (let power = Math.ceil(from / step) * step; power <= to; power += step) out.push(2 ** power);
    } else {
      const step = Math.max(1, 2 ** Math.ceil(Math.log2((high - low) / most)));
      for (let at = Math.ceil(Math.max(low, 0) / step) * step; at <= high; at += step) out.push(at);
    }
    return out;
  };
  // Powers of ten on a logarithmic axis, with as many steps between as there is room for.
  const decades = ({ range: [low, high] }, most) => {
    const finest = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9];
    for (const steps of [finest, [1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
      const out = [];
      for (let power = Math.floor(low); power <= high; power += 1) {
        for (const step of steps) {
          const exponent = power + Math.log10(step);
          if (exponent >= low && exponent <= high) out.push(step * 10 ** power);
        }
      }
      if (out.length <= most || steps.length === 1) return out;
    }
  };
  // Multiples of 1, 2 or 5 times a power of ten.
  const multiples = ({ range: [low, high] }, most) => {
    const least = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= least * 0.9999);
    const out = [];
    for (let at = Math.ceil(low / step); at * step <= high; at += 1) out.push(at * step);
    return out;
  };
  const counts = (axis, most) => {
    const all = (axis.type === "log" ? decades : multiples)(axis, most);
    return all.filter((at) => Number.isInteger(+at.toPrecision(12)));
  };
  const setTicks = (name, values, text) => ({
    [`${name}.tickmode`]: "array", [`${name}.tickvals`]: values, [`${name}.ticktext`]: values.map(text),
  });
  const retick = (chart) => {
    const { xaxis, yaxis } = chart._fullLayout;
    const value = texts[chart.dataset.unit];
    const room = (axis, pixels) => Math.max(2, Math.floor(axis._length / pixels));
    const change = {};
    const setValues = (name, axis, pixels) => {
      const values = (axis.type === "log" ? decades : multiples)(axis, room(axis, pixels));
      Object.assign(change, setTicks(name, values, value));
    };
    if (chart.dataset.kind === "sizes") {
      Object.assign(change, setTicks("xaxis", sizes(xaxis, room(xaxis, 80)), size));
      setValues("yaxis", yaxis, 28);
    } else if (chart.dataset.kind === "counts") {
      Object.assign(change, setTicks("xaxis", counts(xaxis, room(xaxis, 56)), (at) => `${+at.toPrecision(12)}`));
      setValues("yaxis", yaxis, 28);
    } else {
      setValues("xaxis", xaxis, 56);
    }
    return Plotly.relayout(chart, change);
  };

  // ---- charts ------------------------------------------------------------
  const logButton = (chart, axis, label) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    const isLog = () => chart._fullLayout[axis].type === "log";
    const show = () => button.setAttribute("aria-pressed", isLog());
    button.addEventListener("click", async () => {
      await Plotly.relayout(chart, { [`${axis}.type`]: isLog() ? "linear" : "log", [`${axis}.autorange`]: true });
      show();
    });
    show();
    return button;
  };
  const draw = async (chart) => {
    const spec = JSON.parse(chart.parentElement.querySelector("script").textContent);
    await Plotly.newPlot(chart, spec.data, spec.layout, spec.config);
    await retick(chart);
    // Zooming, resizing and a change of axis need other ticks; setting ticks does not.
    chart.on("plotly_relayout", (change) => {
      if (!Object.keys(change).some((key) => key.endsWith(".tickmode"))) retick(chart);
    });
    for (const button of chart.parentElement.querySelectorAll(".line")) {
      button.disabled = false;
      button.addEventListener("click", () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", on);
        Plotly.restyle(chart, { visible: on }, [+button.dataset.line]);
      });
    }
    if (chart.dataset.kind === "ways") return;
    const tools = document.createElement("span");
    tools.className = "tools";
    const values = chart.dataset.unit === "ns" ? "log time" : "log rate";
    const along = chart.dataset.kind === "sizes" ? "log size" : "log count";
    tools.append(logButton(chart, "xaxis", along), logButton(chart, "yaxis", values));
    chart.parentElement.querySelector("h3").append(tools);
  };
  const charts = [...document.querySelectorAll(".chart")];
  (async () => {
    for (const chart of charts) {
      await draw(chart);
      await new Promise((next) => setTimeout(next)); // lets the page answer in between
    }
    root.dataset.charts = "drawn";
  })();

  // ---- print: two charts in a row on A4 or Letter, at 96 px an inch ------
  const paper = { width: 325, height: 250 };
  const onPaper = new Map();
  addEventListener("beforeprint", () => {
    for (const chart of charts.filter((c) => c._fullLayout)) {
      onPaper.set(chart, chart.layout.height);
      const height = chart.dataset.kind === "ways" ? chart._fullLayout.height : paper.height;
      Plotly.relayout(chart, { width: paper.width, height });
    }
  });
  addEventListener("afterprint", () => {
    for (const [chart, height] of onPaper) Plotly.relayout(chart, { width: null, height: height ?? null, autosize: true });
    onPaper.clear();
  });
})();
