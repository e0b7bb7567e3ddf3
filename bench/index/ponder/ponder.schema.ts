import { index, onchainTable } from "ponder";

// The same merged row and the same history that our index keeps.
export const tool = onchainTable(
  "tool",
  (t) => ({
    id: t.bigint().primaryKey(),
    creator: t.hex().notNull(),
    uri: t.text().notNull(),
    hash: t.hex().notNull(),
    predicate: t.hex(),
    registeredBlock: t.bigint().notNull(),
    registeredAt: t.bigint().notNull(),
    updatedBlock: t.bigint().notNull(),
    updatedAt: t.bigint().notNull(),
    deregisteredBlock: t.bigint(),
    events: t.integer().notNull(),
  }),
  (table) => ({ creatorIdx: index().on(table.creator), registeredIdx: index().on(table.registeredAt) }),
);

export const history = onchainTable(
  "history",
  (t) => ({
    id: t.text().primaryKey(),
    tool: t.bigint().notNull(),
    kind: t.text().notNull(),
    block: t.bigint().notNull(),
    time: t.bigint().notNull(),
    tx: t.hex().notNull(),
    uri: t.text(),
    hash: t.hex(),
    predicate: t.hex(),
  }),
  (table) => ({ toolIdx: index().on(table.tool) }),
);
