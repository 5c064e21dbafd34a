# ruff: noqa: E501 - tables of words
"""Names of people that something else bears: a brand, a method, a disease, an institution.

A name is no person's where two things hold: it stands in a table, or it is the name in an
institution's title; and what stands beside it is the brand's, the method's or the institution's.
Nothing of that counts where a title stands before the name or where the text near it speaks of a
person: of a birth, an age, a patient, a caller, a sender. Restricted wins a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gateway.classify.names.namesake_tables import BRANDS, INSTITUTIONS, METHODS
from gateway.classify.names.records.keys import folded
from gateway.classify.names.records.plausible import is_place

_AROUND = 48  # characters on either side in which a phrase of the tables may stand
_SENTENCE = 160  # characters on either side in which a sentence is looked for
_AND = r"(?:&|&amp;|and|und|et|y|e|i|en)"
_ENDING = r"(?:['\u2019]s|s['\u2019]?|a|ego|go)?"  # genitives


def _any(phrases: Iterable[str]) -> re.Pattern[str]:
    ways = "|".join(map(_written, sorted(phrases, key=len, reverse=True)))
    return re.compile(rf"(?<![^\W_])(?:{ways})(?![^\W_])")


def _written(phrase: str) -> str:
    """A phrase as texts have it: with hyphens, genitives, and an `and` of any language."""
    return r"[\s\u2010-\u2013.-]{1,2}".join(
        _AND if word == "&" else f"{re.escape(word)}{_ENDING}" for word in folded(phrase).split()
    )


_BRANDS, _METHODS = _any(BRANDS), _any(METHODS)
_INSTITUTIONS = _any(INSTITUTIONS)
_TITRATION = "karl fischer"
"""The one method whose name is somebody's as a whole: a patient may be called so, too."""
_KARL_FISCHER = _any([_TITRATION])
_WORD = re.compile(r"[^\W_]+")
_STEM = 3
_BEGINNINGS = frozenset(
    phrase.split()[0][:_STEM] for phrase in (*BRANDS, *METHODS, *INSTITUTIONS, _TITRATION)
)

_PERSON = re.compile(
    r"(?<![^\W_])(?:patient(?:in|en|e|ka)?|pacient[ae]|pazient[ei]|pacjent\w{0,3}|born|dob|d\.o\.b"
    r"|birth\w{0,4}|gebor\w{2,3}|geb\.|geburt\w*|nee?|naissance|nacid[oa]|nacimiento|nat[oa] (?:il|nel|a)"
    r"|nascita|nascid[oa]|nascimento|urodz\w{2,5}|ur\.|geboorte\w*|year[s]?[ -]old|aged \d+|jahre alt"
    r"|\d{0,3}jahrig\w{0,2}|\d{1,3} (?:ans|anos|anni|lat|jaar)|lives? (?:in|at)|wohnhaft|wohnt|habite|reside"
    r"|abita|mieszka|husband|wife|daughter|brother|sister|mother|father|uncle|aunt|neighbou?r|colleague"
    r"|ehemann|ehefrau|tochter|bruder|schwester|mutter|vater|nachbar\w{0,2}|kolleg(?:e|en|in)|collegue|collega|kolega|friend|freund(?:in)?|chef(?:in)?|jefe|szef|amig[oa]|amic[oa]|mari|femme|fille"
    r"|frere|soeur|voisine?|marido|mujer|esposa|hija|hermano|moglie|figlia|vicin[oa]|maz|zona|corka"
    r"|employee|mitarbeiter\w{0,2}|employe|empleado|dipendente|pracowni\w{1,3}|tenant|mieter\w{0,2}"
    r"|my name|ich heisse|je m.appelle|me llamo|mi chiamo|nazywam|ssn|passport|phone|e-?mails?|signed by"
    r"|insured|versichert\w{0,2}|steuer-?id|iban|salary|gehalt|diagnos\w+ with|admitted|discharged)"
    r"(?![^\W_])|\b\d{1,2}[./]\d{1,2}[./](?:19|20)\d\d\b|\b(?:19|20)\d\d-\d\d-\d\d\b"
)
"""Where these stand near a name, somebody may be called so."""
_ADDRESSED = re.compile(
    r"(?:(?<![^\W_])(?:names?|customer|client|contact|owner|author|sender|recipient|dear|hi|hello"
    r"|hallo|liebe[rs]?|chere?|querid[oa]|estimad[oa]|gentile|cara?|regards|sincerely|grusse?|cordialement"
    r"|saludos|saluti|kunde|kundin|nom|nombre|nome|naam|imie|nazwisko|i am|i'm|ich bin|je suis|soy|sono)"
    r"[\"'`]?\s{0,2}[:=,]?[\s\"'`*]{0,4}"
    r"|(?:from|to|cc|attn)\s?:\s{0,3}"
    r"|(?:my|our|his|her|mein\w{0,2}|unser\w{0,2}|mon|notre|mi|nuestr[oa]|mi[oa]|meu|minha|mijn|onze|moj|moja)"
    r"\s[^\W\d_]{3,15}\s"
    r"|(?:asked?|tell|told|call|called|meet|met|emailed|paid|thanked|married|hired|fired|send|give|show|forward|remind"
    r"|invite|schicke?|sende|gib|frage?|ruf|zeige?|envoie|donne|demande|appelle|envia|dale|pregunta|llama|manda|chiedi"
    r"|chiama|with mr|and mr)\s)$"
)
_ACTS = re.compile(
    r"['\u2019\"`*)]{0,3}\s(?:needs?|wants?|asks|sent|is (?:ill|sick|away|on|our|my|the)|from (?:accounting|sales|hr)|aus der|braucht"
    r"|mochte|veut|quiere|vuole|said|says|told|asked|wrote|bought|called|lives?|lived|works? (?:at|for|in|as)"
    r"|worked|was (?:born|admitted|treated|seen|hired|arrested)|died|married|visited|complain\w*|ordered|paid"
    r"|moved|signed|emailed|sagte?|schrieb|kaufte|wohnt|arbeitet|starb|bat|dit|a dit|achete|habite|dijo|compro"
    r"|vive|trabaja|disse|ha detto|comprato|lavora|powiedzial\w?|kupil\w?|mieszka|zei|kocht|woont)(?![^\W_])"
)
"""What a person does, behind the name."""

_GOODS = re.compile(
    r"(?<![^\W_])(?:tractors?|traktor\w{0,2}|tracteurs?|trattor[ei]|ciagnik\w{0,2}|mowers?|engines?|motors?|motoren?"
    r"|oil change|tyres?|tires?|reifen|pneus?|models?|modell\w{0,2}|modeles?|modelos?|handbags?|bags?|tasche\w?"
    r"|sacs?|bolsos?|bors[ae]|shirts?|hemd\w{0,2}|chemises?|camisas?|camici[ae]|perfumes?|parfums?|profum[oi]"
    r"|shoes?|schuhe?|watch|watches|uhr|dress|jeans|clothing|collections?|kollektion\w{0,2}|coleccion|slogans?"
    r"|brands?|brand voice|marken?|marques?|marcas?|march[io]{1,2}|stores?|shops?|filialen?|magasins?|boutiques?"
    r"|tiendas?|negozi\w?|sklep\w{0,2}|banks?|banking|banques?|banco|banca|funds?|stocks?|shares?|aktien?|actions"
    r"|azioni|annual report|geschaftsbericht|geschaftsjahr|quarterly|earnings|investors?|revenues?|umsatz"
    r"|competitors?|wettbewerber|concurrents?|products?|produkte?|produits?|produktbeschreibung|product description"
    r"|warranty|garantie?|garantia|garanzia|prices?|preise?|prix|precios?|prezz[oi]|cash management|audit|franchise"
    r"|dealers?|handler|recall|ice creams?|whiske?ys?|wines?|vinos?|coffee|kaffee|maschine\w?|machines?|printers?"
    r"|drucker|gafas|brillen?|occhiali|glasses|furniture|sofas?|betten|workbench|konditionen|fees|swot|mash bills?"
    r"|alloy|torque|serial number|fiche produit|index|indices|market|mercado|licens\w{1,3}|konkurrent\w{0,2}"
    r"|arbeitgeber|versand|alt text|anuncio|talla|sucursal\w{0,2}|ads?|advert\w{0,6}|cologne|lipstick|cookware"
    r"|costa|kostet|wert|tarjetas|bottle|spare parts|ersatzteil\w?|pieces|hose|lamp)(?![^\W_])"
)
_MODEL_CODE = re.compile(r"\s(?=[a-z]{0,4}\d)[a-z\d]{2,8}(?![^\W_])")
_ARTICLE = re.compile(
    r"(?<![^\W_])(?:an?|my|our|your|ein\w{0,2}|mein\w{0,2}|un[ae]?|mon|mi|een)\s$"
)

_METHOD_HEAD = (
    r"(?:\w{0,12}titr|\w{0,8}test|tests|prueba|method|methode?|metod|algorith?m|equation|ecuacion|equazion"
    r"|gleichung|\w{0,8}gleichung|rownan|vergelijk|theorem|teorem|satz|stelling|twierdzen|lemma|laws?\b|gesetz"
    r"|loi\b|ley\b|legge|effect|effekt|effet|efecto|process|\w{0,8}verfahren|procede|proceso|reaction|reaktion"
    r"|reaccion|reazion|\w{0,6}curve|kurve|courbe|curva|krzyw|estimat|schatz|estimador|model|modell|modele|modelo"
    r"|distribut|verteilung|distribuc|statisti|syndrom|sindrom|zespol|diseas|maladi|enfermedad|malatti|doenca"
    r"|\w{0,8}krankheit|morbus|chorob|ziekte|stain|farbung|coloration|tincion|colorazion|barwien|kleuring|virus"
    r"|lymphom|sign\b|signs\b|zeichen|reflex|index|inequalit|ungleichung|inegalit|desigualdad|disuguaglianz"
    r"|transform|iteration|search|suche|simulation|equilibri|gleichgewicht|statistic|condens|kondens|experiment"
    r"|versuch|pattern|cycloadd|acyl|aliphat|matrix|matrices|type indicator|option|kinetic|kinetik|reagen|reagenz"
    r"|decomposit|zerlegung|criteri|kriteri|principle|prinzip|principe|principio|coefficient|koeffizient|analys"
    r"|plot|diagram|number|zahl|factor|faktor|score|scale|skala|rule|regel|regle|regla|regola|filter"
    r"|proportional|cell|zelle|anaemia|anemi|palsy|dystroph|ataxia|phenomen|phanomen|carcinom|tumor|sarcom"
    r"|titolazion|valoracion|miareczkowan|titulac)"
)
_METHOD_AFTER = re.compile(
    rf"['\u2019]?s?[\s\u2010-\u2013-]{{1,2}}(?:[^\W\d_]{{1,14}}[\s-]){{0,2}}?{_METHOD_HEAD}"
)
_LINK = r"(?:(?:de|du|des|d['\u2019]|di|del|della|dello|do|da|von|nach|of|la|el|le|the|i|metoda|w)\s?){0,3}"
_METHOD_BEFORE = re.compile(rf"(?<![^\W_]){_METHOD_HEAD}\w{{0,8}}\s(?:\w{{1,12}}\s)??{_LINK}$")
_DISEASE_AFTER = re.compile(rf"['\u2019]?s?[\s\u2010-\u2013-]{_METHOD_HEAD}")
_TITRATED_AFTER = re.compile(
    r"['\u2019]?s?[\s\u2010-\u2013-](?:coulometric |volumetric )?(?:titr|titol|miareczk|reage|method|verfahren|water)"
)
_TITRATED_BEFORE = re.compile(
    rf"(?:titr\w*|titol\w*|titul\w*|miareczk\w*|metod\w*|methode|valoracion)\s{_LINK}$"
)

_SCHOOL = (
    r"(?:universit\w{1,4}|universid\w{2,4}|uniwersytet\w{0,3}|politechni\w{1,3}|politecnic[oa]|polytechni\w{1,4}"
    r"|hochschule|gymnasium|lycee|liceo|liceum|instituts?|institutes?|institut[oa]|istituto|instytut\w{0,2}"
    r"|foundations?|stiftung|fondation|fundacion|fundacao|fondazione|fundacj\w{1,2}|airport|aeroports?|aeropuerto"
    r"|aeroporto|lotnisk\w{1,2}|luchthaven|flughafen|museums?|musee|museo|museu|muze\w{2,3}|observator\w{1,3}"
    r"|aerodrome)"
)
_CARE = r"(?:hospitals?|hopital|ospedale|szpital\w{0,2}|ziekenhuis|krankenhaus|klinik\w{0,2}|clinica|clinic|cancer|centre|center)"
_HOUSE = (
    r"(?:college|school|schule|library|house|prize|preis|chair|publish\w+|journals?|press|haus)"
)
_LINKS = r"(?:(?:imienia|im\.|de|d['\u2019]|di|degli|do|da|dei|van|von|the)\s?)?"
_ANY_BEFORE = re.compile(rf"(?<![^\W_])(?:{_SCHOOL}|{_CARE}|{_HOUSE})\s{_LINKS}$")
_TITLE_WORDS = r"(?:[A-Z][a-z]{2,14}\s){0,2}?"
_ANY_AFTER = re.compile(
    rf"['\u2019]?s?(?:\s{_TITLE_WORDS}(?=[A-Z])|[\u2010-\u2013-])(?i:{_SCHOOL}|{_CARE}|{_HOUSE})(?!\w)"
)
_LONG_AFTER = re.compile(rf"['\u2019]?s?\s(?i:{_SCHOOL}|{_CARE}|{_HOUSE})(?!\w)")

# Whosever name it is; as written, because a capital says that the noun is part of a title.
_TITLE_BEFORE = re.compile(
    r"(?<!\w)(?:(?:Universi(?:dad|tat|dade|tà|té)|Uniwersyte\w{1,4}|Politechni\w{1,3}|Politecnico|Instituto|Istituto"
    r"|Instytu\w{1,3}|Liceo|Liceum|Lycée|Fundación|Fundação|Fondazione|Fondation|Fundacj\w{1,2}|Museo|Musée|Aeropuerto"
    r"|Aeroporto|Aéroport)\s(?:de\s|d['\u2019]|di\s|degli\s)?(?:imienia\s|im\.\s?)?|(?<!\w)(?:imienia|im\.)\s)$"
)
_TITLE_AFTER = re.compile(
    r"['\u2019]?s?\s(?:Institutes?|Foundation|Museum|Airport|Observatory|Universit\w{1,4}|Institut|Stiftung)(?!\w)"
)
_THE = re.compile(r"(?<!\w)[Tt]he\s$")
_COMPOUND_AFTER = re.compile(
    r"[\u2010-\u2013-]?(?<=[\u2010-\u2013-])(?:Institut|Universität|Stiftung|Museum|Hochschule|Gymnasium|Flughafen"
    r"|Schule|Klinik|Krankenhaus|Platz|Preis)(?:s|es)?(?!\w)"
)
_TITLE_INSIDE = re.compile(r"[\u2010-\u2013-](?:Institut|Universität|Stiftung|Museum)$")


def is_namesake(text: str, start: int, end: int) -> bool:
    """Whether the name from `start` to `end` is no person's, by what it is part of and next to."""
    first, last = max(0, start - _AROUND), min(len(text), end + _AROUND)
    near = folded(text[first:last])
    own = start - first, end - first
    if any(word[:_STEM] in _BEGINNINGS for word in _WORD.findall(near)):
        for pattern, stands_for_it in _FAMILIES:
            for match in pattern.finditer(near):
                if _covers(near, match.span(), own) and stands_for_it(text, first, near, match):
                    return True
    return _is_institution(text, start, end)


def is_product(text: str, start: int, end: int) -> bool:
    """Whether a brand and a model's code stand there (`John Deere 6120M`), and no person is near."""
    match = _BRANDS.match(folded(text[start:end]))
    if match is None or not _MODEL_CODE.fullmatch(folded(text[start + match.end() : end])):
        return False
    return not _mentions_person(text, start, end)


def _covers(near: str, phrase: tuple[int, int], own: tuple[int, int]) -> bool:
    """Whether the name is the phrase, a part of it, or has words of things next to it."""
    if phrase[0] >= own[1] or own[0] >= phrase[1]:
        return False
    rest = f"{near[own[0] : phrase[0]]} {near[phrase[1] : own[1]]}"
    return all(map(_is_thing, re.findall(r"[^\W\d_]+", rest)))


_THINGS = re.compile(
    rf"(?:{_METHOD_HEAD}|{_SCHOOL}|{_CARE}|{_HOUSE})\w{{0,8}}|d[eiu]|den?|der|die|das|madrid|barajas|s|m"
)


def _is_thing(word: str) -> bool:
    return _THINGS.fullmatch(word) is not None or is_place(word)


def _mentions_person(text: str, start: int, end: int) -> bool:
    sentence = folded(text[max(0, start - _SENTENCE) : end + _SENTENCE])
    before = folded(text[max(0, start - 40) : start])
    return (
        _PERSON.search(sentence) is not None
        or _ADDRESSED.search(before) is not None
        or _ACTS.match(folded(text[end : end + 24])) is not None
    )


def _is_brand(text: str, first: int, near: str, match: re.Match[str]) -> bool:
    start, end = first + match.start(), first + match.end()
    if _mentions_person(text, start, end):
        return False
    before, after = near[: match.start()], near[match.end() :]
    if _ARTICLE.search(before) or _MODEL_CODE.match(after) or "&" in match[0]:
        return True
    return _GOODS.search(_sentence(text, start, end)) is not None


def _sentence(text: str, start: int, end: int) -> str:
    """The sentence round a place, without what stands at it."""
    before = re.split(r"[.!?\n]\s", folded(text[max(0, start - _SENTENCE) : start]))[-1]
    after = re.split(r"[.!?](?:\s|$)|\n", folded(text[end : end + _SENTENCE]), maxsplit=1)[0]
    return f"{before} | {after}"


def _is_method(text: str, first: int, near: str, match: re.Match[str]) -> bool:
    before, after = near[: match.start()], near[match.end() :]
    if _is_pair(match):
        others = sum(map(_is_pair, _METHODS.finditer(near))) > 1
        return bool(others or _METHOD_AFTER.match(after) or _METHOD_BEFORE.search(before))
    if not (_DISEASE_AFTER.match(after) or _METHOD_BEFORE.search(before)):
        return False
    return not _mentions_person(text, first + match.start(), first + match.end())


def _is_pair(match: re.Match[str]) -> bool:
    """Whether a method has the names of two people and more: hardly anybody's."""
    return re.search(r"[\s\u2010-\u2013-]", match[0]) is not None


def _is_titration(text: str, first: int, near: str, match: re.Match[str]) -> bool:
    before, after = near[: match.start()], near[match.end() :]
    if not (_TITRATED_AFTER.match(after) or _TITRATED_BEFORE.search(before)):
        return False
    return not _mentions_person(text, first + match.start(), first + match.end())


def _is_known_institution(text: str, first: int, near: str, match: re.Match[str]) -> bool:
    start, end = first + match.start(), first + match.end()
    long = match[0].count(" ") > 1
    named = (_LONG_AFTER if long else _ANY_AFTER).match(text, end) or _ANY_BEFORE.search(
        near[: match.start()]
    )
    return bool(named) and not _mentions_person(text, start, end)


def _is_institution(text: str, start: int, end: int) -> bool:
    """By the noun that has the name in its title, whosever name it is."""
    inside = _TITLE_INSIDE.search(text, start, end)
    if inside is not None:
        end = inside.start()
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    named = (
        _TITLE_BEFORE.search(before)
        or _COMPOUND_AFTER.match(text, end)
        or (_THE.search(before) and _TITLE_AFTER.match(after))
    )
    return bool(named) and not _mentions_person(text, start, end)


_FAMILIES = (
    (_BRANDS, _is_brand),
    (_METHODS, _is_method),
    (_KARL_FISCHER, _is_titration),
    (_INSTITUTIONS, _is_known_institution),
)
