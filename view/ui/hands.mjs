// What a person does at the page: a list of tasks by keyboard alone, hands that are ahead of it, obstacles moved by hand, the triangle on a phone,
// and a case without a picture. Given are the tools of test.mjs.
import { spawnSync } from "node:child_process";
import { join } from "node:path";

export function hands({ gpc, root, out, check, serve, visit, sound, shot, state, post, until, changed, caughtUp }) {
  /** tabTo presses Tab until the focus is on what a selector names: what cannot be reached by keyboard fails. */
  async function tabTo(page, selector) {
    for (let k = 0; k < 200; k++) {
      if (await page.evaluate((s) => !!document.activeElement?.matches(s), selector)) return;
      await page.keyboard.press("Tab");
    }
    throw new Error(`Tab does not lead to ${selector}`);
  }

  /** slow has the page draw so late that whoever types is ahead of it. */
  const slow = () => {
    const frame = window.requestAnimationFrame;
    window.requestAnimationFrame = (draw) => setTimeout(() => frame(draw), 400);
  };

  /** tasks does with the keyboard alone what a person comes for, and sees that it is done. */
  async function tasks() {
    const live = await serve("serve", "opf30", "--ui", "--listen", "127.0.0.1:0", "--log", "json");
    let link = "";
    let seen;
    const now = (page) => page.evaluate(() => fetch("view/state").then((r) => r.json()).then((s) => fetch(`view/frame?k=${s.k}`)).then((r) => r.json()));
    const step = async (page) => {
      const { k } = await state(page);
      await page.evaluate(() => document.activeElement.blur());
      await page.keyboard.press("ArrowRight");
      await until(page, (s) => s.k > k);
    };
    await visit(live.url, "dark", async (page) => {
      await page.waitForFunction(() => Number(document.querySelector(".where b")?.textContent) > 3);
      await page.keyboard.press("Space");
      check(await until(page, (s) => !s.playing), "task: pause");

      await tabTo(page, ".settings label:nth-of-type(3) input");
      await page.keyboard.press("Control+A");
      await page.keyboard.type("17");
      await page.keyboard.press("Enter");
      await page.keyboard.press("Tab");
      check(await until(page, (s) => s.seed === 17 && s.last === 0), "task: choose a seed");
      await step(page);

      await tabTo(page, ".handle");
      await page.keyboard.press("3");
      check(await until(page, (s) => s.preference.w?.[2] === 1), "task: prefer one objective");
      await page.waitForFunction(() => document.querySelectorAll(".front .point").length > 5);
      await tabTo(page, ".front .point");
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("Enter");
      check(await until(page, (s) => s.preference.w && s.preference.w[2] !== 1), "task: take a point of the front");
      await step(page);

      await tabTo(page, ".change select");
      await page.keyboard.press("ArrowDown");
      await tabTo(page, '.change input[type="number"]');
      await page.keyboard.press("Control+A");
      await page.keyboard.type("4.5");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => /load of bus .* to 4.5 MW/.test(document.querySelector(".change .hint")?.textContent));
      check((await now(page)).event.includes("4.5 MW"), "task: change a load");
      await tabTo(page, ".change form:nth-of-type(2) select");
      for (let k = 0; k < 5; k++) await page.keyboard.press("ArrowDown");
      await tabTo(page, ".change form:nth-of-type(2) button");
      await page.keyboard.press("Enter");
      await page.waitForSelector(".branch.open");
      check((await page.locator(".branch.open").count()) === 1 && (await now(page)).event.includes("is opened"), "task: open a line");
      await step(page);
      await page.waitForFunction(() => /exact optimum/.test(document.querySelector(".tile.wide")?.textContent));
      check(true, "the cost of the decision stands beside the exact optimum");

      await page.evaluate(() => window.scrollTo(0, 0));
      await tabTo(page, ".tile .word");
      await page.waitForFunction(() => getComputedStyle(document.querySelector(".tile .tip")).visibility === "visible");
      check(true, "task: read what a word means");

      const file = page.waitForEvent("download");
      await tabTo(page, ".take button:nth-of-type(2)");
      await page.keyboard.press("Enter");
      const trace = join(out, "saved.jsonl");
      await (await file).saveAs(trace);
      const verified = spawnSync(gpc, ["verify", trace, "--json"], { cwd: root });
      check(verified.status === 0 && JSON.parse(verified.stdout).decisions > 0, `task: save the trace, which gpc verify confirms${verified.status ? ": " + verified.stderr : ""}`);
      await tabTo(page, ".take button:nth-of-type(1)");
      await page.keyboard.press("Enter");
      await page.waitForFunction(() => location.hash.startsWith("#link="));
      link = await page.evaluate(() => location.hash);
      seen = await now(page);
      check(true, "task: copy a link");
      await sound(page, "after the tasks");
      await shot(page, "tasks-dark");
    }, slow);
    await live.end();

    const other = await serve("serve", "opf30", "--ui", "--listen", "127.0.0.1:0", "--log", "json", "--seed", "5");
    await visit(other.url + link, "light", async (page) => {
      await page.waitForSelector(".branch.open");
      await until(page, (s) => s.seed === 17 && !s.playing && s.k === seen.k);
      const got = await now(page);
      const same = (key) => JSON.stringify(got[key]) === JSON.stringify(seen[key]);
      check(["u", "s", "j", "margins", "sigma", "preference", "t"].every(same), "another server shows by the link what was seen, to the last bit");
      await sound(page, "by the link");
    });
    await visit(other.url + "#link=%%%", "light", async (page) => {
      await page.waitForFunction(() => /cut off or damaged/.test(document.querySelector(".alerts")?.textContent));
      check(true, "a damaged link is said");
    });
    await other.end();
  }

  /** gate holds what the page asks for until it is opened; the bodies that came stand in asked. */
  async function gate(page, what) {
    const asked = [];
    let open;
    const opened = new Promise((done) => (open = done));
    await page.route(`**/view/${what}`, async (route) => {
      asked.push(route.request().postDataJSON());
      await opened;
      await route.continue();
    });
    return { asked, open };
  }

  /** drawn waits until the page has drawn what it has. */
  const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

  /** stale has the page hear the server's next answer as it was then, when it is opened. */
  async function stale(page, what) {
    const moment = () => {
      let come;
      return Object.assign(new Promise((done) => (come = done)), { come: () => come() });
    };
    const [answered, opened, heard] = [moment(), moment(), moment()];
    await page.route(`**/view/${what}`, async (route) => {
      const response = await route.fetch();
      answered.come();
      await opened;
      await route.fulfill({ response });
      heard.come();
    }, { times: 1 });
    return { answered, open: () => (opened.come(), heard) };
  }

  /** ahead has hands that are faster than the page draws and the server answers: no key, no text and no move is lost. */
  async function ahead() {
    const grid = await serve("serve", "opf30", "--ui", "--listen", "127.0.0.1:0", "--log", "json");
    await visit(grid.url, "light", async (page) => {
      const stands = "Number(document.querySelector('.where b').textContent)";
      const seed = page.locator(".settings label:nth-of-type(3) input");
      await seed.focus();
      await page.keyboard.press("Control+A");
      for (const digit of "17") {
        await page.keyboard.press(digit);
        await changed(page, stands, await page.evaluate(stands));
      }
      check((await seed.inputValue()) === "17", "a number stays as it is typed while the plant goes on");
      await page.keyboard.press("Enter");
      check(await until(page, (s) => s.seed === 17), "and is the seed");
      await page.evaluate(() => document.activeElement.blur());

      const pause = await gate(page, "pause");
      await page.waitForSelector(".badge:not(.off)"); // without the server keys do nothing
      await page.keyboard.press("Space");
      await page.keyboard.press("Space");
      pause.open();
      const plays = await until(page, (s) => s.playing && pause.asked.length === 2);
      check(plays && pause.asked[0].paused && !pause.asked[1].paused, `space twice pauses and plays: asked ${JSON.stringify(pause.asked)}, ${await page.locator(".badge").textContent()}`);
      await post(page, "pause", { paused: true });
      await post(page, "step", { by: 1 });
      await post(page, "step", { by: 1 });
      await caughtUp(page);

      const { k, hz } = await state(page);
      const seek = await gate(page, "seek");
      const theme = "document.documentElement.dataset.theme";
      await page.locator(".scrub").focus();
      await page.keyboard.press("ArrowLeft");
      const was = await page.evaluate(theme);
      await page.keyboard.press("t");
      await changed(page, theme, was);
      await drawn(page);
      await page.keyboard.press("ArrowLeft");
      seek.open();
      check(await until(page, (s) => s.k === k - 2), "the slider goes back by two");
      await post(page, "seek", { k });
      await caughtUp(page);

      const rate = await gate(page, "rate");
      const rates = page.locator(".settings label:nth-of-type(1) select");
      const [options, at] = await rates.evaluate((list) => [[...list.options].map((o) => Number(o.value)), list.selectedIndex]);
      await rates.focus();
      await page.keyboard.press("ArrowDown");
      await post(page, "step", { by: 1 });
      await caughtUp(page);
      await page.keyboard.press("ArrowDown");
      rate.open();
      check(options[at] === hz && (await until(page, (s) => s.hz === options[at + 2])), `the rate goes from ${hz} on by two, to ${options[at + 2]}`);

      const load = await gate(page, "change");
      const power = page.locator('.change input[name="power"]');
      const hint = (text) => page.waitForFunction((text) => document.querySelector(".change .hint").textContent.includes(text), text);
      const type = async (text) => {
        await power.focus();
        await page.keyboard.press("Control+A");
        await page.keyboard.type(text);
      };
      await type("4.5");
      await page.keyboard.press("Enter");
      await type("6.5");
      const answer = page.waitForResponse("**/view/change");
      load.open();
      await answer;
      await hint("to 4.5 MW");
      const stood = await page.evaluate(stands);
      await post(page, "step", { by: 1 });
      await changed(page, stands, stood);
      check((await power.inputValue()) === "6.5", "what is typed stays while what was asked before is answered");
      await page.keyboard.press("Enter");
      await hint("to 6.5 MW");

      const line = await gate(page, "change");
      await page.locator(".change form:nth-of-type(2) button").press("Enter");
      await page.locator(".take button:nth-of-type(1)").press("Enter");
      line.open();
      await page.waitForFunction(() => location.hash.startsWith("#link="));
      const { did } = JSON.parse(Buffer.from(await page.evaluate(() => location.hash.slice(6)), "base64url").toString());
      check(did.at(-1).change?.branch?.open === true, "a link has what was asked for before it");

      await page.locator(".handle").press("2");
      check(await until(page, (s) => s.preference.w?.[1] === 1), "a corner is preferred");
      for (let n = 0; n < 5; n++) await page.keyboard.press("Shift+ArrowRight");
      check(await until(page, (s) => s.preference.w && Math.abs(s.preference.w[2] - 0.5) < 1e-9), "five arrows go half the side");

      await page.evaluate(() => document.activeElement.blur());
      const played = await stale(page, "pause");
      await page.keyboard.press("Space");
      await played.answered;
      const badge = (is) => page.waitForFunction((is) => document.querySelector(".badge").textContent === is, is);
      await badge("live");
      await post(page, "pause", { paused: true });
      await badge("paused");
      await played.open();
      await drawn(page);
      await badge("paused");
      check(true, "an answer that comes late does not undo what was said since");
    }, slow);
    await grid.end();

    const robots = await serve("serve", "multiagent-static", "--ui", "--listen", "127.0.0.1:0", "--log", "json");
    await visit(robots.url, "light", async (page) => {
      await post(page, "pause", { paused: true });
      await post(page, "reset", { episode: 0 });
      await post(page, "step", { by: 1 });
      await page.waitForSelector(".goal.movable");
      const { k } = await state(page);
      const place = async (role) => {
        const { k } = await state(page);
        const frame = await page.evaluate((k) => fetch(`view/frame?k=${k}`).then((r) => r.json()), k);
        return frame.shapes.find((d) => d.role === role).path[0];
      };
      const [x] = await place("obstacle");
      const change = await gate(page, "change");
      await page.locator(".obstacle.movable").first().focus();
      for (let n = 0; n < 3; n++) await page.keyboard.press("ArrowRight");
      change.open();
      check((await until(page, (s) => s.k === k + 3)) && Math.abs((await place("obstacle"))[0] - x - 0.3) < 0.002, "three arrows move an obstacle three steps");

      const drop = await gate(page, "change");
      const centre = async (selector) => {
        const el = page.locator(selector).first();
        await el.scrollIntoViewIfNeeded();
        const box = await el.boundingBox();
        return [box.x + box.width / 2, box.y + box.height / 2];
      };
      const [u, v] = await centre(".goal.movable");
      await page.mouse.move(u, v);
      await page.mouse.down();
      await page.mouse.move(u + 4, v + 6);
      await page.mouse.up();
      const [a, b] = await centre(".obstacle.movable");
      await page.mouse.move(a, b);
      await page.mouse.down();
      await page.mouse.move(a + 3, b);
      const answer = page.waitForResponse("**/view/change");
      drop.open();
      await answer;
      await page.mouse.move(a + 6, b);
      await page.mouse.up();
      check(await until(page, (s) => s.k === k + 5), "a hand that has taken the next body keeps it when the last is answered");
    }, slow);
    await robots.end();
  }

  /** moved moves obstacles and goals by hand: dragged, and by arrow keys. */
  async function moved() {
    const live = await serve("serve", "multiagent-static", "--ui", "--listen", "127.0.0.1:0", "--log", "json");
    for (const look of ["light", "phone"]) {
      await visit(live.url, look, async (page) => {
        await post(page, "pause", { paused: true });
        await post(page, "reset", { episode: 0 });
        await post(page, "step", { by: 1 });
        await page.waitForSelector(".goal.movable");
        const place = (el) => el.evaluate((e) => [Number(e.getAttribute("cx")), Number(e.getAttribute("cy"))]);
        const obstacle = page.locator(".obstacle.movable").first();
        const [x] = await place(obstacle);
        await obstacle.focus();
        const answer = page.waitForResponse("**/view/change");
        await page.keyboard.press("ArrowRight");
        await page.waitForFunction((x) => Number(document.querySelector(".obstacle.movable").getAttribute("cx")) > x + 1, x);
        check(true, `${look}: an arrow key moves an obstacle`);
        // What the hand holds is drawn before it is answered: a decision is counted from the answer on.
        await answer;
        await drawn(page);
        const goal = page.locator(".goal.movable").first();
        await goal.scrollIntoViewIfNeeded();
        const { k } = await state(page);
        const box = await goal.boundingBox();
        await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width / 2 + 4, box.y + box.height / 2 + 6, { steps: 4 });
        await page.mouse.up();
        check(await until(page, (s) => s.k === k + 1), `${look}: a goal is dragged`);
        await sound(page, `moved ${look}`);
        await shot(page, `moved-${look}`);
      });
    }
    await live.end();
  }

  /** inView drags the triangle on a phone: the network stays in view. */
  async function inView() {
    const live = await serve("serve", "opf30", "--ui", "--listen", "127.0.0.1:0", "--log", "json");
    await visit(live.url, "phone", async (page) => {
      await page.locator(".triangle").evaluate((el) => el.scrollIntoView());
      const [map, triangle] = [await page.locator(".map").boundingBox(), await page.locator(".triangle .simplex").boundingBox()];
      const { height } = page.viewportSize();
      check(map.y >= -1 && map.y + map.height <= height && triangle.y >= map.y + map.height - 1 && triangle.y + triangle.height <= height, `on a phone the network (${map.y.toFixed(0)} to ${(map.y + map.height).toFixed(0)}) stays in view above the triangle (${triangle.y.toFixed(0)} to ${(triangle.y + triangle.height).toFixed(0)} of ${height})`);
      const preference = 'document.querySelector(".dispatch").dataset.preference';
      const was = await page.evaluate(preference);
      await page.mouse.move(triangle.x + triangle.width / 2, triangle.y + 0.7 * triangle.height);
      await page.mouse.down();
      await page.mouse.move(triangle.x + 0.4 * triangle.width, triangle.y + 0.9 * triangle.height);
      await changed(page, preference, was);
      const after = await page.locator(".map").boundingBox();
      check(Math.abs(after.y - map.y) < 1, "and stands still while it is dragged");
      await page.mouse.up();
      await page.screenshot({ path: join(out, "in-view-phone.png") });
    });
    await live.end();
  }

  /** lines shows a case that has neither picture nor map: its states and actions stand in that room, at a speed that is seen. */
  async function lines() {
    const live = await serve("serve", "hvac", "--ui", "--listen", "127.0.0.1:0", "--log", "json");
    for (const look of ["dark", "phone-light"]) {
      await visit(live.url, look, async (page) => {
        await page.waitForFunction(() => Number(document.querySelector(".where b")?.textContent) > 3);
        const room = await page.locator(".stage .states .plot").count();
        check(room === 5 && (await state(page)).hz <= 2, `hvac ${look}: ${room} time lines stand in the room of a picture, at ${(await state(page)).hz} decisions a second`);
        await post(page, "pause", { paused: true });
        await caughtUp(page);
        await sound(page, `hvac ${look}`);
        await shot(page, `hvac-${look}`);
      });
    }
    await live.end();
  }

  /** switches shows a switched case: its lane is beside the states, and says what is on and what is planned. */
  async function switches() {
    const live = await serve("serve", "fishing", "--ui", "--listen", "127.0.0.1:0", "--log", "json");
    for (const look of ["dark", "phone-light"]) {
      await visit(live.url, look, async (page) => {
        await post(page, "pause", { paused: true });
        const begun = await stale(page, "series");
        await post(page, "reset", { episode: 0 });
        await begun.answered; // before the decisions, and heard after them
        for (let k = 0; k < 8; k++) await post(page, "step", { by: 1 });
        await caughtUp(page);
        await begun.open();
        await drawn(page);
        const lane = await page.waitForFunction(() => {
          const label = document.querySelector(".stage .states .line:last-child .plot")?.getAttribute("aria-label") ?? "";
          return / now o/.test(label) && label; // the line of the decision may come after its number
        }).then((h) => h.jsonValue());
        const planned = [...lane.matchAll(/(on|off) for (\d+)/g)].reduce((sum, m) => sum + Number(m[2]), 0);
        check(/^Switch fishing over decisions, now (on|off) , planned (on|off) for/.test(lane) && planned === 22, `fishing ${look}: ${lane}`);
        await sound(page, `fishing ${look}`);
        await shot(page, `fishing-${look}`);
      });
    }
    await live.end();
  }

  return { tasks, ahead, moved, inView, lines, switches };
}
