"""People who chat: short questions, long ones, some streamed. Edit it to look like yours.

    locust -f loadtests/scenarios/openai_users.py --host http://127.0.0.1:8080

MODEL and API_KEY are of the environment. Locust's users wait for their answers (a closed loop):
they show how a gateway behaves under a day's work. What it can take, and its percentiles under a
given rate, are for `make load`.
"""

from __future__ import annotations

import json
import os
import random

from locust import FastHttpUser, between, task

MODEL = os.environ.get("MODEL", "echo")
HEADERS = {"authorization": f"Bearer {os.environ['API_KEY']}"} if "API_KEY" in os.environ else {}
TEXT = "what does this report say about the pumps that failed in the cold week of winter"


def question(words: int) -> dict[str, object]:
    text = " ".join(random.choices(TEXT.split(), k=words))
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 100}


class Chatting(FastHttpUser):
    wait_time = between(0.5, 2.0)

    @task(6)
    def ask(self) -> None:
        self._post("chat, short", question(20))

    @task(2)
    def ask_at_length(self) -> None:
        self._post("chat, 2 KB", question(400))

    @task(1)
    def ask_with_personal_data(self) -> None:
        """Stays on the premises, and the answer says so; a model without a place there refuses."""
        asked = question(20)
        asked["messages"] = [{"role": "user", "content": "my card is 4111 1111 1111 1111"}]
        with self._sending("chat, personal data", asked) as answer:
            if answer.status_code == 200 and answer.headers.get("x-spillway-zone") != "onprem":
                answer.failure("personal data did not stay on the premises")

    @task(3)
    def ask_for_a_stream(self) -> None:
        with self._sending("chat, streamed", {**question(20), "stream": True}) as answer:
            if answer.status_code == 200 and not answer.text.rstrip().endswith("data: [DONE]"):
                answer.failure("the stream broke off")

    def _post(self, name: str, asked: dict[str, object]) -> None:
        with self._sending(name, asked) as answer:
            if answer.status_code == 200 and not json.loads(answer.text).get("choices"):
                answer.failure("an answer without choices")

    def _sending(self, name: str, asked: dict[str, object]):
        return self.client.post(
            "/v1/chat/completions",
            json=asked,
            headers=HEADERS,
            name=name,
            catch_response=True,
        )
