// Writes a screenshot, an RGB PNG of eight bits, with a palette of 96 of its colours.
import { readFileSync, writeFileSync } from "node:fs";
import { crc32, deflateSync, inflateSync } from "node:zlib";

/** pixels undoes the chunks and filters of a PNG (PNG specification, section 9). */
function pixels(file) {
  const png = readFileSync(file);
  const [width, height, depth, kind] = [png.readUInt32BE(16), png.readUInt32BE(20), png[24], png[25]];
  if (depth !== 8 || kind !== 2) throw new Error(`${file} is no RGB PNG of eight bits`);
  const parts = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  const raw = inflateSync(Buffer.concat(parts));
  const row = 3 * width;
  const out = Buffer.alloc(row * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (row + 1)];
    for (let x = 0; x < row; x++) {
      const i = y * row + x;
      const a = x >= 3 ? out[i - 3] : 0;
      const b = y > 0 ? out[i - row] : 0;
      const c = x >= 3 && y > 0 ? out[i - row - 3] : 0;
      const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
      const paeth = pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
      out[i] = raw[y * (row + 1) + 1 + x] + [0, a, b, (a + b) >> 1, paeth][filter];
    }
  }
  return { width, height, rgb: out };
}

const colours = 96;

export function withPalette(from, to) {
  const { width, height, rgb } = pixels(from);
  const counts = new Map();
  for (let i = 0; i < rgb.length; i += 3) {
    const c = rgb.readUIntBE(i, 3);
    counts.set(c, (counts.get(c) ?? 0) + 1);
  }
  const split = (c) => [c >> 16, (c >> 8) & 255, c & 255];
  // One after another the colour that is farthest from those before, and common: a thin line keeps its hue.
  const palette = [];
  const nearest = new Map([...counts.keys()].map((c) => [c, 0]));
  const far = new Map([...counts.keys()].map((c) => [c, 1e6]));
  while (palette.length < Math.min(colours, counts.size)) {
    let [most, next] = [-1, 0];
    for (const [c, d] of far) {
      const error = d * d * Math.sqrt(counts.get(c));
      if (error > most) [most, next] = [error, c];
    }
    const [x, y, z] = split(next);
    for (const [c, d] of far) {
      const [r, g, b] = split(c);
      const now = (x - r) ** 2 + (y - g) ** 2 + (z - b) ** 2;
      if (now < d) {
        far.set(c, now);
        nearest.set(c, palette.length);
      }
    }
    palette.push(next);
  }
  const rows = Buffer.alloc((width + 1) * height); // a filter of 0, then the row
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = nearest.get(rgb.readUIntBE(3 * (y * width + x), 3));
  }
  const chunk = (name, data) => {
    const body = Buffer.concat([Buffer.from(name), data]);
    const ends = Buffer.alloc(8);
    ends.writeUInt32BE(data.length, 0);
    ends.writeUInt32BE(crc32(body), 4);
    return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
  };
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 3, 0, 0, 0]);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  writeFileSync(to, Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", header), chunk("PLTE", Buffer.from(palette.flatMap(split))), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))]));
}
