import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";

// The digest of everything that the bundle is made of lies beside it, so that a test can tell a
// stale one where there is no node. In the order of their names: name, NUL, content, NUL.
function digest() {
  const files = readdirSync("src").map((name) => `src/${name}`);
  const all = [...files, "public/icon.svg", "index.html", "package-lock.json", "vite.config.js"];
  const hash = createHash("sha256");
  for (const name of all.sort())
    hash.update(name).update("\0").update(readFileSync(name)).update("\0");
  return hash.digest("hex");
}

const source = {
  name: "source-digest",
  writeBundle: ({ dir }) => writeFileSync(`${dir}/source.sha256`, `${digest()}\n`),
};

// One script and one sheet under fixed names: the gateway serves them from memory, by name.
export default {
  base: "/console/files/",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  publicDir: "public",
  plugins: [source],
  build: {
    outDir: "../static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: false,
    rollupOptions: {
      output: {
        entryFileNames: "console.js",
        assetFileNames: "console[extname]",
        inlineDynamicImports: true,
      },
    },
  },
};
