"""Cohere's Chat and Embed (API v2) over HTTP, as other forms of chats and embeddings."""
