"""The never-sleeping harness: keeps a coding agent working with nobody at the keyboard.

poke      one start-work-end cycle of the agent program                (watcher/poke.py)
response  its output, read into a value that is never an exception     (watcher/response.py)
decision  what that means and what to do next, as pure rules           (watcher/decision/)
effect    wait, publish, notify: each safe to do twice                 (watcher/effect/)
record    what happened, on disk before the next effect starts         (watcher/record/)

Start reading at watcher/watch.py.
"""

__version__ = "0.1.0"
