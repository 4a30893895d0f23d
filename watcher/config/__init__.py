"""The configuration of one project: typed, checked, each value with where it came from (H 12.1, 14.3).

schema.py  the table: every key, type, default, meaning and origin
files.py   which file, and what it says        trust.py     who could have changed it
values.py  one value against its row           together.py  values against one another
layers.py  defaults < file < environment < command line
show.py    for a person's eyes
"""

from watcher.config.errors import ConfigError
from watcher.config.files import known_names
from watcher.config.layers import Loaded, load, reload
from watcher.config.schema import Config
from watcher.config.show import defaults_table, render_origin

__all__ = [
    "Config",
    "ConfigError",
    "Loaded",
    "defaults_table",
    "known_names",
    "load",
    "reload",
    "render_origin",
]
