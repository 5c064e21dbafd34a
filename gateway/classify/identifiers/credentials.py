# ruff: noqa: RUF001 - quotes of other languages are meant as they are
"""Keys, tokens, passwords and codes.

Most issuers gave their keys a head of their own, so that scanners like this one can tell them; each
is named in its issuer's documentation. A password has no form: it counts where it is assigned to a
name that says so, and only when it is as mixed as a real one, not a placeholder.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from presidio_analyzer import Pattern

from gateway.classify.identifiers import LABELLED, Identifier

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
        _key("Google", r"AIza[\w-]{35}|ya29\.[\w-]{12,1024}|GOCSPX-[\w-]{24,40}"),
        _key("Stripe", r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,250}|whsec_[A-Za-z0-9+/=]{24,80}"),
        _key("model providers", r"sk-(?:proj-|ant-|or-v1-|svcacct-)?[\w-]{32,250}", 0.8),
        _key("Hugging Face", r"hf_[A-Za-z0-9]{20,60}|(?:hf|api_org)_[A-Za-z]{30,60}"),
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
        _key(
            "forges", r"ATATT3[\w=-]{30,300}|dckr_pat_[\w-]{27}|figd_[\w-]{40,60}|oy2[a-z0-9]{43}"
        ),
        _key("hosts", r"sbp_[a-f0-9]{40}|HRKU-[\w-]{30,70}|pul-[a-f0-9]{40}|AKC[A-Za-z0-9]{50,90}"),
        _key("databases", r"pscale_(?:tkn|pw|oauth)_[\w.-]{32,64}|\w{14}\.atlasv1\.[\w-]{60,80}"),
        _key(
            "business tools",
            r"pat-(?:na|eu)\d-[a-f0-9]{8}-[a-f0-9-]{27}|pat\w{14}\.[a-f0-9]{64}|EAA[A-Za-z0-9]{50,250}"
            r"|dt0c01\.[A-Z2-7]{24}\.[A-Z2-7]{64}",
        ),
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
_HASHED = re.compile(
    r"(?i)(?:sha|md|aes|utf|base|rc|argon|pbkdf|ripemd|crc|bcrypt|scrypt|blake|oauth|rs|hs|x)-?\d"
    r"|\d+[a-z]+\Z|\d+-"
)
"""How a password is stored, and how long it is: `sha256`, `base64`, `8-character`."""
_BIP39 = r"(?:[a-z]{3,8}[\s,]{1,3}(?:\d{1,2}[.)] ?)?){11,23}[a-z]{3,8}"
_IN_PROSE = frozenset(
    {"the", "and", "for", "with", "your", "from", "was", "are", "has", "not", "its"}
)
"""Words of every paragraph that are none of BIP 39's."""
_MIXED_BITS = 2.8  # Shannon entropy a character: words lie below, keys of 12 random letters above
_SAFE_LENGTH = 20


_PROSE_LABELS = (
    r"(?:my|his|her|their|our|the|user|login|admin|root|wifi|wi-fi|and)[ _-]passwords?"
    r"|passcode"
    r"|(?:mein|ihr|sein|das|unser|wlan)[ -]?passwort|kennwort|zugangscode"
    r"|(?:mon|son|votre|le) mot de passe|(?:mi|su|tu|la) (?:contraseña|clave)"
    r"|(?:la )?(?:mia|sua|tua) password|parola d['’]ordine"
    r"|(?:minha|sua|tua) (?:senha|palavra-passe)"
    r"|(?:mijn|zijn|haar|het) wachtwoord|(?:moje|jego|jej|twoje) hasło|hasło (?:do|to)"
)
_CODES = (
    r"pin(?:[- ]?(?:code|number|nummer|no))?|code pin|código pin|codice pin|kod pin|geheimzahl"
    r"|pincode|otp(?: code)?|totp|2fa(?: code)?|mfa(?: code)?|m?tan|cvv2?|cvc2?"
    r"|(?:one[- ]time|verification|security|authentication|confirmation|login|access|sms) "
    r"?(?:pass)?(?:word|code|pin)"
    r"|(?:bestätigungs|sicherheits|einmal|freigabe|zugangs|sms-?)(?:code|passwort|kennwort|pin)"
    r"|code (?:de |d['’])(?:vérification|sécurité|confirmation|accès)|code secret|code sms"
    r"|(?:código|clave) de (?:verificación|seguridad|confirmación|acceso|un solo uso|verificação"
    r"|segurança|confirmação|acesso)"
    r"|codice (?:di )?(?:verifica|sicurezza|conferma|accesso|otp|segreto)"
    r"|(?:verificatie|beveiligings|inlog|toegangs|sms-?)code"
    r"|kod (?:weryfikacyjny|sms|autoryzacyjny|jednorazowy|dostępu|z sms)|hasło (?:jednorazowe|sms)"
)
PURPOSE = r"[^\d\n.;!?]{0,60}"
"""What a code is for, in a sentence."""
_ASSIGNED = (
    r"\s{0,3}(?:=>|:=|[:=#])|\s{1,2}(?=\d{3}[ -]?\d{3}(?!\w))|(?<=pin)\s{1,2}(?=\d{4}(?!\w))"
    r"|(?: (?:for|of|to|für|pour|para|per|do|voor) " + PURPOSE + r")?"
    r" (?:is|was|ist|lautet|war|est|es|è|é|jest|to|brzmi)(?=[ :])"
)
PHRASES = (
    r"(?:seed|recovery|secret|backup|wallet|mnemonic)[ _-](?:recovery )?(?:phrase|words?)|mnemonic"
    r"|wiederherstellungs(?:phrase|wörter|schlüssel)|phrase (?:de récupération|secrète|mnémonique)"
    r"|frase (?:semilla|seed|de recuperación|di recupero|de recuperação|secreta|segreta)"
    r"|herstel(?:zin|woorden)|fraza (?:odzyskiwania|seed)|słowa odzyskiwania"
)


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
        Pattern(
            "beside its words, in prose",
            rf"(?<![^\W_])(?:{_PROSE_LABELS})(?: (?:is|was|ist|lautet|war|est|es|è|é|jest|to|brzmi"
            rf"|for \w{{1,20}} is))?[\s:=\"'`]{{1,4}}(?P<value>[^\s\"'`,;]{{5,40}})",
            0.6,
        ),
        Pattern(
            "beside its words, basic (RFC 7617)",
            r"\bBasic (?P<value>[A-Za-z0-9+/]{12,400}={0,2})",
            0.6,
        ),
    )

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        in_url = pattern.endswith("URL")
        for first, last in super().parts(text, pattern, start, end):
            value = text[first:last]
            if pattern.endswith("prose"):
                is_one = is_prose_password(value.rstrip(".!?)"))
            elif pattern.endswith("(RFC 7617)"):
                is_one = _has_basic_credentials(value)
            else:
                is_one = is_secret(value, in_url=in_url)
            if is_one:
                yield first, last


class OneTimeCode(Identifier):
    """A PIN (ISO 9564-1: 4 to 12 digits), a one-time code (RFC 4226: 6 to 8 digits), a card's
    security code, where a sentence or a field says which it is."""

    entity = "SECRET"
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern(
            f"{LABELLED}, assigned",
            rf"(?<![^\W_-])(?:{_CODES})[\"'`*\])}}]{{0,3}}(?:{_ASSIGNED})[\s\"'`*]{{0,4}}"
            r"(?P<value>\d{4,8}|\d{3}[ -]\d{3}|\d{3}(?=\s|\W?\Z))(?![\w-])(?![.,/]\d)",
            0.6,
        ),
    )


class RecoveryPhrase(Identifier):
    """The 12 to 24 words that restore a wallet (BIP 39), behind what calls them so."""

    entity = "SECRET"
    flags = re.MULTILINE
    forms: ClassVar[tuple[Pattern, ...]] = (
        Pattern(
            f"{LABELLED}, listed",
            rf"(?i:{PHRASES})(?:(?i: \(?\w{{1,12}}\)?){{0,4}}?[\s:=\"'`*-]{{1,6}}(?:1[.)] ?)?)"
            rf"(?P<value>{_BIP39})",
            0.6,
        ),
    )

    def parts(self, text: str, pattern: str, start: int, end: int) -> Iterable[tuple[int, int]]:
        for first, last in super().parts(text, pattern, start, end):
            if _IN_PROSE.isdisjoint(text[first:last].split()):
                yield first, last


def is_prose_password(value: str) -> bool:
    """A password as people choose and say it: a word with digits, and no placeholder."""
    has_both = re.search(r"[^\W\d_]", value) and re.search(r"\d", value)
    is_other = _PLACEHOLDER.search(value) or _HASHED.match(value)
    return bool(has_both) and len(value) >= 5 and not is_other


def _has_basic_credentials(value: str) -> bool:
    """Whether it is the Base64 of a name, a colon and a password."""
    try:
        return b":" in base64.b64decode(value, validate=True)
    except binascii.Error:
        return False


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
