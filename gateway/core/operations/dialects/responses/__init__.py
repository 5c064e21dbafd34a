"""Responses as chats, for endpoints that serve chats alone: the call and what of it is lost.

The connector translates the answers back (`endpoints.connectors.openai.responses`).
"""

from __future__ import annotations

from typing import Final

from gateway.core.operations.chat import CHAT
from gateway.core.operations.dialects.responses.chat import chat_document, responses_field
from gateway.core.operations.dialects.responses.words import chat_needs, needs
from gateway.core.operations.spec import OperationTranslation

AS_CHAT: Final = OperationTranslation(
    operation=CHAT,
    needs=needs,
    document=chat_document,
    document_needs=chat_needs,
    field=responses_field,
)
