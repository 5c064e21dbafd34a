"""The vocabulary of token ids, in both forms of file."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from gateway.classify.text.extract import Unscannable, extract_texts
from gateway.config.model_catalog import Catalog
from gateway.config.reading import parse
from gateway.config.token_encoding import BadVocabulary, UnknownTokens, load
from gateway.core.config_error import ConfigError
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.server.openai.documents import read
from tests.unit.models import graphs

TOKENS = (b"a", b"b", b" 4111 1111", b" 1111 1111", b"\xc3", b"\xa4")
SETTINGS = """
endpoints: {{gpu: {{kind: triton, zone: onprem, grpc: "127.0.0.1:1"}}}}
models: {{m: {{task: {task}, token_encoding: {path}, served_by: [{{endpoint: gpu}}]}}}}
"""


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    path = tmp_path / "vocabulary.tiktoken"
    lines = [b"%s %d" % (base64.b64encode(token), at) for at, token in enumerate(TOKENS)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.fixture
def byte_level(tmp_path: Path) -> Path:
    """A tokenizer.json that gives each text back as it was, as those of most language models."""
    alphabet = {sign: at for at, sign in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(alphabet, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_ranks_of_tiktoken_are_texts_again(ranks: Path) -> None:
    assert load(ranks).texts([0, 1, 4, 5]) == (["abä"], True)
    assert load(ranks).texts([[0], [1]]) == (["a", "b"], True)


def test_a_part_of_a_character_does_not_refuse_the_text_and_is_not_exact(ranks: Path) -> None:
    assert load(ranks).texts([[0, 4], [5, 1]]) == (["a\ufffd", "\ufffdb"], False)


def test_a_tokenizer_json_is_a_vocabulary(byte_level: Path) -> None:
    encoding = load(byte_level)
    text = "Jané Low <j.low@example.com>"
    ids = Tokenizer.from_file(str(byte_level)).encode(text).ids
    assert encoding.texts(ids) == ([text], True)
    with pytest.raises(UnknownTokens):
        encoding.texts([*ids, 256])


def test_a_tokenizer_that_drops_spaces_or_case_is_not_exact(tmp_path: Path) -> None:
    encoding = load(graphs.tokenizer(tmp_path / "tokenizer.json"))
    assert encoding.texts([2, 3]) == ([f"{graphs.WORDS[2]} {graphs.WORDS[3]}"], False)


def test_a_file_that_changes_is_read_again(ranks: Path) -> None:
    load(ranks)
    ranks.write_bytes(base64.b64encode(b"another") + b" 0\n")
    assert load(ranks).texts([0]) == (["another"], True)


@pytest.mark.parametrize("content", [b"", b"{}", b"a b c", b"YQ==", b"YQ== one", b"\xff 1"])
def test_what_is_no_vocabulary_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "vocabulary"
    path.write_bytes(content)
    with pytest.raises(BadVocabulary, match="neither"):
        load(path)
    with pytest.raises(ConfigError, match="token_encoding: is neither"):
        parse(SETTINGS.format(path=path, task="embeddings"))


def test_a_model_of_tensors_has_no_token_ids(ranks: Path) -> None:
    with pytest.raises(ConfigError, match="token_encoding: no call of task infer has token ids"):
        parse(SETTINGS.format(path=ranks, task="infer"))


def test_what_token_ids_spell_is_what_the_classifier_reads(ranks: Path) -> None:
    catalog = Catalog.from_settings(parse(SETTINGS.format(path=ranks, task="embeddings")))
    model, call = read(EMBEDDINGS, {"model": "m", "input": [0, 2, 3]}, catalog)
    assert "a 4111 1111 1111 1111" in extract_texts(call, model, 1000)


def test_ids_that_do_not_say_the_text_as_it_was_written_restrict(tmp_path: Path) -> None:
    path = graphs.tokenizer(tmp_path / "tokenizer.json")
    catalog = Catalog.from_settings(parse(SETTINGS.format(path=path, task="embeddings")))
    model, call = read(EMBEDDINGS, {"model": "m", "input": [2, 3]}, catalog)
    assert call.document["input"] == [f"{graphs.WORDS[2]} {graphs.WORDS[3]}"]
    with pytest.raises(Unscannable, match="token_ids"):
        extract_texts(call, model, 1000)
    model, call = read(EMBEDDINGS, {"model": "m", "input": "the text itself"}, catalog)
    assert "the text itself" in extract_texts(call, model, 1000)
