// What the page shows is what is so now, or it says how old it is: a slow link, a front of another decision, limits on one
// scale, what passed too fast to be seen, entries that are refused, and pages that the server has no room for. Given are
// the tools of test.mjs.
import http from "node:http";
import net from "node:net";

export function current({ browser, looks, hangs, check, serve, visit, sound, shot, state, post, until, changed, caughtUp }) {
  const ui = (scene, ...more) => serve("serve", scene, "--ui", "--listen", "127.0.0.1:0", "--log", "json", ...more);

  /** link is a way to a server that has so many ms of delay, and so many bytes a second; both may be changed. */
  function link(url) {
    const way = { delay: 0, rate: Infinity };
    const listener = net.createServer((near) => {
      const far = net.connect(new URL(url).port, "127.0.0.1");
      near.on("error", () => far.destroy()).on("close", () => far.destroy());
      far.on("error", () => near.destroy()).on("close", () => near.destroy());
      near.pipe(far);
      let last = Promise.resolve(); // what comes later does not overtake
      far.on("data", (bytes) => {
        far.pause();
        setTimeout(() => far.resume(), (1000 * bytes.length) / way.rate);
        const late = new Promise((come) => setTimeout(come, way.delay));
        last = last.then(() => late).then(() => void (near.destroyed || near.write(bytes)));
      });
    });
    return new Promise((done) => listener.listen(0, "127.0.0.1", () => done(Object.assign(way, { url: `http://127.0.0.1:${listener.address().port}/`, close: () => listener.close() }))));
  }

  const shown = () => ({ badge: document.querySelector("header .badge").textContent, old: document.querySelector(".work").classList.contains("old"), k: Number(document.querySelector(".scrub").value) });

  /** slow has events come later than they came before: the page says by how much, and is grey. */
  async function slow() {
    const live = await ui("opf30");
    const way = await link(live.url);
    await visit(way.url, "light", async (page) => {
      await page.waitForSelector(".badge.live");
      way.delay = 3000;
      await page.waitForFunction(() => /^[2-9] s behind$/.test(document.querySelector("header .badge").textContent) && document.querySelector(".work").classList.contains("old"));
      check(true, `what comes late is not live: ${JSON.stringify(await page.evaluate(shown))}`);
      await sound(page, "behind");
      await shot(page, "behind-light");
      way.delay = 0;
      await page.waitForSelector(".badge.live");
      check(!(await page.evaluate(shown)).old, "and is live again when it comes in time");

      // The way takes less than the server has: frames are left out, and none is old for long.
      way.rate = 20_000;
      const from = (await page.evaluate(shown)).k;
      const now = async () => (await fetch(`${live.url}view/state`)).json();
      let [is, at, told] = [];
      do {
        await page.waitForTimeout(200);
        is = await page.evaluate(shown);
        at = await now();
        told = Number(/^(\d+) s behind$/.exec(is.badge)?.[1] ?? 0);
      } while (at.last < from + 100 || (at.last - is.k) / at.hz > told + 3); // a queue would grow for ever
      check(true, `at 20 kB/s the page shows decision ${is.k} of ${at.last} under “${is.badge}”`);
      await shot(page, "slow-light");
      way.rate = Infinity;
    });
    way.close();
    await live.end();
  }

  /** front is of a decision, and says so where that is another than the one shown. */
  async function front() {
    const live = await ui("integrator-nonconvex");
    await visit(live.url, "dark", async (page) => {
      await post(page, "pause", { paused: true });
      await post(page, "reset", { episode: 0 });
      for (let k = 0; k < 6; k++) await post(page, "step", { by: 1 });
      await caughtUp(page);
      const says = (t, old) => page.waitForFunction(([t, old]) => document.querySelector(".front .when")?.textContent === t && document.querySelector(".front").classList.contains("old") === old, [t, old]);
      await says("From decision 6", false);
      await page.keyboard.press("ArrowLeft");
      await says("From decision 6", true); // no front is made of the past
      check((await page.locator(".front svg").getAttribute("aria-label")).includes("the point of that decision"), "a front of another decision is grey and says of which");
      await shot(page, "front-dark");
      await page.keyboard.press("ArrowRight");
      await says("From decision 6", false);
      check(true, "and of the one that is shown is not");

      // The exact front beside the map's, on demand: with its age and the ratio of their hypervolumes.
      await page.locator(".front .solve button").click();
      await page.waitForSelector(".front .exact");
      const [crosses, dots] = [await page.locator(".front .exact").count(), await page.locator(".front .dot").count()];
      const hint = await page.locator(".front .hint").innerText();
      const ratio = Number(hint.match(/with (\d\.\d+) of their hypervolume/)?.[1]);
      check(crosses > 0 && dots > 10 && (/solved in time/.test(hint) || (ratio > 0.9 && ratio < 1.1)), `${crosses} exact optima beside ${dots} of the map: ${hint}`);
      await post(page, "step", { by: 1 });
      await says("From decision 6, 1 ago", true);
      await shot(page, "front-exact-dark");
      await page.locator(".front .solve button").nth(1).click();
      await page.waitForFunction(() => !document.querySelector(".front .exact") && document.querySelectorAll(".front .point").length > 3);
      check(true, "and goes away for the preferences of now");
    });
    await live.end();
  }

  /** limits have one scale an episode; what the gap in a picture is said to be is the limit's own. */
  async function limits() {
    const live = await ui("integrator-convex");
    await visit(live.url, "light", async (page) => {
      await post(page, "pause", { paused: true });
      await post(page, "reset", { episode: 0 });
      const room = {};
      const about = await page.evaluate(() => fetch("view/case").then((r) => r.json()));
      for (let k = 1; k < 14; k++) {
        await post(page, "step", { by: 1 });
        await caughtUp(page);
        const frame = await page.evaluate((k) => fetch(`view/frame?k=${k}`).then((r) => r.json()), (await state(page)).k);
        const want = about.margins.map((v, i) => [v.name, (room[v.name] = Math.max(room[v.name] ?? 0, frame.margins[i])), frame.margins[i]]);
        const bars = await page.evaluate(() => [...document.querySelectorAll(".margins li")].map((li) => [li.querySelector(".name").textContent, parseFloat(li.querySelector(".bar i")?.style.width ?? "0")]));
        const wrong = bars.filter(([name, width]) => width > 0.6 && Math.abs(width - (100 * want.find((w) => w[0] === name)[2]) / want.find((w) => w[0] === name)[1]) > 0.5);
        const order = bars.map((b) => b[1]).every((w, i, all) => i === 0 || w >= all[i - 1]);
        if (wrong.length || !order || bars.length !== 3) check(false, `decision ${k}: bars ${JSON.stringify(bars)} of ${JSON.stringify(want)}`);
        const gap = frame.margins[about.margins.findIndex((v) => v.collision)];
        const said = Number((await page.locator(".arena .legend").innerText()).replaceAll("−", "-").match(/gap ([\d.e-]+) \(obstacle\)/)?.[1]);
        if (!(Math.abs(said - gap) <= 1e-3 * Math.abs(gap) + 1e-9)) check(false, `decision ${k}: the gap is said to be ${said}, the obstacle's margin is ${gap}`);
      }
      check(true, "limits are bars of one scale, the nearest first, and the gap is that of the obstacle");
      check(!(await page.evaluate(() => [...document.querySelectorAll(".unit, h3")].some((e) => /(^|[ ,])1$/.test(e.textContent)))), "no unit is 1");
    });
    await live.end();
  }

  /** secure rings what binds, also after an outage. */
  async function secure() {
    const live = await ui("opf-secure");
    await visit(live.url, "dark", async (page) => {
      await page.waitForFunction(() => Number(document.querySelector(".where b")?.textContent) > 3);
      await post(page, "pause", { paused: true });
      await caughtUp(page);
      const about = await page.evaluate(() => fetch("view/case").then((r) => r.json()));
      let frame;
      for (let n = 0; n < 40; n++) {
        frame = await page.evaluate((k) => fetch(`view/frame?k=${k}`).then((r) => r.json()), (await state(page)).k);
        if (frame.margins.some((m, i) => about.margins[i].name.startsWith("after") && m <= 1e-5)) break;
        await post(page, "step", { by: 1 });
        await caughtUp(page);
      }
      const binding = about.margins.filter((_, i) => frame.margins[i] <= 10 * Math.max(about.margin_tolerance, 1e-6)).map((v) => v.name);
      const after = binding.filter((n) => n.startsWith("after"));
      const rings = await page.locator(".map svg .ring.after").count();
      check(after.length > 0 && rings >= after.length, `of ${binding.join(", ")} bind ${after.length} after an outage, with ${rings} rings`);
      check((await page.locator(".margins").innerText()).includes("outage "), "and the list says after which");
      await sound(page, "secure dark");
      await shot(page, "secure-dark");
    });
    await live.end();
  }

  /** events that pass in a tenth of a second stay in the list, and what a hand enters wrongly is refused in words. */
  async function events() {
    const live = await ui("integrator-convex", "--deadline", "1us");
    await visit(live.url, "light", async (page) => {
      await page.waitForFunction(() => /late, fallback in place of the method's action/.test(document.querySelector(".events li")?.textContent));
      check(true, "late decisions and fallbacks are listed");
      await post(page, "pause", { paused: true });
      await caughtUp(page);
      const first = page.locator(".events li button").last();
      const t = Number((await first.innerText()).match(/decisions? (\d+)/)[1]);
      await first.click();
      await page.waitForFunction((t) => Number(document.querySelector(".where b").textContent) === t, t);
      check(true, `a click in the list goes to decision ${t}`);
      const [seed, episode] = [page.locator(".settings label:nth-of-type(3) input"), page.locator(".settings label:nth-of-type(2) input")];
      for (const [field, name, text] of [[seed, "Seed", "-1"], [seed, "Seed", "1.5"], [seed, "Seed", "9007199254740993"], [episode, "Episode", "-3"]]) {
        await field.fill(text);
        await field.press("Enter");
        await page.waitForFunction(([name, text]) => [...document.querySelectorAll(".wrong")].some((e) => e.textContent.startsWith(`${name} ${text}: want a whole number from 0 to`)), [name, text]);
      }
      check(true, "a number that cannot be is refused with the reason");
      await sound(page, "events light");
      await shot(page, "events-light");

      // Values under the pointer, and a stretch that is chosen.
      const plot = page.locator(".lines .plot").first();
      await plot.scrollIntoViewIfNeeded();
      const box = await plot.boundingBox();
      await page.mouse.move(box.x + 0.4 * box.width, box.y + 50);
      await page.waitForFunction(() => /decision \d+( of episode \d+)?: /.test(document.querySelector(".lines .values").textContent));
      const { k } = await state(page);
      await page.mouse.down();
      await page.mouse.move(box.x + 0.7 * box.width, box.y + 50, { steps: 5 });
      await page.mouse.up();
      await page.waitForFunction(() => document.querySelector(".zoom select").value === "chosen");
      check((await state(page)).k === k, "a drag over a time line chooses a stretch, and goes nowhere");
      await page.locator(".zoom select").selectOption("all");
    });
    await live.end();
    const grid = await ui("opf30");
    await visit(grid.url, "light", async (page) => {
      await post(page, "pause", { paused: true });
      await post(page, "step", { by: 1 });
      await caughtUp(page);
      page.removeAllListeners("console");
      page.removeAllListeners("response"); // the browser says what is refused
      const power = page.locator('.change input[name="power"]');
      await power.fill("9000");
      await power.press("Enter");
      await page.waitForFunction(() => /^A load of 9000 MW is not set: bus \d+ takes 0 to/.test(document.querySelector("[role=alert]")?.textContent));
      await page.waitForFunction(() => /refused: A load of 9000 MW/.test(document.querySelector(".events li")?.textContent));
      check(true, "a load that cannot be is refused in the words of the page, and listed");
      await page.keyboard.press("t");
      await page.locator(".transport button").first().click();
      await page.waitForFunction(() => !document.querySelector("[role=alert]"));
      check(true, "what is done next takes the refusal away");
    });
    await grid.end();
  }

  /** crowd opens as many pages as there may be: the next is told so. Two pages say the same of a new start. */
  async function crowd() {
    let live = await ui("integrator-convex");
    const at = new URL(live.url).host;
    const open = [];
    for (let n = 0; n < 64; n++) open.push(await new Promise((done, failed) => http.get(`${live.url}view/events`, done).on("error", failed)));
    const context = await browser.newContext(looks.light);
    const pages = [await context.newPage(), await context.newPage()];
    for (const page of pages) page.setDefaultTimeout(hangs);
    await pages[0].goto(live.url);
    await pages[0].waitForFunction(() => /64 pages are open already/.test(document.querySelector(".loading")?.textContent));
    check(true, "a page that there is no room for says why");
    open.forEach((answer) => answer.destroy());
    await pages[0].waitForSelector(".badge.live");
    await pages[1].goto(live.url);
    await pages[1].waitForSelector(".badge.live");
    await pages[0].locator(".sliders input").press("End");
    await until(pages[0], (s) => s.preference.w?.[0] === 1);
    await live.killed();
    for (const page of pages) await page.waitForSelector(".dead");
    live = await serve("serve", "integrator-convex", "--ui", "--listen", at, "--log", "json");
    for (const page of pages) await page.waitForFunction(() => /started again.*The preference is that of before/.test(document.querySelector(".alerts")?.textContent));
    const [a, b] = await Promise.all(pages.map((page) => page.locator(".alerts").innerText()));
    check(a === b, `two pages say the same of a new start: ${a}`);
    await context.close();
    await live.end();
  }

  return { slow, front, limits, secure, events, crowd };
}
