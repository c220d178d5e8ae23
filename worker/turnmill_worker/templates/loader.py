"""Where templates are found: the user's folders in order, then the built-in ones."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path

from turnmill.contract.errors import InvalidName, InvalidTemplate, UnknownTemplate
from turnmill.contract.names import template_name
from turnmill_worker.templates.template import BUILT_IN, MAX_BYTES, Template, parse_template

SUFFIX = ".md"

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A template file that was found.

    Attributes:
        source: its path, or ``built-in``.
        template: None when it is not valid.
        problem: why it is not, or ``""``.
        shadowed_by: source of the one that is loaded in its place, or ``""``.
    """

    name: str
    source: str
    template: Template | None
    problem: str = ""
    shadowed_by: str = ""


class TemplateLoader:
    """Loads templates by name; an edited file takes effect with the next ``load``.

    Args:
        dirs: folders, searched in order, before the built-in templates; ``~`` is the home folder,
            and a folder that does not exist counts as empty.
    """

    def __init__(self, dirs: Sequence[Path] = ()) -> None:
        self.dirs = tuple(dict.fromkeys(_absolute(folder) for folder in dirs))
        self._cache: dict[Path, tuple[_Stamp, Template]] = {}

    def load(self, name: str) -> Template:
        """The first template of this name.

        Raises:
            InvalidName: the name is no plain file name.
            UnknownTemplate: there is none; the message lists what there is.
            InvalidTemplate: the first file of this name is not valid. It is not passed over:
                another template than the one meant would be worse.
        """
        checked = template_name(name)
        for folder in self.dirs:
            found = self._load_file(folder / f"{checked}{SUFFIX}")
            if found is not None:
                return found
        built_in = built_in_templates().get(checked)
        if built_in is not None:
            return built_in
        raise UnknownTemplate(f"no template is named {checked!r}; there are {self._known()}")

    def list(self) -> tuple[Listed, ...]:
        """All templates by name, those of one name in the order of the search.

        Raises:
            InvalidTemplate: a folder cannot be read.
        """
        found = [self._listed(path) for folder in self.dirs for path in _files(folder)]
        found += [_listed_template(each) for each in built_in_templates().values()]
        first: dict[str, str] = {}
        listed = []
        for each in filter(None, found):
            winner = first.setdefault(each.name, each.source)
            by = "" if winner == each.source else winner
            listed.append(replace(each, shadowed_by=by))
        return tuple(sorted(listed, key=lambda each: each.name))

    def _known(self) -> str:
        in_folders = {path.stem for folder in self.dirs for path in _files(folder)}
        return ", ".join(sorted(in_folders | built_in_templates().keys()))

    def _listed(self, path: Path) -> Listed | None:
        """The file; None when it is gone by now, or a link to nothing."""
        try:
            template_name(path.stem)
            template = self._load_file(path)
            return _listed_template(template) if template else None
        except (InvalidName, InvalidTemplate) as error:
            return Listed(name=path.stem, source=str(path), template=None, problem=str(error))

    def _load_file(self, path: Path) -> Template | None:
        """The file's template, read again only when it has changed; None when there is none."""
        try:
            stamp = _stamp(path)
        except (FileNotFoundError, NotADirectoryError):
            self._cache.pop(path, None)
            return None
        except OSError as error:
            raise _unreadable(path, error) from error
        cached = self._cache.get(path)
        if cached is not None and cached[0] == stamp:
            return cached[1]
        template = read_template(path)
        self._cache[path] = (stamp, template)
        return template


def template_dirs(value: str) -> tuple[Path, ...]:
    """The folders in a list as ``PATH`` has it (parted by ``:``; ``;`` on Windows)."""
    return tuple(Path(part) for part in value.split(os.pathsep) if part)


def read_template(path: Path) -> Template:
    """The template in a file.

    Raises:
        InvalidTemplate: it cannot be read, or is none.
    """
    try:
        # A FIFO would block the reader for ever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise InvalidTemplate(f"{path}: not a file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    return parse_template(path.stem, str(path), data)


@cache
def built_in_templates() -> Mapping[str, Template]:
    """The templates that come with turnmill, by name."""
    files = resources.files(__package__).joinpath("builtin").iterdir()
    return {
        name: parse_template(name, BUILT_IN, file.read_bytes())
        for name, file in sorted((file.name.removesuffix(SUFFIX), file) for file in files)
    }


def _absolute(folder: Path) -> Path:
    with suppress(RuntimeError):  # nobody's home: it counts as a folder that does not exist
        folder = folder.expanduser()
    return folder.absolute()


def _files(folder: Path) -> Iterator[Path]:
    try:
        found = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _unreadable(folder, error) from error
    # A leading dot is how editors and file systems mark what is not the user's own.
    yield from (path for path in found if path.suffix == SUFFIX and path.name[0] != ".")


def _stamp(path: Path) -> _Stamp:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _listed_template(template: Template) -> Listed:
    return Listed(name=template.name, source=template.source, template=template)


def _unreadable(path: Path, error: OSError) -> InvalidTemplate:
    return InvalidTemplate(f"{path}: cannot be read: {error.strerror}")
