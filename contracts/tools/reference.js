// Keeps the table of test/README.md true to test/reference.tsv, and that to the tests.
//
//   forge test --list --json | node tools/reference.js            fail unless every test named exists and the table is fresh
//   forge test --list --json | node tools/reference.js --update   write the table
//
// Whether a test shows the behaviour that it is named for is for readers to judge; that it exists, and runs, is checked.
"use strict";
const fs = require("fs");
const path = require("path");

const folder = path.join(__dirname, "..", "test");
const page = path.join(folder, "README.md");
const [BEGIN, END] = ["<!-- table: tools/reference.js writes it -->", "<!-- end of table -->"];

const files = new Map();
for (const [file, contracts] of Object.entries(JSON.parse(fs.readFileSync(0, "utf8")))) {
  for (const [contract, tests] of Object.entries(contracts)) {
    for (const test of tests) files.set(`${contract}.${test}`, file);
  }
}

const problems = [];
const groups = new Map();
const seen = new Set();
for (const line of fs.readFileSync(path.join(folder, "reference.tsv"), "utf8").replace(/\n$/, "").split("\n").slice(1)) {
  const cells = line.split("\t");
  if (cells.length !== 4) problems.push(`four columns: ${line}`);
  const [group, behaviour, tests] = cells;
  if (seen.has(`${group} ${behaviour}`)) problems.push(`${group}, ${behaviour}: twice`);
  seen.add(`${group} ${behaviour}`);
  const row = groups.get(group) ?? { behaviours: 0, tests: new Set() };
  groups.set(group, row);
  row.behaviours += 1;
  for (const test of (tests ?? "").split(" ")) {
    if (!files.has(test)) problems.push(`${group}, ${behaviour}: there is no test ${test}`);
    row.tests.add(test);
  }
}
if (problems.length) fail(problems.join("\n"));

const lines = ["| group | behaviours | tests | in |", "| --- | ---: | ---: | --- |"];
for (const [group, { behaviours, tests }] of groups) {
  const where = new Map();
  for (const test of tests) where.set(test.split(".")[0], files.get(test).replace("test/", ""));
  const names = [...where].map(([contract, file]) => `\`${contract}\` (\`${file}\`)`);
  lines.push(`| ${group} | ${behaviours} | ${tests.size} | ${names.join(", ")} |`);
}
const all = new Set([...groups.values()].flatMap((row) => [...row.tests]));
lines.push(`| all | ${seen.size} | ${all.size} | |`);

const text = fs.readFileSync(page, "utf8");
const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)];
if (begin < 0 || end < begin) fail("test/README.md: the marks of the table are gone");
const fresh = `${text.slice(0, begin)}${BEGIN}\n${lines.join("\n")}\n${text.slice(end)}`;
if (process.argv[2] === "--update") fs.writeFileSync(page, fresh);
else if (fresh !== text) fail("test/README.md: the table is stale; run contracts/check --update");
console.log(`${seen.size} behaviours of the reference, shown by ${all.size} tests that exist`);

function fail(message) {
  console.error(message);
  process.exit(1);
}
