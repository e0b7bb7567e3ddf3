// Signs an .agt manifest with packages that share nothing with Toolcrib: PRIVATE_KEY=0x… node sign.mjs FILE
// Prints the manifest with its signature. An old signature is replaced.
import { readFileSync } from "node:fs";

import canonicalize from "canonicalize";
import { Wallet } from "ethers";

const { signature: _, ...unsigned } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const bytes = new TextEncoder().encode(canonicalize(unsigned));
const signature = await new Wallet(process.env.PRIVATE_KEY).signMessage(bytes);
console.log(JSON.stringify({ ...unsigned, signature }, null, 2));
