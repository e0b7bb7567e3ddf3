// Verifies the signature of an .agt manifest with packages that share nothing with Toolcrib: node verify.mjs FILE
// Prints one line of JSON and exits with 0 if the owner signed the manifest, with 1 if not.
import { readFileSync } from "node:fs";

import canonicalize from "canonicalize";
import { getAddress, hashMessage, verifyMessage } from "ethers";

const { signature, ...unsigned } = JSON.parse(readFileSync(process.argv[2], "utf8"));
// RFC 8785 of everything but the top-level signature; personal_sign takes these bytes, not a hash of them.
const bytes = new TextEncoder().encode(canonicalize(unsigned));
const answer = { owner: unsigned.owner, digest: hashMessage(bytes), bytes: bytes.length };
try {
  answer.signer = verifyMessage(bytes, signature);
  // getAddress also refuses an owner with a wrong checksum.
  answer.valid = getAddress(unsigned.owner) === answer.signer;
} catch (error) {
  answer.valid = false;
  answer.error = error.shortMessage ?? error.message;
}
console.log(JSON.stringify(answer));
process.exit(answer.valid ? 0 : 1);
