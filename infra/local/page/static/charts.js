// Charts of one look over uPlot: a shared cursor, limits as dashed lines, faults as shaded spans.

import uPlot from "/uplot.js";

const LIGHT = ["#2f5bd7", "#c2570c", "#1d7a4a", "#8a3ffc", "#a3195b", "#0e7c86", "#6b5b00", "#5b606b"];
const DARK = ["#8fb0ff", "#ffb070", "#62cf97", "#c9a6ff", "#ff8fbf", "#6fd3dd", "#e0ce6a", "#a2a8b4"];
const SHARED = uPlot.sync("cursor");

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function amount(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${trimmed(value / 1e6)} M`;
  if (size >= 1e4) return `${trimmed(value / 1e3)} k`;
  if (size !== 0 && size < 0.01) return value.toLocaleString("en", { maximumSignificantDigits: 2 });
  return trimmed(value);
}

function trimmed(value) {
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export class Chart {
  constructor(host, widget) {
    this.host = host;
    this.widget = widget;
    this.plot = null;
    this.shape = "";
    this.strikes = [];
    this.empty = document.createElement("p");
    this.empty.className = "empty";
    this.empty.textContent = "no data";
    host.tabIndex = 0;
    host.setAttribute("role", "img");
    host.addEventListener("keydown", (event) => this.step(event));
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(host);
  }

  show(times, lines, strikes) {
    this.strikes = strikes;
    const shape = lines.map((line) => `${line.side} ${line.label}`).join("\n");
    const values = this.widget.stacked ? stacked(lines) : lines.map((line) => line.values);
    this.lines = lines;
    if (this.plot === null || shape !== this.shape) this.build(times, lines, values);
    else this.plot.setData([times, ...values]);
    this.shape = shape;
    const any = lines.some((line) => line.values.some((value) => value !== null));
    this.empty.hidden = any;
    this.describe(lines);
  }

  describe(lines) {
    const told = lines.map((line) => {
      const last = line.values.findLast((value) => value !== null);
      return `${line.label} ${amount(last)}`;
    });
    this.host.setAttribute("aria-label", `${this.widget.title}. Last values: ${told.join(", ")}`);
  }

  build(times, lines, values) {
    this.plot?.destroy();
    const palette = document.documentElement.dataset.theme === "dark" ? DARK : LIGHT;
    const right = lines.some((line) => line.side === "right");
    const series = lines.map((line, index) => ({
      label: line.label,
      scale: line.side === "right" ? "right" : "left",
      stroke: palette[index % palette.length],
      fill: this.widget.stacked ? `${palette[index % palette.length]}4d` : undefined,
      width: 1.75,
      dash: line.side === "right" ? [6, 4] : undefined,
      spanGaps: false,
      points: { show: (plot, at) => alone(plot, at), size: 4 },
      value: (_, __, ___, at) => amount(at === null ? lastOf(this.lines[index]) : this.lines[index].values[at]),
    }));
    const axis = { stroke: colour("--soft"), font: "11px Inter, sans-serif", ticks: { show: false } };
    const options = {
      width: Math.max(200, this.host.clientWidth),
      height: 170,
      padding: [10, right ? 4 : 12, 0, 0],
      cursor: { sync: { key: SHARED.key, setSeries: false }, drag: { x: false, y: false }, points: { size: 6 } },
      legend: { live: true, markers: { fill: (_, at) => palette[(at - 1) % palette.length] } },
      bands: this.widget.stacked ? lines.slice(1).map((_, at) => ({ series: [at + 2, at + 1] })) : [],
      scales: { x: { time: true }, left: { range: (p, low, high) => this.span("left", high) }, right: { range: (p, low, high) => this.span("right", high) } },
      axes: [
        { ...axis, grid: { show: false }, values: (_, splits) => splits.map(clock), space: 80, size: 26 },
        { ...axis, scale: "left", grid: { stroke: colour("--grid"), width: 1 }, values: (_, splits) => splits.map(amount), size: 50, space: 34 },
        { ...axis, scale: "right", side: 1, show: right, grid: { show: false }, values: (_, splits) => splits.map(amount), size: 44, space: 34 },
      ],
      series: [{}, ...series],
      hooks: { drawClear: [(plot) => this.shade(plot)], draw: [(plot) => this.limit(plot)] },
    };
    this.plot = new uPlot(options, [times, ...values], this.host);
    this.plot.over.append(this.empty);
  }

  span(side, high) {
    const wanted = this.widget.axes[side] ?? {};
    const limits = side === "left" ? this.widget.limits.map((line) => line.value) : [];
    const top = Math.max(high ?? 0, ...limits.map((value) => (high > value / 4 ? value : 0)), 0);
    return [wanted.min ?? 0, wanted.max ?? (top > 0 ? top * 1.08 : 1)];
  }

  shade(plot) {
    plot.ctx.save();
    plot.ctx.fillStyle = colour("--shade");
    for (const strike of this.strikes) {
      const from = Math.max(plot.valToPos(strike.from, "x", true), plot.bbox.left);
      const to = Math.min(plot.valToPos(strike.to ?? plot.scales.x.max, "x", true), plot.bbox.left + plot.bbox.width);
      if (to > from) plot.ctx.fillRect(from, plot.bbox.top, to - from, plot.bbox.height);
    }
    plot.ctx.restore();
  }

  limit(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--bad");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.font = `${11 * devicePixelRatio}px Inter, sans-serif`;
    ctx.textAlign = "right";
    for (const line of this.widget.limits) {
      const y = plot.valToPos(line.value, "left", true);
      if (y < bbox.top - 1 || y > bbox.top + bbox.height) continue;
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      const above = y - bbox.top > 16 * devicePixelRatio;
      ctx.fillText(line.label, bbox.left + bbox.width - 4, y + (above ? -4 : 13) * devicePixelRatio);
    }
    ctx.restore();
  }

  step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined || this.plot === null) return;
    event.preventDefault();
    const last = this.plot.data[0].length - 1;
    const at = Math.min(last, Math.max(0, (this.plot.cursor.idx ?? last) + by));
    this.plot.setCursor({ left: this.plot.valToPos(this.plot.data[0][at], "x"), top: 10 });
  }

  resize() {
    if (this.plot !== null && this.host.clientWidth > 0) this.plot.setSize({ width: this.host.clientWidth, height: 170 });
  }

  forget() {
    this.shape = "";
  }

  close() {
    this.observer.disconnect();
    this.plot?.destroy();
  }
}

function stacked(lines) {
  const totals = lines[0]?.values.map(() => 0) ?? [];
  return lines.map((line) => line.values.map((value, at) => (totals[at] += value ?? 0)));
}

function lastOf(line) {
  return line.values.findLast((value) => value !== null);
}

// A data point without neighbours would not be seen as a line.
function alone(plot, at) {
  const values = plot.data[at];
  return values.some((value, index) => value !== null && values[index - 1] == null && values[index + 1] == null);
}

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}
