"""The summarizer that asks a model, at any endpoint that speaks OpenAI's API."""
