"""The English word lists the extractor works with; data only."""

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A sentence holding one of these means something else once a word is gone: it is kept whole.
GUARDS: Final = _words(
    "not no never none nothing nobody nowhere neither nor without cannot if unless except "
    "excluding but only until till instead rather otherwise else although though however whether "
    "despite "
    "hardly barely scarcely rarely seldom yet unlike against besides exclude excludes excepting "
    "refuse refused refuses deny denied stop avoid false undo revert reverted wrong mustnt dont "
    "wont cant didnt doesnt isnt arent wasnt couldnt shouldnt wouldnt havent hasnt hadnt whereas "
    "provided assuming suppose unlikely either otherwise nope nah"
)

# Opening words that take back or amend the sentence before; the two are kept or lost together.
RETRACTIONS: Final = _words(
    "no nope not actually wait sorry except unless instead scratch nevermind never but however "
    "rather correction otherwise"
)

DROPPED: Final = _words(
    "a an the is are was were am be been being do does did really very so actually basically "
    "literally honestly totally definitely absolutely certainly obviously truly simply super "
    "pretty quite oh hey hi hello wow yeah yep yup um uh hmm haha lol omg ah aww aw well okay "
    "please kindly also too there some that's it's there's what's anyway"
)

# The verb goes, the subject stays: who did it matters.
SHORTER: Final = {
    f"{subject}'{ending}": subject
    for subject, endings in (
        *(("i", ("m", "ve")), ("you", ("re", "ve")), ("we", ("re", "ve")), ("they", ("re", "ve"))),
        *(("he", ("s",)), ("she", ("s",)), ("who", ("s",))),
    )
    for ending in endings
}

# "have" and its forms go before these and before words in -ed: there they only mark the tense.
PARTICIPLES: Final = _words(
    "been gone done seen made taken got gotten had found started come become given grown known"
)
HAVE: Final = _words("have has had having")

# What an "I" may be left out before: nobody takes these for commands.
NO_COMMANDS: Final = _words(
    "love like need want hope wish think guess feel know believe prefer enjoy have had went got "
    "made took came saw found met told said gave bought felt thought knew left kept ran ate wrote "
    "spent heard lost won sold sent built began became brought caught chose drove flew forgot grew "
    "held paid rode slept spoke stood taught wore woke"
)
COMMANDS: Final = _words(
    "bring sing ring swing sting cling fling ping string spring feed need seed speed bleed breed "
    "proceed exceed succeed embed shred wed shed"
)
BEFORE_VERBS: Final = _words(
    "just still already recently usually often even finally only sometimes generally mostly"
)

# Only meaningful as a run; matched on lower-case words without their punctuation.
STOP_PHRASES: Final = frozenset(
    tuple(phrase.split())
    for phrase in (
        "you know",
        "i mean",
        "kind of",
        "sort of",
        "of course",
        "a lot of",
        "a bit of",
        "as well",
        "by the way",
        "in order to",
        "to be honest",
        "feel free to",
        "let me know",
        "looking forward to",
        "thanks for",
        "thank you for",
        "thank you",
        "i would like to",
        "i'd like to",
        "so much",
        "for sure",
        "could you",
        "can you",
        "would you mind",
        "would you like",
    )
)

# Words no other common language shares: "a", "is" or "was" alone do not make a text English.
ENGLISH: Final = _words(
    "the and of you your my i i'm i've to it it's we our that this with for have has had was were "
    "what how been they them there would could should can will from are on at"
)

_COUNTED: Final = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
NUMBER_WORDS: Final = {word: str(value) for value, word in enumerate(_COUNTED)}
