// What the page does beyond showing itself: exact figures under the pointer, lines hidden and shown, a theme. Everything is
// readable without it.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const plots = [...document.querySelectorAll("figure.plot")].filter((figure) => figure.querySelector("svg"));

  const element = (parent, name, attributes) => {
    const child = document.createElementNS(SVG, name);
    for (const key in attributes) child.setAttribute(key, attributes[key]);
    parent.appendChild(child);
    return child;
  };

  const nearest = (places, place) => {
    let low = 0;
    let high = places.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (places[middle] < place) low = middle;
      else high = middle;
    }
    return place - places[low] <= places[high] - place ? low : high;
  };

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.appendChild(tip);

  const setUp = (figure) => {
    const series = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    const hidden = new Set();

    const toggle = (index) => {
      if (hidden.has(index)) hidden.delete(index);
      else if (hidden.size < series.length - 1) hidden.add(index);
      else hidden.clear();
      for (const part of figure.querySelectorAll("[data-series]")) {
        part.classList.toggle("hidden", hidden.has(Number(part.dataset.series)));
      }
    };
    if (series.length > 1) {
      for (const part of figure.querySelectorAll(".legend button, text.label")) {
        part.addEventListener("click", () => toggle(Number(part.dataset.series)));
      }
    }

    const clear = () => {
      for (const layer of figure.querySelectorAll(".hover")) layer.textContent = "";
    };

    // Draws the line under the pointer and returns what is there.
    const show = (place) => {
      clear();
      const found = [];
      let at = place;
      let distance = Infinity;
      series.forEach((one, index) => {
        if (hidden.has(index) || one.u.length === 0) return;
        const point = nearest(one.u, place);
        const away = Math.abs(one.u[point] - place);
        if (away < distance) {
          distance = away;
          at = one.u[point];
        }
        found.push({ series: one, point });
      });
      // Lines that have nothing near the pointer have nothing to say there.
      const shown = found.filter((one) => Math.abs(one.series.u[one.point] - at) < 0.04);
      for (const svg of figure.querySelectorAll("svg")) {
        const [left, right, top, floor] = svg.dataset.box.split(" ").map(Number);
        const layer = svg.querySelector(".hover");
        const x = left + at * (right - left);
        element(layer, "line", { x1: x, x2: x, y1: top, y2: floor });
        for (const one of shown) {
          element(layer, "circle", {
            cx: left + one.series.u[one.point] * (right - left),
            cy: floor - one.series.v[one.point] * (floor - top),
            r: 4,
            class: "c" + one.series.c,
          });
        }
      }
      return shown;
    };

    const tell = (shown, event) => {
      tip.textContent = "";
      if (shown.length === 0) {
        tip.hidden = true;
        return;
      }
      const head = document.createElement("b");
      head.textContent = shown[0].series.x[shown[0].point];
      tip.appendChild(head);
      for (const one of shown) {
        const line = document.createElement("div");
        line.className = "c" + one.series.c;
        line.appendChild(document.createElement("i"));
        line.appendChild(document.createTextNode((shown.length > 1 || one.series.n ? one.series.n + " " : "")));
        const value = document.createElement("b");
        value.textContent = one.series.t[one.point];
        line.appendChild(value);
        tip.appendChild(line);
      }
      tip.hidden = false;
      const room = document.documentElement.clientWidth;
      const left = event.clientX + 16 + tip.offsetWidth > room ? event.clientX - 16 - tip.offsetWidth : event.clientX + 16;
      tip.style.left = Math.max(4, left) + "px";
      tip.style.top = Math.max(4, event.clientY - tip.offsetHeight - 12) + "px";
    };

    return { figure, show, clear, tell };
  };

  const all = plots.map(setUp);
  for (const plot of all) {
    const group = plot.figure.dataset.group;
    // Only plots over time share their axis; the others of a group have their own.
    const sharing = plot.figure.classList.contains("full")
      ? all.filter((other) => other.figure.dataset.group === group && other.figure.classList.contains("full"))
      : [plot];
    for (const svg of plot.figure.querySelectorAll("svg")) {
      svg.addEventListener("pointermove", (event) => {
        const [left, right] = svg.dataset.box.split(" ").map(Number);
        const frame = svg.getBoundingClientRect();
        const x = ((event.clientX - frame.left) / frame.width) * Number(svg.dataset.w);
        const place = Math.min(1, Math.max(0, (x - left) / (right - left)));
        for (const other of sharing) if (other !== plot) other.show(place);
        plot.tell(plot.show(place), event);
      });
      svg.addEventListener("pointerleave", () => {
        tip.hidden = true;
        for (const other of sharing) other.clear();
      });
    }
  }

  const theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // A link to a folded run unfolds it.
  const unfold = () => {
    const target = location.hash && document.querySelector(location.hash.replace(/[^#\w-]/g, ""));
    if (target && "open" in target) target.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();
})();
