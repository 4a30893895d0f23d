"""Qwen Code (`qwen -o json`, also stream-json): its answer as a Response (DESIGN 10).

Its events are those of Claude Code, with the error in an object of its own; when one of its own
ceilings ends it (exit 53, 55), stdout has no result and stderr ends with an error object.
"""

from __future__ import annotations

import dataclasses

from watcher.agents.gemini import error_object
from watcher.response import Response, Verdict, fields, read_bytes


def read(stdout: bytes, stderr: str) -> Response:
    """The answer of one poke, from stdout, else from the error object on stderr. Never raises on content."""
    response = read_bytes(stdout)
    if response.verdict is Verdict.FAILURE:
        message = fields.text(fields.member(response.document, "error", "message"))
        return dataclasses.replace(response, text=response.text or message)
    if response.verdict is Verdict.NONE and (error := error_object(stderr)):
        return dataclasses.replace(
            response,
            verdict=Verdict.FAILURE,
            subtype="error",
            is_error=True,
            text=fields.text(fields.member(error, "error", "message")),
            api_error=fields.label(fields.member(error, "error", "type")),
            session_id=fields.text(error.get("session_id")) or response.session_id,
            results=1,
            plain="",
            document=fields.bounded(error),
        )
    return response
