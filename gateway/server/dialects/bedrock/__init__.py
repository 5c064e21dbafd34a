"""The Converse operations of Amazon Bedrock over HTTP, as another form of chats."""
