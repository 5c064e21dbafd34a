# ruff: noqa: SIM905 - lists of names read better as text
"""Values for slots, drawn once in thousands by Faker (MIT) and combined anew for each example."""

from __future__ import annotations

import random
import unicodedata
from collections import defaultdict
from dataclasses import dataclass, field

from faker import Faker
from faker.config import AVAILABLE_LOCALES

LOCALES = {
    "en": ("en_US", "en_GB", "en_CA", "en_AU", "en_IE", "en_IN", "en_NZ"),
    "de": ("de_DE", "de_AT", "de_CH"),
    "fr": ("fr_FR", "fr_BE", "fr_CA", "fr_CH"),
    "es": ("es_ES", "es_MX", "es_AR", "es_CL", "es_CO"),
    "it": ("it_IT",),
    "pt": ("pt_PT", "pt_BR"),
    "nl": ("nl_NL", "nl_BE"),
    "pl": ("pl_PL",),
}
ELSEWHERE = (
    "cs_CZ", "da_DK", "et_EE", "fi_FI", "fil_PH", "hr_HR", "hu_HU", "id_ID", "lt_LT", "lv_LV",
    "no_NO", "ro_RO", "sk_SK", "sl_SI", "sv_SE", "tr_TR", "en_PK", "en_KE", "vi_VN", "yo_NG",
    "ig_NG", "ga_IE", "sw", "zu_ZA",
)  # fmt: skip
EAST_GIVEN = (
    "Wei Ming Li Xiu Jun Hui Yan Lei Fang Jie Xiaoming Meiling Haruto Yuki Sakura Kenji Hiroshi "
    "Aiko Naoko Takeshi Ren Min-jun Ji-woo Seo-yeon Hyun-woo Soo-jin Jae-hyun Arjun Priya Anjali "
    "Rahul Sanjay Deepika Vikram Lakshmi Mohammed Ahmed Fatima Aisha Omar Khalid Layla Youssef "
    "Nour Hassan Zainab Ibrahim Mariam Karim Samira Rashid Abdul Amina Tariq Salma Mehmet Elif "
    "Dmitri Olga Sergei Natasha Ivan Svetlana Oleksandr Oksana Vladimir Tatiana Giorgi Nino "
    "Chukwuemeka Ngozi Adebayo Folake Kwame Ama Kofi Thabo Nomsa Sipho Dung Thu Linh Minh Tuan "
    "Somchai Siriporn Budi Siti Dewi Agus Rizal Reza Shirin Parisa Farhad Yael Avi Noam Tamar"
).split()
EAST_SURNAMES = (
    "Wang Li Zhang Liu Chen Yang Huang Zhao Wu Zhou Xu Sun Ma Zhu Hu Guo He Lin Tanaka Suzuki Sato "
    "Takahashi Watanabe Ito Yamamoto Nakamura Kobayashi Kim Lee Park Choi Jung Kang Cho Yoon Patel "
    "Sharma Singh Gupta Kumar Reddy Iyer Nair Banerjee Mukherjee Khan Hussain Ahmed Malik Al-Sayed "
    "El-Masri Haddad Khoury Nasser Mansour Abdullah Rahman Aziz Bakr Hosseini Rezaei Karimi Ivanov "
    "Petrov Smirnova Kuznetsov Shevchenko Kovalenko Bondarenko Yilmaz Kaya Demir Okafor Adeyemi "
    "Okonkwo Mensah Boateng Nkosi Dlamini Nguyen Tran Pham Hoang Suharto Wijaya Santoso Cohen Levi "
    "Mizrahi Petrosyan Sargsyan Beridze"
).split()
_PERSONS, _PLACES = 2500, 700


@dataclass
class Pool:
    """What one language draws from."""

    persons: list[tuple[str, str, str]] = field(default_factory=list)  # given, surname, sex
    streets: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)  # lines
    cities: list[str] = field(default_factory=list)
    countries: list[str] = field(default_factory=list)
    orgs: list[str] = field(default_factory=list)


def _faker(locale: str, seed: int) -> Faker | None:
    if locale not in AVAILABLE_LOCALES:
        return None
    fake = Faker(locale)
    fake.seed_instance(seed)
    return fake


def _latin(text: str) -> bool:
    return all(ord(c) < 0x250 or not c.isalpha() for c in unicodedata.normalize("NFC", text))


def pool_of(locales: tuple[str, ...], seed: int) -> Pool:
    pool = Pool()
    for locale in locales:
        fake = _faker(locale, seed)
        if fake is None:
            continue
        for at in range(_PERSONS):
            sex = "fm"[at % 2]
            given = fake.first_name_female() if sex == "f" else fake.first_name_male()
            surname = fake.last_name_female() if sex == "f" else fake.last_name_male()
            if _latin(given + surname):
                pool.persons.append((given, surname, sex))
        for _ in range(_PLACES):
            try:
                street, address = fake.street_address(), fake.address()
                city, country, org = fake.city(), fake.country(), fake.company()
            except (AttributeError, TypeError):  # a locale without addresses
                break
            if _latin(street + address + city + country + org):
                pool.streets.append(street.split("\n")[0])
                pool.addresses.append(address)
                pool.cities.append(city)
                pool.countries.append(country)
                pool.orgs.append(org)
    return pool


class Markov:
    """Names that nobody has: letters follow letters as they do in real ones (order 3)."""

    def __init__(self, names: list[str]) -> None:
        self._next: dict[str, list[str]] = defaultdict(list)
        for name in names:
            padded = "^^^" + name + "$"
            for at in range(3, len(padded)):
                self._next[padded[at - 3 : at]].append(padded[at])

    def draw(self, rng: random.Random) -> str:
        while True:
            name = "^^^"
            while not name.endswith("$") and len(name) < 18:
                name += rng.choice(self._next[name[-3:]])
            made = name[3:].rstrip("$")
            if len(made) >= 3 and made[0].isupper() and made[-1] not in "-' .":
                return made


@dataclass
class Pools:
    """All languages, the rest of the world, and invented names."""

    by_language: dict[str, Pool]
    elsewhere: Pool
    given: Markov
    surname: Markov

    @classmethod
    def build(cls, seed: int) -> Pools:
        by_language = {lang: pool_of(found, seed) for lang, found in LOCALES.items()}
        elsewhere = pool_of(ELSEWHERE, seed)
        elsewhere.persons += [
            (given, surname, "m") for given in EAST_GIVEN for surname in EAST_SURNAMES[::3]
        ]
        elsewhere.persons += [
            (given, surname, "f") for given in EAST_GIVEN[::3] for surname in EAST_SURNAMES
        ]
        everybody = [p for pool in by_language.values() for p in pool.persons] + elsewhere.persons
        return cls(
            by_language,
            elsewhere,
            Markov([given for given, _, _ in everybody]),
            Markov([surname for _, surname, _ in everybody]),
        )
