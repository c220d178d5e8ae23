"""Values that exclude each other, and words that do not say what a rule is about; data only."""

from __future__ import annotations

from typing import Final

from turnmill.rules.wording.english import STOP
from turnmill.rules.wording.lexicon import words

__all__ = ["EMPTY", "SLOTS", "TEMPORAL"]

# Of each row a rule has one: a later one of the same row, said of the same thing, replaces it.
_ROWS: Final = {
    "language": "english german french spanish italian portuguese dutch chinese japanese "
    "korean russian polish turkish arabic hindi deutsch englisch französisch"
    " spanisch français anglais español inglés",
    "units": "metric imperial",
    "temperature": "celsius fahrenheit kelvin",
    "currency": "euros euro eur dollars dollar usd pounds gbp yen francs chf",
    "seat": "aisle window middle",
    "length": "short brief concise terse long detailed verbose lengthy thorough shorter longer",
    "tone": "formal informal casual formally informally casually friendly playful warm serious dry "
    "humorous witty cheerful polite neutral blunt",
    "indent": "tabs spaces",
    "clock": "12-hour 24-hour",
    "zone": "utc gmt cet cest pacific eastern est edt pst pdt bst ist jst",
    "layout": "bullets bullet bulleted prose paragraphs table tables numbered",
    "spelling": "british american",
    "diet": "vegan vegetarian pescatarian flexitarian omnivore",
    "theme": "dark light",
    "cabin": "economy business first-class premium",
    "transport": "train plane bus car bike",
    "channel": "email phone text sms slack post letter whatsapp",
    "markup": "markdown html latex json yaml csv xml plaintext",
    "code": "python javascript typescript java rust ruby kotlin swift",
}
SLOTS: Final = {word: row for row, values in _ROWS.items() for word in values.split()}

TEMPORAL: Final = words(
    "monday tuesday wednesday thursday friday saturday sunday mondays tuesdays "
    "wednesdays thursdays "
    "fridays saturdays sundays weekend weekends weekday weekdays january february"
    " march april june july "
    "august september october november december today tomorrow tonight noon"
    " midnight morning evening "
    "afternoon night am pm one two three four five six seven eight nine ten eleven"
    " twelve fifteen twenty "
    "thirty"
)

EMPTY: Final = STOP | words(
    "always never ever only not no don't do does doesn't must should shall may "
    "can't cannot without prefer "
    "preferred preference preferences prefers like likes want wants rather love"
    " hate need needs use using "
    "keep stick please actually instead now from again anymore any more longer"
    " forget ignore scratch drop "
    "said told asked earlier rule rules limit limits instruction instructions"
    " restriction lift remove stop "
    "whenever every each time times future forward going every everything anything"
    " something someone anyone "
    "i'm i'd i'll we're is are it its let make sure mind changed change switch ok"
    " okay fine allowed much "
    "would will could it'd seats seat avoid nothing nobody best better works work"
    " unless until at most least "
    "than over under above below within maximum max minimum min up exceed"
    " exceeding there's give get go also "
    "still just really strictly no-one be been being was were reply respond answer"
    " write speak answers replies "
    "responses"
)
