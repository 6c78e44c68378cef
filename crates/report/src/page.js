// Draws the charts, gives their axes binary ticks, and lets a reader choose the
// theme and logarithmic axes. The page is complete without it but for the charts.
"use strict";
(() => {
  const root = document.documentElement;

  // ---- theme: auto, light, dark ------------------------------------------
  const themes = ["auto", "light", "dark"];
  const toggle = document.getElementById("theme");
  const remember = (theme) => { try { localStorage.setItem("kumiki-theme", theme); } catch { /* private mode */ } };
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

  // ---- sizes -------------------------------------------------------------
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const size = (bytes) => {
    if (bytes < 1) return "0";
    const power = Math.min(Math.floor(Math.log2(bytes) / 10), units.length - 1);
    return `${+(bytes / 2 ** (10 * power)).toPrecision(3)}\u202f${units[power]}`;
  };
  // Ticks at multiples of a power of two; on a logarithmic axis at powers of two.
  const ticks = (axis, width) => {
    const most = Math.max(2, Math.floor(width / 85));
    const out = [];
    if (axis.type === "log") {
      const [low, high] = axis.range.map((exponent) => exponent * Math.log2(10));
      const step = Math.max(1, Math.ceil((high - low) / most));
      for (let p = Math.ceil(low / step) * step; p <= high; p += step) out.push(2 ** p);
    } else {
      const [low, high] = axis.range;
      const step = Math.max(1, 2 ** Math.ceil(Math.log2((high - low) / most)));
      for (let at = Math.ceil(Math.max(low, 0) / step) * step; at <= high; at += step) out.push(at);
    }
    return { "xaxis.tickmode": "array", "xaxis.tickvals": out, "xaxis.ticktext": out.map(size) };
  };
  const retick = (chart) => {
    const axis = chart._fullLayout.xaxis;
    return Plotly.relayout(chart, ticks({ type: axis.type, range: axis.range }, axis._length));
  };

  // ---- charts ------------------------------------------------------------
  const button = (label, press) => {
    const b = document.createElement("button");
    b.type = "button";
    b.textContent = label;
    b.addEventListener("click", press);
    return b;
  };
  const logButton = (chart, axis, label) => {
    const show = (b) => b.setAttribute("aria-pressed", chart._fullLayout[axis].type === "log");
    const b = button(label, async () => {
      const type = chart._fullLayout[axis].type === "log" ? "linear" : "log";
      await Plotly.relayout(chart, { [`${axis}.type`]: type, [`${axis}.autorange`]: true });
      show(b);
    });
    show(b);
    return b;
  };
  const draw = async (chart) => {
    const spec = JSON.parse(chart.parentElement.querySelector("script").textContent);
    await Plotly.newPlot(chart, spec.data, spec.layout, spec.config);
    if (chart.dataset.kind !== "sizes") return;
    await retick(chart);
    chart.on("plotly_relayout", (change) => { if (!("xaxis.tickvals" in change)) retick(chart); });
    const tools = document.createElement("span");
    tools.className = "tools";
    tools.append(logButton(chart, "xaxis", "log size"), logButton(chart, "yaxis", "log time"));
    chart.parentElement.querySelector("h3").append(tools);
  };
  const charts = [...document.querySelectorAll(".chart")];
  const drawn = (async () => {
    for (const chart of charts) {
      await draw(chart);
      await new Promise((next) => setTimeout(next)); // lets the page answer in between
    }
    root.dataset.charts = "drawn";
  })();

  // ---- print: charts as wide as the paper --------------------------------
  const paper = 660;
  addEventListener("beforeprint", () => {
    for (const c of charts) if (c._fullLayout) { Plotly.relayout(c, { width: paper }); }
  });
  addEventListener("afterprint", () => {
    for (const c of charts) if (c._fullLayout) Plotly.relayout(c, { width: null, autosize: true });
  });
  return drawn;
})();
