"""Every documented form of every type, and in every field of every operation: restricted, and never
cleared by the gate; the same forms of what restricts nothing are clear (C4)."""

from __future__ import annotations

import asyncio
import functools
import gzip
import io
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from gateway.classify.classifier import Classifier
from gateway.classify.gate.armed import ArmedGate
from gateway.classify.gate.gate import Gate
from gateway.classify.gate.needs import Needs
from gateway.classify.patterns.store import BlobStore
from gateway.classify.profile import Profile
from gateway.classify.scanner.recognizers import PresidioScanner
from gateway.config import ClassifySettings
from gateway.core.operations.chat import CHAT
from gateway.core.operations.completions import COMPLETIONS
from gateway.core.operations.responses import RESPONSES
from gateway.core.operations.tensors import INFER
from gateway.core.types import TensorCall
from gateway.protocols.oip import grpc, rest
from gateway.protocols.oip.datatypes import join
from tests.unit.classify import written_forms as forms
from tests.unit.classify.corpus import Body, Said, positions
from tests.unit.classify.written_forms import Value

SETTINGS = ClassifySettings(languages=["en", "it"], profile="strict")
"""All types that restrict in some profile, in the languages in which their recognizers are on."""
PROFILE = Profile.from_settings(SETTINGS)
DEFAULT = Profile.from_settings(ClassifySettings())
SEED = 20261125


@pytest.fixture(scope="module")
def strict() -> PresidioScanner:
    scanner = PresidioScanner(SETTINGS, PROFILE.types)
    scanner.wait()  # or all patterns run on every text
    return scanner


@pytest.fixture(scope="module")
def gate(strict: PresidioScanner) -> ArmedGate:
    async def arm() -> ArmedGate:
        gate = ArmedGate(BlobStore.for_user(), nice=0)
        await gate.arm(strict.needs())
        await gate.built()
        return gate

    armed = asyncio.run(arm())
    assert armed.armed
    return armed


@pytest.fixture(scope="module")
def values(strict: PresidioScanner) -> tuple[Value, ...]:
    """The samples, and as many with other digits."""
    own = forms.samples()
    assert {value.kind for value in own} == strict.supported() - {"HIDDEN_TEXT"}
    return own + forms.others(own, SEED, lambda text: {f.type for f in strict.scan(text)})


class Looks:
    """What scanner and gate say of a text, each asked once."""

    def __init__(self, scanner: PresidioScanner, gate: ArmedGate) -> None:
        self._scanner, self._gate = scanner, gate
        self.types = functools.cache(self._types)

    def _types(self, text: str) -> frozenset[str]:
        return frozenset(f.type for f in self._scanner.scan(text) if PROFILE.restricts([f]))

    def restricts(self, text: str) -> bool:
        return PROFILE.restricts(self._scanner.scan(text)) and not self._gate.clear(text)

    def is_clear(self, text: str) -> bool:
        return not DEFAULT.restricts(self._scanner.scan(text))


@pytest.fixture(scope="module")
def looks(strict: PresidioScanner, gate: ArmedGate) -> Looks:
    return Looks(strict, gate)


def surrounded(text: str) -> tuple[str, str]:
    return text, f"Please look at this: {text} and answer."


def missed(looks: Looks, written: Iterator[tuple[Value, str]]) -> list[tuple[str, str]]:
    return [
        (value.kind, text)
        for value, form in written
        for text in surrounded(form)
        if not looks.restricts(text)
    ]


def is_long_enough(form: str) -> bool:
    """Base32 of fewer than ten octets is documented as not undone."""
    return len(form.rstrip("=")) >= 16


def in_turn(values: tuple[Value, ...], turn: int) -> Iterator[tuple[Value, bool]]:
    """One value of each type, and whether other words surround it: forms are undone the same way
    whatever they hold, so each type's values and surroundings take turns from form to form."""
    by_kind: dict[str, list[Value]] = {}
    for value in values:
        by_kind.setdefault(value.kind, []).append(value)
    for at, alike in enumerate(by_kind.values(), turn):
        yield alike[at % len(alike)], at // 2 % 2 == 0


@pytest.mark.parametrize("name", forms.WHOLE)
def test_a_whole_text_in_every_form(name: str, looks: Looks, values: tuple[Value, ...]) -> None:
    form, missing = forms.WHOLE[name], []
    for value, is_surrounded in in_turn(values, list(forms.WHOLE).index(name)):
        text = form(value.text)
        if name.startswith("base32") and not is_long_enough(text):
            continue
        if not looks.restricts(surrounded(text)[is_surrounded]):
            missing.append((value.kind, text))
    assert missing == []


def test_a_number_shown_backwards_is_read_apart_from_how_it_is_stored(looks: Looks) -> None:
    """The digits as stored, 1159 0248 9703, end in what begins a number of the same form."""
    assert looks.restricts("\u202e1159 0248 9703\u202c")


def numbers(values: tuple[Value, ...]) -> list[Value]:
    """Of nine digits or more, which is what forms of numbers alone are undone of."""
    others = ("EMAIL_ADDRESS", "SECRET", "STREET_ADDRESS", "CRYPTO", "MAC_ADDRESS")
    return [value for value in values if len(value.digits) >= 9 and value.kind not in others]


def proven(looks: Looks, *texts: str) -> bool:
    """Whether one of these, which the form still says, restricts, and not as a telephone number."""
    return any(looks.types(text) - {"PHONE_NUMBER"} for text in texts)


_SEPARATOR = re.compile(r"[-. /]")
_MARKS = {"spaces": " ", "dashes": "-", "points": ".", "spaced dashes": "-"}


@pytest.mark.parametrize("name", forms.DIGITS)
def test_numbers_in_every_form(name: str, looks: Looks, values: tuple[Value, ...]) -> None:
    """Where a form takes the separators of a number for its own, what is left is expected."""
    written = []
    for value in numbers(values):
        left = [value.text]
        mark = _MARKS.get(name.removeprefix("one by one, "))
        if name.startswith(("digits alone", "groups")):
            left = [value.label + forms.compact(value.written)] * value.is_number
        elif name in ("over lines", "over lines, CRLF"):
            apart, solid = (_SEPARATOR.sub(mark, value.written) for mark in (" ", ""))
            left = [value.label + apart, value.label + solid]
        elif mark is not None and mark in value.written:
            left = [value.label + value.written.replace(mark, "")]
        if proven(looks, *left):
            written.append((value, value.label + forms.DIGITS[name](value.written)))
    assert len(written) > 40
    assert missed(looks, iter(written)) == []


@pytest.mark.parametrize("name", [*forms.SPELLED, *forms.LISTS])
def test_numbers_in_words_and_lists(name: str, looks: Looks, values: tuple[Value, ...]) -> None:
    form = forms.SPELLED.get(name) or forms.LISTS[name]
    written = [
        (value, value.label + form(value.written))
        for value in numbers(values)
        if value.is_number and (name in forms.SPELLED or value.written[0].isdigit())
        if name != "fours as numbers" or forms.fours(value.written)[-1][0] != "0"
        if proven(looks, value.label + forms.compact(value.written))
    ]
    assert len(written) > 25
    assert missed(looks, iter(written)) == []


@pytest.mark.parametrize("name", forms.MAIL)
def test_addresses_as_they_are_spoken(name: str, looks: Looks) -> None:
    for address in ("maria.keller@posteo.example", "jan_kowal7@poczta.example.org"):
        for text in surrounded(forms.MAIL[name](address)):
            assert looks.restricts(text), text


@pytest.mark.parametrize("behind", [" and answer.", "\nThanks", "\nThanks for all", ""])
def test_words_behind_a_run_over_lines_are_none_of_it(behind: str, looks: Looks) -> None:
    """Compressed, it cannot be read line by line. Of some of these the last line is a full one."""
    lengths = set()
    for filler in range(60):
        text = forms.gzip_in_lines(f"my ssn is 306-34-4236 {hex(filler**9)}")
        lengths.add(len(text.rsplit("\n", 1)[-1]))
        assert looks.restricts(f"Please look at this: {text}{behind}"), filler
    assert 76 in lengths


@pytest.fixture(scope="module")
def signs() -> Gate:
    """A gate that looks for no value as it stands."""
    gate = Gate.from_needs(Needs())
    assert gate is not None
    return gate


def test_a_run_over_lines_that_says_nothing_line_by_line(looks: Looks, signs: Gate) -> None:
    """The head of the compressed file is as long as the first line."""
    held = io.BytesIO()
    name = bytes(random.Random(SEED).choices(range(0xA1, 0x100), k=90)).decode("latin-1")
    with gzip.GzipFile(name, "wb", fileobj=held, mtime=0) as file:
        file.write(b"my ssn is 306-34-4236, and some more words, none of them twice")
    text = forms.in_lines_of_76(held.getvalue())
    assert looks.restricts(text)
    assert signs.clear(text.replace("\n", " "))
    assert not signs.clear(text)


def test_encoded_base64_with_pluses(looks: Looks, signs: Gate) -> None:
    """`A++B`: once that is taken for a doubled separator, nothing behind it decodes."""
    octets = b"\x03\xef\x81" + b"my ssn is 306-34-4236, which he told us"
    text = forms.WHOLE["percent"](forms.base64_of(octets))
    assert looks.restricts(text)
    assert not signs.clear(text)


def test_what_inflates_to_more_than_is_read_is_hidden(looks: Looks) -> None:
    """Some hundred characters, which are no blob."""
    encoded = forms.WHOLE["base64 of gzip"](" " * 100_000 + "my ssn is 306-34-4236")
    assert len(encoded) < 400
    assert "HIDDEN_TEXT" in looks.types(encoded)
    assert looks.restricts(encoded)


@pytest.mark.parametrize(
    "written",
    [
        "NL42\nINGB\n0900\n8922\n93",
        "NL3 3 INGB 4 2 1 2 3 5 7 6 0 7",
        "NL9.5INGB6.8.0.8.0.7.9.0.1.3",
        "GB29\nNWBK\n6016\n1331\n9268\n19",
    ],
)
def test_account_numbers_with_a_bank_in_letters(written: str, looks: Looks) -> None:
    for text in surrounded(written):
        assert looks.restricts(text)


@pytest.mark.parametrize("value", ["390.533.447-05", "85.07.30-033.28", "16.727.230/0001-97"])
@pytest.mark.parametrize("mark", [".", "-", "/", " ", "\n"])
def test_numbers_whose_own_separators_part_the_digits(value: str, mark: str, looks: Looks) -> None:
    digits = [*filter(str.isdigit, value)]
    for written in (mark.join(digits), forms.DIGITS["one by one, points"](value)):
        for text in surrounded(written):
            assert looks.restricts(text), text


def test_forms_of_forms(looks: Looks, values: tuple[Value, ...]) -> None:
    """Two deep, by a fixed seed. A form that breaks the lines or doubles the signs of another one's
    alphabet takes it apart, which nobody writes."""
    dice = random.Random(SEED)
    outer = [
        name for name in forms.WHOLE
        if name.startswith(("base64", "hex", "percent", "entities", "escapes", "as it is"))
        or name == "quoted-printable"
    ]  # fmt: skip
    written = []
    for _ in range(600):
        value, inner = dice.choice(values), dice.choice(list(forms.WHOLE))
        first = forms.WHOLE[inner](value.text)
        if inner.startswith("base32") and not is_long_enough(first):
            continue
        written.append((value, forms.WHOLE[dice.choice(outer)](first)))
    assert missed(looks, iter(written)) == []


# Controls: the same forms of what is nobody's.

CONTROLS = (
    "Order 4711 has 12 items of 250 g",
    "the meeting of 2024-03-11 begins at 09:30",
    "release 4.11.2 needs 16 GB of memory",
    "some words in a list, and 7 of them in another",
)


_ALSO_NUMBERS = ("character codes, spaces", "character codes, lines")
"""Of which some are telephone numbers as they stand."""


@pytest.mark.parametrize("name", forms.WHOLE)
def test_the_same_forms_of_other_texts_are_clear(name: str, looks: Looks) -> None:
    turn = list(forms.WHOLE).index(name)
    texts = [surrounded(forms.WHOLE[name](one))[at % 2] for at, one in enumerate(CONTROLS, turn)]
    clear = [looks.is_clear(text) for text in texts]
    assert any(clear) if name in _ALSO_NUMBERS else all(clear)


CLEAR = (
    "[0, 6, 6, 9, 0, 2, 8, 2, 4, 7]",  # in one piece a French telephone
    "[2019, 2020, 2021, 2022]",
    '["2021", "2022", "2023", "2024"]',
    "[1, 2, 3, 4, 5, 6, 7, 8, 9]",
    "[1.0, 2.0, 3.0, 4.0, 5.0, 2.2]",
    "[12, 15, 18, 20, 22, 25, 30, 33, 35]",
    "12 15 18 20 22 25 30 33 35 40",
    "2024-01-15\n2024-01-16\n2024-01-17",
    "2024-01-15 09:30:00, 2024-01-16 10:45:10",
    "x,y\n1.5,2.5\n3.5,4.5\n5.5,6.5",
    "1 2 3\n4 5 6\n7 8 9",
    "a =\nb\nheading\n=======\nand text",
    "src/components/ButtonGroup/index\nsrc/components/InputField/index\nsrc/lib/utils/strings",
    "the ratio is 16/9, or 4/3, or 21/9, or 1/1",
    r"the pattern \d{3}\-\d{4} and \/path\/to\/it",
    "colours #ff8800, #00ff88; 0x1f 0x2f 0x3f",
    "e4d909c290d0fb1ca068ffaddf22cbd0\ne4d909c290d0fb1ca068ffaddf22cbd1",
    "naïve, e\u0301tude, x\u0304 and 5\u0338 = not five",
)


@pytest.mark.parametrize("text", CLEAR)
def test_what_is_written_alike_is_clear(text: str, looks: Looks) -> None:
    assert looks.is_clear(text)


# Every field of every operation.


def tensors(text: str) -> dict[str, TensorCall]:
    """Every place of an Open Inference Protocol call, as it comes in JSON, binary and over gRPC."""
    octets = join([text.encode()])
    tensor = {"name": "TEXT", "datatype": "BYTES", "shape": [1]}
    plain = {**tensor, "data": ["hi"]}

    def of_json(**document: Any) -> TensorCall:
        return rest.decode_request(json.dumps({"inputs": [plain], **document}).encode())

    head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": len(octets)}}]})
    raw = service_pb2.ModelInferRequest(model_name="text", raw_input_contents=[octets])
    raw.inputs.add(name="TEXT", datatype="BYTES", shape=[1])
    typed = service_pb2.ModelInferRequest(model_name="text")
    typed.inputs.add(name="TEXT", datatype="BYTES", shape=[1])
    typed.inputs[0].contents.bytes_contents.append(text.encode())
    typed_note = service_pb2.ModelInferRequest(model_name="text", id="1")
    typed_note.CopyFrom(typed)
    typed_note.inputs[0].contents.bytes_contents[0] = b"hi"
    typed_note.parameters["note"].string_param = text
    return {
        "JSON": of_json(inputs=[{**tensor, "data": [text]}]),
        "JSON, id": of_json(id=text),
        "JSON, parameter": of_json(parameters={"note": text}),
        "JSON, parameter's name": of_json(parameters={text: True}),
        "JSON, tensor's parameter": of_json(inputs=[{**plain, "parameters": {"note": text}}]),
        "binary": rest.decode_request(head.encode() + octets, len(head)),
        "gRPC, raw": grpc.decode_request(raw),
        "gRPC, contents": grpc.decode_request(typed),
        "gRPC, parameter": grpc.decode_request(typed_note),
    }


FIELD_FORMS = (
    "base64 of UTF-16BE with BOM", "base64 of UTF-8", "base64 in lines of 76", "hex of UTF-8",
    "character codes, spaces", "U+0336 behind digits", "full width", "percent", "escapes U",
)  # fmt: skip


def cases() -> Iterator[tuple[str, str]]:
    """A few forms of a few types."""
    kinds = ("CREDIT_CARD", "US_SSN", "IBAN_CODE", "PL_PESEL", "EMAIL_ADDRESS", "PASSPORT")
    chosen = [value for value in forms.samples() if value.kind in kinds]
    for at, name in enumerate(FIELD_FORMS):
        for value in (chosen[at % len(chosen)], chosen[(at + 3) % len(chosen)]):
            yield f"{name}: {value.kind}", forms.WHOLE[name](value.text)
    yield "broken lines: US_SSN", "306-\n34-4\n236"
    yield "one by one: US_SSN", "3 0 6-3 4-4 2 3 6"
    yield "broken lines: area code", "+1\n(212)\n378-\n4584"
    yield "broken lines: trunk prefix", "+49 (0)30\n2345-\n678"


Reason = Callable[[Body | TensorCall], str]


@pytest.fixture
def reason(scanner: PresidioScanner, kit: Any) -> Reason:
    """What a classifier that has seen nothing else says of a call."""

    def of(call: Body | TensorCall) -> str:
        classifier: Classifier = kit.make_classifier(kit.in_process(scanner))
        if isinstance(call, TensorCall):
            request = kit.make_request(call, model="text", operation=INFER)
        else:
            request = kit.make_request(call[1], operation=call[0])
        return asyncio.run(classifier.classify(request)).reason

    return of


@pytest.mark.parametrize(("name", "text"), [*cases()], ids=[name for name, _ in cases()])
def test_every_field_of_every_operation(name: str, text: str, reason: Reason) -> None:
    for field, body in positions(Said(text, 4111111111111111)).items():
        if not field.startswith("split"):  # an encoding that is cut into pieces is none
            assert reason(body) == "entities", field
    for field, call in tensors(text).items():
        assert reason(call) == "entities", field


@pytest.mark.parametrize("name", FIELD_FORMS)
def test_every_field_is_clear_with_another_text(name: str, reason: Reason) -> None:
    text = forms.WHOLE[name]("release 4.11 of it")
    for field, call in tensors(text).items():
        assert reason(call) == "clear", field
    for field, body in positions(Said(text, 7)).items():
        if not field.startswith("split"):
            assert reason(body) == "clear", field


def listed(number: str) -> dict[str, Any]:
    digits, fours = [int(d) for d in number if d.isdigit()], forms.fours(number)
    return {
        "digits": digits,
        "digits as strings": [*map(str, digits)],
        "fours": [*map(int, fours)],
        "fours as strings": fours,
        "fours and an empty one": [*fours, ""],
        "signs": [*number],
        "octets": [*number.encode()],
        "octets of UTF-16": [*number.encode("utf-16-le")],
    }


@pytest.mark.parametrize("number", ["4111 1111 1111 1111", "5500-0055-5555-5559"])
@pytest.mark.parametrize("form", listed("1"))
def test_lists_in_documents(form: str, number: str, reason: Reason) -> None:
    elements = listed(number)[form]
    hi = {"role": "user", "content": "hi"}
    bodies: list[Body] = [
        (CHAT, {"messages": [hi], "metadata": {"card": elements}}),
        (CHAT, {"messages": [hi], "context": {"rows": [elements]}}),
        (CHAT, {"messages": [{"role": "user", "content": json.dumps(elements)}]}),
        (COMPLETIONS, {"prompt": "go on", "card": elements}),
        (RESPONSES, {"input": "go on", "metadata": {"card": elements}}),
    ]
    for body in bodies:
        assert reason(body) == "entities", body


@pytest.mark.parametrize(
    "elements",
    [
        [2019, 2020, 2021, 2022],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        ["1", "2", "3", "4", "5", "6", "7"],
        ["A1", "B2", "C3", "D4"],
        ["2021", "2022", "2023"],
        [0, 1, 0, 1, 1, 0, 1, 0, 0, 1],
        ["gpt", "llm", "v1", "v2"],
        [640, 480],
        [12, 15, 18, 20, 22, 25, 30],
        ["px", "em", "1fr", "2fr"],
    ],
)
def test_other_lists_in_documents_are_clear(elements: list[Any], reason: Reason) -> None:
    hi = {"role": "user", "content": "hi"}
    assert reason((CHAT, {"messages": [hi], "rows": elements})) == "clear"
