import { ponder } from "ponder:registry";
import { history, tool } from "ponder:schema";

const ZERO = "0x0000000000000000000000000000000000000000";
const open = (predicate: `0x${string}`) => (predicate === ZERO ? null : predicate);
const place = (event: any) => ({
  id: event.id,
  tool: event.args.toolId,
  block: event.block.number,
  time: event.block.timestamp,
  tx: event.transaction.hash,
});
const updated = (event: any) => ({ updatedBlock: event.block.number, updatedAt: event.block.timestamp });

ponder.on("Registry:ToolRegistered", async ({ event, context }) => {
  const { toolId, creator, accessPredicate, metadataURI, manifestHash } = event.args;
  await context.db.insert(tool).values({
    id: toolId,
    creator,
    uri: metadataURI,
    hash: manifestHash,
    predicate: open(accessPredicate),
    registeredBlock: event.block.number,
    registeredAt: event.block.timestamp,
    ...updated(event),
    events: 1,
  });
  await context.db
    .insert(history)
    .values({ ...place(event), kind: "registered", uri: metadataURI, hash: manifestHash, predicate: open(accessPredicate) });
});

ponder.on("Registry:ToolMetadataUpdated", async ({ event, context }) => {
  const { toolId, newURI, newHash } = event.args;
  await context.db
    .update(tool, { id: toolId })
    .set((row) => ({ uri: newURI, hash: newHash, ...updated(event), events: row.events + 1 }));
  await context.db.insert(history).values({ ...place(event), kind: "metadata", uri: newURI, hash: newHash });
});

ponder.on("Registry:AccessPredicateUpdated", async ({ event, context }) => {
  const { toolId, newPredicate } = event.args;
  await context.db
    .update(tool, { id: toolId })
    .set((row) => ({ predicate: open(newPredicate), ...updated(event), events: row.events + 1 }));
  await context.db.insert(history).values({ ...place(event), kind: "predicate", predicate: open(newPredicate) });
});

ponder.on("Registry:ToolDeregistered", async ({ event, context }) => {
  await context.db
    .update(tool, { id: event.args.toolId })
    .set((row) => ({ deregisteredBlock: event.block.number, ...updated(event), events: row.events + 1 }));
  await context.db.insert(history).values({ ...place(event), kind: "deregistered" });
});
