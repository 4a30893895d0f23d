"""Looking at a project's records, for people and scripts: nothing here writes, locks or waits for a writer.

place.py    which records PROJECT stands for, and whether this user may read them
live.py     who works on them right now, and how that process is woken safely
status.py   one project at a glance, from its checkpoint and the last line of its history
summary.py  that glance in words, and as JSON
lines.py    the newest lines of a long file
logs.py     the watcher log, followed
history.py  a line a poke, and one exchange whole
terminal.py what is printed, and how a command ends

History and log are read in blocks from their end, never whole: they may hold a million lines.
"""
