// A second implementation of cursorkit/1, made from docs/format.md alone, to check the vectors:
//     node tests/vectors/verify.mjs [FILE...]
// It needs Node 20 and nothing else. It is a verifier: neither fast nor hardened.

import { createCipheriv, createHash, createHmac, hkdfSync, timingSafeEqual } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import path from "node:path";

const MAX = 2n ** 53n - 1n;
const LABEL = Buffer.from("cursorkit/1");

class Refusal extends Error {
  constructor(reason) {
    super(reason);
    this.reason = reason;
  }
}

function demand(condition, reason) {
  if (!condition) throw new Refusal(reason);
}

const hex = (text) => Buffer.from(text, "hex");

// Text: base64url without padding, one spelling.

function fromText(text) {
  demand(/^[A-Za-z0-9_-]*$/.test(text), "alphabet");
  const raw = Buffer.from(text, "base64url");
  demand(raw.toString("base64url") === text, "encoding");
  return raw;
}

// Keys.

function derive(secret, info, length) {
  return Buffer.from(hkdfSync("sha256", secret, LABEL, Buffer.from(info), length));
}

function keyOf(text) {
  let secret;
  try {
    secret = fromText(text);
  } catch {
    throw new Refusal("secret");
  }
  demand(secret.length >= 32, "secret");
  return {
    bytes: secret,
    kid: derive(secret, "kid", 4),
    hmac: derive(secret, "hmac-sha256-128", 32),
    siv: derive(secret, "aes-256-siv", 64),
  };
}

// Pre-authentication encoding.

function le64(number) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(number));
  return bytes;
}

function pae(pieces) {
  return Buffer.concat([le64(pieces.length), ...pieces.flatMap((p) => [le64(p.length), p])]);
}

// Writing MessagePack. A value is {kind: content}, as in the vectors.

function utf8(text) {
  demand(text.isWellFormed(), "binding");
  return Buffer.from(text, "utf8");
}

function number(size, value) {
  const bytes = Buffer.alloc(size);
  for (let at = size - 1; at >= 0; at--, value >>= 8n) bytes[at] = Number(value & 0xffn);
  return bytes;
}

function packInt(n) {
  demand(n >= -(2n ** 63n) && n < 2n ** 64n, "binding");
  if (n >= -32n && n < 128n) return number(1, n);
  const first = n >= 0n ? 0xcc : 0xd0;
  for (const [power, size] of [1, 2, 4, 8].entries()) {
    const half = 2n ** BigInt(8 * size - 1);
    if (n >= 0n ? n < 2n * half : n >= -half) {
      return Buffer.concat([Buffer.from([first + power]), number(size, n)]);
    }
  }
}

function sized(length, markers) {
  for (const [marker, size] of markers) {
    if (length < 2 ** (8 * size)) {
      return Buffer.concat([Buffer.from([marker]), number(size, BigInt(length))]);
    }
  }
}

function packText(text) {
  const raw = utf8(text);
  const head =
    raw.length < 32
      ? Buffer.from([0xa0 | raw.length])
      : sized(raw.length, [[0xd9, 1], [0xda, 2], [0xdb, 4]]);
  return Buffer.concat([head, raw]);
}

function packBytes(raw) {
  return Buffer.concat([sized(raw.length, [[0xc4, 1], [0xc5, 2], [0xc6, 4]]), raw]);
}

function packCount(count, fixed, marker) {
  return count < 16 ? Buffer.from([fixed | count]) : sized(count, [[marker, 2], [marker + 1, 4]]);
}

function packArray(packed) {
  return Buffer.concat([packCount(packed.length, 0x90, 0xdc), ...packed]);
}

function packExtension(code, data) {
  const fixed = [1, 2, 4, 8, 16].indexOf(data.length);
  const head =
    fixed >= 0
      ? Buffer.from([0xd4 + fixed])
      : sized(data.length, [[0xc7, 1], [0xc8, 2], [0xc9, 4]]);
  return Buffer.concat([head, Buffer.from([code]), data]);
}

function packFloat(digits) {
  const raw = hex(digits);
  demand(Number.isFinite(raw.readDoubleBE()), "binding");
  return Buffer.concat([Buffer.from([0xcb]), raw]);
}

function byUtf8([left], [right]) {
  return Buffer.compare(left, right);
}

function packParam(value, left, depth = 64) {
  demand(left.values-- > 0, "binding");
  const [[kind, content]] = Object.entries(value);
  switch (kind) {
    case "nil":
      return Buffer.from([0xc0]);
    case "bool":
      return Buffer.from([content ? 0xc3 : 0xc2]);
    case "int":
      return packInt(BigInt(content));
    case "float":
      return packFloat(content);
    case "text":
      return packText(content);
    case "bytes":
      return packBytes(hex(content));
  }
  demand(depth > 0, "binding");
  if (kind === "list") return packArray(content.map((member) => packParam(member, left, depth - 1)));
  const members = content.map(([name, member]) => [utf8(name), name, member]).sort(byUtf8);
  return Buffer.concat([
    packCount(members.length, 0x80, 0xde),
    ...members.flatMap(([, name, member]) => [packText(name), packParam(member, left, depth - 1)]),
  ]);
}

// Bindings.

const FIELDS = [
  "purpose",
  "audience",
  "partition",
  "principal",
  "protocol_version",
  "locale",
  "auth_epoch",
];
const ABSENT = Buffer.from([0]);
const PRESENT = Buffer.from([1]);

function pieces(binding) {
  const found = {};
  for (const name of FIELDS) {
    const field = binding[name];
    const raw = field && ("text" in field ? utf8(field.text) : hex(field.bytes));
    found[name] = field ? Buffer.concat([PRESENT, raw]) : ABSENT;
  }
  demand(found.purpose !== ABSENT, "binding");
  const left = { values: 1000 };
  const params = (binding.params ?? []).map(([n, value]) => [utf8(n), packParam(value, left)]);
  found.params = params.length
    ? Buffer.concat([PRESENT, pae(params.sort(byUtf8).flat())])
    : ABSENT;
  return found;
}

function associatedData(binding) {
  const found = pieces(binding);
  return pae([...FIELDS, "params"].map((name) => found[name]));
}

// AES-SIV (RFC 5297), of AES-CMAC (RFC 4493) and AES-CTR.

function aes(key, block) {
  const cipher = createCipheriv("aes-256-ecb", key, null).setAutoPadding(false);
  return Buffer.concat([cipher.update(block), cipher.final()]);
}

function xor(left, right) {
  return Buffer.from(left.map((byte, at) => byte ^ right[at]));
}

function doubled(block) {
  const shifted = Buffer.alloc(16);
  for (let at = 0; at < 16; at++) shifted[at] = (block[at] << 1) | (block[at + 1] >> 7);
  if (block[0] & 0x80) shifted[15] ^= 0x87;
  return shifted;
}

function cmac(key, data) {
  const first = doubled(aes(key, Buffer.alloc(16)));
  const blocks = Math.max(1, Math.ceil(data.length / 16));
  const tail = data.subarray(16 * (blocks - 1));
  const last = Buffer.alloc(16);
  tail.copy(last);
  if (tail.length < 16) last[tail.length] = 0x80;
  let state = Buffer.alloc(16);
  for (let at = 0; at < blocks - 1; at++) {
    state = aes(key, xor(state, data.subarray(16 * at, 16 * at + 16)));
  }
  return aes(key, xor(state, xor(last, tail.length < 16 ? doubled(first) : first)));
}

function s2v(key, associated, plain) {
  const chain = xor(doubled(cmac(key, Buffer.alloc(16))), cmac(key, associated));
  if (plain.length >= 16) {
    const cut = plain.length - 16;
    return cmac(key, Buffer.concat([plain.subarray(0, cut), xor(plain.subarray(cut), chain)]));
  }
  const padded = Buffer.alloc(16);
  plain.copy(padded);
  padded[plain.length] = 0x80;
  return cmac(key, xor(doubled(chain), padded));
}

function counterMode(key, tag, data) {
  const counter = Buffer.from(tag);
  counter[8] &= 0x7f;
  counter[12] &= 0x7f;
  return createCipheriv("aes-256-ctr", key, counter).update(data);
}

function seal(key, associated, body) {
  const tag = s2v(key.subarray(0, 32), associated, body);
  return Buffer.concat([tag, counterMode(key.subarray(32), tag, body)]);
}

function unseal(key, associated, sealed) {
  const tag = sealed.subarray(0, 16);
  const body = counterMode(key.subarray(32), tag, sealed.subarray(16));
  demand(timingSafeEqual(tag, s2v(key.subarray(0, 32), associated, body)), "tag");
  return body;
}

// Reading MessagePack: strict, so that nothing need be encoded again to be compared.

class Reader {
  constructor(raw) {
    this.raw = raw;
    this.at = 0;
  }

  take(count) {
    demand(this.at + count <= this.raw.length, "body");
    this.at += count;
    return this.raw.subarray(this.at - count, this.at);
  }

  // A number that would not fit in the next smaller form: `least` is the first that does not.
  unsigned(size, least) {
    const value = BigInt("0x" + this.take(size).toString("hex"));
    demand(value >= least, "body");
    return value;
  }

  count(marker, first, least, sizes) {
    const power = marker - first;
    return Number(this.unsigned(sizes[power], power ? 2n ** BigInt(8 * sizes[power - 1]) : least));
  }

  array() {
    const marker = this.take(1)[0];
    if (marker >> 4 === 0x9) return marker & 0xf;
    demand(marker === 0xdc || marker === 0xdd, "body");
    return this.count(marker, 0xdc, 16n, [2, 4]);
  }

  int() {
    const value = this.value();
    demand("int" in value, "body");
    return BigInt(value.int);
  }

  bytes() {
    const value = this.value();
    demand("bytes" in value, "body");
    return value.bytes;
  }

  nilOrInt() {
    const value = this.value();
    demand("nil" in value || "int" in value, "body");
    return "nil" in value ? null : BigInt(value.int);
  }

  value() {
    const marker = this.take(1)[0];
    if (marker < 0x80) return { int: String(marker) };
    if (marker >= 0xe0) return { int: String(marker - 256) };
    if (marker >> 5 === 0b101) return this.text(marker & 31);
    switch (marker) {
      case 0xc0:
        return { nil: true };
      case 0xc2:
      case 0xc3:
        return { bool: marker === 0xc3 };
      case 0xc4:
      case 0xc5:
      case 0xc6:
        return { bytes: this.take(this.count(marker, 0xc4, 0n, [1, 2, 4])).toString("hex") };
      case 0xc7:
      case 0xc8:
      case 0xc9: {
        const length = this.count(marker, 0xc7, 0n, [1, 2, 4]);
        demand(![1, 2, 4, 8, 16].includes(length), "body");
        return this.extension(length);
      }
      case 0xcb: {
        const raw = this.take(8);
        demand(Number.isFinite(raw.readDoubleBE()), "body");
        return { float: raw.toString("hex") };
      }
      case 0xcc:
        return { int: String(this.unsigned(1, 128n)) };
      case 0xcd:
      case 0xce:
      case 0xcf: {
        const size = 2 ** (marker - 0xcc);
        return { int: String(this.unsigned(size, 2n ** BigInt(4 * size))) };
      }
      case 0xd0:
      case 0xd1:
      case 0xd2:
      case 0xd3: {
        const size = 2 ** (marker - 0xd0);
        const value = BigInt.asIntN(8 * size, this.unsigned(size, 0n));
        demand(value < (size === 1 ? -32n : -(2n ** BigInt(4 * size - 1))), "body");
        return { int: String(value) };
      }
      case 0xd4:
      case 0xd5:
      case 0xd6:
      case 0xd7:
      case 0xd8:
        return this.extension(2 ** (marker - 0xd4));
      case 0xd9:
      case 0xda:
      case 0xdb:
        return this.text(this.count(marker, 0xd9, 32n, [1, 2, 4]));
    }
    throw new Refusal("body"); // an array, a map, a float of 32 bits, the byte that is never used
  }

  text(length) {
    try {
      // ignoreBOM keeps a mark at the start, which is text like any other.
      return { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.take(length)) };
    } catch {
      throw new Refusal("body");
    }
  }

  extension(length) {
    const code = this.take(1)[0];
    const data = this.take(length);
    const read = EXTENSIONS[code];
    demand(read, "body");
    return read(data);
  }
}

// Extensions.

function bigInt(data) {
  demand(data.length > 0, "body");
  const value = BigInt.asIntN(8 * data.length, BigInt("0x" + data.toString("hex")));
  demand(value < -(2n ** 63n) || value >= 2n ** 64n, "body");
  demand(value < 2n ** 1024n && value > -(2n ** 1024n), "body");
  const redundant = data[0] === (data[1] & 0x80 ? 0xff : 0x00);
  demand(!redundant, "body");
  return { int: String(value) };
}

function decimal(data) {
  const text = data.toString("latin1");
  const found = /^-?(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:E([+-](?:0|[1-9][0-9]*)))?$/.exec(text);
  demand(found, "body");
  const [, whole, fraction = "", power] = found;
  const digits = (whole + fraction).replace(/^0+(?=.)/, "");
  const exponent = Number(power ?? 0) - fraction.length;
  demand(digits.length <= 100 && Math.abs(exponent) <= 6144, "body");
  // One spelling: without a power exactly if the exponent is not positive and the value not tiny.
  const adjusted = exponent + digits.length - 1;
  if (exponent <= 0 && adjusted >= -6) {
    demand(power === undefined, "body");
  } else {
    // In front of the point is the first digit, no more.
    demand(power !== undefined && Number(power) === adjusted && whole.length === 1, "body");
    demand(digits.length === 1 + fraction.length, "body");
  }
  return { decimal: text };
}

function isDate(text) {
  const found = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text);
  if (!found) return false;
  const [year, month, day] = found.slice(1).map(Number);
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
  return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1];
}

const TIME = /^(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d$/;

function isMoment(text) {
  const [time, micros] = [text.slice(11, 19), text.slice(19)];
  return isDate(text.slice(0, 10)) && text[10] === "T" && TIME.test(time) && /^\.\d{6}$/.test(micros);
}

const EXTENSIONS = {
  1: bigInt,
  2: decimal,
  3(data) {
    const text = data.toString("latin1");
    demand(text.length === 10 && isDate(text), "body");
    return { date: text };
  },
  4(data) {
    const text = data.toString("latin1");
    demand(text.length === 26 && isMoment(text), "body");
    return { naive: text };
  },
  5(data) {
    const text = data.toString("latin1");
    const offset = text.slice(26);
    demand(text.length === 35 && isMoment(text.slice(0, 26)), "body");
    demand(/^[+-]/.test(offset) && TIME.test(offset.slice(1)), "body");
    demand(offset !== "-00:00:00", "body");
    return { aware: text };
  },
  6(data) {
    demand(data.length === 16, "body");
    return { uuid: data.toString("hex") };
  },
};

// Positions.

function readBody(raw) {
  const reader = new Reader(raw);
  const members = reader.array();
  const kind = reader.int();
  const expiresAt = reader.nilOrInt();
  demand(expiresAt === null || (expiresAt >= 1n && expiresAt <= MAX), "body");
  const place = () => {
    const offset = reader.int();
    demand(offset >= 0n && offset <= MAX, "body");
    return Number(offset);
  };
  let position;
  if (kind === 1n && members === 3) {
    position = { kind: 1, offset: place() };
  } else if (kind === 2n && members === 3) {
    const count = reader.array();
    demand(count > 0, "body");
    const values = [];
    for (let at = 0; at < count; at++) values.push(reader.value());
    position = { kind: 2, values };
  } else if (kind === 3n && members === 5) {
    const root = reader.bytes();
    demand(root.length === 64, "body");
    const offset = place();
    const pageSize = reader.int();
    demand(pageSize >= 1n && pageSize <= 10_000n, "body");
    position = { kind: 3, root, offset, page_size: Number(pageSize) };
  } else if (kind === 4n && members === 3) {
    position = { kind: 4, data: reader.bytes() };
  } else {
    throw new Refusal("body");
  }
  demand(reader.at === raw.length, "body");
  return { position, expires_at: expiresAt === null ? null : Number(expiresAt) };
}

function packValue(value) {
  const [[kind, content]] = Object.entries(value);
  switch (kind) {
    case "int": {
      const n = BigInt(content);
      if (n >= -(2n ** 63n) && n < 2n ** 64n) return packInt(n);
      let size = 9;
      while (BigInt.asIntN(8 * size, n) !== n) size++;
      return packExtension(1, number(size, n));
    }
    case "decimal":
      return packExtension(2, Buffer.from(content));
    case "date":
      return packExtension(3, Buffer.from(content));
    case "naive":
      return packExtension(4, Buffer.from(content));
    case "aware":
      return packExtension(5, Buffer.from(content));
    case "uuid":
      return packExtension(6, hex(content));
    default:
      return packParam(value, { values: 1 });
  }
}

function writeBody(position, expiresAt) {
  const members = {
    1: () => [packInt(BigInt(position.offset))],
    2: () => [packArray(position.values.map(packValue))],
    3: () => [
      packBytes(hex(position.root)),
      packInt(BigInt(position.offset)),
      packInt(BigInt(position.page_size)),
    ],
    4: () => [packBytes(hex(position.data))],
  }[position.kind]();
  const expiry = expiresAt === null ? Buffer.from([0xc0]) : packInt(BigInt(expiresAt));
  return packArray([packInt(BigInt(position.kind)), expiry, ...members]);
}

// Cursors.

function unsignedHeader(binding) {
  const { purpose, protocol_version, params } = pieces(binding);
  const digest = createHash("sha256").update(pae([purpose, protocol_version, params])).digest();
  return Buffer.concat([Buffer.from([0x01]), digest.subarray(0, 4)]);
}

function protect(suite, key, binding, body) {
  if (suite === 0x01) return Buffer.concat([unsignedHeader(binding), body]);
  const header = Buffer.concat([Buffer.from([suite]), key.kid]);
  const data = associatedData(binding);
  if (suite === 0x12) {
    return Buffer.concat([header, seal(key.siv, pae([LABEL, header, data]), body)]);
  }
  const mac = createHmac("sha256", key.hmac).update(pae([LABEL, header, data, body])).digest();
  return Buffer.concat([header, body, mac.subarray(0, 16)]);
}

function openKeyed(suite, ring, binding, raw) {
  demand(raw.length > 5 + 16, "encoding");
  const key = ring.find((each) => each.kid.equals(raw.subarray(1, 5)));
  demand(key, "key");
  const protectedBody = raw.subarray(5);
  if (suite === 0x12) {
    return unseal(key.siv, pae([LABEL, raw.subarray(0, 5), associatedData(binding)]), protectedBody);
  }
  const body = protectedBody.subarray(0, -16);
  demand(timingSafeEqual(raw, protect(suite, key, binding, body)), "tag");
  return body;
}

function decode(vector, ring, maxLength) {
  const { cursor, suite, binding, now, policy } = vector;
  demand(typeof cursor === "string", "type");
  demand(cursor.length <= maxLength, "length");
  const raw = fromText(cursor);
  demand(raw.length > 0, "encoding");
  demand(raw[0] === suite, "suite");
  let body;
  if (suite === 0x01) {
    demand(raw.length > 5, "encoding");
    demand(raw.subarray(0, 5).equals(unsignedHeader(binding)), "tag");
    body = raw.subarray(5);
  } else {
    body = openKeyed(suite, ring, binding, raw);
  }
  const decoded = readBody(body);
  const { position, expires_at } = decoded;
  if (suite === 0x01) demand(position.kind === 1 && expires_at === null, "body");
  demand(expires_at === null || now < expires_at, "expired");
  if (policy) {
    const latest = now + policy.ttl + policy.quantum + 60;
    demand(expires_at !== null && expires_at <= latest, "expiry");
  }
  return decoded;
}

// Checks.

const canonical = (value) =>
  JSON.stringify(value, (_, member) =>
    member && typeof member === "object" && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort())
      : member,
  );

function expectEqual(found, expected, what) {
  if (canonical(found) !== canonical(expected)) {
    throw new Error(`${what} is ${canonical(found)}, not ${canonical(expected)}`);
  }
}

function checkCursor(vector, file) {
  const keys = Object.fromEntries(Object.entries(file.keys).map(([n, text]) => [n, keyOf(text)]));
  const decoded = decode(vector, Object.values(keys), file.max_length);
  expectEqual(decoded.position, vector.position, "position");
  expectEqual(decoded.expires_at, vector.expires_at, "expires_at");
  let expiresAt = vector.expires_at;
  if (vector.stamped) {
    const { ttl, quantum } = vector.policy;
    expiresAt = Math.ceil((vector.now + ttl) / quantum) * quantum;
  }
  const body = writeBody(vector.position, expiresAt);
  expectEqual(body.toString("hex"), vector.body, "body");
  const raw = protect(vector.suite, keys[vector.minted_by], vector.binding, body);
  expectEqual(raw.toString("base64url"), vector.cursor, "cursor");
}

function checkSecret(vector) {
  const key = keyOf(vector.secret);
  expectEqual(key.bytes.toString("hex"), vector.bytes, "bytes");
  expectEqual(key.kid.toString("hex"), vector.kid, "kid");
  expectEqual(key.hmac.toString("hex"), vector.hmac_key, "hmac_key");
  expectEqual(key.siv.toString("hex"), vector.siv_key, "siv_key");
}

function check(vector, file) {
  if ("cursor" in vector) return checkCursor(vector, file);
  if ("secret" in vector) return checkSecret(vector);
  const found = associatedData(vector.binding).toString("hex");
  return expectEqual(found, vector.associated_data, "associated_data");
}

function outcome(vector, file) {
  try {
    check(vector, file);
  } catch (error) {
    if (!(error instanceof Refusal)) return `${error}`;
    return vector.valid || error.reason !== vector.reason ? `refused: ${error.reason}` : null;
  }
  return vector.valid ? null : "accepted";
}

function jsonFiles(folder) {
  const names = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".json"));
  return names.sort().map((name) => path.join(folder, name));
}

const here = path.dirname(fileURLToPath(import.meta.url));
const given = process.argv.slice(2);
const counts = {};
let failed = 0;
for (const name of given.length ? given : jsonFiles(here)) {
  const file = JSON.parse(readFileSync(name, "utf8"));
  if (file.format !== "cursorkit/1") throw new Error(`${name} is not of cursorkit/1`);
  for (const vector of file.vectors) {
    const problem = outcome(vector, file);
    if (problem !== null) {
      failed++;
      console.error(`${path.basename(name)}: ${JSON.stringify(vector.about)}: ${problem}`);
    }
  }
  counts[path.relative(here, path.resolve(name))] = file.vectors.length;
}
console.log(JSON.stringify({ checked: counts, failed }));
process.exitCode = failed ? 1 : 0;
