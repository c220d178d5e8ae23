"""Writes the types of clients/typescript from the server's API; ``--check`` only compares."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnmill import SilentWaker
from turnmill.server.app import Settings, create_api

PAGE = Path(__file__).parents[1] / "clients" / "typescript" / "src" / "types.ts"
HEAD = "// Written by tools/client_types.py from the OpenAPI document of `turnmill serve`.\n"
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def typed(schema: Mapping[str, Any]) -> str:  # noqa: C901, PLR0911 - a case for each kind
    """A schema as a type of TypeScript."""
    match schema:
        case {"$ref": str(place)}:
            return named(place.rpartition("/")[2])
        case {"const": value}:
            return json.dumps(value)
        case {"enum": values}:
            return " | ".join(map(json.dumps, values))
        case {"anyOf": options}:
            return " | ".join(dict.fromkeys(map(typed, options)))
        case {"type": "array", "items": items}:
            return f"Array<{typed(items)}>"
        case {"properties": _}:
            return "{ " + "; ".join(fields(schema)) + " }"
        case {"propertyNames": {"const": name}, "additionalProperties": value}:
            return f"{{ {name}: {typed(value)} }}"
        case {"type": "object", "additionalProperties": Mapping() as value}:
            return f"Record<string, {typed(value)}>"
        case {"type": "object"}:
            return "Record<string, unknown>"
        case {"type": str(kind)}:
            return PLAIN.get(kind, kind)
        case _:
            return "unknown"


def named(schema: str) -> str:
    """The name of a schema; of a call's body it is made of the call's."""
    call = schema.removeprefix("Body_")
    return schema if call == schema else f"{call[0].upper()}{call[1:]}Body"


def fields(schema: Mapping[str, Any]) -> Iterator[str]:
    """The fields of an object."""
    required = schema.get("required", ())
    for name, found in schema["properties"].items():
        yield f"{name}{'' if name in required else '?'}: {typed(found)}"


def content(found: Mapping[str, Any]) -> str:
    """What a body or an answer holds."""
    [schema] = [each["schema"] for each in found.get("content", {"": {"schema": {}}}).values()]
    return typed(schema) if schema else "undefined"


def call(found: Mapping[str, Any]) -> str:
    """What a call takes and answers."""
    by_place: dict[str, list[str]] = {"path": [], "query": []}
    for each in found.get("parameters", ()):
        mark = "" if each["required"] else "?"
        by_place[each["in"]].append(f"{each['name']}{mark}: {typed(each['schema'])}")
    answer = next(value for code, value in found["responses"].items() if code.startswith("2"))
    parts = [f"{place}: {{ {'; '.join(each)} }}" for place, each in by_place.items()]
    parts += [f"body: {content(found.get('requestBody', {}))}", f"answer: {content(answer)}"]
    return f"  {found['operationId']}: {{ {'; '.join(parts)} }};"


def page() -> str:
    """The whole file."""
    settings = Settings(redis="redis://127.0.0.1:1/0", broker=SilentWaker(), no_auth="default")
    document = create_api(settings).openapi()
    calls = [
        (method, path, found)
        for path, methods in document["paths"].items()
        for method, found in methods.items()
    ]
    lines = [HEAD]
    for name, schema in document["components"]["schemas"].items():
        told = re.split(r"\n\s*\n", schema.get("description", ""))[0]
        lines += [f"/** {' '.join(told.split())} */"] if told else []
        lines += [f"export type {named(name)} = {typed(schema)};"]
    lines += ["", "/** Each call by its name. */", "export interface Calls {"]
    lines += [*(call(found) for _, _, found in calls), "}", "", "export const CALLS = {"]
    lines += [f'  {found["operationId"]}: ["{m.upper()}", "{path}"],' for m, path, found in calls]
    return "\n".join([*lines, "} as const;", ""])


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit(f"{PAGE} is not what the API is: run `python tools/client_types.py`")
