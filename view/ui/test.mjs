// Drives the page in a real Chromium: what a preference changes, the keyboard, every view in both
// colours and on a phone; then a report. It waits for what is to come, however long that takes. Screenshots go to
// out/ui, those of docs/view.md with --docs to docs/view; --times prints how long a drag takes to change
// the dispatch, and decisions with and without a page; --late has the page draw late and hear late, at random, to find
// what depends on the one or the other. Usage: node test.mjs [--docs] [--times] [--late] [PART…], with gpc built in bin; CHROMIUM names the browser.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { current } from "./current.mjs";
import { hands } from "./hands.mjs";
import { withPalette } from "./palette.mjs";
import { report } from "./report.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const gpc = join(root, "bin", "gpc");
const out = join(root, "out", "ui");
const docs = join(root, "docs", "view");
const hangs = 600e3; // ms after which what is waited for does not come, on a machine of any speed
const axe = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");
const late = process.argv.includes("--late");
const times = process.argv.includes("--times");
const failures = [];
const check = (ok, text) => {
  console.log(`${ok ? "ok  " : "FAIL"} ${text}`);
  if (!ok) failures.push(text);
};

mkdirSync(out, { recursive: true });

/** serve starts gpc, or another program of it, and waits for the page's address. */
function serve(...args) {
  const server = spawn(gpc, [...args, "--json", "--seed", "991"], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  const killed = () => server.kill();
  process.once("exit", killed);
  server.once("close", () => process.removeListener("exit", killed));
  return new Promise((resolve, reject) => {
    server.once("exit", (code) => reject(new Error(`gpc ${args.join(" ")} has ended with ${code}: ${log}`)));
    const said = (text) => (log += text) && log.match(/"url":"([^"]+)"/) && resolve({ url: log.match(/"url":"([^"]+)"/)[1], signal: (name) => server.kill(name), end: () => new Promise((done) => (server.removeAllListeners("exit"), server.once("exit", done), server.kill("SIGTERM"))), killed: () => new Promise((done) => (server.removeAllListeners("exit"), server.once("exit", done), server.kill("SIGKILL"))) });
    server.stdout.on("data", said);
    server.stderr.on("data", said);
  });
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync),
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
console.log(`Chromium ${browser.version()}`);

const looks = {
  dark: { colorScheme: "dark", viewport: { width: 1440, height: 1080 } },
  light: { colorScheme: "light", viewport: { width: 1440, height: 1080 } },
  phone: { colorScheme: "dark", viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
  "phone-light": { colorScheme: "light", viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true },
};

/** lately has a page draw 300 to 500 ms late, and hear every answer up to 800 ms late, one before another. */
async function lately(page) {
  await page.addInitScript(() => {
    const frame = window.requestAnimationFrame;
    window.requestAnimationFrame = (draw) => setTimeout(() => frame(draw), 300 + 200 * Math.random());
  });
  await page.route(/\/view\/(?!events)/, (route) => setTimeout(() => void route.continue().catch(() => {}), 800 * Math.random()));
}

/** visit opens a page and fails where it says anything on the console or asks another host. before, if any, runs in it before anything else. */
async function visit(url, look, use, before) {
  const context = await browser.newContext(looks[look]);
  const page = await context.newPage();
  if (before) await page.addInitScript(before);
  if (late) await lately(page);
  page.setDefaultTimeout(hangs);
  const said = [];
  page.on("console", (m) => said.push(`${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => said.push(`error: ${e.message}`));
  page.on("requestfailed", (r) => /\/(events|seen)$/.test(new URL(r.url()).pathname) || said.push(`failed: ${r.url()} ${r.failure()?.errorText}`));
  page.on("request", (r) => r.url().startsWith(new URL(url).origin) || r.url().startsWith("blob:") || said.push(`asks ${r.url()}`));
  page.on("response", (r) => r.status() >= 400 && said.push(`${r.status()} ${r.url()}`));
  await page.goto(url);
  await page.waitForSelector(".stage");
  await page.waitForFunction(() => document.querySelectorAll(".plot canvas").length > 2);
  await use(page);
  check(said.length === 0, `${look} ${page.url()}: a quiet console${said.length ? ": " + said.join(" | ") : ""}`);
  await context.close();
}

/** sound checks what every view has to be: nothing beyond the edge, a name on every control, no violation that axe-core finds. */
async function sound(page, what) {
  const wrong = await page.evaluate(() => {
    const list = [];
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) list.push(`${root.scrollWidth} px wide in ${root.clientWidth}`);
    for (const el of document.querySelectorAll("button, select, input, [role=slider], svg[role=img], [role=img]")) {
      const name = el.getAttribute("aria-label") || el.labels?.[0]?.textContent || el.textContent;
      if (!name?.trim()) list.push(`no name: ${el.outerHTML.slice(0, 90)}`);
    }
    for (const el of document.querySelectorAll("button, select, h2, h3, .tile b, .bars b, .bars .unit, .where")) {
      const box = el.getBoundingClientRect();
      if (box.width && (box.right > root.clientWidth + 1 || box.left < -1)) list.push(`beyond the edge: ${el.textContent.slice(0, 40)}`);
      if (el.matches(".tile b, button, .bars b") && el.scrollWidth > el.clientWidth + 1) list.push(`cut off: ${el.textContent.slice(0, 40)}`);
    }
    return list;
  });
  check(wrong.length === 0, `${what}: names and edges${wrong.length ? ": " + wrong.join(" | ") : ""}`);
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run().then((r) => r.violations.map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 120)}`)));
  check(found.length === 0, `${what}: accessible by axe-core${found.length ? ": " + found.join(" | ") : ""}`);
}

const shot = (page, name) => page.screenshot({ path: join(out, `${name}.png`), fullPage: true });

const state = (page) => page.evaluate(() => fetch("view/state").then((r) => r.json()));
const post = (page, what, body) => page.evaluate(([what, body]) => fetch(`view/${what}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }).then((r) => r.status), [what, body]);

/** until waits for a state of the server. */
async function until(page, is, within = hangs) {
  for (const end = performance.now() + within; performance.now() < end; await page.waitForTimeout(50)) {
    const now = await state(page);
    if (is(now)) return now;
  }
  return undefined;
}

/** changed waits until something of the page is not what it was, and gives what it is: asked from without, as the page lets nobody evaluate a string. */
async function changed(page, read, was) {
  for (const end = performance.now() + hangs; performance.now() < end; await page.waitForTimeout(50)) {
    const now = await page.evaluate(read);
    if (now !== was) return now;
  }
  throw new Error(`after ${hangs} ms ${read} is still ${was}`);
}

/** drag takes the knob along a way through the triangle: each move changes the preference of the dispatch that is shown. */
async function drag(page, what) {
  const preference = 'document.querySelector(".dispatch").dataset.preference';
  const box = await page.locator(".triangle .simplex").boundingBox();
  const at = (x, y) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(0.5, 0.7));
  let was = await page.evaluate(preference);
  await page.mouse.down();
  was = await changed(page, preference, was);
  const took = [];
  for (let k = 0; k < 24; k++) {
    await page.evaluate(() => document.querySelector(".triangle").addEventListener("pointermove", () => (window.began = performance.now()), { capture: true, once: true }));
    const seen = page.evaluate(([was]) => new Promise((done) => {
      const panel = document.querySelector(".dispatch");
      const look = () => panel.dataset.preference !== was && done(performance.now() - window.began);
      new MutationObserver(look).observe(panel, { attributes: true, attributeFilter: ["data-preference"] });
    }), [was]);
    await page.mouse.move(...at(0.5 + 0.4 * Math.sin((k + 1) / 4), 0.75 + 0.2 * Math.cos((k + 1) / 3)));
    took.push(await seen);
    was = await page.evaluate(preference);
  }
  await page.mouse.up();
  took.sort((a, b) => a - b);
  check(took.length === 24, `${what}: each of 24 moves changes the dispatch`);
  if (times) console.log(`${what}: 24 moves, median ${took[12].toFixed(1)} ms, longest ${took.at(-1).toFixed(1)} ms`);
}

/** caughtUp waits until the page shows the frame at which the server stands, in whatever episode. */
async function caughtUp(page) {
  const { k } = await state(page);
  const { t } = await page.evaluate((k) => fetch(`view/frame?k=${k}`).then((r) => r.json()), k);
  await page.waitForFunction(([k, t]) => Number(document.querySelector(".scrub")?.value) === k && Number(document.querySelector(".where b").textContent) === t, [k, t]);
}

async function grid(url) {
  for (const look of Object.keys(looks)) {
    await visit(url, look, async (page) => {
      await post(page, "pause", { paused: false });
      await page.waitForFunction(() => Number(document.querySelector(".where b")?.textContent) > 60);
      await page.waitForFunction(() => document.querySelectorAll(".front .point").length > 10);
      if (look === "dark") {
        await drag(page, "dragging while the plant runs");
        await post(page, "pause", { paused: true });
        await drag(page, "dragging while it stands");
        await post(page, "preference", { w: null });
        await keyboard(page);
        await post(page, "pause", { paused: false });
        const from = (await state(page)).k;
        await until(page, (s) => s.k > from + 10);
      }
      await post(page, "pause", { paused: true });
      await caughtUp(page);
      if (look === "dark") {
        await page.locator(".branch").nth(5).hover({ force: true });
        check(/Branch/.test(await page.locator(".hover").innerText()), "a branch says its values under the pointer");
        await page.mouse.move(2, 2);
      }
      await sound(page, `grid ${look}`);
      await shot(page, `grid-${look}`);
    });
  }
}

/** keyboard does with keys alone what the pointer does. */
async function keyboard(page) {
  await page.evaluate(() => (document.activeElement?.blur(), window.scrollTo(0, 0)));
  await page.mouse.click(5, 5); // Tab goes on from there
  const order = [];
  for (let k = 0; k < 40; k++) {
    await page.keyboard.press("Tab");
    const name = await page.evaluate(() => {
      const el = document.activeElement;
      return el === document.body ? "" : el.getAttribute("aria-label") || el.labels?.[0]?.textContent || el.textContent;
    });
    if (!name || order[0] === name) break;
    order.push(name.trim().slice(0, 24));
  }
  check(order.length >= 8 && order.some((n) => n.startsWith("Preference over")), `Tab goes through ${order.length} controls: ${order.join(", ")}`);
  await page.locator(".handle").focus();
  const value = () => page.locator(".handle").getAttribute("aria-valuetext");
  const dispatch = () => page.locator(".dispatch").innerText();
  await page.keyboard.press("2");
  await page.waitForFunction(() => document.querySelector(".handle").getAttribute("aria-valuetext").includes("100 %"));
  await page.waitForFunction(() => Number(document.querySelector(".dispatch").dataset.preference?.split(" ")[1]) === 1);
  const [before, was] = [await value(), await dispatch()];
  for (let k = 0; k < 12; k++) await page.keyboard.press("Shift+ArrowRight");
  await changed(page, 'document.querySelector(".dispatch").innerText', was);
  check((await value()) !== before, `arrow keys move the preference (${before} to ${await value()}) and the dispatch`);
  await page.evaluate(() => document.activeElement.blur());
  const at = (await state(page)).k;
  await page.keyboard.press("ArrowRight");
  const on = await until(page, (s) => s.k === at + 1);
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  check(on && (await until(page, (s) => s.k === at - 1)), `right steps from ${at} on, left twice before it`);
  await page.keyboard.press("End");
  await until(page, (s) => s.k === s.last);
  await page.keyboard.press("w");
  const series = await page.evaluate(() => fetch("view/series").then((r) => r.json()));
  const least = Math.min(...series.margin.filter((m) => m !== null));
  check(await until(page, (s) => series.margin[s.k - series.first] === least), "w goes to the decision of the smallest margin");
  await page.route("**/view/seek", (route) => setTimeout(() => void route.continue(), 300)); // what is asked next overtakes nothing
  await page.keyboard.press("End");
  await page.keyboard.press("Space");
  const playing = await until(page, (s) => s.playing);
  await page.unroute("**/view/seek");
  await page.waitForSelector(".badge.live");
  await page.keyboard.press("Space");
  check(playing && (await until(page, (s) => !s.playing)), "space plays and pauses");
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  const colours = await theme();
  await page.keyboard.press("t");
  const other = await changed(page, "document.documentElement.dataset.theme", colours);
  check(other !== colours, "t changes the colours");
  await page.keyboard.press("t");
  await changed(page, "document.documentElement.dataset.theme", other);
}

/** arena goes so many decisions into an episode: at its end, where a plant that runs may be, nothing is fanned out. */
async function arena(url, name, decisions, look) {
  await visit(url, look, async (page) => {
    await post(page, "pause", { paused: true });
    await post(page, "reset", { episode: 0 });
    for (let k = 0; k < decisions; k++) await post(page, "step", { by: 1 });
    await caughtUp(page);
    await page.waitForFunction(() => document.querySelectorAll(".plan path").length > 0 && document.querySelectorAll(".fan path").length >= 3);
    check((await page.locator(".fan path").count()) >= 3, `${name} ${look}: plans are fanned out`);
    await sound(page, `${name} ${look}`);
    await shot(page, `${name}-${look}`);
  });
}

async function recorded(url, look) {
  await visit(url, look, async (page) => {
    const last = (await state(page)).last;
    await page.locator(".scrub").focus();
    await page.keyboard.press("End");
    await page.waitForFunction((k) => Number(document.querySelector(".where b").textContent) === k, last);
    await page.keyboard.press("Home");
    await page.waitForFunction(() => Number(document.querySelector(".where b").textContent) === 0);
    await page.evaluate(() => document.activeElement.blur());
    for (let k = 0; k < 3; k++) await page.keyboard.press("ArrowRight");
    await page.waitForFunction(() => Number(document.querySelector(".where b").textContent) === 3);
    await page.keyboard.press("Space");
    await page.waitForFunction((k) => Number(document.querySelector(".where b").textContent) > k, Math.min(60, last / 2));
    await page.keyboard.press("Space");
    const plot = page.locator(".plot").last();
    await plot.click({ position: { x: 0.6 * (await plot.boundingBox()).width, y: 60 } });
    const at = (await until(page, (s) => s.k > 0.4 * last && s.k < 0.75 * last))?.k;
    check(at > 0.4 * last && at < 0.75 * last, `trace ${look}: a click on a time line goes to decision ${at} of ${last}`);
    check(await page.locator(".handle").count().then(async (n) => n === 0 || (await page.locator(".handle").getAttribute("aria-disabled")) === "true"), `trace ${look}: the preference is not offered`);
    await sound(page, `trace ${look}`);
    await shot(page, `trace-${look}`);
  });
}

/** died kills the server under the page and starts it again, lets it hang, and puts another case in its place: at no time does the page show what is not so. */
async function died(look) {
  const serving = (scene, at, ...more) => serve("serve", scene, "--ui", "--listen", at, "--log", "json", ...more);
  let live = await serving("opf30", "127.0.0.1:0");
  const at = new URL(live.url).host;
  const context = await browser.newContext(looks[look]);
  const page = await context.newPage();
  if (late) await lately(page);
  page.setDefaultTimeout(hangs);
  await page.goto(live.url);
  await page.waitForFunction(() => Number(document.querySelector(".where b")?.textContent) > 40);
  await page.locator(".handle").press("3");
  await until(page, (s) => s.preference.w?.[2] === 1);
  const before = await state(page);
  const dead = async (what) => {
    await page.waitForSelector(".dead");
    const shows = await page.evaluate(() => ({
      inert: document.querySelector(".work").inert,
      grey: getComputedStyle(document.querySelector(".work")).filter,
      badge: document.querySelector("header .badge").textContent,
      play: document.querySelector(".play").getAttribute("aria-label"),
      kept: [...document.querySelectorAll(".tile")].filter((t) => t.matches(".good, .warn, .bad") || /kept|method$/.test(t.querySelector("dd span").textContent)).length,
      failed: /Failed to fetch/.test(document.body.textContent),
    }));
    check(shows.inert && shows.grey.includes("grayscale") && shows.badge === "no connection" && shows.play === "Play" && shows.kept === 0 && !shows.failed, `${what} nothing looks live: ${JSON.stringify(shows)}`);
    const age = () => document.querySelector(".dead span").textContent;
    await changed(page, `(${age})()`, await page.evaluate(age));
    await page.keyboard.press("ArrowLeft"); // asks nobody
    check(await page.evaluate(() => /\d+ s old/.test(document.querySelector(".dead").textContent) && !document.querySelector(".alerts")), `${what} the age of what is shown grows`);
  };
  await live.killed();
  await dead(`${look}: after kill -9`);
  await sound(page, `${look}: without a server`);
  await shot(page, `gone-${look}`);

  live = await serving("opf30", at);
  await page.waitForFunction(() => /started again.*The preference is that of before/.test(document.querySelector(".alerts")?.textContent));
  const now = await state(page);
  check(now.start !== before.start && now.preference.w?.[2] === 1, `${look}: the new server has the preference of before: ${JSON.stringify(now.preference)}`);
  await post(page, "pause", { paused: true });
  await caughtUp(page);
  const { last } = await state(page);
  const lines = await page.evaluate(() => ({ most: Number(document.querySelector(".scrub").max), lines: document.querySelectorAll(".plot").length, dead: !!document.querySelector(".dead"), inert: document.querySelector(".work").inert, failed: /Failed to fetch/.test(document.body.textContent) }));
  check(lines.most === last && lines.lines > 2 && !lines.dead && !lines.inert && !lines.failed, `${look}: it shows the new run alone: ${JSON.stringify(lines)}`);
  await sound(page, `${look}: after a new start`);

  live.signal("SIGSTOP"); // it hangs, with its connections open
  await dead(`${look}: while the server hangs`);
  live.signal("SIGCONT");
  await page.waitForFunction(() => !document.querySelector(".dead"));
  check(true, `${look}: the page comes back with the server`);

  await live.killed();
  await page.waitForSelector(".dead");
  live = await serving("integrator-convex", at);
  await page.waitForFunction(() => /preference of before is lost/.test(document.querySelector(".alerts")?.textContent));
  check(await page.evaluate(() => document.querySelector("h1").textContent === "integrator-convex" && !document.querySelector(".map")), `${look}: another case in its place, and the loss of the preference is said`);
  await context.close();
  check((await live.end()) === 0, `${look}: serve --ui ends with 0`);
}

/** answersFirst has a page hear of a new state later than it has the answer to what it asked for. */
function answersFirst() {
  const listens = EventSource.prototype.addEventListener;
  EventSource.prototype.addEventListener = function (name, hears) {
    listens.call(this, name, name === "state" ? (e) => setTimeout(() => hears(e), 300) : hears);
  };
}

/** followed shows the session of a client, steers it, and says when the client asks nothing any more. */
async function followed() {
  const live = await serve("serve", "opf30", "--ui", "--listen", "127.0.0.1:0", "--log", "json");
  const plant = spawn(gpc, ["plant", "opf30", "--connect", new URL(live.url).origin, "--episodes", "100000", "--every", "100ms", "--session", "arm", "--json"], { cwd: root, stdio: ["ignore", "ignore", "pipe"] });
  process.once("exit", () => plant.kill());
  let said = "";
  plant.stderr.on("data", (text) => (said += text));
  const ended = new Promise((_, reject) => plant.once("exit", (code) => plant.killed || reject(new Error(`the client has ended with ${code}: ${said}`))));
  ended.catch(() => {}); // where nobody waits for it
  const followed = visit(live.url, "light", async (page) => {
    const shows = page.locator('select[aria-label="What is shown"]');
    await shows.selectOption("sarm");
    await page.waitForFunction(() => document.querySelector(".about").textContent.includes('session "arm"') && Number(document.querySelector(".where b")?.textContent) > 5);
    check((await page.locator(".bus").count()) === 30 && (await page.locator(".margins li").count()) > 0, "a client's session is drawn, with its limits");
    await page.locator(".handle").press("1");
    check(await until(page, (s) => s.preference.w?.[0] === 1), "the page steers it");
    await page.waitForFunction(() => document.querySelectorAll(".front .point").length > 5);
    const first = page.locator(".front .point").first();
    let taken;
    for (const end = performance.now() + hangs; !taken && performance.now() < end; ) { // where a front is drawn anew between two keys the focus is lost
      await first.focus();
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("Enter");
      taken = await until(page, (s) => s.preference.w && s.preference.w[0] !== 1, 3000);
    }
    check(taken, "arrows and Enter take a point of the front");
    await sound(page, "a session");
    await shot(page, "session-light");
    plant.kill();
    await page.waitForFunction(() => /no decision for \d+ s/.test(document.querySelector("header .badge").textContent) && !document.querySelector(".badge.live"));
    check(true, "the page says that the client asks nothing");
    await shows.selectOption("");
    check(await until(page, (s) => s.session === null), "and goes back to the plant");
  }, answersFirst);
  await Promise.race([followed, ended]);
  await live.end();
}

/** watched drives a plant by a server of every case, without a page and beside one: no slice of the page's work begins while a decision waits. */
async function watched() {
  const trace = join(out, "watched.jsonl");
  const { cases } = JSON.parse(spawnSync(gpc, ["cases", "--json"], { cwd: root }).stdout);
  for (const { name, bundled_model } of cases) {
    if (!bundled_model) continue;
    const live = await serve("serve", name, "--ui", "--listen", "127.0.0.1:0", "--log", "json");
    const drive = (episodes = 1) =>
      new Promise((done) => {
        rmSync(trace, { force: true });
        const began = performance.now();
        const plant = spawn(gpc, ["plant", name, "--connect", new URL(live.url).origin, "--episodes", String(episodes), "--seed", "991", "--trace", trace, "--json"], { cwd: root, stdio: "ignore" });
        plant.once("exit", () => {
          const lines = readFileSync(trace, "utf8").trim().split("\n").map((line) => JSON.parse(line));
          const took = lines.map((line) => line.latency_us).filter((t) => t > 0);
          done({ decisions: took.length, seconds: (performance.now() - began) / 1000, took });
        });
      });
    // A ratio of times is of many decisions, the ninth in ten of forty is one of the four slowest, and of seconds,
    // in which the page does what it does all day: opening it takes a part of one.
    let episodes = times ? Math.ceil(400 / (await drive()).decisions) : 1;
    let alone = await drive(episodes);
    while (times && alone.seconds < 3) alone = await drive((episodes = Math.ceil(episodes * Math.max(1.5, 4 / alone.seconds))));
    const drives = [];
    await visit(live.url, "light", async (page) => {
      const beside = await drive(episodes);
      const metrics = await page.evaluate(() => fetch("metrics").then((r) => r.text()));
      const of = (metric) => Number(metrics.match(new RegExp(`^gpc_${metric} (\\S+)$`, "m"))?.[1]);
      check(alone.decisions > 0 && beside.decisions === alone.decisions && of("aside_total") > 0 && of("aside_ahead_max") <= 1, `${name}: ${beside.decisions} decisions beside a page; at most ${of("aside_ahead_max")} of its ${of("aside_total")} slices began while one waited`);
      drives.push(beside);
    });
    if (times) {
      drives.push(await drive(episodes)); // the machine may have become slower meanwhile
      const p90 = (...of) => of.flatMap((d) => d.took).sort((a, b) => a - b)[Math.floor(0.9 * of.length * alone.decisions)];
      const [without, watched] = [p90(alone, drives[1]), p90(drives[0])];
      console.log(`${name}: ${alone.decisions} decisions in ${alone.seconds.toFixed(1)}, ${drives.map((d) => d.seconds.toFixed(1)).join(", ")} s, p90 of one ${without.toFixed(0)} µs without the page before and after, ${watched.toFixed(0)} µs beside it, ratio ${(watched / without).toFixed(2)}`);
    }
    await live.end();
  }
}

const began = performance.now();
const only = process.argv.slice(2).filter((a) => !a.startsWith("--"));
const wanted = (name) => only.length === 0 || only.includes(name);

if (wanted("report")) await report(browser, check, root, out, hangs);
if (wanted("grid")) {
  const live = await serve("serve", "opf30", "--ui", "--listen", "127.0.0.1:0", "--deadline", "20ms", "--log", "json");
  await grid(live.url);
  check((await live.end()) === 0, "serve --ui ends with 0");
}
for (const [name, scene, decisions] of [["integrator", "integrator-nonconvex", 12], ["robots", "multiagent-static", 25]]) {
  if (!wanted(name)) continue;
  const live = await serve("serve", scene, "--ui", "--listen", "127.0.0.1:0", "--log", "json");
  for (const look of Object.keys(looks)) await arena(live.url, name, decisions, look);
  await live.end();
}
if (wanted("died")) for (const look of ["dark", "phone-light"]) await died(look);
if (wanted("followed")) await followed();
const { tasks, ahead, moved, inView, lines, switches } = hands({ gpc, root, out, check, serve, visit, sound, shot, state, post, until, changed, caughtUp });
if (wanted("tasks")) await tasks();
if (wanted("ahead")) await ahead();
if (wanted("moved")) await moved();
if (wanted("phone")) await inView();
if (wanted("lines")) await lines();
if (wanted("switches")) await switches();
const now = current({ browser, looks, hangs, check, serve, visit, sound, shot, state, post, until, changed, caughtUp });
for (const [name, part] of Object.entries(now)) if (wanted(name)) await part();
if (wanted("watched")) await watched();
if (wanted("trace")) {
  const trace = join(out, "trace.jsonl");
  rmSync(trace, { force: true });
  const made = spawnSync(gpc, ["eval", "multiagent-moving", "--method", "planner-384", "--episodes", "1", "--seed", "991", "--trace", trace, "--json"], { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
  check(made.status === 0, "a trace of robots among moving obstacles is recorded");
  const shown = await serve("view", trace);
  for (const look of Object.keys(looks)) await recorded(shown.url, look);
  check((await shown.end()) === 0, "view ends with 0");
}
await browser.close();

if (process.argv.includes("--docs")) {
  mkdirSync(docs, { recursive: true });
  for (const name of ["grid-dark", "grid-light", "grid-phone", "integrator-light", "robots-dark", "trace-light"]) {
    withPalette(join(out, `${name}.png`), join(docs, `${name}.png`));
    check(statSync(join(docs, `${name}.png`)).size < 200e3, `docs/view/${name}.png has less than 200 kB`);
  }
}
console.log(`${failures.length} failed, ${((performance.now() - began) / 1000).toFixed(0)} s, screenshots in ${out}`);
process.exit(failures.length ? 1 : 0);
