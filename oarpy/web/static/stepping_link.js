// What a link of the page holds, behind its #: scenario, step, zoom, choices, and an edited text, deflated.
export function read() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

export function write(values) {
  const kept = Object.entries(values).filter(([, value]) => value !== null && value !== "" && value !== undefined);
  history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
}

export async function packed(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let letters = "";
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function unpacked(letters) {
  const bytes = Uint8Array.from(atob(letters.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
}
