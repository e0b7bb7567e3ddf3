"""x402 for Python as a client, over httpx or, with CLIENT=requests, over requests: see ../pay.mjs."""

import asyncio
import json
import os
import sys

from eth_account import Account
from x402 import x402Client, x402ClientSync
from x402.extensions.payment_identifier import append_payment_identifier_to_extensions
from x402.http import decode_payment_response_header
from x402.mechanisms.evm.exact import register_exact_evm_client

TIME_LIMIT = 120
SIGNER = Account.from_key(os.environ["PRIVATE_KEY"])


def payer(client, id: str | None):
    def append(context) -> None:
        extensions = context.payment_required.extensions
        if extensions:
            append_payment_identifier_to_extensions(extensions, id)

    if id:
        client.on_before_payment_creation(append)
    return register_exact_evm_client(client, SIGNER)


async def over_httpx(url: str, body: str, headers: dict, id: str | None):
    from x402.http.clients import wrapHttpxWithPayment

    async with wrapHttpxWithPayment(payer(x402Client(), id), timeout=TIME_LIMIT, trust_env=False) as http:
        return await http.post(url, content=body, headers=headers)


def over_requests(url: str, body: str, headers: dict, id: str | None):
    import requests
    from x402.http.clients import wrapRequestsWithPayment

    with requests.Session() as session:
        session.trust_env = False
        wrapRequestsWithPayment(session, payer(x402ClientSync(), id))
        return session.post(url, data=body, headers=headers, timeout=TIME_LIMIT)


def one(url: str, body: str, headers: dict | None = None, id: str | None = None) -> dict:
    call = (url, body, {"content-type": "application/json", **(headers or {})}, id)
    try:
        answer = over_requests(*call) if os.environ.get("CLIENT") == "requests" else asyncio.run(over_httpx(*call))
        header = next((name for name in ("payment-response", "x-payment-response") if name in answer.headers), None)
        receipt = decode_payment_response_header(answer.headers[header]).model_dump(mode="json", by_alias=True) if header else None
    except Exception as error:  # Whatever went wrong is the result of the call.
        return {"status": 0, "body": None, "receipt": None, "header": None, "error": str(error) or repr(error)}
    try:
        body = answer.json()
    except ValueError:
        body = answer.text
    return {"status": answer.status_code, "body": body, "receipt": receipt, "header": header, "error": None}


def main() -> None:
    target = sys.argv[1]
    if target != "-":
        print(json.dumps(one(target, os.environ["BODY"])))
        return
    print('{"ready":true}', flush=True)
    for line in sys.stdin:
        print(json.dumps(one(**json.loads(line))), flush=True)


main()
