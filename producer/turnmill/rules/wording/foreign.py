"""Rules in German, French, Spanish, Italian, Portuguese and Dutch: small lists; data only."""

from __future__ import annotations

from typing import Final

from turnmill.rules.kinds import Kind
from turnmill.rules.wording.lexicon import words

__all__ = ["FOREIGN", "FOREIGN_REFUSED", "FOREIGN_WORDS"]

_NUMBER: Final = r"\d[\d.,]*"

# Words one of which every pattern below needs, and which English does not use.
FOREIGN_WORDS: Final = words(
    "immer nie niemals nur ab künftig zukünftig jedes jede jeder allergisch "
    "heiße heißt bevorzuge lieber "
    "möchte mag hasse darf dürfen dürft darfst muss müssen musst höchstens maximal mindestens "
    "frist spätestens veganerin veganer vegetarier vegetarierin bitte keine kein"
    " ohne niemand esse trinke vertrage unverträglichkeit "
    "mein sollst stets duze sprich nenn nenne vergiss wieder "
    "toujours jamais désormais dorénavant chaque préfère préférons préférerais"
    " allergique appelle végétarien "
    "végétarienne végan végane uniquement seulement doit doivent dois devez interdit déteste "
    "mange bois avenir intolérant intolérante diabétique pas oublie "
    "siempre nunca jamás ahora adelante cada prefiero preferimos preferiría"
    " alérgico alérgica llamo vegano vegana "
    "vegetariano vegetariana solo sólo máximo debe deben debes prohibido odio como"
    " bebo celíaco celíaca presupuesto "
    "plazo favor quiero futuro diabético diabética olvida "
    "sempre mai ora poi preferisco preferirei allergico allergica chiamo"
    " vegetariana vegano soltanto "
    "massimo deve devono devi vietato odio mangio bevo celiaco celiaca scadenza"
    " d'ora d'ora ogni futuro dimentica "
    "agora diante partir prefiro preferimos alérgico alérgica chamo apenas somente"
    " deve devem proibido "
    "orçamento prazo como bebo gosto esqueça jamais "
    "altijd nooit voortaan vanaf elke elk liever voorkeur allergisch heet"
    " vegetariër veganist alleen "
    "maximaal hoogstens minstens moet moeten mag mogen verboden haat eet drink "
    "uiterlijk graag geen vergeet noem"
)

FOREIGN: Final[tuple[tuple[Kind, str], ...]] = (
    (
        Kind.IDENTITY,
        (
            r"\b(?:allergisch|allergique|allergico|allergica|alérgico|alérgica)\b"
            r"|\b(?:ich bin|wir sind|je suis|soy|sono|sou|ik ben|nous sommes|somos|siamo"
            r"|estoy|sou)(?: \w+){0,2} (?:veganerin|veganer"
            r"|vegetarier|vegetarierin|vegan|vegetarisch|diabetiker|diabetikerin|schwanger"
            r"|végan|végane|végétarien|végétarienne|intolérante?"
            r"|diabétique|vegano|vegana|vegetariano|vegetariana|celíac[oa]|diabétic[oa]"
            r"|celiac[oa]|vegetariër|veganist|enceinte|embarazada"
            r"|incinta|grávida|zwanger|farbenblind|daltonien|daltónico|daltonico)\b"
            r"|\b(?:mein name ist|ich heiße|nenn(?:e|en)? mich|je m'appelle|appelle-moi|mi"
            r" nombre es|me llamo|llámame|mi chiamo|il mio nome è"
            r"|chiamami|me chamo|meu nome é|me chame|ik heet|mijn naam is|noem me)\b"
            r"|\bich (?:esse|trinke|vertrage) (?:\w+ )?(?:kein|keine|keinen|nichts)\b|\bje"
            r" ne (?:mange|bois) (?:pas|jamais|plus)\b"
            r"|\bno (?:como|bebo)\b|\bnon (?:mangio|bevo)\b|\bnão (?:como|bebo)\b|\bik"
            r" (?:eet|drink) geen\b"
            r"|\b(?:unverträglichkeit|intoleranz|zöliakie)\b"
        ),
    ),
    (
        Kind.PREFERENCE,
        (
            r"\bich (?:bevorzuge|hasse)\b|\bich (?:möchte|will|mag|fliege|nehme|hätte|sitze"
            r"|fahre|esse) (?:\w+ ){0,3}?(?:lieber|keine?n?|nicht|am liebsten)\b"
            r"|\bmir ist .{2,40} lieber\b|\b(?:je préfère|nous préférons|je préférerais|je"
            r" déteste|je n'aime pas|je ne veux (?:pas|plus|jamais))\b"
            r"|\b(?:prefiero|preferimos|preferiría|odio|no me gusta|no quiero que)\b"
            r"|\b(?:preferisco|preferirei|preferiamo|non mi piace|non voglio che)\b"
            r"|\b(?:prefiro|preferimos|não gosto de|não quero que)\b|\bik (?:heb|vlieg|zit"
            r"|wil|neem|reis) (?:\w+ ){0,3}?(?:liever|het liefst|geen)\b"
            r"|\bgeef ik de voorkeur\b|\bik haat\b|\bmijn voorkeur\b"
        ),
    ),
    (
        Kind.LIMIT,
        (
            rf"\b(?:budget|presupuesto|orçamento|bilancio)\b.{{0,30}}{_NUMBER}"
            rf"|\b(?:höchstens|maximal|mindestens|nicht mehr als|au maximum|pas plus de"
            rf"|au plus|como máximo|no más de|al massimo|non più di|no máximo|não mais (?:de"
            rf"|que)|maximaal|hoogstens|niet meer dan|minstens)\b.{{0,12}}{_NUMBER}"
        ),
    ),
    (
        Kind.DEADLINE,
        (
            r"\b(?:die frist|spätestens (?:am|bis|zum)|bis spätestens|date limite|au plus"
            r" tard|fecha límite|a más tardar|el plazo|la scadenza"
            r"|entro e non oltre|al più tardi|o prazo|no mais tardar|uiterlijk (?:op|voor)?"
            r"|de deadline)\b"
        ),
    ),
    (
        Kind.COMMAND,
        (
            r"\b(?:ab (?:jetzt|sofort|heute)|von (?:jetzt|nun) an|in zukunft|künftig"
            r"|zukünftig|désormais|dorénavant|à partir de maintenant|à l'avenir"
            r"|a partir de ahora|de ahora en adelante|en el futuro|d'ora in (?:poi|avanti)"
            r"|in futuro|a partir de agora|de agora em diante|daqui (?:em|para) diante"
            r"|no futuro|voortaan|vanaf nu|in het vervolg)\b"
            r"|^(?:bitte |also |und |aber )*(?:[a-zäöüß]{2,}(?:e|t|en)?(?: sie)?)(?: mir|"
            r" mich| uns| sie| es| bitte){0,3} (?:immer|stets|nur|nie|niemals|kein\w*)\b"
            r"|\b(?:du|ihr|sie) (?:sollst|sollt|sollen|darfst|dürft|dürfen|musst|müsst"
            r"|müssen)\b.*\b(?:nie|niemals|immer|nur|nicht|kein\w*|stets)\b"
            r"|^(?:bitte )?(?:keine?n?) [a-zäöüß-]+(?: [a-zäöüß-]+){0,8}[.!]*$"
            r"|^(?:s'il (?:te|vous) plaît,? |et |mais )*[a-zéèêàç-]{2,}(?:s|z|ds|is"
            r"|e)(?:-(?:moi|nous|le|la|les|lui))* (?:toujours|uniquement|seulement)\b"
            r"|^(?:s'il (?:te|vous) plaît,? |et |mais |por favor,? |per favore,? |y |e "
            r"|pero |ma |mas )*(?:ne |n')[a-zéèêàç' -]{2,20} (?:jamais|plus)\b"
            r"|^(?:por favor,? |y |pero )*(?:nunca|jamás|siempre) (?:me |le |lo |la |nos"
            r" )?(?!he\b|había|fui|pude|puedo|tengo|estoy|es\b|está|hay"
            r"|supe)[a-záéíóúñ]+(?:as|es|en|an|a|e)(?:me|lo|la|les)?\b"
            r"|^(?:por favor,? |y |pero )*no (?:me|nos|les?|lo|la|uses?|envíes?|mandes?"
            r"|llames?|compartas?|reserves?|compres?|borres?|escribas?|incluyas?|hagas?"
            r"|cambies?|publiques?|digas?)\b"
            r"(?! (?:gusta|parece|importa|acuerdo|sé|ha|han|he|está|es|funciona|llegó|deja))"
            r"|^(?:por favor,? |y |pero |e |mas |per favore,? |ma"
            r" )*[a-záéíóúàèòãõç]{3,}(?:me|mi|-me)? (?:siempre|sempre|solo|sólo|soltanto"
            r"|solamente|apenas|somente)\b"
            r"|^(?:per favore,? |e |ma )*non [a-zàèéìòù]{3,}(?:re|rmi|rci|te|temi|mi)"
            r" .{0,30}?\b(?:mai|più)\b"
            r"|^(?:por favor,? |e |mas )*(?:nunca|jamais|não) (?:me |o |a |lhe )?(?:use"
            r"|envie|mande|ligue|compartilhe|partilhe|faça|escreva|responda|inclua|reserve"
            r"|compre|apague|altere|publique|mude|mostre|diga|coloque)\b"
            r"|^(?:en |maar |alsjeblieft |graag )*[a-z]{2,}(?: me| mij| ons| je)? (?:altijd"
            r"|nooit|alleen|geen)\b"
        ),
    ),
    (
        Kind.POLICY,
        (
            r"\bwir (?:\w+ ){1,4}?(?:nur|nie|niemals|immer|ausschließlich|keine?)\b"
            r"|\b(?:alle|jede[rs]?) .{2,60}\b(?:muss|müssen|darf|dürfen)\b"
            r"|\b(?:nous|on) ne .{2,40} (?:que|jamais|pas le|pas les)\b|\bnous .{2,40}"
            r" (?:toujours|uniquement|seulement)\b|\b(?:tous|toutes|chaque)"
            r" .{2,60}\b(?:doit|doivent)\b"
            r"|\b(?:nunca|siempre|solo|sólo) [a-z]+(?:amos|emos|imos)\b|\b[a-z]+(?:amos"
            r"|emos|imos) (?:solo|sólo|siempre|apenas|sempre|somente)\b|\b(?:todos|todas"
            r"|cada) .{2,60}\b(?:debe|deben|deve|devem)\b"
            r"|\b[a-z]+iamo (?:solo|sempre|soltanto)\b|\bnon [a-z]+iamo mai\b|\b(?:tutti"
            r"|tutte|ogni) .{2,60}\b(?:deve|devono)\b"
            r"|\bwij? (?:\w+ ){1,4}?(?:alleen|nooit|altijd)\b|\b(?:alle|elke?|ieder)"
            r" .{2,60}\b(?:moet|moeten|mag|mogen)\b"
        ),
    ),
    (
        Kind.REVOCATION,
        (
            r"\b(?:vergiss|vergessen sie),? was ich|\boublie(?:z)? ce que j'ai|\bolvida lo"
            r" que|\bdimentica (?:quello|ciò) che|\besqueça o que|\bvergeet wat ik"
            r"|\b(?:du darfst|sie dürfen|ihr dürft) .{2,40} wieder\b|\b(?:tu peux|vous"
            r" pouvez) (?:de nouveau|à nouveau)\b|\bpuedes volver a\b|\bpuoi di nuovo\b"
            r"|\bje mag .{2,40} weer\b"
        ),
    ),
)

FOREIGN_REFUSED: Final = (
    r"\b(?:hat|habe|haben|war|waren|hatte|wurde|wird)\b.*\b(?:immer|nie|niemals"
    r"|nur)\b|\b(?:immer|nie|niemals|nur) .{0,40}\b(?:gewesen|gesehen|gehabt"
    r"|bekommen)\b"
    r"|\b(?:das|es|er|sie) (?:ist|war|geht|wird)\b"
    r"|\b(?:je n'ai|j'ai|tu as|il a|elle a|on a|nous avons|vous avez|ils ont|c'est"
    r"|c'était|il est|ça)\b.*\b(?:jamais|toujours|plus|pas)\b"
    r"|\b(?:nunca|siempre|jamás) (?:he|has|ha|hemos|había|fui|fue|estuve|pude"
    r"|supe)\b|\bno (?:he|ha|había)\b|\bes siempre\b"
    r"|\bnon (?:ho|hai|ha|abbiamo|sono|è|ero|era)\b.*\bmai\b|\bnunca (?:fui|estive"
    r"|tive|foi|vi|fiz|usei)\b"
    r"|\bik (?:heb|ben|was|had)\b.*\b(?:nooit|altijd|alleen)\b|\b(?:het|dat|hij|ze)"
    r" (?:is|was)\b.*\b(?:altijd|nooit)\b"
    r"|\bnog nooit\b"
)
