"""The features of calls in Google's, Bedrock's and Cohere's words, by the names of `features`."""

from __future__ import annotations

import json
from typing import Any

Document = dict[str, Any]
SCHEMA = {
    "type": "object", "properties": {"w-a": {"type": "string"}}, "required": ["w-a"],
    "additionalProperties": False,
}  # fmt: skip


def content(*parts: Document, role: str = "user") -> Document:
    return {"role": role, "parts": list(parts)}


def contents(*turns: Document) -> Document:
    return {"contents": [G_HI, *turns, G_HI]}


def config(**fields: Any) -> Document:
    return {"generationConfig": fields}


def google_tools(mode: Document | None = None, **tool: Any) -> Document:
    declared = {"name": "w-f", "parametersJsonSchema": SCHEMA, **tool}
    made: Document = {"tools": [{"functionDeclarations": [declared]}]}
    return made if mode is None else {**made, "toolConfig": {"functionCallingConfig": mode}}


def google_used(**response: Any) -> Document:
    call = {"functionCall": {"id": "w-1", "name": "w-f", "args": {"w-a": 1}}}
    given = {"functionResponse": {"id": "w-1", "name": "w-f", **response}}
    return {"contents": [G_HI, content(call, role="model"), content(given)], **google_tools()}


G_HI = content({"text": "w-hi"})
G_IMAGE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
SIGNED = "dGhpbmtpbmc6YzJsbg=="  # a mark and `c2ln`
GOOGLE: dict[str, Document] = {
    "text": {},
    "text-parts": {"contents": [content({"text": "w-a"}, {"text": "w-b"})]},
    "turns": contents(content({"text": "w-a"}, role="model")),
    "system": {"systemInstruction": {"parts": [{"text": "w-s"}]}},
    "system-blocks": {"systemInstruction": {"parts": [{"text": "w-s"}, {"text": "w-z"}]}},
    "prefill": {"contents": [G_HI, content({"text": "w-a"}, role="model")]},
    "image": contents(content({"text": "w-t"}, G_IMAGE)),
    "image-url": contents(
        content({"fileData": {"mimeType": "image/png", "fileUri": "https://w-a.example/a.png"}})
    ),
    "pdf": contents(
        content(
            {"text": "w-t"},
            {"inlineData": {
                "mimeType": "application/pdf", "data": "AAAA", "displayName": "w-a"}},
        )
    ),
    "pdf-url": contents(
        content(
            {"fileData": {"mimeType": "application/pdf", "fileUri": "https://w-a.example/a.pdf"}}
        )
    ),
    "audio": contents(content({"inlineData": {"mimeType": "audio/wav", "data": "AA"}})),
    "tools": google_tools(description="w-d"),
    "strict-tools": google_tools({"mode": "VALIDATED"}),
    "tool-choice-auto": google_tools({"mode": "AUTO"}),
    "tool-choice-any": google_tools({"mode": "ANY"}),
    "tool-choice-none": google_tools({"mode": "NONE"}),
    "tool-choice-named": google_tools({"mode": "ANY", "allowedFunctionNames": ["w-f"]}),
    "tool-result": google_used(response={"output": "w-r"}),
    "tool-result-image": google_used(response={"output": "w-r"}, parts=[G_IMAGE]),
    "tool-error": google_used(response={"error": "w-r"}),
    "text-behind-a-call": contents(
        content({"functionCall": {"name": "w-f"}}, {"text": "w-b"}, role="model")
    ),
    "server-tools": {"tools": [{"codeExecution": {}}]},
    "web-search": {"tools": [{"googleSearch": {}}]},
    "json-schema": config(responseMimeType="application/json", responseJsonSchema=SCHEMA),
    "json-object": config(responseMimeType="application/json"),
    "max-tokens": config(maxOutputTokens=77),
    "temperature": config(temperature=0.5),
    "top-p": config(topP=0.5),
    "top-k": config(topK=40),
    "seed": config(seed=7),
    "penalties": config(presencePenalty=0.5),
    "stop": config(stopSequences=["w-x"]),
    "choices": config(candidateCount=2),
    "logprobs": config(responseLogprobs=True),
    "effort": config(thinkingConfig={"thinkingLevel": "LOW"}),
    "thinking": config(thinkingConfig={"includeThoughts": True}),
    "thinking-budget": config(thinkingConfig={"thinkingBudget": 2000}),
    "no-thinking": config(thinkingConfig={"thinkingBudget": 0}),
    "signed-thoughts": contents(
        content(
            {"text": "w-thought", "thought": True, "thoughtSignature": SIGNED},
            {"text": "w-a"},
            role="model",
        )
    ),
    "unsigned-thoughts": contents(
        content({"text": "w-t", "thought": True}, {"text": "w-a"}, role="model")
    ),
    "service-tier": {"serviceTier": "standard"},
}  # fmt: skip


def turns(*messages: Document) -> Document:
    return {"messages": [B_HI, *messages, B_HI]}


def said(*blocks: Document, role: str = "user") -> Document:
    return {"role": role, "content": list(blocks)}


def bedrock_tools(choice: Document | None = None, **tool: Any) -> Document:
    spec = {"name": "w-f", "inputSchema": {"json": SCHEMA}, **tool}
    made: Document = {"tools": [{"toolSpec": spec}]}
    return {"toolConfig": made if choice is None else {**made, "toolChoice": choice}}


def bedrock_used(*blocks: Document, **result: Any) -> Document:
    call = {"toolUse": {"toolUseId": "w-1", "name": "w-f", "input": {"w-a": 1}}}
    given = {"toolResult": {"toolUseId": "w-1", "content": list(blocks), **result}}
    return {"messages": [B_HI, said(call, role="assistant"), said(given)], **bedrock_tools()}


def inference(**fields: Any) -> Document:
    return {"inferenceConfig": fields}


def own(**fields: Any) -> Document:
    return {"additionalModelRequestFields": fields}


def paper(source: Document, **more: Any) -> Document:
    return turns(said({"text": "w-t"}, {"document": {"name": "w-a", "source": source, **more}}))


B_HI = said({"text": "w-hi"})
B_IMAGE = {"image": {"format": "png", "source": {"bytes": "AAAA"}}}
POINT = {"cachePoint": {"type": "default"}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "w-thought", "signature": "c2ln"}}}
BEDROCK: dict[str, Document] = {
    "text": {},
    "text-parts": {"messages": [said({"text": "w-a"}, {"text": "w-b"})]},
    "turns": turns(said({"text": "w-a"}, role="assistant")),
    "system": {"system": [{"text": "w-s"}]},
    "system-blocks": {"system": [{"text": "w-s"}, {"text": "w-z"}]},
    "later-system": turns(said({"text": "w-s"}, role="system")),
    "prefill": {"messages": [B_HI, said({"text": "w-a"}, role="assistant")]},
    "image": turns(said({"text": "w-t"}, B_IMAGE)),
    "pdf": paper({"bytes": "AAAA"}, format="pdf"),
    "text-document": paper({"text": "w-b"}),
    "document-context": paper({"text": "w-b"}, context="w-c"),
    "citations": paper({"text": "w-b"}, citations={"enabled": True}),
    "audio": turns(said({"audio": {"format": "wav", "source": {"bytes": "AA"}}})),
    "tools": bedrock_tools(description="w-d"),
    "strict-tools": bedrock_tools(strict=True),
    "tool-choice-auto": bedrock_tools({"auto": {}}),
    "tool-choice-any": bedrock_tools({"any": {}}),
    "tool-choice-named": bedrock_tools({"tool": {"name": "w-f"}}),
    "tool-result": bedrock_used({"text": "w-r"}),
    "tool-result-parts": bedrock_used({"json": {"w-r": 1}}, {"text": "w-x"}),
    "tool-result-image": bedrock_used(B_IMAGE),
    "tool-error": bedrock_used({"text": "w-r"}, status="error"),
    "text-behind-a-call": turns(
        said(
            {"toolUse": {"toolUseId": "w-1", "name": "w-f", "input": {}}},
            {"text": "w-b"},
            role="assistant",
        )
    ),
    "server-tools": {"toolConfig": {"tools": [{"systemTool": {"name": "web"}}]}},
    "json-schema": {
        "outputConfig": {
            "textFormat": {
                "type": "json_schema",
                "structure": {"jsonSchema": {"schema": json.dumps(SCHEMA), "name": "w-n"}},
            }
        }
    },
    "max-tokens": inference(maxTokens=77),
    "temperature": inference(temperature=0.5),
    "top-p": inference(topP=0.5),
    "top-k": own(top_k=40),
    "stop": inference(stopSequences=["w-x"]),
    "effort": {"outputConfig": {"effort": "low"}},
    "effort-max": {"outputConfig": {"effort": "max"}},
    "thinking": own(thinking={"type": "adaptive"}),
    "thinking-budget": own(thinking={"type": "enabled", "budget_tokens": 2000}),
    "no-thinking": own(thinking={"type": "disabled"}),
    "signed-thoughts": turns(said(THOUGHT, {"text": "w-a"}, role="assistant")),
    "unsigned-thoughts": turns(
        said(
            {"reasoningContent": {"reasoningText": {"text": "w-t"}}},
            {"text": "w-a"},
            role="assistant",
        )
    ),
    "redacted-thoughts": turns(
        said(
            {"reasoningContent": {"redactedContent": "ZHkxNA=="}}, {"text": "w-a"}, role="assistant"
        )
    ),
    "cache-marks": turns(said({"text": "w-a"}, POINT)),
    "cached-tools": {"toolConfig": {"tools": [*bedrock_tools()["toolConfig"]["tools"], POINT]}},
    "service-tier": {"serviceTier": {"type": "default"}},
}


def cohere_tools(**fields: Any) -> Document:
    function = {"name": "w-f", "parameters": SCHEMA}
    return {"tools": [{"type": "function", "function": function}], **fields}


def cohere_used(result: Any) -> Document:
    function = {"name": "w-f", "arguments": '{"w-a": 1}'}
    call = {"id": "w-1", "type": "function", "function": function}
    answer = {"role": "assistant", "tool_plan": "w-p", "tool_calls": [call]}
    given = {"role": "tool", "tool_call_id": "w-1", "content": result}
    return {"messages": [C_HI, answer, given], **cohere_tools()}


def spoken(*messages: Document) -> Document:
    return {"messages": [C_HI, *messages, C_HI]}


def text(words: str) -> Document:
    return {"type": "text", "text": words}


C_HI: Document = {"role": "user", "content": "w-hi"}
COHERE: dict[str, Document] = {
    "text": {},
    "text-parts": {"messages": [{"role": "user", "content": [text("w-a"), text("w-b")]}]},
    "turns": spoken({"role": "assistant", "content": "w-a"}),
    "system": {"messages": [{"role": "system", "content": "w-s"}, C_HI]},
    "system-blocks": {"messages": [{"role": "system", "content": [text("w-s")]}, C_HI]},
    "later-system": spoken({"role": "system", "content": "w-s"}),
    "prefill": {"messages": [C_HI, {"role": "assistant", "content": "w-a"}]},
    "image": spoken(
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        }
    ),
    "image-url": spoken(
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "https://w-a.example"}}],
        }
    ),
    "citations": {"documents": [{"data": {"text": "w-a"}}]},
    "tools": cohere_tools(),
    "strict-tools": cohere_tools(strict_tools=True),
    "tool-choice-any": cohere_tools(tool_choice="REQUIRED"),
    "tool-choice-none": cohere_tools(tool_choice="NONE"),
    "tool-result": cohere_used("w-r"),
    "tool-result-parts": cohere_used([{"type": "document", "document": {"data": {"w-x": "w-r"}}}]),
    "json-schema": {"response_format": {"type": "json_object", "json_schema": SCHEMA}},
    "json-object": {"response_format": {"type": "json_object"}},
    "max-tokens": {"max_tokens": 77},
    "temperature": {"temperature": 0.5},
    "top-p": {"p": 0.5},
    "top-k": {"k": 40},
    "seed": {"seed": 7},
    "penalties": {"presence_penalty": 0.5},
    "stop": {"stop_sequences": ["w-x"]},
    "logprobs": {"logprobs": True},
    "effort": {"thinking": {"type": "enabled"}},
    "thinking-budget": {"thinking": {"type": "enabled", "token_budget": 2000}},
    "no-thinking": {"thinking": {"type": "disabled"}},
    "unsigned-thoughts": spoken(
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "w-t"}, text("w-a")]}
    ),
    "stream": {"stream": True},
}
BODIES: dict[str, tuple[Document, dict[str, Document]]] = {
    "gemini": ({"contents": [G_HI]}, GOOGLE),
    "converse": ({"messages": [B_HI]}, BEDROCK),
    "cohere": ({"model": "m", "messages": [C_HI]}, COHERE),
}
"""By its front, a plain call, and the fields of each feature that it can say."""
