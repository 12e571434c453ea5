"""Servers that speak both eras: over HTTP each client gets its own era, as if there were no trunkline; `protocol`
overrules that, which lets modern clients use handlers that await their answers, and no others."""

from pathlib import Path

from cells import same, told
from client import LEGACY, MODERN, Client, Legacy, Modern


def entries(fixture: Path, url: str) -> dict:
    pipe = {"command": str(fixture), "args": ["--stdio"]}
    return {
        "both": {"url": url},
        "both-legacy": {"url": url, "protocol": "legacy"},
        "both-modern": {"url": url, "protocol": "modern"},
        "pipe": pipe,
        "pipe-legacy": pipe | {"protocol": "legacy", "interactive": True},
    }


def revision(client: Client, server: str) -> str:
    return told(client.call(f"whoami_mcp_{server}"))["revision"]


def spoken(base: str) -> dict[str, tuple[str, str]]:
    """The revision that each server is spoken to in, for a legacy and a modern client."""
    old, new = Legacy(base), Modern(base)
    names = ("both", "both-legacy", "both-modern", "pipe", "pipe-legacy")
    found = {name: (revision(old, name), revision(new, name)) for name in names}
    old.close()
    return found


def mirrored(base: str) -> None:
    same("over HTTP, by itself", (LEGACY, MODERN), spoken(base)["both"])


def overruled(base: str) -> None:
    old, new = LEGACY, MODERN
    found = spoken(base)
    same("protocol: legacy", (old, old), found["both-legacy"])
    same("protocol: modern", (new, new), found["both-modern"])
    same("protocol: legacy over stdio", (old, old), found["pipe-legacy"])


def modern_where_one_must_be_chosen(base: str) -> None:
    new = MODERN
    same("over stdio", (new, new), spoken(base)["pipe"])


def inline(base: str) -> None:
    """Handlers that await their answers fail on modern connections; `protocol: legacy` carries them to modern clients."""
    given = {"kind": "elicitation", "tag": "inline"}
    old, new = Legacy(base), Modern(base)
    old.call("ask_mcp_both", given).good()
    new.call("ask_mcp_both", given).failed()
    reply = new.call("ask_mcp_both-legacy", given)
    reply.good()
    same("asked", ["elicitation/create"], [method for method, _ in reply.asked])
    old.close()


CHECKS = {check.__name__.replace("_", " "): check for check in (mirrored, overruled, modern_where_one_must_be_chosen, inline)}
