"""Reads exports of agent manifests with the Python packages of those formats: check.py FOLDER, or check.py cards OUT"""

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import dns.name
import dns.rdata
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from aid_py import AidError
from aid_py import parse as parse_aid
from a2a.client.card_resolver import parse_agent_card
from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import validate_proto_required_fields


def registration_file():
    """The data model of agent0-sdk. The package itself loads a client of a chain, which nothing here needs."""
    package = Path(sys.prefix, "lib", f"python3.{sys.version_info.minor}", "site-packages", "agent0_sdk/core/models.py")
    spec = importlib.util.spec_from_file_location("models", package)
    module = importlib.util.module_from_spec(spec)
    sys.modules["models"] = module
    spec.loader.exec_module(module)
    return module


# What the registry refuses, each with a word of the refusal: a linter that accepts everything would prove nothing.
REFUSED_SERVERS = [
    ({"description": "d" * 101}, "description"),
    ({"name": "com.example.agents/made/up"}, "exactly one '/'"),
    ({"version": "latest"}, "version"),
    ({"remotes": [{"type": "http", "url": "https://made-up.example.com/mcp"}]}, "remotes"),
    ({"$schema": "https://static.modelcontextprotocol.io/schemas/2020-01-01/server.schema.json"}, "2020-01-01"),
]

# Records that AID refuses, for the same reason.
REFUSED_RECORDS = [
    "v=aid3;u=https://a.example.com/;p=mcp",
    "v=aid2;u=http://a.example.com/;p=mcp",
    "v=aid2;u=https://a.example.com/;p=http",
    "v=aid2;u=https://a.example.com/;p=mcp;i=key",
    f"v=aid2;u=https://a.example.com/;p=mcp;s={'n' * 61}",
]


def registry_problems(document):
    """What skillsaw says against a `server.json`. It has the schemas of the registry in its package and asks no server.

    The document is alone in a folder, so that no settings and no ignore file decide what is read.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "server.json").write_text(json.dumps(document))
        rules = ["--rule", "mcp-registry-server-json-valid", "--rule", "mcp-registry-version-semver"]
        options = ["--type", "mcp-registry", "--strict", "--no-plugins", "--no-custom-rules", "--no-baseline", "--format", "json"]
        command = [Path(sys.executable).with_name("skillsaw"), "lint", *options, *rules, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    report = json.loads(done.stdout)
    assert report["stats"]["rules_run"] == len(rules) // 2, done.stdout
    problems = [violation["message"] for violation in report["violations"]]
    assert (done.returncode == 0) == (not problems), done.stdout + done.stderr
    return problems


def check(root):
    counts, failures = Counter(), 0
    models = registration_file()
    known = {kind.value for kind in models.EndpointType}

    def card(file):
        ours = json.loads(file.read_text())
        # Unknown fields are errors: nothing is in the card that version 1.0 does not have.
        message = ParseDict(ours, AgentCard(), ignore_unknown_fields=False)
        validate_proto_required_fields(message)
        # A reader that accepts everything would prove nothing.
        for change in ({"url": "https://example.com"}, {"skills": []}, {"name": ""}):
            try:
                validate_proto_required_fields(ParseDict({**ours, **change}, AgentCard(), ignore_unknown_fields=False))
            except (ParseError, InvalidParamsError):
                continue
            raise AssertionError(f"accepted {change}")
        assert MessageToDict(parse_agent_card(ours)) == MessageToDict(message)

    def registration(file):
        ours = json.loads(file.read_text())
        # The model refuses services beyond its own list, though the standard leaves the list open.
        services = [service for service in ours["services"] if service["name"] in known]
        read = models.RegistrationFile.from_dict({**ours, "services": services})
        assert (read.name, read.description, read.image) == (ours["name"], ours["description"], ours.get("image"))
        assert (read.active, read.x402support) == (ours["active"], ours["x402Support"])
        assert [(end.type.value, end.value) for end in read.endpoints] == [(s["name"], s["endpoint"]) for s in services]
        assert all(type(entry["agentId"]) is int for entry in ours["registrations"])

    def server(file):
        ours = json.loads(file.read_text())
        problems = registry_problems(ours)
        assert not problems, problems
        for change, word in REFUSED_SERVERS:
            problems = registry_problems({**ours, **change})
            assert any(word in problem for problem in problems), f"{change} is not refused for {word}: {problems}"

    def zone(file):
        for line in file.read_text().splitlines():
            owner, ttl, rdclass, rdtype, data = line.split(" ", 4)
            assert dns.name.from_text(owner).is_absolute() and ttl.isdecimal() and owner.startswith("_agent."), line
            text = b"".join(dns.rdata.from_text(rdclass, rdtype, data).strings).decode()
            read = parse_aid(text)
            assert text.startswith(f"v={read['v']};u={read['uri']};p={read['proto']}"), text
            assert "evil" not in read["uri"], "a text became an endpoint"
            versions[read["v"]] += 1

    versions = Counter()
    for text in REFUSED_RECORDS:
        try:
            parse_aid(text)
        except AidError:
            continue
        failures += 1
        print(f"WRONG: aid-discovery accepts {text}", file=sys.stderr)

    checks = [
        ("a2a/agent-card.json", "a2a: a2a-sdk parses without unknown fields", card),
        ("erc8004/agent-registration.json", "erc8004: agent0-sdk reads the file", registration),
        ("mcp-registry/server.json", "mcp-registry: skillsaw finds nothing against the file", server),
        ("aid/aid.zone", "aid: aid-discovery reads every record", zone),
    ]
    for path, what, test in checks:
        for file in sorted(root.glob(f"*/*/{path}")):
            try:
                test(file)
                counts[what] += 1
            except Exception as error:  # noqa: BLE001
                failures += 1
                print(f"WRONG: {what}: {file}: {error}"[:600], file=sys.stderr)
    counts.update({f"aid: records of {version} read by aid-discovery": number for version, number in versions.items()})
    for what, number in sorted(counts.items()):
        print(f"{what:64} {number}")
    unread = [what for _, what, _ in checks if not counts[what]]
    unread += [f"records of {version}" for version in ("aid1", "aid2") if not versions[version]]
    if unread:
        print(f"nothing was read: {', '.join(unread)}", file=sys.stderr)
    return 1 if failures or unread else 0


def cards(out):
    """Writes cards that the SDK makes, for our import to read."""
    out.mkdir(parents=True, exist_ok=True)
    card = AgentCard(name="Recipes", description="Finds recipes.", version="1.0.0", default_input_modes=["text/plain"], default_output_modes=["text/plain"])
    card.supported_interfaces.add(url="https://recipes.example.com/a2a", protocol_binding="JSONRPC", protocol_version="1.0")
    card.supported_interfaces.add(url="https://recipes.example.com/grpc", protocol_binding="GRPC", protocol_version="1.0", tenant="t")
    card.provider.organization, card.provider.url = "Kitchen", "https://recipes.example.com"
    card.capabilities.streaming = True
    card.security_schemes["key"].http_auth_security_scheme.scheme = "Bearer"
    card.security_requirements.add().schemes["key"].list.append("read")
    skill = card.skills.add(id="find-recipes", name="Find", description="Finds recipes by ingredient.", tags=["food"])
    skill.examples.append("What can I cook with leeks?")
    validate_proto_required_fields(card)
    (out / "1.0.json").write_text(json.dumps(MessageToDict(card)))

    from a2a.compat.v0_3 import types as old

    before = old.AgentCard(
        name="Recipes", description="Finds recipes.", version="1", url="https://recipes.example.com/a2a", protocol_version="0.3.0",
        capabilities=old.AgentCapabilities(streaming=True), default_input_modes=["text/plain"], default_output_modes=["text/plain"],
        additional_interfaces=[old.AgentInterface(transport="HTTP+JSON", url="https://recipes.example.com/rest")],
        skills=[old.AgentSkill(id="Find Recipes", name="Find", description="Finds recipes.", tags=["food"])],
    )
    (out / "0.3.json").write_text(before.model_dump_json(by_alias=True, exclude_none=True))
    return 0


if sys.argv[1] == "cards":
    sys.exit(cards(Path(sys.argv[2])))
sys.exit(check(Path(sys.argv[1])))
