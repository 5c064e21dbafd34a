"""Made-up texts of five categories: sentences to be examples, and other sentences to be caught.

Sentences come from two lists of forms that share no form, and from slots that share no filling:
what is caught was not learned by heart.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SLOT = re.compile(r"\{(\w+)\}")

Slots = Mapping[str, tuple[list[str], list[str]]]
"""By slot: what fills it in examples, and what does elsewhere."""


@dataclass(frozen=True, slots=True)
class CategoryTexts:
    """Forms of sentences, `{slot}` in them to be filled."""

    examples: list[str]
    unseen: list[str]

    def draw(self, count: int, seed: int, *, unseen: bool = False) -> list[str]:
        """So many, all different; forms in turn, in an order of the seed's."""
        rng = random.Random(seed)
        forms = list(self.unseen if unseen else self.examples)
        rng.shuffle(forms)
        drawn: dict[str, None] = {}
        for form in itertools.islice(itertools.cycle(forms), 50 * count):
            drawn[_filled(form, rng, int(unseen))] = None
            if len(drawn) == count:
                break
        return list(drawn)


def _filled(form: str, rng: random.Random, column: int) -> str:
    return _SLOT.sub(lambda slot: rng.choice(_SLOTS[slot[1]][column]), form)


_SLOTS: Slots = {
    "who": (
        ["the patient", "Mr Adler", "our client", "this resident", "the 54-year-old woman", "she"],
        ["Ms Thorne", "the man in bed 7", "her father", "the applicant", "a student of ours", "he"],
    ),
    "illness": (
        ["type 2 diabetes", "bipolar disorder", "breast cancer, stage II", "hepatitis C",
         "multiple sclerosis", "major depression", "chronic kidney disease"],
        ["Crohn's disease", "schizophrenia", "a malignant melanoma", "HIV infection", "epilepsy",
         "early Parkinson's", "alcohol dependence", "rheumatoid arthritis"],
    ),
    "drug": (
        ["metformin 500 mg", "lithium", "tamoxifen", "interferon", "sertraline 50 mg"],
        ["azathioprine", "olanzapine 10 mg", "a course of pembrolizumab", "levodopa", "valproate"],
    ),
    "site": (
        ["Plant 4", "the Rotterdam depot", "the night shift", "the call centre", "logistics"],
        ["the Leeds bakery", "the paint shop", "the drivers", "ground staff", "the packing line"],
    ),
    "union": (
        ["IG Metall", "Unite", "the CGT", "the Teamsters", "the works union"],
        ["ver.di", "UNISON", "the transport workers' union", "SEIU", "USDAW"],
    ),
    "person": (
        ["Karl Brandt", "Ana Ruiz", "J. Okafor", "the foreman", "our new technician"],
        ["Lena Vogt", "P. Dubois", "M. Haddad", "the forklift driver", "two of the temps"],
    ),
    "code": (
        ["Project Nightjar", "Bluestone", "Operation Lantern", "Project Quartz", "Halcyon"],
        ["Project Kestrel", "Redwood", "Operation Cinder", "Project Opal", "Meridian"],
    ),
    "target": (
        ["the Danish competitor", "Norvik Shipping", "the fintech in Tallinn", "the rival bank"],
        ["the Portuguese insurer", "Helvar Foods", "the robotics firm", "the smaller airline"],
    ),
    "metric": (
        ["yield", "conversion", "critical temperature", "response rate", "detection limit"],
        ["selectivity", "quantum efficiency", "survival", "bandgap", "cycle life"],
    ),
    "sample": (
        ["the doped nickelate films", "cohort B", "batch 17", "the knock-out mice"],
        ["the perovskite cells", "the second arm", "sample set 31", "the edited seedlings"],
    ),
    "number": (["38 %", "4.7 K", "0.91", "twofold", "12 nm"], ["61 %", "77 K", "0.84", "tenfold"]),
    "module": (
        ["ledger", "routing", "pricing", "intake", "claims"],
        ["dispatch", "settlement", "matching", "tariff", "payout"],
    ),
    "thing": (
        ["Invoice", "Policy", "Shipment", "Account", "Claim"],
        ["Order", "Contract", "Parcel", "Wallet", "Tender"],
    ),
}  # fmt: skip

TEXTS: Mapping[str, CategoryTexts] = {
    "diagnoses": CategoryTexts(
        [
            "{who} was diagnosed with {illness} in March.",
            "Diagnosis: {illness}; {who} was started on {drug}.",
            "Summarise this discharge letter: {who}, {illness}, discharged on {drug}.",
            "The biopsy confirmed {illness} and {who} was told yesterday.",
            "{who} takes {drug} because of {illness}.",
            "History of {illness} since 2014, now worse despite {drug}.",
            "Write to the insurer that {who} suffers from {illness}.",
            "{who} is on sick leave for {illness} until further notice.",
            "Lab results point to {illness}; {who} needs {drug}.",
            "Assessment: {illness}, poorly controlled. Plan: continue {drug}.",
            "Known allergies none. Medication {drug}. Main problem {illness}.",
            "{who} was admitted last night with {illness}.",
        ],
        [
            "We think {who} has {illness}. Should we add {drug}?",
            "Please shorten this note: seen in clinic today, {illness} in remission under {drug}.",
            "{who} asked HR to adjust the hours on account of {illness}.",
            "The specialist suspects {illness} and wants {who} to try {drug}.",
            "Is {drug} the right choice for {who}, given {illness}?",
            "MRI last week: findings compatible with {illness}. Referred to the consultant.",
            "Since {illness} was found, {who} has been in and out of hospital.",
            "Translate for the family: the tests show that {who} has {illness}.",
            "{who} missed two appointments; {illness} is getting worse without {drug}.",
        ],
    ),
    "union_membership": CategoryTexts(
        [
            "{person} joined {union} last month.",
            "List of members of {union} at {site}: {person} and four others.",
            "{person} pays dues to {union} through payroll.",
            "Who of {site} is organised in {union}?",
            "{person} was elected shop steward of {union} for {site}.",
            "{union} says that sixty per cent of {site} have signed membership cards.",
            "Write a memo about {person}, who is active in {union}.",
            "{person} hands out flyers of {union} in {site}.",
            "Deduct the union fee of {union} for {person} from the next salary.",
            "{person} took part in the strike that {union} called at {site}.",
            "Membership number at {union} on file for {person}.",
            "{person} wants {union} to represent him in the grievance hearing.",
        ],
        [
            "Is {person} still a member of {union}?",
            "{person} asked to have the {union} subscription stopped.",
            "At {site}, {person} collects signatures so that {union} is recognised.",
            "{union} sent us the names of its representatives for {site}, among them {person}.",
            "We should know how many of {site} belong to {union} before the talks.",
            "{person} came to the hearing with an official of {union}.",
            "Two organisers of {union} met {person} after work.",
            "{person} voted for the walkout at the {union} branch meeting.",
        ],
    ),
    "project_code_names": CategoryTexts(
        [
            "{code} is on track for the launch in May.",
            "The budget of {code} was raised by two million.",
            "Draft the board paper on {code}, the takeover of {target}.",
            "Nobody outside the deal team may hear of {code}.",
            "{code}: due diligence of {target} ends on Friday.",
            "Under {code} we bid for {target} at a premium of thirty per cent.",
            "Minutes of the {code} steering group.",
            "Slides for {code}: synergies with {target}.",
            "{code} will be announced together with the figures of the third quarter.",
            "Legal wants {target} renamed to {code} in all files.",
            "The data room of {code} opens on Monday.",
            "Our offer for {target} runs under the name {code}.",
        ],
        [
            "What is left to do before {code} is signed?",
            "Rewrite the term sheet of {code} so that {target} accepts the earn-out.",
            "Who on the {code} team has seen the valuation of {target}?",
            "The bank advising on {code} needs our price for {target} by noon.",
            "{code} leaks would move the share price of {target}.",
            "Put together questions and answers for staff in case {code} becomes public.",
            "Exclusivity for {code} ends next week; {target} has another bidder.",
        ],
    ),
    "unpublished_results": CategoryTexts(
        [
            "We measured a {metric} of {number} in {sample}, which is not published yet.",
            "Our manuscript reports {metric} of {number} for {sample}; it is under review.",
            "Preliminary data: {sample} show a {metric} of {number}.",
            "Before we submit: {metric} rose to {number} in {sample}.",
            "Figure 3 of the draft plots {metric} against dose for {sample}.",
            "{sample} reached {number} {metric} last night, please keep this internal.",
            "Write the abstract: we observe {metric} of {number} in {sample} for the first time.",
            "The interim analysis of {sample} gives {metric} of {number}, still blinded.",
            "Reviewer 2 asks why {metric} in {sample} is only {number}.",
            "Raw data of {sample}: {metric} {number} in three repeats.",
            "Our patent draft claims a {metric} of {number} for {sample}.",
            "Lab book, Tuesday: {sample}, {metric} {number}, to be repeated.",
        ],
        [
            "Help me word the finding that {sample} improve {metric} to {number}.",
            "Embargoed until the paper is out: {number} {metric} with {sample}.",
            "In our new experiments, {metric} for {sample} came to {number}. How do I present it?",
            "The unblinded numbers for {sample}: {metric} {number}.",
            "Polish our results section: {sample} had a {metric} of {number}, control had half.",
            "We have not told anybody that {sample} gave {number} in {metric}.",
            "Check the error bars: {metric} {number} over four runs of {sample}.",
        ],
    ),
    "source_code": CategoryTexts(
        [
            "from acme.{module} import {thing}Service, {thing}Repository",
            "class {thing}Service(AcmeService): repository = {thing}Repository.for_tenant()",
            "acme.{module}.errors.{thing}NotSettled: raised in {thing}Service.settle",
            "def settle(self, item: {thing}) -> AcmeResult[{thing}]: self.gateway.post(item)",
            "Why does {thing}Service.settle deadlock in acme.{module}?",
            "@acme_task(queue='{module}')\ndef reconcile(batch: list[{thing}]) -> None: ...",
            "acme_config.{module}: retries 3, tenant emea",
            "with AcmeSession.begin() as session: session.add({thing}(tenant=tenant))",
            "Refactor acme/{module}/service.py so that {thing}Repository is injected.",
            "assert {thing}Service(fake_gateway).settle(item).is_ok()",
            "TODO(acme): move {thing} out of {module}.legacy",
            "logger = acme_logging.get('{module}'); logger.info('settled %s', item.id)",
        ],
        [
            "import acme.{module} as {module}; repo = {module}.{thing}Repository(session)",
            "class {thing}Gateway(AcmeGateway): endpoint = '/{module}/v2'",
            "Write tests for acme.{module}.{thing}Service.cancel.",
            "Traceback: File acme/{module}/tasks.py, in reconcile; {thing}NotSettled",
            "result: AcmeResult[{thing}] = service.settle(item); result.unwrap()",
            "@acme_task(queue='{module}', retries=5)\ndef expire(item: {thing}) -> None: ...",
            "How do I mock AcmeSession in the {module} tests?",
        ],
    ),
}


def chats(sentences: list[str], fillers: list[str], seed: int) -> Iterator[str]:
    """Each sentence amid other people's questions: another kind of text than the examples."""
    rng = random.Random(seed)
    for sentence in sentences:
        around = rng.sample(fillers, 6)
        around.insert(rng.randrange(len(around) + 1), sentence)
        yield "\n\n".join(around)
