"""BEAM's conversations, as `retrieval` reads them: a user and an assistant that answers at length.

They come from the repository mohammadtavakoli78/BEAM, which has no licence: fetch it, and give its
folder, a checkout or its bare git directory. Chats 1 to 8 of 100,000 tokens are read; all others
are kept aside, to check what was found with these.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnmill_worker.archive.memories import MAX_TEXT

__all__ = ["FACTS", "OTHERS", "conversations"]

CHATS = range(1, 9)
FACTS = ("information_extraction", "knowledge_update")
OTHERS = ("contradiction_resolution", "multi_session_reasoning", "temporal_reasoning")


def conversations(folder: Path, kinds: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Each chat with its questions of these kinds, whose evidence are messages by their place."""
    for chat in CHATS:
        said = list(_messages(_read(folder, chat, "chat.json")))
        place = {message["id"]: at for at, message in enumerate(said)}
        probes = _read(folder, chat, "probing_questions/probing_questions.json")
        asked = [probe for kind in kinds for probe in probes[kind]]
        evidence = [set(_numbers(probe.get("source_chat_ids"))) & set(place) for probe in asked]
        yield {
            "session_id": f"beam-{chat}",
            # As the archive has them.
            "messages": [{**each, "content": each["content"].strip()[:MAX_TEXT]} for each in said],
            "qa": [
                {"question": probe["question"], "evidence": sorted(place[id_] for id_ in ids)}
                for probe, ids in zip(asked, evidence, strict=True)
            ],
        }


def _read(folder: Path, chat: int, name: str) -> Any:
    path = f"chats/100K/{chat}/{name}"
    if (folder / path).exists():
        return json.loads((folder / path).read_text(encoding="utf-8"))
    show = ["git", f"--git-dir={folder}", "show", f"HEAD:{path}"]
    return json.loads(subprocess.check_output(show))


def _messages(batches: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for turns in batch["turns"]:
            yield from turns


def _numbers(found: object) -> Iterator[int]:
    """Ids of messages, however a kind of question nests them."""
    if isinstance(found, int):
        yield found
    elif isinstance(found, list | dict):
        for item in found.values() if isinstance(found, dict) else found:
            yield from _numbers(item)
