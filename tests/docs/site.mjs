// Looks at the built site as readers do: node site.mjs EXECUTABLE URL WORDS PATH...
// Prints what it saw as JSON: each page on a telephone and on a desk, the first page in the dark, and the first three
// pages that the search finds for each of the words, a JSON array.

import { chromium } from "playwright-core";

const [executablePath, url, words, ...paths] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
const elsewhere = new Set();
const missing = new Set();

async function opened(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(120000); // of a busy machine
  page.on("request", (request) => {
    const asked = request.url();
    if (!asked.startsWith(url) && !/^(data|blob):/.test(asked)) elsewhere.add(asked);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) missing.add(response.url());
  });
  return page;
}

const tooWide = [];
for (const width of [360, 1440]) {
  const reader = await opened({ viewport: { width, height: 740 }, isMobile: width < 400 });
  await reader.route("**/search_index.json", (route) => route.abort()); // building the index takes a second a page
  for (const path of paths) {
    await reader.goto(url + path, { waitUntil: "load" });
    const seen = await reader.evaluate(() => document.documentElement.scrollWidth);
    if (seen > width) tooWide.push([path, seen]);
  }
  await reader.close();
}

const desk = await opened({ viewport: { width: 1280, height: 800 } });
await desk.goto(url, { waitUntil: "load" });
const code = await desk.locator("article pre").first().boundingBox();

const input = desk.locator("input.md-search__input").first();
const items = desk.locator("li.md-search-result__item");
const hits = {};
await input.click();
for (const word of JSON.parse(words)) {
  await input.fill("");
  await desk.keyboard.press("Backspace"); // the page listens for keys
  await items.first().waitFor({ state: "detached" });
  await input.fill(word.slice(0, -1));
  await desk.keyboard.press(word.slice(-1)); // searches for the whole word at once
  await items.first().waitFor({ timeout: 30000 }).catch(() => {});
  const links = await items.evaluateAll((all) => all.slice(0, 3).map((item) => item.querySelector("a").href));
  hits[word] = links.map((link) => link.slice(url.length).replace(/[?#].*/, ""));
}

const dark = await opened({ colorScheme: "dark", viewport: { width: 1280, height: 800 } });
await dark.goto(url, { waitUntil: "load" });
const scheme = await dark.evaluate(() => ({
  name: document.body.dataset.mdColorScheme,
  background: getComputedStyle(document.body).backgroundColor,
  color: getComputedStyle(document.querySelector("article p")).color,
}));

const seen = { tooWide, code, hits, scheme };
console.log(JSON.stringify({ ...seen, elsewhere: [...elsewhere], missing: [...missing] }));
await browser.close();
