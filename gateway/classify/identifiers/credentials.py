"""Keys, tokens and passwords.

Most issuers gave their keys a head of their own, so that scanners like this one can tell them; each
is named in its issuer's documentation. A password has no form: it counts where it is assigned to a
name that says so, and only when it is as mixed as a real one, not a placeholder.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from presidio_analyzer import Pattern

from gateway.classify.identifiers import Identifier

_WORD = "[A-Za-z0-9_-]"
_STOP = rf"(?!{_WORD})"


def _key(issuer: str, value: str, score: float = 0.9) -> Pattern:
    return Pattern(issuer, rf"(?<!{_WORD})(?-i:{value}){_STOP}", score)


class Secret(Identifier):
    """Keys with a head of their own, and PEM private keys (RFC 7468)."""

    entity = "SECRET"
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern("PEM private key", r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----", 1.0),
        _key("AWS access key id", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
        _key("GitHub", r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{36,255}"),
        _key("GitLab", r"gl(?:pat|oas|dt|rt|cbt|ptt|ft|soat|agent)-[\w-]{20,255}"),
        _key("Slack", r"xox[abeoprs]-[A-Za-z0-9-]{10,250}|xapp-\d-[A-Za-z0-9-]{20,250}"),
        Pattern(
            "webhook of Slack, Discord or Teams",
            r"https://(?:hooks\.slack\.com/(?:services|workflows)/[\w/+-]{20,120}"
            r"|(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks/\d{15,21}/[\w-]{40,100}"
            r"|[\w-]{1,63}\.webhook\.office\.com/webhookb2/[\w@/-]{40,200})",
            0.9,
        ),
        _key("Google", r"AIza[\w-]{35}|ya29\.[\w-]{30,1024}|GOCSPX-[\w-]{24,40}"),
        _key("Stripe", r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,250}|whsec_[A-Za-z0-9+/=]{24,80}"),
        _key("model providers", r"sk-(?:proj-|ant-|or-v1-|svcacct-)?[\w-]{32,250}", 0.8),
        _key("Hugging Face", r"(?:hf|api_org)_[A-Za-z]{30,60}"),
        _key("model hosts", r"(?:gsk_|xai-|r8_|pplx-|nvapi-|fw_|tgp_v1_)[\w-]{30,120}"),
        _key("npm", r"npm_[A-Za-z0-9]{36}"),
        _key("PyPI", r"pypi-AgE[\w-]{50,300}"),
        _key("RubyGems, crates.io", r"rubygems_[a-f0-9]{48}|cio[A-Za-z0-9]{32}"),
        _key("Twilio", r"(?:AC|SK)[a-f0-9]{32}"),
        _key("SendGrid", r"SG\.[\w-]{16,32}\.[\w-]{32,64}"),
        _key("mailers", r"(?:key-[a-f0-9]{32}|[a-f0-9]{32}-us\d{1,2}|xkeysib-[a-f0-9]{64}-\w{16})"),
        _key("DigitalOcean", r"do[oprt]_v1_[a-f0-9]{64}"),
        _key(
            "shops", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|EAAA[\w-]{60}|sq0(?:atp|csp)-[\w-]{22,43}"
        ),
        _key(
            "tools",
            r"(?:PMAK-[a-f0-9]{24}-[a-f0-9]{34}|lin_api_\w{40}|secret_\w{43}|ntn_\w{40,60})",
        ),
        _key("clusters", r"dapi[a-f0-9]{32}|hv[sbr]\.[\w-]{24,300}|dp\.(?:pt|st)\.[\w.]{40,100}"),
        _key("monitors", r"glsa_\w{32}_[a-f0-9]{8}|NRAK-[A-Z0-9]{27}|sntr[ysu]_[\w+/=]{40,200}"),
        _key("Telegram", r"\d{8,10}:AA[\w-]{33}"),
        Pattern(
            "Azure storage or service bus",
            r"(?:AccountKey|SharedAccessKey)=[A-Za-z0-9+/]{40,100}={0,2}"
            r"|(?<=[?&]sig=)[\w%+/-]{40,100}",
            0.9,
        ),
        Pattern("service account", r"\"private_key_id\"\s{0,4}:\s{0,4}\"[a-f0-9]{40}\"", 0.9),
        _key("JSON Web Token (RFC 7519)", r"eyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{16,1400}"),
        Pattern(
            "age or WireGuard", r"AGE-SECRET-KEY-1[A-Z0-9]{58}|PrivateKey ?= ?[\w+/]{43}=", 0.9
        ),
    )


_NAME = (
    r"pass(?:word|wd|phrase|code)?|pwd|passwort|kennwort|mot de passe|mdp|contraseña|clave|senha"
    r"|wachtwoord|hasło|secret(?:[_-]?key)?|api[_-]?key|apikey|api[_-]?secret|client[_-]?secret"
    r"|access[_-]?(?:key|token)|auth[_-]?token|refresh[_-]?token|private[_-]?key"
    r"|secret[_-]?access[_-]?key"
    r"|encryption[_-]?key|signing[_-]?key|token|bearer"
)
_PLACEHOLDER = re.compile(
    r"(?i)your|example|sample|dummy|changeme|change_me|placeholder|secret|password|passwort|token"
    r"|api_?key|xxx|\*\*\*|\.\.\.|1234|abcd|todo|none|null|true|false|test|foo|bar|hidden|redacted"
    r"|env\b|environ|process\.|config|settings|self\.|this\.|args|input|\$\{|\{\{|<|>|\(|\[|\]|\}"
)
_MIXED_BITS = 2.8  # Shannon entropy a character: words lie below, keys of 12 random letters above
_SAFE_LENGTH = 20


class Password(Identifier):
    """`password = "..."`, `api_key: ...`, `https://user:pass@host` (RFC 3986, section 3.2.1)."""

    entity = "SECRET"
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern(
            "beside its words, assigned",
            rf"(?<![^\W_])(?:{_NAME})[\"'`*\]]{{0,3}}\s{{0,3}}(?:=>|:=|[:=]|\bis\b|\bist\b|\best\b"
            rf"|\bes\b)"
            r"\s{0,3}[\"'`*]{0,3}(?:bearer )?(?P<value>[^\s\"'`,;]{8,200})",
            0.6,
        ),
        Pattern("beside its words, bearer", r"\bBearer (?P<value>[\w.~+/-]{20,2000}={0,2})", 0.6),
        Pattern(
            "beside its words, in a URL",
            r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"'<>]{1,64}:"
            r"(?P<value>[^\s/@\"'<>]{3,128})@[\w.\[-]",
            0.6,
        ),
    )

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        in_url = pattern.endswith("URL")
        for first, last in super().parts(text, pattern, start, end):
            if is_secret(text[first:last], in_url=in_url):
                yield first, last


def is_secret(value: str, *, in_url: bool = False) -> bool:
    """Mixed as a password or a key is: no placeholder, no word, no name in code."""
    if _PLACEHOLDER.search(value):
        return False
    if in_url:
        return value.lower() not in ("pass", "pw", "pwd", "p", "user")
    kinds = sum(bool(re.search(kind, value)) for kind in (r"[a-z]", r"[A-Z]", r"\d", r"[^\w.]"))
    counts = Counter(value).values()
    bits = -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
    if len(value) < _SAFE_LENGTH:
        return kinds >= 3 and bits >= _MIXED_BITS and bool(re.search(r"\d", value))
    return kinds >= 2 and bits >= 3.0 and bool(re.search(r"\d", value))
