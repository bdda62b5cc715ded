// Opens a report in Chromium, folded and whole, at two sizes and in both colours: the first screen, widths, sizes of
// words, links, the keyboard, and no violation of axe-core's rules.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const wide = { width: 1400, height: 900 };
const narrow = { width: 390, height: 844 };
const looks = {
  light: { colorScheme: "light", viewport: wide },
  dark: { colorScheme: "dark", viewport: wide },
  phone: { colorScheme: "dark", viewport: narrow, isMobile: true, hasTouch: true },
  "phone-light": { colorScheme: "light", viewport: narrow, isMobile: true, hasTouch: true },
};
const leastWords = 12; // px
const mostScreens = 3; // that a folded report is long

/** accessible runs axe-core, without what is inside of drawings, which are images to it. */
async function accessible(page, check, what) {
  const found = await page.evaluate(() => axe.run({ exclude: [["svg > *"]] }).then((r) => r.violations.map((v) => `${v.id}: ${v.nodes.length}, ${v.nodes[0].html.slice(0, 120)}`)));
  check(found.length === 0, `${what}: ${found.length} violations of axe-core's rules ${found.join(" | ")}`);
}

/** first checks what stands on the first screen. */
async function first(page, check, what) {
  const shown = await page.evaluate(() => {
    const within = (el) => {
      const box = el.getBoundingClientRect();
      return box.width > 0 && box.left >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
    };
    const all = (selector) => [...document.querySelectorAll(selector)].filter((el) => el.checkVisibility());
    const cells = all(".glance td");
    return {
      headlines: all("h1").filter(within).length,
      pictures: all("figure button > svg").filter(within).length,
      columns: all(".glance thead th").filter(within).length,
      numbers: cells.filter((el) => within(el) && /\d/.test(el.textContent)).length,
      cut: cells.filter((el) => !within(el) || el.scrollWidth > el.clientWidth + 1).length,
      tables: all("table").length,
      figures: all("figure").length,
      screens: document.documentElement.scrollHeight / innerHeight,
      beyond: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    };
  });
  const { headlines, pictures, columns, numbers, cut, tables, figures, screens, beyond } = shown;
  check(headlines === 1 && pictures === 1 && columns === 4 && numbers >= 6 && cut === 0 && tables === 1 && figures === 1 && beyond <= 0, `${what}: a headline, a picture, a table of four columns: ${JSON.stringify(shown)}`);
  check(screens <= mostScreens, `${what}: ${screens.toFixed(1)} screens long, folded`);
  const at = () => page.evaluate(() => document.querySelector(".lead .moving g:has(> animateTransform)").getScreenCTM().e);
  const was = await at();
  await page.waitForFunction((x) => document.querySelector(".lead .moving g:has(> animateTransform)").getScreenCTM().e !== x, was);
  check(true, `${what}: the picture moves`);
}

/** whole opens all that is folded. */
async function whole(page, check, what, cutAllowed) {
  const wrong = await page.evaluate(([least]) => {
    document.querySelectorAll("details").forEach((d) => (d.open = true));
    const list = [];
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) list.push(`${root.scrollWidth} px wide in ${root.clientWidth}`);
    for (const text of document.querySelectorAll("figure > button svg text")) {
      const m = text.getScreenCTM();
      const px = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(m.a, m.b);
      if (px < least) list.push(`${text.closest("svg").getAttribute("aria-label")}: "${text.textContent}" is ${px.toFixed(1)} px high`);
    }
    return list;
  }, [leastWords]);
  check(wrong.length === 0, `${what}: widths and words, whole ${wrong.slice(0, 5).join(" | ")}`);
  const cut = await page.evaluate(() => [...document.querySelectorAll(".table")].filter((t) => t.scrollWidth > t.clientWidth + 1).map((t) => `${t.getAttribute("aria-label")} ${t.scrollWidth} in ${t.clientWidth}`));
  if (!cutAllowed) check(cut.length === 0, `${what}: no column is cut ${cut.slice(0, 5).join(" | ")}`);
}

/** used follows a link into what is folded, and enlarges a figure by mouse and by keyboard. */
async function used(page, check, what, least) {
  const open = (id) => page.evaluate((id) => document.getElementById(id).checkVisibility() && document.getElementById(id).getBoundingClientRect().top < innerHeight, id);
  await page.locator("nav summary").focus();
  await page.keyboard.press("Enter");
  const link = page.locator('nav a[href="#section-2"]');
  await link.focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.getElementById("section-2").checkVisibility());
  check(await open("section-2"), `${what}: a link opens what is folded`);
  const figure = page.locator("#section-2 figure > button").first();
  const large = page.locator("#section-2 [popover]").first();
  for (const way of ["keyboard", "mouse"]) {
    if (way === "mouse") await figure.click();
    else {
      await figure.focus();
      await page.keyboard.press("Enter");
    }
    await large.waitFor({ state: "visible" });
    const share = await large.locator("> svg").evaluate((svg) => Math.max(svg.getBoundingClientRect().width / innerWidth, svg.getBoundingClientRect().height / innerHeight));
    check(share > least, `${what}: the ${way} enlarges a figure to ${(100 * share).toFixed(0)} % of the window`);
    await page.keyboard.press("Escape");
    await large.waitFor({ state: "hidden" });
    check(await figure.evaluate((el) => el === document.activeElement), `${what}: Escape goes back to the figure`);
  }
}

/** report writes the report of recorded runs and opens it; shots is the folder of screenshots. */
export async function report(browser, check, root, shots, hangs) {
  const out = join(shots, "report");
  const made = spawnSync(join(root, "bin", "gpc-lab"), ["report", "--results", join(root, "lab", "results", "epyc-2-cores"), "--without", "systems", "--out", out], { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
  check(made.status === 0, "a report of recorded runs is written");
  const url = pathToFileURL(join(out, "report.html")).href;
  for (const [look, options] of Object.entries(looks)) {
    const what = `report ${look}`;
    const context = await browser.newContext(options);
    const page = await context.newPage();
    page.setDefaultTimeout(hangs);
    const said = [];
    page.on("console", (m) => said.push(m.text()));
    page.on("request", (r) => r.url() === url || r.url().startsWith("data:") || said.push(`asks ${r.url()}`));
    await page.goto(url);
    await page.screenshot({ path: join(shots, `report-${look}.png`) });
    await first(page, check, what);
    await page.evaluate(axe);
    await accessible(page, check, `${what}, folded`);
    const dark = options.colorScheme === "dark";
    const paper = await page.evaluate(() => getComputedStyle(document.querySelector("figure svg path")).fill);
    check((paper === "rgb(255, 255, 255)") !== dark, `${what}: the paper of drawings is ${paper}`);
    await used(page, check, what, options.viewport === narrow ? 1.2 : 0.8); // a phone scrolls it
    await page.screenshot({ path: join(shots, `report-${look}-section.png`) });
    await whole(page, check, what, options.viewport === narrow);
    if (look === "light") await accessible(page, check, `${what}, whole`);
    check(said.length === 0, `${what}: a quiet console, nothing asked for ${said.slice(0, 3).join(" | ")}`);
    await context.close();
  }
}
