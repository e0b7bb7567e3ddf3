// Handlers in the second style: members of `handlers`, called with the arguments and the values of credentials and settings.
const { mkdir, readFile, readdir, writeFile } = require('node:fs/promises');
const path = require('node:path');

// The sandbox keeps the process inside the folder; this makes the refusal readable.
function inside(folder, name) {
  const file = path.resolve(folder, name);
  if (!file.startsWith(folder + path.sep)) throw new Error(`${name} is outside the folder`);
  return file;
}

exports.handlers = {
  async list(_, { dataDir }) {
    const entries = await readdir(dataDir, { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map((entry) => path.relative(dataDir, path.join(entry.parentPath, entry.name)));
  },
  async read({ path: name }, { dataDir }) {
    return readFile(inside(dataDir, name), 'utf8');
  },
  async write({ path: name, text }, { dataDir }) {
    const file = inside(dataDir, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, text);
    return `wrote ${Buffer.byteLength(text)} bytes to ${name}`;
  },
};
