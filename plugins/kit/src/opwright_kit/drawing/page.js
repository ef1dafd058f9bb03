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
    panel.scrollTop = 0;
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
    for (let at = element; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  };
  const openBlock = (idx) => {
    const block = document.getElementById("block-" + idx);
    openAround(block);
    block.scrollIntoView({block: "start"});
  };

  const edges = new Map();
  for (const edge of document.querySelectorAll(".edge")) {
    for (const id of [edge.dataset.from, edge.dataset.to]) {
      if (!edges.has(id)) edges.set(id, []);
      edges.get(id).push(edge);
    }
  }

  function select(id, move) {
    const node = document.getElementById(id);
    if (!node) return;
    clear("selected", "near", "shown");
    node.classList.add("selected");
    for (const edge of edges.get(id) || []) {
      edge.classList.add("shown");
      const other = edge.dataset.from === id ? edge.dataset.to : edge.dataset.from;
      document.getElementById(other).classList.add("near");
    }
    openAround(node);
    if (move) node.scrollIntoView({block: "center", inline: "center"});
    show(id);
    history.replaceState(null, "", "#" + id);
  }

  for (const node of document.querySelectorAll(".node.op")) {
    node.addEventListener("click", () => select(node.id, false));
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      select(node.id, false);
    });
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
  const zoom = (to) => {
    scale = Math.min(2, Math.max(0.1, to));
    for (const svg of document.querySelectorAll("svg.block")) {
      svg.setAttribute("width", svg.viewBox.baseVal.width * scale);
      svg.setAttribute("height", svg.viewBox.baseVal.height * scale);
    }
  };
  document.getElementById("larger").addEventListener("click", () => zoom(scale * 1.25));
  document.getElementById("smaller").addEventListener("click", () => zoom(scale / 1.25));
  document.getElementById("fit").addEventListener("click", () => {
    const widths = [...document.querySelectorAll("svg.block")].map((s) => s.viewBox.baseVal.width);
    zoom(Math.min(1, (canvas.clientWidth - 60) / Math.max(...widths)));
  });

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
