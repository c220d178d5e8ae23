"""Dialects: the shapes in which providers take a conversation, and their way to chat and back.

Inside turnmill a conversation has the shape of the OpenAI chat API. What that has no field for is
carried in a message's field ``native``, so that a message comes back as it came.
"""
