"""Clients of revisions before 2025-11-25 with a modern server: what they are asked is in their own revision's words, and
what these cannot say makes the call fail by a result that tells why."""

import contextlib
from collections.abc import Iterator

from cells import same
from client import Legacy

SERVER = "new-http"
ABLE = {"sampling": {}, "elicitation": {}, "roots": {}}


@contextlib.contextmanager
def client(base: str, revision: str) -> Iterator[Legacy]:
    with contextlib.closing(Legacy(base, ABLE, revision=revision)) as client:
        yield client


def forms_of_2025_06_18(base: str) -> None:
    with client(base, "2025-06-18") as old:
        reply = old.call(f"test_elicitation_mcp_{SERVER}", {"message": "Who?"})
        reply.good()
        _, params = reply.asked_once()
        same("no mode", {"message", "requestedSchema"}, params.keys())
        reply = old.call(f"test_elicitation_sep1330_enums_mcp_{SERVER}")
        same("several of a list cannot be asked for", [], reply.asked)
        reply.failed()
        reply = old.call(f"ask_mcp_{SERVER}", {"kind": "elicitation_url"})
        same("pages cannot be asked for", [], reply.asked)
        reply.failed()


def no_forms_before(base: str) -> None:
    for revision in ("2024-11-05", "2025-03-26"):
        with client(base, revision) as old:
            reply = old.call(f"ask_mcp_{SERVER}", {"kind": "elicitation"})
            same("forms cannot be asked for", [], reply.asked)
            reply.failed()
            for kind in ("sampling", "roots"):
                reply = old.call(f"ask_mcp_{SERVER}", {"kind": kind})
                reply.good()
                reply.asked_once()


def content_that_is_newer(base: str) -> None:
    with client(base, "2024-11-05") as old:
        link = old.call(f"rich_mcp_{SERVER}").good()["content"][1]
        same("a link", "text", link["type"])
        (sound,) = old.call(f"test_audio_content_mcp_{SERVER}").good()["content"]
        same("a sound", "text", sound["type"])


CHECKS = {check.__name__.replace("_", " "): check for check in (forms_of_2025_06_18, no_forms_before, content_that_is_newer)}
