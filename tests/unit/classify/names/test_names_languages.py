"""Texts in languages that the model was not measured on are told apart; code and chat are not."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.classify import ScannerUnfit
from gateway.classify.names.canaries import OTHER_SCRIPTS
from gateway.classify.names.model import languages as languages_module
from gateway.classify.names.model.card import WEIGHTS, card
from gateway.classify.names.model.languages import Languages, foreign_script
from gateway.classify.names.model.lexicon import Lexicon, word_hash
from gateway.classify.names.model.words import cut

EVERYDAY = {
    "en": "the of and to in is you that it he was for on are with as his they at be this from",
    "de": "der die und das ist nicht ein eine mit von auf für sich dem den im",
    "sv": "och att det som en på är av för den till inte jag har med om var han men",
    "tr": "bir ve bu da de için ben çok ne mi sen daha gibi ama olarak var",
}


def tables(measured: Iterable[str] = ("en", "de")) -> Languages:
    names = [*EVERYDAY]
    masks: dict[int, int] = {}
    for at, language in enumerate(names):
        for word in EVERYDAY[language].split():
            masks[word_hash(word)] = masks.get(word_hash(word), 0) | 1 << at
    return Languages(
        np.array(list(masks), np.uint32),
        np.array(list(masks.values()), np.uint64),
        names,
        frozenset(measured),
    )


SWEDISH = "jag har inte varit på sjukhuset men det var för att han som är med om det inte var "
ENGLISH = "he was at the clinic for a week and they said that it is to be in the report with this "


def foreign(text: str, languages: Languages | None = None) -> str | None:
    return (languages or tables()).foreign(text, cut(text))


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", None),
        ("jag har", None),  # too little to tell
        (SWEDISH, "sv"),
        (SWEDISH.upper(), "sv"),
        (ENGLISH, None),
        ("der Patient ist nicht mit dem Arzt und das ist für sich ein Fall", None),
        ("for (int i = 0; i < n; i++) { total += values[i]; }", None),
        (ENGLISH * 2 + SWEDISH, None),  # a quotation: the rest of it is read
        (ENGLISH * 100 + SWEDISH * 20, "sv"),  # a text that changes its language
        (SWEDISH * 20 + ENGLISH * 100, "sv"),
        (ENGLISH * 100 + SWEDISH * 20 + ENGLISH * 100, "sv"),
    ],
)
def test_a_text_in_an_unmeasured_language_is_told(text: str, language: str | None) -> None:
    assert foreign(text) == language


def test_a_measured_language_is_none_of_the_others() -> None:
    assert foreign(SWEDISH, tables(("en", "de", "sv"))) is None


@pytest.mark.parametrize("at", range(0, 900, 50))
def test_a_long_part_in_another_language_is_told_wherever_it_stands(at: int) -> None:
    words = (ENGLISH * 60).split()
    words[at:at] = (SWEDISH * 14).split()
    assert foreign(" ".join(words)) == "sv"


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Meet Иванов today", "cyrillic"),
        ("王小明", "cjk"),
        ("さくら", "hiragana"),
        ("김민준", "hangul"),
        ("محمد علي", "arabic"),
        ("สมชาย", "thai"),
        ("Παπαδόπουλος", "greek"),
        ("the angle \u03b1 and the sum \u03a3 of \u03b2", None),
        ("αβ", None),
        ("\U0001d400\U0001d427" * 4 + " \u211d\u207f " + "\uff41\uff42" * 4, None),
        ("Ærø, Łódź, Nguyễn, Đặng", None),
        ("😀😀😀😀😀😀", None),
        ("\ud800\ud801", None),
    ],
)
def test_a_script_that_no_measured_language_has(text: str, script: str | None) -> None:
    assert foreign_script(text) == script


OF_NO_TABLE = {
    "Swahili": "Tafadhali mwite mgonjwa kesho asubuhi ili aje hospitalini kwa uchunguzi wa damu",
    "Hausa": "Don Allah a kira mara lafiya gobe da safe domin ya zo asibiti don gwajin jini kuma "
    "kada ya ci komai kafin ya zo",
    "Yoruba": "Jọ̀wọ́ pe aláìsàn náà ní òwúrọ̀ ọ̀la kí ó wá sí ilé ìwòsàn fún àyẹ̀wò ẹ̀jẹ̀, kí "
    "ó má sì jẹ ohunkóhun kí ó tó wá",
    "Zulu": "Ngicela ushayele isiguli kusasa ekuseni ukuze size esibhedlela sizohlolwa igazi "
    "futhi singadli lutho ngaphambi kokufika",
    "Somali": "Fadlan wac bukaanka berri subax si uu u yimaado isbitaalka si loo baaro dhiigga",
    "Albanian": "Ju lutem telefononi pacientin nesër në mëngjes që të vijë në spital për analizë "
    "gjaku dhe të mos hajë asgjë",
    "Welsh": "Ffoniwch y claf bore yfory os gwelwch yn dda er mwyn iddo ddod i'r ysbyty am brawf "
    "gwaed a pheidio bwyta dim cyn dod",
    "Uzbek": "Iltimos ertaga ertalab bemorga qongiroq qiling, u qon tahlili uchun "
    "kasalxonaga kelsin",
    "Azerbaijani": "Zəhmət olmasa sabah səhər xəstəyə zəng edin ki, qan analizi "
    "üçün xəstəxanaya gəlsin",
    "Hindi in Latin letters": "Kripya mareez ko kal subah phone karein taaki woh khoon ki jaanch "
    "ke liye aspatal aaye",
    "Russian in Latin letters": "Pozhaluysta, pozvonite patsientu zavtra utrom, chtoby on prishyol "
    "v bolnitsu na analiz krovi i nichego ne yel do etogo",
    "Japanese in Latin letters": "ashita no asa kanja ni denwa wo shite byouin ni kite ketsueki "
    "kensa wo ukeru you ni tsutaete kudasai",
}
MEASURED = {
    "English": "please ring the patient tomorrow morning so that she comes in for a blood test",
    "medical English": "a male with bilateral pleural effusions, hypoalbuminemia, thrombocytopenia "
    "and hepatosplenomegaly noted on ultrasound, continue furosemide and hold metoprolol",
    "German": "schneide die Zwiebel fein, dünste sie in Butter, rasple die rote Bete, würze sie "
    "mit Majoran und lasse alles eine halbe Stunde köcheln",
    "Italian": "trita la cipolla, soffriggila nel burro, grattugia le barbabietole, insaporisci "
    "con maggiorana e lascia sobbollire per mezz'ora",
    "Polish": "pokrój drobno cebulę, podsmaż na maśle, dodaj starte buraki, przypraw majerankiem, "
    "gotuj pół godziny i zabiel śmietaną",
    "Dutch": "hak de ui fijn, fruit hem in boter, voeg geraspte bieten toe, kruid met marjolein en "
    "laat alles een halfuur sudderen",
    "Portuguese": "pique a cebola, refogue na manteiga, rale as beterrabas, tempere com manjerona "
    "e deixe cozinhar em lume brando meia hora",
    "slang": "imma go da store n get sum chips b4 da game lol u want sumthin gonna b gr8 fr no cap",
    "a list": "lisinopril, metformin, atorvastatin, amlodipine, omeprazole, levothyroxine",
    "code": "mov eax, ebx\nadd ecx, edx\npush rbp\nmov rbp, rsp\nsub rsp, 16\n"
    "xor eax eax\njmp loop",
    "SQL": "select distinct usr_id, cnt from tbl_evt join dim_dt using dt_key "
    "group by usr_id having cnt",
    "a placeholder": "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor",
    "a quoted word": "what does the Swahili word mgonjwa mean, and how do I greet with "
    "habari ya asubuhi",
}  # fmt: skip


@pytest.fixture(scope="module")
def of_the_model() -> Languages:
    lexicon = Lexicon.load(WEIGHTS / "lexicon.npz")
    measured = frozenset(card()["languages"])
    return Languages.load(WEIGHTS / "languages.npz", measured, lexicon)


@pytest.mark.parametrize("language", OF_NO_TABLE)
def test_a_language_of_no_table_is_unknown(language: str, of_the_model: Languages) -> None:
    assert foreign(OF_NO_TABLE[language], of_the_model) is not None
    longer = f"{OF_NO_TABLE[language]} " * 3
    assert foreign(f"{ENGLISH * 4}. {longer} {ENGLISH * 4}", of_the_model) is not None


@pytest.mark.parametrize("language", MEASURED)
def test_uncommon_words_of_a_measured_language_are_not(
    language: str, of_the_model: Languages
) -> None:
    assert foreign(MEASURED[language], of_the_model) is None


def test_everyday_words_outweigh_unknown_ones() -> None:
    """Nothing is in this lexicon; what English has of everyday words speaks for it."""
    nothing = Lexicon(np.array([0], np.uint32), np.array([0], np.uint16))
    languages = tables()
    languages._lexicon = nothing
    assert (
        foreign("this is the zorp and that was for the blick with a nuff as they", languages)
        is None
    )
    assert foreign("zorp blick nuff trell wump gress plick vorn deft", languages) == "unknown"
    assert foreign("zorp, blick, nuff, trell, wump, gress, plick, vorn, deft", languages) is None
    assert foreign("zorp blick nuff trell", languages) is None  # too little to tell


def scripts() -> dict[str, list[str]]:
    """Letters of every script, by the first word of their names, in compatibility form."""
    found: dict[str, list[str]] = {}
    for character in map(chr, range(0x80, 0x110000)):
        if unicodedata.category(character) in ("Lo", "Lu", "Ll"):
            plain = unicodedata.normalize("NFKC", character)
            name = unicodedata.name(plain, "?").split()[0] if len(plain) == 1 else "?"
            if not plain.isascii() and name not in ("?", "LATIN", "TURNED", "ROMAN"):
                found.setdefault(name, []).append(plain)
    return found


_OF_ANOTHER = frozenset({"ideographic", "masu"})
"""Names of signs that belong to a script of another name, or to several."""
_NEWEST = 17
"""The version of Unicode that the samples were chosen from. Later ones may bring more scripts,
which `test_letters_of_every_script_make_a_text_foreign` tries without a sample."""


def test_each_script_of_unicode_has_its_sample() -> None:
    """In both directions, for the version of Unicode that this Python has and for later ones: a
    script that it does not know yet has letters that are unassigned."""
    known = {name.lower() for name in scripts()} - _OF_ANOTHER
    if int(unicodedata.unidata_version.split(".")[0]) <= _NEWEST:
        assert known - OTHER_SCRIPTS.keys() == set()
    missing = {
        name for name, first in OTHER_SCRIPTS.items() if unicodedata.category(chr(first)) != "Cn"
    } - known
    assert missing == set()
    for name, first in OTHER_SCRIPTS.items():
        for letter in map(chr, range(first, first + 3)):
            official = unicodedata.name(letter, name.upper())
            assert official.startswith(name.upper()), f"U+{ord(letter):04X} is {official}"


def test_letters_of_every_script_make_a_text_foreign() -> None:
    for name, letters in scripts().items():
        some = letters[0] + letters[len(letters) // 2] + letters[-1]
        assert foreign_script(f"Please call {some} today") is not None, name
        apart = " ".join((some * 2)[:5])
        assert foreign_script(f"Please call {apart} today") is not None, name


@pytest.mark.parametrize(
    "text",
    [
        "राम",  # letters and a vowel sign between them
        "কাল",
        "நாளை",
        "דָּן",  # pointed
        "王 小",
        "さ\nく\nら",
        "김 민 준",
        "ｻｸﾗ",  # half width
        "\u1112\u1161\u11ab\u1100\u1165",  # Hangul in its parts
        "王\u200d小",
        "Ν ί κ ο ς",  # noqa: RUF001
    ],
)
def test_short_and_spaced_texts_of_other_scripts_are_foreign(text: str) -> None:
    assert foreign_script(f"Please call {text} about the appointment") is not None


@pytest.mark.parametrize(
    "text",
    [
        "Let α, β, γ, δ and ε be positive and Δt = 5 µs, then Σx over Ω is 3 kΩ.",  # noqa: RUF001
        "¯\\_(ツ)_/¯",
        "ಠ_ಠ",
        "naïve façade, 5 °C, ½ cup, № 5, ™ and ©, x² + y³",
        "→ ≠ ≤ ∞ ∑ ∫ √ ■ ● ✓ ★ ☎ — “quoted” …",
        "👩‍💻 👍🏽 🇩🇪 1️⃣ ❤️",
        "e\u0301tude, A\u030angstro\u0308m",
        "the ℵ of sets, ℝ and ℂ, 𝒙 and 𝐀𝐁𝐂𝐃",  # noqa: RUF001
        "日",
    ],
)
def test_signs_of_latin_text_are_not_foreign(text: str) -> None:
    assert foreign_script(text) is None


def test_a_check_that_misses_a_script_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(languages_module, "_NOT_LATIN", re.compile("[\u0900-\u0fff]+"))
    assert "hangul" in languages_module.missed_scripts()
    with pytest.raises(ScannerUnfit, match="hangul"):
        Languages.load(WEIGHTS / "languages.npz", frozenset({"en"}))


@given(st.text(alphabet=st.characters(codec=None)))
@settings(max_examples=200)
def test_any_text_is_judged(text: str) -> None:
    assert isinstance(foreign(text), str | None)


def test_the_words_looked_up_grow_no_faster_than_the_text() -> None:
    looked_up = []
    for count in (5_000, 10_000):
        languages = tables()
        mask = languages._mask
        seen = 0

        def counted(word: str, mask: Callable[[str], int] = mask) -> int:
            nonlocal seen
            seen += 1
            return mask(word)

        languages._mask = counted
        foreign("the cat " * (count // 2), languages)
        looked_up.append(seen)
    assert looked_up[1] <= 2.1 * looked_up[0] <= 2.1 * 1.6 * 5_000


def test_each_string_of_a_call_has_a_language_of_its_own() -> None:
    """Joined as the classifier joins them, a short message between long ones counts by itself."""
    joined = "\n|\n".join([ENGLISH * 8, SWEDISH, ENGLISH * 8])
    assert foreign(joined) == "sv"
    assert foreign(joined.replace("\n|\n", " ")) is None
