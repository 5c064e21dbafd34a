"""Where surrogates fit into the life of a call: only for one that would leave, decided on once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from gateway.core.errors import OnpremUnavailable
from gateway.core.operations.chat import CHAT
from gateway.core.reply import (
    Frame,
    FrameSource,
    InferenceReply,
    OneFrame,
    Receiver,
    ServerEvent,
)
from gateway.core.types import (
    ONPREM_ONLY,
    Classification,
    DocumentCall,
    InferenceRequest,
    Sensitivity,
    Zone,
)
from gateway.pipeline.pipeline import Pipeline
from gateway.scheduling.routing.policy import Policy
from tests.unit.harness import (
    ANSWERS,
    FAILS,
    MODEL,
    UNREACHABLE,
    Ended,
    Plan,
    Rig,
    ScriptedClassifier,
    Setup,
    Site,
    cloud,
    onprem,
    request,
    run,
)

MASKED = DocumentCall(CHAT, {"messages": [], "user": "masked"})


@dataclass
class ScriptedInstead:
    request: InferenceRequest
    classification: Classification
    forgotten: bool = False

    async def to_leave(self, zone: Zone) -> None: ...

    def restored(self, reply: InferenceReply) -> InferenceReply:
        return replace(reply, frames=Shouting(reply.frames))

    async def restored_whole(self, frames: OneFrame) -> tuple[OneFrame, int]:
        frame = frames.peek()
        assert isinstance(frame, ServerEvent)
        return OneFrame(ServerEvent(frame.data.upper())), 0

    def forget(self) -> None:
        self.forgotten = True


class Shouting:
    """An answer that shows that it was restored."""

    def __init__(self, frames: FrameSource) -> None:
        self._frames = frames

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        self.room = receiver.room
        self._put = receiver.put
        await self._frames.deliver(self)

    def put(self, frame: Frame) -> bool:
        assert isinstance(frame, ServerEvent)
        return self._put(ServerEvent(frame.data.upper()))

    async def aclose(self) -> None:
        await self._frames.aclose()


@dataclass
class ScriptedPseudonyms:
    doubts: bool = False
    made: list[ScriptedInstead] = field(default_factory=list)
    asked: list[Classification] = field(default_factory=list)

    async def instead(
        self, request: InferenceRequest, classification: Classification
    ) -> ScriptedInstead | None:
        self.asked.append(classification)
        if self.doubts:
            return None
        sent = replace(request, id=f"clear-{request.id}", payload=MASKED, pseudonymise=False)
        cleared = Classification(
            sent.id, Sensitivity.CLEAR, "pseudonymised", {"PERSON": 1},
            complete=True, pseudonymised={"PERSON": 2},
        )  # fmt: skip
        self.made.append(ScriptedInstead(sent, cleared))
        return self.made[-1]


def rig_of(pseudonyms: ScriptedPseudonyms | None, *sites: Site, setup: Setup | None = None) -> Rig:
    rig = Rig(*sites, setup=setup)
    rig.pipeline = Pipeline(
        rig.admission, rig.classifier, rig.snapshots, rig.entry, rig.recovery, Policy(),
        rig.dispatcher, rig.accounts,
        block_unknown=True, pseudonyms=pseudonyms,
    )  # fmt: skip
    return rig


def too_slow(*plans: Plan) -> Site:
    """A server that is expected to miss every budget here: whoever may leave does."""
    return replace(onprem(*plans), expected_ms=800)


def allowed(kind: str = "restricted", **changes: object) -> InferenceRequest:
    return replace(request(kind), pseudonymise=True, **changes)  # type: ignore[arg-type]


def seen(rig: Rig, name: str) -> list[object]:
    return [r.payload for r in rig.sites[name].connector.seen]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_that_would_leave_were_it_clear_leaves_with_surrogates(streamed: bool) -> None:
    async def main() -> None:
        pseudonyms = ScriptedPseudonyms()
        rig = rig_of(pseudonyms, too_slow(), cloud())
        asked = allowed()
        if streamed:
            asked = replace(asked, payload=DocumentCall(CHAT, {"messages": []}, True))
        ended = await rig.call(asked)
        assert ended.error is None
        assert ended.placement is not None
        assert ended.placement.zone is Zone.CLOUD
        assert ended.placement.sensitivity is Sensitivity.CLEAR
        assert ended.placement.pseudonymised == 2
        assert ended.frames
        assert all(frame == frame.upper() for frame in ended.frames)
        assert [r.payload for r in rig.cloud_seen] == [MASKED]
        record = rig.log.of(asked.id)[0]
        assert record["classify_reason"] == "pseudonymised"
        assert record["pseudonymised"] == {"PERSON": 2}
        assert record["sensitivity"] == "clear"
        assert rig.leftovers() == {}

    run(main())


def test_a_call_that_stays_anyway_is_served_as_it_is() -> None:
    async def main() -> None:
        pseudonyms = ScriptedPseudonyms()
        rig = rig_of(pseudonyms, onprem(), cloud())
        asked = allowed()
        ended = await rig.call(asked)
        assert ended.placement is not None
        assert ended.placement.zone is Zone.ONPREM
        assert seen(rig, "gpu") == [asked.payload]
        assert not pseudonyms.asked

    run(main())


@pytest.mark.parametrize(
    "case", ["not allowed", "clear", "placement", "doubts", "off"]
)  # fmt: skip
def test_who_leaves_as_before_or_stays_as_before(case: str) -> None:
    async def main() -> None:
        pseudonyms = ScriptedPseudonyms(doubts=case == "doubts")
        rig = rig_of(None if case == "off" else pseudonyms, too_slow(), cloud())
        asked = {
            "not allowed": request("restricted"),
            "clear": allowed("clear"),
            "placement": allowed(zones=ONPREM_ONLY),
        }.get(case, allowed())
        ended = await rig.call(asked)
        assert ended.placement is not None
        assert ended.placement.pseudonymised == 0
        assert (ended.placement.zone is Zone.CLOUD) == (case == "clear")
        where = "cloud" if case == "clear" else "gpu"
        assert seen(rig, where) == [asked.payload]
        assert bool(pseudonyms.asked) == (case == "doubts")

    run(main())


def test_a_call_whose_names_are_found_at_the_door_may_leave_with_surrogates() -> None:
    class AtTheDoor(ScriptedClassifier):
        async def classify(self, request: InferenceRequest) -> Classification:
            return Classification(request.id, Sensitivity.CLEAR, "clear", complete=False)

        async def complete(
            self, request: InferenceRequest, classification: Classification
        ) -> Classification:
            return replace(classification, sensitivity=Sensitivity.RESTRICTED, reason="entities")

    async def main() -> None:
        pseudonyms = ScriptedPseudonyms()
        rig = rig_of(pseudonyms, too_slow(), cloud(), setup=Setup(classifier=AtTheDoor()))
        ended = await rig.call(allowed())
        assert ended.placement is not None
        assert ended.placement.zone is Zone.CLOUD
        assert [r.payload for r in rig.cloud_seen] == [MASKED]
        assert [found.reason for found in pseudonyms.asked] == ["entities"]

    run(main())


def test_an_attempt_on_the_premises_is_never_followed_by_one_with_surrogates() -> None:
    """The zones of a call only shrink (M2): it is decided on before the first attempt."""

    async def main() -> None:
        pseudonyms = ScriptedPseudonyms()
        rig = rig_of(pseudonyms, onprem(FAILS), cloud())
        ended = await rig.call(allowed())
        assert isinstance(ended.error, OnpremUnavailable)
        assert rig.cloud_seen == []

    run(main())


def test_without_a_place_on_the_premises_it_leaves() -> None:
    async def main() -> None:
        rig = rig_of(ScriptedPseudonyms(), onprem(), cloud())
        rig.registry.states["gpu"].up = False
        ended = await rig.call(allowed())
        assert ended.placement is not None
        assert ended.placement.zone is Zone.CLOUD
        assert [r.payload for r in rig.cloud_seen] == [MASKED]

    run(main())


def test_when_the_cloud_fails_the_same_call_is_tried_on_the_premises() -> None:
    async def main() -> None:
        rig = rig_of(ScriptedPseudonyms(), too_slow(ANSWERS), cloud(UNREACHABLE))
        ended = await rig.call(allowed())
        assert ended.placement is not None
        assert ended.placement.zone is Zone.ONPREM
        assert seen(rig, "gpu") == [MASKED]
        assert all(frame == frame.upper() for frame in ended.frames)

    run(main())


def test_a_call_that_ends_without_an_answer_forgets_its_mapping() -> None:
    async def main() -> None:
        for site in (cloud(UNREACHABLE), cloud(Plan(frames=0))):
            pseudonyms = ScriptedPseudonyms()
            rig = rig_of(pseudonyms, replace(too_slow(FAILS), name="gpu"), site)
            ended: Ended = await rig.call(allowed())
            assert ended.error is not None
            assert [instead.forgotten for instead in pseudonyms.made] == [True]
            assert rig.leftovers() == {}

    run(main())


def test_an_answer_that_cannot_be_recorded_forgets_its_mapping() -> None:
    async def main() -> None:
        pseudonyms = ScriptedPseudonyms()
        rig = rig_of(pseudonyms, too_slow(), cloud())
        rig.log.full = True
        ended = await rig.call(allowed())
        assert ended.reason == "record_unwritable"
        assert [instead.forgotten for instead in pseudonyms.made] == [True]

    run(main())


def test_a_new_call_that_would_stay_is_dropped_for_the_old_one() -> None:
    """The cloud went down while the surrogates were made."""

    async def main() -> None:
        class Slow(ScriptedPseudonyms):
            async def instead(
                self, request: InferenceRequest, classification: Classification
            ) -> ScriptedInstead | None:
                rig.registry.states["cloud"].up = False
                return await super().instead(request, classification)

        pseudonyms = Slow()
        rig = rig_of(pseudonyms, too_slow(), cloud())
        asked = allowed()
        ended = await rig.call(asked)
        assert ended.placement is not None
        assert ended.placement.zone is Zone.ONPREM
        assert ended.placement.sensitivity is Sensitivity.RESTRICTED
        assert seen(rig, "gpu") == [asked.payload]
        assert [instead.forgotten for instead in pseudonyms.made] == [True]

    run(main())


def test_explain_tells_what_would_leave_and_keeps_nothing() -> None:
    async def main() -> None:
        pseudonyms = ScriptedPseudonyms()
        rig = rig_of(pseudonyms, too_slow(), cloud())
        told = await rig.pipeline.explain(allowed())
        assert told.classification.reason == "pseudonymised"
        assert told.decision is not None
        assert told.decision.attempts[0].zone is Zone.CLOUD
        assert [instead.forgotten for instead in pseudonyms.made] == [True]
        assert rig.cloud_seen == []

    run(main())


def test_a_call_that_was_tried_as_it_is_leaves_no_more_with_surrogates() -> None:
    """M2: what its first attempt could not touch no later one may. The server goes down while the
    call waits for its turn, and when something is said to be back the cloud looks better."""

    async def main() -> None:
        pseudonyms = ScriptedPseudonyms()
        rig = rig_of(pseudonyms, onprem(Plan(open_s=5.0)), cloud())
        asked = replace(allowed(), deadline=request("restricted", 9.0).deadline)
        calling = asyncio.create_task(rig.call(asked))
        await asyncio.sleep(0.1)
        state = rig.registry.states["gpu"]
        state.back_in_s = lambda: 1.0
        state.went_down()
        await asyncio.sleep(0.5)
        rig.recovery.notify(MODEL, back=True)
        state.back_in_s = lambda: None
        ended = await calling
        tried = [set(a["zones"]) for a in rig.log.of(asked.id)[-1]["attempts"]]
        assert tried, "it was tried as it is: without that there is nothing to test"
        assert all(zones == {"onprem"} for zones in tried)
        assert ended.error is not None
        assert rig.cloud_seen == []
        assert rig.leftovers() == {}

    run(main())
