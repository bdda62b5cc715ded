// Bundles src into ../page and records the SHA-256 of what that was made of, which a Go test
// compares: a page that is older than its sources fails there, without node.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const made = await build({
  entryPoints: { app: "src/main.tsx" },
  outdir: "../page",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "eof",
  logLevel: "info",
  metafile: true,
});
const bytes = Object.values(made.metafile.outputs).reduce((sum, file) => sum + file.bytes, 0);
if (bytes > 200 * 1024) throw new Error(`the bundle has ${bytes} bytes, at most 200 KiB are allowed`);

const sources = ["package.json", "package-lock.json", "tsconfig.json", "build.mjs", ...readdirSync("src").map((name) => `src/${name}`)].sort();
const sums = ["../page/app.js", "../page/app.css", ...sources].map((name) => `${createHash("sha256").update(readFileSync(name)).digest("hex")}  ${name}`);
writeFileSync("../page/SHA256SUMS", sums.join("\n") + "\n");
