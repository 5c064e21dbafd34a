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
