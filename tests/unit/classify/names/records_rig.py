# ruff: noqa: E501 - letters of other languages are meant; a record is a line
"""Records of people who do not exist, in whatever a caller may write them, and records of nobody.

Names are made of syllables, so that no list of names has them.
"""

from __future__ import annotations

import html
import json
import random
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SYLLABLES: Mapping[str, tuple[str, ...]] = {
    "en": ("bra", "thorn", "wick", "dell", "har", "quil", "sten", "mor", "fen", "loe"),
    "de": ("gru", "bär", "hof", "stein", "wüs", "kels", "rön", "fritt", "lau", "mer"),
    "fr": ("bré", "vau", "lanx", "cour", "mi", "cel", "gné", "rou", "tel", "doy"),
    "es": ("gar", "zú", "ñe", "bal", "mon", "ri", "quin", "tor", "ple", "ves"),
    "it": ("bri", "zon", "ghe", "tti", "lam", "por", "cci", "val", "fre", "sco"),
    "pt": ("gui", "ção", "mar", "nha", "bel", "tró", "lou", "fer", "qui", "ves"),
    "nl": ("hoe", "kstra", "dijk", "blij", "vreek", "schou", "ter", "wijn", "gaar", "meulk"),
    "pl": ("trze", "bia", "szcz", "kow", "łęg", "wieg", "rzy", "mań", "ćwi", "zdró"),
}
FEMALE = {"pl": "ska", "it": "ini", "es": "ez", "pt": "eira"}
KEYS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "en": (("first name", "last name"), ("given name", "family name"), ("forename", "surname"),
           ("firstname", "lastname")),
    "de": (("Vorname", "Nachname"), ("Vorname", "Familienname"), ("Vornamen", "Zuname")),
    "fr": (("prénom", "nom"), ("Prénoms", "Nom de famille"), ("prenom", "nom de naissance")),
    "es": (("nombre", "apellidos"), ("Nombre", "Apellido"), ("nombre de pila", "primer apellido")),
    "it": (("nome", "cognome"), ("Nome", "Cognome")),
    "pt": (("nome", "apelido"), ("Primeiro nome", "Sobrenome"), ("nome próprio", "nome de família")),
    "nl": (("voornaam", "achternaam"), ("Roepnaam", "Achternaam"), ("voornamen", "familienaam")),
    "pl": (("imię", "nazwisko"), ("Imiona", "Nazwisko"), ("imie", "nazwisko")),
}  # fmt: skip
BIRTH: Mapping[str, str] = {
    "en": "Date of birth", "de": "Geburtsdatum", "fr": "Date de naissance",
    "es": "Fecha de nacimiento", "it": "Data di nascita", "pt": "Data de nascimento",
    "nl": "Geboortedatum", "pl": "Data urodzenia",
}  # fmt: skip
NUMBER: Mapping[str, str] = {
    "en": "Customer number", "de": "Kundennummer", "fr": "Numéro de client",
    "es": "Número de cliente", "it": "Codice cliente", "pt": "Número de cliente",
    "nl": "Klantnummer", "pl": "Numer klienta",
}  # fmt: skip
DIAGNOSIS: Mapping[str, tuple[str, str]] = {
    "en": ("Diagnosis", "type 2 diabetes"), "de": ("Diagnose", "Bluthochdruck"),
    "fr": ("Diagnostic", "asthme"), "es": ("Diagnóstico", "hipertensión"),
    "it": ("Diagnosi", "diabete di tipo 2"), "pt": ("Diagnóstico", "asma"),
    "nl": ("Diagnose", "astma"), "pl": ("Rozpoznanie", "cukrzyca typu 2"),
}  # fmt: skip
PATIENT: Mapping[str, str] = {
    "en": "Patient", "de": "Patientin", "fr": "Patiente", "es": "Paciente", "it": "Paziente",
    "pt": "Paciente", "nl": "Patiënt", "pl": "Pacjentka",
}  # fmt: skip
CARRIER: Mapping[str, tuple[str, str]] = {
    "en": ("My first name is {g}.", "And the last name is {f}."),
    "de": ("Mein Vorname ist {g}.", "Und der Nachname lautet {f}."),
    "fr": ("Mon prénom est {g}.", "Et mon nom de famille est {f}."),
    "es": ("Mi nombre es {g}.", "Y mi apellido es {f}."),
    "it": ("Il mio nome è {g}.", "E il cognome è {f}."),
    "pt": ("O meu nome é {g}.", "E o apelido é {f}."),
    "nl": ("Mijn voornaam is {g}.", "En mijn achternaam is {f}."),
    "pl": ("Moje imię to {g}.", "A nazwisko to {f}."),
}


@dataclass(frozen=True, slots=True)
class Person:
    language: str
    given: str
    family: str
    given_key: str
    family_key: str
    born: str
    number: str


def person(dice: random.Random, language: str) -> Person:
    given_key, family_key = dice.choice(KEYS[language])
    year, month, day = dice.randint(1930, 2009), dice.randint(1, 12), dice.randint(1, 28)
    return Person(
        language,
        _cased(dice, _word(dice, language, 2)),
        _cased(dice, _word(dice, language, dice.choice((2, 3))) + FEMALE.get(language, "")),
        given_key,
        family_key,
        f"{year}-{month:02}-{day:02}" if language == "en" else f"{day:02}.{month:02}.{year}",
        f"{dice.randint(10_000, 99_999)}",
    )


def _word(dice: random.Random, language: str, syllables: int) -> str:
    return "".join(dice.sample(SYLLABLES[language], syllables)).capitalize()


def _cased(dice: random.Random, name: str) -> str:
    return name.upper() if dice.random() < 0.1 else name


def snake(key: str) -> str:
    return key.lower().replace(" ", "_")


def camel(key: str) -> str:
    head, *rest = key.lower().split(" ")
    return head + "".join(word.capitalize() for word in rest)


def kebab(key: str) -> str:
    return key.lower().replace(" ", "-")


def dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


Format = Callable[[Person], str]

TWO_FIELDS: Mapping[str, Format] = {
    "JSON": lambda p: dumps({p.given_key: p.given, p.family_key: p.family}),
    "snake_case": lambda p: dumps(
        {"id": 7, snake(p.family_key): p.family, "city": "Leeds", snake(p.given_key): p.given}
    ),
    "camelCase": lambda p: dumps(
        {camel(p.given_key): p.given, "plan": "basic", camel(p.family_key): p.family}
    ),
    "kebab-case": lambda p: dumps({kebab(p.given_key): p.given, kebab(p.family_key): p.family}),
    "prefixed": lambda p: dumps(
        {"patient_" + snake(p.given_key): p.given, "patient_" + snake(p.family_key): p.family}
    ),
    "prefixed camelCase": lambda p: dumps(
        {
            "customer" + p.given_key.title().replace(" ", ""): p.given,
            "customer" + p.family_key.title().replace(" ", ""): p.family,
        }
    ),
    "escaped JSON": lambda p: json.dumps(
        {snake(p.given_key): p.given, snake(p.family_key): p.family}
    ),
    "JSON in JSON": lambda p: json.dumps(
        {"arguments": json.dumps({camel(p.given_key): p.given, camel(p.family_key): p.family})}
    ),
    "indented JSON": lambda p: json.dumps(
        {"person": {p.given_key: p.given, p.family_key: p.family}}, indent=2, ensure_ascii=False
    ),
    "nested name": lambda p: dumps({"name": {"first": p.given, "last": p.family}}),
    "FHIR name": lambda p: dumps(
        {"name": [{"use": "official", "family": p.family, "given": [p.given, "M."]}]}
    ),
    "FHIR patient": lambda p: dumps(
        {
            "resourceType": "Patient",
            "active": True,
            "name": [{"family": p.family, "given": [p.given]}],
            "gender": "female",
        }
    ),
    "dotted": lambda p: f"patient.name.family={p.family}\npatient.name.given={p.given}\n",
    "array of pairs": lambda p: dumps(
        [
            {"name": snake(p.given_key), "value": p.given},
            {"name": snake(p.family_key), "value": p.family},
        ]
    ),
    "array of pairs, reversed": lambda p: dumps(
        [
            {"value": p.given, "name": snake(p.given_key)},
            {"value": p.family, "name": snake(p.family_key)},
        ]
    ),
    "array of people": lambda p: dumps(
        [
            {camel(p.given_key): "Quenva", camel(p.family_key): ""},
            {camel(p.given_key): p.given, camel(p.family_key): p.family},
        ]
    ),
    "columns and data": lambda p: dumps(
        {
            "columns": ["id", p.given_key, p.family_key, "plan"],
            "data": [[7, p.given, p.family, "basic"]],
        }
    ),
    "lists by column": lambda p: dumps({p.given_key: [p.given], p.family_key: [p.family]}),
    "initial": lambda p: dumps(
        {camel(p.given_key): p.given[0] + ".", camel(p.family_key): p.family}
    ),
    "title": lambda p: dumps({camel(p.given_key): "Dr. " + p.given, camel(p.family_key): p.family}),
    "two given names": lambda p: dumps(
        {camel(p.given_key): p.given + " Brelinda", camel(p.family_key): p.family}
    ),
    "double family name": lambda p: dumps(
        {camel(p.given_key): p.given, camel(p.family_key): p.family + "-Torvemaak"}
    ),
    "upper case": lambda p: dumps(
        {p.given_key.upper(): p.given.upper(), p.family_key.upper(): p.family.upper()}
    ),
    "lower case": lambda p: dumps(
        {snake(p.given_key): p.given.lower(), snake(p.family_key): p.family.lower()}
    ),
    "URL-encoded form": lambda p: urllib.parse.urlencode(
        {snake(p.given_key): p.given, "plan": "basic", snake(p.family_key): p.family}
    ),
    "query": lambda p: (
        f"https://crm.internal/search?{urllib.parse.quote(snake(p.given_key))}={urllib.parse.quote(p.given)}&{urllib.parse.quote(snake(p.family_key))}={urllib.parse.quote(p.family)}"
    ),
    "HTML form": lambda p: (
        f'<form><input type="text" name="{snake(p.given_key)}" id="f1" value="{p.given}"><input name="{snake(p.family_key)}" value="{p.family}"></form>'
    ),
    "HTML form, reversed": lambda p: (
        f'<input value="{p.given}" name="{snake(p.given_key)}"/>\n<input value="{p.family}" name="{snake(p.family_key)}"/>'
    ),
    "HTML entities": lambda p: (
        f'<input name="{snake(p.given_key)}" value="{_entities(p.given)}"><input name="{snake(p.family_key)}" value="{_entities(p.family)}">'
    ),
    "HTML labels": lambda p: (
        f'<label>{p.given_key}</label><input value="{p.given}"><label>{p.family_key}</label><input value="{p.family}">'
    ),
    "HTML table": lambda p: (
        f"<table><tr><th>Id</th><th>{p.given_key}</th><th>{p.family_key}</th></tr><tr><td>7</td><td>{p.given}</td><td>{p.family}</td></tr></table>"
    ),
    "HTML rows": lambda p: (
        f"<tr><td>{p.given_key}</td><td>{p.given}</td></tr>\n<tr><td>{p.family_key}:</td><td><b>{p.family}</b></td></tr>"
    ),
    "HTML definitions": lambda p: (
        f"<dl><dt>{p.given_key}</dt><dd>{p.given}</dd><dt>{p.family_key}</dt><dd>{p.family}</dd></dl>"
    ),
    "CSV": lambda p: (
        f"id,{snake(p.given_key)},{snake(p.family_key)},plan\n7,{p.given},{p.family},basic\n"
    ),
    "CSV, quoted": lambda p: (
        f'"id","{p.family_key}","plan","{p.given_key}"\n"7","{p.family}","basic","{p.given}"\n'
    ),
    "CSV, many rows": lambda p: (
        f"id,{p.given_key},{p.family_key}\n1,,\n2,n/a,n/a\n3,{p.given},{p.family}\n"
    ),
    "semicolons": lambda p: f"{p.family_key};{p.given_key};Plan\n{p.family};{p.given};basic\n",
    "TSV": lambda p: f"id\t{p.given_key}\tcity\t{p.family_key}\n7\t{p.given}\tLeeds\t{p.family}\n",
    "CSV in JSON": lambda p: json.dumps(
        {"file": f"id,{snake(p.given_key)},{snake(p.family_key)}\r\n7,{p.given},{p.family}\r\n"}
    ),
    "Markdown table": lambda p: (
        f"| Id | {p.given_key} | {p.family_key} |\n|---|:--|--:|\n| 7 | {p.given} | {p.family} |\n"
    ),
    "Markdown rows": lambda p: (
        f"| Field | Value |\n|---|---|\n| {p.given_key} | {p.given} |\n| {p.family_key} | {p.family} |\n"
    ),
    "Markdown list": lambda p: (
        f"- **{p.given_key}**: {p.given}\n- **{p.family_key}:** {p.family}\n"
    ),
    "SQL insert": lambda p: (
        f"INSERT INTO patients (id, {snake(p.family_key)}, {snake(p.given_key)}) VALUES (7, '{p.family}', '{p.given}');"
    ),
    "SQL insert, rows": lambda p: (
        f"insert into \"people\" (\"{snake(p.given_key)}\", \"{snake(p.family_key)}\", born)\nvalues\n  (NULL, NULL, NULL),\n  (N'{p.given}', N'{p.family}', '1980-01-01')"
    ),
    "SQL update": lambda p: (
        f"UPDATE people SET {snake(p.given_key)} = '{p.given}', {snake(p.family_key)} = '{p.family}' WHERE id = 7"
    ),
    "SQL where": lambda p: (
        f"SELECT * FROM people p WHERE p.{snake(p.family_key)} = '{p.family}' AND p.{snake(p.given_key)} LIKE '{p.given}'"
    ),
    "SQL copy": lambda p: (
        f"COPY people (id, {snake(p.given_key)}, {snake(p.family_key)}) FROM stdin;\n7\t{p.given}\t{p.family}\n\\.\n"
    ),
    "YAML": lambda p: (
        f"patient:\n  {snake(p.family_key)}: {p.family}\n  {snake(p.given_key)}: {p.given}\n  ward: 4\n"
    ),
    "YAML, quoted": lambda p: (
        f"- {camel(p.given_key)}: '{p.given}'\n  {camel(p.family_key)}: \"{p.family}\"\n"
    ),
    "YAML list": lambda p: f"name:\n  family: {p.family}\n  given:\n    - {p.given}\n",
    "TOML": lambda p: (
        f'[person]\n{snake(p.given_key)} = "{p.given}"\n{snake(p.family_key)} = "{p.family}"\n'
    ),
    "XML": lambda p: (
        f"<person><{snake(p.family_key)}>{p.family}</{snake(p.family_key)}><{snake(p.given_key)}>{p.given}</{snake(p.given_key)}></person>"
    ),
    "XML, namespace": lambda p: (
        f"<ns:{camel(p.given_key)}>\n  {p.given}\n</ns:{camel(p.given_key)}>\n<ns:{camel(p.family_key)}>\n  {p.family}\n</ns:{camel(p.family_key)}>"
    ),
    "XML attributes": lambda p: (
        f'<person {snake(p.given_key)}="{p.given}" {snake(p.family_key)}="{p.family}"/>'
    ),
    "XML fields": lambda p: (
        f'<field name="{snake(p.given_key)}">{p.given}</field><field name="{snake(p.family_key)}">{p.family}</field>'
    ),
    "XML CDATA": lambda p: (
        f"<{camel(p.given_key)}><![CDATA[{p.given}]]></{camel(p.given_key)}><{camel(p.family_key)}><![CDATA[{p.family}]]></{camel(p.family_key)}>"
    ),
    "FHIR XML": lambda p: (
        f'<name><use value="official"/><family value="{p.family}"/><given value="{p.given}"/></name>'
    ),
    "CDA": lambda p: (
        f"<patient><name><given>{p.given}</given><family>{p.family}</family></name></patient>"
    ),
    "lines": lambda p: (
        f"{p.given_key}: {p.given}\n{p.family_key}: {p.family}\nReason for the visit: check-up"
    ),
    "lines, upper": lambda p: (
        f"{p.family_key.upper()} : {p.family}\n{p.given_key.upper()} : {p.given}"
    ),
    "lines, tabs": lambda p: f"{p.given_key}\t{p.given}\n{p.family_key}\t{p.family}",
    "lines, dots": lambda p: (
        f"{p.given_key} ........: {p.given}\n{p.family_key} .......: {p.family}"
    ),
    "one line": lambda p: f"{p.given_key}: {p.given}, {p.family_key}: {p.family}, ward 4",
    "one line, semicolons": lambda p: (
        f"{p.family_key}={p.family}; {p.given_key}={p.given}; plan=basic"
    ),
    "HL7": lambda p: (
        f"MSH|^~\\&|ADT|H|||20240101||ADT^A01|1|P|2.5\rPID|1||48213^^^ADT||{p.family}^{p.given}^M||19800112|F"
    ),
    "HL7, upper": lambda p: f"PID|1||48213^^^H^MR||{p.family.upper()}^{p.given.upper()}|||F",
    "carets": lambda p: f"{p.family}^{p.given}",
    "X12": lambda p: f"NM1*IL*1*{p.family.upper()}*{p.given.upper()}*M***MI*48213~",
    "vCard": lambda p: f"BEGIN:VCARD\nVERSION:3.0\nN:{p.family};{p.given};;;\nEND:VCARD",
    "vCard, charset": lambda p: (
        f"BEGIN:VCARD\r\nVERSION:2.1\r\nN;CHARSET=UTF-8:{p.family};{p.given};;Dr.;\r\nEND:VCARD"
    ),
    "LDIF": lambda p: (
        f"dn: uid=x7,ou=people\nobjectClass: person\nsn: {p.family}\ngivenName: {p.given}\n"
    ),
    "LDAP filter": lambda p: f"(&(objectClass=person)(sn={p.family})(givenName={p.given}))",
    "multipart": lambda p: (
        f'--b7\r\nContent-Disposition: form-data; name="{snake(p.given_key)}"\r\n\r\n{p.given}\r\n--b7\r\nContent-Disposition: form-data; name="{snake(p.family_key)}"\r\n\r\n{p.family}\r\n--b7--'
    ),
    "Python": lambda p: (
        f"Person({snake(p.given_key)}='{p.given}', {snake(p.family_key)}='{p.family}')"
    ),
    "Python dict": lambda p: str({snake(p.given_key): p.given, snake(p.family_key): p.family}),
    "JavaScript": lambda p: (
        f'const p = {{ {camel(p.given_key)}: "{p.given}", {camel(p.family_key)}: "{p.family}" }};'
    ),
    "PHP": lambda p: (
        f"['{snake(p.given_key)}' => '{p.given}', '{snake(p.family_key)}' => '{p.family}']"
    ),
    "log": lambda p: (
        f"2024-03-11 08:00:01 INFO user created {snake(p.given_key)}={p.given} {snake(p.family_key)}={p.family} plan=basic"
    ),
    "DynamoDB": lambda p: dumps(
        {"Item": {camel(p.given_key): {"S": p.given}, camel(p.family_key): {"S": p.family}}}
    ),
    "Firestore": lambda p: dumps(
        {
            "fields": {
                camel(p.given_key): {"stringValue": p.given},
                camel(p.family_key): {"stringValue": p.family},
            }
        }
    ),
    "prose": lambda p: " ".join(CARRIER[p.language]).format(g=p.given, f=p.family),
    "joined strings": lambda p: "\n|\n".join(
        (snake(p.given_key), p.given, "plan", "basic", snake(p.family_key), p.family)
    ),
    "joined pairs": lambda p: "\n|\n".join(
        (snake(p.given_key), "value", p.given, snake(p.family_key), "value", p.family)
    ),
    "tensor columns": lambda p: "\n|\n".join(
        (p.given_key, p.given, "Brelinda", p.family_key, p.family, "Torvemaak")
    ),
}
"""A given and a family name under keys, or in places, of their own."""

BESIDE: Mapping[str, Format] = {
    "form with date of birth": lambda p: f"Name: {p.family}\n{BIRTH[p.language]}: {p.born}\n",
    "patient with diagnosis": lambda p: f"{PATIENT[p.language]}: {p.family}\n{DIAGNOSIS[p.language][0]}: {DIAGNOSIS[p.language][1]}\n",
    "given name and date of birth": lambda p: dumps({camel(p.given_key): p.given, camel(BIRTH[p.language]): p.born}),
    "family name and number": lambda p: dumps({snake(p.family_key): p.family, snake(NUMBER[p.language]): p.number}),
    "lines with number": lambda p: f"{p.family_key}: {p.family}\n{NUMBER[p.language]}: {p.number}",
    "CSV with date of birth": lambda p: f"{p.family_key};{BIRTH[p.language]}\n{p.family};{p.born}\n",
    "FHIR family and birth date": lambda p: dumps({"resourceType": "Patient", "name": [{"family": p.family}], "birthDate": "1980-01-12"}),
    "form with both": lambda p: f"Name: {p.family}\n{BIRTH[p.language]}: {p.born}\n{DIAGNOSIS[p.language][0]}: {DIAGNOSIS[p.language][1]}",
    "XML with date of birth": lambda p: f"<patient><{snake(p.family_key)}>{p.family}</{snake(p.family_key)}><birthDate>1980-01-12</birthDate></patient>",
    "joined strings": lambda p: "\n|\n".join((snake(p.family_key), p.family, snake(BIRTH[p.language]), p.born)),
}  # fmt: skip
"""A lone name beside what makes it somebody's."""


def _entities(text: str) -> str:
    return "".join(html.escape(c) if c.isascii() else f"&#{ord(c)};" for c in text)


def adjacent(given: str, family: str) -> dict[str, str]:
    """Cells beside each other, without a word of what they are."""
    return {
        "list": dumps([given, family]),
        "row of a table": f"| {given} | {family} |",
        "CSV without a head": f"7,{given},{family},basic",
        "SQL values": f"INSERT INTO patients VALUES (7, '{given}', '{family}', 'basic')",
        "strings of a call": f"{given}\n|\n{family}",
        "tabs": f"x\t{family}\t{given}\tbasic",
    }


NOBODY: Mapping[str, str] = {
    "labels": dumps({"first_name_label": "Vorname", "last_name_label": "Nachname"}),
    "translations": dumps({"firstName": "Prénom", "lastName": "Nom de famille"}),
    "translations, elsewhere": dumps({"first_name": "Etunimi", "last_name": "Sukunimi"}),
    "JSON schema": dumps(
        {
            "type": "object",
            "properties": {
                "first_name": {"type": "string", "description": "The first name"},
                "last_name": {"type": "string", "maxLength": 80},
            },
            "required": ["first_name", "last_name"],
        }
    ),
    "tool": dumps(
        {
            "type": "function",
            "function": {
                "name": "create_customer",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "firstName": {"type": "string"},
                        "lastName": {"type": "string"},
                        "birthDate": {"type": "string", "format": "date"},
                    },
                },
            },
        }
    ),
    "tool, joined": "\n|\n".join(
        (
            "create_customer",
            "first_name",
            "Given name of the customer",
            "last_name",
            "Family name of the customer",
            "date_of_birth",
            "format",
            "date",
        )
    ),
    "code": "def full_name(self):\n    return f'{self.first_name} {self.last_name}'\n",
    "assignments": "this.firstName = firstName;\nthis.lastName = lastName;\nconst lastName = parts[1];\n",
    "TypeScript": "interface Person { firstName: string; lastName: string; birthDate?: Date }",
    "Java": "private String firstName;\nprivate String lastName;\npublic void setFirstName(String firstName) { this.firstName = firstName; }",
    "pandas": "df['first_name'] = df['first_name'].str.strip()\ndf['last_name'] = df['last_name'].str.upper()",
    "SQL placeholders": "INSERT INTO people (first_name, last_name) VALUES (?, ?)",
    "SQL format": "INSERT INTO people (first_name, last_name) VALUES (%s, %s)",
    "SQL names": "INSERT INTO people (first_name, last_name) VALUES (:first_name, :last_name)",
    "SQL table": "CREATE TABLE people (id INT PRIMARY KEY, first_name VARCHAR(80) NOT NULL, last_name VARCHAR(80), date_of_birth DATE)",
    "SQL select": "SELECT first_name, last_name, date_of_birth FROM people WHERE last_name IS NOT NULL ORDER BY last_name",
    "empty": dumps({"first_name": "", "last_name": "", "city": "Leeds"}),
    "null": dumps({"firstName": None, "lastName": None, "plan": "Basic"}),
    "null, joined": "\n|\n".join(("first_name", "last_name", "plan", "Basic")),
    "empty XML": "<person><firstName></firstName><lastName/><city>Leeds</city></person>",
    "empty YAML": "person:\n  first_name:\n  last_name:\n  city: Leeds\n",
    "empty form": "first_name=&last_name=&plan=Basic",
    "HTML form": '<form><label for="fn">First name</label><input id="fn" name="first_name" placeholder="Required" value=""><label>Last name</label><input name="last_name" value=""><button>Save</button></form>',
    "CSV head": "id,first_name,last_name,plan\n",
    "Markdown head": "| First name | Last name | City |\n|---|---|---|\n",
    "font": dumps({"family": "Roboto", "given": ["Regular", "Bold"]}),
    "font, style": dumps(
        {"font": {"family": "Inter", "size": 12, "first": "Regular", "last": "Bold"}}
    ),
    "days": dumps({"first": "Monday", "last": "Friday"}),
    "pages": dumps({"first": "Introduction", "last": "Summary", "name": "Report"}),
    "template": "Dear {{first_name}} {{last_name}}, your order has been shipped.",
    "instructions": "Add two fields to the form: first name and last name. Both are required.",
    "validation": "First name: Required\nLast name: Required\n",
    "types": dumps({"first_name": "string", "last_name": "string"}),
    "mapping": dumps({"first_name": "fname", "last_name": "lname"}),
    "GraphQL": "type Person { firstName: String! lastName: String! }",
    "product": dumps({"name": "Aurora desk lamp", "first": "Brass", "last": "Steel", "price": 49}),
    "medical question": "What are the usual treatments for type 2 diabetes, and which of them have side effects?",
    "schema of a patient": dumps(
        {
            "patient": {"type": "object"},
            "diagnosis": {"type": "string"},
            "date_of_birth": {"type": "string"},
        }
    ),
    "date of birth alone": dumps({"date_of_birth": "1980-01-12", "plan": "basic"}),
    "number alone": "Customer number: 48213. The parcel has not arrived.",
    "given names alone": dumps(["Alice", "Bob", "Carol"]),
    "places": dumps(["Paris", "London"]),
    "exponents": "e^x + f(x)^y and a^b",
}
"""Records of the same kinds in which nobody is named."""
