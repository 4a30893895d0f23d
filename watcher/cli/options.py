"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

F = TypeVar("F", bound=Callable[..., int])


def config_option(function: F) -> F:
    """`--config FILE`. Whether it can be read is for the configuration to say, with its own exit code."""
    kind = click.Path(path_type=Path, readable=False)
    return click.option("--config", "config_file", type=kind, help="Configuration to use.")(function)
