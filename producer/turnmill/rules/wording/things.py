"""What is asked of an agent again and again: what it writes, shows and books; data only."""

from __future__ import annotations

from typing import Final

from turnmill.rules.wording.lexicon import words

__all__ = ["GENERIC", "MADE", "OUTPUTS"]

# Subjects of all there will be, not of one thing.
_GENERIC: Final = (
    r"answers|replies|responses|messages|emails?|explanations|summaries|variable names|commits?"
    r"|commit messages|reports|dates|times|prices|amounts|numbers|names|units|code|functions|files"
    r"|tests|comments|temperatures|distances|measurements|currencies|reply|response|answer|message"
    r"|citations|references|examples|suggestions|recommendations|recipes|restaurants|flights|hotels"
    r"|seats|meetings|calls|invoices|purchases|bookings|reservations|orders|payments|refunds"
    r"|changes|pull requests|prs|branches|releases|deployments|translations|output|outputs|titles"
    r"|sentences|paragraphs|lists|tables|headings|links|quotes|meals|dishes|trips|appointments"
)

# What an agent brings forth.
OUTPUTS: Final = (
    r"headlines|currency|sizes|legends|labels|footnotes|acronyms|dashboards|formulas|captions"
    r"|figures|charts|plots|graphs|timestamps|weights|volumes|percentages|totals"
    r"|estimates|itineraries|itinerary|queries|counts|drafts|slides|documents|docs|posts|filenames"
    r"|excerpts|diffs|patches|snippets|definitions|proofs|solutions|hints|options|results"
    r"|quantities"
    r"|ingredients|portions|summary|updates|notes|memos|chapters|scenes|letters|subject lines"
    r"|instructions|directions|lessons|invites|packages|deliveries|bills|receipts|statistics|stats"
    r"|encouragement|feedback|claims|ids|errors|logs|identifiers|salaries|durations|coordinates"
)
GENERIC: Final = f"{_GENERIC}|{OUTPUTS}"
_BOOKED: Final = words(
    "restaurants flights hotels seats meetings calls purchases"
    " bookings reservations orders payments"
    " refunds meals dishes trips appointments recipes changes"
)
MADE: Final = "|".join(noun for noun in GENERIC.split("|") if noun not in _BOOKED)
"""What an agent writes or says, not what it books or looks for."""
