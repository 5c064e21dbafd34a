"""Google's `generateContent` over HTTP, as another form of chats (Gemini API v1beta)."""
