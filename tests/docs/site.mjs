// Looks at the built site as readers do: node site.mjs EXECUTABLE URL PATH...
// Prints what it saw as JSON: each page on a telephone, the first page on a desk, in the dark, and a search.

import { chromium } from "playwright-core";

const [executablePath, url, ...paths] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
const elsewhere = new Set();
const missing = new Set();

async function opened(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
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
const telephone = await opened({ viewport: { width: 360, height: 740 }, isMobile: true });
await telephone.route("**/search_index.json", (route) => route.abort()); // building the index takes a second a page
for (const path of paths) {
  await telephone.goto(url + path, { waitUntil: "load" });
  const width = await telephone.evaluate(() => document.documentElement.scrollWidth);
  if (width > 360) tooWide.push([path, width]);
}
await telephone.close();

const desk = await opened({ viewport: { width: 1280, height: 800 } });
await desk.goto(url, { waitUntil: "load" });
const code = await desk.locator("article pre").first().boundingBox();

await desk.locator("input.md-search__input").first().click();
await desk.keyboard.type("elicit_url");
const result = desk.locator("a.md-search-result__link").first();
await result.waitFor();
const results = await desk.locator("a.md-search-result__link").count();
await result.click();
await desk.waitForLoadState("load");
const found = { url: desk.url().slice(url.length), text: await desk.locator("article").innerText() };

const dark = await opened({ colorScheme: "dark", viewport: { width: 1280, height: 800 } });
await dark.goto(url, { waitUntil: "load" });
const scheme = await dark.evaluate(() => ({
  name: document.body.dataset.mdColorScheme,
  background: getComputedStyle(document.body).backgroundColor,
  color: getComputedStyle(document.querySelector("article p")).color,
}));

const seen = { tooWide, code, results, found, scheme };
console.log(JSON.stringify({ ...seen, elsewhere: [...elsewhere], missing: [...missing] }));
await browser.close();
