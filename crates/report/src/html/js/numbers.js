// Numbers for people. The same as numbers.rs on the other side: three significant digits, an SI suffix, a true minus;
// here a number and its unit also stay on one line.

const NB = "\u00a0";
const threeDigits = (x) => x < 9.995 ? x.toFixed(2) : x < 99.95 ? x.toFixed(1) : x.toFixed(0);

function scaled(n, step, suffixes) {
  let value = n;
  let suffix = "";
  for (const next of suffixes) {
    if (value < Math.min(step, 999.5)) break;
    value /= step;
    suffix = NB + next;
  }
  return threeDigits(value) + suffix;
}

const exact = (n) => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");
const count = (n) => n < 1000 ? String(n) : scaled(n, 1000, ["k", "M", "G", "T", "P", "E"]);

function bytes(n) {
  if (n < 1024) return `${n}${NB}B`;
  return scaled(n, 1024, ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]).replace(/\.0+(?=\u00a0)/, "");
}

function mebibytes(mib) {
  if (mib === 0) return `0${NB}MiB`;
  if (mib < 0.05) return `<0.1${NB}MiB`;
  return mib < 99.95 ? `${mib.toFixed(1)}${NB}MiB` : `${exact(mib)}${NB}MiB`;
}

function percent(fraction) {
  const percent = fraction * 100;
  if (percent === 0) return `0${NB}%`;
  return percent < 0.005 ? `<0.01${NB}%` : `${threeDigits(percent)}${NB}%`;
}

const signed = (fraction) => fraction === 0 ? `0${NB}%` : (fraction < 0 ? "−" : "+") + percent(Math.abs(fraction));

function change(before, after) {
  if (before === after) return `0${NB}%`;
  return before === 0 ? `+${count(after)}` : signed((after - before) / before);
}

function ratio(x) {
  if (x === 0) return "0";
  if (x < 0.0005) return "<0.001";
  return x < 0.0995 ? x.toFixed(3) : threeDigits(x);
}

// Cycles per instruction.
function cycles(x) {
  if (x === 0) return "0";
  return x < 0.00005 ? "<0.0001" : x.toFixed(4);
}

// Addresses begin pages or pieces of address space, so even the highest 64-bit ones are exact as a double.
const address = (n) => `0x${n.toString(16)}`;

// A round step that divides a range into about `wanted` parts.
function niceStep(range, wanted) {
  const raw = range / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= raw);
}
