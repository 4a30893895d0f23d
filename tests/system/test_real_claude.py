"""The real Claude Code program, supervised by the real harness, with a scripted model on loopback.

Nothing is simulated but the model: the program runs its own loop, edits files, calls git, keeps its
sessions and prints its own messages, and the harness has to understand them.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.model_api import Line, ModelApi, Request, Turn, call, refuse, say, usage_limit
from tests.system.agent_world import API_KEY, SENTINEL, SUBSCRIBER, World
from watcher.agents.claude import PROFILE, UNSUITABLE_TOOLS
from watcher.agents.profile import Ask
from watcher.response import Response, Verdict

pytestmark = pytest.mark.agent

DONE = say(SENTINEL)
TOO_LONG = refuse(400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum")
LOGGED_OUT = refuse(401, "authentication_error", "OAuth token has expired. Please obtain a new token.")
THROTTLED = refuse(429, "rate_limit_error", "Number of requests has exceeded your rate limit")
OVERLOADED = refuse(529, "overloaded_error", "Overloaded")

forms = pytest.mark.parametrize("form", ["stream-json", "json"])


def commits(name: str) -> Turn:
    """One tool call that brings a new revision."""
    return call(
        "Bash", command=f"echo {name} > {name}.txt && git add {name}.txt && git commit -qm 'Add {name}'"
    )


# --- the profile alone ---------------------------------------------------------------------------


def poke(world: World, prompt: str = "go", **changes: Any) -> Response:
    """One run of the program as the profile builds it, without the harness around it."""
    given: dict[str, Any] = {"session_id": str(uuid.uuid4()), "resume": False, "max_turns": 100}
    ask = Ask(**{**given, "output": "stream-json", **changes})
    out = world.root / "out"
    with out.open("wb") as stdout:
        done = subprocess.run(
            PROFILE.argv([str(world.claude)], ask),
            cwd=world.project,
            env={**PROFILE.env(), **world.environment, **world.agent_environment()},
            input=prompt.encode(),
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    stderr = done.stderr.decode()
    response = PROFILE.read(out, limit=None, stderr=stderr)
    assert response.verdict is not Verdict.NONE, stderr
    assert PROFILE.is_complete(out)
    return response


def refused_commands(response: Response) -> list[str]:
    refused = response.document["permission_denials"]
    return [str(entry["tool_input"]["command"]) for entry in refused]


def test_edits_commits_and_gates_are_allowed_and_nothing_else(world: World, api: ModelApi) -> None:
    world.write("gate.sh", "#!/bin/sh\necho all green\n", mode=0o755)
    readme = str(world.project / "README.md")
    good = [
        "git status",
        "git diff",
        "git add --all",
        "git commit -qm 'do not git push it'",
        "git log | head -1",
    ]
    good += ["git show", "./gate.sh", "./gate.sh --fast", "./gate.sh && ./gate.sh"]
    bad = ["git push", "git -C . push origin main", "git checkout -b x", "git reset --hard", "python3 -c 1"]
    bad += ["git commit -qm x && git push", "./gate.sh && git push", "curl http://127.0.0.1:1/"]
    api.script(
        call("Read", file_path=readme),
        call("Edit", file_path=readme, old_string="A project", new_string="The project"),
        call("Write", file_path=str(world.project / "new.txt"), content="new\n"),
        *(call("Bash", command=command) for command in good + bad),
        say("done"),
    )
    response = poke(world, gates=("./gate.sh",))
    assert refused_commands(response) == bad
    assert world.git("show", "--format=", "--name-only", "HEAD").split() == [
        "README.md",
        "gate.sh",
        "new.txt",
    ]
    assert api.requests[-1].conversation.count("user: all green") == 3


def test_a_push_is_denied_in_every_spelling_even_where_the_shell_is_open(world: World, api: ModelApi) -> None:
    pushes = ["git push", "git push origin main", "/usr/bin/git push", "git  push origin", "'git' push"]
    pushes += ["git -C . push", "git -C . push origin main", "git -c a.b=c push", "git -c a.b=c push origin"]
    pushes += [
        "git --git-dir=.git push",
        "git --no-pager push origin",
        "git -P push",
        "git -C . -c a.b=c push x",
    ]
    pushes += [
        "A=b git push",
        "env A=b git -C . push x",
        "timeout 5 git push",
        "nohup git push",
        "g=git; $g push",
    ]
    pushes += [
        "true && git push",
        "(git push origin)",
        'echo "$(git push origin)"',
        "if true; then git push; fi",
    ]
    pushes += [
        "sh -c 'git push'",
        'bash -c "git push origin"',
        "bash -lc 'cd . && git push'",
        "eval 'git push'",
    ]
    pushes += ["git -c alias.p=push p", "git send-pack x", "git subtree push -P a b c", "git lfs push x"]
    harmless = [
        "git commit --allow-empty -qm 'do not git push it'",
        "git log --grep 'push x'",
        "git stash push",
    ]
    api.script(*(call("Bash", command=command) for command in pushes + harmless), say("done"))
    response = poke(world, allow=("Bash",))
    assert refused_commands(response) == pushes
    assert world.remote_tip == ""


def test_a_configured_denial_beats_what_is_allowed(world: World, api: ModelApi) -> None:
    api.script(call("Bash", command="git commit --allow-empty -qm x"), say("done"))
    assert refused_commands(poke(world, deny=("Bash(git commit *)",))) == ["git commit --allow-empty -qm x"]


def test_tools_that_outlive_a_poke_are_not_offered(world: World, api: ModelApi) -> None:
    api.script(say("done"))
    poke(world)
    (request,) = api.requests
    assert {"Bash", "Edit", "Read", "Write"} <= set(request.tools)
    assert not set(UNSUITABLE_TOOLS) & set(request.tools)
    assert not [name for name in UNSUITABLE_TOOLS if f"\n{name}\n" in request.conversation]  # deferred ones
    bash = next(tool for tool in request.body["tools"] if tool["name"] == "Bash")
    assert "run_in_background" not in bash["input_schema"]["properties"]


@forms
def test_an_instruction_file_is_read_anew_on_every_poke(world: World, api: ModelApi, form: str) -> None:
    session, instructions = str(uuid.uuid4()), world.write("AGENTS.md", "Speak softly.")
    api.script(say("one"), say("two"))
    poke(world, session_id=session, instruction_file=instructions, output=form)
    instructions.write_text("Speak up.")
    response = poke(world, session_id=session, resume=True, instruction_file=instructions, output=form)
    first, second = (request.system for request in api.requests)
    assert "Speak softly." in first
    assert "Speak up." in second
    assert "Speak softly." not in second
    assert (response.text, response.session_id) == ("two", session)


def test_structured_answers_models_and_further_arguments_are_understood(world: World, api: ModelApi) -> None:
    schema = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
    api.script(call("StructuredOutput", status="done"))
    response = poke(
        world, schema=json.dumps(schema), model="claude-haiku-4-5", extra_args=("--effort", "low")
    )
    assert response.structured == {"status": "done"}
    assert api.requests[0].body["model"].startswith("claude-haiku-4-5")


def test_a_budget_of_its_own_ends_the_program(world: World, api: ModelApi) -> None:
    api.script(call("Bash", command="git status"))
    assert poke(world, budget_usd=0.000001).subtype == "error_max_budget_usd"


def test_the_cost_of_a_resumed_session_is_cumulative(world: World, api: ModelApi) -> None:
    session = str(uuid.uuid4())
    api.script(say("one"), say("two"))
    first = poke(world, session_id=session)
    second = poke(world, session_id=session, resume=True)
    assert first.cost_usd is not None
    assert second.cost_usd == pytest.approx(2 * first.cost_usd)
    assert PROFILE.cost_is_cumulative(second.program_version) is True


# --- the watch shift -----------------------------------------------------------------------------

TASKS = """\
# tasks.md

| Status | ID | Title |
|--------|-------|-------------------|
| open | T-201 | A greeting |
| in progress | T-202 | A farewell |
| open | T-203 | A thank-you |

*3 tasks, 2 `open`, 1 `in progress`.*

---

### T-201: A greeting

- **Status:** open
- **Mode:** Loop
- **Deps:** none

### T-202: A farewell

- **Status:** in progress
- **Mode:** Direct
- **Deps:** T-201

### T-203: A thank-you

- **Status:** open
- **Mode:** Goal
- **Deps:** T-201, T-202
"""
COUNTS = (
    "2 `open`, 1 `in progress`",
    "1 `open`, 1 `in progress`, 1 `done`",
    "1 `open`, 2 `done`",
    "3 `done`",
)


def works_on(world: World, number: int, title: str, status: str) -> list[Turn]:
    """One task as an agent does it: read the list, write the file, set the three counts, commit."""
    task, tasks = f"T-20{number}", str(world.project / "docs/tasks.md")

    def edit(old: str, new: str) -> Turn:
        return call("Edit", file_path=tasks, old_string=old, new_string=new)

    name = f"{task.lower()}.txt"
    return [
        call("Read", file_path=tasks),
        call("Write", file_path=str(world.project / name), content=f"{title}\n"),
        edit(f"| {status} | {task} |", f"| done | {task} |"),
        edit(f"### {task}: {title}\n\n- **Status:** {status}", f"### {task}: {title}\n\n- **Status:** done"),
        edit(COUNTS[number - 1], COUNTS[number]),
        call("Bash", command=f"git add docs/tasks.md {name} && git commit -qm '{task}: {title}'"),
        say(f"{task} is done."),
    ]


@forms
def test_a_task_list_is_worked_through_in_one_session_and_published(
    world: World, api: ModelApi, form: str
) -> None:
    world.write("docs/tasks.md", TASKS)
    world.commit("Add tasks")
    world.configure(agent={"output": form}, tasks={"path": "docs/tasks.md"})
    api.script(
        *works_on(world, 1, "A greeting", "open"),
        *works_on(world, 2, "A farewell", "in progress"),
        *works_on(world, 3, "A thank-you", "open"),
        say(f"Nothing is left.\n\n**{SENTINEL}**"),
    )
    seen = world.watch()
    assert (seen.exit_code, seen.outcomes) == (0, ["progress", "progress", "progress", "sentinel"]), seen.log
    assert world.remote_tip == world.tip
    subjects = world.git("log", "--format=%s", "main", at=world.remote).splitlines()
    assert subjects[:3] == ["T-203: A thank-you", "T-202: A farewell", "T-201: A greeting"]
    assert COUNTS[3] in (world.project / "docs/tasks.md").read_text()
    assert len({request.session_id for request in api.requests} | set(seen.sessions)) == 1
    assert "T-201 is done." in api.requests[-1].conversation
    assert world.processes() == []


def test_a_sentinel_the_task_list_contradicts_does_not_end_the_run(world: World, api: ModelApi) -> None:
    world.write("docs/tasks.md", TASKS)
    world.commit("Add tasks")
    world.configure(watch={"stall_limit": 2}, tasks={"path": "docs/tasks.md"})
    api.script(DONE, DONE)
    seen = world.watch()
    assert (seen.exit_code, seen.outcomes) == (2, ["no_change", "no_change"]), seen.log
    assert "T-201" in seen.reasons


@forms
def test_a_capped_poke_goes_on_in_the_same_session(world: World, api: ModelApi, form: str) -> None:
    world.configure(agent={"output": form}, watch={"max_turns": 2})
    looks = call("Bash", command="git status")
    api.script(looks, looks, commits("one"), say("one is done"), DONE)
    seen = world.watch()
    assert (seen.exit_code, seen.outcomes) == (0, ["turn_cap", "progress", "sentinel"]), seen.log
    assert len({request.session_id for request in api.requests}) == 1
    assert "git status" in api.requests[-1].conversation
    assert world.remote_tip == world.tip


def test_a_usage_limit_is_sat_out_by_the_event_and_a_fresh_session_follows(
    world: World, api: ModelApi
) -> None:
    resets_at = 0.0
    published: list[str] = []

    def limited(_: Request) -> Turn:
        nonlocal resets_at
        resets_at = int(time.time()) + 4
        return usage_limit(resets_at)

    def asks_again(_: Request) -> Turn:
        published.append(world.remote_tip)
        return DONE

    api.script(commits("one"), limited, asks_again)
    seen = world.watch()
    assert (seen.exit_code, seen.outcomes) == (0, ["limit", "sentinel"]), seen.log
    before, after = api.requests[1], api.requests[2]
    assert after.at >= resets_at + 1  # the margin
    assert after.session_id != before.session_id
    assert "git add one.txt" in before.conversation
    assert "git add one.txt" not in after.conversation
    assert published == [world.tip]  # before the wait, not after it


def test_a_usage_limit_is_sat_out_by_its_words(world: World, api: ModelApi) -> None:
    """The json form prints no event, only `resets 5:32pm (UTC)`: a time without seconds."""
    resets_at = 0.0

    def limited(_: Request) -> Turn:
        nonlocal resets_at
        resets_at = (time.time() + 3) // 60 * 60 + 60  # the next full minute that is not too near
        return usage_limit(resets_at)

    world.configure(agent={"output": "json"}, limits={"reset_margin_s": 0})
    api.script(limited, DONE)
    seen = world.watch()
    assert (seen.exit_code, seen.outcomes) == (0, ["limit", "sentinel"]), seen.log
    assert resets_at <= api.requests[1].at < resets_at + 30
    assert api.requests[1].session_id != api.requests[0].session_id


@forms
@pytest.mark.parametrize(
    ("login", "trouble"),
    [
        pytest.param(API_KEY, THROTTLED, id="throttled key"),
        pytest.param(SUBSCRIBER, THROTTLED, id="throttled subscriber"),
        pytest.param(SUBSCRIBER, OVERLOADED, id="overloaded"),
    ],
)
def test_provider_trouble_backs_off_and_keeps_the_session(
    world: World, api: ModelApi, form: str, login: dict[str, str], trouble: Turn
) -> None:
    world.configure(login=login, agent={"output": form}, retries={"transient_first_s": 0.5})
    api.script(trouble, trouble, DONE)
    seen = world.watch()
    assert (seen.exit_code, seen.outcomes) == (0, ["transient", "transient", "sentinel"]), seen.log
    first, second, third = api.requests
    assert first.session_id == second.session_id == third.session_id
    assert second.at >= first.at + 0.5
    assert third.at >= second.at + 1


@forms
def test_a_prompt_that_is_too_long_begins_a_fresh_session(world: World, api: ModelApi, form: str) -> None:
    world.configure(agent={"output": form})
    api.script(TOO_LONG, DONE)
    seen = world.watch()
    assert (seen.exit_code, seen.outcomes) == (0, ["context", "sentinel"]), seen.log
    assert api.requests[0].session_id != api.requests[1].session_id


@forms
def test_a_lost_login_alerts_once_and_is_tried_until_a_person_has_logged_in(
    world: World, api: ModelApi, form: str
) -> None:
    alerts = world.root / "alerts"
    alerts.mkdir()
    tell = world.root / "tell"
    tell.write_text(f"#!/bin/sh\nexec cat > {alerts}/$$\n")
    tell.chmod(0o755)
    world.configure(agent={"output": form}, notify={"command": [str(tell)]})
    twice = [LOGGED_OUT] * 2  # in one poke: after a 401 the program tries to renew its token, and again
    api.script(*twice, *twice, commits("one"), say("one is done"), DONE)
    seen = world.watch()
    expected = ["needs_human", "needs_human", "progress", "sentinel"]
    assert (seen.exit_code, seen.outcomes) == (0, expected), seen.log
    told = [json.loads(path.read_text()) for path in alerts.iterdir()]
    assert sum("401" in json.dumps(alert) for alert in told) == 1, told
    assert world.remote_tip == world.tip


def test_a_poke_at_its_deadline_leaves_no_process_and_its_session_goes_on(
    world: World, api: ModelApi
) -> None:
    """The program gives each tool call a session of its own, and children can leave even that one."""
    readme = world.project / "README.md"
    world.write(
        "linger.sh",
        f"#!/bin/sh\nsetsid tail -f {readme} &\n(setsid tail -f {readme} >/dev/null 2>&1 &)\n"
        f"(env -i setsid tail -f {readme} >/dev/null 2>&1 </dev/null &)\n"
        f"trap '' TERM INT\ntail -f {readme} &\nwait\nwait\n",
        mode=0o755,
    )
    world.commit("Add linger")
    alive: list[list[str]] = []

    def lingers(_: Request) -> Turn:
        return call("Bash", command="./linger.sh")

    def looks_around(_: Request) -> Turn:
        alive.append([words for words in world.processes() if " tail -f " in words])
        return DONE

    world.configure(agent={"allow": ["Bash(./linger.sh)"]}, watch={"poke_timeout_s": 4})
    api.script(lingers, looks_around)
    seen = world.watch()
    assert (seen.exit_code, seen.outcomes) == (0, ["timed_out", "sentinel"]), seen.log
    assert alive == [[]]
    assert world.processes() == []
    assert "tail(" in seen.log  # what the program itself could not reach was there, and was ended
    first, second = api.requests
    assert first.session_id == second.session_id
    assert seen.history[1]["resumed"] is True
    assert "./linger.sh" in second.conversation


def dies_in_a_poke(world: World, api: ModelApi, *, with_the_agent: bool) -> threading.Event:
    """A harness that was killed while the model thought; the event lets the model's answer go."""
    asked, answer = threading.Event(), threading.Event()

    def thinks(_: Request) -> Turn:
        asked.set()
        answer.wait(60)
        return say("Too late.")

    api.script(thinks, DONE)
    harness = world.start()
    came = asked.wait(30)
    harness.kill()
    log, _ = harness.communicate()
    assert came, log
    assert any(f" {world.claude} " in words for words in world.processes())  # the agent lives on
    if with_the_agent:
        world.kill_agent()
    return answer


@forms
def test_a_killed_harness_ends_the_orphan_and_goes_on_in_its_session(
    world: World, api: ModelApi, form: str
) -> None:
    world.configure(agent={"output": form})
    answer = dies_in_a_poke(world, api, with_the_agent=False)
    seen = world.watch()
    answer.set()
    assert (seen.exit_code, seen.outcomes) == (0, ["interrupted", "sentinel"]), seen.log
    assert world.processes() == []
    first, second = api.requests
    assert first.session_id == second.session_id
    assert len(list(world.state.glob("*/runs/*"))) == 1  # the same run


@forms
def test_a_conversation_that_was_never_written_down_is_begun_anew(
    world: World, api: ModelApi, form: str
) -> None:
    """A poke killed in its first moments has a session id, and no transcript to resume."""
    world.configure(agent={"output": form})
    answer = dies_in_a_poke(world, api, with_the_agent=True)
    for transcript in world.transcripts():
        transcript.unlink()
    seen = world.watch()
    answer.set()
    assert (seen.exit_code, seen.outcomes) == (0, ["interrupted", "session_lost", "sentinel"]), seen.log


def test_a_push_the_agent_tries_is_denied_and_named_in_the_ending(world: World, api: ModelApi) -> None:
    world.configure(watch={"stall_limit": 2})
    push = call("Bash", command="git push origin HEAD:refs/heads/mine")
    api.script(push, say("I could not push."), push, say("Still not."))
    seen = world.watch()
    assert (seen.exit_code, seen.outcomes) == (2, ["no_change", "no_change"]), seen.log
    assert [line["denials"] for line in seen.history] == [["Bash"], ["Bash"]]
    assert "Bash" in seen.log
    assert world.git("branch", "--list", "mine", at=world.remote) == ""


def plant(world: World) -> Path:
    """What an agent could leave for its next poke: hooks, rules, servers, instructions, everywhere."""
    fired = world.root / "fired"
    fired.mkdir()
    for place, name in ((world.home, "home"), (world.project, "project")):
        hooks = {
            event: [{"hooks": [{"type": "command", "command": f"touch {fired}/{name}-{event}"}]}]
            for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "SessionEnd")
        }
        settings = {"hooks": hooks, "permissions": {"allow": ["Bash"]}, "model": "claude-SOWN"}
        server = {"mcpServers": {name: {"command": "/usr/bin/touch", "args": [f"{fired}/{name}-mcp"]}}}
        (place / ".claude").mkdir()
        for file in ("settings.json", "settings.local.json"):
            (place / ".claude" / file).write_text(json.dumps(settings))
        (place / ".claude" / "CLAUDE.md").write_text(f"SOWN in {name}")
        (place / (".claude.json" if name == "home" else ".mcp.json")).write_text(json.dumps(server))
    return fired


def test_what_is_planted_in_home_and_repository_does_not_count(world: World, api: ModelApi) -> None:
    fired = plant(world)
    world.write("CLAUDE.md", "Be brief, says the project.")
    script: list[Line] = [call("Bash", command="touch made"), call("Bash", command="python3 -c 1"), DONE]
    api.script(*script)
    seen = world.watch()
    assert (seen.exit_code, seen.outcomes) == (0, ["sentinel"]), seen.log
    assert list(fired.iterdir()) == []
    assert seen.history[0]["denials"] == ["Bash"]  # python3: the planted rules allow nothing
    sent = api.requests[0]
    assert "Be brief, says the project." in sent.system
    assert "SOWN" not in sent.system + sent.conversation + str(sent.body["model"])
