"""English forms that no ending explains; data only."""

from __future__ import annotations

from typing import Final

_FORMS = """
become became/ begin began begun/ bite bit bitten/ bleed bled/ blow blew blown/ break broke broken/
breed bred/ bring brought/ build built/ burn burnt/ buy bought/ catch caught/ choose chose chosen/
come came/ cost costs/ creep crept/ deal dealt/ dig dug/ draw drew drawn/ dream dreamt/
drink drank drunk/ drive drove driven/ eat ate eaten/ fall fell fallen/ feed fed/ feel felt/
fight fought/ find found/ flee fled/ fly flew flown/ forbid forbade forbidden/
forget forgot forgotten/ forgive forgave forgiven/ freeze froze frozen/ give gave given/
go went gone goes/ grow grew grown/ hang hung/ hear heard/ hide hid hidden/ hold held/ keep kept/
kneel knelt/ know knew known/ lay laid/ lead led/ lean leant/ learn learnt/ leave left/ lend lent/
light lit/ lose lost/ make made/ mean meant/ meet met/ pay paid/ prove proven/ ride rode ridden/
ring rang rung/ rise rose risen/ run ran/ say said/ see saw seen/ seek sought/ sell sold/
send sent/ sew sewn/ shake shook shaken/ shine shone/ shoot shot/ show shown/ shrink shrank shrunk/
sing sang sung/ sink sank sunk/ sit sat/ sleep slept/ slide slid/ speak spoke spoken/ speed sped/
spend spent/ spin spun/ stand stood/ steal stole stolen/ stick stuck/ sting stung/ strike struck/
swear swore sworn/ sweep swept/ swim swam swum/ swing swung/ take took taken/ teach taught/
tear tore torn/ tell told/ think thought/ throw threw thrown/ understand understood/
wake woke woken/ wear wore worn/ weave wove woven/ weep wept/ win won/ wind wound/
write wrote written/
child children/ person people/ man men/ woman women/ foot feet/ tooth teeth/ goose geese/
mouse mice/ life lives/ wife wives/ knife knives/ leaf leaves/ shelf shelves/ half halves/
wolf wolves/ loaf loaves/ thief thieves/ bad worse worst
"""

BASE_FORM: Final = {
    form: base for base, *forms in map(str.split, _FORMS.split("/")) for form in forms
}
"""Each irregular form's base: ``went`` is found by ``go``."""
