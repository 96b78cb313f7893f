// Chromium, headless, driven by lines of JSON: node browser.mjs EXECUTABLE
// A line is {id, profile, order, details}; each is answered by {id, value} or {id, error} as soon as it is done.
// Profiles share nothing, and work at the same time. It ends with its input, and the browser with it.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

const PATIENCE = 50_000;

const browser = await chromium.launch({
  executablePath: process.argv[2],
  // Root has no sandbox, and containers little shared memory; what is not on this machine is not asked for.
  args: [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.0.0.1",
  ],
});
const profiles = new Map();

async function profile(name) {
  if (!profiles.has(name)) profiles.set(name, opened());
  return profiles.get(name);
}

async function opened() {
  // Certificates are those of the test.
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const seen = [];
  // Every address that the page was sent to, redirects among them, with what came of it.
  page.on("request", (request) => {
    if (!request.isNavigationRequest() || request.frame() !== page.mainFrame()) return;
    const visit = { method: request.method(), url: request.url(), status: null };
    seen.push(visit);
    request.response().then((response) => (visit.status = response?.status() ?? null), () => {});
  });
  return { context, page, seen, network: await listened(context, page), answered: new Set() };
}

// The network log of a page, as its developer tools have it: heads with all cookies, and bodies where they are kept.
async function listened(context, page) {
  const session = await context.newCDPSession(page);
  const log = [];
  for (const event of ["requestWillBeSent", "responseReceived"]) {
    session.on(`Network.${event}`, (details) => log.push(details));
    session.on(`Network.${event}ExtraInfo`, (details) => log.push(details));
  }
  session.on("Network.loadingFinished", ({ requestId }) =>
    session.send("Network.getResponseBody", { requestId }).then((body) => log.push(body), () => {}),
  );
  await session.send("Network.enable");
  return log;
}

async function gone(page, act) {
  const failed = page.waitForEvent("requestfailed", (request) => request.isNavigationRequest());
  failed.catch(() => {});
  await Promise.all([Promise.race([page.waitForEvent("load"), failed]), act()]);
}

const ORDERS = {
  open: ({ page }, url) => page.goto(url).then((response) => response?.status() ?? null),
  // Answer here what the browser would ask of addresses that begin so. Playwright's routes do not see redirects.
  answer: async ({ context, page, answered }, prefix) => {
    if (answered.has(prefix)) return;
    answered.add(prefix);
    const session = await context.newCDPSession(page);
    session.on("Fetch.requestPaused", ({ requestId }) =>
      session.send("Fetch.fulfillRequest", { requestId, responseCode: 200, body: btoa("Done") }),
    );
    await session.send("Fetch.enable", { patterns: [{ urlPattern: `${prefix}*` }] });
  },
  fill: ({ page }, { selector, text }) => page.fill(selector, text),
  click: ({ page }, selector) => page.click(selector),
  uncheck: ({ page }, selector) => page.uncheck(selector),
  // Click on what leads to another page, and wait until that is there, or cannot be had.
  follow: ({ page }, selector) => gone(page, () => page.click(selector)),
  press: ({ page }, key) => page.keyboard.press(key),
  // The same by a key.
  enter: ({ page }, key) => gone(page, () => page.keyboard.press(key)),
  show: async ({ page }, { width, height, scheme }) => {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: scheme });
  },
  // What axe-core finds; what it cannot tell counts as well.
  audit: async ({ page }) => {
    await page.evaluate(readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf-8"));
    const { violations, incomplete, passes } = await page.evaluate("axe.run()");
    const named = (kind) => ({ id, help, nodes }) => `${kind} ${id}: ${help}: ${nodes.map((node) => node.html).join(" | ")}`;
    return {
      findings: [...violations.map(named("violation")), ...incomplete.map(named("unsure"))],
      passed: passes.map(({ id }) => id),
    };
  },
  // Which of several things is there first, by their selectors.
  first: async ({ page }, selectors) => {
    await page.locator(selectors.join(", ")).first().waitFor();
    for (const selector of selectors) if (await page.locator(selector).first().isVisible()) return selector;
    return null;
  },
  text: ({ page }, selector) => page.locator(selector).first().innerText(),
  evaluate: ({ page }, expression) => page.evaluate(expression),
  url: async ({ page }) => page.url(),
  seen: async ({ seen }) => seen,
  network: async ({ network }) => network,
  cookies: ({ context }) => context.cookies(),
  screenshot: ({ page }, path) => page.screenshot({ path, fullPage: true }).then(() => null),
  close: ({ context }) => context.close(),
};

console.log(JSON.stringify({ id: 0, value: browser.version() }));
const lines = createInterface(process.stdin);
lines.on("line", async (line) => {
  const { id, profile: name, order, details } = JSON.parse(line);
  try {
    const value = await ORDERS[order](await profile(name), details);
    if (order === "close") profiles.delete(name);
    console.log(JSON.stringify({ id, value: value ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ id, error: error.message }));
  }
});
lines.on("close", async () => {
  await browser.close();
  process.exit();
});
