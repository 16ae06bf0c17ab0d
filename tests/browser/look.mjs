// Look at a page with Chromium, and tell what stands on it: look.mjs CHROMIUM PLAN
//
// PLAN is JSON: url, picture, width, height, dark, until: {figure, least}, ringing, dashboard, full.
// With `ringing` the page is stopped at a moment in which that alarm rings.

import { chromium } from "playwright-core";

const [executablePath, told] = process.argv.slice(2);
const plan = JSON.parse(told);
const WITHIN = 60_000;

const browser = await chromium.launch({
  executablePath,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
const foreign = [];
const errors = [];
try {
  const context = await browser.newContext({
    viewport: { width: plan.width, height: plan.height },
    deviceScaleFactor: plan.width < 500 ? 2 : 1,
    colorScheme: plan.dark ? "dark" : "light",
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(WITHIN);
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(plan.url) && !url.startsWith("data:")) foreign.push(url);
  });
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await page.goto(plan.url);
  await page.waitForSelector(".u-over");
  if (plan.dashboard) await page.click(`[data-dashboard="${plan.dashboard}"]`);
  if (plan.until) {
    await page.waitForFunction(
      ({ figure, least }) => Number(document.querySelector(`[data-figure="${figure}"]`)?.dataset.value) >= least,
      plan.until,
    );
  }
  // One more reading, so that every chart shows the same moment.
  await page.waitForTimeout(1_500);
  const rings = (alarm) => document.querySelector(`[data-alarm="${alarm}"]`)?.firstElementChild.dataset.state === "ALARM";
  for (let stopped = false; plan.ringing && !stopped; ) {
    await page.waitForFunction(rings, plan.ringing);
    await page.click("#pause");
    // A reading that was under way may still arrive.
    await page.waitForTimeout(500);
    stopped = await page.evaluate(rings, plan.ringing);
    if (!stopped) await page.click("#pause");
  }
  await page.screenshot({ path: plan.picture, fullPage: plan.full ?? false });
  const seen = await page.evaluate(() => ({
    figures: Object.fromEntries([...document.querySelectorAll("[data-figure]")].map((one) => [one.dataset.figure, Number(one.dataset.value)])),
    alarms: Object.fromEntries([...document.querySelectorAll("[data-alarm]")].map((one) => [one.dataset.alarm, one.firstElementChild.dataset.state])),
    charts: document.querySelectorAll(".u-over").length,
    cards: document.querySelectorAll(".card.graph").length,
    labels: [...document.querySelectorAll(".plot")].map((one) => one.getAttribute("aria-label")),
    ranked: [...document.querySelectorAll(".ranked tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent)),
    changes: document.querySelectorAll("#changes li").length,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    verdict: document.querySelector("#verdict").textContent,
  }));
  // A person without a mouse: the first chart is reached and stepped through by keys.
  await page.focus(".plot");
  await page.keyboard.press("ArrowLeft");
  seen.stepped = await page.evaluate(() => document.querySelector(".u-cursor-x") !== null && document.activeElement.classList.contains("plot"));
  console.log(JSON.stringify({ ...seen, foreign, errors }));
} finally {
  await browser.close();
}
