// Draws the plots of the page with uPlot, from the data in the page. Also sets the theme, and unfolds runs on links.
(() => {
  "use strict";
  const root = document.documentElement;
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  const digits = (value, most) => value.toLocaleString("en", { maximumFractionDigits: most });
  const number = (value) => digits(value, Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);
  const milliseconds = (ms) => {
    const size = Math.abs(ms);
    if (size === 0) return "0 ms";
    if (size < 0.1) return number(ms * 1e3) + " µs";
    if (size < 1e3) return number(ms) + " ms";
    return size < 12e4 ? number(ms / 1e3) + " s" : number(ms / 6e4) + " min";
  };
  const shown = (value, unit) => {
    if (value == null) return "–";
    if (unit === "ms") return milliseconds(value);
    return number(value) + (unit && !unit.startsWith("/") ? " " : "") + unit;
  };
  const percentile = (nines) => digits(100 * (1 - 10 ** -nines), Math.max(0, Math.ceil(nines) - 2)) + " %";
  const onAxis = (value, x) => {
    if (value == null) return "";
    if (x.kind === "time") return number(value) + " s";
    if (x.kind === "nines") return percentile(value);
    if (x.kind === "words") return Number.isInteger(value) ? (x.words[value] ?? "") : "";
    return Math.abs(value) >= 1e6 ? number(value / 1e6) + " M" : Math.abs(value) >= 1e4 ? number(value / 1e3) + " K" : number(value);
  };

  // Columns with the same heading are placed side by side.
  const columns = (place, count) => uPlot.paths.bars({ size: [0.6 / count, 60], align: 0, disp: {
    x0: { unit: 1, values: (u) => u.data[0].map((x) => x + (place / count - 0.5) * 0.6) },
    size: { unit: 1, values: (u) => u.data[0].map(() => 0.6 / count) },
  } });

  const shade = (plot) => (u) => {
    u.ctx.fillStyle = colour("--shade");
    for (const [from, to] of plot.shaded) {
      const [left, right] = [u.valToPos(from, "x", true), u.valToPos(to, "x", true)];
      u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
    }
  };
  const whiskers = (plot) => (u) => {
    u.ctx.strokeStyle = colour("--ink");
    plot.series.forEach((series, index) => (series.ranges ?? []).forEach((range, point) => {
      if (!range || !u.series[index + 1].show) return;
      const shift = series.stroke === "columns" ? ((index + 0.5) / plot.series.length - 0.5) * 0.6 : 0;
      const x = u.valToPos(series.x[point] + shift, "x", true);
      u.ctx.beginPath();
      u.ctx.moveTo(x, u.valToPos(range[0], "y", true));
      u.ctx.lineTo(x, u.valToPos(range[1], "y", true));
      u.ctx.stroke();
    }));
  };

  const draw = (figure) => {
    const plot = JSON.parse(figure.querySelector("script").textContent);
    const data = uPlot.join(plot.series.map((series) => [series.x, series.y]));
    const series = plot.series.map((one, place) => {
      const stroke = colour("--c" + one.colour);
      const isLine = ["line", "faint", "dashed"].includes(one.stroke);
      return {
        label: one.name || "value",
        stroke,
        width: one.stroke === "faint" ? 1 : one.stroke === "dots" ? 0 : 1.8,
        dash: one.stroke === "dashed" ? [5, 4] : undefined,
        fill: one.stroke === "columns" ? stroke : undefined,
        paths: one.stroke === "columns" ? columns(place, plot.series.length) : undefined,
        points: { show: one.stroke !== "columns" && (!isLine || one.x.length < 3), size: 6, fill: stroke },
        spanGaps: one.stroke === "points",
        value: (u, value) => shown(value, plot.unit),
      };
    });
    const words = plot.x.kind === "words";
    const sync = plot.x.kind === "time" ? { key: plot.group } : undefined;
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const width = figure.clientWidth;
    const u = new uPlot({
      width,
      height: figure.classList.contains("full") ? 190 : 270,
      cursor: { sync, drag: { x: !words, y: false } },
      scales: {
        x: { time: false, distr: plot.x.log ? 3 : 1, range: words ? [-0.5, plot.x.words.length - 0.5] : undefined },
        y: { distr: plot.log ? 3 : 1, range: plot.log ? undefined : (u, low, high) => [0, high > 0 ? high * 1.06 : 1] },
      },
      axes: [
        {
          ...axis,
          label: plot.x.kind === "time" ? undefined : plot.x.name,
          labelFont: axis.font,
          labelSize: 18,
          splits: words ? () => plot.x.words.map((_, index) => index) : plot.x.log ? () => data[0] : undefined,
          filter: plot.x.log ? (u, splits) => splits : undefined,
          values: (u, splits) => splits.map((value) => onAxis(value, plot.x)),
        },
        { ...axis, size: 72, values: (u, splits) => splits.map((value) => (value == null ? "" : shown(value, plot.unit))) },
      ],
      series: [{ label: plot.x.name || "at", value: (u, value) => (value == null ? "–" : onAxis(value, plot.x)) }, ...series],
      hooks: { drawClear: [shade(plot)], draw: [whiskers(plot)] },
    }, data, figure);
    return { figure, u };
  };

  // A folded run is drawn when it is unfolded: before that it has no width.
  let drawn = [];
  const drawAll = () => {
    for (const figure of document.querySelectorAll("figure.plot")) {
      if (figure.clientWidth > 0 && !figure.querySelector(".uplot")) drawn.push(draw(figure));
    }
  };
  const redraw = () => {
    drawn.forEach(({ u }) => u.destroy());
    drawn = [];
    drawAll();
  };
  document.addEventListener("toggle", drawAll, true);
  let width = 0;
  addEventListener("resize", () => {
    if (root.clientWidth !== width) redraw();
    width = root.clientWidth;
  });

  const theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    redraw();
  });

  // A link to a folded run unfolds it.
  const unfold = () => {
    const target = location.hash && document.querySelector(location.hash.replace(/[^#\w-]/g, ""));
    if (target && "open" in target) target.open = true;
  };
  addEventListener("hashchange", unfold);
  width = root.clientWidth;
  unfold();
  drawAll();
})();
