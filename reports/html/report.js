// Filters, sorting, the parity matrix that opens, and pictures. Every table is in the page already; the numbers of
// pictures are in #data (reports/html/values.py). Nothing is stored and nothing is fetched.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");
  const $ = (query, within = document) => within.querySelector(query);
  const $$ = (query, within = document) => [...within.querySelectorAll(query)];
  const data = JSON.parse($("#data").textContent);
  const LIMIT = 12; // pictures of a kind at once, and groups in one: more cannot be read
  const STRIP = 40;

  const time = us => {
    const [value, unit] = us < 1e3 ? [us, "µs"] : us < 1e6 ? [us / 1e3, "ms"] : [us / 1e6, "s"];
    return `${value.toPrecision(3).replace(/e\+?(\d+)/, "e$1")} ${unit}`;
  };
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

  // ---- what is shown
  const chosen = { m: "", o: "", d: "", h: "", t: new Set() }; // t: the runtimes that are left out
  const groups = data.groups.map(([m, o, d, h, batch, where, first, count], number) =>
    ({ m, o, d, h, batch, where, first, count, number, title: `${data.models[m]} ${data.modes[o]}, batch ${batch}, ${where}` }));
  const isIn = at => ["m", "o", "d", "h"].every(by => chosen[by] === "" || at[by] === +chosen[by]);
  const shown = () => groups.filter(isIn);
  const cellsOf = group => {
    const found = [];
    for (let at = group.first; at < group.first + group.count; at++) {
      const cell = Object.fromEntries(data.fields.map((name, i) => [name, data.cells[at][i]]));
      if (cell.median !== undefined && !chosen.t.has(cell.t)) {
        found.push({ ...cell, runtime: data.runtimes[cell.t], title: group.title });
      }
    }
    return found;
  };

  const column = t => 1 + $$(".heat thead th").findIndex(head => +head.dataset.t === t); // of the parity matrix

  const filter = () => {
    const rules = [];
    for (const by of ["m", "o", "d", "h"]) {
      if (chosen[by] !== "") rules.push(`main [data-${by}]:not([data-${by}="${chosen[by]}"])`);
    }
    for (const t of chosen.t) rules.push(`main [data-t="${t}"]`, `.heat td:nth-child(${column(t)})`);
    $("#filtered").textContent = rules.length ? `${rules.join(",")}{display:none!important}` : "";
    let cells = 0;
    const left = shown();
    for (const group of left) {
      for (let at = group.first; at < group.first + group.count; at++) cells += !chosen.t.has(data.cells[at][0]);
    }
    $("#filters output").textContent = `${plural(cells, "cell")} of ${data.cells.length.toLocaleString("en")} in ${plural(left.length, "group")}`;
    redraw();
  };

  const form = $("#filters");
  form.hidden = false;
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("change", event => {
    if (event.target.dataset.by) { chosen[event.target.dataset.by] = event.target.value; filter(); }
  });
  form.addEventListener("reset", () => {
    Object.assign(chosen, { m: "", o: "", d: "", h: "" });
    chosen.t.clear();
    for (const chip of $$(".chip")) chip.setAttribute("aria-pressed", "true");
    filter();
  });
  for (const chip of $$(".chip")) {
    chip.addEventListener("click", () => {
      const t = +chip.dataset.t;
      const out = chosen.t.delete(t) || !chosen.t.add(t);
      chip.setAttribute("aria-pressed", String(out));
      filter();
    });
  }

  // ---- sorting: by the first number of a cell with its unit, words behind numbers, empty cells last
  const UNITS = { "µs": 1e-6, ms: 1e-3, s: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, "µJ": 1e-6, mJ: 1e-3, J: 1 };
  const weigh = text => {
    const found = /^\D*?(-?\d[\d,]*\.?\d*)\s*([A-Za-zµ]+)?/.exec(text);
    return found ? parseFloat(found[1].replaceAll(",", "")) * (UNITS[found[2]] ?? 1) : NaN;
  };
  const byText = new Intl.Collator("en", { numeric: true }).compare;
  const sort = (head, column) => {
    const down = head.getAttribute("aria-sort") === "ascending";
    const words = head.classList.contains("w");
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    for (const body of head.closest("table").tBodies) {
      const rows = [...body.rows].filter(row => !row.matches(".g, .c"));
      const keyed = rows.map(row => {
        const text = row.cells[column]?.textContent.trim() ?? "";
        return { row, text, value: text === "starts first" ? 0 : text === "never" ? Infinity : words ? text : weigh(text) };
      });
      keyed.sort((a, b) => {
        const blank = (a.text === "") - (b.text === "");
        if (blank) return blank;
        if (words) return byText(a.text, b.text) * (down ? -1 : 1);
        const missing = Number.isNaN(a.value) - Number.isNaN(b.value);
        return missing || (a.value === b.value ? 0 : (a.value < b.value ? -1 : 1) * (down ? -1 : 1));
      });
      const last = [...body.rows].find(row => row.matches(".c")) ?? null;
      for (const { row } of keyed) body.insertBefore(row, last);
    }
  };
  for (const head of $$("table.sort > thead th")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.title = "Sort";
    head.replaceChildren(button);
    button.addEventListener("click", () => sort(head, head.cellIndex));
  }

  // On a phone the verdicts are shown as paragraphs; to a screen reader they stay a table.
  if (matchMedia("(max-width: 40rem)").matches) {
    const roles = { TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TR: "row", TD: "cell", TH: "columnheader" };
    for (const part of $$(".verdicts, .verdicts *")) {
      const role = part.matches("[scope=row]") ? "rowheader" : roles[part.tagName];
      if (role) part.setAttribute("role", role);
    }
  }

  // ---- the parity matrix opens to the worst tensor
  const SAYS = [
    ["status", "status", x => x], ["worst_tensor", "worst tensor", x => x],
    ["ratio", "its error", x => `${x} noise floors`], ["rel_l2", "relative L2 error", x => x.toExponential(2)],
    ["first_wrong", "first wrong tensor", x => x], ["class", "class", x => x], ["seeds", "on each seed", x => x.join(", ") + " noise floors"],
    ["tensors", "tensors compared", x => x], ["steps", "training steps compared", x => x], ["message", "message", x => x],
    ["cells", "the worst of", x => plural(x, "cell")], ["command", "measure again", x => x],
  ];
  const dialog = $("#proof");
  $(".heat")?.addEventListener("click", event => {
    const link = event.target.closest("a");
    const row = link && +link.hash.slice(2);
    const proof = link && data.proofs[row];
    if (!proof) return;
    event.preventDefault();
    const { title } = groups.find(({ first, count }) => row >= first && row < first + count);
    $("h2", dialog).textContent = `${data.runtimes[data.cells[row][0]]}: ${title}`;
    const list = $("dl", dialog);
    list.replaceChildren();
    for (const [name, words, say] of SAYS) {
      if (proof[name] === undefined) continue;
      const [term, told] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = words;
      if (["worst_tensor", "first_wrong", "command"].includes(name)) {
        told.append(Object.assign(document.createElement("code"), { textContent: say(proof[name]) }));
      } else told.textContent = say(proof[name]);
      list.append(term, told);
    }
    $("p a", dialog).href = link.hash;
    dialog.showModal();
  });
  $("p a", dialog).addEventListener("click", () => dialog.close());
  const reveal = () => { // a link into a network that is closed opens it
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const closed = target && target.closest("details:not([open])");
    if (closed) { closed.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", reveal);
  for (const link of $$('a[href^="#g"]')) link.addEventListener("click", () => setTimeout(reveal));

  // ---- colours
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.scheme ?? (dark.matches ? "dark" : "light")) === "dark";
  const name = () => { $("#scheme").textContent = isDark() ? "Light" : "Dark"; };
  $("#scheme").addEventListener("click", () => { root.dataset.scheme = isDark() ? "light" : "dark"; name(); });
  dark.addEventListener("change", name);
  name();
  const SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left"];
  const config = () => {
    // Variables of the style sheet: pictures follow the scheme, and paper, without being drawn again.
    const [ink, dim, line, faint] = ["ink", "dim", "line", "faint"].map(each => `var(--${each})`);
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: "transparent", font, view: { stroke: null },
      axis: { labelColor: dim, titleColor: dim, titleFontWeight: "normal", gridColor: faint, domainColor: line, tickColor: line, labelFontSize: 11, titleFontSize: 11 },
      legend: { labelColor: ink, labelFontSize: 11, symbolSize: 60, rowPadding: 1, columnPadding: 12, offset: 4 },
      range: { category: [...Array(10).keys()].map(i => `var(--c${i})`), symbol: SHAPES }, text: { color: ink },
      rule: { color: dim }, line: { color: dim }, bar: { color: dim },
    };
  };

  // ---- pictures
  const values = {
    ratios: () => { // an interval that reaches far beyond all signs would leave no room for them
      const found = strip(cell => ({
        ratio: cell.ratio, low: cell.low ?? cell.ratio, high: cell.high ?? cell.ratio, median: time(cell.median),
        interval: cell.low === null ? "unknown" : `${cell.low} to ${cell.high}`,
      }));
      const most = 1.5 * Math.max(...found.map(each => each.ratio));
      return found.map(each => ({ ...each, low: Math.max(each.low, 0.5), high: Math.min(each.high, most) }));
    },
    memory: () => strip(cell => cell.memory === null ? null : { memory: cell.memory }),
    roofline: () => shown().flatMap(cellsOf).filter(cell => cell.intensity && cell.rate),
    phases: () => data.phases.filter(isOther).flatMap(({ title, parts }) =>
      parts.map(([phase, ms], order) => ({ title, phase, ms: Math.max(ms, 0), order }))),
  };
  const isOther = each => (chosen.m === "" || data.models[chosen.m] === each.model) && ![...chosen.t].some(t => data.runtimes[t] === each.runtime);
  const strip = pick => shown().slice(0, STRIP).flatMap(group => cellsOf(group).flatMap(cell => {
    const found = pick(cell);
    return found ? [{ title: group.title, runtime: cell.runtime, ...found }] : [];
  }));
  const roofs = cells => {
    const least = Math.min(...cells.map(cell => cell.intensity)), most = Math.max(...cells.map(cell => cell.intensity));
    return data.roofs.flatMap(([peak, width], roof) => {
      const ridge = peak / width;
      return [Math.min(least, ridge) / 2, ridge, 2 * Math.max(most, ridge)].map(x => ({ roof, intensity: x, rate: Math.min(peak, x * width) }));
    });
  };
  const sweep = kind => data[kind].filter(each => isIn(Object.fromEntries(["m", "o", "d", "h"].map((by, i) => [by, each.at[i]]))))
    .map(each => ({ title: each.title, spec: kind, values: each.lines.filter(([t]) => !chosen.t.has(t)).flatMap(([t, points]) =>
      points.map(([number, us]) => ({ runtime: data.runtimes[t], number, time: us, told: time(us) }))) }));
  const CALLS = [...Array(25).keys()].map(i => Math.round(10 ** (i / 4)));
  const byTitle = (found, spec, make) => [...new Set(found.map(each => each.title))]
    .map(title => [title, found.filter(each => each.title === title && isOther(each))])
    .map(([title, some]) => ({ title, spec, values: some.flatMap((each, place) =>
      make(each).map(row => ({ runtime: each.runtime, width: Math.max(5 - 0.9 * place, 1.3), ...row }))) }));
  const multiples = {
    batch: () => sweep("batch"),
    threads: () => sweep("threads"),
    shape: () => sweep("shape"),
    start: () => shown().map(group => ({ title: group.title, spec: "start", values: cellsOf(group).filter(cell => cell.start !== null)
      .flatMap(({ runtime, start, median }) => CALLS.map(calls => {
        const us = start + (calls - 1) * median;
        return { runtime, calls, time: us, told: time(us) };
      })) })),
    spread: box => groups.filter(group => isIn(group) && [undefined, String(group.m)].includes(box.closest("details").dataset.m)).map(group => ({
      title: group.title, spec: "spread", values: cellsOf(group).filter(cell => cell.q5 !== null).map(cell => ({
        runtime: cell.runtime, q5: cell.q5, q25: cell.q25, q50: cell.median, q75: cell.q75, q95: cell.q95, samples: cell.n,
        median: time(cell.median), "5 to 95 %": `${time(cell.q5)} to ${time(cell.q95)}`, "25 to 75 %": `${time(cell.q25)} to ${time(cell.q75)}`,
      })),
    })),
    training: () => [
      ...byTitle(data.training, "loss", each => each.loss.map(([step, loss]) => ({ step, loss }))),
      ...byTitle(data.training, "accuracy", each => each.accuracy.map(([epoch, accuracy]) => ({ epoch, accuracy }))),
      ...byTitle(data.training, "held", each => each.memory.map(([second, memory]) => ({ second, memory }))),
      ...byTitle(data.training, "power", each => each.power.map(([second, power]) => ({ second, power })))
        .filter(each => each.values.length),
    ],
    scaling: () => byTitle(data.scaling, "scaling", each => [each]),
    widen: () => byTitle(data.widen, "widen", each => each.points.map(
      ([nodes, value, low, high, told]) => ({ nodes, value, low, high, told }))),
  };

  // Ticks of logarithmic axes at 1, 2, 5 or whole powers of ten, those of counts where something is; legends of what is there.
  const ticks = (low, high) => {
    const steps = high / low < 30 ? [1, 2, 5] : high / low < 1e3 ? [1, 3] : [1];
    const every = Math.max(1, Math.ceil(Math.log10(high / low) / 7));
    const found = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) {
      if (power % every === 0) found.push(...steps.map(step => +`${step}e${power}`));
    }
    return found.filter(tick => tick >= low / 1.001 && tick <= high * 1.001);
  };
  const fit = (spec, rows, width) => {
    const channels = [spec, ...(spec.layer ?? [])].flatMap(each => each !== spec && each.data ? [] : Object.entries(each.encoding ?? {}));
    const there = new Set(rows.map(row => row.runtime));
    for (const [, channel] of channels) {
      if (channel.legend) Object.assign(channel.legend, { columns: Math.max(2, Math.floor(width / 110)) });
      if (channel.legend && channel.field === "runtime") channel.legend.values = data.runtimes.filter(each => there.has(each));
    }
    for (const by of ["x", "y"]) {
      const of = channels.filter(([name, channel]) => (name === by || name === by + "2") && channel.field);
      const axis = of.find(([, channel]) => channel.axis)?.[1];
      const all = of.flatMap(([, channel]) => rows.map(row => row[channel.field])).filter(Number.isFinite);
      if (!axis || !all.length) continue;
      const [low, high] = [Math.min(...all), Math.max(...all)];
      const set = values => { for (const [, channel] of of) if (channel.axis) channel.axis.values = values; };
      if (axis.axis.tickMinStep) set([...new Set(all)].sort((a, b) => a - b).filter((_, i, some) => some.length < 13 || i % Math.ceil(some.length / 12) === 0));
      else if (axis.scale?.type === "log") {
        const scale = { domain: [low / 1.15, high * 1.15], nice: false };
        for (const [, channel] of of) if (channel.scale) Object.assign(channel.scale, scale);
        const found = ticks(...scale.domain);
        if (found.length > 1) set(found);
      }
    }
  };

  const draw = (box, name, rows) => {
    box.replaceChildren();
    if (!rows.length) { box.textContent = "Nothing to draw: no cell of this choice has the numbers."; return Promise.resolve(); }
    const spec = structuredClone(data.specs[name]);
    spec.data = { name: "cells", values: rows };
    if (spec.height.step) spec.height = spec.height.step * new Set(rows.map(row => row[spec.encoding.y.field])).size;
    fit(spec, rows, box.clientWidth);
    if (name === "roofline") spec.datasets = { roofs: roofs(rows) };
    return vegaEmbed(box, spec, { renderer: "svg", actions: false, ast: true, config: config(), defaultStyle: false, tooltip: true })
      .catch(error => { box.textContent = `This picture could not be drawn: ${error.message}`; });
  };
  const figure = one => {
    const [made, box, words] = ["figure", "div", "figcaption"].map(tag => document.createElement(tag));
    box.className = "canvas";
    words.textContent = one.title;
    made.append(box, words);
    return [made, box];
  };
  const picture = async place => {
    place.dataset.drawn = "";
    if (place.dataset.plot) { await draw($(".canvas", place), place.dataset.plot, values[place.dataset.plot]()); return; }
    const all = multiples[place.dataset.plots](place).filter(each => each.values.length);
    place.replaceChildren();
    const made = all.slice(0, LIMIT).map(one => [...figure(one), one]);
    place.append(...made.map(([each]) => each));
    if (all.length > LIMIT) {
      const words = document.createElement("p");
      words.className = "note";
      words.textContent = `${LIMIT} of ${all.length} are drawn: the filters choose others.`;
      place.append(words);
    }
    for (const [, box, one] of made) await draw(box, one.spec, one.values);
  };
  const places = $$(".plot, .plots");
  const seen = new IntersectionObserver(entries => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting && target.dataset.drawn === undefined) picture(target);
    }
  }, { rootMargin: "300px" });
  let waiting = 0;
  function redraw() {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const place of places) {
        if (place.dataset.drawn === undefined) continue;
        delete place.dataset.drawn;
        seen.unobserve(place);
        seen.observe(place);
      }
    }, 60);
  }
  // What has not been looked at is drawn when there is time, because it may be printed; not where it is much.
  const rest = () => {
    const next = places.find(place => place.dataset.drawn === undefined && place.clientWidth);
    if (next) picture(next).then(() => idle(rest));
  };
  const idle = window.requestIdleCallback ?? (each => setTimeout(each, 200));
  addEventListener("load", () => { if (groups.length <= 200) idle(rest); });
  addEventListener("beforeprint", () => { for (const closed of $$("details:not([open])")) closed.open = true; });
  addEventListener("DOMContentLoaded", () => { for (const place of places) seen.observe(place); filter(); reveal(); });
})();
