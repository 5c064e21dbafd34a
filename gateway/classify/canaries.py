"""Samples that a scanner must get right before it is trusted (C8). All of them are invented or the
published test values of their issuers."""

from __future__ import annotations

from gateway.classify.profile import DENY_LIST, HIDDEN_TEXT, Profile
from gateway.config import ClassifySettings

# (entity type, languages in which its recognizer is on by default; None for all, sample)
_POSITIVE: tuple[tuple[str, frozenset[str] | None, str], ...] = (
    ("AE_EMIRATES_ID", None, "784-1984-1234567-4"),
    ("AT_SVNR", None, "1237 010180"),
    ("AU_MEDICARE", None, "Medicare 2123 45670 1"),
    ("AU_TFN", None, "tax file number 123 456 782"),
    ("BANK_ACCOUNT", None, "numer konta 61 1090 1014 0000 0712 1981 2874"),
    ("BE_NATIONAL_NUMBER", None, "85.07.30-033.28"),
    ("BR_CNPJ", None, "16.727.230/0001-97"),
    ("BR_CPF", None, "390.533.447-05"),
    ("CH_AHV", None, "756.9217.0769.85"),
    ("CN_RESIDENT_NUMBER", None, "11010519491231002X"),
    ("CREDIT_CARD", None, "4111 1111 1111 1111"),
    ("CRYPTO", None, "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
    ("CUSTOMER_NUMBER", None, "Kundennummer 10482913"),
    ("CZ_BIRTH_NUMBER", None, "710319/2745"),
    ("DATE_OF_BIRTH", None, "date of birth: 03/12/1964"),
    ("DE_HEALTH_INSURANCE", None, "Versichertennummer A123456780"),
    ("DE_ID_CARD", None, "Personalausweis L01X00T471"),
    ("DE_SOCIAL_SECURITY", None, "65 170839 J 003"),
    ("DE_TAX_ID", None, "86095742719"),
    ("DE_TAX_NUMBER", None, "181/815/08155"),
    ("DK_CPR", None, "CPR 211062-5629"),
    ("DRIVER_LICENSE", None, "rijbewijs 5123456789"),
    ("EMAIL_ADDRESS", None, "maria.keller@posteo.example"),
    ("EMPLOYEE_NUMBER", None, "employee id E-10482"),
    ("ES_NIE", None, "X9613851N"),
    ("ES_NIF", None, "12345678Z"),
    ("ES_NSS", None, "28 12345678 40"),
    ("EU_VAT_NUMBER", None, "VAT DE136695976"),
    ("FI_PERSONAL_IDENTITY_CODE", None, "131052-308T"),
    ("FR_NIR", None, "2 95 10 99 126 111 93"),
    ("FR_TAX_ID", None, "30 23 217 600 053"),
    ("HEALTH_INSURANCE_NUMBER", None, "member id XYZ123456789"),
    ("IBAN_CODE", None, "DE89 3704 0044 0532 0130 00"),
    ("ID_CARD", None, "carte d'identité 880692310285"),
    ("IE_PPS", None, "6433435F"),
    ("IN_AADHAAR", None, "2345 6789 0124"),
    ("IN_PAN", None, "ABCPE1234F"),
    ("IP_ADDRESS", None, "203.0.113.77"),
    ("IT_DRIVER_LICENSE", frozenset({"it"}), "patente AA1234567B"),
    ("IT_FISCAL_CODE", None, "RSSMRA85T10A562S"),
    ("IT_IDENTITY_CARD", frozenset({"it"}), "carta d'identita CA12345AA"),
    ("IT_PASSPORT", frozenset({"it"}), "passaporto YA1234567"),
    ("IT_VAT_CODE", None, "partita IVA 00743110157"),
    ("KR_RRN", None, "RRN 850101-1234567"),
    ("MAC_ADDRESS", None, "00:1A:2B:3C:4D:5E"),
    ("MEDICAL_LICENSE", None, "AB1234563"),
    ("MEDICAL_RECORD", None, "MRN 00482913"),
    ("MX_CURP", None, "BOXW310820HNERXN09"),
    ("NATIONAL_ID", None, "OIB 33392005961"),
    ("NL_BSN", None, "BSN 111222333"),
    ("NO_FODSELSNUMMER", None, "151086 95088"),
    ("PASSPORT", None, "paszport EA1234567"),
    ("PHONE_NUMBER", None, "+1 212 555 0198"),
    ("PL_ID_CARD", None, "dowód osobisty ABS123456"),
    ("PL_LAND_REGISTER", None, "WA4M/00123456/7"),
    ("PL_NIP", None, "526-104-08-28"),
    ("PL_PESEL", None, "44051401359"),
    ("PL_REGON", None, "REGON 192598184"),
    ("PROVIDER_NUMBER", None, "LANR 123456601"),
    ("POSTAL_CODE", None, "zip code: 98052"),
    ("PT_NIF", None, "NIF 501964843"),
    ("RO_CNP", None, "1630615123457"),
    ("SECRET", None, "-----BEGIN RSA PRIVATE KEY-----"),
    ("SG_NRIC_FIN", None, "S1234567D"),
    ("SE_PERSONNUMMER", None, "880320-0016"),
    ("STREET_ADDRESS", None, "Lindenstraße 12a"),
    ("TR_NATIONAL_ID", None, "10000000146"),
    ("UK_NHS", None, "943 476 5919"),
    ("UK_NINO", None, "AA123456C"),
    ("US_BANK_NUMBER", None, "my bank account is 945456787654"),
    ("US_DRIVER_LICENSE", None, "my driver license is A56319335"),
    ("US_ITIN", frozenset({"en"}), "911-70-1234"),
    ("US_NPI", None, "NPI 1234567893"),
    ("US_PASSPORT", None, "my passport is 912803456"),
    ("US_SSN", None, "536-90-4399"),
    ("VEHICLE_PLATE", None, "Kennzeichen M-AB 1234"),
    (HIDDEN_TEXT, None, "card \U000e0034\U000e0031\U000e0031\U000e0031"),
)
NEGATIVES = (
    "The quick brown fox jumps over the lazy dog.",
    "Sort [3, 1, 2] and return the 2 largest values; version 3.11.4 of the library.",
    "SHA 4111111111111112 is not a card",
    "The server at 192.168.1.10 answers on 127.0.0.1; see section 4.2.1.3.",
)


def positives(
    settings: ClassifySettings, types: frozenset[str] | None = None
) -> tuple[tuple[str, str], ...]:
    """One sample for each restricting type (of the gateway's profile, or as given) that must be
    found in the configured languages."""
    types = Profile.from_settings(settings).types if types is None else types
    canaries = [
        (type_, sample)
        for type_, languages, sample in _POSITIVE
        if type_ in types and (languages is None or languages & set(settings.languages))
        if sample not in settings.allow_list
    ]
    if settings.deny_list and settings.deny_list[0] not in settings.allow_list:
        canaries.append((DENY_LIST, settings.deny_list[0]))
    return tuple(canaries)


def required(settings: ClassifySettings) -> frozenset[str]:
    """Types that the operator named: each needs a recognizer. A profile's own list may name types
    of languages that are not configured."""
    return frozenset(settings.restrict or ())
