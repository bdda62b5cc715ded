import { chromium } from "playwright-core";
import { spawn } from "node:child_process";
const root="/tmp/wt/page";
const out="/tmp/page/shots"; import { mkdirSync } from "node:fs"; mkdirSync(out,{recursive:true});
const b = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--headless","--no-sandbox","--disable-gpu","--disable-quic","--no-first-run","--disable-background-networking","--disable-component-update","--disable-sync"] });
function serve(prog, ...args){ const s=spawn(`${root}/bin/${prog}`,["serve",...args,"--ui","--listen","127.0.0.1:0","--json","--log","json","--seed","991"],{stdio:["ignore","pipe","pipe"]}); let log=""; return new Promise(r=>{const f=t=>{log+=t; const m=log.match(/"url":"([^"]+)"/); if(m) r({url:m[1],end:()=>s.kill()})}; s.stdout.on("data",f); s.stderr.on("data",f);});}
const looks={dark:{colorScheme:"dark",viewport:{width:1400,height:1000}},light:{colorScheme:"light",viewport:{width:1400,height:1000}},phone:{colorScheme:"dark",viewport:{width:390,height:844},isMobile:true,hasTouch:true},phonelight:{colorScheme:"light",viewport:{width:390,height:844},isMobile:true,hasTouch:true}};
const want=process.argv.slice(2);
for (const [name,prog,scene] of [["grid","gpc","opf30"],["robots","gpc","multiagent-moving"],["integrator","gpc","integrator-nonconvex"],["hvac","gpc-gallery","hvac"],["cartpole","gpc-gallery","cartpole"]]) {
  if (want.length && !want.includes(name)) continue;
  const s = await serve(prog, scene);
  for (const look of Object.keys(looks)) {
    const ctx = await b.newContext(looks[look]); const p = await ctx.newPage();
    p.on("console",m=>console.log(name,look,m.text())); p.on("pageerror",e=>console.log(name,look,e.message));
    await p.goto(s.url); await p.waitForSelector(".stage");
    const post=(w,body)=>p.evaluate(([w,body])=>fetch(`view/${w}`,{method:"POST",headers:{"Content-Type":"application/json"},body:JSON.stringify(body)}).then(async r=>[r.status,(await r.text()).slice(0,200)]),[w,body]);
    await post("pause",{paused:true});
    for(let k=0;k<12;k++) await post("step",{by:1});
    if(name==="grid"){ await post("reset",{episode:0}); for(let k=0;k<12;k++) await post("step",{by:1}); console.log(await post("change",{change:{load:{bus:6,p_mw:26}}})); console.log(await post("change",{change:{branch:{at:5,open:true}}}));  for(let k=0;k<3;k++) await post("step",{by:1}); }
    await p.waitForTimeout(4500);
    if(name==="grid"&&look==="dark"){ await p.locator(".term .word").first().hover(); await p.waitForTimeout(500);}
    await p.screenshot({path:`${out}/${name}-${look}.png`,fullPage:true});
    await ctx.close();
  }
  s.end();
}
await b.close();
