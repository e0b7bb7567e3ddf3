import { ponder } from "ponder:registry";
import { history, tool } from "ponder:schema";

ponder.on("ToolRegistry:ToolRegistered", async ({ event, context }) => {
  const { toolId, creator, accessPredicate, metadataURI, manifestHash } = event.args;
  const { number, timestamp } = event.block;
  await context.db.insert(tool).values({
    id: toolId,
    creator,
    uri: metadataURI,
    hash: manifestHash,
    predicate: accessPredicate,
    registeredAt: timestamp,
    updatedAt: timestamp,
    isActive: true,
  });
  await context.db.insert(history).values({
    id: event.id,
    tool: toolId,
    kind: "registered",
    block: number,
    at: timestamp,
    uri: metadataURI,
    hash: manifestHash,
    predicate: accessPredicate,
  });
});

ponder.on("ToolRegistry:ToolMetadataUpdated", async ({ event, context }) => {
  const { toolId, newURI, newHash } = event.args;
  const { number, timestamp } = event.block;
  await context.db.update(tool, { id: toolId }).set({ uri: newURI, hash: newHash, updatedAt: timestamp });
  await context.db
    .insert(history)
    .values({ id: event.id, tool: toolId, kind: "metadata", block: number, at: timestamp, uri: newURI, hash: newHash });
});

ponder.on("ToolRegistry:AccessPredicateUpdated", async ({ event, context }) => {
  const { toolId, newPredicate } = event.args;
  const { number, timestamp } = event.block;
  await context.db.update(tool, { id: toolId }).set({ predicate: newPredicate, updatedAt: timestamp });
  await context.db
    .insert(history)
    .values({ id: event.id, tool: toolId, kind: "predicate", block: number, at: timestamp, predicate: newPredicate });
});

ponder.on("ToolRegistry:ToolDeregistered", async ({ event, context }) => {
  const { toolId } = event.args;
  const { number, timestamp } = event.block;
  await context.db.update(tool, { id: toolId }).set({ isActive: false, updatedAt: timestamp });
  await context.db
    .insert(history)
    .values({ id: event.id, tool: toolId, kind: "deregistered", block: number, at: timestamp });
});
