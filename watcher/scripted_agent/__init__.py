"""A stand-in for the agent program: speaks its flags and its output, and does what a tape says.

    SCRIPTED_AGENT_TAPE=tape.json python -IS watcher/scripted_agent/__main__.py -p < prompt

It behaves as Claude Code 2.1.332 was measured to behave (options, refusals, sessions, documents, signals),
asks no model, and costs 3 ms of CPU more than a bare interpreter. `harness demo` and the tests use it.
Nothing else in the project is imported here, and nothing here guards against a hostile tape.

The tape: {"pokes": [ACT, ACT, ...]}, one ACT an invocation, the last one repeats. Beside it are kept
  TAPE.at       how many acts were played (replaced as a whole, under a lock on the tape)
  TAPE.log      one JSON line an invocation: poke, time, argv, prompt (200 characters) and prompt_sha256,
                session {form: new|chosen|resume|fork, id}, pid, ppid, pgid, sid, uid, gid, groups, cwd,
                env (a few values), env_names; `refused` where the program refused to start
  TAPE.orphans  the process ids of orphans, one a line
A start refused as the real program refuses it (an unknown option, an unknown session, no prompt) prints the
same words, exits 1 and leaves the tape where it was. Exit 3 with a message means the tape, its directory or
an act is at fault. Without HOME, sessions are kept in TAPE.sessions instead of ~/.scripted-agent/sessions.

The steps of an ACT, every one optional, in the order they are played:
  ignore         ["INT", "TERM", "HUP"]: signals to ignore from the start; its git and orphans ignore them too
  sleep          seconds; the start-up of the program: nothing is printed and no session exists yet
  stderr         text
  before         raw text before everything else on stdout
                 now the session exists, and stream-json prints its init line
  write, append  {path: text}, directories are made; delete: [path, ...], directories with all they hold
  task_done      "T-102": done in docs/tasks.md or docs/TASKS.md: table row, detail block, count line
  git            [[argument, ...], ...]; a failure is exit 3, unless the first argument is "-"
  commit         message; of everything, or of `paths`: [...]. Nothing to commit is exit 3
  empty_commit, amend   message
  orphan         {seconds, setsid, double_fork, hold_stdout, clear_env}: a process left running
                 now the assistant line (and one line for each of `denials`)
  events         [document, ...]: more lines; rate_limit: {...}: the rate_limit_info of a rate_limit_event
                 (like the init and assistant lines: only stream-json and the array form show them)
  flood          bytes of filler lines
  hang_before    seconds; a tool call that does not end
  crash          "KILL", "SEGV", ...: dies of that signal here, nothing more is printed
                 now the result document, unless `no_result`; `repeat_result`: n prints it n times
  after          raw text after it
  hang           seconds; a background shell holds the program after its result (with json the real one
                 prints the result only when the shell has ended: hang_before with on_int "nothing")
  exit           code; else 1 for a result that is an error, 0 otherwise
What the result holds:
  say (default "done"), subtype (success), is_error (true for error_*), turns (1), usage {...}, denials [...],
  cost           dollars of this poke (0.01); total_cost_usd is the sum over the session, as in 2.1.332,
                 with `cost_per_process`: true of this poke alone, as older versions do.
                 A poke that is killed before its result leaves its cost out
  result         {...} laid over the document at the end; null removes a key
  flood_result   bytes of filler after `say`
  session        text printed as the session's id; new_session: true prints a fresh id (both can be resumed);
                 forget_session: true drops the id after the result
How stdout is spoilt:
  stdout         raw text instead of all documents; \\udc80 to \\udcff in it are the bytes 0x80 to 0xff
  bom, crlf      booleans; array: true is the array form, as json with --verbose prints it
  cut            bytes cut from the end; at most the result and what follows it
Signals: TERM and HUP end an act that has a sleep, hang, flood or ignore with 143 and 129 (any other dies of
them, as the real program does while it starts). INT ends every act with 0 and
  on_int         "nothing" or "result" (an error_during_execution result, terminal_reason aborted_tools);
                 by default "nothing" in sleep and hang, "result" anywhere between
Any string may hold {session}, {poke} (acts played, this one included) and, N seconds from the act's start,
  {now+N}        epoch seconds, and {ms+N} milliseconds: numbers where they are the whole string
  {digits+N}     epoch seconds, always text;  {iso+N} 2026-11-30T15:05:00Z
  {clock+N}      "3:05pm" and {clock24+N} "15:05" in the zone of the process
"""

from __future__ import annotations

VERSION = "2.1.332"  # the program whose measured behaviour is played


def launcher(interpreter: str, tape: str | None = None) -> str:
    """The text of an executable file that is the program, with its tape built in or left to the environment.

    `interpreter` must be absolute and short (the kernel reads 127 bytes of the first line).
    """
    root = __file__.removesuffix("/watcher/scripted_agent/__init__.py")
    return (
        f"#!{interpreter} -IS\n"
        "import os, sys\n"
        f"sys.path.append({root!r})\n"
        "from watcher.scripted_agent.play import main\n"
        f"os._exit(main(sys.argv[1:], {tape!r}))\n"
    )
