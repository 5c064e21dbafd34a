# ruff: noqa: RUF001, SIM905 - tables of words
"""What a key, a column head or a label announces: whose number follows, in eight languages.

The one table of such words. Identifiers ask it where a number alone restricts, and the records of
people where a lone name stands near one. Parts of names have their keys in names/records/keys.py.

Sources: HL7 table 0203 (identifier types: AN, EI, MB, MR, PI, PRN, SB), HL7 v2 PID and IN1, FHIR
Identifier.type, RFC 2798 (`employeeNumber`), schema.org (`accountId`, `identifier`), and the forms
of insurers, employers and shops in each language.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

_GAP = r"[ _.-]{0,3}"
_GENITIVE = r"(?:(?:de|du|d['’]|del|della|di|do|da|van)[ _-]?)?(?:l[a'’])?[ ]?"
_NUMBER = (
    r"(?:no|nr|num|number|numer|nummer|número|numero|numéro|n\.?[ ]?[°º]|id|identifier|identifiant"
    r"|identificativo|identificador|identyfikator|kennung|kennziffer|zeichen|ref|reference|code"
    r"|código|codice|kod|matricule|matrícula|matricola|n|#)"
)


@dataclass(frozen=True, slots=True)
class NumberHolder:
    """Whose number it is: words that stand before "number" (English, German and Dutch, which join
    them), those that stand behind it (the Romance languages and Polish), or either in a key; and
    words that say it alone."""

    before: str
    behind: str
    alone: str = ""

    @property
    def words(self) -> str:
        """An expression for all of it, with accents."""
        return (
            rf"(?:{self.before}|{self.behind})(?:['’]s)?{_GAP}{_NUMBER}"
            rf"|{_NUMBER}{_GAP}{_GENITIVE}(?:{self.behind})"
            + (f"|{self.alone}" if self.alone else "")
        )


CUSTOMER = NumberHolder(
    "customer|client|subscriber|kunden|klienten|abonnenten|klant(?:en)?|abonnee",
    "client[ei]?|abonné|abonado|assinante|abbonato|klienta|abonenta",
    r"kd\.?[ -]{0,2}nr",
)
EMPLOYEE = NumberHolder(
    "employee|personnel|staff|payroll|worker|personals?|mitarbeiter|personeels|werknemers?"
    "|medewerkers?",
    "employée?|salariée?|empleado|trabajador|dipendente|impiegato|funcionário|colaborador"
    "|(?:ewidencyjny )?pracownika",
    "matricule|matricola",
)
STUDENT = NumberHolder(
    "student|matriculation|matrikel|studenten|schüler|leerling",
    "étudiante?|estudiante|alumno|studente|estudante|aluno|albumu|studenta"
    "|legitymacji(?: studenckiej)?",
)
MEMBER = NumberHolder(
    "member(?:ship)?|mitglieds?|lid(?:maatschaps)?",
    "adhérent|socio|afiliado|membro|sócio|członkowski|członka",
)
PATIENT = NumberHolder(
    "patient|medical record|record|chart|case|file|accession|patienten|fall|akten|patiënt|dossier",
    "dossier|patiente?|paciente|historia|expediente|paziente|cartella(?: clinica)?|pratica|utente"
    "|processo|pacjenta|kartoteki|sprawy|karty",
    "mrn",
)
POLICY = NumberHolder(
    "policy(?:holder)?|insurance|insured|versicherten|versicherungs(?:schein)?|policen|vertrags"
    "|polis|verzekerden",
    "assuré|police|contrat|póliza|asegurado|assicurato|polizza|apólice|segurado|polisy"
    "|ubezpieczenia|ubezpieczonego",
)
ACCOUNT = NumberHolder("account|acct|konto|rekening", "compte|cuenta|conto|conta|konta|rachunku")
HOLDERS = (CUSTOMER, EMPLOYEE, STUDENT, MEMBER, PATIENT, POLICY, ACCOUNT)
STEMS = (
    "custom client member patient polic insur record kunde klient versicher mitglied akte fall"
    " dossier adherent assur socio afiliad segur poliza polizz apolice assicur tessera utente"
    " cartella klant lid polis verzeker pacjent paciente paziente czlonk ubezpiecz kartotek chart"
    " case employ person matri student subscri mrn vertrag contrat account expediente pratica"
    " processo sprawy historia file staff payroll worker mitarbeit werknem medewerk salari"
    " emplead trabajad dipendent impiegat funcionar colaborad pracownik abonn abonad abonent"
    " assinante albumu etudiant estudi alumn aluno schuler leerling legitym konto"
    " rekening compte cuenta rachunk accession karty membro acct"
).split()
"""Folded, what each of these words holds one of."""


def joined(*owners: NumberHolder) -> NumberHolder:
    """Whose number it is: any of theirs."""
    return NumberHolder(
        "|".join(owner.before for owner in owners),
        "|".join(owner.behind for owner in owners),
        "|".join(filter(None, (owner.alone for owner in owners))),
    )


GOODS = (
    # papers: orders, invoices, deliveries, declarations, drawings, reports
    "order|purchase order|po|invoice|delivery note|packing list|waybill|drawing|quote|ticket"
    "|zamówieni\\w{1,3}|faktur\\w{1,3}|wz|zlecen\\w{1,3}|ofert\\w|protok\\w{1,5}|list przewozowy"
    "|bestellung|bestell-?nr|rechnung|lieferschein|auftrag|angebot|zeichnung|beleg|vorgang"
    "|commande|facture|bon de livraison|bordereau|devis|pedido|factura|albarán|oferta|ordine"
    "|fattura|ddt|preventivo|encomenda|fatura|guia|bestelling|factuur|pakbon|offerte|tekening"
    "|objednáv\\w{1,2}"
    # goods: articles, lots, pallets, containers, serial numbers, codes of goods
    "|item|article|part|sku|lot|batch|pallet|container|seal|serial|model|asset|gtin|ean|sscc|gln|hs"
    "|towar\\w{0,2}|indeks|kod|parti[ai]|palet\\w{1,2}|plomb\\w|seria|pkwiu|cn|nr katalogowy"
    "|artikel|charge|sachnummer|materialnummer|warennummer|palette\\w?|réf|référence|colis"
    "|artículo|lote|partida|bulto|articolo|lotto|colli|artigo|partij|šarže|položka"
    # places and steps in a paper, a plant or a plan
    "|line|position|pos|row|page|section|dock|ramp|rampe|rampa|quai|cais|bin|week|tydzień"
    "|zmiana"
)
"""What numbers of goods and papers stand behind."""


def unaccented_too(words: str) -> str:
    """The expression with each accented letter as itself or its bare letter: many leave it out."""
    return "".join(_either(letter) for letter in words)


def _either(letter: str) -> str:
    bare = unicodedata.normalize("NFD", letter)[0]
    if letter == "ł":
        bare = "l"
    return letter if bare == letter else f"[{letter}{bare}]"
