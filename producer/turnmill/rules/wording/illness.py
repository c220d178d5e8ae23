"""Allergies and illnesses, in the languages that are known: what does most harm when forgotten."""

from __future__ import annotations

import re

__all__ = ["HARMFUL", "OF_OURS"]

HARMFUL = re.compile(
    r"allerg(?!en)|alérgic|intol[eé]r[aâ]n|asth?m|diab[eé]t|c[eo]e?lia[ck]|celíac|cœliaque|zöliak"
    r"|epilep|pregnan|schwanger|zwanger|enceinte|embarazad|\bincinta|grávida"
    r"|аллерги|диабет|беременн|астм"
    r"|过敏|過敏|糖尿病|妊娠|妊婦|怀孕|懷孕|哮喘|喘息|アレルギー|알레르기|당뇨|임신|천식",
    re.IGNORECASE,
)

OF_OURS = re.compile(
    r"\b(?:i|i'm|i've|my|we|our|ich|mir|mich|mein(?:e[mnrs]?)?|wir|uns|unser\w*|je|j'ai|mon|nous"
    r"|notre|nos|moi|yo|soy|tengo|mi|mí|mis|somos|nuestr\w+|io|sono|ho|mio|mia|miei|nostr\w+|eu"
    r"|sou|tenho|meu|minha|noss\w+|ik|heb|mijn|ons|onze|я|мой|моя|моей|моего|меня|мне|нас|наш\w*)\b"
    r"|我|私|わたし|僕|俺|うち|娘|息子|妻|(?<!丈)夫|母|父|저는|제가|제 |나는|내가|우리|아들|딸"
)
"""Whose they are if they are the user's own or of somebody near."""
