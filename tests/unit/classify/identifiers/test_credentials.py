"""Keys by their heads, passwords by what they are assigned to; placeholders are neither.

The keys are made up here, in two parts each, so that no scanner of repositories takes them for
somebody's.
"""

from __future__ import annotations

import pytest

from gateway.classify.identifiers.credentials import Password, Secret, is_secret

_HEX = "9f86d081884c7d659a2feaa0c55ad015"
_MIXED = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7d"
KEYS = (
    ("PEM", "-----BEGIN OPENSSH " + "PRIVATE KEY-----"),
    ("AWS", "AKIA" + "Z7Q4M2X9W1K8T5R3"),
    ("GitHub", "ghp_" + _MIXED[:36]),
    ("GitHub, fine-grained", "github_pat_" + _MIXED * 2),
    ("GitLab", "glpat-" + _MIXED[:20]),
    ("Slack", "xoxb-" + "123456789012-" + _MIXED[:24]),
    ("Slack webhook", "https://hooks.slack.com/services/" + "T00000000/B00000000/" + _MIXED[:24]),
    ("Google", "AIza" + _MIXED[:35]),
    ("Stripe", "sk_live_" + _MIXED[:24]),
    ("model provider", "sk-proj-" + _MIXED),
    ("Hugging Face", "hf_" + "abcdefghijKLMNOPqrstuvWXYZabcdefgh"),
    ("Hugging Face, with digits", "hf_" + _MIXED[:34]),
    ("Google OAuth", "ya29." + "a0" + _MIXED[:20]),
    ("Atlassian", "ATATT3" + _MIXED),
    ("Docker", "dckr_" + "pat_" + _MIXED[:27]),
    ("Figma", "figd_" + _MIXED),
    ("Supabase", "sbp_" + _HEX + _HEX[:8]),
    ("Heroku", "HRKU-" + _MIXED[:36]),
    ("Facebook", "EAA" + _MIXED * 2),
    ("HubSpot", "pat-na1-" + "12345678-abcd-1234-abcd-1234567890ab"),
    ("PlanetScale", "pscale_" + "tkn_" + _MIXED),
    ("npm", "npm_" + _MIXED[:36]),
    ("PyPI", "pypi-" + "AgEIcHlwaS5vcmc" + _MIXED * 2),
    ("Twilio", "AC" + _HEX),
    ("SendGrid", "SG." + _MIXED[:22] + "." + (_MIXED * 2)[:43]),
    ("DigitalOcean", "dop_v1_" + _HEX * 2),
    ("Azure", "AccountKey=" + _MIXED * 2 + "=="),
    ("service account", '"private_key_id": "' + _HEX + '01234567"'),
    ("JWT", "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + _MIXED),
)
ASSIGNED = (
    ('password = "T7#kq9!vLm2"', "T7#kq9!vLm2"),
    ("api_key: " + _MIXED, _MIXED),
    ('{"client_secret": "' + _HEX + '"}', _HEX),
    ("Das Passwort ist Kx7!pQ2w9z", "Kx7!pQ2w9z"),
    ("hasło: Zx8#mN4q1v", "Zx8#mN4q1v"),
    ("Authorization: Bearer " + _MIXED, _MIXED),
    ("Authorization: Basic ZGVwbG95Oks3cFEydzl6", "ZGVwbG95Oks3cFEydzl6"),
    ("postgres://app:Kx7pQ2w9z@db.corp/x", "Kx7pQ2w9z"),
)
PLACEHOLDERS = (
    "password = os.environ['DB_PASSWORD']",
    "password: str = field(default=None)",
    'api_key = "YOUR_API_KEY"',
    "api_key: sk-...",
    'secret = "changeme123!"',
    "token = settings.token_value_2",
    "password is required to be 8 characters",
    "postgres://user:password@localhost/db",
    "https://user:pass@host/",
    "the token count is 128000000",
    'password = "<your-password-1>"',
    "token: ${{ secrets.GITHUB_TOKEN }}",
    "the password is sha256 hashed",
    "my password is 12-characters long",
    "Basic authentication and Basic understanding",
)


@pytest.mark.parametrize(("issuer", "key"), KEYS)
def test_a_key_is_told_by_its_head(issuer: str, key: str) -> None:
    text = f"use {key} for it"
    assert [text[r.start : r.end] for r in Secret().analyze(text, ["SECRET"])] == [key]


@pytest.mark.parametrize(("text", "value"), ASSIGNED)
def test_a_secret_is_told_by_what_it_is_assigned_to(text: str, value: str) -> None:
    assert value in [text[r.start : r.end] for r in Password().analyze(text, ["SECRET"])]


@pytest.mark.parametrize("text", PLACEHOLDERS)
def test_a_placeholder_is_no_secret(text: str) -> None:
    assert Secret().analyze(text, ["SECRET"]) == []
    assert Password().analyze(text, ["SECRET"]) == []


@pytest.mark.parametrize(
    "value", ["correct-horse-battery", "aaaaaaaaaaaaA1!", "12345678", "Winter"]
)
def test_words_and_counts_are_not_mixed_enough(value: str) -> None:
    assert not is_secret(value)
