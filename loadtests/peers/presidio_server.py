"""Presidio's analyzer and anonymizer behind the routes of its containers, for LiteLLM's guardrail.

It runs in an environment of its own: `python presidio_server.py PORT FOLDER`. Its language pipeline
is a blank one, which costs nearly nothing and finds no names; recognizers and their patterns are
Presidio's own. The containers run the same engines in Flask, which costs more.
"""

from __future__ import annotations

import sys
from typing import Any

import spacy
import uvicorn
from presidio_analyzer import AnalyzerEngine
from presidio_analyzer.nlp_engine import NlpEngineProvider
from presidio_anonymizer import AnonymizerEngine
from presidio_anonymizer.entities import RecognizerResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


def engine(folder: str) -> Any:
    spacy.blank("en").to_disk(folder)
    models = [{"lang_code": "en", "model_name": folder}]
    provider = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models})
    return AnalyzerEngine(nlp_engine=provider.create_engine(), supported_languages=["en"])


def application(folder: str) -> Starlette:
    analyzer: Any = engine(folder)
    anonymizer: Any = AnonymizerEngine()  # type: ignore[no-untyped-call]

    async def analyze(request: Request) -> JSONResponse:
        asked = await request.json()
        found = analyzer.analyze(
            text=asked["text"], language=asked.get("language", "en"), entities=asked.get("entities")
        )
        return JSONResponse([result.to_dict() for result in found])

    async def anonymize(request: Request) -> JSONResponse:
        asked = await request.json()
        found = [
            RecognizerResult(r["entity_type"], r["start"], r["end"], r["score"])
            for r in asked["analyzer_results"]
        ]
        done = anonymizer.anonymize(text=asked["text"], analyzer_results=found)
        items = [
            {"start": i.start, "end": i.end, "entity_type": i.entity_type, "text": i.text}
            for i in done.items
        ]
        return JSONResponse({"text": done.text, "items": items})

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    return Starlette(
        routes=[
            Route("/analyze", analyze, methods=["POST"]),
            Route("/anonymize", anonymize, methods=["POST"]),
            Route("/health", health),
        ]
    )


if __name__ == "__main__":
    uvicorn.run(
        application(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), log_level="error"
    )
