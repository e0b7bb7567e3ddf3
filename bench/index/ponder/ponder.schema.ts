import { index, onchainTable } from "ponder";

/** The merged row of a tool. */
export const tool = onchainTable(
  "tool",
  (t) => ({
    id: t.bigint().primaryKey(),
    creator: t.hex().notNull(),
    uri: t.text().notNull(),
    hash: t.hex().notNull(),
    predicate: t.hex().notNull(),
    registeredAt: t.bigint().notNull(),
    updatedAt: t.bigint().notNull(),
    isActive: t.boolean().notNull(),
  }),
  (table) => ({ newest: index().on(table.registeredAt, table.id) }),
);

/** Everything that happened to it. */
export const history = onchainTable("history", (t) => ({
  id: t.text().primaryKey(),
  tool: t.bigint().notNull(),
  kind: t.text().notNull(),
  block: t.bigint().notNull(),
  at: t.bigint().notNull(),
  uri: t.text(),
  hash: t.hex(),
  predicate: t.hex(),
}));
