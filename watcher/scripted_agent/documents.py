"""The documents the program prints, in the shape of the measured ones."""

from __future__ import annotations

import os

from watcher.scripted_agent import VERSION
from watcher.scripted_agent.options import Options
from watcher.scripted_agent.sessions import fresh_id

TYPE_CHECKING = False  # as typing.TYPE_CHECKING, without importing typing (9 ms)
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Document = dict[str, Any]
    Builder = Callable[[Document, Options, str, float, int], Document]

MODEL = "claude-opus-5-5"
TOOLS = ["Task", "Bash", "Edit", "Read", "Write"]
TERMINAL_REASONS = {
    "success": "completed",
    "error_max_turns": "max_turns",
    "error_max_budget_usd": "budget_exhausted",
    "error_max_structured_output_retries": "structured_output_retry_exhausted",
}
DIAGNOSTIC = "[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=tool_use"


def init(options: Options, session_id: str) -> Document:
    """The first line of a stream."""
    return {
        "type": "system",
        "subtype": "init",
        "cwd": os.getcwd(),
        "session_id": session_id,
        "tools": TOOLS,
        "mcp_servers": [],
        "model": options.value("--model") or MODEL,
        "permissionMode": options.value("--permission-mode", "default"),
        "slash_commands": [],
        "apiKeySource": "ANTHROPIC_API_KEY" if os.environ.get("ANTHROPIC_API_KEY") else "none",
        "claude_code_version": VERSION,
        "output_style": "default",
        "agents": [],
        "uuid": fresh_id(),
    }


def assistant(options: Options, session_id: str, text: str, api_error: bool) -> Document:
    """One message of the model, or the program's own in its place."""
    message = {
        "id": f"msg_{os.urandom(11).hex()}",
        "type": "message",
        "role": "assistant",
        "model": "<synthetic>" if api_error else options.value("--model") or MODEL,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "stop_sequence" if api_error else None,
        "usage": {"input_tokens": 0 if api_error else 1000, "output_tokens": 0 if api_error else 1},
    }
    document: Document = {"type": "assistant", "message": message, "parent_tool_use_id": None}
    document |= {"session_id": session_id, "uuid": fresh_id()}
    return document | {"is_api_error_message": True} if api_error else document


def denial(entry: str | Document) -> Document:
    """One entry of permission_denials; a tool's name is enough."""
    if not isinstance(entry, str):
        return entry
    return {"tool_name": entry, "tool_use_id": f"toolu_{os.urandom(11).hex()}", "tool_input": {}}


def denied(entry: Document, session_id: str) -> Document:
    """The line a stream has for a refused tool."""
    reason = "This command requires approval"
    return {
        "type": "system",
        "subtype": "permission_denied",
        "tool_name": entry.get("tool_name"),
        "tool_use_id": entry.get("tool_use_id"),
        "decision_reason": reason,
        "message": reason,
        "uuid": fresh_id(),
        "session_id": session_id,
    }


def rate_limit(info: Document, session_id: str) -> Document:
    return {
        "type": "rate_limit_event",
        "rate_limit_info": info,
        "uuid": fresh_id(),
        "session_id": session_id,
    }


def filler(session_id: str, size: int) -> Document:
    """A line of about `size` bytes, as a tool's long output makes it."""
    content = [{"type": "tool_result", "tool_use_id": "toolu_filler", "content": "filler " * (size // 7)}]
    message = {"role": "user", "content": content}
    return {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": session_id}


def result(act: Document, options: Options, session_id: str, total: float, milliseconds: int) -> Document:
    """The last document. `total` is the dollars it names; the act's own `result` has the last word."""
    subtype = act.get("subtype", "success")
    is_error = act.get("is_error", subtype.startswith("error"))
    api_error = subtype == "success" and is_error
    usage = _usage(0 if api_error else 1) | act.get("usage", {})
    document: Document = {
        "duration_api_ms": milliseconds,
        "stop_reason": "stop_sequence" if api_error else "end_turn",
        "session_id": session_id,
        "total_cost_usd": total,
        "usage": usage,
        "modelUsage": _model_usage(options, usage, total),
        "permission_denials": act.get("denials", []),
        "terminal_reason": "api_error" if api_error else TERMINAL_REASONS.get(subtype),
        "fast_mode_state": "off",
        "is_error": is_error,
        "num_turns": act.get("turns", 1),
        "subtype": subtype,
        "api_error_status": None,
        "result": act.get("say", "done"),
        "type": "result",
        "duration_ms": milliseconds,
        "uuid": fresh_id(),
        "queued_turn_count": 0,
        "result_index": 0,
    }
    if document["terminal_reason"] is None:
        del document["terminal_reason"]
    if subtype.startswith("error"):
        del document["result"], document["api_error_status"]
        document["errors"] = [act["say"] if "say" in act else _error(subtype, options)]
    return _laid_over(document, act.get("result", {}))


def aborted(act: Document, options: Options, session_id: str, total: float, milliseconds: int) -> Document:
    """What the program prints when it is interrupted inside a tool call."""
    bare: Document = {name: act[name] for name in ("turns", "usage", "denials") if name in act}
    bare |= {"subtype": "error_during_execution", "result": {"terminal_reason": "aborted_tools"}}
    return result(bare, options, session_id, total, milliseconds)


def lost(message: str, session_id: str) -> Document:
    """The result of a stream that was to resume an unknown session."""
    return {
        "type": "result",
        "subtype": "error_during_execution",
        "duration_ms": 0,
        "duration_api_ms": 0,
        "is_error": True,
        "num_turns": 0,
        "stop_reason": None,
        "session_id": session_id,
        "total_cost_usd": 0,
        "usage": _usage(0),
        "modelUsage": {},
        "permission_denials": [],
        "uuid": fresh_id(),
        "errors": [message],
        "result_index": 0,
    }


def plain(document: Document, options: Options) -> str:
    """What the text format shows of a result."""
    if "result" in document:
        return str(document["result"])
    match document.get("subtype"):
        case "error_max_turns":
            return f"Error: Reached max turns ({options.value('--max-turns')})"
        case "error_max_budget_usd":
            return f"Error: Exceeded USD budget ({options.value('--max-budget-usd')})"
        case _:
            return "Execution error"


def _laid_over(document: Document, changes: Document) -> Document:
    merged = document | changes
    return {name: value for name, value in merged.items() if name not in changes or value is not None}


def _error(subtype: str, options: Options) -> str:
    match subtype:
        case "error_max_turns":
            return f"Reached maximum number of turns ({options.value('--max-turns')})"
        case "error_max_budget_usd":
            return f"Reached maximum budget (${options.value('--max-budget-usd')})"
        case "error_max_structured_output_retries":
            return "Failed to provide valid structured output after 5 attempts"
        case _:
            return DIAGNOSTIC


def _usage(requests: int) -> Document:
    return {
        "input_tokens": 1000 * requests,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 50 * requests,
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
    }


def _model_usage(options: Options, usage: Document, total: float) -> Document:
    if not total:
        return {}
    return {
        options.value("--model") or MODEL: {
            "inputTokens": usage["input_tokens"],
            "outputTokens": usage["output_tokens"],
            "cacheReadInputTokens": usage["cache_read_input_tokens"],
            "cacheCreationInputTokens": usage["cache_creation_input_tokens"],
            "costUSD": total,
            "contextWindow": 1000000,
            "maxOutputTokens": 128000,
        }
    }
