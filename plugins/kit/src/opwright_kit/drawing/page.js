"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const panel = document.getElementById("details");
  const canvas = document.getElementById("canvas");

  // Text goes in as text, never as HTML: names may hold anything.
  const add = (parent, tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    parent.append(made);
    return made;
  };
  const section = (title) => add(panel, "h3", title);
  const wayTo = (parent, id) => {
    const op = data.operators[id];
    const button = add(parent, "button", op.type + " #" + op.index);
    button.addEventListener("click", () => select(id, true));
  };

  const showVariables = (title, items, docs) => {
    if (items.length === 0) return;
    section(title);
    for (const item of items) {
      const row = add(panel, "div", undefined, "row");
      add(row, "b", item.slot + " ");
      row.append(item.name + " ");
      add(row, "span", item.type + " ", "faint");
      if (item.kind && item.kind !== "value") add(row, "span", item.kind + " ", "faint");
      if (item.from) wayTo(row, item.from);
      if (docs[item.slot]) add(row, "div", docs[item.slot], "faint");
    }
  };

  const showAttributes = (op, docs) => {
    if (op.attrs.length === 0) return;
    section("attributes");
    for (const attr of op.attrs) {
      const row = add(panel, "div", undefined, "row");
      add(row, "b", attr.name);
      row.append(" = " + attr.value + " ");
      if (attr.block !== null) {
        const button = add(row, "button", "open block " + attr.block);
        button.addEventListener("click", () => openBlock(attr.block));
      }
      if (docs[attr.name]) add(row, "div", docs[attr.name], "faint");
    }
  };

  const showSteps = (op) => {
    if (op.steps.length === 0) return;
    section("measured");
    for (const step of op.steps) {
      const row = add(panel, "div", undefined, "row");
      add(row, "b", step.median + " ");
      row.append("(" + step.share + "), min " + step.min + ", in step " + step.step + ": " +
                 step.type + (step.kernel ? ", " + step.kernel : "") +
                 (step.python ? ", Python" : ""));
      add(row, "div", "runs " + step.calls + " times; writes " + step.outputs.join(", ") + ", " +
          step.memory, "faint");
      if (step.operators.length > 1) {
        const joined = add(row, "div", "the step does the work of ", "faint");
        for (const id of step.operators) if (data.operators[id]) wayTo(joined, id);
      }
    }
  };

  const showKernels = (op) => {
    for (const number of op.kernels) {
      const answer = data.explanations[number];
      section("kernels for " + answer.device + ", " + answer.dtype);
      if (answer.candidates.length === 0) {
        add(panel, "p", answer.otherwise || "none is registered", "faint");
      }
      for (const found of answer.candidates) {
        const row = add(panel, "div", undefined, "row");
        add(row, "span", found.verdict + " ", found.verdict);
        row.append(found.library + "[" + found.dtype + "] of " + found.package + ", priority " +
                   found.priority);
        if (found.reason) add(row, "div", found.reason, "faint");
      }
      if (answer.n_others > 0) {
        add(panel, "p", "and " + answer.n_others + " for other dtypes", "faint");
      }
      for (const note of answer.notes) add(panel, "p", note, "faint");
    }
  };

  const show = (id) => {
    const op = data.operators[id];
    const type = data.types[op.type];
    panel.replaceChildren();
    panel.hidden = false;
    panel.scrollTop = 0;
    const close = add(panel, "button", "×", "close");
    close.setAttribute("aria-label", "close the details");
    close.addEventListener("click", hide);
    add(panel, "h2", op.type + " #" + op.index);
    add(panel, "p", "block " + op.block + ", from " + type.package + ", version " + type.version,
        "faint");
    add(panel, "pre", op.text);
    add(panel, "p", type.comment);
    showSteps(op);
    showVariables("reads", op.inputs, type.slots);
    showVariables("writes", op.outputs, type.slots);
    showAttributes(op, type.attrs);
    showKernels(op);
  };

  const clear = (...names) => {
    for (const name of names) {
      for (const item of document.querySelectorAll("." + name)) item.classList.remove(name);
    }
  };
  const openAround = (element) => {
    for (let at = element; at; at = at.parentElement) {
      if (at.tagName === "DETAILS") at.open = true;
      if (at.classList.contains("closed")) setClosed([at], false);
    }
  };
  const openBlock = (idx) => {
    const block = document.getElementById("block-" + idx);
    openAround(block);
    block.scrollIntoView({block: "start"});
  };

  // A line between layers stands for several pairs of operators.
  const edges = new Map();
  const join = (id, other, edge) => {
    if (!edges.has(id)) edges.set(id, []);
    edges.get(id).push([other, edge]);
  };
  for (const edge of document.querySelectorAll(".edge")) {
    const to = edge.dataset.to.split(" ");
    edge.dataset.from.split(" ").forEach((id, i) => {
      join(id, to[i], edge);
      join(to[i], id, edge);
    });
  }

  function select(id, move) {
    const node = document.getElementById(id);
    if (!node) return;
    clear("selected", "near", "shown");
    node.classList.add("selected");
    for (const [other, edge] of edges.get(id) || []) {
      edge.classList.add("shown");
      const near = document.getElementById(other);
      near.classList.add("near");
      const layer = near.closest(".layer");
      if (layer) layer.classList.add("near");
    }
    openAround(node);
    show(id);
    const narrow = getComputedStyle(panel.parentElement).flexDirection === "column";
    if (move || narrow) node.scrollIntoView({block: "center", inline: "center"});
    history.replaceState(null, "", "#" + id);
  }

  function hide() {
    const node = document.querySelector(".selected");
    clear("selected", "near", "shown");
    panel.hidden = true;
    history.replaceState(null, "", location.pathname + location.search);
    if (node) node.focus({preventScroll: true});
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !panel.hidden) hide();
  });

  const onPress = (element, act) => {
    element.addEventListener("click", act);
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      act();
    });
  };

  for (const node of document.querySelectorAll(".node.op")) {
    onPress(node, () => select(node.id, false));
  }
  for (const row of document.querySelectorAll("tr[data-op]")) {
    row.addEventListener("click", () => { if (row.dataset.op) select(row.dataset.op, true); });
  }

  const search = document.getElementById("search");
  const matches = (op, wanted) =>
    op.type.toLowerCase().includes(wanted) || "#" + op.index === wanted ||
    [...op.inputs, ...op.outputs].some((item) => item.name.toLowerCase().includes(wanted));
  const find = () => {
    const wanted = search.value.trim().toLowerCase();
    clear("missed");
    const found = wanted === "" ? [] :
      Object.keys(data.operators).filter((id) => matches(data.operators[id], wanted));
    document.getElementById("n-found").textContent = wanted === "" ? "" : found.length + " found";
    if (wanted === "") return found;
    const kept = new Set(found);
    for (const node of document.querySelectorAll(".node")) {
      if (!kept.has(node.id)) node.classList.add("missed");
    }
    for (const layer of document.querySelectorAll(".layer")) {
      if (!layer.querySelector(".node:not(.missed)")) layer.classList.add("missed");
    }
    return found;
  };
  search.addEventListener("input", find);
  let at = -1;
  search.addEventListener("keydown", (event) => {
    const found = event.key === "Enter" ? find() : [];
    if (found.length === 0) return;
    at = (at + 1) % found.length;
    select(found[at], true);
  });

  let scale = 1;
  const resize = (svg) => {
    svg.setAttribute("width", svg.viewBox.baseVal.width * scale);
    svg.setAttribute("height", svg.viewBox.baseVal.height * scale);
  };
  const zoom = (to) => {
    scale = Math.min(2, Math.max(0.1, to));
    document.querySelectorAll("svg.block").forEach(resize);
  };

  // Rows as the page came: closing layers takes height out of rows, and lines follow.
  const drawings = new Map();
  for (const svg of document.querySelectorAll("svg.block")) {
    const rows = svg.querySelector(":scope > .rows");
    const boxes = [...rows.querySelectorAll(":scope > .nodes > [data-box]")].map((element) => ({
      element,
      row: Number(element.dataset.row),
      heights: element.dataset.heights.split(" ").map(Number),
      x: Number(element.getAttribute("transform").match(/[-\d.]+/)[0]),
      label: rows.querySelector(`:scope > .labels > [data-box="${element.dataset.box}"]`),
    }));
    const lines = [...rows.querySelectorAll(":scope > .edges > .edge")].map((element) => ({
      element, from: Number(element.dataset.box), path: element.getAttribute("d"),
    }));
    const tops = rows.dataset.tops.split(" ").map(Number);
    drawings.set(svg, {boxes, lines, tops, end: svg.viewBox.baseVal.height});
  }

  const heightOf = (box) => box.heights[box.element.classList.contains("closed") ? 1 : 0];

  const stackRows = ({boxes, tops}) => {
    const open = new Array(tops.length).fill(0);
    const now = new Array(tops.length).fill(0);
    for (const box of boxes) {
      open[box.row] = Math.max(open[box.row], box.heights[0]);
      now[box.row] = Math.max(now[box.row], heightOf(box));
    }
    const stacked = [tops[0]];
    for (let row = 0; row + 1 < tops.length; row++) {
      stacked.push(stacked[row] + tops[row + 1] - tops[row] - open[row] + now[row]);
    }
    return stacked;
  };

  // A y keeps its distance from the next row; that a line starts from is the bottom of its box.
  const movePath = (path, bottom, tops, stacked) => {
    const move = (y) => {
      const row = tops.findIndex((top) => top >= y - 0.5);
      return row < 0 ? y : stacked[row] - tops[row] + y;
    };
    return path.replace(/([MCV])([^MCV]*)/g, (_, command, text) => {
      const values = text.trim().split(" ").map(Number);
      if (command === "M") return "M" + values[0] + " " + bottom;
      return command + values.map((v, i) => command === "V" || i % 2 ? move(v) : v).join(" ");
    });
  };

  const arrange = (svg) => {
    const drawing = drawings.get(svg);
    const stacked = stackRows(drawing);
    for (const box of drawing.boxes) {
      const shift = stacked[box.row] - drawing.tops[box.row];
      box.element.setAttribute("transform", `translate(${box.x} ${stacked[box.row]})`);
      const below = shift + heightOf(box) - box.heights[0];
      if (box.label) box.label.setAttribute("transform", `translate(0 ${below})`);
    }
    for (const line of drawing.lines) {
      const box = drawing.boxes[line.from];
      const bottom = stacked[box.row] + heightOf(box);
      line.element.setAttribute("d", movePath(line.path, bottom, drawing.tops, stacked));
    }
    const last = drawing.tops.length - 1;
    svg.viewBox.baseVal.height = drawing.end + stacked[last] - drawing.tops[last];
    resize(svg);
  };

  const layers = [...document.querySelectorAll(".layer")];
  function setClosed(changed, closed) {
    for (const layer of changed) {
      const head = layer.querySelector(":scope > .head");
      layer.classList.toggle("closed", closed);
      head.setAttribute("aria-expanded", String(!closed));
      head.querySelector(".sign").textContent = closed ? "+" : "−";
    }
    new Set(changed.map((layer) => layer.ownerSVGElement)).forEach(arrange);
    const anyOpen = layers.some((layer) => !layer.classList.contains("closed"));
    document.getElementById("layers").textContent = anyOpen ? "close layers" : "open layers";
  }
  for (const layer of layers) {
    onPress(layer.querySelector(":scope > .head"), () => {
      setClosed([layer], !layer.classList.contains("closed"));
    });
  }
  if (layers.length > 0) {
    document.getElementById("layers").addEventListener("click", () => {
      setClosed(layers, layers.some((layer) => !layer.classList.contains("closed")));
    });
  }

  document.getElementById("larger").addEventListener("click", () => zoom(scale * 1.25));
  document.getElementById("smaller").addEventListener("click", () => zoom(scale / 1.25));
  const fit = () => {
    const widths = [...document.querySelectorAll("svg.block")].map((s) => s.viewBox.baseVal.width);
    return Math.min(1, (canvas.clientWidth - 24) / Math.max(...widths));
  };
  document.getElementById("fit").addEventListener("click", () => zoom(fit()));
  if (canvas.clientWidth < 700) zoom(Math.max(0.6, fit()));  // smaller text is hard to read

  // Below a wide row the first operators stand far from the left.
  const first = document.querySelector(".node");
  if (first) {
    const box = first.getBoundingClientRect();
    canvas.scrollLeft += box.x + box.width / 2 - canvas.clientWidth / 2;
  }
  if (location.hash.length > 1 && data.operators[location.hash.slice(1)]) {
    select(location.hash.slice(1), true);
  }
})();
