"""Text made to cost more tokens than it looks: what `bound_tokens` is fitted to and checked on."""

# ruff: noqa: E501  sentences of many languages, whole

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Iterator
from typing import Any

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
PUNCTUATION = string.punctuation
LETTERS, ALNUM = LOWER + UPPER, LOWER + UPPER + DIGITS
EVERYTHING = ALNUM + PUNCTUATION + " \n"
MARKS = "".join(map(chr, range(0x300, 0x370)))


def _range(*bounds: int) -> str:
    pairs = zip(bounds[::2], bounds[1::2], strict=True)
    return "".join(chr(point) for low, high in pairs for point in range(low, high))


SCRIPTS: dict[str, str] = {
    "cjk": _range(0x4E00, 0x9FFF),
    "cjk rare": _range(0x3400, 0x4DB0),
    "cjk astral": _range(0x20000, 0x20400),
    "compatibility": _range(0xF900, 0xFA60, 0xFF01, 0xFFEF),
    "hangul": _range(0xAC00, 0xD7A3),
    "jamo": _range(0x1100, 0x1200),
    "kana": _range(0x3041, 0x30FF),
    "thai": _range(0xE01, 0xE3A, 0xE40, 0xE5B),
    "lao": _range(0xE81, 0xEDF),
    "amharic": _range(0x1200, 0x1350),
    "tibetan": _range(0xF40, 0xFBC),
    "devanagari": _range(0x900, 0x97F),
    "bengali": _range(0x985, 0x9FA),
    "tamil": _range(0xB85, 0xBFA),
    "telugu": _range(0xC00, 0xC7F),
    "malayalam": _range(0xD00, 0xD7F),
    "sinhala": _range(0xD80, 0xDF4),
    "gurmukhi": _range(0xA05, 0xA75),
    "khmer": _range(0x1780, 0x17F9),
    "myanmar": _range(0x1000, 0x109F),
    "georgian": _range(0x10A0, 0x10FF),
    "cherokee": _range(0x13A0, 0x13F5),
    "mongolian": _range(0x1820, 0x1877),
    "arabic": _range(0x621, 0x652),
    "hebrew": _range(0x5D0, 0x5EA),
    "armenian": _range(0x531, 0x587),
    "cyrillic": _range(0x400, 0x45F),
    "cyrillic rare": _range(0x460, 0x52F),
    "greek": _range(0x370, 0x3FF),
    "latin-1": _range(0x80, 0x100),
    "latin extended": _range(0x100, 0x24F),
    "phonetic": _range(0x250, 0x370),
    "syriac to nko": _range(0x700, 0x7FF),
    "emoji": _range(0x1F300, 0x1FAFF),
    "spaces and dashes": _range(0x2000, 0x206F),
    "arrows and mathematics": _range(0x2190, 0x2400),
    "boxes": _range(0x2500, 0x25FF),
    "symbols": _range(0x2600, 0x27BF),
    "braille": _range(0x2800, 0x28FF),
    "yi": _range(0xA000, 0xA48C),
    "vai": _range(0xA500, 0xA62B),
    "private": _range(0xE000, 0xF8FF),
    "ancient": _range(0x10000, 0x1083F),
    "letters in mathematics": _range(0x1D400, 0x1D7FF),
    "tags": _range(0xE0020, 0xE007F),
    "private astral": _range(0xF0000, 0xF1000, 0x10FF00, 0x10FFFE),
    "any": _range(0x80, 0xD800, 0xE000, 0xFFFE),
}
# Article 1 of the Universal Declaration of Human Rights, or its first words, as people write it in
# Latin letters: words the vocabularies know less well than English.
LANGUAGES: dict[str, str] = {
    "finnish": "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan. Heille on annettu järki ja omatunto, ja heidän on toimittava toisiaan kohtaan veljeyden hengessä.",
    "estonian": "Kõik inimesed sünnivad vabadena ja võrdsetena oma väärikuselt ja õigustelt. Neile on antud mõistus ja südametunnistus ja nende suhtumist üksteisesse peab kandma vendluse vaim.",
    "hungarian": "Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Az emberek, ésszel és lelkiismerettel bírván, egymással szemben testvéri szellemben kell hogy viseltessenek.",
    "turkish": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler.",
    "polish": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu braterstwa.",
    "czech": "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Jsou nadáni rozumem a svědomím a mají spolu jednat v duchu bratrství.",
    "swahili": "Watu wote wamezaliwa huru, hadhi na haki zao ni sawa. Wote wamejaliwa akili na dhamiri, hivyo yapasa watendeane kindugu.",
    "zulu": "Bonke abantu bazalwa bekhululekile belingana ngesithunzi nangamalungelo. Bahlanganiswe wumcabango nangunembeza futhi kufanele baphathane ngomoya wobunye.",
    "indonesian": "Semua orang dilahirkan merdeka dan mempunyai martabat dan hak-hak yang sama. Mereka dikaruniai akal dan hati nurani dan hendaknya bergaul satu sama lain dalam semangat persaudaraan.",
    "tagalog": "Ang lahat ng tao'y isinilang na malaya at pantay-pantay sa karangalan at mga karapatan. Sila'y pinagkalooban ng katwiran at budhi at dapat magpalagayan ang isa't isa sa diwa ng pagkakapatiran.",
    "malagasy": "Teraka afaka sy mitovy zo sy fahamendrehana ny olombelona rehetra. Samy manan-tsaina sy fieritreretana ka tokony hifampitondra am-pirahalahiana.",
    "romaji": "Subete no ningen wa, umarenagara ni shite jiyuu de ari, katsu, songen to kenri to ni tsuite byoudou de aru. Ningen wa, risei to ryoushin to o sazukerarete ori, tagai ni douhou no seishin o motte koudou shinakereba naranai.",
    "pinyin": "Renren sheng er ziyou, zai zunyan he quanli shang yilu pingdeng. Tamen fuyou lixing he liangxin, bing ying yi xiongdi guanxi de jingshen xiang duidai.",
    "vietnamese": "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi. Mọi con người đều được tạo hóa ban cho lý trí và lương tâm và cần phải đối xử với nhau trong tình bằng hữu.",
    "german": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
    "french": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité.",
    "spanish": "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como están de razón y conciencia, deben comportarse fraternalmente los unos con los otros.",
    "italian": "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. Essi sono dotati di ragione e di coscienza e devono agire gli uni verso gli altri in spirito di fratellanza.",
    "dutch": "Alle mensen worden vrij en gelijk in waardigheid en rechten geboren. Zij zijn begiftigd met verstand en geweten, en behoren zich jegens elkander in een geest van broederschap te gedragen.",
    "swedish": "Alla människor är födda fria och lika i värde och rättigheter. De är utrustade med förnuft och samvete och bör handla gentemot varandra i en anda av broderskap.",
    "welsh": "Genir pawb yn rhydd ac yn gydradd â'i gilydd mewn urddas a hawliau. Fe'u cynysgaeddir â rheswm a chydwybod, a dylai pawb ymddwyn y naill at y llall mewn ysbryd cymodlon.",
    "latin": "Omnes homines dignitate et iure liberi et pares nascuntur, rationis et conscientiae participes sunt, quibus inter se concordiae studio est agendum.",
    "basque": "Gizon-emakume guztiak aske jaiotzen dira, duintasun eta eskubide berberak dituztela; eta ezaguera eta kontzientzia dutenez gero, elkarren artean senide legez jokatu beharra dute.",
    "hawaiian": "Hanau kuokoa ia na kanaka apau loa, a ua kau like ka hanohano a me na pono kivila maluna o lakou apau. Ua haawiia mai ia lakou ka noonoo ana a me ka ike pono ana.",
}
EMOJI = "👨‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈 ❤️‍🔥 🧑🏿‍🤝‍🧑🏻 🇺🇸 🇯🇵 👍🏼 🫠 🥹 🧌 1️⃣ ©️ ☺️ 🤷🏻‍♀️".split()  # noqa: SIM905


def hostile(chance: random.Random, size: int) -> Iterator[tuple[str, str]]:
    """Yield (kind, text of about `size` characters) for every kind we know of."""
    for kinds in (_alphabets, _encodings, _words, _alternations, _data, _whitespace, _escapes):
        yield from kinds(chance, size)
    yield from _subsets(chance, size)
    yield from _pronounceable(chance, size)
    yield from _beyond_ascii(chance, size)


def contrived(chance: random.Random, size: int) -> Iterator[tuple[str, str]]:
    """Yield text no bound by neighbouring bytes can be tight and safe on: a few pairs, over and over.

    `tatatata` needs a token every other letter, and English is made of the same pairs.
    """
    for period, alphabet in ((2, EVERYTHING), (3, EVERYTHING), (5, LOWER + " ")):
        yield f"period {period}", (_of(chance, alphabet, period) * size)[:size]
    for _ in range(14):
        first, second = chance.sample(LOWER, 5), chance.sample(EVERYTHING, 9)
        pairs = (chance.choice(first) + chance.choice(second) for _ in range(size // 2))
        yield "few pairs", "".join(pairs)
    yield from _subsets(chance, size, 2, 4)
    for few in (3, 4, 5):
        yield from _syllables(chance, size, few)


def structures(chance: random.Random) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield (kind, messages) whose framing outweighs their text, in turns of several messages."""
    call = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
    custom = {"id": "c", "type": "custom", "custom": {"name": "n", "input": ""}}
    file = {"type": "file", "file": {"file_id": "f"}}
    sound = {"type": "input_audio", "input_audio": {"data": "", "format": "mp3"}}
    shapes: dict[str, dict[str, Any]] = {
        "empty user": {"role": "user", "content": ""},
        "empty assistant": {"role": "assistant", "content": ""},
        "null": {"role": "assistant", "content": None},
        "no content": {"role": "user"},
        "named": {"role": "user", "name": "", "content": ""},
        "tool": {"role": "tool", "tool_call_id": "", "content": ""},
        "legacy function": {"role": "function", "name": "f", "content": ""},
        "calls": {"role": "assistant", "content": None, "tool_calls": [call] * 4},
        "custom calls": {"role": "assistant", "tool_calls": [custom] * 4},
        "texts": {"role": "user", "content": [{"type": "text", "text": ""}] * 5},
        "refusal": {"role": "assistant", "content": [{"type": "refusal", "refusal": ""}]},
        "files": {"role": "user", "content": [file] * 6},
        "sounds": {"role": "user", "content": [sound] * 6},
        "strings": {"role": "user", "content": ["", "a", "b"]},
        "numbers": {"role": "user", "content": [1, 2.5, True, {"a": 1}]},
        "unknown": {"role": "user", "content": "", "x": 1, "y": {"a": [1, 2]}, "z": "w"},
    }
    for kind, message in shapes.items():
        for count in (1, 2, 7, 40):
            yield kind, [message] * count
    for _ in range(20):
        yield "mixed", chance.choices(list(shapes.values()), k=chance.randint(1, 30))


def _of(chance: random.Random, alphabet: str, size: int) -> str:
    return "".join(chance.choices(alphabet, k=size))


def _spaced(
    chance: random.Random, alphabet: str, low: int, high: int, size: int, separator: str = " "
) -> str:
    words = (_of(chance, alphabet, chance.randint(low, high)) for _ in range(size // (low + 1) + 1))
    return separator.join(words)[:size]


def _alphabets(chance: random.Random, size: int) -> Iterator[tuple[str, str]]:
    alphabets = {
        "lower": LOWER,
        "upper": UPPER,
        "letters": LETTERS,
        "alphanumeric": ALNUM,
        "lower and digits": LOWER + DIGITS,
        "digits": DIGITS,
        "punctuation": PUNCTUATION,
        "printable": EVERYTHING,
        "control": _range(0, 32, 127, 128),
        "ascii": _range(0, 128),
        "common letters": "etaoinsrh",
        "vowels": "aeiou",
        "consonants": "bcdfghjklmnpqrstvwxyz",
        "rare letters": "qxzjkvw",
        "middling letters": "dlucmfwyg",
        "nthr": "tnsrhl",
        "teno": "tenoais",
        "accented": LOWER + "éèàüöñçß",
    }
    for kind, alphabet in alphabets.items():
        yield kind, _of(chance, alphabet, size)


def _encodings(chance: random.Random, size: int) -> Iterator[tuple[str, str]]:
    raw = chance.randbytes(size * 3 // 4)
    yield "base64", base64.b64encode(raw).decode()
    yield "base64url", base64.urlsafe_b64encode(raw).decode()
    yield "base32", base64.b32encode(raw[: size * 5 // 8]).decode()
    yield "base85", base64.b85encode(raw).decode()[:size]
    yield "hex", raw[: size // 2].hex()
    yield "HEX", raw[: size // 2].hex().upper()
    ids = [str(uuid.UUID(bytes=chance.randbytes(16))) for _ in range(size // 37 + 1)]
    yield "uuids", "\n".join(ids)[:size]
    yield "quoted uuids", json.dumps(ids)[:size]


def _words(chance: random.Random, size: int) -> Iterator[tuple[str, str]]:
    for low, high in ((1, 9), (2, 4), (3, 3), (5, 5)):
        yield f"words of {low} to {high}", _spaced(chance, LOWER, low, high, size)
    yield "upper words", _spaced(chance, UPPER, 2, 7, size)
    yield "mixed words", _spaced(chance, LETTERS, 3, 9, size)
    yield "words of common letters", _spaced(chance, "etaoinsrhl", 1, 8, size)
    for separator in ",\n_-./\t:'|":
        yield f"words by {separator!r}", _spaced(chance, LOWER, 1, 5, size, separator)
    parts = (_of(chance, LOWER, chance.randint(1, 6)).capitalize() for _ in range(size // 2))
    yield "camel case", "".join(parts)[:size]
    parts = (chance.choice(UPPER) + _of(chance, LOWER, chance.randint(0, 2)) for _ in range(size))
    yield "short camel case", "".join(parts)[:size]
    hosts = (
        f"https://{_of(chance, LOWER, 6)}.{_of(chance, LOWER, 2)}/{_of(chance, ALNUM, 5)}"
        f"?{_of(chance, LOWER, 1)}={_of(chance, ALNUM, 9)}"
        for _ in range(size // 36 + 1)
    )
    yield "urls", " ".join(hosts)[:size]


def _alternations(chance: random.Random, size: int) -> Iterator[tuple[str, str]]:
    pairs = {
        "letter digit": (LOWER, DIGITS),
        "letter punctuation": (LOWER, PUNCTUATION),
        "upper punctuation": (UPPER, PUNCTUATION),
        "digit punctuation": (DIGITS, PUNCTUATION),
        "lower upper": (LOWER, UPPER),
        "digit space": (DIGITS, " "),
        "letter space": (LOWER, " "),
        "upper space": (UPPER, " "),
        "punctuation space": (PUNCTUATION, " "),
        "letter newline": (LOWER, "\n"),
        "digit newline": (DIGITS, "\n"),
        "letter tab": (LOWER, "\t"),
        "letter mark": (LOWER, MARKS),
        "letter cjk": (LOWER, SCRIPTS["cjk"]),
        "any space": (SCRIPTS["any"], " "),
    }
    for kind, (first, second) in pairs.items():
        both = (chance.choice(first) + chance.choice(second) for _ in range(size // 2))
        yield kind, "".join(both)
    for character in _range(0, 128):
        yield f"only {character!r}", character * size
    yield "period 1 of any", chance.choice(SCRIPTS["any"]) * (size // 3)


def _data(chance: random.Random, size: int) -> Iterator[tuple[str, str]]:
    def value() -> object:
        values = [_of(chance, ALNUM, 8), chance.random(), chance.randint(0, 9999), None, True]
        return chance.choice([*values, [1, 2, 3], _of(chance, PUNCTUATION, 4)])

    fields = {_of(chance, LOWER, 5): value() for _ in range(size // 12 + 1)}
    yield "minified json", json.dumps(fields, separators=(",", ":"))[:size]
    numbers = [round(chance.uniform(-99, 99), chance.randint(0, 6)) for _ in range(size // 6)]
    yield "floats", json.dumps(numbers)[:size]
    integers = [chance.randint(0, 99) for _ in range(size // 3)]
    yield "integers", json.dumps(integers, separators=(",", ":"))[:size]
    rows = [[chance.randint(0, 9) for _ in range(4)] for _ in range(size // 12)]
    yield "matrix", json.dumps(rows, separators=(",", ":"))[:size]
    for separator in (", ", ",", " ", "\t", " | "):
        digits = separator.join(_of(chance, DIGITS, chance.randint(1, 2)) for _ in range(size))
        yield f"table by {separator!r}", digits[:size]
        cells = separator.join(_of(chance, ALNUM, chance.randint(1, 2)) for _ in range(size))
        yield f"cells by {separator!r}", cells[:size]
    yield "numbers by commas", _spaced(chance, DIGITS, 1, 3, size, ",")
    yield "numbers by points", _spaced(chance, DIGITS, 1, 9, size, ".")
    yield "numbers by spaces", _spaced(chance, DIGITS, 1, 4, size)
    calls = (
        f"{_of(chance, LOWER, 1)}{chance.choice(['(', '=', '.', '[', '&&', '?', '!=='])}"
        f"{_of(chance, LETTERS, chance.randint(1, 3))}{chance.choice(['),', ';', '}', ']'])}"
        for _ in range(size // 4 + 1)
    )
    yield "minified javascript", "".join(calls)[:size]


def _whitespace(chance: random.Random, size: int) -> Iterator[tuple[str, str]]:
    for alphabet in (" \t\n\r", " \n", " \t", "\t\n", "\r\n"):
        yield f"whitespace of {alphabet!r}", _of(chance, alphabet, size)
    gaps = (
        _of(chance, " \n\t", chance.randint(1, 6)) + _of(chance, LOWER, 2) for _ in range(size // 5)
    )
    yield "gaps", "".join(gaps)[:size]
    lines = (
        "\n" + " " * chance.randint(0, 40) + _of(chance, LOWER, chance.randint(0, 6))
        for _ in range(size // 20 + 1)
    )
    yield "indented", "".join(lines)[:size]
    yield (
        "windows lines",
        "\r\n".join(_of(chance, LOWER + PUNCTUATION, 2) for _ in range(size // 4)),
    )
    yield "odd spaces", _of(chance, "\x0b\x0c \x1c\x85\xa0\u2003", size // 2)


def _escapes(chance: random.Random, size: int) -> Iterator[tuple[str, str]]:
    for form, width in (("\\u%04x", 6), ("\\u%04X", 6), ("&#%d;", 6)):
        yield form, "".join(form % chance.randint(0, 0xFFFF) for _ in range(size // width))
    for form, width in (("\\x%02x", 4), ("%%%02X", 3), ("\\%03o", 4)):
        yield form, "".join(form % chance.randint(0, 0xFF) for _ in range(size // width))
    yield "backslashes", "\\" * size
    yield "escaped newlines", "\\n" * (size // 2)
    yield "escaped quotes", _of(chance, '\\"', size)


def _subsets(
    chance: random.Random, size: int, least: int = 5, most: int = 14
) -> Iterator[tuple[str, str]]:
    """Yield random text over small alphabets, themselves drawn at random."""
    for _ in range(14):

        def some(alphabet: str) -> str:
            return "".join(chance.sample(alphabet, chance.randint(least, most)))

        letters = some(LOWER)
        yield "few letters", _of(chance, letters, size)
        yield "words of few letters", _spaced(chance, letters, 1, chance.randint(2, 9), size)
        yield "few upper letters", _of(chance, letters.upper(), size)
        yield "few letters, capitals", _of(chance, letters + chance.choice(UPPER) * 3, size)
        yield "few characters", _of(chance, some(EVERYTHING), size)
        yield "few signs", _of(chance, some(PUNCTUATION + " \n\t"), size)


def _pronounceable(chance: random.Random, size: int) -> Iterator[tuple[str, str]]:
    """Yield languages in Latin letters, and syllables that look like one but are not."""
    for kind, text in LANGUAGES.items():
        start = chance.randrange(len(text))
        yield kind, (text[start:] + " " + text * (size // len(text) + 1))[:size]
    for few in (21, 21, 12, 8, 6):
        yield from _syllables(chance, size, few)


def _syllables(chance: random.Random, size: int, few: int) -> Iterator[tuple[str, str]]:
    """Yield syllables of `few` consonants, one after another and as words."""
    consonants = chance.sample("bcdfghjklmnpqrstvwxyz", few)
    for shape in ("cv", "cvc", "vc", "cvv", "ccv"):
        letters = {"c": consonants, "v": chance.sample("aeiou", chance.randint(3, 5))}
        syllables = [
            "".join(chance.choice(letters[kind]) for kind in shape) for _ in range(size // 2)
        ]
        yield f"{shape} of {few}", "".join(syllables)[:size]
        joins = chance.choices((" ", "", "", ", ", "-"), (3, 3, 3, 0.3, 0.2), k=len(syllables))
        spaced = "".join(map("".join, zip(syllables, joins, strict=True)))
        yield f"{shape} words of {few}", spaced[:size]


def _beyond_ascii(chance: random.Random, size: int) -> Iterator[tuple[str, str]]:
    yield "emoji sequences", "".join(chance.choices(EMOJI, k=size // 6 + 1))[:size]
    yield "emoji by spaces", " ".join(chance.choices(EMOJI, k=size // 6 + 1))[:size]
    yield "joiners", "\u200d" * (size // 3)
    yield "selectors", "\ufe0f" * (size // 3)
    stacks = (chance.choice(LOWER) + _of(chance, MARKS, 4) for _ in range(size // 8))
    yield "stacked marks", "".join(stacks)
    scripts = list(SCRIPTS.values())
    mixed = (chance.choice(chance.choice(scripts)) for _ in range(size // 3))
    yield "mixed scripts", "".join(mixed)
    for kind, alphabet in SCRIPTS.items():
        yield kind, _of(chance, alphabet, max(1, size // 3))
        words = (_of(chance, alphabet, chance.randint(1, 6)) for _ in range(size // 12 + 1))
        yield f"{kind} words", " ".join(words)
