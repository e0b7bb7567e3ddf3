"""The Python peer: json.loads, jcs, keccak of pycryptodome. It obeys the lines that src/peer.rs writes.

load<TAB>path<TAB>path…   reads the files; answers with their hashes, separated by spaces
time<TAB>passes           hashes all files that often; answers with the CPU nanoseconds it took
"""

import json
import sys
import time
from pathlib import Path

import jcs
from Crypto.Hash import keccak


def digest(data):
    return keccak.new(digest_bits=256, data=jcs.canonicalize(json.loads(data)))


def main():
    files = []
    for line in sys.stdin:
        command, *rest = line.rstrip("\n").split("\t")
        if command == "load":
            files = [Path(path).read_bytes() for path in rest]
            print(" ".join(digest(data).hexdigest() for data in files), flush=True)
        else:
            before = time.process_time_ns()
            for _ in range(int(rest[0])):
                for data in files:
                    digest(data).digest()
            print(time.process_time_ns() - before, flush=True)


main()
