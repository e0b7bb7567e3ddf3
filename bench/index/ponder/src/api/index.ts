import { Hono } from "hono";
import { graphql } from "ponder";
import { db } from "ponder:api";
import schema from "ponder:schema";

const api = new Hono();
api.use("/", graphql({ db, schema }));
export default api;
