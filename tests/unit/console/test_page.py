"""The page in a real Chromium, over a whole gateway between scripted endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.config import OperatorSettings
from tests.browser import browser, chromium, serious
from tests.live import LoopThread
from tests.unit.console.console_rig import Desk, attempt, ended, record
from tests.unit.fronts.http_rig import serving
from tests.unit.harness import request

LAPTOP = {"width": 1366, "height": 900}
OPERATORS = {
    "wall": OperatorSettings(key=SecretStr("wall-key"), may="look"),
    "oncall": OperatorSettings(key=SecretStr("oncall-key"), may="operate"),
}
LEAK = record(
    [attempt("cloud")], sensitivity="restricted", classify_reason="entities", reason="restricted"
)


@dataclass
class Hall:
    """One browser, in a loop of its own in which the gateways run, too."""

    loop: LoopThread
    browser: Any = None
    opened: Any = None

    def watch(self, test: Callable[[Watched], Awaitable[None]], **how: Any) -> None:
        async def main() -> None:
            async with watched(self.browser, **how) as look:
                await test(look)
            assert look.errors == []

        self.loop.run(main())


@dataclass
class Watched:
    desk: Desk
    page: Any
    url: str
    asked: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    async def text(self, selector: str) -> str:
        return str(await self.page.locator(selector).first.inner_text())

    async def says(self, selector: str, text: str) -> None:
        await self.page.locator(selector).filter(has_text=text).first.wait_for(timeout=10_000)


@pytest.fixture(scope="module")
def hall() -> Iterator[Hall]:
    path = chromium()
    hall = Hall(LoopThread())
    opening = browser(path)
    hall.browser = hall.loop.run(opening.__aenter__())
    yield hall
    hall.loop.run(opening.__aexit__(None, None, None))
    hall.loop.close()


@asynccontextmanager
async def watched(
    opened: Any,
    desk: Callable[[], Desk] = Desk,
    size: Mapping[str, int] = LAPTOP,
    ready: str = "#promise",
    **looks: Any,
) -> AsyncIterator[Watched]:
    made = desk()
    async with serving(made.app()) as port:
        url = f"http://127.0.0.1:{port}"
        page = await opened.new_page(viewport=dict(size), **looks)
        found = Watched(made, page, url)
        page.on("request", lambda asked: found.asked.append(asked.url))
        page.on("pageerror", lambda error: found.errors.append(str(error)))
        await page.clock.install()
        await page.goto(f"{url}/console")
        await page.locator(ready).wait_for(timeout=15_000)
        try:
            yield found
        finally:
            made.feed.close()
            await page.close()


async def some_calls(desk: Desk) -> None:
    for kind in ("clear", "restricted", "clear"):
        await desk.rig.call(request(kind, 5.0))
    desk.rig.registry.drain("gpu", True)
    await desk.rig.call(request("clear", 5.0))
    await desk.rig.call(request("restricted", 5.0))
    desk.rig.registry.drain("gpu", False)


def test_calls_are_seen_where_they_went_as_they_go(hall: Hall) -> None:
    async def test(look: Watched) -> None:
        assert "0" in await look.text("#promise .figure")
        await some_calls(look.desk)
        await look.says("#total .figure", "5")
        await look.says("#missed .figure", "1")
        await look.says("#share .label", "(1)")
        rows = look.page.locator(".decision")
        assert await rows.count() == 5
        newest = await rows.nth(0).inner_text()
        assert "restricted" in newest
        assert "never to the cloud" in newest
        assert "cloud" in await rows.nth(1).inner_text()
        assert await look.page.locator(".band.restricted").count() >= 2
        label = await look.page.locator("svg.flow").get_attribute("aria-label")
        assert "through the classes" in label

    hall.watch(test)


def test_a_person_who_has_read_nothing_learns_why_a_call_stayed(hall: Hall) -> None:
    async def test(look: Watched) -> None:
        await some_calls(look.desk)
        await look.page.locator(".decision.none.restricted").click()
        await look.says("#explanation .headline", "never to the cloud")
        told = await look.text("#explanation")
        assert "It was allowed on the premises only, because it is restricted." in told
        assert "an operator drained it: no new calls" in told
        assert "restricted data may never go there" in told
        assert "onprem_unavailable_restricted" in told
        assert "1 x PERSON" in told

    hall.watch(test)


def test_all_of_it_works_with_the_keyboard_alone(hall: Hall) -> None:
    async def test(look: Watched) -> None:
        await some_calls(look.desk)
        await look.says("#total .figure", "5")
        keys = look.page.keyboard
        await keys.press("Tab")
        assert await _focused(look) == "To the decisions"
        await keys.press("Enter")
        await keys.press("Tab")  # what is shown
        await keys.press("Tab")
        first = await _focused(look)
        await keys.press("ArrowDown")
        second = await _focused(look)
        assert first != second
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert await look.page.evaluate(outline) == "solid"
        await keys.press("Enter")
        await look.page.locator("#explanation .headline").wait_for()
        await keys.press("Escape")
        await look.page.locator("#explanation").wait_for(state="detached")
        assert await _focused(look) == second
        await keys.press("End")
        await keys.press("Tab")  # one stop for the whole list
        assert await look.page.evaluate("document.activeElement.closest('.decisions')") is None

    hall.watch(test)


async def _focused(look: Watched) -> str:
    return str(await look.page.evaluate("document.activeElement.innerText"))


def test_the_list_stands_still_while_somebody_is_in_it(hall: Hall) -> None:
    async def test(look: Watched) -> None:
        await some_calls(look.desk)
        await look.says("#total .figure", "5")
        await look.page.locator(".decision").nth(1).focus()
        before = await look.page.locator(".decision").all_inner_texts()
        await look.desk.rig.call(request("clear"))
        await look.says("#held", "1 newer")
        assert await look.page.locator(".decision").all_inner_texts() == before
        await look.page.locator("#theme").focus()
        await look.page.clock.run_for(100)
        await look.page.locator(".decision").nth(5).wait_for()

    hall.watch(test)


def test_a_restricted_call_in_the_cloud_is_an_alarm_that_nobody_overlooks(hall: Hall) -> None:
    async def test(look: Watched) -> None:
        look.desk.decisions.take([ended(LEAK)])
        await look.page.locator("#promise.broken").wait_for()
        told = await look.text("#promise")
        assert "✕" in told  # said by a mark and in words, not by colour alone
        assert "1" in told
        alarm = look.page.locator("[role=alert] #alarm")
        assert "1 restricted in the cloud" in await alarm.inner_text()
        await look.page.evaluate("scrollTo(0, document.body.scrollHeight)")
        assert (await alarm.bounding_box())["y"] == 0  # wherever one reads
        assert await serious(look.page) == []

    hall.watch(test)


def test_old_figures_are_said_to_be_old_and_the_page_comes_back_by_itself(hall: Hall) -> None:
    async def test(look: Watched) -> None:
        await some_calls(look.desk)
        await look.says("#total .figure", "5")
        assert await look.page.locator("#stale").count() == 0
        assert look.desk.feed._task is not None
        look.desk.feed._task.cancel()  # the line is open and nobody speaks
        await look.page.clock.run_for(6000)
        await look.says("#stale", "the figures below are old")
        await look.page.evaluate("scrollTo(0, document.body.scrollHeight)")
        assert (await look.page.locator("#stale").bounding_box())["y"] == 0
        assert await look.page.locator("main.stale").count() == 1
        assert await look.page.locator("#connection.lost").count() == 1
        assert await look.page.locator("[data-endpoint] button:enabled").count() == 0
        assert await serious(look.page) == []
        await look.desk.rig.call(request("clear"))
        await look.page.clock.run_for(4000)  # it gives the line up and opens another
        await look.says("#total .figure", "6")
        await look.page.locator("#stale").wait_for(state="detached")

    hall.watch(test)


def test_it_fits_from_a_telephone_to_a_wall(hall: Hall) -> None:
    cut = """[...document.querySelectorAll('svg.flow text')].filter(t => {
        const b = t.getBBox(), s = t.ownerSVGElement.viewBox.baseVal;
        return b.x < -1 || b.x + b.width > s.width + 1;
    }).map(t => t.textContent)"""

    drawn = """Math.abs(document.querySelector('svg.flow').clientWidth
        - document.querySelector('.drawing').clientWidth) <= 1"""

    async def test(look: Watched) -> None:
        await some_calls(look.desk)
        await look.says("#total .figure", "5")
        for width in (360, 768, 1366, 3840):
            await look.page.set_viewport_size({"width": width, "height": 900})
            async with asyncio.timeout(10):
                while not await look.page.evaluate(drawn):  # noqa: ASYNC110 - the browser draws
                    await asyncio.sleep(0.02)
            assert await look.page.evaluate("document.documentElement.scrollWidth") <= width
            assert await look.page.evaluate(cut) == []
            await look.page.locator(".decision").first.click()
            await look.page.locator("#explanation .headline").wait_for()
            assert await look.page.evaluate("document.documentElement.scrollWidth") <= width
            await look.page.keyboard.press("Escape")

    hall.watch(test)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_people_out_in_light_or_dark(hall: Hall, scheme: str) -> None:
    async def test(look: Watched) -> None:
        await some_calls(look.desk)
        await look.says("#total .figure", "5")
        for summary in await look.page.locator("summary").all():
            await summary.click()
        assert await serious(look.page) == []
        await look.page.locator(".decision").first.click()
        await look.page.locator("#explanation .headline").wait_for()
        assert await serious(look.page) == []

    hall.watch(test, color_scheme=scheme)


def test_dark_and_light_can_be_chosen_against_the_system(hall: Hall) -> None:
    async def test(look: Watched) -> None:
        ground = "getComputedStyle(document.body).backgroundColor"
        seen = [await look.page.evaluate(ground)]
        for _ in range(3):  # light, dark, as the system says
            await look.page.locator("#theme").click()
            seen.append(await look.page.evaluate(ground))
        light, dark = "rgb(243, 245, 247)", "rgb(13, 19, 24)"
        assert seen == [dark, light, dark, dark]

    hall.watch(test, color_scheme="dark")


@pytest.mark.parametrize(("motion", "moves"), [("reduce", "none"), ("no-preference", "run")])
def test_nothing_moves_for_those_who_asked_for_that(hall: Hall, motion: str, moves: str) -> None:
    async def test(look: Watched) -> None:
        await look.desk.rig.call(request("clear"))
        await look.page.locator(".drops").first.wait_for(state="attached")
        name = "getComputedStyle(document.querySelector('.drops')).animationName"
        assert await look.page.evaluate(name) == moves

    hall.watch(test, reduced_motion=motion)


def test_it_asks_nothing_of_anybody_but_its_gateway(hall: Hall) -> None:
    async def test(look: Watched) -> None:
        await some_calls(look.desk)
        await look.says("#total .figure", "5")
        assert look.asked
        assert [url for url in look.asked if not url.startswith(f"{look.url}/console")] == []

    hall.watch(test)


def test_it_takes_an_operators_key_and_what_it_may_shows(hall: Hall) -> None:
    async def test(look: Watched) -> None:
        assert await serious(look.page) == []
        await look.page.locator("#key").fill("nobody")
        await look.page.keyboard.press("Enter")
        await look.says("form .bad", "operator's key")
        await look.page.locator("#key").fill("wall-key")
        await look.page.keyboard.press("Enter")
        await look.says("header", "wall, looking only")
        assert await look.page.locator("[data-endpoint] button:enabled").count() == 0
        await look.page.get_by_role("button", name="Sign out").click()
        await look.page.locator("#key").fill("oncall-key")
        await look.page.keyboard.press("Enter")
        await look.page.locator("[data-endpoint=gpu] button:enabled").wait_for()

    hall.watch(test, desk=lambda: Desk(operators=OPERATORS, keys_configured=True), ready="#key")


def test_an_endpoint_is_drained_and_taken_back_by_two_presses_each(hall: Hall) -> None:
    async def test(look: Watched) -> None:
        def drained() -> bool:
            return look.desk.rig.registry.states["gpu"].drained

        row = look.page.locator("[data-endpoint=gpu]")
        await row.get_by_role("button").click()
        assert not drained()  # one press asks
        await look.page.clock.run_for(6000)
        await row.get_by_role("button", name="drain gpu", exact=True).click()
        assert not drained()  # and is forgotten
        await row.get_by_role("button", name="Press again to drain gpu").click()
        await look.says("[data-endpoint=gpu] .state", "drained")
        assert drained()
        assert "gpu gets no new calls" in await look.page.locator("p[role=status]").inner_text()
        for name in ("un-drain gpu", "Press again to un-drain gpu"):
            await row.get_by_role("button", name=name, exact=True).click()
        await look.says("[data-endpoint=gpu] .state", "up")
        assert not drained()

    hall.watch(test)


def test_the_kill_switch_is_turned_on_the_page(hall: Hall, tmp_path: Path) -> None:
    file = tmp_path / "stop"

    async def test(look: Watched) -> None:
        button = look.page.locator("#switch button")
        await button.click()
        await button.click()
        await look.says("#switch", "Spilling is stopped.")
        assert file.exists()
        await button.click()
        await button.click()
        await look.says("#switch", "Clear calls may leave.")
        assert not file.exists()

    hall.watch(test, desk=lambda: Desk(stop_file=file))


def test_what_an_operator_does_elsewhere_is_seen(hall: Hall, tmp_path: Path) -> None:
    file = tmp_path / "stop"

    async def test(look: Watched) -> None:
        file.touch()
        await look.says("#switch", "Spilling is stopped.")
        look.desk.rig.registry.states["cloud"].went_down()
        await look.says("[data-endpoint=cloud] .state", "down")
        await asyncio.sleep(0)

    hall.watch(test, desk=lambda: Desk(stop_file=file))
