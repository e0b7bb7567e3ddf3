"""x402 for Python pays for one POST: client.py URL. Key of the payer in PRIVATE_KEY, body in BODY.

Prints one line of JSON: status, body, receipt (decoded), header (where the receipt stood), error.
"""

import asyncio
import json
import os
import sys

from eth_account import Account
from x402 import x402Client
from x402.http import decode_payment_response_header
from x402.http.clients import wrapHttpxWithPayment
from x402.mechanisms.evm.exact import register_exact_evm_client


async def call(url: str) -> dict:
    client = register_exact_evm_client(x402Client(), Account.from_key(os.environ["PRIVATE_KEY"]))
    async with wrapHttpxWithPayment(client, timeout=30, trust_env=False) as http:
        answer = await http.post(url, content=os.environ["BODY"], headers={"content-type": "application/json"})
    header = next((name for name in ("payment-response", "x-payment-response") if name in answer.headers), None)
    receipt = decode_payment_response_header(answer.headers[header]).model_dump(mode="json", by_alias=True) if header else None
    try:
        body = answer.json()
    except ValueError:
        body = answer.text
    return {"status": answer.status_code, "body": body, "receipt": receipt, "header": header, "error": None}


try:
    line = asyncio.run(call(sys.argv[1]))
except Exception as error:  # Whatever went wrong is the result of the call.
    line = {"status": 0, "body": None, "receipt": None, "header": None, "error": str(error) or repr(error)}
print(json.dumps(line))
