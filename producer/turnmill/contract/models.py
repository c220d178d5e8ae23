"""What is known of models by their names: the window, and whose tokens theirs are like.

The package's table is ``models.json``, written from genai-prices by ``tools/models_table.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from pydantic import Field, TypeAdapter, ValidationError

from turnmill.contract.errors import InvalidPolicy
from turnmill.contract.formats import Strict
from turnmill.contract.image_tokens import DEFAULT_FORMULA

_DATED: Final = re.compile(r"(-latest|[-@]\d{8}|-\d{4}-\d{2}-\d{2}|-0)\Z")


class Model(Strict):
    """One line of a table.

    Attributes:
        window: tokens of request and reply together.
        reply: of them, those that are set apart for the reply.
        encoding, ratio, image_formula: the policy's ``encoding``, ``token_ratio`` and
            ``image_formula``.
    """

    window: int = Field(ge=1024)
    reply: int = Field(default=0, ge=0)
    encoding: str = "o200k_base"
    ratio: float = Field(default=1.0, ge=0.5, le=4.0)
    image_formula: str = DEFAULT_FORMULA


_TABLE: Final = TypeAdapter(dict[str, Model])

_ALLOWED: Final = (
    "A table has, for each name, a window of 1,024 tokens or more, and may have reply, encoding, "
    "ratio (0.5 to 4) and image_formula, and nothing else"
)


@cache
def known_models() -> Mapping[str, Model]:
    """The package's table."""
    body = resources.files("turnmill.contract").joinpath("models.json").read_bytes()
    return _TABLE.validate_json(body)


def preset_for(
    name: str, own: Mapping[str, Any] | str | None, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of a policy for the model, with these before what follows from it.

    Raises:
        InvalidPolicy: as ``model_named``; or the model has a smaller window than ``max_tokens``.
    """
    known = model_named(name, own)
    most = fields.get("max_tokens", known.window)
    if isinstance(most, int) and most > known.window:
        raise InvalidPolicy(f"max_tokens {most} exceeds the {known.window} of {name[:100]!r}")
    # What a smaller limit leaves of the window has room for the reply, too.
    left = known.window - most if isinstance(most, int) else 0
    return {
        "max_tokens": known.window,
        "reserved_tokens": max(known.reply - left, 0),
        "encoding": known.encoding,
        "token_ratio": known.ratio,
        "image_formula": known.image_formula,
        **fields,
    }


def model_named(name: str, own: Mapping[str, Any] | str | None = None) -> Model:
    """What is known of a model; ``own`` is a table, or a JSON file with one, before the package's.

    A provider before the name and a date behind it make no difference.

    Raises:
        InvalidPolicy: no such model; names those that are near. Or the table is none.
    """
    table = {**known_models(), **_own(own)}
    found = table.get(name) or {_short(each): table[each] for each in table}.get(_short(name))
    if found is None:
        from difflib import get_close_matches  # noqa: PLC0415 - for a mistake only

        near = get_close_matches(_short(name), table, n=3) or list(table)
        raise InvalidPolicy(
            f"model: {name[:100]!r} is not in the table; near are {', '.join(near[:3])}. "
            "models= takes a table of your own"
        )
    return found


def _own(own: Mapping[str, Any] | str | None) -> Mapping[str, Model]:
    try:
        if isinstance(own, str):
            with open(own, "rb") as file:  # noqa: PTH123 - this room knows no pathlib
                return _TABLE.validate_json(file.read())
        return _TABLE.validate_python(own or {})
    except OSError as error:
        raise InvalidPolicy(f"models: {own!r} cannot be read ({error.strerror})") from None
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[:3]
        said = [".".join(map(str, one["loc"])) + f": {one['msg']}" for one in found]
        raise InvalidPolicy(f"models: {'; '.join(said).lstrip(': ')}. {_ALLOWED}") from None


def _short(name: str) -> str:
    return _DATED.sub("", re.split(r"[/:]", name.lower())[-1])
