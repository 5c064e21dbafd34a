"""`spillway audit`: what it prints, and what it exits with."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.accounting.audit import alias_key
from gateway.accounting.audit.journal.segments import segments
from tests.unit.audit import rig
from tests.unit.audit.rig import DAY_S, Wall, call, in_cloud, newest_note, put, written


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return rig.audit(tmp_path / "audit", calls=30)


def spillway(action: str, directory: Path, *more: str) -> int:
    return main(["audit", action, "--directory", str(directory), *more])


def err(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_verify_says_what_holds_and_what_it_cannot_tell(
    audit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spillway("verify", audit) == 0
    told = err(capsys)
    assert ": holds: records 0 to " in told
    assert "no checkpoint from elsewhere was compared" in told
    assert "the key is the one beside the records" in told


def test_verify_fails_with_the_place(audit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = segments(audit)[1].path
    path.write_bytes(path.read_bytes().replace(b"clinic", b"clinik", 1))
    assert spillway("verify", audit) == 1
    assert f"wrong {path}, line 2: the hash of record" in err(capsys)
    assert spillway("verify", audit, "--json") == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["line"] == 2


def test_an_exported_checkpoint_shows_a_cut_end(
    audit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away = tmp_path / "away"
    assert spillway("export", audit, "--to", str(away), "--records") == 0
    assert spillway("verify", away) == 0, "the copy of the records is an audit"
    (note,) = away.glob("*.checkpoint")
    capsys.readouterr()
    given = ("--key", str(away / "signing.pub"), "--checkpoint", str(note))
    assert spillway("verify", audit, *given) == 0
    assert "no checkpoint from elsewhere" not in err(capsys)
    last = segments(audit)[-1]
    last.path.unlink()
    last.checkpoints.unlink()
    assert spillway("verify", audit) == 0
    assert spillway("verify", audit, *given) == 1
    assert "the end was cut off" in err(capsys)


def test_export_prints_the_newest_checkpoint(
    audit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spillway("export", audit) == 0
    assert capsys.readouterr().out == newest_note(audit)


# Query


def test_a_query_for_restricted_calls_in_the_cloud_must_be_empty(
    audit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--class", "restricted", "--zone", "cloud")
    assert spillway("query", audit, *asked) == 0
    assert capsys.readouterr().out == ""
    with written(tmp_path / "leak") as into:
        put(into, call(1, attempts=in_cloud()))
    assert spillway("query", tmp_path / "leak", *asked) == 1
    told = capsys.readouterr()
    assert "call-1" in told.out
    assert "this must never be" in " ".join(told.err.split())
    assert spillway("query", tmp_path / "leak", "--zone", "cloud") == 0, "only a listing"


def test_a_query_prints_lines_or_json(audit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--from", "2026-07-01T00:00:01", "--until", "2026-07-01T00:00:03")
    assert spillway("query", audit, *asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert re.match(r"2026-07-01 00:00:01  call-1  restricted  onprem +clinic  chat  ser", lines[0])
    assert spillway("query", audit, *asked, "--json") == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["id"] for one in told] == ["call-1", "call-2"]


def test_a_query_over_a_chain_that_was_changed_says_so(
    audit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = segments(audit)[1].path
    path.write_bytes(path.read_bytes().replace(b'"restricted"', b'"clearcutly"', 1))
    assert spillway("query", audit) == 2
    assert "`spillway audit verify` says more" in err(capsys)


def test_a_day_that_is_none_is_the_caller_s_mistake(
    audit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        spillway("query", audit, "--from", "soon")
    assert ended.value.code == 2
    assert "soon: write a day" in err(capsys)


# Proofs


def test_a_proof_needs_the_public_key_and_nothing_else(
    audit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof, key = tmp_path / "call.tlog-proof", tmp_path / "key.pub"
    assert spillway("prove", audit, "call-7", "--out", str(proof)) == 0
    shutil.copy(audit / "signing.pub", key)
    shutil.rmtree(audit)
    assert proof.read_text().startswith("c2sp.org/tlog-proof@v1\nextra ")
    asked = ["audit", "verify", "--proof", str(proof), "--key", str(key)]
    assert main(asked) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "call-7"
    assert main(asked[:-2]) == 2, "without a key it proves nothing"


@pytest.mark.parametrize("line", range(12))
def test_a_proof_that_was_changed_proves_nothing(
    audit: Path, tmp_path: Path, line: int, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = tmp_path / "call.tlog-proof"
    assert spillway("prove", audit, "call-7", "--out", str(proof)) == 0
    lines = proof.read_text().split("\n")
    if line >= len(lines) - 1 or not lines[line]:
        return
    at = len(lines[line]) // 2
    other = "B" if lines[line][at] != "B" else "C"
    lines[line] = lines[line][:at] + other + lines[line][at + 1 :]
    proof.write_text("\n".join(lines))
    key = str(audit / "signing.pub")
    assert main(["audit", "verify", "--proof", str(proof), "--key", key]) == 2


def test_a_checkpoint_goes_on_in_a_later_one(tmp_path: Path) -> None:
    directory, old = tmp_path / "audit", tmp_path / "old"
    rig.audit(directory)
    old.write_text(newest_note(directory))
    rig.audit(directory, calls=9)
    proof = tmp_path / "proof.json"
    assert spillway("prove", directory, "--since", str(old), "--out", str(proof)) == 0
    asked = ["audit", "verify", "--proof", str(proof), "--key", str(directory / "signing.pub")]
    assert main(asked) == 0
    told = json.loads(proof.read_text())
    proof.write_text(json.dumps({**told, "path": told["path"][:-1]}))
    assert main(asked) == 2


def test_what_is_not_on_record_is_not_proven(
    audit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spillway("prove", audit, "call-99") == 2
    assert "nothing is recorded of call-99" in err(capsys)


def test_a_record_that_nobody_has_signed_for_yet_is_not_proven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = rig.journal(tmp_path)
    put(into, call(1))
    assert spillway("prove", tmp_path, "call-1") == 2
    assert "not in a signed checkpoint yet" in err(capsys)
    into.close()
    assert spillway("prove", tmp_path, "call-1") == 0


def test_a_call_is_proven_after_older_ones_were_removed(tmp_path: Path) -> None:
    wall = Wall()
    into = rig.journal(tmp_path / "audit", wall, retain_days=2.0)
    for day in range(6):
        put(into, *(call(10 * day + n) for n in range(5)))
        wall.now_s += DAY_S
    into.close()
    proof = tmp_path / "proof"
    assert spillway("prove", tmp_path / "audit", "call-52", "--out", str(proof)) == 0
    key = str(tmp_path / "audit" / "signing.pub")
    assert main(["audit", "verify", "--proof", str(proof), "--key", key]) == 0


def test_an_audit_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for action in ("verify", "export", "query"):
        assert spillway(action, tmp_path / "nothing") == 2
        assert "no public key" in (told := err(capsys)) or "no audit can be read here" in told


def _of_callers(directory: Path) -> tuple[str, str]:
    """An audit with a call of which its caller gave the ids, and those."""
    asked, trace = "7f1c2d9e-5a0b-4c6d-8e2f-0123456789ab", "4bf92f3577b34da6a3ce929d0e0e4736"
    key = alias_key.aliases(directory)
    own = call(2, id="0b0c1d9e-5a0b-4c6d-8e2f-0123456789ab", trace="ab" * 16)
    with written(directory) as journal:
        put(journal, call(1, id=key.call_alias(asked), trace=key.trace_alias(trace)), own)
    return asked, trace


def test_query_finds_calls_by_the_ids_that_their_callers_gave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = tmp_path / "audit"
    asked, trace = _of_callers(audit)
    for option, given in (
        ("--id", asked), ("--id", asked.upper()), ("--trace", trace),
        ("--trace", f"00-{trace}-00f067aa0ba902b7-01"),
        ("--id", "0b0c1d9e-5a0b-4c6d-8e2f-0123456789ab"), ("--trace", "ab" * 16),
    ):  # fmt: skip
        assert spillway("query", audit, option, given) == 0
        assert "1 calls" in capsys.readouterr().err, (option, given)
    assert spillway("query", audit, "--trace", "cd" * 16) == 0
    assert "0 calls" in capsys.readouterr().err
    assert trace not in b"".join(p.read_bytes() for p in audit.glob("*.jsonl")).decode()


@pytest.mark.parametrize(("option", "given"), [("--id", "call-1"), ("--trace", "xyz")])
def test_query_says_what_an_id_looks_like(
    audit: Path, option: str, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        spillway("query", audit, option, given)
    assert "write a" in err(capsys)


def test_prove_takes_the_id_that_a_caller_gave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = tmp_path / "audit"
    asked, _ = _of_callers(audit)
    out = tmp_path / "proof"
    assert spillway("prove", audit, asked, "--out", str(out)) == 0
    capsys.readouterr()
    key = str(audit / "signing.pub")
    assert spillway("verify", audit, "--proof", str(out), "--key", key) == 0
