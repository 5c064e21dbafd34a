# ruff: noqa: RUF001 - letters and quotes of other languages are meant as they are
"""Street addresses, post boxes and full postcodes, in the forms of eight languages.

A street alone identifies nobody and a town neither: a house number (or a box, a flat, a postcode
beside them) must stand with the street. Street words come from the postal operators' own rules for
addressing: USPS Publication 28 (appendix C1), Royal Mail's PAF guide, Deutsche Post, La Poste (NF Z
10-011), Correos, Poste Italiane, CTT, PostNL, Poczta Polska; UPU S42.
"""

from __future__ import annotations

import re
from typing import ClassVar

from presidio_analyzer import Pattern

from gateway.classify.identifiers import Identifier, labelled

_UP = r"[A-ZÀ-ÖØ-ÞŁŚŻŹĆĄĘŃÓČŠŽŘĚŮŐŰΆ-ΫÞĐ]"
_NAME = rf"(?:{_UP}\w{{0,2}}\.|{_UP}[\w'’-]{{0,30}})"  # with a dot only when it is cut short
_NUMBER = r"\d{1,5}(?: ?[A-Za-z](?!\w))?(?:[-/]\d{1,4}[A-Za-z]?(?!\w))?"
_END = r"(?![\w%]|[.,:]\d)"
_START = r"(?<![\w.,$€£/-])"

_ENGLISH = (
    r"(?:(?i:street|avenue|road|drive|lane|boulevard|court|terrace|parkway|highway|crescent|gardens"
    r"|grove|mews|turnpike|esplanade|causeway|freeway|expressway|ave|blvd|rd|ln|pkwy|hwy|cres|st)\b"
    r"|(?:Dr|Ct|Pl|Sq|Ter|Cir|Trl|Place|Square|Close|Circle|Trail|Way|Walk|Row|Alley|Loop|Plaza"
    r"|Rise"
    r"|Ridge|Pike|Point|Path|Broadway|Hill|View|Vale|Wharf|Quay|Bypass|Crossing|Junction|Heights"
    r"|Meadows?|Manor|Landing|Harbor|Forge|Ford|Fort|Isle|Mill|Park|Pass|Springs?|Hollow"
    r"|Glen)\b)\.?"
)
# The rest of appendix C1: everyday words, so only after a number of three digits or more.
_ENGLISH_RARE = (
    r"(?:Bluffs?|Bridge|Brooks?|Burgs?|Camp|Canyon|Cape|Cliffs?|Club|Commons?|Corners?|Course"
    r"|Coves?"
    r"|Creek|Crest|Crossroads?|Dale|Dam|Divide|Estates?|Extensions?|Falls?|Ferry|Fields?|Flats?"
    r"|Forest"
    r"|Forks?|Freeway|Gateway|Greens?|Groves|Harbors?|Haven|Hills|Inlet|Islands?|Isle|Junctions?"
    r"|Keys?"
    r"|Knolls?|Lakes?|Light|Lights|Loaf|Locks?|Lodge|Mall|Mills|Mission|Motorway|Mountains?|Neck"
    r"|Orchard"
    r"|Oval|Overpass|Parks|Parkways|Passage|Pines?|Plains?|Points|Ports?|Prairie|Radial|Ramp|Ranch"
    r"|Rapids?|Rest|River|Roads|Route|Rue|Run|Shoals?|Shores?|Skyway|Spurs?|Station|Stravenue"
    r"|Stream"
    r"|Streets|Summit|Throughway|Trace|Track|Trafficway|Tunnel|Underpass|Unions?|Valleys?|Viaduct"
    r"|Villages?|Ville|Vista|Walks|Wall|Wells?)(?![\w'])"
)
# Doors that everybody knows, and what is no court of houses.
_KNOWN = (
    r"(?!221[Bb],? Baker St|10,? Downing St|1600,? Pennsylvania Ave"
    r"|\d+(?:,? \w+)? (?:Supreme|High|District|County|Crown|Circuit|Federal|Appeals?|Tennis) Court)"
)
# A year before a street that is known by its name alone: "in 2008 Wall Street fell".
NO_YEAR = (
    r"(?:(?!(?:1[6-9]|20)\d\d\D)|(?<!\b[Ii]n )(?<![Tt]he )(?<![Ss]ince )(?<!\bof )(?<!\bby )"
    r"(?<!until )(?<!uring )(?<![Aa]fter )(?<![Bb]efore )(?<!his "
    r")(?<!arly )(?<!ate )(?<!\d )(?<!, ))"
)
_FLAT = r"(?i:apt|apartment|suite|ste|flat|unit|room|floor|no)\.? ?#?\d{1,5}"

_FRENCH = (
    r"(?i:rue|avenue|av\.?|boulevard|bd\.?|bld\.?|place|chemin|impasse|allée|allee|quai|cours|route"
    r"|square|passage|sentier|villa|cité|cite|faubourg|rés(?:idence|\.)|lotissement|montée|ruelle"
    r"|voie)"
)
_LINKING_WORDS = (
    r"(?:(?:(?i:de la|de l['’]|de los|de las|du|des|de|della|delle|degli|dei|del|dell['’]|di|da"
    r"|dos|das"
    r"|do|la|le|les|el|los|las|aux?|au|san|santa|sur|sous|en|et|y|e)\s|(?i:d|l)['’]"
    r"|\d{1,2} ?)){0,3}"
)
_ROMANCE = (
    r"(?:(?i:calle|c/|avda?\.|avenida|av\.|paseo|pº|plaza|pza\.|carretera|ctra\.|camino|ronda"
    r"|travesía|acceso|cañada"
    r"|glorieta|pasaje|urbanización|callejón|viale|v\.le|piazza|p\.zza|p\.za|piazzale|corso|c\.so"
    r"|vicolo|strada|contrada|rua|travessa|praça|pç\.|estrada|alameda|rodovia|beco|largo|rue|chemin"
    r"|boulevard|avenue)|Via|R\. |C\. )"
)
_GERMANIC = (
    r"(?:straße|strasse|str\.|gasse|allee|chaussee|straat|laan|gracht|kade|dreef|singel|steeg|plein"
    r"|plantsoen|gatan|gata|vägen|veien|vegen|gade|stræde|torget|gränden|baan|katu|kuja|polku"
    r"|braut|stígur| utca| útja| út| tér| tere| körút| u\.)"
)
_GERMANIC_WEAK = (
    r"(?:weg|ring|damm|ufer|platz|steig|graben|winkel|garten|dijk|hof|pad|vej|vei|tie|wei)"
)
_NO_STREET = (
    r"(?!(?:Park|Spiel|Arbeits|Stell|Lager|Sitz|Steh|Um|Aus|Rück|Hin|Bahn|Fried|Fahr|Rad|Schul"
    r"|Boxen"
    r"|Neck|Bow|Trikot|Koch|Menstru|Arbeits|Speicher|Stand|Schwer|Um|Unter|Zeit|Tennis|Fußball"
    r"|Camping)"
    r"(?:weg|ring|damm|ufer|platz|steig|graben|winkel|hof|pad|tie)\b)"
)
_SLAVIC = (
    r"(?i:ul\.|ulic[ayę]|al\.|alej[aei]|alejach|pl\.|plac(?:u|em)?|os\.|osiedl[eu]|rond[oe]"
    r"|skwer(?:ze)?)"
)
_STATE = (
    r"(?:A[AEKLPRZ]|C[AOT]|D[CE]|F[LM]|G[AU]|HI|I[ADLN]|K[SY]|LA|M[ADEHINOPST]|N[CDEHJMVY]|O[HKR]"
    r"|P[AR]"
    r"|RI|S[CD]|T[NX]|UT|V[AIT]|W[AIVY])"
)
_UK_AREA = (
    r"(?:A[BL]|B[ABDHLNRST]?|C[ABFHMORTVW]|D[ADEGHLNTY]|E[CHNX]?|F[KY]|G[LUY]?|H[ADGPRSUX]|I[GMPV]"
    r"|JE"
    r"|K[ATWY]|L[ADELNSU]?|M[EKL]?|N[EGNPRW]?|O[LX]|P[AEHLOR]|R[GHM]|S[AEGKLMNOPRSTWY]?|T[ADFNQRSW]"
    r"|UB|W[ACDFNRSV]?|YO|ZE)"
)
LABELS = (
    r"(?i:(?<!ip )(?<!mail )(?<!mac )(?<!web )(?<!url )(?<!memory )(?<!wallet )(?:home |postal "
    r"|mailing "
    r"|billing |shipping |street |delivery )?address|anschrift|wohnanschrift|adresse"
    r"|adresse postale"
    r"|dirección|domicilio|indirizzo|residenza|endereço|morada|adres|miejsce zamieszkania"
    r"|wohnhaft(?: in)?|wohnt(?: in)?|demeurant(?: au)?|domiciliée?(?: au)?|habite(?: au)?"
    r"|residente(?: en| in)?|vive en|zamieszkał[yaei](?: w| przy)?|mieszka(?: przy| na)?"
    r"|woonachtig(?: te| op)?|woont? op|wohne in|vivo en|abit[ao] in|mor[ao] na|mieszkam przy"
    r"|ship to"
    r"|lives? at|living at|resid(?:es|ing) at|office is at|sent to)"
)


class StreetAddress(Identifier):
    """A place where somebody can be met."""

    entity = "STREET_ADDRESS"
    flags = re.MULTILINE
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern(
            "English: number, name, street word",
            rf"{_START}{_KNOWN}{NO_YEAR}\d{{1,6}}[A-Za-z]?(?:-\d{{1,4}})?,? (?:{_NAME} "
            rf"|\d{{1,3}}(?:st|nd|rd|th) ){{1,4}}"
            rf"{_ENGLISH}(?!\w)(?:,? (?:N|S|E|W|NE|NW|SE|SW)\b)?(?:,?\s{_FLAT})?",
            0.55,
        ),
        Pattern(
            "English: number, name, rare street word",
            rf"{_START}{NO_YEAR}\d{{3,6}} (?:{_NAME} ){{1,2}}{_ENGLISH_RARE}",
            0.5,
        ),
        Pattern(
            "French: number, street word, name",
            rf"{_START}\d{{1,4}}(?: ?(?:bis|ter|quater"
            rf"|[A-D])\b)?,? {_FRENCH} {_LINKING_WORDS}{_NAME}(?: {_NAME}){{0,4}}",
            0.55,
        ),
        Pattern(
            "Spanish, Italian, Portuguese: street word, name, number",
            rf"(?<![\w/]){_ROMANCE} ?{_LINKING_WORDS}(?:{_NAME}[ ,]{{1,2}}"
            rf"(?:(?:de|del|della|delle|degli|dei|di|da|do|dos|y|e|la|las|los)"
            rf"\s){{0,3}}){{1,5}}(?:(?:n|nº|n°|n\.º|nr|núm|número)\.? ?)?{_NUMBER}{_END}",
            0.55,
        ),
        Pattern(
            "Germanic and northern: compound, number",
            rf"(?<![\w-])(?:{_NAME}[ -]){{0,3}}{_UP}[\w'’-]{{0,30}}{_GERMANIC} {_NUMBER}\.?{_END}",
            0.55,
        ),
        Pattern(
            "German: name, street, number",
            rf"(?<![\w-])(?!(?:Auf|Am|An|Ab|In|Im|Der|Die|Das|Dem|Den|Ein|Eine|Mein|Unser|Jeder"
            rf"|Vom|Von)\b)"
            rf"(?:{_NAME}[ -]){{1,3}}(?:Straße|Strasse|Str\.|Allee|Gasse|Platz|Weg|Ring|Chaussee"
            rf"|Damm|Ufer) {_NUMBER}{_END}",
            0.55,
        ),
        Pattern(
            "Germanic: compound with an everyday word",
            rf"(?<![\w-]){_NO_STREET}{_UP}[\w'’-]{{2,30}}{_GERMANIC_WEAK} {_NUMBER}{_END}",
            0.45,
        ),
        Pattern(
            "Polish: street word, name, number",
            rf"(?<!\w){_SLAVIC} ?(?:(?:{_NAME}|\d{{1,2}}|im\.|św\.|ks\.|gen\.|i) ){{1,5}}"
            rf"{_NUMBER}(?: ?(?:m|lok|/)\.? ?\d{{1,4}})?{_END}",
            0.6,
        ),
        Pattern(
            "house number before a postcode",
            rf"(?<![\w-])(?:{_NAME} ){{1,4}}{_NUMBER}(?:,\s?|\s?\n)(?:[A-Z]{{1,2}}-)?(?:\d{{5}}"
            rf"|\d\d-\d{{3}}"
            rf"|(?!19|20)\d{{4}}(?: ?[A-Z]{{2}})?)\s{_NAME}",
            0.55,
        ),
        Pattern(
            "house number, then state and ZIP code",
            rf"{_START}\d{{1,6}} [^\W\d_][^\d\n]{{2,40}}(?:[\n,]"
            rf"|\d{{1,5}})[^\d]{{0,50}}\b{_STATE}[ \n]{{1,2}}"
            r"\d{5}(?!\d)",
            0.55,
        ),
        Pattern(
            "flat",
            r"(?<!\w)(?:(?i:apt|apartment|flat)\.? ?#?\d{1,5}[A-Za-z]?|(?i:suite"
            r"|ste\.?) ?#?\d{3,5})" + _END,
            0.4,
        ),
        Pattern(
            "post box",
            r"(?<!\w)(?i:p\. ?o\. ?box|po box|post office box|postfach|boîte postale|bp|apdo\.?"
            r"|apartado (?:de"
            r" correos|postal)|casella postale|c\.p\.|caixa postal|postbus"
            r"|skrytka pocztowa) \d{1,6}" + _END,
            0.55,
        ),
        Pattern(
            "military",
            r"(?<!\w)(?i:(?:psc|unit|cmr) \d{3,5},? box \d{1,5}|[adf]po a[aep] \d{5})" + _END,
            0.6,
        ),
        Pattern(
            "postcode of the United Kingdom",
            rf"(?<![\w-]){_UK_AREA}\d[A-Z\d]? \d(?!GB|TB)[ABD-HJLNP-UW-Z]{{2}}(?![\w-])",
            0.4,
        ),
        Pattern(
            "beside its words",
            rf"(?<!\w){LABELS}(?:(?i: is| of [^\d\n]{{1,30}} is| lautet| ist| est| es| è| é| jest"
            rf"| to))?"
            rf"[\s:*\"']{{1,6}}(?P<value>\d{{1,6}}[a-z]?,? {_NAME}(?: [\w'’.-]{{1,30}}){{0,4}}"
            rf"|(?:{_FRENCH}|{_ROMANCE}|{_SLAVIC}) ?{_LINKING_WORDS}{_NAME}(?: {_NAME}){{0,3}}"
            rf"|{_NAME}(?: {_NAME}| [a-z]{{1,4}}){{0,4}},? (?!(?:19"
            rf"|20)\d\d\b)\d{{1,5}}(?! de )){_END}",
            0.5,
        ),
    )


class Postcode(Identifier):
    """A postal code beside its words. It narrows down where somebody lives and names nobody, so
    only the profile `strict` counts it."""

    entity = "POSTAL_CODE"
    forms: ClassVar[tuple[Pattern, ...]] = (
        labelled(
            r"zip(?: ?-?code)?|post(?:al)? ?-?code|postleitzahl|plz|code postal|c[óo]digo postal|"
            r"cep|codice postale|postcode|kod pocztowy",
            r"\d{3,6}(?:-\d{3,4})?|\d{2}-\d{3}|\d{4} ?[A-Z]{2}|"
            r"[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|[A-Z]\d[A-Z] ?\d[A-Z]\d",
        ),
    )
