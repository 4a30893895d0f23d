"""Runs the scripted agent, as a script (fast) or with -m."""

import os
import sys

if not __package__:  # -I leaves the script's directory off the path
    sys.path.append(__file__.removesuffix("/watcher/scripted_agent/__main__.py"))

from watcher.scripted_agent.play import main

if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # everything is written by then; tearing the interpreter down costs 1 ms
