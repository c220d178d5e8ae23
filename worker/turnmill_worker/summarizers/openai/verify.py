"""Whether what a model states can be believed: each item alone, against the messages it cites.

No list of words is asked, so it is the same in every language: words, values and quotations of an
item must stand in the messages, and who said them decides what they may be taken for.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from turnmill_worker.compaction.items import OPEN, Item, content, says
from turnmill_worker.reading.passages import USER, Reading, sentences
from turnmill_worker.reading.words import CAPS, IDENTIFIERS, kind_of
from turnmill_worker.summarizers.openai.prompts import Entry

Reason = Literal[
    "empty",
    "long",
    "loop",
    "marks",
    "prompt",
    "not-the-users",
    "from-a-tool",
    "unknown-message",
    "unknown-value",
    "stale",
    "unsupported",
    "copied",
    "stated",
    "duplicate",
    "unreliable",
]
"""Why an item is dropped."""

LEAST_CITED: Final = 0.5
"""So many of an item's words stand in the messages it cites."""

LEAST_SAID: Final = 0.6
"""So many stand in the messages altogether: a model may use some words of its own."""

_VALUES: Final = 2
"""So many values that all stand in those say enough of what an item rests on."""

LEAST_BY_USER: Final = 0.5
"""So many stand in what the user said or answered, where an item says so of the user."""

_SAME: Final = 0.8
"""What another line says to so large a part need not be said again."""

_LONGEST: Final = 60
_OF_PROMPT: Final = 7
"""Words: of an item at most, and in a row as in the prompt."""

_COPIED, _LEAST_COPIED, _COPY = 3, 6, 0.9
"""Words in a row as in a message; so many such rows make a copy, and this part of all rows."""

_LEAST_WORDS: Final = 3
"""Words that say something: an item with fewer says nothing."""

_TELLING: Final = 12
"""As many make a message that a sentence is shorter than."""

_LEAST_QUOTE: Final = 8
_IN_A_ROW: Final = (1, 2, 3)
"""Characters of a quotation that says who said it, and sentences that it may reach over."""

_LOOP: Final = 3
_AGAIN: Final = 3
"""So many words in a row that stand in an item so often."""

LEAST_LOCATED: Final = 0.6
"""So many stand in the message that it is taken to rest on, where it names none."""

_USER = re.compile(r"\buser\b", re.IGNORECASE)
_SPEAKERS: Final = content("user assistant tool")
"""The names that the marks give to whoever speaks: the prompt's words, in any language."""

_SPELLING = re.compile(r"(?<=\d),(?=\d)|(?<![\d.,])0+(?=\d)")
"""What may differ in two spellings of a number: 1,250 and 1250, 03:00 and 3:00."""

_TOKEN = re.compile(r"[#$€£@/~]?\w+(?:[.,:/@+'’&%=?-]+\w+)*%?")
_IN_QUOTES = re.compile(r"[\"“„«`]([^\"“”„«»`\n]{2,200})[\"”“»`]")
_TYPOGRAPHY: Final = str.maketrans(
    dict.fromkeys('‘’“”„«»"', "'") | {"–": "-", "—": "-", "\u00a0": " "}
)
_USERS_OWN: Final = frozenset({"rule", "said"})
"""What stands in the user's words."""

_SPOKEN: Final = frozenset({"user", "assistant"})
_OF_SPEAKERS: Final = frozenset({"decision", "todo", "doing", "done", "question"})
"""What users and assistants decide, do and ask; a page or a tool that says so decides nothing."""

_FOUND: Final = frozenset({"decision", "question", "finding", "error", "artifact"})
"""What may be found where nobody was said to say it; small models call nearly all decided."""

_MISPLACED: Final = frozenset({"unsupported", "unknown-value", "from-a-tool"})
"""What may be so because the wrong messages are named."""


def plain(text: str) -> str:
    """A text as it is compared: in one case, with one kind of spaces and quotation marks."""
    return " ".join(text.translate(_TYPOGRAPHY).split()).lower()


class Messages:
    """The messages that a model was shown, to look up what stands in them and who said it.

    Args:
        entries: as they were shown.
        readings: of the same messages, where they were read: whose words a user's message has.
    """

    def __init__(self, entries: Sequence[Entry], readings: Iterable[Reading] = ()) -> None:
        self._texts: dict[int, list[str]] = defaultdict(list)
        self._spoken: dict[int, list[str]] = defaultdict(list)
        self._users: dict[int, list[str]] = defaultdict(list)
        self._words: dict[tuple[int, bool], frozenset[int]] = {}
        for entry in entries:
            self._texts[entry.seq].append(entry.text)
            if entry.role in _SPOKEN:
                self._spoken[entry.seq].append(entry.text)
            if entry.role == "user" and entry.seq:
                self._users[entry.seq].append(entry.text)
        own: dict[int, list[str]] = defaultdict(list)
        for reading in readings:
            own[reading.seq] += [each.text for each in reading.passages if each.source == USER]
        self._sentences = {
            seq: own[seq] if seq in own else list(sentences("\n".join(texts)))
            for seq, texts in self._users.items()
        }
        self._plain_own: dict[int, str] = {}
        self._plain = {seq: plain("\n".join(texts)) for seq, texts in self._texts.items()}
        self.seqs = frozenset(seq for seq in self._texts if seq)
        self._all: frozenset[int] | None = None

    def has_copy(self, text: str) -> bool:
        """Whether nearly all of a text stands in one message as it is: the passages do that."""
        words = plain(text).split()
        rows = [" ".join(words[at : at + _COPIED]) for at in range(len(words) - _COPIED + 1)]
        whole = " ".join(words).rstrip(".")
        return any(
            whole in said
            or sum(row in said for row in rows) >= _COPY * max(len(rows), _LEAST_COPIED)
            for said in self._plain.values()
        )

    def stands(self, value: str, seqs: Iterable[int]) -> bool:
        """Whether a value stands in one of these messages, as a whole."""
        wanted, said = plain(value), "\n".join(self._plain[seq] for seq in seqs)
        return _is_whole_in(said, wanted) or (
            any(map(str.isdigit, wanted))
            and _is_whole_in(_SPELLING.sub("", said), _SPELLING.sub("", wanted))
        )

    def named_after(self, value: str, seqs: Iterable[int]) -> bool:
        """Whether a value stands in a message behind all of these: what was open may be done."""
        last = max(seqs)
        return any(self.stands(value, (seq,)) for seq in self._plain if seq > last)

    def words(self, seqs: Iterable[int], *, spoken: bool = False) -> frozenset[int]:
        """What these messages say; only what people and the assistant say, if ``spoken``."""
        return frozenset().union(*[self._of(seq, spoken=spoken) for seq in seqs])

    @property
    def all_words(self) -> frozenset[int]:
        """What all of them say."""
        if self._all is None:
            self._all = self.words(self._texts)
        return self._all

    def spoken_in(self, seq: int) -> bool:
        """Whether the user or the assistant says something there."""
        return seq in self._spoken

    def users(self, seq: int) -> bool:
        """Whether the user speaks there."""
        return seq in self._users

    def only_user(self, seq: int) -> bool:
        """Whether nobody but the user speaks there."""
        return len(self._users.get(seq, ())) == len(self._texts[seq]) > 0

    def users_words(self, quote: str, first: Iterable[int]) -> tuple[str, int]:
        """The sentences of the user's own in which a quotation stands, and their message.

        Best in one of these; "" if it stands in none. A part of a sentence can turn it around.
        """
        wanted = plain(quote)
        for seq in dict.fromkeys((*first, *self._users)):
            own = self._sentences.get(seq, ()) if wanted in self._users_plain(seq) else ()
            rows = (own[at : at + many] for many in _IN_A_ROW for at in range(len(own)))
            said = next((row for row in map(" ".join, rows) if wanted in plain(row)), "")
            if said:
                return said, seq
        return "", 0

    def users_nearest(self, words: frozenset[int], seqs: Iterable[int]) -> tuple[str, int]:
        """The sentence of the user's own there that says most of these words; "" if none does."""
        said = [(own, seq) for seq in seqs for own in self._sentences.get(seq, ())]
        best = max(said, key=lambda each: len(words & content(each[0])), default=("", 0))
        return best if says(content(best[0]), words, least=LEAST_BY_USER) else ("", 0)

    def is_pasted(self, words: frozenset[int], seqs: Iterable[int]) -> bool:
        """Whether a message there says this, and the user's own sentences in it do not."""
        own = "\n".join(one for seq in seqs for one in self._sentences.get(seq, ()))
        said = says(self.words(seqs), words, least=LEAST_SAID)
        return said and not says(content(own), words, least=LEAST_BY_USER)

    def is_users(self, text: str, seqs: Iterable[int]) -> bool:
        """Whether these are words of the user there."""
        wanted = plain(text)
        return any(wanted in self._users_plain(seq) for seq in seqs)

    def telling(self, shown: str, most: int) -> list[int]:
        """Those in ``shown`` that say most, of the assistant's and of tools; oldest first."""
        words = {seq: len(self._of(seq)) for seq in self.seqs if not self.users(seq)}
        seqs = [seq for seq in words if words[seq] >= _TELLING and f"#{seq} " in shown]
        return sorted(sorted(seqs, key=lambda seq: -words[seq])[:most])

    def nearest(self, text: str) -> int:
        """The message that says most of it, and all its values; 0 if none says enough."""
        words, values = content(text), values_of(text)
        having = [seq for seq in self.seqs if all(self.stands(each, (seq,)) for each in values)]
        best = max(having, key=lambda seq: (len(words & self._of(seq)), seq), default=0)
        said = self._of(best) | content(" ".join(values)) if best else frozenset()
        return best if says(said, words, least=LEAST_LOCATED) else 0

    def _users_plain(self, seq: int) -> str:
        if seq not in self._plain_own:
            self._plain_own[seq] = plain(" ".join(self._sentences.get(seq, ())))
        return self._plain_own[seq]

    def _of(self, seq: int, *, spoken: bool = False) -> frozenset[int]:
        found = self._words.get((seq, spoken))
        if found is None:
            texts = (self._spoken if spoken else self._texts).get(seq, ())
            found = self._words[seq, spoken] = content("\n".join(texts))
        return found


_FADE: Final = 0.98
"""What an item counts after the next one: some fifty of them are remembered."""

_MADE_UP: Final = frozenset(
    {"unknown-message", "unknown-value", "unsupported", "from-a-tool", "loop", "prompt", "marks"}
)
_SAID_ALREADY: Final = frozenset({"copied", "stated", "duplicate", "stale"})
"""Reasons that say something of a model: what it makes up, and what is true and not new."""


_BENEFIT: Final = 2
"""So many more may be made up than not, before a model is not believed."""


class Standing:
    """How much of what a model stated lately was made up.

    Words can be checked and not what they say together: of a model that mostly makes up what can
    be checked, the rest is not believed either. One is kept for each model of a process.
    """

    def __init__(self) -> None:
        self._right = self._wrong = 0.0

    def note(self, right: int, wrong: int) -> None:
        """So many more items were."""
        fade = _FADE ** (right + wrong)
        self._right, self._wrong = self._right * fade + right, self._wrong * fade + wrong

    @property
    def is_good(self) -> bool:
        """Whether the model is believed."""
        return self._wrong < self._right + _BENEFIT


class Verifier:
    """Lets through what can be believed and is new, item by item.

    Attributes:
        dropped: how many items were not, by reason.
        messages: what it compares items with.
    """

    def __init__(
        self,
        messages: Messages,
        *,
        prompt: str,
        nonce: str,
        known: Iterable[Item] = (),
        stated: Iterable[str] = (),
        standing: Standing | None = None,
    ) -> None:
        """Nothing was looked at yet.

        Args:
            messages: what the model was shown.
            prompt: what it was told to do.
            nonce: the code of the request's marks.
            known: items that stand already.
            stated: rules and requests that do.
            standing: of the model that is asked.
        """
        self._standing = standing or Standing()
        self.dropped: Counter[str] = Counter()
        self.messages = messages
        self._prompt, self._nonce = plain(prompt), nonce
        self._stated = [content(text) for text in stated]
        self._known = [item.words for item in known]

    def verified(self, items: Iterable[Item]) -> list[Item]:
        """The items that may stand, with the messages and words that they do rest on."""
        found, right, wrong = [], 0, 0
        for item in items:
            held = self.held(item)
            if not isinstance(held, Item):
                self.dropped[held] += 1
                right += held in _SAID_ALREADY
                wrong += held in _MADE_UP
                continue
            self._known.append(held.words)
            found.append(held)
        self._standing.note(right + len(found), wrong)
        if self._standing.is_good:
            return found
        own = [item for item in found if item.kind in _USERS_OWN]
        if len(own) < len(found):
            self.dropped["unreliable"] += len(found) - len(own)
        return own

    def held(self, item: Item) -> Item | Reason:
        """The item as it may stand, or why it must not.

        What the messages it names do not say may be the user's own words in another. Nothing else
        is looked for elsewhere: a small model that names the wrong message has mixed them up.
        """
        item = item._replace(text=_whole_sentences(item.text))
        held = self._tried(item)
        if held not in _MISPLACED:
            return held
        own = self._tried(item._replace(kind="said", quote=item.text))
        return own._replace(quote="") if isinstance(own, Item) else held

    def _tried(self, item: Item) -> Item | Reason:
        placed = self.placed(item)
        return (self.fault(placed) or placed) if isinstance(placed, Item) else placed

    def placed(self, item: Item) -> Item | Reason:
        """The item with the messages it rests on.

        What rests on the user's messages alone is told in the user's words, whatever was made of
        them: a model only chooses which. What they paste there is found. A decision that rests on
        a message of the user too has a quotation of theirs, for a yes is easily taken for a no.
        Other quotations decide nothing: where a schema asks for one in every item, models write
        something there.
        """
        messages = self.messages
        seqs = tuple(seq for seq in item.seqs if seq in messages.seqs)
        if item.kind in _USERS_OWN:
            words, seq = self._said(item.quote or item.text, seqs)
            return item._replace(text=words, seqs=(seq,)) if words else "not-the-users"
        if not seqs:
            # Nothing is decided or done in a message that was not meant: there it is only found.
            where = messages.nearest(item.text) if item.kind in _FOUND else 0
            if not where:
                return "unknown-message"
            seqs = (where,)
            item = _as_found(item)
        words, seq = self._said(item.quote, seqs)
        if all(map(messages.only_user, seqs)):
            if not words and item.kind in _FOUND and messages.is_pasted(item.words, seqs):
                return _as_found(item)._replace(seqs=seqs)
            if not words:
                words, seq = messages.users_nearest(item.words, seqs)
            return Item("said", words, (seq,)) if words else "not-the-users"
        decides = item.kind == "decision" and any(map(messages.users, seqs))
        if decides or _USER.search(item.text):
            return item._replace(seqs=tuple(sorted({*seqs, seq}))) if words else "not-the-users"
        return item._replace(seqs=seqs)

    def _said(self, quote: str, seqs: Iterable[int]) -> tuple[str, int]:
        return self.messages.users_words(quote, seqs) if len(quote) >= _LEAST_QUOTE else ("", 0)

    def fault(self, item: Item) -> Reason | None:
        """Why an item must not stand; None if it may. It is checked as it would be shown."""
        return (
            self._form(item)
            or self._rests(item)
            or ("stated" if _stands_in(self._stated, item) else None)
            or ("duplicate" if _stands_in(self._known, item) else None)
        )

    def _form(self, item: Item) -> Reason | None:
        words = plain(item.text).split()
        if len(item.words) < (1 if item.kind == "artifact" else _LEAST_WORDS):
            return "empty"
        if self._nonce in item.text:
            return "marks"
        if len(words) > _LONGEST:
            return "long"
        runs = Counter(zip(*(words[at:] for at in range(_LOOP)), strict=False))
        if runs and max(runs.values()) >= _AGAIN:
            return "loop"
        rows = (" ".join(words[at : at + _OF_PROMPT]) for at in range(len(words) - _OF_PROMPT + 1))
        if any(row in self._prompt for row in rows):
            return "prompt"
        return None

    def _rests(self, item: Item) -> Reason | None:
        """Whether words and values stand in the messages, said by somebody who can say it."""
        messages = self.messages
        if item.kind in _USERS_OWN:
            return None if messages.is_users(item.text, item.seqs) else "not-the-users"
        if item.kind in _OF_SPEAKERS and not any(map(messages.spoken_in, item.seqs)):
            return "from-a-tool"
        values = values_of(item.text)
        if wrong := self._values(item, values):
            return wrong
        own = item.words - _SPEAKERS
        cited = messages.words(item.seqs, spoken=item.kind in _OF_SPEAKERS)
        is_cited = len(values) >= _VALUES or says(cited, own, least=LEAST_CITED)
        said = messages.all_words | content(" ".join(values))  # however they are spelled there
        if not is_cited or not says(said, own, least=LEAST_SAID):
            return "unsupported"
        if _USER.search(item.text) and not self._of_user(item.seqs, own):
            return "not-the-users"
        return "copied" if item.kind != "artifact" and messages.has_copy(item.text) else None

    def _values(self, item: Item, values: Iterable[str]) -> Reason | None:
        """Whether the messages that are cited name all values, and none later names one again."""
        messages = self.messages
        if any(not messages.stands(value, item.seqs) for value in values):
            return "unknown-value"
        later = item.kind in OPEN and any(messages.named_after(own, item.seqs) for own in values)
        return "stale" if later else None

    def _of_user(self, seqs: Iterable[int], words: frozenset[int]) -> bool:
        """Whether the user said it there, or answered to it."""
        own = [seq for seq in seqs if self.messages.users(seq)]
        around = (*own, *(seq - 1 for seq in own))
        return says(self.messages.words(around, spoken=True), words, least=LEAST_BY_USER)


def _as_found(item: Item) -> Item:
    """The item without a claim that somebody decided it."""
    return item._replace(kind="finding") if item.kind == "decision" else item


def _whole_sentences(text: str) -> str:
    """The first sentences of a text, as far as an item may be long; all of it if the first is."""
    if len(text.split()) <= _LONGEST:
        return text
    said = list(sentences(text))
    while len(said) > 1 and len(" ".join(said).split()) > _LONGEST:
        said.pop()
    return " ".join(said)


def _stands_in(said: Iterable[frozenset[int]], item: Item) -> bool:
    return any(says(own, item.words, least=_SAME) for own in said)


def _is_whole_in(text: str, value: str) -> bool:
    """Whether a value stands in a text, and not only as a part of another one."""
    at = text.find(value)
    while at >= 0:
        end = at + len(value)
        joins = text[max(at - 1, 0) : at].isalnum() and value[0].isalnum()
        if not joins and not (text[end : end + 1].isalnum() and value[-1].isalnum()):
            return True
        at = text.find(value, at + 1)
    return False


def values_of(text: str) -> list[str]:
    """The identifiers, amounts, paths, addresses and quoted words in a text."""
    found = [quoted[1].strip(" .,;:!?") for quoted in _IN_QUOTES.finditer(text)]
    for token in _TOKEN.findall(text):
        kind = kind_of(token)
        if kind in IDENTIFIERS and kind != CAPS:
            found.append(token.strip("#$€£@%~"))
    return [value for value in found if value]


def counted(dropped: Mapping[str, int], kept: int) -> dict[str, int]:
    """How many items were kept, and how many dropped for which reason, as it is recorded."""
    return {"kept": kept, **dict(sorted(dropped.items(), key=lambda each: (-each[1], each[0])))}
