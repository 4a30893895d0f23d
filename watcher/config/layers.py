"""Lay the sources over one another: defaults, file, environment, command line; the later one wins."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from watcher.config import together, trust
from watcher.config.errors import ConfigError
from watcher.config.files import SYSTEM_DIR
from watcher.config.schema import Config, table
from watcher.config.show import value_of
from watcher.config.sources import Sources, from_command_line, from_environment, from_file, locate
from watcher.config.values import Given, checked

FIXED_KEYS = ("project", "shift", "state.root", "state.work_root")  # a run's lock and records hang on them
RIVALS = ("watch.standing_command", "watch.standing_command_file")  # two ways to say one thing


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration, and where each value of it came from."""

    config: Config
    path: Path | None  # the file read, if any
    origins: Mapping[str, str]  # dotted key -> "default", a file, "environment NAME" or "command line"
    warnings: tuple[str, ...] = ()
    sources: Sources


def load(
    project: str,
    *,
    environ: Mapping[str, str],
    overrides: Mapping[str, object],
    config_file: Path | None = None,
    cwd: Path,
    system_dir: Path = SYSTEM_DIR,
) -> Loaded:
    """The configuration of PROJECT, a path or a NAME.

    `overrides` holds what the command line says by dotted key; None is "not given". `config.project` is
    absolute, with links unresolved; whether it exists is not asked. Raises ConfigError.
    """
    return _load(
        Sources(
            project=project,
            environ={name: value for name, value in environ.items() if name in _variables()},
            overrides=dict(overrides),
            config_file=config_file,
            cwd=cwd,
            system_dir=system_dir,
        )
    )


def reload(loaded: Loaded) -> Loaded:
    """Read the same sources again (HUP). Raises ConfigError, also for what a running shift cannot follow."""
    new = _load(loaded.sources)
    if loaded.path is not None and new.path is None:
        raise ConfigError("the configuration is gone: put it back, or stop the run", where=str(loaded.path))
    for key in FIXED_KEYS:
        was, now = (value_of(each.config, key) for each in (loaded, new))
        if was != now:
            raise ConfigError(
                f"{key} has changed from {was!r} to {now!r}, which a running shift cannot follow: restart it",
                where=new.origins[key],
                key=key,
            )
    return new


def _load(sources: Sources) -> Loaded:
    located = locate(sources)
    document = located.document
    if document:
        trust.refuse_what_others_write(document.path, str(located.project.value))
    given = _layered(
        {**(dict(from_file(document)) if document else {}), "project": located.project},
        dict(from_environment(sources.environ)),
        dict(from_command_line(sources.overrides)),
    )
    values = {
        key: checked(entry, given[key]) if key in given else entry.default for key, entry in table().items()
    }
    base = document.path.parent if document else sources.cwd
    config = _built(_completed(values, base, sources.cwd, given))
    together.refuse_contradictions(config, given)
    return Loaded(
        config=config,
        path=document.path if document else None,
        origins={key: given[key].origin if key in given else "default" for key in table()},
        warnings=(*located.warnings, *together.warnings(config, document)),
        sources=sources,
    )


@functools.cache
def _variables() -> frozenset[str]:
    """The variables this module looks at; the others are none of its business, and may be secrets."""
    return frozenset({"HOME", "XDG_CONFIG_HOME", *(entry.row.env for entry in table().values())})


def _layered(*layers: dict[str, Given]) -> dict[str, Given]:
    """One layer over the other. Of two keys that say one thing, the later layer's stands alone."""
    result: dict[str, Given] = {}
    for layer in layers:
        if any(key in layer for key in RIVALS):
            result = {key: value for key, value in result.items() if key not in RIVALS}
        result |= layer
    return result


def _completed(values: dict[str, Any], base: Path, cwd: Path, given: Mapping[str, Given]) -> dict[str, Any]:
    """With what follows from other values filled in."""
    command, profile = values["agent.command"], values["agent.profile"]
    file = values["watch.standing_command_file"]
    if file:
        file = str((cwd if given["watch.standing_command_file"].usage else base) / file)
    return {
        **values,
        "agent.command": command if command or profile == "custom" else (profile,),
        "watch.standing_command_file": file,
    }


def _built(values: Mapping[str, Any]) -> Config:
    parts: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        parts.setdefault(section, {})[name] = value
    top = parts.pop("")
    return Config(**top, **{name: _kinds()[name](**part) for name, part in parts.items()})


@functools.cache
def _kinds() -> Mapping[str, Any]:
    """The types of the configuration's sections; asking for them is slow, and `status` loads many files."""
    return {field.name: field.type for field in msgspec.structs.fields(Config)}
