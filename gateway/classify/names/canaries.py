"""What the names model must find, and what not, before the gateway serves (C8)."""

from __future__ import annotations

KINDS = ("PERSON", "STREET_ADDRESS")

CANARIES = (
    ("en", "PERSON", "Please call Margaret Whitfield about her appointment on Monday."),
    ("en", "STREET_ADDRESS", "Send the parcel to 48 Maple Street, Springfield, IL 62704."),
    ("de", "PERSON", "Bitte rufen Sie Frau Katharina Lindner wegen des Termins zurück."),
    ("de", "STREET_ADDRESS", "Der Patient wohnt in der Lindenstraße 17, 50674 Köln."),
    ("fr", "PERSON", "Merci de rappeler Madame Camille Rousseau au sujet de son dossier."),
    ("fr", "STREET_ADDRESS", "Elle habite 12 rue Victor Hugo, 69002 Lyon."),
    ("es", "PERSON", "Por favor, llame a Carmen Delgado Ruiz por su cita del lunes."),
    ("es", "STREET_ADDRESS", "Vive en la calle Mayor 25, 28013 Madrid."),
    ("it", "PERSON", "Può richiamare la signora Francesca Colombo per la visita?"),
    ("it", "STREET_ADDRESS", "Abita in Via Garibaldi 8, 20121 Milano."),
    ("pt", "PERSON", "Por favor, telefone ao senhor António Carvalho sobre a consulta."),
    ("pt", "STREET_ADDRESS", "Mora na Rua Augusta, 120, 1100-053 Lisboa."),
    ("nl", "PERSON", "Wilt u mevrouw Anneke de Vries terugbellen over de afspraak?"),
    ("nl", "STREET_ADDRESS", "Hij woont op de Kerkstraat 45, 3511 AB Utrecht."),
    ("pl", "PERSON", "Proszę oddzwonić do pani Katarzyny Nowakowskiej w sprawie wizyty."),
    ("pl", "STREET_ADDRESS", "Pacjent mieszka przy ul. Lipowej 12/4, 30-001 Kraków."),
)
NOBODY = (
    "Write a short summary of the water cycle for a class of ten-year-olds.",
    "def total(values):\n    return sum(v for v in values if v > 0)",
    '{"name": "get_weather", "parameters": {"city": "string", "unit": "celsius"}}',
)


OTHER_SCRIPTS = {
    "adlam": 0x1e900, "ahom": 0x11700, "anatolian": 0x14400, "arabic": 0x620, "armenian": 0x531,
    "avestan": 0x10b00, "balinese": 0x1b05, "bamum": 0xa6a0, "bassa": 0x16ad0, "batak": 0x1bc0,
    "bengali": 0x985, "bhaiksuki": 0x11c00, "bopomofo": 0x3105, "brahmi": 0x11003, "buginese":
    0x1a00, "buhid": 0x1740, "canadian": 0x1401, "carian": 0x102a0, "caucasian": 0x10530,
    "chakma": 0x11103, "cham": 0xaa00, "cherokee": 0x13a0, "chorasmian": 0x10fb0, "cjk": 0x3400,
    "coptic": 0x3e2, "cuneiform": 0x12000, "cypriot": 0x10800, "cypro-minoan": 0x12f90,
    "cyrillic": 0x400, "deseret": 0x10400, "devanagari": 0x904, "dives": 0x11900, "dogra":
    0x11800, "duployan": 0x1bc00, "egyptian": 0x13000, "elbasan": 0x10500, "elymaic": 0x10fe0,
    "ethiopic": 0x1200, "georgian": 0x10a0, "glagolitic": 0x2c00, "gothic": 0x10330, "grantha":
    0x11305, "greek": 0x370, "gujarati": 0xa85, "gunjala": 0x11d60, "gurmukhi": 0xa05, "hangul":
    0x1100, "hanifi": 0x10d00, "hanunoo": 0x1720, "hatran": 0x108e0, "hebrew": 0x5d0,
    "hentaigana": 0x1b002, "hiragana": 0x3041, "imperial": 0x10840, "inscriptional": 0x10b40,
    "javanese": 0xa984, "kaithi": 0x11083, "kannada": 0xc85, "katakana": 0x30ab, "kayah": 0xa90a,
    "kharoshthi": 0x10a10, "khitan": 0x18b00, "khmer": 0x1780, "khojki": 0x11200, "khudawadi":
    0x112b0, "lao": 0xe86, "lepcha": 0x1c00, "limbu": 0x1900, "linear": 0x10000, "lisu": 0xa4d0,
    "lycian": 0x10280, "lydian": 0x10920, "mahajani": 0x11150, "makasar": 0x11ee0, "malayalam":
    0xd04, "mandaic": 0x840, "manichaean": 0x10ac0, "marchen": 0x11c72, "masaram": 0x11d00,
    "medefaidrin": 0x16e40, "meetei": 0xaae0, "mende": 0x1e800, "meroitic": 0x10980, "miao":
    0x16f00, "modi": 0x11600, "mongolian": 0x1820, "mro": 0x16a40, "multani": 0x11280, "myanmar":
    0x1000, "nabataean": 0x10880, "nandinagari": 0x119a0, "new": 0x1980, "newa": 0x11400, "nko":
    0x7ca, "nushu": 0x1b170, "nyiakeng": 0x1e100, "ogham": 0x1681, "ol": 0x1c5a, "old": 0x10300,
    "oriya": 0xb05, "osage": 0x104b0, "osmanya": 0x10480, "pahawh": 0x16b00, "palmyrene": 0x10860,
    "pau": 0x11ac0, "phags-pa": 0xa840, "phoenician": 0x10900, "psalter": 0x10b80, "rejang":
    0xa930, "runic": 0x16a0, "samaritan": 0x800, "saurashtra": 0xa882, "sharada": 0x11183,
    "shavian": 0x10450, "siddham": 0x11580, "sinhala": 0xd85, "sogdian": 0x10f30, "sora": 0x110d0,
    "soyombo": 0x11a5c, "sundanese": 0x1b83, "syloti": 0xa803, "syriac": 0x712, "tagalog": 0x1700,
    "tagbanwa": 0x1760, "tai": 0x1950, "takri": 0x11680, "tamil": 0xb85, "tangsa": 0x16a70,
    "tangut": 0x18800, "telugu": 0xc05, "thaana": 0x780, "thai": 0xe01, "tibetan": 0xf40,
    "tifinagh": 0x2d30, "tirhuta": 0x11480, "toto": 0x1e290, "ugaritic": 0x10380, "vai": 0xa500,
    "vedic": 0x1ce9, "vithkuqi": 0x10570, "wancho": 0x1e2c0, "warang": 0x118a0, "yezidi": 0x10e80,
    "yi": 0xa000, "zanabazar": 0x11a0b,
    # Of Unicode 15 to 17, which the Python that runs may not know: letters all the same.
    "beria": 0x16ea0, "garay": 0x10d4a, "gurung": 0x16100, "kawi": 0x11f04, "kirat": 0x16d43,
    "nag": 0x1e4d0, "sidetic": 0x10940, "sunuwar": 0x11bc0, "todhri": 0x105c0, "tolong": 0x11db0,
    "tulu-tigalari": 0x11380,
}  # fmt: skip
"""Scripts that no measured language is written in, by the first word of their letters' names, and
where three letters of each stand in a row: a text of these three is not clear (C8)."""
